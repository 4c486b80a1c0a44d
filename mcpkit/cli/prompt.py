"""``mcpkit prompt``: get a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer
from rich.text import Text

from mcpkit._utils.text import single_line
from mcpkit.cli._arguments import given, suggest
from mcpkit.cli._options import ConnectionOptions, TargetArgument
from mcpkit.cli._render import Saver, as_binary, put, put_json, text_of
from mcpkit.cli._session import ServerSession, talking
from mcpkit.cli._terminal import fail, on_stdout
from mcpkit.client.client import Client
from mcpkit.client.results import ListedPrompt, PromptMessages
from mcpkit.errors import ProtocolError

__all__ = ["prompt"]


@talking
async def prompt(
    talk: ServerSession,
    target: TargetArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the prompt")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Its arguments, which are texts"),
    ] = None,
) -> None:
    """Get a prompt and print its messages, each under the role that says it.

    \b
    Examples:
      mcpkit prompt server.py plan city=Oslo days=3
      mcpkit prompt server.py review code=@main.py
      mcpkit prompt https://example.com/mcp greet --json
    """
    async with talk.connected() as client:
        found = await _find(client, name, talk.reach)
        texts = _texts(arguments or (), found)
        with talk.waiting(name):
            result = await client.get_prompt(name, texts, timeout=float("inf"))
        if talk.as_json:
            put_json(result.raw)
        else:
            _show(result, name, talk.saver)


async def _find(client: Client, name: str, reach: ConnectionOptions) -> ListedPrompt:
    listed = await client.list_prompts() if "prompts" in client.server_capabilities else []
    found = {each.name: each for each in listed}
    if name not in found:
        if not reach.is_anonymous:
            with suppress(ProtocolError):  # it may be hidden, and the server says for whom (AUTH-6)
                await client.get_prompt(name, {})
        fail(suggest("prompt", name, list(map(str, found))))
    return found[name]


def _texts(words: Sequence[str], prompt: ListedPrompt) -> dict[str, str]:
    """Return the arguments of a prompt, after a check that they are its own and complete."""
    known = [each.name for each in prompt.arguments]
    texts: dict[str, str] = {}
    for word in words:
        each = given(word)
        if each.is_json:
            fail(f"{word}: the arguments of a prompt are texts: write {each.name}=…")
        if each.name not in known:
            fail(f"{prompt.name}: {suggest('argument', each.name, known)}")
        if each.name in texts:
            fail(f"{word}: {each.name} has been given already")
        texts[each.name] = each.text
    missing = [each.name for each in prompt.arguments if each.required and each.name not in texts]
    if missing:
        fail(f"{prompt.name} needs {', '.join(f'{each}=…' for each in missing)}")
    return texts


def _show(result: PromptMessages, name: str, saver: Saver) -> None:
    console = on_stdout()
    for number, message in enumerate(result.messages):
        if number:
            put("")
        console.print(Text(f"{single_line(message.role)}:", style="bold cyan"), soft_wrap=True)
        text = text_of(message.content)
        if text is not None:
            put(text)
            continue
        found = as_binary(message.content, name)
        assert found is not None
        put(f"[{found.mime_type}]")
        saver.keep(found)
