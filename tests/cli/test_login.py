"""``mcpkit login`` and ``logout``, and the commands that send what is kept, as processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from mcpkit import MCPKit
from mcpkit.auth import Keys, new_key
from mcpkit.cli._connection import ConnectionOptions
from mcpkit.cli._credentials import machine_for, stored_logins
from tests.auth.browser import Browser, fields_of
from tests.auth.client.world import hosting
from tests.auth.server.conftest import MACHINE_SECRET, Site, serving
from tests.cli.commands import MCPKIT, Ended, mcpkit, single_line
from tests.transports.processes import Process, started
from tests.uvicorns import listen, running

ADDRESS: Final = re.compile(r"Log in here[^:]*: (http\S+)\n")
MACHINE: Final[dict[str, Any]] = {"MCPKIT_CLIENT_SECRET": MACHINE_SECRET}
SECRETS: Final = ("access_token", "refresh_token", "client_secret")


class Person:
    """A user with a terminal, and a folder that their logins are kept in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "credentials"
        self.secrets: set[str] = {MACHINE_SECRET}

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.json")) if self.folder.exists() else []

    @property
    def kept(self) -> dict[str, Any]:
        """The one login that is kept."""
        [file] = self.files
        found: dict[str, Any] = json.loads(file.read_text())
        self.secrets.update(found[name] for name in SECRETS if found[name])
        return found

    def change(self, **members: Any) -> None:
        """Write something else into the login that is kept."""
        [file] = self.files
        file.write_text(json.dumps({**self.kept, **members}))

    def variables(self, **more: str) -> dict[str, str]:
        usual = {"MCPKIT_CREDENTIALS": str(self.folder), "MCPKIT_TOKEN": "", "BROWSER": "false"}
        return {**usual, **more}

    def runs(self, *arguments: str, cold: bool = False, **variables: Any) -> Ended:
        """Run a command, which shows no secret (SEC-13, AUTH-16)."""
        return self._checked(mcpkit(*arguments, env=self.variables(**variables), cold=cold))

    def _checked(self, ended: Ended) -> Ended:
        if len(self.files) == 1:
            assert self.kept
        for secret in self.secrets:
            assert secret not in ended.stdout + ended.stderr
        return ended

    def logs_in(
        self, url: str, *options: str, browser: Browser | None = None, **variables: str
    ) -> Ended:
        """Log in, with a browser that goes where the command says."""
        with self.logging_in(url, *options, **variables) as (process, address):
            browser = browser or Browser({"name": "ada"}, "allow")
            back = browser.walk(address, fields_of(address)["redirect_uri"])
            assert browser.open(back).status == 200
            return self._checked(outcome_of(process))

    @contextmanager
    def logging_in(
        self, url: str, *options: str, **variables: str
    ) -> Iterator[tuple[Process, str]]:
        """A command that waits for a browser, and the address that it has printed."""
        command = [*MCPKIT, "login", url, "--no-browser", *options]
        env = self.variables(**variables)
        with started(command, env=env, stdin=subprocess.DEVNULL, reading=False) as process:
            process.wait_for_stderr("\n")
            found = ADDRESS.match(process.stderr)
            assert found is not None, process.stderr
            yield process, found[1]


def outcome_of(process: Process) -> Ended:
    """What came of a command after it had printed its address."""
    code = process.exit_code()
    assert process.stdout is not None
    return Ended(code, process.stdout.read().decode(), process.stderr.partition("\n")[2])


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


@pytest.fixture(scope="module")
def shared() -> Iterator[Site]:
    with serving() as found:
        yield found


@pytest.fixture
def site(shared: Site) -> Site:
    """A server that has forgotten how many clients have registered."""
    shared.clock.now += 3600
    shared.client_id = shared.register(client_name="An editor")["client_id"]
    return shared


def whoami(person: Person, site: Site, *options: str, **variables: Any) -> Ended:
    return person.runs("call", site.url, "whoami", *options, **variables)


def said(ended: Ended) -> str:
    assert ended.code == 0, ended.stderr
    return ended.stdout


# --- logging in -----------------------------------------------------------------------------------


