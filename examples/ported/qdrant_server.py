"""A memory for a model: texts are kept, and found again by what they are about.

    mcpkit run examples/ported/qdrant_server.py
    QDRANT_URL=http://localhost:6333 mcpkit run examples/ported/qdrant_server.py

Qdrant keeps the texts where QDRANT_URL (with QDRANT_API_KEY) or QDRANT_LOCAL_PATH says, and then
`pip install qdrant-client` is needed. Without either, this process keeps them until it ends.

What a text is about is a vector, which an embedding makes. Without EMBEDDING_MODEL it is made of
the words themselves, hashed: that works offline and without any package, but finds only texts that
have words in common with the question. With EMBEDDING_MODEL, such as
sentence-transformers/all-MiniLM-L6-v2, and `pip install fastembed`, meanings are compared.

COLLECTION_NAME, QDRANT_SEARCH_LIMIT, QDRANT_READ_ONLY, QDRANT_ALLOW_ARBITRARY_FILTER,
FILTERABLE_FIELDS and the two TOOL_…_DESCRIPTION mean what they mean for the original.
"""

import asyncio
import functools
import hashlib
import importlib
import inspect
import math
import operator
import os
import re
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, cast

from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from mcpkit import Context, MCPKit, ToolError

DIMENSIONS = 512
TYPES: dict[str, Any] = {"keyword": str, "integer": int, "float": float, "boolean": bool}
LISTS: dict[str, Any] = {"keyword": list[str], "integer": list[int]}
RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
Vector = list[float]
Condition = dict[str, Any]
Filter = dict[str, list[Condition]]
Metadata = dict[str, Any]


class Entry(TypedDict):
    """What was kept."""

    content: str
    metadata: NotRequired[Metadata]


class FilterableField(BaseModel):
    """A field of the metadata that may be searched by, one of those in FILTERABLE_FIELDS."""

    name: str
    description: str
    field_type: Literal["keyword", "integer", "float", "boolean"]
    condition: Literal["==", "!=", ">", ">=", "<", "<=", "any", "except"] | None = None
    required: bool = False

    def annotation(self) -> Any:
        """The type of the argument of this name."""
        types = LISTS if self.condition in ("any", "except") else TYPES
        if self.field_type not in types:
            raise ValueError(
                f"{self.name}: {self.field_type} and {self.condition} do not go together"
            )
        kind = types[self.field_type]
        return Annotated[
            kind if self.required else kind | None, Field(description=self.description)
        ]

    def rule(self, value: Any) -> Filter:
        """A filter of Qdrant for a value."""
        key = {"key": f"metadata.{self.name}"}
        if self.condition in RANGES:
            return {"must": [{**key, "range": {RANGES[self.condition]: value}}]}
        if self.condition == "any":
            return {"must": [{**key, "match": {"any": value}}]}
        if self.condition == "except":
            return {"must": [{**key, "match": {"except": value}}]}
        side = "must_not" if self.condition == "!=" else "must"
        return {side: [{**key, "match": {"value": value}}]}


# --- what a text is about -------------------------------------------------------------------------


class Embedding(Protocol):
    """Makes vectors of texts. Put another one into `embedding_of` if you have a better one."""

    name: str
    size: int

    def of_text(self, text: str) -> Vector:
        """The vector of a text to keep."""
        ...

    def of_question(self, text: str) -> Vector:
        """The vector of a text to search for."""
        ...


class Words:
    """Hashes the words of a text: each adds to one dimension, or takes away from it."""

    name = f"words-{DIMENSIONS}"
    size = DIMENSIONS

    def of_text(self, text: str) -> Vector:
        """Count the words; a vector of length 1."""
        vector = [0.0] * DIMENSIONS
        for word in re.findall(r"\w+", text.lower()):
            number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            vector[number % DIMENSIONS] += 1 if number >> 63 else -1
        length = math.hypot(*vector) or 1.0
        return [each / length for each in vector]

    of_question = of_text


class FastEmbed:
    """A model of the package fastembed.

    Args:
        model: Its name.
    """

    def __init__(self, model: str) -> None:
        self._model: Any = imported("fastembed", "EMBEDDING_MODEL").TextEmbedding(model)
        self.name = f"fast-{model.rpartition('/')[2].lower()}"
        self.size = len(self.of_text("how many numbers?"))

    def of_text(self, text: str) -> Vector:
        """Return the vector of a stored text."""
        return [float(each) for each in next(iter(self._model.passage_embed([text])))]

    def of_question(self, text: str) -> Vector:
        """Return the vector of a query."""
        return [float(each) for each in next(iter(self._model.query_embed([text])))]


def embedding_of(environment: Mapping[str, str]) -> Embedding:
    """The embedding that the environment chooses."""
    model = environment.get("EMBEDDING_MODEL")
    return FastEmbed(model) if model else Words()


def imported(package: str, because: str) -> Any:
    """A package that only some need."""
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.replace("_", "-")
        raise RuntimeError(f"{because} needs a package: pip install {name}") from None


