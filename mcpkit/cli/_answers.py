"""A server's requests for input, answered in the terminal or by options of the command.

A form is filled in field by field. A request to the model is answered by a program. Without a
terminal and without an option, a form is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import webbrowser
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import anyio
from rich.text import Text

from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.text import escape_control, single_line
from mcpkit.cli._arguments import Assignment, converted, parse_assignment
from mcpkit.cli._connection import Refused, command_line
from mcpkit.cli._schema_text import (
    array_or_empty,
    compact,
    in_words,
    number_or_none,
    object_or_empty,
    required_of,
)
from mcpkit.cli._terminal import console, fail, in_daemon, is_interactive, note

Params = Mapping[str, Any]


class _Left(Exception):
    """The user leaves a form; the argument is the action."""


class Answers:
    """Answers the requests of a server."""

    def __init__(
        self,
        answers: Sequence[str] | None,
        command: str | None,
        pause: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._answers: dict[str, Assignment] = {}
        self._action: str | None = None
        for word in answers or ():
            if word in ("accept", "decline", "cancel"):
                self._action = word
            elif "=" not in word:
                fail(f"--answer {word!r}: write key=value, accept, decline or cancel")
            else:
                each = parse_assignment(word)
                self._answers[each.name] = each
        missing = f"--sampling-command {command!r}: there is no such command"
        self._command = [] if command is None else command_line(command, missing)
        self._pause = pause
        self._console = console(err=True)
        self._one_at_a_time = anyio.Lock()

    @property
    def options(self) -> dict[str, Any]:
        """The options of `mcpkit.Client` for these answers."""
        capabilities: dict[str, Params] = {"elicitation": {"form": {}, "url": {}}}
        options: dict[str, Any] = {"elicitation": self.elicit, "capabilities": capabilities}
        if self._command:
            options["sampling"] = self.sample
            capabilities["sampling"] = {}  # a command answers with text only
        return options

    async def elicit(self, params: Params) -> Params:
        """Answer ``elicitation/create``."""
        message = _indented(params.get("message", ""))
        async with self._one_at_a_time:
            with self._pause():
                try:
                    if params.get("mode") == "url":
                        return {"action": await self._page(message, str(params.get("url", "")))}
                    return await self._form(message, params.get("requestedSchema"))
                except _Left as left:
                    return {"action": str(left)}

    def _say(self, *parts: str | tuple[str, str], end: str = "\n") -> None:
        self._console.print(Text.assemble(*parts), end=end, soft_wrap=True)

    async def _line(self, prompt: str) -> str:
        """Return the line that the user types, or raise `_Left` if it leaves the form."""
        self._say((prompt, ""), end="")
        line = await _read_line()
        if line is None:
            self._say("")
            raise _Left("cancel")
        if line.strip() in ("/decline", "/cancel"):
            raise _Left(line.strip()[1:])
        return line

    async def _choice(self, prompt: str, words: Mapping[str, str], default: str = "") -> str:
        """Return the value of the word, or its beginning, that the user types."""
        while True:
            typed = (await self._line(prompt)).strip().lower() or default
            found = {value for word, value in words.items() if typed and word.startswith(typed)}
            if len(found) == 1:
                return found.pop()

    def _unanswered(self, message: str, hint: str) -> None:
        note(
            f'the server asks "{single_line(message)}", but there is no terminal to ask at; '
            f"cancelled. To answer: {hint}"
        )

    # --- forms ------------------------------------------------------------------------------------

    async def _form(self, message: str, schema: object) -> Params:
        fields = fields_of(object_or_empty(schema))
        values: dict[str, Any] = {}
        problems: list[str] = []
        for each in fields:
            if answer := self._answers.get(each.name):
                try:
                    text = answer.text
                    value = each.checked(json.loads(text)) if answer.is_json else each.read(text)
                    values[each.name] = value
                except (ValueError, RecursionError) as error:
                    problems.append(f"{answer.word}: {error}")
        missing = [each for each in fields if each.required and each.name not in values]
        is_complete = not missing and not problems and (values or self._action == "accept")
        if self._action in ("decline", "cancel") or is_complete:
            response: dict[str, Any] = {"action": self._action or "accept"}
            if is_complete and response["action"] == "accept":
                defaults = {each.name: each.default for each in fields if each.has_default}
                response["content"] = {**defaults, **values}
            shown = compact(response["content"]) if response.get("content") else response["action"]
            self._say(
                ("The server asks: ", "bold"), f"{message}  ", (f"→ {single_line(shown)}", "dim")
            )
            return response
        for problem in problems:
            note(f"--answer {problem}")
        if is_interactive():
            return await self._fill_in(message, fields, values)
        wanted = [f"{each.name}=…" for each in missing] or ["accept"]
        self._unanswered(message, f"--answer {' --answer '.join(wanted)}")
        return {"action": "cancel"}

    async def _fill_in(
        self, message: str, fields: Sequence[Field], values: dict[str, Any]
    ) -> Params:
        words = {"yes": "accept", "no": "decline", "cancel": "cancel"}
        self._say()
        self._say(("The server asks: ", "bold cyan"), (message, "bold"))
        if all(each.name == "confirm" and each.default is True for each in fields):
            action = await self._choice("  yes, no or cancel? ", words)
            content = {each.name: True for each in fields}
            return {"action": action, **({"content": content} if action == "accept" else {})}
        hint = "Enter keeps what is in [brackets]; /decline and /cancel leave the form."
        self._say((f"  {hint}", "dim"))
        remaining = [each for each in fields if each.name not in values]
        while True:
            for each in remaining:
                await self._fill_field(each, values)
            words["edit"] = "edit"
            action = await self._choice("  Send it? [yes], no, edit or cancel: ", words, "yes")
            if action != "edit":
                return {"action": action, **({"content": values} if action == "accept" else {})}
            remaining = list(fields)

    async def _fill_field(self, field: Field, values: dict[str, Any]) -> None:
        about = field.about if field.required else f"{field.about}, optional"
        self._say()
        self._say(f"  {single_line(field.title)}", (f"  {single_line(about)}", "dim"))
        if field.description:
            self._say((f"  {_indented(field.description)}", "dim"))
        for number, (value, title) in enumerate(field.choices, 1):
            beside = "" if title == value else f"  ({single_line(value)})"
            self._say(f"    {number:>2}  {single_line(title)}", (beside, "dim"))
        is_known = field.name in values or field.has_default
        kept = values.get(field.name, field.default)
        prompt = f"  > [{single_line(_as_typed(kept))}] " if is_known else "  > "
        while True:
            line = (await self._line(prompt)).strip()
            if not line and field.required and not is_known:
                self._say(("    This one is needed.", "red"))
                continue
            try:
                if line:
                    values[field.name] = field.read("" if line == '""' else line)
                elif is_known:
                    values[field.name] = kept
            except ValueError as error:
                self._say((f"    {single_line(error)}", "red"))
            else:
                return

    # --- pages ------------------------------------------------------------------------------------

    async def _page(self, message: str, url: str) -> str:
        if self._action is None and not is_interactive():
            self._unanswered(f"{message} ({url})", "--answer accept, and open it yourself")
            return "cancel"
        self._say()
        self._say(("The server asks you to open a page: ", "bold cyan"), (message, "bold"))
        self._say(f"  {single_line(url)}")
        if self._action is not None:
            return self._action
        words = {"open": "open", "myself": "accept", "no": "decline", "cancel": "cancel"}
        action = await self._choice("  open it in the browser, myself, no or cancel? ", words)
        if action != "open":
            return action
        # A URL with hidden characters may lead elsewhere than it seems.
        is_safe = url.lower().startswith(("https://", "http://")) and single_line(url) == url
        if not is_safe or not webbrowser.open(url):
            self._say(("  It could not be opened here; open it yourself.", "red"))
        return "accept"

    # --- the model --------------------------------------------------------------------------------

    async def sample(self, params: Params) -> Params:
        """Answer ``sampling/createMessage``, or raise `Refused`."""
        async with self._one_at_a_time:
            text = await _output_of(self._command, transcript(params))
        content = {"type": "text", "text": text}
        model = self._command[0]
        return {"role": "assistant", "content": content, "model": model, "stopReason": "endTurn"}


def _indented(text: object) -> str:
    """Return a text of which no line looks like one of ours."""
    return escape_control(text).replace("\n", "\n    ")


def transcript(params: Params) -> str:
    """Return the messages of a sampling request as text.

    A single message is returned unchanged. Otherwise each message follows its role: ``System:``,
    ``User:``, ``Assistant:``. Content other than text is named in brackets.
    """
    parts: list[tuple[object, str]] = []
    if isinstance(system := params.get("systemPrompt"), str) and system:
        parts.append(("system", system))
    for message in array_or_empty(params.get("messages")):
        content = message.get("content") if is_object(message) else None
        texts: list[str] = []
        for block in content if is_array(content) else [content]:
            if is_object(block):
                other = f"{block.get('type', 'something')} {block.get('mimeType', '')}".rstrip()
                text = block.get("text")
                texts.append(text if isinstance(text, str) else f"[{other}]")
        parts.append((message.get("role", "user"), "\n".join(texts)))
    if len(parts) == 1:
        return parts[0][1]
    return "\n\n".join(f"{str(role).capitalize()}: {text}" for role, text in parts)


async def _output_of(command: Sequence[str], text: str) -> str:
    """Run a command with a text on stdin and return its stdout; its stderr is shown."""
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror or error}") from error
    try:
        # Unlike anyio's, it accepts a command that ends without reading its stdin.
        output, _ = await process.communicate(text.encode("utf-8", "replace"))
    finally:
        if process.returncode is None:  # interrupted
            process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
    if process.returncode != 0:
        raise Refused(f"{command[0]}, asked for the model, failed (exit code {process.returncode})")
    return output.decode("utf-8", "replace").strip()


async def _read_line() -> str | None:
    """Return the next line from the terminal; None at its end."""

    def read() -> str:
        try:
            if sys.platform == "win32":
                return sys.stdin.readline()
            # Not through sys.stdin, because the end of the process would wait for its lock.
            data = os.read(sys.stdin.fileno(), 65536)
            return data.decode(sys.stdin.encoding or "utf-8", "replace")
        except (OSError, ValueError):
            return ""

    line = await in_daemon(read)
    return line.rstrip("\r\n") if line else None


# --- the fields of a form -------------------------------------------------------------------------

_FORMATS: Final = {
    "email": (r"[^@\s]+@[^@\s]+", "ada@example.com"),
    "uri": (r"[A-Za-z][\w+.-]*:\S*", "https://example.com"),
    "date": (r"\d{4}-\d\d-\d\d", "YYYY-MM-DD"),
    "date-time": (
        r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?",
        "YYYY-MM-DDThh:mm:ssZ",
    ),
}
"""Format → its pattern, and an example."""

_KINDS: Final[dict[str, tuple[Any, str]]] = {
    "array": (list, "Items"),
    "boolean": (bool, ""),
    "integer": (int, "imum"),
    "number": ((int, float), "imum"),
    "string": (str, "Length"),
}
"""Type → its class, and the end of the keywords of its limits."""


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a requested schema, in their order."""
    needed, properties = required_of(schema), object_or_empty(schema.get("properties"))
    return [Field(name, object_or_empty(each), name in needed) for name, each in properties.items()]


