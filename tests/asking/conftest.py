"""The same handlers on every revision, in memory and as a process, with scripted answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mcpkit.client.results import Params
from mcpkit.testing import REVISIONS
from tests.asking.server import make_app
from tests.combinations import Served, anyio_backend, client, place, revision, shared, stderr
from tests.scenarios.tapped import TappedClient
from tests.selection import Case

__all__ = ["anyio_backend", "client", "place", "revision", "shared", "stderr"]

CASES = [
    *(Case("memory", revision, "asyncio") for revision in REVISIONS),
    *(Case("memory", revision, "trio") for revision in REVISIONS),
    *(Case("stdio", revision, "asyncio") for revision in REVISIONS),
    *(Case("http", revision, "asyncio") for revision in REVISIONS),
]


def capabilities_in(revision: str) -> dict[str, Any]:
    """All that a client of a revision can be asked."""
    found: dict[str, Any] = {"sampling": {}, "roots": {"listChanged": True}}
    if revision >= "2025-06-18":
        found["elicitation"] = {}
    if revision >= "2025-11-25":
        found["sampling"] = {"tools": {}, "context": {}}
        found["elicitation"] = {"form": {}, "url": {}}
    return found


class Asked(TappedClient):
    """A client whose user and model answer by a script.

    Attributes:
        questions: The params of what was asked, in order.
        answers: The next answers; a text is an accepted value, or what the model says.
    """

    def __init__(
        self,
        target: Any,
        *,
        revision: str,
        capabilities: Params | None = None,
        lacks: frozenset[str] = frozenset(),
        **options: Any,
    ) -> None:
        declared = {**capabilities_in(revision), **(capabilities or {})}
        for name in lacks:
            declared.pop(name, None)
        super().__init__(target, revision=revision, capabilities=declared, **options)

    def forget(self) -> None:
        """Start again, with the usual handlers and without a script."""
        super().forget()
        self._handlers["elicitation/create"] = partial(self._next_answer, accept)
        self._handlers["sampling/createMessage"] = partial(self._next_answer, speak)
        self._handlers["roots/list"] = self._list_roots
        self.script()

    def script(self, *answers: Any) -> None:
        """Answer like this from now on."""
        self.answers = list(answers)
        self.questions: list[Params] = []
        self.roots: list[str] = ["file:///home/ann"]

    def note_sent(self, text: bytes) -> None:
        """An answer has the id of a question, which may also be that of a request of ours."""
        if b'"method"' in text:
            super().note_sent(text)

    @property
    def messages(self) -> list[str]:
        """What was asked, as a person would read it."""
        return [
            each["message"] if "message" in each else each["messages"][-1]["content"]["text"]
            for each in self.questions
        ]

    def _next_answer(self, with_text: Callable[[str], Any], params: Params) -> Any:
        self.questions.append(params)
        answer = self.answers.pop(0) if self.answers else "unasked"
        if isinstance(answer, Exception):
            raise answer
        return with_text(answer) if isinstance(answer, str) else answer

    def _list_roots(self, params: Params) -> Any:
        self.questions.append({"message": "roots"})
        return {"roots": [{"uri": uri} for uri in self.roots]}


def accept(value: Any) -> dict[str, Any]:
    content = value if isinstance(value, dict) else {"value": value}
    return {"action": "accept", "content": content}


def accepted(question: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a request that asks for a text."""
    return {"jsonrpc": "2.0", "id": question["id"], "result": accept("yes")}


def speak(text: str) -> dict[str, Any]:
    return {"role": "assistant", "model": "test", "content": {"type": "text", "text": text}}


@pytest.fixture(scope="package", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="package")
def served() -> Served:
    return Served(Path(__file__).with_name("server.py"), make_app, Asked)


@pytest.fixture
def tag() -> str:
    """A name for a counter of a test's own."""
    return uuid4().hex


Connect = Callable[..., Asked]


@pytest.fixture
def connect(revision: str) -> Connect:
    """Makes clients of a scenario's own, in memory, with options of the client and the app."""

    def make(app: Any = None, **options: Any) -> Asked:
        return Asked(app or make_app(), revision=revision, **options)

    return make
