"""examples/assistant.py: uses the client's model as far as there is one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.asking.conftest import speak
from tests.examples.host import ERAS, Model, call, example, json_of, refused, uses

SERVER = example("assistant.py")
QUESTION = "How are penguins counted?"
WITH_TOOLS = REVISIONS[3:]
"""The revisions in which a model can call functions of the server."""

Reply = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Two documents."""
    (tmp_path / "birds.md").write_text(
        "# Penguins\n\nPenguins are counted from the air.\n\n# Owls\n\nOwls sleep by day.\n"
    )
    (tmp_path / "fish.md").write_text("# Sharks\n\nSharks never sleep.\n")
    return {"ASSISTANT_DOCS": str(tmp_path)}


def results_in(params: Mapping[str, Any]) -> list[Any]:
    """The results of functions that the model receives."""
    contents = [each["content"] for each in params["messages"]]
    flat = [part for each in contents for part in (each if isinstance(each, list) else [each])]
    return [each for each in flat if each["type"] == "tool_result"]


@pytest.mark.parametrize("revision", WITH_TOOLS)
def test_a_model_with_tools_searches_by_itself(env: dict[str, str], revision: str) -> None:
    """It receives the error if its call was wrong."""
    wrong = uses("search_documents", question="penguins", limit=99)
    right = uses("search_documents", question="penguins")
    model = Model(wrong, right, speak("From the air (birds.md)."))
    with TestClient(SERVER, revision=revision, env=env, sampling=model) as client:
        answer = call(client, "ask", question=QUESTION)
    assert answer == {"text": "From the air (birds.md).", "by": "model with tools"}
    tools = {tool["name"] for tool in model.asked[0]["tools"]}
    assert tools == {"search_documents", "list_documents"}
    failed, found = results_in(model.asked[2])
    assert failed["isError"] is True
    assert "limit: expected less than or equal to 10, got 99" in failed["content"][0]["text"]
    assert "Penguins are counted from the air." in found["content"][0]["text"]


@pytest.mark.parametrize("revision", ERAS)
def test_a_model_without_tools_gets_the_passages(env: dict[str, str], revision: str) -> None:
    model = Model(speak("From the air."))
    with TestClient(
        SERVER, revision=revision, env=env, sampling=model, capabilities={"sampling": {}}
    ) as client:
        answer = call(client, "ask", question=QUESTION)
    assert answer == {"text": "From the air.", "by": "model"}
    (asked,) = model.asked
    assert "tools" not in asked
    assert asked["systemPrompt"].startswith("You answer from the given documents only")
    assert asked["modelPreferences"] == {"intelligencePriority": 0.5}
    assert "Penguins are counted from the air." in asked["messages"][0]["content"]["text"]
    assert asked["messages"][1]["content"]["text"] == QUESTION


@pytest.mark.parametrize("revision", ERAS)
def test_without_a_model_the_passages_are_the_answer(env: dict[str, str], revision: str) -> None:
    with TestClient(SERVER, revision=revision, env=env) as client:
        answer = call(client, "ask", question=QUESTION)
        said = refused(client, "ask", question="Who discovered Saturn?")
    assert answer["by"] == "search"
    assert answer["text"] == "## birds.md: Penguins\nPenguins are counted from the air."
    assert said == "Nothing is known about that; the files are birds.md, fish.md."


def test_a_model_that_fails_is_done_without(env: dict[str, str]) -> None:
    """Before 2026-07-28, where a client can answer with an error."""

    def broken(params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"role": "assistant"}  # no content, no model

    logs: list[str] = []
    with TestClient(
        SERVER,
        revision=REVISIONS[-2],
        env=env,
        sampling=broken,
        capabilities={"sampling": {}},
        on_log=lambda level, data, logger: logs.append(data),
    ) as client:
        answer = call(client, "ask", question=QUESTION)
    assert answer["by"] == "search"
    assert logs[0].startswith("without the model: ")


@pytest.mark.parametrize("revision", ERAS)
def test_a_document_is_labelled(env: dict[str, str], revision: str) -> None:
    """The model is asked once more if its labels do not fit."""
    labels = {"topics": ["sharks"], "audience": "everybody"}
    model = Model(speak('{"topics": 7}'), speak(f"Gladly:\n```json\n{json.dumps(labels)}\n```"))
    with TestClient(SERVER, revision=revision, env=env, sampling=model) as client:
        assert call(client, "label", file="fish.md") == labels
    assert model.asked[0]["modelPreferences"]["hints"][0] == {"name": "small"}
    assert '"audience"' in model.asked[0]["systemPrompt"]
    assert "audience: required" in model.asked[1]["messages"][-1]["content"]["text"]


@pytest.mark.parametrize(
    ("file", "model", "said"),
    [
        ("fish.md", Model(speak("no"), speak("never")), "The model could not label it: "),
        ("fish.md", None, "Your client lets no server use its model"),
        ("../fish.md", None, "There is no ../fish.md; there are birds.md, fish.md."),
    ],
)
def test_labels_that_cannot_be_had_are_an_error(
    env: dict[str, str], file: str, model: Model | None, said: str
) -> None:
    with TestClient(SERVER, env=env, sampling=model) as client:
        assert refused(client, "label", file=file).startswith(said)
        assert json_of(client.read_resource("assistant://documents")) == ["birds.md", "fish.md"]
