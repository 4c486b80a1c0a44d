"""examples/ported/qdrant_server.py: keeps texts, and finds them by what they are about.

What needs Qdrant's own client is left out where that is not installed.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit.errors import ConnectionClosed
from mcpkit.testing import TestClient
from tests.examples.host import data_of, refused
from tests.examples.ported.serving import OVER, arguments_of, ported

HAS_CLIENT = importlib.util.find_spec("qdrant_client") is not None
STORES = [
    "memory",
    pytest.param("qdrant", marks=pytest.mark.skipif(not HAS_CLIENT, reason="needs qdrant-client")),
]
TEXTS = {
    "Ada drinks green tea in the morning": {"city": "Oslo", "year": 2024, "tags": ["tea"]},
    "Bob drinks coffee": {"city": "Rome", "year": 2025},
    "The harbour of Oslo opens in May": None,
}


def environment(store: str, folder: Path, **variables: str) -> dict[str, str]:
    place = {"QDRANT_LOCAL_PATH": str(folder)} if store == "qdrant" else {}
    return {**place, **variables}


def remember(client: TestClient, **more: str) -> None:
    for text, metadata in TEXTS.items():
        arguments: dict[str, Any] = {"information": text, **more}
        if metadata:
            arguments["metadata"] = metadata
        assert not client.call_tool("qdrant-store", arguments).is_error


def found(client: TestClient, query: str, **more: Any) -> list[str]:
    entries = data_of(client.call_tool("qdrant-find", {"query": query, **more}))
    return [each["content"].split()[0] for each in entries]


@pytest.fixture(
    scope="module", params=[(over, store) for over in OVER for store in ("memory", "qdrant")]
)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    over, store = request.param
    if store == "qdrant" and not HAS_CLIENT:
        pytest.skip("needs qdrant-client")
    env = environment(store, tmp_path_factory.mktemp("qdrant"))
    with ported("qdrant_server.py", over, env=env) as client:
        remember(client, collection_name="notes")
        yield client


def test_the_tools_have_their_old_names_and_arguments(client: TestClient) -> None:
    assert arguments_of(client) == {
        "qdrant-find": ["query", "collection_name"],
        "qdrant-store": ["information", "metadata", "collection_name"],
    }


def test_the_best_match_comes_first_with_its_metadata(client: TestClient) -> None:
    assert found(client, "Who drinks tea?", collection_name="notes")[:2] == ["Ada", "Bob"]
    assert found(client, "the harbour", collection_name="notes")[0] == "The"
    assert found(client, "tea", collection_name="other") == []
    arguments = {"query": "coffee for Bob", "collection_name": "notes"}
    assert data_of(client.call_tool("qdrant-find", arguments))[0] == {
        "content": "Bob drinks coffee",
        "metadata": {"city": "Rome", "year": 2025},
    }


def test_a_bad_argument_is_refused(client: TestClient) -> None:
    said = refused(client, "qdrant-store", information="", metadata="none")
    for problem in ("information: expected", "metadata: expected", "collection_name: required"):
        assert problem in said


@pytest.mark.parametrize("store", STORES)
def test_settings_decide_which_arguments_there_are(store: str, tmp_path: Path) -> None:
    fields = [
        {"name": "city", "description": "Where.", "field_type": "keyword", "condition": "=="},
        {"name": "year", "description": "Since.", "field_type": "integer", "condition": ">="},
        {"name": "tags", "description": "None of.", "field_type": "keyword", "condition": "except"},
        {"name": "mood", "description": "Not searched.", "field_type": "keyword"},
    ]
    env = environment(
        store,
        tmp_path,
        COLLECTION_NAME="mine",
        FILTERABLE_FIELDS=json.dumps(fields),
        QDRANT_SEARCH_LIMIT="2",
        TOOL_FIND_DESCRIPTION="Look into the diary.",
    )
    with ported("qdrant_server.py", "stdio", env=env) as client:
        assert arguments_of(client) == {
            "qdrant-find": ["query", "city", "year", "tags"],
            "qdrant-store": ["information", "metadata"],
        }
        assert client.list_tools()[0].description == "Look into the diary."
        remember(client)
        assert len(found(client, "anything")) == 2
        assert found(client, "drinks", city="Oslo") == ["Ada"]
        assert found(client, "drinks", year=2025) == ["Bob"]
        assert found(client, "drinks", tags=["tea"]) == []
        assert "year: expected an integer" in refused(client, "qdrant-find", query="x", year="last")


@pytest.mark.parametrize("store", STORES)
def test_a_model_may_write_filters_if_that_is_allowed(store: str, tmp_path: Path) -> None:
    env = environment(store, tmp_path, COLLECTION_NAME="mine", QDRANT_ALLOW_ARBITRARY_FILTER="1")
    with ported("qdrant_server.py", "stdio", env=env) as client:
        remember(client)
        oslo = {"key": "metadata.city", "match": {"value": "Oslo"}}
        old = {"key": "metadata.year", "range": {"lt": 2025, "gt": 2000}}
        rome = {"key": "metadata.city", "match": {"any": ["Rome", "Bari"]}}
        for where, expected in (
            ({"must": [oslo, old]}, {"Ada"}),
            ({"must_not": [oslo]}, {"Bob", "The"}),
            ({"should": [oslo, rome]}, {"Ada", "Bob"}),
            ({"must": [{"should": [rome]}]}, {"Bob"}),
        ):
            assert set(found(client, "drinks", query_filter=where)) == expected


def test_a_memory_may_be_read_only() -> None:
    with ported("qdrant_server.py", "stdio", env={"QDRANT_READ_ONLY": "true"}) as client:
        assert list(arguments_of(client)) == ["qdrant-find"]


@pytest.mark.skipif(HAS_CLIENT, reason="qdrant-client is installed")
def test_a_missing_package_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env = environment("qdrant", tmp_path)
    with pytest.raises(ConnectionClosed), ported("qdrant_server.py", "stdio", env=env):
        pass
    assert "pip install qdrant-client" in capfd.readouterr().err
