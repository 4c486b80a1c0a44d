"""What both official Python clients do, once they are connected.

It needs the standard library alone: its importers run on a Python with one client,
and without anything of ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

WAIT = 20
"""Seconds that each thing may take."""


def for_all(report: Callable[..., Awaitable[dict[str, Any]]]) -> None:
    """Print the report of the arguments in each line of stdin, all in JSON."""
    for line in sys.stdin:
        print(json.dumps(asyncio.run(report(*json.loads(line)))), flush=True)


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def seen(result: Any) -> dict[str, Any]:
    """What a test looks at of the result of a tool."""
    fields = plain(result)
    return {
        "content": fields["content"],
        "structured": fields.get("structuredContent"),
        "is_error": bool(fields.get("isError")),
    }


class Driver:
    """Answers what it is asked, keeps what it hears, and tries everything once.

    It subscribes as all revisions with a handshake have it.
    """

    def __init__(self, types: Any, refusal: Any, uri: Callable[[str], Any] = str) -> None:
        self.client: Any = None
        self._types = types
        self._refusal = refusal
        self._uri = uri
        self._report: dict[str, Any] = {}
        self._progress: list[Any] = []
        self._counted_all = asyncio.Event()
        self._logged: list[Any] = []
        self._updated: asyncio.Queue[str] = asyncio.Queue()
        self._listed: asyncio.Queue[str] = asyncio.Queue()

    # --- what the client is given -----------------------------------------------------------------

    async def on_elicit(self, context: Any, params: Any) -> Any:
        """Fill in a form: its first choices, and something of the right type for the rest."""
        some = {"string": "Lisbon", "number": 38.7}
        fields = plain(params)["requestedSchema"]["properties"].items()
        content = {name: field.get("enum", [some[field["type"]]])[0] for name, field in fields}
        return self._types.ElicitResult(action="accept", content=content)

    async def on_sample(self, context: Any, params: Any) -> Any:
        text = self._types.TextContent(type="text", text="hot leaf water")
        return self._types.CreateMessageResult(role="assistant", content=text, model="a poet")

    async def on_roots(self, context: Any) -> Any:
        return self._types.ListRootsResult(roots=[self._types.Root(uri="file:///tea")])

    async def on_log(self, params: Any) -> None:
        self._logged.append([params.level, params.logger, params.data])

    async def on_message(self, message: Any) -> None:
        if isinstance(message, self._types.ResourceUpdatedNotification):
            self._updated.put_nowait(str(message.params.uri))
        elif isinstance(message, self._types.ToolListChangedNotification):
            self._listed.put_nowait("tools")

    async def _on_progress(self, done: float, total: float | None, message: str | None) -> None:
        self._progress.append([done, total, message])
        if done == total:
            self._counted_all.set()

    # --- what it does with the client -------------------------------------------------------------

    async def drive(
        self, client: Any, *, revision: str, server: Any, instructions: Any, capabilities: Any
    ) -> dict[str, Any]:
        """Try everything, or only whether a session goes on, if ``COME_BACK`` is set."""
        self.client = client
        if os.environ.get("COME_BACK"):
            return await self._come_back()
        self._report["revision"] = revision
        self._report["server"] = server and [server.name, server.version]
        self._report["instructions"] = instructions
        self._report["capabilities"] = sorted(plain(capabilities))
        await self._try_all()
        return self._report

    async def _try_all(self) -> None:
        note, call, read, complete = self._note, self.call, self._read, self._complete
        await note("tools", self._tools)
        await note("resources", self._resources)
        await note("templates", self._templates)
        await note("prompts", self._prompts)
        await note("sync", lambda: call("add", a=2, b=40))
        await note("async", lambda: call("shout", text="hey"))
        await note("structured", lambda: call("locate", city="Lisbon"))
        await note("wrapped", lambda: call("everywhere"))
        await note("picture", lambda: call("picture"))
        await note("refused", lambda: call("refuse", reason="not today"))
        await note("exploded", lambda: call("explode"))
        await note("bad_arguments", lambda: call("add", a="two"))
        await note("unknown_tool", lambda: call("nothing"))
        await note("decided", lambda: call("decide"))
        await note("thought", lambda: call("think"))
        await note("looked", lambda: call("look"))
        await note("traced", lambda: call("traced"))
        await note("text", lambda: read("notes://today"))
        await note("blob", lambda: read("notes://pixel"))
        await note("templated", lambda: read("notes://tomorrow/text"))
        await note("unknown_resource", lambda: read("other://never"))
        await note("prompt", lambda: self._prompt(country="Norway", city="Oslo", days="2"))
        await note("incomplete_prompt", lambda: self._prompt(country="Norway"))
        by_prompt = self._types.PromptReference(type="ref/prompt", name="travel")
        by_template = self._types.ResourceTemplateReference(
            type="ref/resource", uri="notes://{day}/text"
        )
        await note("complete_literal", lambda: complete(by_prompt, "country", "N"))
        await note("complete_context", lambda: complete(by_prompt, "city", "", country="Norway"))
        await note("complete_template", lambda: complete(by_template, "day", "tom"))
        await note("defined", lambda: self._define("jitter"))
        await note("undefined", lambda: self._define("nothing"))
        await note("counted", self._count)
        await note("resumed", lambda: call("hang_up"))
        self._report["progress"] = self._progress
        self._report["logged"] = self._logged
        await note("updated", self.update)
        await note("grown", self.growth)

    async def _note(self, key: str, action: Callable[[], Awaitable[Any]]) -> None:
        try:
            self._report[key] = await asyncio.wait_for(action(), WAIT)
        except self._refusal as error:
            self._report[key] = {"error": error.error.code}
        except Exception as error:
            self._report[key] = {"raised": repr(error)}

    async def call(self, name: str, /, **values: Any) -> dict[str, Any]:
        """Call a tool; what a test looks at of its result."""
        return seen(await self.client.call_tool(name, values))

    async def _read(self, uri: str) -> Any:
        return plain(await self.client.read_resource(self._uri(uri)))["contents"]

    async def _complete(self, ref: Any, name: str, value: str, **context: str) -> Any:
        argument = {"name": name, "value": value}
        return (await self.client.complete(ref, argument, context or None)).completion.values

    async def _tools(self) -> Any:
        return {tool.name: tool.description for tool in (await self.client.list_tools()).tools}

    async def _resources(self) -> Any:
        return [str(each.uri) for each in (await self.client.list_resources()).resources]

    async def _templates(self) -> Any:
        found = plain(await self.client.list_resource_templates())["resourceTemplates"]
        return [each["uriTemplate"] for each in found]

    async def _prompts(self) -> Any:
        found = (await self.client.list_prompts()).prompts
        return {each.name: [part.name for part in each.arguments or ()] for each in found}

    async def _prompt(self, **values: str) -> Any:
        return plain(await self.client.get_prompt("travel", values))["messages"]

    async def _define(self, term: str) -> Any:
        """Send a request of an extension."""

        class Definition(self._types.Result):  # type: ignore[misc,name-defined]
            term: str
            text: str

        asked = self._types.Request[Any, str](method="glossary/define", params={"term": term})
        session = getattr(self.client, "session", self.client)
        return plain(await session.send_request(asked, Definition))

    async def _count(self) -> Any:
        await self.want_logs()
        counting = asyncio.create_task(
            self.client.call_tool("count", {"to": 2}, progress_callback=self._on_progress)
        )
        await self._counted_all.wait()
        await self.call("go_on")
        return seen(await counting)

    async def want_logs(self) -> None:
        await self.client.set_logging_level("info")

    async def update(self) -> str:
        await self.client.subscribe_resource(self._uri("notes://today"))
        await self.call("write", text="drink milk")
        return await self._updated.get()

    async def growth(self) -> Any:
        await self.call("learn", name="new")
        await self._listed.get()
        return await self.call("new")

    async def _hears(self) -> bool:
        """Whether its stream opens at some time; announcements before that are lost."""
        while not self._listed.empty():
            self._listed.get_nowait()
        heard = asyncio.create_task(self._listed.get())
        for _ in range(100):
            await self.call("learn", name=f"new_{uuid4()}")
            if (await asyncio.wait([heard], timeout=0.1))[0]:
                break
        return heard.done()

    async def _come_back(self) -> dict[str, Any]:
        assert await self._hears()
        print(json.dumps("connected"), flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # the server has been restarted
        added = await self.call("add", a=2, b=40)
        return {"answer": added["content"][0]["text"], "heard": await self._hears()}