class Field:
    """A field of a form."""

    def __init__(self, name: str, schema: Mapping[str, Any], required: bool) -> None:
        texts = {key: value for key, value in schema.items() if isinstance(value, str)}
        self.name, self.required, self._schema = name, required, schema
        self.title = texts.get("title", name)
        self.description = texts.get("description", "")
        self.has_default, self.default = "default" in schema, schema.get("default")
        kind = texts.get("type", "string")
        self._kind = kind if kind in _KINDS else "string"
        is_list = self._kind == "array"
        self.choices = _choices(object_or_empty(schema.get("items")) if is_list else schema)
        """The values of a choice, with their titles."""
        self._pattern, example = _FORMATS.get(texts.get("format", ""), ("", ""))
        self.about = "yes or no" if self._kind == "boolean" else in_words(schema, schema)
        """The valid values, in words."""
        if example:
            self.about += f", as {example}"

    def read(self, text: str) -> Any:
        """Return the value of a typed text, or raise a ValueError that names the valid ones."""
        word = text.strip()
        if self._kind == "array" and not word.startswith("["):
            return self.checked([self._chosen(each) for each in word.split(",") if each.strip()])
        if self.choices and self._kind != "array":
            return self._chosen(word)
        return self.checked(converted(text, {"type": self._kind}, {}))

    def _chosen(self, text: str) -> str:
        word = text.strip()
        values = [value for value, _ in self.choices]
        if word in values or not self.choices:
            return word
        if word.isdecimal() and len(word) < 5 and 1 <= int(word) <= len(values):
            return values[int(word) - 1]
        for value, title in self.choices:
            if word.lower() in (value.lower(), title.lower()):
                return value
        raise ValueError(f"expected {self.about}")

    def checked(self, value: Any) -> Any:
        """Return a value, or raise a ValueError that names the valid ones."""
        wanted, end = _KINDS[self._kind]
        minimum, maximum = map(number_or_none, map(self._schema.get, (f"min{end}", f"max{end}")))
        is_valid = isinstance(value, wanted) and isinstance(value, bool) is (wanted is bool)
        if is_valid and wanted is not bool:
            size: float = value if isinstance(value, (int, float)) else len(value)
            values = [each for each, _ in self.choices]
            items: list[Any] = value if is_array(value) else [value]
            is_valid = (
                (minimum is None or size >= minimum)
                and (maximum is None or size <= maximum)
                and (not values or all(each in values for each in items))
                and (not self._pattern or re.fullmatch(self._pattern, str(value)) is not None)
            )
        if not is_valid:
            raise ValueError(f"expected {self.about}")
        return value


def _as_typed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_array(value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else compact(value)


def _choices(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the values and titles of a choice: titled, an enum, or an enum with names."""
    for member in ("oneOf", "anyOf"):
        titled = schema.get(member)
        if is_array(titled):
            return [
                (str(each["const"]), str(each.get("title", each["const"])))
                for each in titled
                if is_object(each) and "const" in each
            ]
    values = schema.get("enum")
    if not is_array(values):
        return []
    names = schema.get("enumNames")
    titles = names if is_array(names) and len(names) == len(values) else values
    return [(str(value), str(title)) for value, title in zip(values, titles, strict=True)]