def test_a_login_opens_the_browser_and_other_commands_use_what_it_keeps(
    person: Person, site: Site, tmp_path: Path
) -> None:
    browser = tmp_path / "browser.py"
    browser.write_text(
        "import sys\n"
        "from tests.auth.browser import Browser, fields_of\n"
        "browser = Browser({'name': 'ada'}, 'allow')\n"
        "browser.open(browser.walk(sys.argv[1], fields_of(sys.argv[1])['redirect_uri']))\n"
    )
    command = f"{sys.executable} {browser} %s"
    ended = person.runs("login", site.url, cold=True, BROWSER=command)
    assert ended.code == 0, ended.stderr
    assert ended.stderr.startswith(f"Log in here, if no browser opens: {site.origin}/authorize?")
    [file] = person.files
    first, second = ended.stdout.splitlines()
    assert first == (
        f"You are logged in to {site.url}: {site.origin} has issued a token for notes:read, "
        f"notes:write."
    )
    until = r"The token is valid until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d, and is then refreshed\."
    assert re.fullmatch(rf"{until} It is stored in {re.escape(str(file))}\.", second)
    assert said(whoami(person, site)) == "ada False [notes:read notes:write]\n"
    offer = json.loads(said(person.runs("inspect", site.url, "--json")))
    assert "write_notes" in [each["name"] for each in offer["tools"]]


def test_a_second_login_is_not_needed_but_possible(person: Person, site: Site) -> None:
    """With --again, the client registers again, too."""
    person.logs_in(site.url)
    before = person.kept
    ended = person.runs("login", site.url, "--scope", "notes:write")
    assert said(ended).startswith(
        f"You are logged in to {site.url} already (--again: log in again): {site.origin} has issued"
    )
    assert (ended.stderr, person.kept) == ("", before)
    ended = person.logs_in(site.url, "--again", browser=Browser({"name": "eve"}, "allow"))
    assert said(ended).startswith(f"You are logged in to {site.url}: ")
    assert person.kept["client_id"] != before["client_id"]
    assert said(whoami(person, site)).startswith("eve ")


def test_a_client_that_the_issuer_knows_already(person: Person, site: Site) -> None:
    """Its secret is in the environment, and never an argument."""
    uris = ["http://127.0.0.1/callback"]
    known = site.register(redirect_uris=uris, token_endpoint_auth_method="client_secret_basic")
    id, secret = known["client_id"], known["client_secret"]
    person.secrets.add(secret)
    assert person.logs_in(site.url, "--client-id", id, MCPKIT_CLIENT_SECRET=secret).code == 0
    assert person.kept["client_id"] == id
    person.change(expires_at=0)
    assert said(whoami(person, site)).startswith("ada ")


def test_a_document_describes_the_client_and_a_port_is_named(person: Person, site: Site) -> None:
    with listen() as listener:
        port = str(listener.getsockname()[1])
        taken = person.runs("login", site.url, "--redirect-port", port)
    assert taken.refusal.endswith(f"port {port}, to which the browser is redirected, is in use")
    document = "https://example.com/client.json"
    options = ["--redirect-port", port, "--client-document", document]
    with person.logging_in(site.url, *options) as (_, address):
        fields = fields_of(address)
    assert fields["client_id"] == document
    assert fields["redirect_uri"] == f"http://127.0.0.1:{port}/callback"


# --- logins that fail -----------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")
def test_ctrl_c_changes_nothing(person: Person, site: Site) -> None:
    for logged_in in (False, True):
        if logged_in:
            person.logs_in(site.url)
        before = [each.read_text() for each in person.files]
        with person.logging_in(site.url, "--again") as (process, _):
            process.signal(signal.SIGINT)
            assert outcome_of(process) == (130, "", "")
        assert [each.read_text() for each in person.files] == before
    assert said(whoami(person, site)).startswith("ada ")


def test_the_user_does_not_log_in(person: Person, site: Site) -> None:
    ended = person.runs("login", site.url, "--no-browser", "--timeout", "0.2")
    assert (ended.code, ended.stdout, person.files) == (2, "", [])
    assert ended.stderr.endswith(f"\nmcpkit: {site.url}: no login within 0.2 seconds\n")
    ended = person.logs_in(site.url, browser=Browser({"name": "ada"}, "deny"))
    assert (ended.code, person.files) == (2, [])
    assert ended.refusal == (
        f"{site.url}: the login has failed: The user has not allowed it (access_denied)"
    )


