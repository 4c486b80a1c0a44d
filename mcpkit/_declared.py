"""Questions declared as parameters: asked before the handler runs, so that nothing is replayed.

``async def delete(path: str, sure: Annotated[Confirm, Elicit("Really?")]) -> str: ...``
"""

from __future__ import annotations

import copy
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast, get_args, get_origin

from mcpkit._forms import Form
from mcpkit._protocol.input_request import Ask
from mcpkit._signature.signature import Parameter
from mcpkit._utils.json import UNSET
from mcpkit.elicitation import Accepted, Declined, Dismissed, Elicit
from mcpkit.errors import ElicitationError, RegistrationError
from mcpkit.roots import Roots
from mcpkit.sampling import Sample, SampleResult

__all__ = ["InputParameter"]


class InputParameter:
    """A parameter that is asked for.

    Args:
        parameter: With its question.
        where: For messages.

    Raises:
        RegistrationError: The question and the type of the parameter do not fit together.
    """

    __slots__ = ("_arguments", "_ask", "_message", "_whole", "name")

    def __init__(self, parameter: Parameter, where: str) -> None:
        self.name = parameter.name
        self._arguments: tuple[str, ...] = ()
        self._message: Callable[..., str] | None = None
        annotation = parameter.annotation
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        ask = copy.copy(cast("Ask[Any]", parameter.ask))
        if ask.key is None:
            ask.key = parameter.name
        self._whole = False
        if isinstance(ask, Elicit):
            self._whole, wanted = _answer_type(annotation)
            if ask.schema is UNSET:
                try:
                    ask.form = Form(wanted)
                except ElicitationError as error:
                    raise RegistrationError(f"{where}: {parameter.name}: {error}") from error
            if callable(ask.message):
                self._message = ask.message
                self._arguments = tuple(inspect.signature(ask.message).parameters)
        elif isinstance(ask, Sample):
            if annotation not in (str, SampleResult):
                raise RegistrationError(
                    f"{where}: {parameter.name}: what a model says is a str or a SampleResult"
                )
            self._whole = annotation is SampleResult
        elif not isinstance(ask, Roots):
            raise RegistrationError(f"{where}: {parameter.name}: use Elicit, Sample or Roots")
        self._ask: Ask[Any] = ask

    def question(self, values: Mapping[str, Any]) -> Ask[Any]:
        """Return the question, made with the handler's arguments."""
        if self._message is None:
            return self._ask
        made: Elicit[Any] = copy.copy(cast("Elicit[Any]", self._ask))
        made.message = self._message(**{name: values.get(name) for name in self._arguments})
        return made

    def value(self, answer: Any) -> Any:
        """Return the value that the handler is given for an answer.

        Raises:
            ToolError: The user did not agree, and the handler does not take that into account.
        """
        if self._whole or isinstance(self._ask, Roots):
            return answer
        if isinstance(answer, SampleResult):
            return answer.text
        return answer.data


def _answer_type(annotation: Any) -> tuple[bool, Any]:
    """Return True if a parameter takes the whole answer, and the type of the data in it."""
    parts = get_args(annotation)
    is_union = get_origin(annotation) in (typing.Union, types.UnionType)
    for part in parts if is_union else (annotation,):
        if get_origin(part) is Accepted:
            return True, get_args(part)[0]
        if part is Accepted:
            return True, None
    if is_union and (Declined in parts or Dismissed in parts):
        return True, None
    return False, annotation
