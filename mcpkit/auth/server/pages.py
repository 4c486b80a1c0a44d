"""The HTML pages of an authorization server, without scripts, images or foreign resources."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Final

from starlette.responses import HTMLResponse, Response

from mcpkit.auth.server.clients import origin_of
from mcpkit.auth.server.grants import LoginState
from mcpkit.auth.server.login import LoginAttempt

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --strong: #2456d6; --on-strong: #fff; }
@media (prefers-color-scheme: dark) { :root { --strong: #8fb1ff; --on-strong: #101623; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem;
  font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 26rem; padding: 1.75rem; border: 1px solid var(--line);
  border-radius: .75rem; overflow-wrap: anywhere; }
h1 { margin: 0 0 1rem; font-size: 1.25rem; line-height: 1.3; }
p, ul, dl { margin: 0 0 1rem; }
ul { padding-left: 1.25rem; }
dt { font-size: .85rem; opacity: .75; }
dd { margin: 0 0 .5rem; }
label { display: block; margin: 0 0 1rem; }
input { display: block; width: 100%; margin-top: .25rem; padding: .6rem .7rem; font: inherit;
  border: 1px solid var(--line); border-radius: .4rem; background: transparent; color: inherit; }
button, .button { display: block; width: 100%; margin: 0 0 .6rem; padding: .65rem; font: inherit;
  text-align: center; text-decoration: none; border: 1px solid var(--line); border-radius: .4rem;
  background: transparent; color: inherit; cursor: pointer; }
button.strong { background: var(--strong); border-color: var(--strong); color: var(--on-strong); }
:focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
.problem { padding: .6rem .8rem; border: 1px solid #c33; border-radius: .4rem; }
.small { font-size: .85rem; opacity: .8; }
"""

_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode("ascii")


def page(title: str, body: str, status: int = 200, targets: Sequence[str] = ()) -> Response:
    """Return a page without scripts and requests, which no frame may contain.

    The title is text, which is escaped here; the body is HTML. `targets` are the other origins to
    which its forms may redirect: browsers check these too.
    """
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )
    allowed = ("'self'", *targets)
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
        f"form-action {' '.join(allowed)}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return HTMLResponse(html, status, headers)


def heading(attempt: LoginAttempt) -> str:
    """Return the heading of a login page: the server and the client."""
    server = f" to {escape(attempt.server_name)}" if attempt.server_name else ""
    return f"<h1>Log in{server}</h1><p>to connect {escape(attempt.client_name or 'a program')}</p>"


def error(problem: str, status: int = 400, back: str = "", target: str = "") -> Response:
    """Return the page for a request that must not be redirected to its client automatically.

    `back` is a URL that passes the error to the client, as a link, and `target` the origin of it.
    """
    link = f'<a class="button" href="{escape(back)}">Tell the program, at {escape(target)}</a>'
    body = (
        "<h1>Something went wrong</h1>"
        f'<p class="problem" role="alert">{escape(problem)}</p>'
        f"<p>Return to the program that sent you here, and connect again.</p>{link if back else ''}"
    )
    return page("Something went wrong", body, status)


def consent(id: str, state: LoginState, server: str, meanings: Mapping[str, str]) -> Response:
    """Return the page that asks whether a client may act for a user."""
    wanted, user = state.wanted, state.user
    assert user is not None
    target = origin_of(wanted.redirect_uri)
    name = escape(wanted.client_name or "A program without a name")
    known = f"<dt>Name</dt><dd>{name} (chosen by the program itself, and not verified)</dd>"
    if wanted.client_host:
        known = f"<dt>Described at</dt><dd>{escape(wanted.client_host)}</dd>"
    where = "A program on this device" if target.startswith("http:") else escape(target)
    items = ""
    for scope in state.scopes:
        meaning = meanings.get(scope, scope)
        small = f' <span class="small">({escape(scope)})</span>' if meaning != scope else ""
        items += f"<li>{escape(meaning)}{small}</li>"
    asked = f"<p>It asks for:</p><ul>{items}</ul>" if items else ""
    body = (
        f"<h1>Allow {name} to access {escape(server)}?</h1>"
        f"<p>You are <strong>{escape(user.name or user.id)}</strong>. "
        f"It will act on your behalf.</p>"
        f"{asked}<dl>{known}<dt>You will be redirected to</dt><dd>{where}</dd></dl>"
        f'<form method="post"><input type="hidden" name="state" value="{escape(id)}">'
        '<button class="strong" name="answer" value="allow">Allow</button>'
        '<button name="answer" value="deny">Deny</button></form>'
        '<p class="small">Allow it only if you have just connected this program yourself.</p>'
    )
    title = f"{wanted.client_name or 'A program'} – {server}"
    return page(title, body, targets=(target,))