# --- where texts are kept -------------------------------------------------------------------------


class Store(Protocol):
    """Keeps entries in collections, with their vectors."""

    async def add(self, collection: str, entry: Entry, vector: Vector) -> None:
        """Keep an entry."""
        ...

    async def find(
        self, collection: str, vector: Vector, limit: int, where: Filter | None
    ) -> list[Entry]:
        """The entries nearest to a vector, the nearest first."""
        ...

    async def close(self) -> None:
        """End what was begun."""
        ...


class InMemory:
    """Keeps entries until the process ends."""

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[tuple[Vector, Entry]]] = defaultdict(list)

    async def add(self, collection: str, entry: Entry, vector: Vector) -> None:
        """Keep an entry."""
        self._kept[collection].append((vector, entry))

    async def find(
        self, collection: str, vector: Vector, limit: int, where: Filter | None
    ) -> list[Entry]:
        """Compare the vector with every other."""

        def nearness(kept: tuple[Vector, Entry]) -> float:
            return sum(a * b for a, b in zip(vector, kept[0], strict=True))

        kept = self._kept.get(collection, [])
        fitting = [each for each in kept if where is None or fits(where, dict(each[1]))]
        return [entry for _, entry in sorted(fitting, key=nearness, reverse=True)[:limit]]

    async def close(self) -> None:
        """Forget nothing earlier than the process does."""


class Qdrant:
    """Qdrant, through its own client.

    Args:
        embedding: Whose vectors are kept.
        fields: By which entries may be searched.
        options: Of the client: where Qdrant is.
    """

    def __init__(
        self, embedding: Embedding, fields: list[FilterableField], **options: str | None
    ) -> None:
        self._library = imported("qdrant_client", "QDRANT_URL or QDRANT_LOCAL_PATH")
        self._client = self._library.AsyncQdrantClient(**options)
        self._embedding = embedding
        self._fields = fields

    async def add(self, collection: str, entry: Entry, vector: Vector) -> None:
        """Keep an entry, in a collection that is made when it is needed."""
        models, embedding = self._library.models, self._embedding
        if not await self._client.collection_exists(collection):
            size = models.VectorParams(size=embedding.size, distance=models.Distance.COSINE)
            await self._client.create_collection(collection, vectors_config={embedding.name: size})
            for each in self._fields:
                kind = "bool" if each.field_type == "boolean" else each.field_type
                await self._client.create_payload_index(collection, f"metadata.{each.name}", kind)
        payload = {"document": entry["content"], "metadata": entry.get("metadata")}
        point = models.PointStruct(
            id=uuid.uuid4().hex, vector={embedding.name: vector}, payload=payload
        )
        await self._client.upsert(collection, points=[point])

    async def find(
        self, collection: str, vector: Vector, limit: int, where: Filter | None
    ) -> list[Entry]:
        """Search in Qdrant."""
        if not await self._client.collection_exists(collection):
            return []
        found = await self._client.query_points(
            collection,
            query=vector,
            using=self._embedding.name,
            limit=limit,
            query_filter=self._library.models.Filter(**where) if where else None,
        )
        return [
            entry_of(each.payload["document"], each.payload.get("metadata"))
            for each in found.points
        ]

    async def close(self) -> None:
        """End the connection."""
        await self._client.close()


def entry_of(content: str, metadata: Metadata | None) -> Entry:
    """An entry, with metadata if there are any."""
    return Entry(content=content, metadata=metadata) if metadata else Entry(content=content)


