"""What is known of hosts, and how their files are edited: without running anything."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.cli._install import HOSTS, writing
from mcpkit.cli._install import config as configs
from mcpkit.cli._install.config import ByHand, InFile
from mcpkit.cli._install.hosts import Entry, Launch, Machine, Remote, Unfit, merged
from mcpkit.cli._install.jsonc import Json
from mcpkit.cli._install.launch import server_at
from mcpkit.cli._install.toml import Toml
from mcpkit.cli._install.writing import locked, read, write

# --- where files are ------------------------------------------------------------------------------

LIBRARY = "Library/Application Support"
ROAMING = "AppData/Roaming"

FILES: dict[str, dict[str, str | None]] = {
    "claude-desktop": {
        "darwin": f"{LIBRARY}/Claude/claude_desktop_config.json",
        "win32": f"{ROAMING}/Claude/claude_desktop_config.json",
        "linux": None,
    },
    "claude-code": dict.fromkeys(["darwin", "win32", "linux"], ".claude.json"),
    "cursor": dict.fromkeys(["darwin", "win32", "linux"], ".cursor/mcp.json"),
    "vscode": {
        "darwin": f"{LIBRARY}/Code/User/mcp.json",
        "win32": f"{ROAMING}/Code/User/mcp.json",
        "linux": ".config/Code/User/mcp.json",
    },
    "windsurf": dict.fromkeys(["darwin", "win32", "linux"], ".codeium/windsurf/mcp_config.json"),
    "gemini-cli": dict.fromkeys(["darwin", "win32", "linux"], ".gemini/settings.json"),
    "codex": dict.fromkeys(["darwin", "win32", "linux"], ".codex/config.toml"),
    "zed": {
        "darwin": ".config/zed/settings.json",
        "win32": f"{ROAMING}/Zed/settings.json",
        "linux": ".config/zed/settings.json",
    },
    "cline": dict.fromkeys(
        ["darwin", "win32", "linux"], ".cline/data/settings/cline_mcp_settings.json"
    ),
    "copilot-cli": dict.fromkeys(["darwin", "win32", "linux"], ".copilot/mcp-config.json"),
    "json": dict.fromkeys(["darwin", "win32", "linux"]),
}


def machine(platform: str, home: Path, **variables: str) -> Machine:
    return Machine(platform=platform, home=home, variables=variables)


class TestFiles:
    @pytest.mark.parametrize("platform", ["darwin", "win32", "linux"])
    @pytest.mark.parametrize("name", HOSTS)
    def test_below_the_home_folder(self, name: str, platform: str, tmp_path: Path) -> None:
        expected = FILES[name][platform]
        found = HOSTS[name].user(machine(platform, tmp_path))
        assert found == (None if expected is None else tmp_path / expected)

    @pytest.mark.parametrize(
        ("name", "platform", "variable", "file"),
        [
            ("claude-desktop", "win32", "APPDATA", "Claude/claude_desktop_config.json"),
            ("vscode", "win32", "APPDATA", "Code/User/mcp.json"),
            ("vscode", "linux", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
            ("zed", "win32", "APPDATA", "Zed/settings.json"),
            ("zed", "linux", "XDG_CONFIG_HOME", "zed/settings.json"),
            ("claude-code", "linux", "CLAUDE_CONFIG_DIR", ".claude.json"),
            ("codex", "linux", "CODEX_HOME", "config.toml"),
            ("copilot-cli", "linux", "COPILOT_HOME", "mcp-config.json"),
        ],
    )
    def test_where_a_variable_says(
        self, name: str, platform: str, variable: str, file: str, tmp_path: Path
    ) -> None:
        there = machine(platform, tmp_path / "home", **{variable: str(tmp_path / "there")})
        assert HOSTS[name].user(there) == tmp_path / "there" / file

    def test_a_claude_desktop_from_the_windows_package_has_another_one(
        self, tmp_path: Path
    ) -> None:
        package = tmp_path / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc"
        package.mkdir(parents=True)
        found = HOSTS["claude-desktop"].user(machine("win32", tmp_path))
        assert found == package / "LocalCache/Roaming/Claude/claude_desktop_config.json"


# --- how entries look -----------------------------------------------------------------------------

START = {"command": "/bin/it", "args": ["a"]}
URL = "https://example.com/mcp"
HEADERS = {"Authorization": "Bearer x"}

ENTRIES: dict[str, tuple[Entry, Entry | None]] = {
    "claude-desktop": (START, None),
    "claude-code": ({"type": "stdio", **START}, {"type": "http", "url": URL, "headers": HEADERS}),
    "cursor": ({"type": "stdio", **START}, {"url": URL, "headers": HEADERS}),
    "vscode": ({"type": "stdio", **START}, {"type": "http", "url": URL, "headers": HEADERS}),
    "windsurf": (START, {"serverUrl": URL, "headers": HEADERS}),
    "gemini-cli": (START, {"httpUrl": URL, "headers": HEADERS}),
    "codex": (START, {"url": URL, "http_headers": HEADERS}),
    "zed": (START, {"url": URL, "headers": HEADERS}),
    "cline": (START, {"type": "streamableHttp", "url": URL, "headers": HEADERS}),
    "copilot-cli": (
        {"type": "stdio", **START, "tools": ["*"]},
        {"type": "http", "url": URL, "headers": HEADERS, "tools": ["*"]},
    ),
    "json": (START, {"type": "http", "url": URL, "headers": HEADERS}),
}


@pytest.mark.parametrize("name", HOSTS)
class TestEntries:
    def test_of_a_server_that_the_host_starts(self, name: str) -> None:
        assert HOSTS[name].entry(Launch(command="/bin/it", args=["a"])) == ENTRIES[name][0]

    def test_variables_are_added_if_there_are_any(self, name: str) -> None:
        entry = HOSTS[name].entry(Launch(command="/bin/it", args=["a"], env={"A": "b"}))
        assert entry == {**ENTRIES[name][0], "env": {"A": "b"}}

    def test_of_a_server_at_a_url(self, name: str) -> None:
        expected = ENTRIES[name][1]
        if expected is None:
            with pytest.raises(Unfit, match="Settings > Connectors"):
                HOSTS[name].entry(Remote(url=URL))
        else:
            assert HOSTS[name].entry(Remote(url=URL, headers=HEADERS)) == expected


@pytest.mark.parametrize(
    ("name", "host", "accepted"),
    [
        ("my_server-2", "cursor", "my_server-2"),
        ("My Weather!", "cursor", "My-Weather"),
        ("my_server", "gemini-cli", "my-server"),
        ("example.com", "codex", "example-com"),
        ("x" * 90, "codex", "x" * 64),
        ("天気", "codex", ""),
    ],
)
def test_names_are_made_of_what_hosts_take(name: str, host: str, accepted: str) -> None:
    assert HOSTS[host].accepted(name) == accepted


class TestMerged:
    def test_what_somebody_added_stays(self) -> None:
        old = {**START, "disabled": True, "env": {"KEY": "1"}, "timeout": 5}
        new = {"command": "/new", "args": [], "env": {"OTHER": "2"}}
        assert merged(old, new) == {
            "command": "/new",
            "args": [],
            "disabled": True,
            "env": {"KEY": "1", "OTHER": "2"},
            "timeout": 5,
        }

    def test_another_way_to_reach_it_replaces_the_old_one(self) -> None:
        assert merged({"url": "http://sse", "trust": True}, {"httpUrl": URL}) == {
            "trust": True,
            "httpUrl": URL,
        }

    def test_a_server_that_is_now_at_a_url_is_quite_another(self) -> None:
        assert merged({**START, "env": {"A": "b"}}, {"url": URL}) == {"url": URL}

    def test_a_type_that_the_host_has_added_makes_no_difference(self) -> None:
        assert merged({"type": "stdio", **START}, START) == {"type": "stdio", **START}

    def test_what_is_no_entry_is_replaced(self) -> None:
        assert merged(None, START) == START


# --- JSON -----------------------------------------------------------------------------------------

ENTRY = {"command": "x", "args": ["a"]}
_N = '    "n": {\n      "k": 1\n    }\n'
ADDED = {
    "an empty file": ("", '{\n  "s": {\n    "n": {\n      "k": 1\n    }\n  }\n}\n'),
    "an empty object": ("{}", '{\n  "s": {\n    "n": {\n      "k": 1\n    }\n  }\n}'),
    "a file of another matter": (
        '{\n   "a": [1, 2]\n}\n',
        '{\n   "a": [1, 2],\n   "s": {\n      "n": {\n         "k": 1\n      }\n   }\n}\n',
    ),
    "an empty list of servers": (
        '{\n\t"s": {},\n\t"a": 1\n}\n',
        '{\n\t"s": {\n\t\t"n": {\n\t\t\t"k": 1\n\t\t}\n\t},\n\t"a": 1\n}\n',
    ),
    "another server": (
        '{\n  "s": {\n    "b": { "k": 0 }\n  }\n}',
        '{\n  "s": {\n    "b": { "k": 0 },\n    "n": {\n      "k": 1\n    }\n  }\n}',
    ),
    "one line": ('{"s": {"b": 1}, "a": 2}', '{"s": {"b": 1, "n": {"k": 1}}, "a": 2}'),
    "line ends of Windows": (
        '{\r\n  "s": {\r\n    "b": 0\r\n  }\r\n}\r\n',
        '{\r\n  "s": {\r\n    "b": 0,\r\n    "n": {\r\n      "k": 1\r\n    }\r\n  }\r\n}\r\n',
    ),
    "a byte order mark": (
        '\ufeff{\n  "s": {\n    "b": 0\n  }\n}',
        '\ufeff{\n  "s": {\n    "b": 0,\n    "n": {\n      "k": 1\n    }\n  }\n}',
    ),
    "other scripts": (
        '{\n  "s": {\n    "天": "\\u00e9"\n  }\n}',
        '{\n  "s": {\n    "天": "\\u00e9",\n    "n": {\n      "k": 1\n    }\n  }\n}',
    ),
}
COMMENTED = {
    "comments": (
        '// top\n{\n  // why\n  "s": { // a\n    "b": 0 // b\n    // c\n  }\n} // end\n',
        f'// top\n{{\n  // why\n  "s": {{ // a\n    "b": 0, // b\n    // c\n{_N}  }}\n}} // end\n',
    ),
    "a comma at the end": (
        '{\n  "s": {\n    "b": 0,\n  },\n}',
        '{\n  "s": {\n    "b": 0,\n    "n": {\n      "k": 1\n    },\n  },\n}',
    ),
    "nothing but a comment": (
        '{\n  "s": {\n    // none yet\n  }\n}',
        '{\n  "s": {\n    // none yet\n    "n": {\n      "k": 1\n    }\n  }\n}',
    ),
    "what looks like a comment": (
        '{\n  "s": {\n    "b": "http://x/*y*/"\n  }\n}',
        '{\n  "s": {\n    "b": "http://x/*y*/",\n    "n": {\n      "k": 1\n    }\n  }\n}',
    ),
}
BESIDE_ANOTHER = [
    *("another server", "one line", "line ends of Windows", "a byte order mark", "other scripts"),
    *("comments", "a comma at the end", "nothing but a comment", "what looks like a comment"),
]
BROKEN = {
    '{"a": 1,}': "line 1, column 8: a comma after the last one",
    "{\n  // no\n}": "line 2, column 3: a comment, which this host does not take",
    '{"a" 1}': "no colon",
    '{"a": }': "no value",
    '{"a": 1 "b": 2}': "no comma",
    '{"a": [1 2]}': "no comma",
    "{a: 1}": "no key in quotes",
    '{"a": "\\x"}': "a bad escape",
    '{"a": 1': "it ends too early",
    '{"a': "no key in quotes",
    '{"a": 1}}': "something follows after the end",
    "[]": "it has no object at its top",
    "[" * 100_000: "it is nested too deeply",
}


class TestJson:
    @pytest.mark.parametrize(("before", "after"), ADDED.values(), ids=ADDED)
    def test_an_entry_is_added_to(self, before: str, after: str) -> None:
        assert Json().put(before, ["s", "n"], {"k": 1}) == after

    @pytest.mark.parametrize(("before", "after"), COMMENTED.values(), ids=COMMENTED)
    def test_an_entry_is_added_beside(self, before: str, after: str) -> None:
        assert Json(comments=True).put(before, ["s", "n"], {"k": 1}) == after

    @pytest.mark.parametrize("name", BESIDE_ANOTHER)
    def test_and_taken_out_again_without_a_trace(self, name: str) -> None:
        before, after = {**ADDED, **COMMENTED}[name]
        assert Json(comments=True).drop(after, ["s", "n"]) == before

    @pytest.mark.parametrize("before", ["", "{}", '{\n  "s": {}\n}', '{\n  "s": {\n  }\n}'])
    def test_the_last_server_leaves_an_empty_list(self, before: str) -> None:
        json = Json()
        assert json.load(json.drop(json.put(before, ["s", "n"], 1), ["s", "n"])) == {"s": {}}

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('{"a": 1}', '{"a": ["x", "y"]}'),
            ('{\n  "a": ["x"] // c\n}', '{\n  "a": ["x", "y"] // c\n}'),
            ('{\n  "a": [\n    "x"\n  ]\n}', '{\n  "a": [\n    "x",\n    "y"\n  ]\n}'),
        ],
    )
    def test_a_value_is_replaced_in_its_own_style(self, before: str, after: str) -> None:
        assert Json(comments=True).put(before, ["a"], ["x", "y"]) == after

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('{"a": 1, "b": 2}', '{"b": 2}'),
            ('{"b": 2, "a": 1}', '{"b": 2}'),
            ('{\n  "a": 1, // one\n  "b": 2\n}', '{\n  "b": 2\n}'),
            ('{\n  "b": 2, // two\n  "a": 1 // one\n}', '{\n  "b": 2 // two\n}'),
            ('{\n  "b": 2, "a": 1\n}', '{\n  "b": 2\n}'),
        ],
    )
    def test_a_key_is_taken_out_with_its_line(self, before: str, after: str) -> None:
        assert Json(comments=True).drop(before, ["a"]) == after

    @pytest.mark.parametrize(("text", "message"), BROKEN.items(), ids=range(len(BROKEN)))
    def test_what_is_broken_is_said_with_its_place(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            Json().load(text)

    def test_of_a_key_that_is_there_twice_the_last_one_counts(self) -> None:
        assert Json().put('{"a": 1, "a": 2}', ["a"], 3) == '{"a": 1, "a": 3}'


KEYS = st.text(max_size=3)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(
    data=st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3),
    path=st.lists(KEYS, min_size=2, max_size=2),
    value=VALUES,
    indent=st.sampled_from([None, 2, "\t"]),
)
def test_editing_json_means_what_it_would_mean_to_edit_the_data(
    data: dict[str, Any], path: list[str], value: Any, indent: int | str | None
) -> None:
    text = json.dumps(data, indent=indent)
    changed = Json().put(text, path, value)
    expected = {**data, path[0]: {**data.get(path[0], {}), path[1]: value}}
    assert Json().load(changed) == json.loads(changed) == expected
    del expected[path[0]][path[1]]
    assert json.loads(Json().drop(changed, path)) == expected


# --- TOML -----------------------------------------------------------------------------------------

CODEX = """# mine
model = "o" # best

