"""Text that turns a model against its user, hides something, or gives a secret away.

Descriptions go into the model's context as they are, so their author speaks to the model.
The author of a server reads here what a cautious host would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpkit._utils.json import is_array, is_object
from mcpkit.cli._check.listing import Entry, Served
from mcpkit.cli._check.rules import Found, rule
from mcpkit.cli._check.schema_walk import listed, path_to, types_of, walk

_POISON: Final = "https://lbeurerkellner.github.io/jekyll/update/2025/04/01/mcp-tool-poisoning.html"
_MAX_CHARS_SHOWN: Final = 40


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in an entry with its path, names of members included."""
    if isinstance(value, str):
        yield path, value
    elif is_object(value):
        for name, each in value.items():
            yield path, name
            yield from _texts(each, path_to(path, name))
    elif is_array(value):
        for each in value:
            yield from _texts(each, path)


def _said(served: Served) -> Iterator[tuple[Entry, str, str]]:
    """Yield every text of the server: its entry, its path, and the text."""
    for entry in served.entries:
        shown = {name: each for name, each in entry.raw.items() if name not in ("_meta", "icons")}
        for path, text in _texts(shown):
            yield entry, path, text
    yield served.itself, "instructions", served.instructions


_ORDERS: Final = re.compile(
    r"""
      \b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+)?(?:of\s+)?
        (?:the\s+|your\s+)?(?:previous|prior|above|earlier|preceding|system|other)\s+
        (?:\w+\s+)?(?:instructions?|prompts?|rules|messages?|directions|tools)\b
    | <\s*(?:/\s*)?(?:important|system|secret|hidden|instructions?)\s*>
    | \[/?INST\] | <\|im_(?:start|end)\|>
    | \b(?:do\s+not|don'?t|never)\s+(?:\w+\s+)?(?:tell|inform|notify|alert)\s+(?:the\s+)?users?\b
        \s+(?:about|of|that|what|this|you)
    | \b(?:do\s+not|don'?t|never)\s+mention\s+(?:this|that\s+you|it)\b.{0,20}(?:\buser\b|$)
    | \bwithout\s+(?:telling|informing|notifying|asking)\s+the\s+user\b
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


@rule(
    "SAFE001",
    "error",
    "text that gives orders to the model",
    reason="Descriptions that override other instructions, pose as a system message or keep "
    "something from the user are how tools are poisoned, and what security scanners look for.",
    fix="describe what the tool does, and leave the rest to the host",
    source=_POISON,
)
def orders(served: Served) -> Iterator[Found]:
    """A text overrides instructions, poses as markup of a prompt, or hides from the user."""
    for entry, path, text in _said(served):
        found = _ORDERS.search(text)
        if found is not None:
            yield Found(entry, f"gives orders to the model: {_short(found[0])}", path)


_TAGS: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters
    "\u200b\u2060-\u2064\ufeff\u180e\u3164\uffa0"  # invisible
    "\u202a-\u202e\u2066-\u2069"  # turn the direction of writing
    "\U000e0000-\U000e01ef]"  # tags and further variation selectors
    "|(?<![^\x00-\x7f])[\u200c\u200d]"  # joiners: between letters that have no joined forms
)


@rule(
    "SAFE002",
    "error",
    "hidden characters",
    reason="Invisible characters carry text that a model reads and nobody sees; others change "
    "what a reviewer sees, or what a terminal does.",
    fix="remove them",
    source="https://mcpsafe.io/threats/MCP-223",
)
def hidden_text(served: Served) -> Iterator[Found]:
    """A text has invisible, direction-changing or control characters."""
    seen: set[tuple[int, str]] = set()
    for entry, path, text in _said(served):
        if text.isascii() and text.isprintable():
            continue
        found = _HIDDEN.findall(_TAGS.sub("", text))
        if found and (id(entry), path) not in seen:
            seen.add((id(entry), path))
            first = f"U+{ord(found[0]):04X}"
            count = "a hidden character" if len(found) == 1 else f"{len(found)} hidden characters"
            yield Found(entry, f"has {count}, {first} first", path)


_SECRETS: Final = {
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a key of Anthropic": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "a key of OpenAI": r"\bsk-(?:proj-)?[A-Za-z0-9_-]{20,}",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "a key of AWS": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a key of Google": r"\bAIza[A-Za-z0-9_-]{35}",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a key of Stripe": r"\b[rs]k_live_[A-Za-z0-9]{20,}",
    "a JSON web token": r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "a password in a URL": r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://"
    r"[^\s:/@{}<>]+:[^\s:/@{}<>*]{3,}@[\w.-]+",
}
_SECRET: Final = {what: re.compile(pattern) for what, pattern in _SECRETS.items()}
_MADE_UP: Final = re.compile(
    r"example|your|xxx|\.\.\.|\*\*\*|123456|abcdef|changeme|placeholder|dummy|sample"
    r"|user:pass|:password@|localhost|(.)\1{5}",
    re.IGNORECASE,
)
_SECRET_NAME: Final = re.compile(
    r"(?:.*_)?(?:password|passwd|passphrase|api_?key|secret(?:_key)?|private_?key|"
    r"(?:access|auth|bearer|refresh)_?token)",
    re.IGNORECASE,
)


@rule(
    "SAFE003",
    "error",
    "secret in what everybody is told",
    reason="Lists, descriptions and defaults go to every client and into every model's context.",
    fix="revoke it, and read it from the environment inside the tool",
    source="https://dev.to/tars_mistaike/owasp-just-published-an-mcp-top-10-heres-what-it-means-5ebi",
)
def secret(served: Served) -> Iterator[Found]:
    """A text looks like a key or a token, or a parameter for a secret has a default."""
    for entry, path, text in _said(served):
        for what, pattern in _SECRET.items():
            found = pattern.search(text)
            if found is not None and not _MADE_UP.search(found[0]):
                yield Found(entry, f"shows {what}: {found[0][:6]}…", path)
                break
    for tool in served.tools:
        for node in walk(tool.schema):
            default = node.schema.get("default")
            named = node.key is not None and _SECRET_NAME.fullmatch(node.key)
            if named and isinstance(default, str) and default and not _MADE_UP.search(default):
                yield Found(tool, f"the default of {node.key!r} may be a secret", node.path)


_PLACES: Final = re.compile(
    r"~/\.(?:ssh|aws|gnupg|kube|netrc|npmrc|pypirc|cursor|claude)\b|\bid_(?:rsa|ed25519)\b"
    r"|\.cursor/mcp\.json|claude_desktop_config\.json|/etc/(?:passwd|shadow)\b"
)


@rule(
    "SAFE004",
    "warning",
    "text that names places where secrets are",
    reason="A model that reads the name of a key file in a description may open it. Poisoned tools "
    "ask for just these files.",
    fix="do not name them in descriptions; let the tool itself open what it needs",
    source=_POISON,
)
def secret_places(served: Served) -> Iterator[Found]:
    """A text names a file in which keys or passwords are kept."""
    for entry, path, text in _said(served):
        found = _PLACES.search(text)
        if found is not None:
            yield Found(entry, f"names {_short(found[0])}", path)


@rule(
    "SAFE005",
    "warning",
    "parameter for a secret",
    reason="To fill it in, the model must have been told the secret, and the host keeps it in "
    "its history.",
    fix="read it from the environment, or ask the user for it by elicitation with a URL",
    source="https://mistaike.ai/guides/owasp-mcp-top-10",
)
def asks_for_secrets(served: Served) -> Iterator[Found]:
    """A parameter is named after a secret."""
    for tool in served.tools:
        for node in walk(tool.schema):
            if node.key is not None and _SECRET_NAME.fullmatch(node.key) and _is_text(node.schema):
                yield Found(tool, f"the model must know {node.key!r}", node.path)


@rule(
    "SAFE006",
    "warning",
    "server that anybody may use",
    reason="Whoever finds the URL of a server without authorization has all of its tools.",
    fix="give the app a verifier of tokens, auth=…, or say who calls with principal=",
    source="https://modelcontextprotocol.io/docs/tutorials/security/authorization",
)
def open_to_all(served: Served) -> Iterator[Found]:
    """A URL that other machines reach answers without a credential, or is meant to."""
    if served.open_at:
        yield Found(served.itself, f"anybody may use it at {_short(served.open_at)}")


@rule(
    "SAFE007",
    "warning",
    "scopes that nobody can have",
    reason="Scopes come from the token of a caller. Over HTTP nobody sees what needs some, if the "
    "app takes no tokens; on stdio nobody is asked for any.",
    fix="give the app a verifier of tokens, auth=…, or say who calls with principal=; or leave "
    "scopes= out",
    source="https://modelcontextprotocol.io/docs/tutorials/security/authorization",
)
def closed_to_all(served: Served) -> Iterator[Found]:
    """An entry needs scopes, and nothing in the project says who calls."""
    if served.closed:
        needs = "needs" if len(served.closed) == 1 else "need"
        names = listed([*served.closed])
        yield Found(served.itself, f"{names} {needs} scopes, and nobody can have any")


def _is_text(schema: Mapping[str, Any]) -> bool:
    return "string" in (types_of(schema) or ("string",))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _MAX_CHARS_SHOWN else line[:_MAX_CHARS_SHOWN] + "…")
