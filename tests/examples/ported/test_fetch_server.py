"""examples/ported/fetch_server.py: pages of the web as Markdown, and nothing that is private."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mcpkit.errors import ProtocolError
from mcpkit.testing import TestClient
from tests.examples.host import call, refused
from tests.examples.ported.serving import OVER, PORTED, arguments_of, ported
from tests.kit import PATIENCE

PAGE = """<!doctype html><html><head><title>T</title><script>evil()</script></head><body>
<nav>Menu</nav><main><h1>Tea</h1><p>Green <b>or</b>
black, <a href="/shop?kind=tea">buy it</a>.</p><ul><li>Sencha<li>Assam</ul></main>
<footer>Imprint</footer></body></html>"""
ROBOTS = """User-agent: *
Disallow: /closed
Allow: /closed/but-open
Disallow: /*.secret$
"""


FILES = {
    "/robots.txt": ("text/plain", ROBOTS.encode()),
    "/picture": ("image/png", b"\x89PNG\0\0"),
    "/endless": ("text/plain", b"x" * 3_000_000),
    "/latin": ("text/plain; charset=latin-1", "für".encode("latin-1")),
}
MOVED = {"/moved": "/", "/round": "/round", "/inwards": "http://127.0.0.2/"}


class Site(BaseHTTPRequestHandler):
    """A site on this machine."""

    def do_GET(self) -> None:
        kind, body = FILES.get(self.path, ("text/html; charset=utf-8", PAGE.encode()))
        if self.path == "/agent":
            kind, body = "text/plain", self.headers["User-Agent"].encode()
        self.send_response(302 if self.path in MOVED else 404 if self.path == "/missing" else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.path in MOVED:
            self.send_header("Location", MOVED[self.path])
        self.end_headers()
        with suppress(OSError):  # the client has read enough
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


@pytest.fixture(scope="module", params=OVER)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with ported("fetch_server.py", request.param, "--allow-private") as client:
        yield client


def fetched(client: TestClient, url: str, **arguments: object) -> str:
    """The contents without the line about their source."""
    found: str = call(client, "fetch", url=url, **arguments)
    return found.partition(":\n")[2]


def refusal(client: TestClient, url: str, **arguments: object) -> str:
    return refused(client, "fetch", url=url, **arguments)


def test_the_tool_and_the_prompt_have_their_old_names_and_arguments(client: TestClient) -> None:
    assert arguments_of(client) == {"fetch": ["url", "max_length", "start_index", "raw"]}
    (prompt,) = client.list_prompts()
    assert (prompt.name, [each.name for each in prompt.arguments]) == ("fetch", ["url"])


def test_a_page_is_markdown_or_html(client: TestClient, site: str) -> None:
    assert fetched(client, site) == (
        f"# Tea\n\nGreen **or** black, [buy it]({site}/shop?kind=tea).\n\n- Sencha\n- Assam"
    )
    assert fetched(client, site, raw=True) == PAGE
    assert fetched(client, f"{site}/latin") == "für", "decoded as the site says"


def test_a_long_page_comes_in_parts(client: TestClient, site: str) -> None:
    whole = fetched(client, site)
    first = fetched(client, site, max_length=10)
    assert first.startswith(whole[:10])
    assert first.endswith("characters follow: go on with start_index=10]")
    assert fetched(client, site, start_index=10) == whole[10:]
    assert "all of them were read" in refusal(client, site, start_index=1000)


def test_redirects_are_followed(client: TestClient, site: str) -> None:
    assert "# Tea" in fetched(client, f"{site}/moved")
    assert "redirects more than 10 times" in refusal(client, f"{site}/round")


def test_robots_txt_decides_for_the_model_and_not_for_the_user(
    client: TestClient, site: str
) -> None:
    assert "does not let programs read" in refusal(client, f"{site}/closed/page")
    assert "does not let programs read" in refusal(client, f"{site}/a.secret")
    assert "# Tea" in fetched(client, f"{site}/closed/but-open")
    (message,) = client.get_prompt("fetch", {"url": f"{site}/closed/page"}).messages
    assert message.text.startswith("# Tea")


def test_sites_get_the_name_of_the_program(client: TestClient, site: str) -> None:
    agent = f"{site}/agent"
    assert fetched(client, agent) == "ModelContextProtocol/1.0 (autonomous; mcpkit)"
    (message,) = client.get_prompt("fetch", {"url": agent}).messages
    assert message.text == "ModelContextProtocol/1.0 (user; mcpkit)"


def test_what_cannot_be_had_is_explained(client: TestClient, site: str) -> None:
    assert "answers with status 404" in refusal(client, f"{site}/missing")
    assert "is not text but image/png" in refusal(client, f"{site}/picture")
    assert "has more than 2000000 bytes" in refusal(client, f"{site}/endless")
    with pytest.raises(ProtocolError, match="answers with status 404"):
        client.get_prompt("fetch", {"url": f"{site}/missing"})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"url": "file:///etc/passwd"}, "url: must begin with http:// or https://"),
        ({"url": "http://ada:secret@example.com/"}, "url: must not have a user name"),
        ({"url": "http://example.com/", "max_length": 0}, "max_length: expected greater than 0"),
    ],
)
def test_a_bad_argument_is_refused(client: TestClient, arguments: Any, problem: str) -> None:
    assert problem in refused(client, "fetch", **arguments)


@pytest.mark.parametrize("over", OVER)
def test_private_addresses_are_refused_unless_they_are_allowed(over: str, site: str) -> None:
    port = site.rpartition(":")[2]
    with ported("fetch_server.py", over, "--ignore-robots-txt") as client:
        for host in ("localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
            said = refusal(client, f"http://{host}:{port}/")
            assert "has an address that is not public" in said
        assert "not public" in refusal(client, "http://169.254.169.254/latest/meta-data")
        with pytest.raises(ProtocolError, match="not public"):
            client.get_prompt("fetch", {"url": site})


def test_a_redirect_does_not_lead_to_a_private_address(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = runpy.run_path(str(PORTED / "fetch_server.py"))
    # No site here is public, so one of two that are not has to stand for it.
    monkeypatch.setitem(found["is_public"].__globals__, "is_public", "127.0.0.1".__eq__)
    here = site.replace("localhost", "127.0.0.1")
    with TestClient(found["make_app"](ignore_robots_txt=True)) as client:
        assert "# Tea" in fetched(client, f"{here}/moved")
        said = refusal(client, f"{here}/inwards")
    assert said == "127.0.0.2 has an address that is not public."


def test_robots_txt_may_be_ignored_and_the_user_agent_chosen(site: str) -> None:
    flags = ("--allow-private", "--ignore-robots-txt", "--user-agent", "ada/1.0")
    with ported("fetch_server.py", "stdio", *flags) as client:
        assert "# Tea" in fetched(client, f"{site}/closed/page")
        assert fetched(client, f"{site}/agent") == "ada/1.0"
