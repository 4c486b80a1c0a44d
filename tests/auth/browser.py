"""A browser without a window: it follows redirects, keeps cookies, and fills in forms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from http.client import HTTPMessage
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from urllib.request import (
    HTTPCookieProcessor,
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

_PATIENCE: Final = 20.0
_MOST_STEPS: Final = 20


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: the caller decides."""

    def redirect_request(self, *given: Any) -> None:
        """Return no request."""


@dataclass
class Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict)  # without buttons
    buttons: list[tuple[str, str]] = field(default_factory=list)  # names and values


class _Forms(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.found: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = urljoin(self._url, given.get("action", ""))
            self.found.append(Form(action))
        elif tag in ("input", "button") and self.found:
            form, name, value = self.found[-1], given.get("name", ""), given.get("value", "")
            if given.get("type", "submit" if tag == "button" else "text") == "submit":
                form.buttons.append((name, value))
            elif name:
                form.fields[name] = value


@dataclass
class Page:
    """What a server has answered."""

    url: str
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def location(self) -> str | None:
        """Where it leads, absolute; None if it leads nowhere."""
        found = self.headers.get("location")
        return None if found is None else urljoin(self.url, found)

    @property
    def link_back(self) -> str | None:
        """The address with which a page of an error tells the client of it, if the user wants."""
        found = re.search(r'href="([^"]+)">Tell the program', self.text)
        return None if found is None else unescape(found[1])

    @property
    def forms(self) -> list[Form]:
        parser = _Forms(self.url)
        parser.feed(self.text)
        return parser.found


def sent(request: Request, opener: OpenerDirector | None = None) -> Page:
    """Send a request without proxies, and return the response, whatever its status."""
    try:
        response = (opener or build_opener(ProxyHandler({}))).open(request, timeout=_PATIENCE)
    except HTTPError as error:
        response = error
    with response:
        return Page(request.full_url, response.status, response.headers, response.read())


class Browser:
    """A user with a browser, which has cookies of its own."""

    def __init__(self, answers: Mapping[str, str] | None = None, button: str | None = None) -> None:
        self.answers = dict(answers or {})
        self.button = button
        # Browsers take loopback for safe as well.
        self.cookies = CookieJar(DefaultCookiePolicy(secure_protocols=("https", "http")))
        self._opener = build_opener(ProxyHandler({}), _Stay(), HTTPCookieProcessor(self.cookies))
        self.seen: list[Page] = []

    def open(self, url: str, form: Any = None, headers: Any = None) -> Page:
        """Send one request: a GET, or a form with POST."""
        body = None if form is None else urlencode(form).encode()
        request = Request(url, body, {"Accept": "text/html", **(headers or {})})
        self.seen.append(sent(request, self._opener))
        return self.seen[-1]

    def fill_in(self, page: Page) -> Page:
        """Answer the form of a page, and press a button."""
        assert page.forms, f"{page.url} answers {page.status}, without a form: {page.text[:500]}"
        form = page.forms[0]
        fields = {name: each or self.answers.get(name, "") for name, each in form.fields.items()}
        pressed = [each for each in form.buttons if self.button in (None, each[1])]
        fields.update(each for each in (pressed or form.buttons)[:1] if each[0])
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(page.url))
        return self.open(form.action, fields, {"Origin": origin, "Referer": page.url})

    def walk(self, url: str, end: str) -> str:
        """Follow redirects and answer forms until an address begins as it should; return that."""
        page = self.open(url)
        for _ in range(_MOST_STEPS):
            where = page.location or page.link_back
            if where is None:
                page = self.fill_in(page)
            elif where.startswith(end):
                return where
            else:
                page = self.open(where)
        raise AssertionError(f"{url} leads round in circles, and not to {end}")


def fields_of(url: str) -> dict[str, str]:
    """The fields of the query of a URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
