"""The servers of ``examples/ported``, each as a process, over stdio and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import EXAMPLES, call, refused
from tests.kit import PATIENCE
from tests.transports.http import plain
from tests.transports.processes import REPOSITORY
from tests.warm import python

PORTED: Final = EXAMPLES / "ported"

OVER: Final = {"stdio": REVISIONS[-2], "http": REVISIONS[-1]}
"""The transports; each is tried with one of the two ways in which a server may ask its client."""


@contextmanager
def ported(
    name: str, over: str, *flags: str, env: Mapping[str, str] | None = None, **options: Any
) -> Iterator[TestClient]:
    """A client of one of the servers, over one of `OVER`; the flags are for its factory."""
    run = ["-m", "mcpkit", "run", f"{PORTED / name}:make_app"]
    options = {"revision": OVER[over], "timeout": PATIENCE, **options}
    if over == "stdio":
        command = [python(), *run, "--", *flags]
        with TestClient(command, env=env, **options) as client:
            yield client
        return
    command = [python(), *run, "--http", "--port", "0", "--", *flags]
    with (
        plain.serving(command=command, cwd=REPOSITORY, env=env) as running,
        TestClient(running.url, **options) as client,
    ):
        yield client


def arguments_of(client: TestClient) -> dict[str, list[str]]:
    """The names of the tools, and those of their arguments."""
    tools = client.list_tools()
    return {tool.name: list(tool.input_schema.get("properties", {})) for tool in tools}


class Host:
    """A host whose user answers every question alike, and its default arguments."""

    def __init__(self) -> None:
        self.client: Any = None
        self.given: dict[str, Any] = {}
        self.answer = "accept"
        self.asked: list[str] = []

    def answers(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(params["message"])
        return {"action": self.answer}

    def call(self, tool: str, **arguments: Any) -> Any:
        return call(self.client, tool, **{**self.given, **arguments})

    def refused(self, tool: str, **arguments: Any) -> str:
        return refused(self.client, tool, **{**self.given, **arguments})


@contextmanager
def hosted(name: str, over: str, *flags: str, **options: Any) -> Iterator[Host]:
    """A host of one of the servers."""
    host = Host()
    with ported(name, over, *flags, elicitation=host.answers, **options) as host.client:
        yield host
