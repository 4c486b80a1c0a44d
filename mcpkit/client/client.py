"""`Client`: the methods of MCP, for the command line, for tests, and for other programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from uuid import uuid4

import anyio
from typing_extensions import Unpack

from mcpkit._protocol import wire
from mcpkit._protocol.connection import LOG_LEVEL_KEY, SKILLS_EXTENSION, TASKS_EXTENSION
from mcpkit._utils.json import is_object, value_at
from mcpkit.client.calls import CallFunctions
from mcpkit.client.connection import (
    ClientConnection,
    Close,
    OnMessage,
    Pending,
    leave,
)
from mcpkit.client.results import (
    CallResult,
    Completion,
    ListedPrompt,
    ListedResource,
    ListedTemplate,
    ListedTool,
    OnProgress,
    Params,
    PromptMessages,
    TaskStatus,
    input_requests_in,
    parse,
)
from mcpkit.client.tasks import TaskHandle, requests_tasks, with_tasks
from mcpkit.errors import (
    ConnectionClosed,
    HeaderMismatch,
    InvalidParams,
    MethodNotFound,
    MissingClientCapability,
    ProtocolError,
    SkillError,
)
from mcpkit.limits import check_several
from mcpkit.types import LogLevel, ResourceContents

if TYPE_CHECKING:
    from mcpkit.client.skills import ListedSkill

MAX_PAGES: Final = 10_000
MAX_ENTRIES: Final = 100_000
MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all pages of a list together: as many as one message may have."""

_REOPEN_S: Final = 1.0
_MAX_REOPEN_S: Final = 30.0
"""The bounds of the pause before a lost stream of changes is opened again."""

_NO_RESOURCE: Final = (-32002, -32602, -32601)
"""Codes of errors of servers without a resource, or without subscriptions."""

T = TypeVar("T")


def _ignore(method: str, params: Params) -> None:
    """Ignore a notification: `on_notification` gets each anyhow."""


