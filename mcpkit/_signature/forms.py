"""The classes of types with parameters, of which some have two: see `mcpkit._signature.hints`."""

from __future__ import annotations

import typing
from typing import Annotated, Any, Final, Literal, Optional

ANNOTATED: Final[Any] = type(Annotated[int, 0])
UNIONS: Final[Any] = {type(int | str), type(Optional[int])}  # noqa: UP045 - another class
GENERICS: Final[Any] = {type(list[int]), type(typing.List[int])}  # noqa: UP006 - another class
LITERAL: Final[Any] = type(Literal[0])
