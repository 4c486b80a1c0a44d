"""Questions of a server in the middle of a call: answered at the terminal, or as was given.

A form is filled in field by field; a question to the model is answered by a command, or by hand.
Without a terminal, and without an answer on the command line, a question is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
import threading
import webbrowser
from asyncio.subprocess import PIPE
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
from rich.text import Text

from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.text import escape_control, single_line
from mcpkit.cli._arguments import Given, given
from mcpkit.cli._forms import Field, fields_of
from mcpkit.cli._options import Refused
from mcpkit.cli._progress import ProgressDisplay, TimeLimit
from mcpkit.cli._schema_text import compact
from mcpkit.cli._terminal import fail, is_interactive, note, on_stderr

Params = Mapping[str, Any]

ACTIONS: Final = ("accept", "decline", "cancel")

_CAPABILITIES: Final[Params] = {"elicitation": {"form": {}, "url": {}}}
_REJECTED: Final = -1
"""The error code of a question to the model that the user refuses."""


class _Left(Exception):
    """The user leaves a form without filling it in."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


class Answers:
    """Answers the questions of a server.

    Args:
        answers: Of ``--answer``: ``key=value`` or ``key:=json`` for fields, or an action for every
            form: accept, decline or cancel. A key that is given several times answers
            several questions, the last one all that follow.
        command: Of ``--sampling-command``.
        telling: Cleared from the terminal while the user is asked.
        limit: The limit that stands still while the user is asked.

    Raises:
        typer.Exit: An answer is malformed, or there is no such command; a message has said so.
    """

    def __init__(
        self,
        answers: Sequence[str] | None,
        command: str | None,
        telling: ProgressDisplay,
        limit: TimeLimit,
    ) -> None:
        self._answers: dict[str, list[Given]] = {}
        self._action: str | None = None
        for word in answers or ():
            if word in ACTIONS:
                self._action = word
            else:
                if "=" not in word:
                    fail(f"--answer {word!r}: write key=value, accept, decline or cancel")
                each = given(word)
                self._answers.setdefault(each.name, []).append(each)
        self._command = None if command is None else _program(command)
        self._telling = telling
        self._limit = limit
        self._console = on_stderr()
        self._one_at_a_time = anyio.Lock()

    @property
    def options(self) -> dict[str, Any]:
        """The options of `mcpkit.Client` that declare and answer questions."""
        options: dict[str, Any] = {"elicitation": self.elicit, "capabilities": _CAPABILITIES}
        if self._command is not None or is_interactive():
            options["sampling"] = self.sample
        return options

    async def elicit(self, params: Params) -> Params:
        """Answer ``elicitation/create``."""
        async with self._one_at_a_time:
            with self._in_turn():
                if params.get("mode") == "url":
                    return {"action": await self._page(params)}
                return await self._form(params)

    @contextmanager
    def _in_turn(self) -> Generator[None, None, None]:
        with self._telling.paused(), self._limit.paused_for_user():
            yield

    def _say(self, *parts: str | tuple[str, str], end: str = "\n") -> None:
        self._console.print(Text.assemble(*parts), end=end, soft_wrap=True)

    async def _line(self, prompt: str) -> str:
        """Return the line that the user types.

        Raises:
            _Left: The line is ``/decline`` or ``/cancel``, or the end of the input.
        """
        self._say((prompt, ""), end="")
        line = await _read_line()
        if line is None:
            self._say("")
            raise _Left("cancel")
        if line.strip() in ("/decline", "/cancel"):
            raise _Left(line.strip()[1:])
        return line

    # --- forms ------------------------------------------------------------------------------------

    async def _form(self, params: Params) -> Params:
        message = _indented(params.get("message", ""))
        schema = params.get("requestedSchema")
        fields = fields_of(schema if is_object(schema) else {})
        values, problems = self._given_for(fields)
        missing = [each for each in fields if each.required and each.name not in values]
        settled = not missing and not problems and (bool(values) or self._action == "accept")
        if self._action in ("decline", "cancel"):
            return self._by_itself(message, {"action": self._action})
        if settled:
            defaults = {each.name: each.default for each in fields if each.has_default}
            content = {**defaults, **values}
            return self._by_itself(message, {"action": "accept", "content": content})
        for problem in problems:
            note(f"--answer {problem}")
        if is_interactive():
            try:
                return await self._filled_in(message, fields, values)
            except _Left as left:
                return {"action": left.action}
        wanted = [f"{each.name}=…" for each in missing] or ["accept"]
        self._unanswered(message, f"--answer {' --answer '.join(wanted)}")
        return {"action": "cancel"}

    def _given_for(self, fields: Sequence[Field]) -> tuple[dict[str, Any], list[str]]:
        values: dict[str, Any] = {}
        problems: list[str] = []
        for each in fields:
            found = self._answers.get(each.name)
            if not found:
                continue
            answer = found.pop(0) if len(found) > 1 else found[0]
            try:
                if answer.is_json:
                    values[each.name] = each.checked(json.loads(answer.text))
                else:
                    values[each.name] = each.read(answer.text)
            except (ValueError, RecursionError) as error:
                problems.append(f"{answer.word}: {error}")
        return values, problems

    def _by_itself(self, message: str, answer: dict[str, Any]) -> Params:
        said = compact(answer["content"]) if answer.get("content") else answer["action"]
        self._say(("The server asks: ", "bold"), f"{message}  ", (f"→ {single_line(said)}", "dim"))
        return answer

    def _unanswered(self, message: str, hint: str) -> None:
        note(
            f'the server asks "{single_line(message)}", but there is no terminal to ask at; '
            f"cancelled. To answer: {hint}"
        )

    async def _filled_in(
        self, message: str, fields: Sequence[Field], values: dict[str, Any]
    ) -> Params:
        self._say()
        self._say(("The server asks: ", "bold cyan"), (message, "bold"))
        if not fields:
            action = await self._choice("  yes, no or cancel? ", None)
            return {"action": action, **({"content": {}} if action == "accept" else {})}
        hint = "Enter keeps what is in [brackets]; /decline and /cancel leave the form."
        self._say((f"  {hint}", "dim"))
        if any(not each.required and not each.has_default for each in fields):
            self._say(("  Optional fields may stay empty.", "dim"))
        todo = [each for each in fields if each.name not in values]
        while True:
            for each in todo:
                await self._field(each, values)
            action = await self._choice("  Send it? [yes], no, edit or cancel: ", "accept")
            if action != "edit":
                return {"action": action, **({"content": values} if action == "accept" else {})}
            todo = list(fields)

    async def _field(self, field: Field, values: dict[str, Any]) -> None:
        """Have a field filled in, as often as it takes."""
        label = single_line(field.title or field.name)
        about = ", ".join([*field.about, *(["optional"] if not field.required else [])])
        self._say()
        self._say(f"  {label}", (f"  {single_line(about)}" if about else "", "dim"))
        if field.description:
            self._say((f"  {_indented(field.description)}", "dim"))
        for number, (value, title) in enumerate(field.choices, 1):
            beside = "" if title == value else f"  ({single_line(value)})"
            self._say(f"    {number:>2}  {single_line(title)}", (beside, "dim"))
        known = field.name in values or field.has_default
        kept = values.get(field.name, field.default)
        while True:
            shown = f"[{single_line(field.shown(kept))}] " if known else ""
            line = (await self._line(f"  > {shown}")).strip()
            if not line:
                if known:
                    values[field.name] = kept
                elif field.required:
                    self._say(("    This one is needed.", "red"))
                    continue
                return
            try:
                values[field.name] = field.read("" if line == '""' else line)
            except ValueError as error:
                self._say((f"    {single_line(error)}", "red"))
            else:
                return

    async def _choice(self, prompt: str, default: str | None) -> str:
        actions = {
            "yes": "accept",
            "no": "decline",
            "cancel": "cancel",
            "accept": "accept",
            "decline": "decline",
        }
        if default is not None:
            actions["edit"] = "edit"
        while True:
            word = (await self._line(prompt)).strip().lower()
            if not word and default is not None:
                return default
            found = {actions[each] for each in actions if word and each.startswith(word)}
            if len(found) == 1:
                return found.pop()

    # --- pages ------------------------------------------------------------------------------------

    async def _page(self, params: Params) -> str:
        message, url = _indented(params.get("message", "")), str(params.get("url", ""))
        if self._action is not None:
            self._say(("The server asks: ", "bold"), message, (f"  → {self._action}", "dim"))
            self._say(f"  {single_line(url)}")
            return self._action
        if not is_interactive():
            self._unanswered(f"{message} ({url})", "--answer accept, and open it yourself")
            return "cancel"
        self._say()
        self._say(("The server asks you to open a page: ", "bold cyan"), (message, "bold"))
        self._say(f"  {single_line(url)}")
        answers = {"open": True, "myself": False}
        try:
            while True:
                word = await self._line("  open it in the browser, myself, no or cancel? ")
                word = word.strip().lower()
                if word and any(each.startswith(word) for each in answers):
                    if "open".startswith(word):
                        self._open(url)
                    return "accept"
                for each, action in (("no", "decline"), ("cancel", "cancel")):
                    if word and each.startswith(word):
                        return action
        except _Left as left:
            return left.action

    def _open(self, url: str) -> None:
        # What is not shown as it is might lead elsewhere than it seems.
        safe = url.lower().startswith(("https://", "http://")) and single_line(url) == url
        if not safe or not webbrowser.open(url):
            self._say(("  It could not be opened here; open it yourself.", "red"))

    # --- the model --------------------------------------------------------------------------------

    async def sample(self, params: Params) -> Params:
        """Answer ``sampling/createMessage``.

        Raises:
            Refused: The user does not want to, or the command has failed.
        """
        async with self._one_at_a_time:
            if self._command is not None:
                text, model = await _said_by(self._command, transcript(params)), self._command[0]
            else:
                with self._in_turn():
                    text, model = await self._by_hand(params), "a person"
        return {
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": model,
            "stopReason": "endTurn",
        }

    async def _by_hand(self, params: Params) -> str:
        self._say()
        self._say(("The server asks the model:", "bold cyan"))
        for line in escape_control(transcript(params)).splitlines():
            self._say(f"  {line}")
        self._say(("  Answer for it; an empty line ends, /decline refuses.", "dim"))
        lines: list[str] = []
        try:
            while True:
                line = await self._line("  > ")
                if not line.strip() and lines:
                    break
                lines.append(line)
        except _Left:
            raise Refused("The user declined to answer for the model", code=_REJECTED) from None
        return "\n".join(lines).strip()


