"""The tools with questions that are answered, on every protocol revision that can ask."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcpkit.testing import REVISIONS, TestClient

from __PACKAGE__.server import app

from .people import Model, User

ASKING = REVISIONS[2:]
"""Those that can ask the user."""

WITH_TOOLS = REVISIONS[3:]
"""Those whose models can call functions."""

LOOKS: tuple[Mapping[str, Any], ...] = ({"list_files": {}}, {"read_file": {"name": "shop.txt"}})
"""How a model looks into the files."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the user."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "shop.txt").write_text("Tea costs 4.50.", encoding="utf-8")
    return folder


def connect(revision: str, user: User, model: Model, *roots: Path) -> TestClient:
    """A client with all that the tools ask for."""
    declared: dict[str, Any] = {"sampling": {"tools": {}}} if revision in WITH_TOOLS else {}
    return TestClient(
        app,
        revision=revision,
        elicitation=user,
        sampling=model,
        roots=roots,
        capabilities=declared,
    )


@pytest.mark.parametrize("revision", WITH_TOOLS)
def test_the_model_looks_into_the_files(folder: Path, revision: str) -> None:
    model = Model(*LOOKS, "4.50, says shop.txt.", "Tea: 4.50")
    with connect(revision, User({"Save": None}), model, folder) as client:
        answer = client.call_tool("research", {"question": "What does tea cost?"})
    assert answer.data == {
        "text": "4.50, says shop.txt.",
        "headline": "Tea: 4.50",
        "saved_as": None,
    }
    assert "Tea costs 4.50." in str(model.asked[2]["messages"])


@pytest.mark.parametrize("revision", ASKING[:1])
def test_a_model_that_cannot_call_functions_is_shown_the_files(folder: Path, revision: str) -> None:
    model = Model("4.50, says shop.txt.", "Tea: 4.50")
    with connect(revision, User({"Save": None}), model, folder) as client:
        client.call_tool("research", {"question": "What does tea cost?"})
    assert "Tea costs 4.50." in str(model.asked[0]["messages"])


@pytest.mark.parametrize("revision", ASKING)
def test_the_answer_is_saved_once_if_the_user_agrees(folder: Path, revision: str) -> None:
    user = User({"Save": {"file": "tea.md"}})
    with connect(revision, user, Model("4.50", "Tea: 4.50"), folder) as client:
        answer = client.call_tool("research", {"question": "What does tea cost?"})
    assert not answer.is_error, answer.text
    assert answer.data["saved_as"] == "tea.md"
    assert (folder / "tea.md").read_text(encoding="utf-8") == "4.50"
    assert len(user.asked) == 1


@pytest.mark.parametrize("file", ["shop.txt", "../tea.md", ".tea"])
def test_the_answer_goes_nowhere_else(folder: Path, file: str) -> None:
    user = User({"Save": {"file": file}})
    with connect(REVISIONS[-1], user, Model("4.50"), folder) as client:
        answer = client.call_tool("research", {"question": "What does tea cost?"})
    assert answer.is_error
    assert (folder / "shop.txt").read_text(encoding="utf-8") == "Tea costs 4.50."
    assert not (folder.parent / "tea.md").exists()


@pytest.mark.parametrize("revision", ASKING)
def test_the_user_chooses_between_folders(folder: Path, tmp_path: Path, revision: str) -> None:
    user = User({"Which folder": {"value": str(folder)}, "Save": {"file": "tea.md"}})
    other = tmp_path / "other"
    other.mkdir()
    with connect(revision, user, Model("4.50", "Tea: 4.50"), other, folder) as client:
        client.call_tool("research", {"question": "What does tea cost?"})
    assert (folder / "tea.md").exists()


@pytest.mark.parametrize("revision", ASKING)
def test_without_a_folder_nothing_is_asked(revision: str) -> None:
    user = User({})
    with connect(revision, user, Model()) as client:
        answer = client.call_tool("research", {"question": "What does tea cost?"})
    assert answer.text == "The client shares no folder; open one first."


@pytest.mark.parametrize("revision", ASKING)
def test_a_message_is_triaged(revision: str) -> None:
    model = Model('{"topic": "roof", "urgency": "high", "needs_reply": true}')
    with connect(revision, User({}), model) as client:
        answer = client.call_tool("triage", {"message": "The roof leaks!"})
    assert answer.data == {"topic": "roof", "urgency": "high", "needs_reply": True}


@pytest.mark.parametrize("revision", ASKING)
def test_a_model_that_answers_wrongly_is_told_once(revision: str) -> None:
    model = Model("The roof.", '{"topic": "roof", "urgency": "high", "needs_reply": true}')
    with connect(revision, User({}), model) as client:
        answer = client.call_tool("triage", {"message": "The roof leaks!"})
    assert answer.data["topic"] == "roof"
    assert len(model.asked) == 2
