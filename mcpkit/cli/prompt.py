"""``mcpkit prompt``: get a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rich.text import Text

from mcpkit._utils.text import single_line
from mcpkit.cli._arguments import parse_assignment, suggest
from mcpkit.cli._options import TARGET, argument
from mcpkit.cli._render import Saver, as_binary, put, put_json, text_of
from mcpkit.cli._session import ServerSession, server_command
from mcpkit.cli._terminal import console, fail
from mcpkit.client.results import ListedPrompt, PromptMessages
from mcpkit.errors import ProtocolError


@server_command
async def prompt(
    session: ServerSession,
    target: str = TARGET,
    name: str = argument("The name of the prompt", "NAME", ""),
    arguments: list[str] | None = argument("Its arguments, as texts", "KEY=VALUE", None),
) -> None:
    """Get a prompt and print its messages, each after its role.

    \b
    Examples:
      mcpkit prompt server.py plan city=Oslo days=3
      mcpkit prompt server.py review code=@main.py
      mcpkit prompt https://example.com/mcp greet --json
    """
    async with session.connected() as client:
        listed = await client.list_prompts() if "prompts" in client.server_capabilities else []
        prompts = {str(each.name): each for each in listed}
        if name not in prompts:
            if name and not session.options.is_anonymous:
                # The prompt may be hidden; then the server's error names the scope (AUTH-6).
                with suppress(ProtocolError):
                    await client.get_prompt(name, {})
            fail(suggest("prompt", name, list(prompts)))
        texts = _texts(arguments or (), prompts[name])
        with session.waiting(name):
            result = await client.get_prompt(name, texts, timeout=float("inf"))
        if session.as_json:
            put_json(result.raw)
        else:
            _show(result, name, session.saver)


def _texts(words: Sequence[str], prompt: ListedPrompt) -> dict[str, str]:
    """Return the arguments of a prompt, checked against its list."""
    known = [each.name for each in prompt.arguments]
    texts: dict[str, str] = {}
    for word in words:
        each = parse_assignment(word)
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
    for number, message in enumerate(result.messages):
        if number:
            put("")
        role = Text(f"{single_line(message.role)}:", style="bold cyan")
        console().print(role, soft_wrap=True)
        text = text_of(message.content)
        found = as_binary(message.content, name)
        if text is not None:
            put(text)
        elif found is not None:
            put(f"[{found.mime_type}]")
            saver.save(found)