def _indented(text: object) -> str:
    """Return a text of which no line looks like one of ours."""
    return escape_control(text).replace("\n", "\n    ")


# --- the model, by a command ----------------------------------------------------------------------


def transcript(params: Params) -> str:
    """Return the messages of a question to the model, as text.

    A lone message is its text. Otherwise every part is headed by its role: ``System:``, ``User:``,
    ``Assistant:``. A block that is no text is named in brackets.
    """
    parts: list[tuple[str, str]] = []
    system = params.get("systemPrompt")
    if isinstance(system, str) and system:
        parts.append(("system", system))
    messages = params.get("messages")
    for message in messages if is_array(messages) else ():
        content = message.get("content") if is_object(message) else None
        blocks = content if is_array(content) else [content]
        said = "\n".join(_block(block) for block in blocks if is_object(block))
        parts.append((str(message.get("role", "user")), said))
    if len(parts) == 1:
        return parts[0][1]
    return "\n\n".join(f"{role.capitalize()}: {text}" for role, text in parts)


def _block(block: Mapping[str, Any]) -> str:
    if isinstance(block.get("text"), str):
        return str(block["text"])
    return f"[{block.get('type', 'something')} {block.get('mimeType', '')}".rstrip() + "]"


def _program(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        fail(f"--sampling-command {command!r} is not a command line: {error}")
    if not words or shutil.which(words[0]) is None:
        fail(f"--sampling-command {command!r}: there is no such command")
    return words


async def _said_by(command: Sequence[str], text: str) -> str:
    """Run a command with a text on stdin, and return its stdout; its stderr is shown."""
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror or error}") from error
    try:
        said, _ = await process.communicate(text.encode("utf-8", "replace"))
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        raise
    if process.returncode != 0:
        raise Refused(f"{command[0]}, asked for the model, failed (exit code {process.returncode})")
    return said.decode("utf-8", "replace").strip()


# --- the keyboard ---------------------------------------------------------------------------------


async def _read_line() -> str | None:
    """Return the next line from the terminal; None at its end.

    The wait can be cancelled, although the reading itself cannot: it is left behind in a
    thread which the end of the process does not wait for.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | None] = loop.create_future()

    def settle(line: str | None) -> None:
        if not answer.done():
            answer.set_result(line)

    def read() -> None:
        try:
            line = _line_now()
        except (OSError, ValueError):
            line = ""
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, line or None)

    threading.Thread(target=read, daemon=True, name="mcpkit keyboard").start()
    found = await answer
    return None if found is None else found.rstrip("\r\n")


def _line_now() -> str:
    if sys.platform == "win32":
        return sys.stdin.readline()
    # Not through sys.stdin, whose lock the end of the process would wait for.
    data = os.read(sys.stdin.fileno(), 65536)
    return data.decode(sys.stdin.encoding or "utf-8", "replace")
