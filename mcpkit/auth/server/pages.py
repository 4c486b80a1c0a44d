"""The HTML pages of an authorization server, without scripts, images or foreign resources."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Final

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


def whole(title: str, body: str) -> str:
    """Return a page as HTML. The title is text, which is escaped here; the body is HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )


def headers_of(form_targets: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the headers of a page without scripts and requests, which no frame may contain.

    `form_targets` are the other origins to which its forms may redirect: browsers check these too.
    """
    targets = " ".join(("'self'", *form_targets))
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {targets}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


def heading(attempt: LoginAttempt) -> str:
    """Return the heading of a login page: the server and the client."""
    server = f" to {escape(attempt.server_name)}" if attempt.server_name else ""
    client = escape(attempt.client_name or "a program")
    return f"<h1>Log in{server}</h1><p>to connect {client}</p>"


def error(problem: str, back: str = "", target: str = "") -> str:
    """Return the page for a request that must not be redirected to its client automatically.

    `back` is a URL that passes the error to the client, as a link, and `target` the origin of it.
    """
    link = (
        f'<a class="button" href="{escape(back)}">Tell the program, at {escape(target)}</a>'
        if back
        else ""
    )
    body = (
        "<h1>This link does not work</h1>"
        f'<p class="problem" role="alert">{escape(problem)}</p>'
        f"<p>Return to the program that sent you here, and connect again.</p>{link}"
    )
    return whole("This link does not work", body)


def consent(
    *,
    action: str,
    state: str,
    server: str,
    client_name: str,
    client_host: str,
    redirect_to: str,
    is_local: bool,
    user: str,
    scopes: tuple[tuple[str, str], ...],
) -> str:
    """Return the page that asks whether a client may act for a user."""
    name = escape(client_name or "A program without a name")
    known = (
        f"<dt>Described at</dt><dd>{escape(client_host)}</dd>"
        if client_host
        else f"<dt>Name</dt><dd>{name} (chosen by the program itself, and not verified)</dd>"
    )
    place = "A program on this device" if is_local else escape(redirect_to)
    items = "".join(
        f"<li>{escape(meaning)}"
        + (f' <span class="small">({escape(scope)})</span>' if meaning != scope else "")
        + "</li>"
        for scope, meaning in scopes
    )
    asked = f"<p>It asks for:</p><ul>{items}</ul>" if items else ""
    body = (
        f"<h1>Let {name} use {escape(server)}?</h1>"
        f"<p>You are <strong>{escape(user)}</strong>. It will act in your name.</p>"
        f"{asked}<dl>{known}<dt>You will be redirected to</dt><dd>{place}</dd></dl>"
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="state" value="{escape(state)}">'
        '<button class="strong" name="answer" value="allow">Allow</button>'
        '<button name="answer" value="deny">Do not allow</button></form>'
        '<p class="small">Allow it only if you have just connected this program yourself.</p>'
    )
    return whole(f"{client_name or 'A program'} – {server}", body)
