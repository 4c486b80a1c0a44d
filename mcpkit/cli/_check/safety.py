"""Rules about text that manipulates the model, hides something, or leaks a secret.

Descriptions go into the model's context unchanged, so a cautious host rejects such a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mcpkit._utils.json import is_array, is_object
from mcpkit.cli._check.listing import Entry, Listing, words_of
from mcpkit.cli._check.rules import Match, rule
from mcpkit.cli._check.schema_walk import path_to, types_of, walk

_POISON: Final = "https://lbeurerkellner.github.io/jekyll/update/2025/04/01/mcp-tool-poisoning.html"
_MAX_CHARS_SHOWN: Final = 40


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in an entry with its path, including the names of members."""
    if isinstance(value, str):
        yield path, value
    elif is_object(value):
        for name, each in value.items():
            yield path, name
            yield from _texts(each, path_to(path, name))
    elif is_array(value):
        for each in value:
            yield from _texts(each, path)


def _all_texts(listing: Listing) -> Iterator[tuple[Entry, str, str]]:
    """Yield the entry, the path and the content of every text that the server sends."""
    for entry in listing.entries:
        shown = {name: each for name, each in entry.raw.items() if name not in ("_meta", "icons")}
        for path, text in _texts(shown):
            yield entry, path, text
    yield listing.itself, "instructions", listing.instructions


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
    "SAFE001 error: text that instructs the model",
    reason="Descriptions that override other instructions, imitate a system message or hide "
    "something from the user are how tools are poisoned, and security scanners look for them.",
    fix="describe what the tool does, and nothing else",
    source=_POISON,
)
def orders(listing: Listing) -> Iterator[Match]:
    for entry, path, text in _all_texts(listing):
        found = _ORDERS.search(text)
        if found is not None:
            yield Match(entry, f"instructs the model: {_short(found[0])}", [path])


_TAGS: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters
    "\u200b\u2060-\u2064\ufeff\u180e\u3164\uffa0"  # invisible
    "\u202a-\u202e\u2066-\u2069"  # change the direction of writing
    "\U000e0000-\U000e01ef]"  # tags and further variation selectors
    "|(?<![^\x00-\x7f])[\u200c\u200d]"  # joiners: between letters that have no joined forms
)


@rule(
    "SAFE002 error: hidden characters",
    reason="Invisible characters carry text that a model reads and people do not see; others "
    "change what a reviewer sees, or what a terminal does.",
    fix="remove them",
    source="https://mcpsafe.io/threats/MCP-223",
)
def hidden_text(listing: Listing) -> Iterator[Match]:
    seen: set[tuple[int, str]] = set()
    for entry, path, text in _all_texts(listing):
        if text.isascii() and text.isprintable():
            continue
        found = _HIDDEN.findall(_TAGS.sub("", text))
        if found and (id(entry), path) not in seen:
            seen.add((id(entry), path))
            first = f"U+{ord(found[0]):04X}"
            yield Match(entry, f"hidden characters: {len(found)}, {first} first", [path])


_SECRETS: Final = {
    kind: re.compile(pattern)
    for kind, pattern in {
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
    }.items()
}
"""Kind of secret → its pattern."""
_SAMPLE: Final = re.compile(
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
    "SAFE003 error: secret in public text",
    reason="Lists, descriptions and defaults are sent to every client and every model.",
    fix="revoke it, and read the new one from the environment inside the tool",
    source="https://dev.to/tars_mistaike/owasp-just-published-an-mcp-top-10-heres-what-it-means-5ebi",
)
def secret(listing: Listing) -> Iterator[Match]:
    for entry, path, text in _all_texts(listing):
        for kind, pattern in _SECRETS.items():
            found = pattern.search(text)
            if found is not None and not _SAMPLE.search(found[0]):
                yield Match(entry, f"shows {kind}: {found[0][:6]}…", [path])
                break
    for tool in listing.tools:
        for node in walk(tool.schema):
            default = node.schema.get("default")
            is_secret = node.key is not None and _SECRET_NAME.fullmatch(node.key)
            if is_secret and isinstance(default, str) and default and not _SAMPLE.search(default):
                yield Match(tool, "the default may be a secret", [node.path])


rule(
    "SAFE005 warning: parameter for a secret",
    reason="The model would have to know the secret, and the host stores it in its history.",
    fix="read it from the environment, or ask the user by URL elicitation",
    source="https://mistaike.ai/guides/owasp-mcp-top-10",
    schema=lambda node: (
        node.key is not None
        and _SECRET_NAME.fullmatch(node.key)
        and "string" in (types_of(node.schema) or ("string",))
    ),
)


@rule(
    "SAFE006 warning: server without authorization",
    reason="Anyone who finds its URL can call all of its tools.",
    fix="pass a token verifier, auth=…, or principal= to the app",
    source="https://modelcontextprotocol.io/docs/tutorials/security/authorization",
)
def open_to_all(listing: Listing) -> Iterator[Match]:
    if listing.open_at:
        yield Match(listing.itself, f"anyone can use it at {_short(listing.open_at)}")


_OF_CALLER: Final = frozenset(
    ("auth", "authorization", "principal", "secret", "session", "tenant", "token", "user")
)

rule(
    "SAFE008 warning: header for what a model must not choose",
    reason="The header repeats an argument (x-mcp-header). The model fills it in, so it says "
    "nothing about the caller, although a proxy or the tool may take it for that.",
    fix='take it from the token (in mcpkit: Annotated[str, Claim("tenant")] or ctx.principal)',
    source="https://github.com/modelcontextprotocol/modelcontextprotocol/issues/2762",
    schema=lambda node: (
        isinstance(header := node.schema.get("x-mcp-header"), str)
        and not _OF_CALLER.isdisjoint(words_of(f"{header} {node.key}"))
    ),
)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _MAX_CHARS_SHOWN else line[:_MAX_CHARS_SHOWN] + "…")
