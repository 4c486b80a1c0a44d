"""Parameters that neither a client nor a dependency fills: claims, and the environment."""

from __future__ import annotations

import os
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from mcpkit._signature.hints import ANNOTATED
from mcpkit._signature.signature import Parameter
from mcpkit._utils.json import UNSET
from mcpkit.context import Context
from mcpkit.dependencies import Claim, Env
from mcpkit.errors import Forbidden, MissingEnvironment, RegistrationError

__all__ = ["Given"]


class Given:
    """Where the value of such a parameter is from, and what it has to be.

    Args:
        parameter: With a mark.
        where: Of the function, for messages.

    Raises:
        RegistrationError: Nothing can be made of the annotation.
    """

    __slots__ = ("_adapter", "_default", "_mark")

    def __init__(self, parameter: Parameter, where: str) -> None:
        assert parameter.given is not None
        self._mark: Claim | Env = parameter.given
        self._default = parameter.default
        annotation = parameter.annotation
        self._adapter: TypeAdapter[Any] | None = None
        plain = annotation.__origin__ if type(annotation) is ANNOTATED else annotation
        if isinstance(self._mark, Claim) or plain is not str:
            try:
                self._adapter = TypeAdapter(annotation)
            except PydanticUserError:
                raise RegistrationError(
                    f"{where}: {parameter.name} has a type that no {type(self._mark).__name__} "
                    f"could be; write str, or another type of JSON"
                ) from None

    @property
    def needs(self) -> str | None:
        """The variable of the environment that has to be there; None if none has to."""
        return self._mark.name if isinstance(self._mark, Env) and self._default is UNSET else None

    def value(self, context: Context[Any]) -> Any:
        """Return the value for a call.

        Raises:
            Forbidden: The principal has no such claim.
            MissingEnvironment: There is no such variable.
        """
        mark = self._mark
        return self._claim(mark, context) if isinstance(mark, Claim) else self._variable(mark)

    def _claim(self, mark: Claim, context: Context[Any]) -> Any:
        principal = context.request.principal
        found: Any = UNSET if principal is None else principal.claims.get(mark.name, UNSET)
        if found is UNSET or found is None:
            if self._default is not UNSET:
                return self._default
            if principal is None:
                raise Forbidden(
                    f"This is for those who are logged in, with a claim {mark.name!r}", status=401
                )
            raise Forbidden(f"Your token has no claim {mark.name!r}")
        assert self._adapter is not None
        try:
            return self._adapter.validate_python(found)
        except ValidationError:  # whose text has the value (SEC-13)
            raise Forbidden(f"The claim {mark.name!r} of your token does not fit") from None

    def _variable(self, mark: Env) -> Any:
        found = os.environ.get(mark.name)
        if not found:
            if self._default is not UNSET:
                return self._default
            raise MissingEnvironment([mark.name])
        if self._adapter is None:
            return found
        try:
            return self._adapter.validate_python(found)
        except ValidationError:  # whose text has the value (SEC-13)
            raise MissingEnvironment(
                [mark.name], "does not fit its type in the environment"
            ) from None
