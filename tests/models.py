"""Types as authors of tools have them: models, dataclasses, Enums and aliases."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Generic, Literal, NamedTuple, NewType, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import NotRequired, TypeAliasType, TypedDict

T = TypeVar("T")


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    x: int
    y: int = 0


class Described(BaseModel):
    """A point on the map."""

    x: int


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Box(BaseModel, Generic[T]):
    inside: T


class Titled(BaseModel):
    model_config = ConfigDict(title="Our title")
    x: int = Field(title="An x")


class Maybe(BaseModel):
    x: int | None = None
    y: int | None


class Guest(BaseModel):
    name: str
    age: int
    tags: dict[str, int] = {}

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "Eve":
            raise ValueError("Eve is not welcome")
        return name


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Renamed(BaseModel):
    x: int = Field(alias="theX")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@dataclass
class Spot:
    x: int
    tags: list[str] = field(default_factory=list)


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


class Pair(NamedTuple):
    x: int
    y: str = "q"


UserId = NewType("UserId", int)
Words = TypeAliasType("Words", list[str])
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")


class Opaque:
    """No type of JSON."""

    def __repr__(self) -> str:
        return "Opaque()"  # the same in every process that runs tests
