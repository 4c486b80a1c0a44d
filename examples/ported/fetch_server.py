"""Fetches pages of the web for a model, as Markdown.

    mcpkit run examples/ported/fetch_server.py
    mcpkit run examples/ported/fetch_server.py:make_app -- --ignore-robots-txt --user-agent me/1.0

Clients should not reach hosts that only this machine can reach, such as a router or cloud metadata:
an address that is not public is refused, also behind a redirect, and the connection goes to the
very address that was checked. `--allow-private` lifts that. With `--proxy-url` it is the proxy that
looks names up, so that it has to refuse them.
"""

import functools
import ipaddress
import re
import socket
import ssl
import time
from contextlib import aclosing
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Annotated
from urllib.parse import urljoin

import anyio
import httpx2
from pydantic import AfterValidator, Field

from mcpkit import Context, MCPKit, ToolError, prompt, tool

MAX_BYTES = 2_000_000
MAX_SECONDS = 30.0
MAX_PARSING = 5.0
MAX_REDIRECTS = 10
PIECE = 8192
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Behind which may be any address of IPv4."""
PRODUCT = "ModelContextProtocol/1.0"


class FetchError(Exception):
    """A page cannot be fetched; the message is for the client."""


def web_address(text: str) -> str:
    """Reject URLs that do not name a page."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise ValueError(f"is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("must begin with http:// or https:// and name a host")
    if url.userinfo:
        raise ValueError("must not have a user name or a password")
    return str(url)


Url = Annotated[str, AfterValidator(web_address), Field(max_length=4000)]


@dataclass(frozen=True)
class Page:
    """What came back.

    Args:
        url: After redirects.
        status: Of HTTP.
        kind: The MIME type, as the site says it.
        text: The decoded body.
    """

    url: str
    status: int
    kind: str
    text: str


@dataclass(frozen=True)
class Fetcher:
    """The tool and the prompt.

    Args:
        user_agent: What sites are told; the default tells who asked, the model or the user.
        robots: Whether robots.txt is obeyed when the model asks.
        proxy: The URL of a proxy.
        private: Whether addresses may be fetched that are not public.
    """

    user_agent: str | None = None
    robots: bool = True
    proxy: str | None = None
    private: bool = False

    @tool(read_only=True, open_world=True, expose_errors=FetchError)
    async def fetch(
        self,
        url: Url,
        ctx: Context,
        max_length: Annotated[int, Field(gt=0, lt=1_000_000)] = 5000,
        start_index: Annotated[int, Field(ge=0)] = 0,
        raw: bool = False,
    ) -> str:
        """Read a page of the web, as Markdown if it is HTML.

        A long page comes in parts; each tells where the next one begins.

        Args:
            url: The address of the page.
            max_length: How many characters to return at most.
            start_index: The character to begin at.
            raw: Whether to return HTML as it is.
        """
        agent = self.user_agent or f"{PRODUCT} (autonomous; mcpkit)"
        if self.robots:
            await self.check_robots(url, agent, ctx)
        text = await readable(await self.get(url, agent, ctx), raw=raw)
        if text and start_index >= len(text):
            raise ToolError(f"The page has {len(text)} characters, and all of them were read.")
        end = start_index + max_length
        more = f"\n\n[{len(text) - end} characters follow: go on with start_index={end}]"
        return f"Contents of {url}:\n{text[start_index:end]}" + more * (end < len(text))

    @prompt(name="fetch", expose_errors=FetchError)
    async def fetch_for_user(self, url: Url, ctx: Context) -> str:
        """Read a page of the web and put it into the conversation.

        Args:
            url: The address of the page.
        """
        agent = self.user_agent or f"{PRODUCT} (user; mcpkit)"
        return await readable(await self.get(url, agent, ctx))

    async def check_robots(self, url: str, agent: str, ctx: Context) -> None:
        """Ask the site whether programs may read a page.

        Raises:
            FetchError: They may not, or that cannot be known.
        """
        where = urljoin(url, "/robots.txt")
        page = await self.get(where, agent, ctx, any_status=True)
        closed = page.status in (401, 403) or page.status >= 500
        if closed or (page.status < 400 and not allowed(page.text, agent, url)):
            raise FetchError(
                f"{where} does not let programs read {url}"
                + f" (status {page.status})" * closed
                + ". The user can still fetch it, with the prompt named fetch."
            )

    async def get(self, url: str, agent: str, ctx: Context, *, any_status: bool = False) -> Page:
        """Get a page, within the limits of time, size and redirects.

        Raises:
            FetchError: It cannot be had.
        """
        try:
            with anyio.fail_after(MAX_SECONDS):
                for _ in range(MAX_REDIRECTS):
                    # A client of its own for each request: no cookies are kept, and no connection
                    # that was checked for one name is used for another name of the same address.
                    unpooled = httpx2.AsyncClient(
                        proxy=self.proxy, trust_env=False, timeout=MAX_SECONDS, verify=trusted()
                    )
                    async with aclosing(unpooled) as client:
                        sent = await self.send(client, url, agent)
                        async with aclosing(sent) as response:
                            if not response.has_redirect_location:
                                return await read(url, response, ctx, any_status=any_status)
                        url = web_address(urljoin(url, sent.headers["location"]))
        except TimeoutError:
            raise FetchError(f"{url} took more than {MAX_SECONDS:g} s.") from None
        except (httpx2.HTTPError, OSError, ValueError) as error:
            raise FetchError(f"Cannot fetch {url}: {error or type(error).__name__}") from None
        raise FetchError(f"{url} redirects more than {MAX_REDIRECTS} times.")

    async def send(self, client: httpx2.AsyncClient, url: str, agent: str) -> httpx2.Response:
        """Connect to addresses that were checked; TLS and the site still hear the name."""
        given = httpx2.URL(url)
        headers = {"User-Agent": agent, "Host": given.netloc.decode("ascii")}
        if self.proxy is not None:
            return await client.send(httpx2.Request("GET", given, headers=headers), stream=True)
        found = await anyio.getaddrinfo(given.host, given.port, type=socket.SOCK_STREAM)
        addresses = [str(each[4][0]) for each in found]
        if not self.private and not all(map(is_public, addresses)):
            raise FetchError(f"{given.host} has an address that is not public.")
        problem = httpx2.ConnectError(f"{given.host} has no address")
        for address in addresses:
            request = httpx2.Request(
                "GET",
                given.copy_with(host=address),
                headers=headers,
                extensions={"sni_hostname": given.host},
            )
            try:
                return await client.send(request, stream=True)
            except httpx2.ConnectError as error:
                problem = error
        raise problem