[mcp_servers.other]
command = "x" # keep
env = { A = "1" }

[tui]
theme = 'dark'
"""
ADDED_TABLE = '\n[mcp_servers.n]\ncommand = "x"\nargs = ["a", "\\"\\\\ü"]\nenv = { "K" = "v" }\n'
ENTRY_TOML = {"command": "x", "args": ["a", '"\\ü'], "env": {"K": "v"}}


class TestToml:
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_an_entry_is_added_at_the_end(self, end: str) -> None:
        before = CODEX.replace("\n", end)
        after = Toml().put(before, ["mcp_servers", "n"], ENTRY_TOML)
        assert after == before + ADDED_TABLE.replace("\n", end)
        assert Toml().load(after)["mcp_servers"]["n"] == ENTRY_TOML

    def test_and_is_taken_out_again(self) -> None:
        after = Toml().drop(CODEX + ADDED_TABLE, ["mcp_servers", "n"])
        assert after.rstrip() == CODEX.rstrip()

    def test_a_blank_file(self) -> None:
        assert Toml().put("\n", ["mcp_servers", "n"], {"command": "x"}) == (
            '[mcp_servers.n]\ncommand = "x"\n'
        )

    def test_a_key_is_replaced_in_its_place(self) -> None:
        after = Toml().put(CODEX, ["mcp_servers", "other", "command"], "y")
        assert after == CODEX.replace('"x"', '"y"')

    def test_a_table_in_one_line_is_added_to(self) -> None:
        after = Toml().put("mcp_servers = { a = { url = 'u' } }\n", ["mcp_servers", "n"], ENTRY)
        assert Toml().load(after) == {"mcp_servers": {"a": {"url": "u"}, "n": ENTRY}}

    def test_variables_are_added_to_an_entry(self) -> None:
        after = Toml().put(CODEX, ["mcp_servers", "other", "env", "B"], "2")
        assert Toml().load(after)["mcp_servers"]["other"]["env"] == {"A": "1", "B": "2"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [("a = ", "at line 1"), ("a = 1\na = 2", '"a" already exists'), ("[a]\n[a]", "already")],
    )
    def test_what_is_broken_is_said(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Toml().load(text)

    @pytest.mark.parametrize("text", ["a\x00\x1f\x7f\n\t", "'''", 'x"""y', "\\u0041"])
    def test_any_string_can_be_written(self, text: str) -> None:
        after = Toml().put("", ["s", "n"], {"command": text})
        assert Toml().load(after) == {"s": {"n": {"command": text}}}