REFUSED: Final = {
    "login server.py": "login is for URLs, not for 'server.py'",
    "login http://a.b/mcp": "URL: 'http://a.b/mcp' is not encrypted; use https",
    "login https://ada:pass@a.b/": "URL: 'https://ada:pass@a.b/' is not a URL",
    "login URL --scope offline_access": "--scope: omit offline_access",
    'login URL --scope a"b': "--scope: 'a\"b' is not a scope",
    "login URL --timeout 0": "--timeout must be more than 0, not 0",
    "login URL --issuer http://a.b": "--issuer: 'http://a.b' is not encrypted",
    "login URL --redirect-port 70000": "--redirect-port must be from 1 to 65535, not 70000",
    "login URL --client-document http://a.b/c": "--client-document: 'http://a.b/c' is",
    "login URL --client-id a --client-document https://b/c": "--client-id and --client-document: ",
    "login URL --machine": "--machine needs --client-id",
    "login URL --machine --client-id a": "--machine needs a secret in MCPKIT_CLIENT_SECRET, or the",
    "login URL --machine --client-id a --no-browser": "--machine needs no browser: leave out --re",
    "inspect server.py --token SECRET": "--token is for URLs, not for 'server.py'; see --env",
    "inspect http://a.b/mcp --token SECRET": "--token: 'http://a.b/mcp' is not encrypted",
    "inspect URL --token SECRET -H Authorization:x": "--token and --header 'Authorization",
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.items(), ids=REFUSED)
def test_one_line_says_what_is_wrong(person: Person, arguments: str, message: str) -> None:
    """SEC-16: nor is a token sent where others could read it."""
    person.secrets.add("sw0rdfish")
    words = arguments.replace("URL", "http://127.0.0.1:9/mcp").replace("SECRET", "sw0rdfish")
    assert person.runs(*words.split()).refusal.startswith(message)


@pytest.mark.parametrize("command", [["login"], ["inspect"], ["logout"]])
def test_a_folder_that_is_none(person: Person, site: Site, command: list[str]) -> None:
    person.folder.write_text("a file")
    ended = mcpkit(*command, site.url, env=person.variables())
    assert f"credentials cannot be stored in {person.folder}: " in ended.refusal


# --- using it -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "inspect URL",
        "call URL whoami",
        "read URL notes://all",
        "prompt URL greet",
        "check URL",
        "tasks list URL",
    ],
)
def test_every_command_says_in_one_line_which_one_logs_in(
    person: Person, site: Site, words: str
) -> None:
    ended = person.runs(*words.replace("URL", site.url).split())
    assert ended.refusal == f"a login is needed: run mcpkit login {site.url}"


def test_an_expired_token_is_renewed_before_it_is_sent(person: Person, site: Site) -> None:
    """Until the login itself has expired; other servers get neither."""
    person.logs_in(site.url)
    before = person.kept
    person.change(expires_at=time.time() - 1)
    assert said(whoami(person, site)).startswith("ada ")
    after = person.kept
    assert after["access_token"] != before["access_token"]
    assert after["refresh_token"] != before["refresh_token"]
    assert after["expires_at"] > time.time()
    assert after["granted"] == ["notes:read", "notes:write"]
    assert said(whoami(person, site)).startswith("ada ")
    assert person.kept == after
    with serving() as other:
        ended = whoami(person, other)
    assert ended.refusal == f"a login is needed: run mcpkit login {other.url}"
    site.clock.now += 31 * 24 * 3600
    assert whoami(person, site).refusal == f"a login is needed: run mcpkit login {site.url}"
    assert person.logs_in(site.url).code == 0