@functools.cache
def trusted() -> ssl.SSLContext:
    """Who is trusted to sign certificates; to read that takes longer than many a page."""
    return httpx2.create_ssl_context(trust_env=False)


def is_public(address: str) -> bool:
    """Tell whether everybody can reach an address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in NAT64 or (inner and not inner.is_global):
            return False
    return ip.is_global and not ip.is_multicast


async def read(url: str, response: httpx2.Response, ctx: Context, *, any_status: bool) -> Page:
    """Read a response up to the limit, and decode it."""
    if response.status_code >= 400 and not any_status:
        raise FetchError(f"{url} answers with status {response.status_code}.")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise FetchError(f"{url} has more than {MAX_BYTES} bytes.")
        ctx.progress(len(body), message=f"{len(body)} bytes")
    kind = response.headers.get("content-type", "")
    if b"\0" in body and "utf-16" not in kind and not any_status:
        raise FetchError(f"{url} is not text but {kind or 'bytes'}.")
    try:
        text = body.decode(response.charset_encoding or "utf-8", errors="replace")
    except LookupError:  # an unknown encoding
        text = body.decode("utf-8", errors="replace")
    return Page(url, response.status_code, kind, text)


async def readable(page: Page, *, raw: bool = False) -> str:
    """HTML as Markdown; anything else, or what has no text as Markdown, as it is."""
    is_html = "html" in page.kind or "<html" in page.text[:500].lower()
    if raw or not is_html:
        return page.text
    # Converting a long page takes a while and must not block other calls.
    return await anyio.to_thread.run_sync(to_markdown, page.text, page.url) or page.text


# --- robots.txt, RFC 9309 -------------------------------------------------------------------------


def allowed(robots: str, agent: str, url: str) -> bool:
    """Tell whether a robots.txt lets a program read a page: the longest rule that fits decides."""
    groups: dict[str, list[tuple[str, bool]]] = {}
    names: list[str] = []
    had_rule = False
    for line in robots.splitlines():
        field, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if field.lower() == "user-agent":
            names = [] if had_rule else names
            had_rule = False
            names.append(value.lower())
            groups.setdefault(value.lower(), [])
        elif field.lower() in ("allow", "disallow"):
            had_rule = True
            for name in names:
                groups[name].append((value, field.lower() == "allow"))
    product = agent.partition("/")[0].strip().lower()
    path = httpx2.URL(url).raw_path.decode("ascii")
    rules = groups.get(product, groups.get("*", []))
    fitting = [(len(rule), allow) for rule, allow in rules if rule and fits(rule, path)]
    return max(fitting, default=(0, True))[1]


def fits(rule: str, path: str) -> bool:
    """Match a rule with ``*`` and ``$``, in time that is in proportion to the path."""
    first, *rest = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for part in rest:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    if not rule.endswith("$"):
        return True
    return path.endswith(rest[-1]) if rest else at == len(path)


# --- HTML as Markdown -----------------------------------------------------------------------------

AROUND = {"title", "script", "style", "noscript", "template", "nav", "footer", "aside", "form"}
BLOCKS = {"p", "div", "section", "header", "ul", "ol", "table", "blockquote", "figure", "dl", "hr"}
MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`"}


class Markdown(HTMLParser):
    """Writes down what people read of a page; of one with ``<main>`` or ``<article>``, only that.

    Args:
        base: The address of the page, to which links are relative.
    """

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.whole: list[str] = []
        self.main: list[str] = []
        self.links: list[str] = []
        self.around = self.inside = self.lists = self.verbatim = 0
        """How many elements of each kind are open."""

    def write(self, text: str) -> None:
        """Add text to what is shown."""
        if not self.around:
            self.whole.append(text)
            if self.inside:
                self.main.append(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        given = dict(attrs)
        self.around += tag in AROUND
        self.inside += tag in ("main", "article")
        if tag in BLOCKS and self.whole[-1:] != ["- "]:
            self.write("\n\n")
        if re.fullmatch("h[1-6]", tag):
            self.write(f"\n\n{'#' * int(tag[1])} ")
        elif tag in ("ul", "ol"):
            self.lists += 1
        elif tag == "li":
            self.write("\n" + "  " * max(self.lists - 1, 0))
            self.write("- ")
        elif tag == "a":
            self.links.append(urljoin(self.base, given.get("href") or ""))
            self.write("[")
        elif tag == "pre":
            self.verbatim += 1
            self.write("\n\n```\n")
        elif tag in ("br", "tr", "dt", "dd"):
            self.write("\n")
        elif tag in ("td", "th"):
            self.write("| ")
        elif tag == "img" and given.get("alt"):
            self.write(f"![{given['alt']}]")
        elif tag in MARKS and not self.verbatim:
            self.write(MARKS[tag])

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if tag == "a" and self.links:
            self.write(f"]({self.links.pop()})")
        elif tag in ("ul", "ol") and self.lists:
            self.lists -= 1
        elif tag == "pre" and self.verbatim:
            self.verbatim -= 1
            self.write("\n```\n\n")
        elif tag in ("td", "th"):
            self.write(" ")
        elif tag in MARKS and not self.verbatim:
            self.write(MARKS[tag])
        if tag in BLOCKS or re.fullmatch("h[1-6]", tag):
            self.write("\n\n")
        self.around -= tag in AROUND and self.around > 0
        self.inside -= tag in ("main", "article") and self.inside > 0

    def handle_data(self, data: str) -> None:
        """Add text of the page."""
        if not self.verbatim:
            data = re.sub(r"\s+", " ", data)
            if self.whole and self.whole[-1].endswith(("\n", " ")):
                data = data.lstrip()
        self.write(data)


def to_markdown(html: str, base: str) -> str:
    """HTML as Markdown, with one empty line where there were several."""
    parser = Markdown(base)
    deadline = time.monotonic() + MAX_PARSING
    for at in range(0, len(html), PIECE):
        parser.feed(html[at : at + PIECE])
        if time.monotonic() > deadline:
            raise FetchError(f"{base} takes too long to make Markdown of; it can be read raw.")
    # To close it, older versions of Python take a time that grows with the square of what is left,
    # which is a tag or a comment without an end.
    if len(parser.rawdata) < PIECE:
        parser.close()
    written = "".join(parser.main).strip() or "".join(parser.whole).strip()
    lines = [line.rstrip() for line in written.splitlines()]
    kept = [line for before, line in zip(["", *lines], lines, strict=False) if before or line]
    return "\n".join(kept)


def make_app(
    user_agent: str | None = None,
    ignore_robots_txt: bool = False,
    proxy_url: str | None = None,
    allow_private: bool = False,
) -> MCPKit:
    """Make the server, with the flags of its command line."""
    app = MCPKit("mcp-fetch", version="1.0", instructions="Reads pages of the web.")
    app.include(Fetcher(user_agent, not ignore_robots_txt, proxy_url, allow_private))
    return app


app = make_app()

if __name__ == "__main__":
    app.run()