def fits(where: Filter, entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry passes a filter, as far as this process understands Qdrant's filters.

    Raises:
        ToolError: It does not understand this one.
    """
    if not where.keys() <= {"must", "should", "must_not"}:
        raise ToolError("A filter has must, should and must_not.")
    should = where.get("should", [])
    return (
        all(holds(each, entry) for each in where.get("must", []))
        and not any(holds(each, entry) for each in where.get("must_not", []))
        and (not should or any(holds(each, entry) for each in should))
    )


def holds(condition: Condition, entry: Mapping[str, Any]) -> bool:
    """Tell whether a condition is true of an entry; of a list, of one of its members."""
    if "key" not in condition:
        return fits(condition, entry)
    found: Any = entry
    for part in str(condition["key"]).split("."):
        found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
    values: list[Any]
    match found:
        case [*several]:
            values = several
        case _:
            values = [] if found is None else [found]
    match condition:
        case {"match": {"value": wanted}}:
            return wanted in values
        case {"match": {"any": [*wanted]}}:
            return any(each in wanted for each in values)
        case {"match": {"except": [*unwanted]}}:
            return any(each not in unwanted for each in values)
        case {"range": bounds}:
            return any(within(each, bounds) for each in values)
        case _:
            raise ToolError("A condition has match (value, any, except) or range.")


def within(value: Any, bounds: Mapping[str, float]) -> bool:
    """Tell whether a value is a number between bounds."""
    if not isinstance(value, (int, float)):
        return False
    tests = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
    return all(tests[name](value, bound) for name, bound in bounds.items() if name in tests)


# --- the server -----------------------------------------------------------------------------------


@dataclass
class Memory:
    """The state of the server."""

    store: Store
    embedding: Embedding


def with_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """A function whose ``**given`` are these: settings decide what a model may say.

    Args:
        function: The function.
        arguments: Their annotations and defaults, by their names.
    """

    @functools.wraps(function)
    async def call(*args: Any, **given: Any) -> Any:
        return await function(*args, **given)

    own = inspect.signature(function)
    parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    for name, (annotation, default) in arguments.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, annotation=annotation, default=default))
    vars(call)["__signature__"] = own.replace(parameters=parameters)
    return call


def filter_of(fields: Sequence[FilterableField], given: Mapping[str, Any]) -> Filter | None:
    """The filter of Qdrant for arguments that are named like fields."""
    where: defaultdict[str, list[Filter]] = defaultdict(list)
    for each in fields:
        if given.get(each.name) is not None:
            for side, conditions in each.rule(given[each.name]).items():
                where[side] += conditions
    return dict(where) or None


def is_on(name: str) -> bool:
    """Tell whether a variable says yes."""
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on")


def make_app() -> MCPKit[Memory]:
    """Make the server that the environment describes."""
    given_name = os.environ.get("COLLECTION_NAME")
    written = os.environ.get("FILTERABLE_FIELDS", "[]")
    fields = TypeAdapter(list[FilterableField]).validate_json(written)
    searched = [each for each in fields if each.condition]
    limit = int(os.environ.get("QDRANT_SEARCH_LIMIT", "10"))
    place = {
        "location": os.environ.get("QDRANT_URL"),
        "api_key": os.environ.get("QDRANT_API_KEY"),
        "path": os.environ.get("QDRANT_LOCAL_PATH"),
    }
    if place["path"] and (place["location"] or place["api_key"]):
        raise ValueError("QDRANT_LOCAL_PATH stands alone, without QDRANT_URL and QDRANT_API_KEY")

    @asynccontextmanager
    async def lifespan(_: MCPKit[Memory]) -> AsyncGenerator[Memory, None]:
        embedding = await asyncio.to_thread(embedding_of, os.environ)
        store = Qdrant(embedding, fields, **place) if any(place.values()) else InMemory()
        try:
            yield Memory(store, embedding)
        finally:
            await store.close()

    app = MCPKit(
        "mcp-server-qdrant",
        version="1.0",
        instructions="Search before you ask the user for what they may have said before.",
        lifespan=lifespan,
    )
    required = inspect.Parameter.empty
    collection: dict[str, Any] = {}
    if not given_name:
        name = Annotated[str, Field(min_length=1, description="The collection.")]
        collection["collection_name"] = (name, required)

    async def store(
        ctx: Context[Memory],
        information: Annotated[str, Field(min_length=1, description="The text to remember.")],
        metadata: Annotated[Metadata | None, "What else is known about it."] = None,
        **given: Any,
    ) -> str:
        """Remember a text, so that it can be found again by what it is about."""
        vector = await asyncio.to_thread(ctx.state.embedding.of_text, information)
        name: str = given.get("collection_name") or given_name or ""
        await ctx.state.store.add(name, entry_of(information, metadata), vector)
        return f"Remembered in {name}."

    async def find(
        ctx: Context[Memory],
        query: Annotated[str, Field(min_length=1, description="What to search for.")],
        **given: Any,
    ) -> list[Entry]:
        """Find what was remembered about something, the best match first."""
        vector = await asyncio.to_thread(ctx.state.embedding.of_question, query)
        name: str = given.get("collection_name") or given_name or ""
        where: Filter | None = given.get("query_filter") or filter_of(searched, given)
        found = await ctx.state.store.find(name, vector, limit, where)
        ctx.debug(f"{len(found)} entries of {name} for {query!r}")
        return found

    filters: dict[str, Any] = {
        each.name: (each.annotation(), required if each.required else None) for each in searched
    }
    if is_on("QDRANT_ALLOW_ARBITRARY_FILTER") and not searched:
        filters["query_filter"] = (
            Annotated[Filter | None, Field(description="A filter in Qdrant's form.")],
            None,
        )
    app.tool(
        name="qdrant-find",
        description=os.environ.get("TOOL_FIND_DESCRIPTION"),
        read_only=True,
        open_world=False,
    )(with_arguments(find, collection | filters))
    if not is_on("QDRANT_READ_ONLY"):
        app.tool(
            name="qdrant-store",
            description=os.environ.get("TOOL_STORE_DESCRIPTION"),
            destructive=False,
            idempotent=False,
            open_world=False,
        )(with_arguments(store, collection))
    return app


app = make_app()

if __name__ == "__main__":
    app.run()