class Client(ClientConnection):
    """A connection to a server, as an async context manager.

    ``async with Client("server.py") as client: ...``

    Args:
        target: An app object (served in memory), the path of a server's file (run with
            ``mcpkit run``), a command, or the URL of a server (``pip install "mcpkit[client]"``).
        revision: The protocol revision to speak; None negotiates with the server.
        name, version: Of the client, sent to the server.
        elicitation, sampling: Answer a request of the server: given its ``params``, they return
            the ``result``. `elicitation` declares forms, and `sampling` a model that uses tools. A
            function that also handles URLs for the user to open (``params["mode"] == "url"``) needs
            ``capabilities={"elicitation": {"form": {}, "url": {}}}``.
        roots: Paths or URIs that the server may use, or a function as above.
        capabilities: Declared in addition; one that a function declares is replaced.
        extensions: The extensions that you support, with their settings:
            ``{"com.example/geo": {}}``. Use `request`, `notify` and `on_notification` for their
            methods.
        on_log: Called with level, data and logger of each log message.
        on_notification: Called with method and params of every notification.
        timeout: Seconds that a request may take, 60 by default; None: no limit. Those in which
            `elicitation`, `sampling` and `roots` answer, or a user logs in, do not count.
        probe_timeout: Seconds to wait for the first response before a handshake is tried (ERA-10).
        max_rounds: Times that the server may ask for input during one request (MRTR-17).
        max_input_requests: Input requests that the server may send at once.
        on_round: Called with the number of the round, from 1, and the result that asks for input,
            as on the wire, before it is answered (2026-07-28).
        env, cwd, stderr: For a server that is a process.
        headers: Sent with every HTTP request, such as ``Authorization``.
        http_client: Sends the HTTP requests, for its proxies, certificates, authentication or
            transport. Its timeouts do not apply, except to connecting, and it follows no
            redirects. It is not closed, and may serve several clients.
        auth: The source of tokens for a server over HTTP: `mcpkit.client.auth.OAuth`, which logs
            the user in, or `ClientCredentials`; or a token, or a function that returns one.
        raise_exceptions: With an app object, raise the handler's own exception instead of
            returning the error that a client sees. An exception of a callback is raised by the
            next request, or by the end of the connection; otherwise it is only logged.
        telemetry: True, or a `Tracing` or `Telemetry`, to send traces and metrics with
            OpenTelemetry. Requests carry the trace that is current.

    Attributes:
        server_info: Name and version of the server; None if it did not send any.
        server_capabilities: The capabilities that the server has declared, as on the wire.
        instructions: The server's instructions for a model; None if it has none.

    Raises:
        ValueError: The revision is unknown.
    """

    # --- lists ------------------------------------------------------------------------------------

    def extension(self, identifier: str) -> Params | None:
        """Return the settings with which the server declares an extension; None if it does not."""
        found = value_at(self.server_capabilities, "extensions", identifier)
        return found if is_object(found) else None

    async def ping(self) -> None:
        """Check that the server responds (before 2026-07-28); raises as `request`."""
        await self.request("ping")

    async def list_tools(self) -> list[ListedTool]:
        """Return all tools, from all pages of the list.

        Over HTTP, tools whose schemas declare headers incorrectly are left out (HDR-3,
        2026-07-28).

        Raises:
            ValueError: The list is malformed, its cursors repeat, or it has more than 100,000
                entries, 10,000 pages or 64 MiB.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        tools = await self._all("tools/list", "tools", ListedTool.from_wire)
        http = self._http
        if http is None or self._protocol.by_handshake:
            return tools
        usable: list[ListedTool] = []
        for each in tools:
            try:
                http.learn(each.name, each.input_schema)
            except ValueError as error:
                self._log_fault("the tool %r is left out of the list: %s", each.name, error)
            else:
                usable.append(each)
        return usable

    async def list_resources(self) -> list[ListedResource]:
        """Return all resources that have a URI of their own; raises as `list_tools`."""
        return await self._all("resources/list", "resources", ListedResource.from_wire)

    async def list_resource_templates(self) -> list[ListedTemplate]:
        """Return all resource templates; raises as `list_tools`."""
        method = "resources/templates/list"
        return await self._all(method, "resourceTemplates", ListedTemplate.from_wire)

    async def list_prompts(self) -> list[ListedPrompt]:
        """Return all prompts; raises as `list_tools`."""
        return await self._all("prompts/list", "prompts", ListedPrompt.from_wire)

    async def _all(self, method: str, member: str, make: Callable[[Params], T]) -> list[T]:
        found: list[T] = []
        cursor: str | None = None
        seen: set[str] = set()
        size = 0
        while True:
            pending = Pending()
            page = await self._await(pending, method, {} if cursor is None else {"cursor": cursor})
            size += pending.size
            found += parse(lambda page: [make(each) for each in page[member]], page, method)
            if len(found) > MAX_ENTRIES or size > MAX_LIST_BYTES or len(seen) >= MAX_PAGES:
                raise ValueError(f"The server sends too much for {method}: {len(found)} entries")
            cursor = page.get("nextCursor")
            if cursor is None:  # PAGE-1: "" would be a cursor
                return found
            if not isinstance(cursor, str) or cursor in seen:
                raise ValueError(f"The server's list for {method} repeats the cursor {cursor!r}")
            seen.add(cursor)

    # --- calls ------------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Params | None = None,
        *,
        on_progress: OnProgress | None = None,
        log_level: LogLevel | None = None,
        meta: Params | None = None,
        timeout: float | None = None,
        **functions: Unpack[CallFunctions],
    ) -> CallResult:
        """Call a tool. A tool that failed is a result with ``is_error``.

        A tool that only runs as a task is started as one and awaited; the task is cancelled with
        the call.

        Args:
            name: Of the tool.
            arguments: By name, as JSON values.
            on_progress: Called with each `Progress` of the call.
            log_level: The minimum level of this call's log messages (2026-07-28).
            meta: Put into ``_meta``.
            timeout: Seconds; the client's own setting if None.
            functions: See `CallFunctions`.

        Raises:
            ValueError: The answer is malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        extension = value_at(self._protocol.capabilities, "extensions", TASKS_EXTENSION)
        limit = self._timeout if timeout is None else timeout
        with (
            self._calls.during(**functions),
            self._timeouts.limit(limit, "No response to tools/call"),
        ):
            try:
                result = await self._call(
                    {"name": name, "arguments": dict(arguments or {})},
                    meta=self._with_level(meta, log_level),
                    timeout=timeout,
                    may_be_task=extension is not None,
                    on_progress=on_progress,
                )
            except (MethodNotFound, MissingClientCapability) as error:
                if not self._wants_task(error):
                    raise
                try:
                    task = await self.start(
                        name, arguments, on_progress=on_progress, log_level=log_level, meta=meta
                    )
                except MethodNotFound:  # the error was about something else
                    raise error from None
            else:
                if result.get("resultType") != "task":
                    return parse(CallResult.from_wire, result, "tools/call")
                task = TaskHandle(self, status=parse(TaskStatus.from_wire, result, "tools/call"))
            try:
                return await task
            finally:
                if not task.is_over and not self._closed:
                    await leave(task.cancel)

    async def _call(self, params: Params, **options: Any) -> Params:
        """Return the result of ``tools/call``, sent with the headers that the tool declares."""
        try:
            return await self._ask("tools/call", params, **options)
        except HeaderMismatch:
            # The server wants other arguments in headers than the list of tools said, if any.
            known = None if self._http is None else self._http.declared.get(params["name"])
            await self.list_tools()
            if self._http is None or self._http.declared.get(params["name"]) == known:
                raise
            return await self._ask("tools/call", params, **options)

    async def _ask(
        self, method: str, params: Params, *, may_be_task: bool = False, **options: Any
    ) -> Params:
        """Send a request again with the requested input, until it has a result (MRTR)."""
        again = dict(params)
        for number in range(self._max_rounds + 1):
            result = await self.request(method, again, **options)
            kind = result.get("resultType", "complete")
            if kind == "complete" or (kind == "task" and may_be_task):  # MSG-15
                return result
            if kind != "input_required":
                raise ValueError(f"The server's answer to {method} has the unknown type {kind!r}")
            again = dict(params)
            requests = input_requests_in(result, method, self._max_input_requests)
            if self._on_round is not None:
                self._on_round(number + 1, result)
            if requests:
                again["inputResponses"] = {
                    key: await self._handle(each.method, each.params)
                    for key, each in requests.items()
                }
            if "requestState" in result:
                again["requestState"] = result["requestState"]  # MRTR-16: byte for byte
        raise ProtocolError(f"The server asked for input more than {self._max_rounds} times")

    # --- tasks ------------------------------------------------------------------------------------

    async def start(
        self,
        name: str,
        arguments: Params | None = None,
        *,
        ttl: float | None = None,
        on_progress: OnProgress | None = None,
        log_level: LogLevel | None = None,
        meta: Params | None = None,
        timeout: float | None = None,
    ) -> TaskHandle:
        """Call a tool as a task, which outlives the request (2025-11-25 and 2026-07-28).

        In 2026-07-28 the server decides: it may ask for input first, or respond with the result,
        which the handle has then.

        Args:
            name, arguments, log_level, meta: As of `call_tool`.
            ttl: Seconds from its creation for which the task should be stored; the server may
                choose others (2025-11-25).
            on_progress: Called with each `Progress`; in 2026-07-28 only until the task is created,
                because its status has a message.
            timeout: Seconds until the task is created; the client's own setting if None.

        Raises:
            ValueError: The answer is malformed.
            MethodNotFound: The server has no tasks, or does not run this tool as one.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        if not self._has_tasks:
            raise MethodNotFound(
                f"The server has no tasks in {self.revision}; call the tool with call_tool()"
            )
        task = TaskHandle(self, on_progress=on_progress)
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
        meta = with_tasks(self, self._with_level(meta, log_level))
        options: dict[str, Any] = {"timeout": timeout, "may_be_task": True}
        if requests_tasks(self):
            params["task"] = {} if ttl is None else {"ttl": round(ttl * 1000)}
            if on_progress is not None:
                # It outlives the request, unlike the request's own token.
                token = f"task-{uuid4().hex}"
                self._task_progress[token] = task
                meta = {"progressToken": token, **(meta or {})}
            result = await self._created(params, meta=meta, **options)
            is_task, raw = "task" in result, cast("Params", result.get("task"))
        else:
            result = await self._call(params, meta=meta, on_progress=on_progress, **options)
            is_task, raw = result.get("resultType") == "task", result
        if is_task:
            task.status = parse(TaskStatus.from_wire, raw, "tools/call")
            task.id = task.status.id
        else:  # TASKL-2, TASKX-2
            task._outcome = parse(CallResult.from_wire, result, "tools/call")
        return task

    async def _created(self, params: Params, **options: Any) -> Params:
        """Return the response to a call that creates a task (TASKL-4).

        If this is cancelled, the task is cancelled as soon as its id is known.
        """
        arrived = anyio.Event()
        responses: list[Params | Exception] = []

        async def call() -> None:
            try:
                responses.append(await self._call(params, **options))
            except Exception as error:
                responses.append(error)
            finally:
                arrived.set()

        stop = self._start(call())
        try:
            await arrived.wait()
        except BaseException:
            await leave(arrived.wait)
            stop()
            for each in responses:
                id = value_at(each, "task", "taskId")
                if isinstance(id, str):
                    await leave(self.task(id).cancel)
            raise
        if not responses:
            raise ConnectionClosed("The client has left")
        if isinstance(responses[0], Exception):
            raise responses[0]
        return responses[0]

    def task(self, id: str) -> TaskHandle:
        """Return the handle of a task that exists already; nothing is sent.

        Args:
            id: The `TaskHandle.id`, perhaps of another client. The task must have been created in
                the same revision.
        """
        return TaskHandle(self, id)

    async def tasks(self) -> list[TaskHandle]:
        """Return the tasks of this client's user, from all pages of the list (2025-11-25).

        Raises:
            MethodNotFound: The server does not list tasks; in 2026-07-28 none does.
            ValueError, ProtocolError, TimeoutError, ConnectionClosed: As `list_tools`.
        """
        declared = value_at(self.server_capabilities, "tasks", "list")
        if declared is None or not requests_tasks(self):
            raise MethodNotFound(
                f"The server does not list tasks in {self.revision}; keep their ids for task(id)"
            )
        found = await self._all("tasks/list", "tasks", TaskStatus.from_wire)
        return [TaskHandle(self, status=each) for each in found]

    @property
    def _has_tasks(self) -> bool:
        """True if the server declares that tool calls may become tasks (TASKL-1, TASKX-1)."""
        assert self._protocol.revision is not None
        path: tuple[str, ...] = ("extensions", TASKS_EXTENSION)
        if requests_tasks(self):
            path = ("tasks", "requests", "tools", "call")
        has_tasks = self._protocol.revision.tasks != "none"
        return has_tasks and is_object(value_at(self.server_capabilities, *path))

    def _wants_task(self, error: ProtocolError) -> bool:
        """Return True if an error may say that a tool only runs as a task (TASKL-3, TASKX-3)."""
        if not self._has_tasks:
            return False
        if requests_tasks(self):
            return isinstance(error, MethodNotFound)
        path = ("requiredCapabilities", "extensions", TASKS_EXTENSION)
        return isinstance(error, MissingClientCapability) and is_object(value_at(error.data, *path))

    def _with_level(self, meta: Params | None, level: LogLevel | None) -> Params | None:
        if level is None or self._protocol.by_handshake:
            return meta
        return {**(meta or {}), LOG_LEVEL_KEY: level}

    # --- skills -----------------------------------------------------------------------------------

    async def skills(self) -> list[ListedSkill]:
        """Return the skills of a server, from all pages of the list; no file is read (SKILL-H3).

        Entries that a host must not use are left out, and logged.

        Raises:
            MethodNotFound: The server has no skills.
            ValueError, ProtocolError, TimeoutError, ConnectionClosed: As `list_tools`.
        """
        from mcpkit.client.skills import ListedSkill  # loaded only if used

        if self.extension(SKILLS_EXTENSION) is None:
            raise MethodNotFound("The server has no skills")

        def usable(raw: Params) -> ListedSkill | None:
            try:
                return ListedSkill.from_wire(raw)
            except SkillError as error:
                self._log_fault("a skill is left out of the list: %s", error)
                return None

        found = await self._all("skills/list", "skills", usable)
        return [each for each in found if each is not None]

    async def read_skill(self, skill: ListedSkill | str, path: str = "SKILL.md") -> bytes:
        """Return a file of a skill, after verifying it.

        Size and digest must be those of the entry, and the frontmatter of ``SKILL.md`` too. An
        entry that you keep says which bytes your user has approved: if they have changed, this
        raises, and `skills` has the entry of today.

        Args:
            skill: An entry, or a URI or name, whose entry is fetched first.
            path: Below the directory of the skill, such as ``"references/times.md"``.

        Raises:
            SkillError: The file is not in the entry, or not as it is listed; or a name is that of
                no skill, or of several.
            ImportError: ``SKILL.md`` cannot be verified without ``pip install "mcpkit[skills]"``.
            MethodNotFound: The server has no skills.
            ValueError, ProtocolError, TimeoutError, ConnectionClosed: As for `call_tool`.
        """
        from mcpkit.client.skills import ListedSkill  # loaded only if used

        if isinstance(skill, str) and "://" in skill:
            raw = (await self.request("skills/get", {"uri": skill})).get("skill")
            if not is_object(raw) or raw.get("uri") != skill:
                raise SkillError(skill, "the server returned another entry")
            skill = ListedSkill.from_wire(raw)
        elif isinstance(skill, str):
            found = [each for each in await self.skills() if each.name == skill]
            if len(found) != 1:  # SKILL-H4: one never stands for another
                raise SkillError(skill, f"is the name of {len(found)} skills; pass the URI of one")
            [skill] = found
        file = skill.file(path)
        return skill.verified(file, await self.read_resource(file.uri))

    # --- resources, prompts, completion -----------------------------------------------------------

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        **functions: Unpack[CallFunctions],
    ) -> list[ResourceContents]:
        """Return the contents of a resource, which may be several.

        Options and errors are those of `call_tool`.
        """
        with self._calls.during(**functions):
            result = await self._ask("resources/read", {"uri": uri}, timeout=timeout)
        make = wire.contents_from_wire
        return parse(lambda raw: [make(each) for each in raw["contents"]], result, "resources/read")

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        **functions: Unpack[CallFunctions],
    ) -> PromptMessages:
        """Return the messages of a prompt; options and errors are those of `call_tool`."""
        params: dict[str, Any] = {"name": name}
        if arguments:
            params["arguments"] = dict(arguments)
        with self._calls.during(**functions):
            result = await self._ask("prompts/get", params, timeout=timeout)
        return parse(PromptMessages.from_wire, result, "prompts/get")

    async def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        template: str | None = None,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return suggestions for the value of an argument.

        Args:
            argument: The name of the argument.
            value: The text typed so far.
            prompt: The name of the argument's prompt, or
            template: the URI template of its resource.
            known: The other arguments (2025-06-18 and later).

        Raises:
            ValueError: Neither or both of prompt and template are given, or the answer is
                malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        if (prompt is None) == (template is None):
            raise ValueError("pass either prompt= or template=")
        ref = {"type": "ref/prompt", "name": prompt}
        if template is not None:
            ref = {"type": "ref/resource", "uri": template}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if known is not None:
            params["context"] = {"arguments": dict(known)}
        result = await self.request("completion/complete", params)
        return parse(Completion.from_wire, result, "completion/complete")

    async def set_log_level(self, level: LogLevel) -> None:
        """Set the minimum level of log messages (before 2026-07-28; then see `call_tool`)."""
        await self.request("logging/setLevel", {"level": level})

    async def subscribe(self, uri: str) -> None:
        """Receive a notification in `on_notification` for each change of a resource.

        Before 2026-07-28 the session subscribes; later a stream for this resource is opened. It is
        opened again when it is lost; changes in between are not reported.

        Raises:
            TimeoutError: The server has not agreed in time.
            ProtocolError, ConnectionClosed: As for `request`; also if there is no such resource.
        """
        async with self._subscribing:
            if uri not in self._subscribed:
                _, close = await self._watch(_ignore, uris=[uri], strict=True)
                self._subscribed[uri] = close

    async def unsubscribe(self, uri: str) -> None:
        """End what `subscribe` has begun; raises as `request`."""
        close = self._subscribed.pop(uri, None)
        if close is not None:
            await close()

    @asynccontextmanager
    async def listen(
        self,
        on_change: OnMessage,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AsyncGenerator[Params, None]:
        """Receive notifications of changes inside the ``async with``.

        Before 2026-07-28 the session subscribes to the resources, and servers notify of lists by
        themselves.

        Args:
            on_change: Called with method and params of each notification.
            tools, prompts, resources: True for changes of this list.
            uris: For changes of these resources.

        Yields:
            The notifications that the server has agreed to send, as on the wire in 2026-07-28.

        Raises:
            TimeoutError: The server has not agreed in time.
            ProtocolError, ConnectionClosed: As for `request`.
        """
        check_several("uris", uris)
        lists = {"tools": tools, "prompts": prompts, "resources": resources}
        kinds = [kind for kind, is_wanted in lists.items() if is_wanted]
        agreed, close = await self._watch(on_change, kinds, uris)
        try:
            yield agreed
        finally:
            await leave(close)

    async def _watch(
        self,
        on_change: OnMessage,
        kinds: Sequence[str] = (),
        uris: Sequence[str] = (),
        *,
        strict: bool = False,
    ) -> tuple[Params, Close]:
        """Begin to receive changes; return what the server has agreed to, and how to end it.

        `strict` raises an error if the server does not know a resource.
        """
        if self._protocol.by_handshake:
            return await self._watch_session(on_change, kinds, uris, strict)
        wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in kinds}
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        agreed, close = await self._open_stream(on_change, wanted)
        unknown = set(uris).difference(agreed.get("resourceSubscriptions", ()))
        if strict and unknown:
            await close()
            raise InvalidParams(f"Resource not found: {min(unknown)}", data={"uri": min(unknown)})
        return agreed, close

    async def _watch_session(
        self, on_change: OnMessage, kinds: Sequence[str], uris: Sequence[str], strict: bool
    ) -> tuple[Params, Close]:
        """Pass on changes of a session with a handshake."""
        known = [kind for kind in kinds if value_at(self.server_capabilities, kind, "listChanged")]
        agreed: dict[str, Any] = {f"{kind}ListChanged": True for kind in known}
        watched: list[str] = []

        def notified(method: str, params: Params) -> None:
            _, kind, change = (*method.split("/"), "", "")[:3]
            if change == "list_changed":
                is_wanted = kind in known
            else:
                changed = str(params.get("uri"))
                starts = tuple(uri.removesuffix("/") + "/" for uri in watched)
                is_wanted = change == "updated" and (
                    changed in watched or changed.startswith(starts)
                )
            if is_wanted:
                on_change(method, params)

        async def close() -> None:
            self._listeners.remove(notified)
            for uri in watched:
                self._watched[uri] -= 1
                if not self._watched[uri]:
                    del self._watched[uri]
                    await self.request("resources/unsubscribe", {"uri": uri})

        self._listeners.append(notified)
        try:
            for uri in uris:
                try:
                    await self.request("resources/subscribe", {"uri": uri})
                except ProtocolError as error:
                    if strict or error.code not in _NO_RESOURCE:
                        raise
                else:
                    watched.append(uri)
                    self._watched[uri] += 1
        except BaseException:
            await leave(close)
            raise
        if watched:
            agreed["resourceSubscriptions"] = watched
        return agreed, close

    async def _open_stream(self, on_change: OnMessage, wanted: Params) -> tuple[Params, Close]:
        """Open a stream of changes; return what the server has agreed to, and how to close it.

        It is opened again when it has ended.
        """
        agreed, ended = anyio.Event(), anyio.Event()
        answer: dict[str, Any] = {}
        failure: list[Exception] = []
        pause = _REOPEN_S

        def notified(method: str, params: Params) -> None:
            nonlocal pause
            if method == "notifications/subscriptions/acknowledged":
                answer.update(params.get("notifications") or {})
                pause = _REOPEN_S
                agreed.set()
            else:
                on_change(method, params)

        async def hold() -> None:
            nonlocal pause
            try:
                while True:
                    why: Exception = ConnectionClosed("The server has ended it")
                    try:
                        await self.request(
                            "subscriptions/listen",
                            {"notifications": wanted},
                            timeout=float("inf"),
                            on_notification=notified,
                        )
                    except (ProtocolError, ConnectionClosed, ValueError) as error:
                        why = error
                    if not agreed.is_set():
                        failure.append(why)
                    if failure or self._closed is not None:
                        break
                    self._log_fault("a stream of changes was lost and is opened again: %s", why)
                    await anyio.sleep(pause)
                    pause = min(2 * pause, _MAX_REOPEN_S)
            finally:
                agreed.set()
                ended.set()

        stop = self._start(hold())

        async def close() -> None:
            stop()
            await ended.wait()

        try:
            with self._timeouts.limit(self._timeout, "No response to subscriptions/listen"):
                await agreed.wait()
            if failure:
                raise failure[0]
        except BaseException:
            stop()
            raise
        return answer, close