def test_what_needs_more_than_was_given_names_it(person: Person, site: Site) -> None:
    """AUTH-6: a tool that is hidden, and the command that has it shown."""
    reader = Browser({"name": "reader"}, "allow")
    ended = person.logs_in(site.url, "--scope", "notes:write", browser=reader)
    assert ended.code == 1
    assert ended.stderr == "mcpkit: these scopes were requested, and not granted: notes:write\n"
    ended = person.logs_in(site.url, "--again", browser=Browser({"name": "reader"}, "allow"))
    assert said(ended).startswith(
        f"You are logged in to {site.url}: {site.origin} has issued a token for notes:read.\n"
    )
    assert person.runs("call", site.url, "write_notes").refusal == (
        f"{site.url} needs scopes that your login lacks, notes:write: "
        f"run mcpkit login {site.url} --scope notes:write"
    )
    assert person.runs("call", site.url, "red_notes").refusal == (
        "there is no tool 'red_notes'; did you mean 'read_notes'?"
    )
    assert person.runs("prompt", site.url, "greet").refusal == (
        "there is no prompt 'greet'; there are none at all"
    )
    ended = person.logs_in(site.url, "--scope", "notes:write")
    assert ended.code == 0, ended.stderr
    assert said(person.runs("call", site.url, "write_notes")) == "written\n"


# --- tokens from elsewhere ------------------------------------------------------------------------


def test_a_token_is_an_option_or_a_variable(person: Person, site: Site) -> None:
    """The option goes before the variable, and both before what is kept (AUTH-6)."""
    ada, eve = (
        site.tokens(Browser({"name": name}, "allow"))["access_token"] for name in ("ada", "eve")
    )
    reading = site.tokens(scope="notes:read")["access_token"]
    person.secrets |= {ada, eve, reading, "sw0rdfish"}
    header = f"authorization: Bearer {eve}"

    def name(*options: str, **variables: str) -> str:
        return said(whoami(person, site, *options, **variables)).split()[0]

    assert name("--token", ada) == "ada"
    assert name(MCPKIT_TOKEN=ada) == "ada"
    assert name("--token", eve, MCPKIT_TOKEN=ada) == "eve"
    assert name("--header", header, MCPKIT_TOKEN=ada) == "eve"
    person.logs_in(site.url, browser=Browser({"name": "zoe"}, "allow"))
    assert name(MCPKIT_TOKEN=ada) == "ada"
    assert name("--header", header) == "eve"
    assert name() == "zoe"
    ended = person.runs("login", site.url, MCPKIT_TOKEN=ada)
    assert ended.stderr == "mcpkit: MCPKIT_TOKEN is set, and is sent instead\n"
    ended = person.runs("call", site.url, "write_notes", MCPKIT_TOKEN=reading)
    assert single_line(ended, 1).endswith(": write_notes needs the scopes notes:write")
    ended = whoami(person, site, "--token", "sw0rdfish")
    assert ended.refusal == f"{site.url}: The token is not valid"


@pytest.mark.parametrize("token", ["Bearer sw0rdfish", "sw0rdfish\n", "sw0rd fish", "ſword"])
def test_an_invalid_token_is_not_shown(person: Person, token: str) -> None:
    """SEC-18, SEC-13."""
    ended = person.runs("inspect", "https://example.com/mcp", MCPKIT_TOKEN=token)
    assert ended.refusal.startswith("MCPKIT_TOKEN: a token is a text")
    assert token not in ended.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("inspect URL", "MCPKIT_TOKEN"),
        ("inspect URL", "MCPKIT_CREDENTIALS"),
        ("logout URL", "MCPKIT_CREDENTIALS"),
        ("login URL --client-id a", "MCPKIT_CLIENT_SECRET"),
        ("login URL --client-id a --machine", "MCPKIT_CLIENT_SECRET"),
        ("login URL --client-id a --machine", "MCPKIT_CLIENT_KEY"),
    ],
)
def test_a_placeholder_is_no_credential(person: Person, words: str, name: str) -> None:
    arguments = words.replace("URL", "https://127.0.0.1:9/mcp").split()
    variables: Any = {name: f"${{{name}}}"}
    ended = person.runs(*arguments, **variables)
    assert ended.refusal.startswith(f"{name} has a placeholder")


def test_no_server_that_is_started_here_gets_them(person: Person, tmp_path: Path) -> None:
    """They are for servers at URLs."""
    server = tmp_path / "server.py"
    server.write_text(
        "import os\n"
        "from mcpkit import MCPKit\n"
        "app = MCPKit('curious')\n"
        "@app.tool\n"
        "def look() -> list[str]:\n"
        "    names = ('MCPKIT_TOKEN', 'MCPKIT_CLIENT_SECRET', 'OTHER')\n"
        "    return [os.environ.get(name) or 'nothing' for name in names]\n"
    )
    ended = person.runs("call", str(server), "look", MCPKIT_TOKEN="sw0rdfish", **MACHINE, OTHER="x")
    assert json.loads(said(ended)) == ["nothing", "nothing", "x"]


