"""Functions that make an app, called with the flags of a command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class FlagError(Exception):
    """The flags do not fit the function."""


def called_with(function: Callable[..., Any], flags: Sequence[str], name: str) -> Any:
    """Return what a function returns, with a flag for each parameter: ``--name value``.

    An async function runs to its end in an event loop of its own.

    Args:
        function: Its parameters may have annotations of Typer's.
        flags: As on a command line.
        name: What the help calls it.

    Raises:
        FlagError: The flags do not fit.
        typer.Exit: They asked for help, which has been shown.
        Exception: The function raised it.
    """
    raised: list[BaseException] = []
    made: list[Any] = []
    checks = _checks(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            for each in checks.keys() & kwargs.keys():
                kwargs[each] = checks[each](kwargs[each])
            found = function(*args, **kwargs)
            if inspect.isawaitable(found):
                from mcpkit._concurrency.loop import run_loop  # loads an event loop

                found = run_loop(_result_of, found)
            made.append(found)
        except Exception as error:
            raised.append(error)  # click has exceptions of its own, and would take some of these

    call.__signature__ = _flagged(function)  # type: ignore[attr-defined]
    call.__annotations__ = {
        each.name: each.annotation for each in inspect.signature(call).parameters.values()
    }
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command()(call)
    try:
        typer.main.get_command(alone).main([*flags], prog_name=name, standalone_mode=False)
    except Exception as error:
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        raise FlagError(said()) from None
    if raised:
        raise raised[0]
    if not made:
        raise typer.Exit
    return made[0]


def _checks(function: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    """Return what checks the values of parameters whose annotation says more than a type.

    Raises:
        FlagError: Pydantic knows nothing of such a type.
    """
    hints = get_type_hints(function, include_extras=True)
    found: dict[str, Callable[[Any], Any]] = {}
    for each in inspect.signature(function).parameters.values():
        annotation = hints.get(each.name)
        if get_origin(annotation) is not Annotated:
            continue
        if any(not isinstance(one, (ParameterInfo, str)) for one in get_args(annotation)[1:]):
            found[each.name] = _check(each, annotation)
    return found


def _check(parameter: inspect.Parameter, annotation: Any) -> Callable[[Any], Any]:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    flag = f"--{parameter.name.replace('_', '-')}"
    try:
        validate = TypeAdapter(annotation).validate_python
    except PydanticUserError as error:
        why = error.message.partition("\n")[0]
        raise FlagError(f"{flag} cannot be checked: {why}") from None

    def check(value: Any) -> Any:
        if value is parameter.default:  # as pydantic takes defaults
            return value
        try:
            return validate(value)
        except ValidationError as error:
            said = "; ".join(each["msg"] for each in error.errors())
            raise FlagError(f"Invalid value for '{flag}': {said}") from None

    return check


async def _result_of(found: Any) -> Any:
    return await found


def _flagged(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature in which every parameter is a flag, unless it says something else.

    Raises:
        FlagError: A parameter cannot be a flag.
    """
    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.kind in _POSITIONAL or each.kind is inspect.Parameter.VAR_KEYWORD:
            raise FlagError(f"the parameter {each} cannot be a flag")
        annotation = hints.get(each.name, str)
        told = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        if not any(isinstance(one, ParameterInfo) for one in (*told, each.default)):
            annotation = Annotated[annotation, typer.Option()]
        parameters.append(each.replace(annotation=annotation))
    return signature.replace(parameters=parameters, return_annotation=None)