# --- servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["archive-v0/ngD7/bin", "builds-v0/.tmpaz9/bin"])
def test_a_python_that_uv_has_made_for_one_run_is_not_written_down(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.py").write_text("")
    monkeypatch.setattr(sys, "executable", f"/home/ada/.cache/uv/{place}/python")
    with pytest.raises(Unfit, match="this Python is in uv's cache and will not last: add --uv"):
        server_at(str(tmp_path / "server.py"), env={}, headers={}, uv=False)


# --- files ----------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_edited_is_left_for_the_reader(tmp_path: Path) -> None:
    """A file in which an edit would change more than its entry."""
    file = tmp_path / "config.json"
    file.write_text('{"mcpServers": {"n": 1}, "mcpServers": {"m": 2, "m": {"x": 1}}}')
    config = InFile(HOSTS["cursor"], file, private=False)
    assert list(config.entries) == ["m"]
    with pytest.raises(Unfit, match="cannot be taken out"):
        config.change("m", None)


def test_what_to_add_by_hand_is_a_whole_document() -> None:
    error = ByHand("why", Json().snippet(["s", "n"], ENTRY))
    assert json.loads(error.what) == {"s": {"n": ENTRY}}


class TestWriting:
    def test_a_file_that_has_changed_meanwhile_stays_as_it_is(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text("theirs")
        with pytest.raises(ValueError, match="somebody else has just changed it"):
            write(file, "ours", "before", private=False)
        assert [each.name for each in tmp_path.iterdir()] == ["f"]
        assert file.read_text() == "theirs"

    def test_copies_of_the_same_second_do_not_overwrite_each_other(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text("0")
        backups = [write(file, str(n + 1), str(n), private=False) for n in range(3)]
        assert [each and each.read_text() for each in backups] == ["0", "1", "2"]

    @pytest.mark.skipif(sys.platform == "win32", reason="has other permissions")
    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
    def test_permissions_stay_and_are_those_of_the_copy(self, tmp_path: Path, mode: int) -> None:
        file = tmp_path / "f"
        file.write_text("old")
        file.chmod(mode)
        backup = write(file, "new", "old", private=False)
        assert backup is not None
        assert [stat.S_IMODE(each.stat().st_mode) for each in (file, backup)] == [mode, mode]

    @pytest.mark.skipif(sys.platform == "win32", reason="has other permissions")
    @pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
    def test_a_new_file_of_a_person_is_for_that_person(
        self, tmp_path: Path, private: bool, mode: int
    ) -> None:
        before = os.umask(0o022)
        try:
            write(tmp_path / "f", "new", None, private=private)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == mode


class TestSeveralAtOnce:
    """Each has read the file before any of them writes."""

    def test_entries_of_all_survive(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text('{"other": 1}')
        readers = [InFile(HOSTS["cursor"], file, private=False) for _ in range(3)]
        for number, config in enumerate(readers):
            config.change(f"n{number}", ENTRY).make()
        found = json.loads(file.read_text())
        assert found == {"other": 1, "mcpServers": {f"n{number}": ENTRY for number in range(3)}}

    def test_what_another_has_taken_out_stays_out(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text(json.dumps({"mcpServers": {"a": ENTRY, "b": ENTRY}}))
        first, second = (InFile(HOSTS["cursor"], file, private=False) for _ in range(2))
        first.change("a", None).make()
        second.change("b", None).make()
        assert json.loads(file.read_text())["mcpServers"] == {}

    def test_the_same_entry_is_written_once(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text("{}")
        first, second = (InFile(HOSTS["cursor"], file, private=False) for _ in range(2))
        assert first.change("n", ENTRY).make() is not None
        assert second.change("n", ENTRY).make() is None

    def test_an_entry_that_another_has_changed_is_not_replaced(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text("{}")
        first, second = (InFile(HOSTS["cursor"], file, private=False) for _ in range(2))
        first.change("n", ENTRY).make()
        with pytest.raises(Unfit, match="somebody else has just changed n; try again"):
            second.change("n", {"command": "other"}).make()
        assert json.loads(file.read_text())["mcpServers"] == {"n": ENTRY}

    def test_they_wait_for_each_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writing, "_LOCK_S", 0.05)
        config = InFile(HOSTS["cursor"], tmp_path / "new" / "f", private=False)
        change = config.change("n", ENTRY)
        with (
            locked(tmp_path / "new" / "f"),
            pytest.raises(Unfit, match="somebody else is changing it; try again"),
        ):
            change.make()
        assert list((tmp_path / "new").iterdir()) == []
        change.make()
        assert [each.name for each in (tmp_path / "new").iterdir()] == ["f"]


class TestWhatIsTooLarge:
    @pytest.mark.timeout(10)
    @pytest.mark.skipif(sys.platform == "win32", reason="has such files only if asked for")
    def test_a_file_of_holes_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "f").open("wb") as file:
            file.truncate(2**40)
        with pytest.raises(ValueError, match="it has more than 67108864 bytes"):
            read(tmp_path / "f")

    def test_nor_is_one_that_grows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writing, "_MOST_BYTES", 3)
        (tmp_path / "f").write_text("long")
        monkeypatch.setattr(writing, "_check", lambda found: None)
        with pytest.raises(ValueError, match="it has more than"):
            read(tmp_path / "f")

    @pytest.mark.timeout(10)
    def test_a_large_one_is_not_edited(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text(json.dumps({"a": [[]] * 5_000_000}))
        with pytest.raises(Unfit, match="more than 1048576 characters, so nothing was changed"):
            InFile(HOSTS["cursor"], tmp_path / "f", private=True)


class TestDifferences:
    @pytest.mark.timeout(10)
    def test_of_long_texts_end(self) -> None:
        lines = [f"{number % 7}" for number in range(20_000)]
        other = [f"{number % 5}" for number in range(20_000)]
        shown = configs._difference("\n".join(lines), "\n".join(other), "f")
        assert shown == [
            "--- f",
            "+++ f",
            "@@ after line 2 @@",
            "19998 lines are replaced by 19998, which is too much to show",
        ]

    @pytest.mark.timeout(10)
    def test_in_the_middle_of_long_texts_are_found(self) -> None:
        lines = ["{", "}"] * 50_000
        other = [*lines[:40_000], "new", *lines[40_000:]]
        assert configs._difference("\n".join(lines), "\n".join(other), "f") == [
            *("--- f", "+++ f", "@@ -39998,6 +39998,7 @@"),
            *(" }", " {", " }", "+new", " {", " }", " {"),
        ]

    def test_of_long_lines_are_cut(self) -> None:
        shown = configs._difference("a" * 100_000, "b" * 100_000, "f")
        assert max(map(len, shown)) == 1000

    @given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
    def test_are_those_of_the_whole_texts(self, old: list[str], new: list[str]) -> None:
        """Whatever is set aside: the old lines with the changes are the new ones."""
        made: list[str] = []
        at = 0
        for line in configs._difference("\n".join(old), "\n".join(new), "f")[2:]:
            hunk = configs._HUNK.fullmatch(line)
            if hunk is not None:
                start = int(hunk[1]) - (hunk[2] != ",0")
                made += old[at:start]
                at = start
            elif line[0] == "+":
                made.append(line[1:])
            else:
                assert old[at] == line[1:]
                made += [line[1:]] * (line[0] == " ")
                at += 1
        assert made + old[at:] == new


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
class TestWhatIsNoFile:
    @pytest.fixture(params=["pipe", "device", "folder", "link to a pipe"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        place = tmp_path / "place"
        if request.param == "device":
            place.symlink_to("/dev/zero")
        elif request.param == "folder":
            place.mkdir()
        else:
            os.mkfifo(tmp_path / "pipe")
            place.symlink_to("pipe")
        return tmp_path / "pipe" if request.param == "pipe" else place

    @pytest.mark.timeout(10)
    def test_is_not_read(self, place: Path) -> None:
        with pytest.raises(ValueError, match="it is no regular file"):
            read(place)

    @pytest.mark.timeout(10)
    def test_is_not_replaced(self, place: Path) -> None:
        before = os.stat(place)
        with pytest.raises(ValueError, match="it is no regular file"):
            write(place, "new", None, private=False)
        assert os.path.samestat(os.stat(place), before)

    @pytest.mark.timeout(10)
    def test_nor_is_what_becomes_one_while_it_is_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "f"
        file.write_text("")
        look, before = os.stat, os.stat(file)
        file.unlink()
        os.mkfifo(file)
        monkeypatch.setattr(
            os, "stat", lambda path, **how: before if path == file else look(path, **how)
        )
        with pytest.raises(ValueError, match="it is no regular file"):
            read(file)