async def test_only_a_caller_without_a_token_and_a_header_is_anonymous(
    person: Person, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mcpkit check` warns of servers that answer such a caller."""
    monkeypatch.setenv("MCPKIT_CREDENTIALS", str(person.folder))
    monkeypatch.delenv("MCPKIT_TOKEN", raising=False)
    assert ConnectionOptions(site.url).is_anonymous
    assert not ConnectionOptions(site.url, token="sw0rdfish").is_anonymous
    assert not ConnectionOptions(site.url, headers=["X-Key: sw0rdfish"]).is_anonymous
    person.logs_in(site.url)
    options = ConnectionOptions(site.url)
    async with options.connected():
        assert not options.is_anonymous
    monkeypatch.setenv("MCPKIT_TOKEN", "sw0rdfish")
    assert not ConnectionOptions(site.url).is_anonymous


# --- logging out ----------------------------------------------------------------------------------


def test_a_logout_revokes_and_forgets(person: Person, site: Site) -> None:
    person.logs_in(site.url)
    old = person.kept
    assert said(person.runs("logout", site.url)) == (
        f"You are logged out of {site.url}: the login is revoked and forgotten.\n"
    )
    assert person.files == []
    page = site.refresh(old["refresh_token"], client_id=old["client_id"])
    assert (page.status, page.json["error"]) == (400, "invalid_grant")
    assert site.call(old["access_token"]).status == 401
    ended = person.runs("logout", site.url, cold=True)
    assert said(ended) == f"There is no login to {site.url}.\n"


def test_a_logout_forgets_what_is_left_of_a_login(person: Person) -> None:
    with serving() as site:
        person.logs_in(site.url)
        person.change(access_token=None, refresh_token=None)
        assert said(person.runs("logout", f"{site.url}/")) == (
            f"The login to {site.url} had ended; what was left of it is forgotten.\n"
        )
        assert person.files == []
        person.logs_in(site.url)
        person.files[0].write_text("{broken")
        ended = mcpkit("logout", site.url, env=person.variables(MCPKIT_TOKEN="x"))
        assert said(ended) == f"There is no login to {site.url}.\n"
        assert ended.stderr == "mcpkit: MCPKIT_TOKEN is still set, and is sent\n"
        assert person.files == []
        person.logs_in(site.url)
    ended = person.runs("logout", site.url)  # when its issuer is unreachable
    assert said(ended) == f"You are logged out of {site.url}: the login is forgotten here.\n"
    assert ended.stderr == (
        f"mcpkit: {site.origin} has not revoked it: its tokens are valid until they expire\n"
    )
    assert person.files == []


@pytest.mark.skipif(sys.platform == "win32", reason="finds home folders elsewhere")
def test_where_there_is_no_home(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then nothing is kept, and servers that ask for nothing can be looked at all the same."""

    def lost() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("MCPKIT_CREDENTIALS", "MCPKIT_TOKEN", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lost)
    assert ConnectionOptions("https://x/mcp").is_anonymous
    with pytest.raises(typer.Exit):
        stored_logins()
    assert capsys.readouterr().err == (
        "mcpkit: there is no home folder to store logins in; MCPKIT_CREDENTIALS names another\n"
    )


# --- machines -------------------------------------------------------------------------------------


def test_a_machine_logs_in_without_a_user(person: Person, site: Site) -> None:
    """And gets another token by itself: there is none to be renewed."""
    words = ["login", site.url, "--machine", "--client-id", "machine"]
    assert said(person.runs(*words, **MACHINE)).startswith(f"You are logged in to {site.url}: ")
    before = person.kept
    assert before["refresh_token"] is None
    assert said(whoami(person, site)).startswith("client:machine ")
    assert " already " in said(person.runs(*words, **MACHINE))
    site.clock.now += 2 * 3600
    assert said(whoami(person, site)).startswith("client:machine ")
    assert person.kept["access_token"] != before["access_token"]
    person.change(expires_at=0)
    assert said(whoami(person, site)).startswith("client:machine ")
    assert "is revoked and forgotten" in said(person.runs("logout", site.url))


def written(key: Any, folder: Path, password: bytes | None = None) -> str:
    """The path of a file with a key."""
    kind = NoEncryption() if password is None else BestAvailableEncryption(password)
    path = folder / "key.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kind))
    return str(path)


KEYS: Final = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "RS256": rsa.generate_private_key(65537, 2048),
}


@pytest.mark.parametrize(("algorithm", "key"), KEYS.items(), ids=KEYS)
def test_a_key_is_signed_with_as_its_kind_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, key: Any
) -> None:
    monkeypatch.delenv("MCPKIT_CLIENT_SECRET", raising=False)
    monkeypatch.setenv("MCPKIT_CLIENT_KEY", written(key, tmp_path))
    machine = machine_for("nightly")
    assert machine is not None
    assert machine._algorithm == algorithm


def test_a_key_stays_where_it_is(person: Person, tmp_path: Path) -> None:
    """Another token is requested where the variable is set."""
    path = written(KEYS["ES256"], tmp_path)
    with hosting() as host, host.world() as world:
        words = ["login", world.url, "--machine", "--client-id", "nightly"]
        world.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
        odd = {"expires_in": 1e300, "scope": "a \x1b[31m b"}  # an issuer may say anything
        world.told = lambda answer: {**answer, **odd, "refresh_token": None}
        first, second = said(person.runs(*words, MCPKIT_CLIENT_KEY=path)).splitlines()
        assert first.endswith(" has issued a token for a, b.")
        assert second.startswith("The issuer does not state when the token expires. ")
        assert "PRIVATE KEY" not in person.files[0].read_text()
        assert person.runs("inspect", world.url).code == 0
        world.end_tokens()
        assert person.runs("inspect", world.url).refusal == (
            f"the token for {world.url} has expired: set MCPKIT_CLIENT_KEY, or run "
            f"mcpkit login {world.url} --machine --client-id nightly"
        )
        assert person.runs("inspect", world.url, MCPKIT_CLIENT_KEY=path).code == 0
        assert [world.at("/mcp")[-1].token] == [*world.good]
        assert all("client_assertion" in each.form for each in world.at("/token"))
    with hosting() as host, host.world() as world:
        world.good[""] = ()  # its metadata counts even though it lets anyone in (AUTH-3)
        world.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
        words = ["login", world.url, "--machine", "--client-id", "nightly"]
        assert person.runs(*words, MCPKIT_CLIENT_KEY=path).code == 0
        assert person.runs("inspect", world.url).code == 0
        first, *_, last = (each.token for each in world.at("/mcp"))
        assert [first, last] == [*world.good]


def test_a_file_without_a_usable_key(person: Person, tmp_path: Path) -> None:
    words = ["login", "http://127.0.0.1:9/mcp", "--machine", "--client-id", "nightly"]
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing")
    locked = written(KEYS["ES256"], tmp_path, b"a password")
    for path, message in {
        str(tmp_path / "missing.pem"): "cannot be read: No such file or directory",
        str(wrong): "has no private key in PEM, or one with a password",
        locked: "has no private key in PEM, or one with a password",
    }.items():
        ended = person.runs(*words, MCPKIT_CLIENT_KEY=path)
        assert ended.refusal == f"MCPKIT_CLIENT_KEY: {path} {message}"


def test_servers_that_name_no_issuer(person: Person) -> None:
    """One is open, the other has keys of its own."""
    key = new_key()
    person.secrets.add(key.key)
    with listen() as listener, running(MCPKit("open").asgi(), listener):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        assert said(person.runs("login", url)) == f"{url} asks for no login.\n"
    app: MCPKit[None] = MCPKit("keyed", auth=Keys({key.hash: "me"}))
    with listen() as listener, running(app.asgi(), listener):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        assert person.runs("inspect", url, MCPKIT_TOKEN=key.key).code == 0
        assert person.runs("inspect", url).refusal == (
            f"{url} requires a token (it does not say who issues them): set it in MCPKIT_TOKEN"
        )
        assert person.runs("login", url).refusal == (
            f"{url} requires a token, and does not say who issues it; if you have one, set it in "
            f"MCPKIT_TOKEN"
        )
    assert person.files == []
