"""The table of hosts, and edits of their files, without running the command."""

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

from mcpkit.cli._install import config as configs
from mcpkit.cli._install.config import InFile, read, write
from mcpkit.cli._install.hosts import (
    HOSTS,
    Entry,
    Platform,
    ServerCommand,
    ServerUrl,
    Unsupported,
    merge_entry,
)
from mcpkit.cli._install.jsonc import Json
from mcpkit.cli._install.launch import server_at
from mcpkit.cli._install.toml import Toml

# --- where files are ------------------------------------------------------------------------------

LIBRARY = "Library/Application Support"
ROAMING = "AppData/Roaming"

FILES: dict[str, str | dict[str, str] | None] = {
    "claude-desktop": {
        "darwin": f"{LIBRARY}/Claude/claude_desktop_config.json",
        "win32": f"{ROAMING}/Claude/claude_desktop_config.json",
    },
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": {
        "darwin": f"{LIBRARY}/Code/User/mcp.json",
        "win32": f"{ROAMING}/Code/User/mcp.json",
        "linux": ".config/Code/User/mcp.json",
    },
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini-cli": ".gemini/settings.json",
    "codex": ".codex/config.toml",
    "zed": {
        "darwin": ".config/zed/settings.json",
        "win32": f"{ROAMING}/Zed/settings.json",
        "linux": ".config/zed/settings.json",
    },
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "copilot-cli": ".copilot/mcp-config.json",
    "json": None,
}


@pytest.mark.parametrize("platform", ["darwin", "win32", "linux"])
@pytest.mark.parametrize("name", HOSTS)
def test_files_are_below_the_home_folder(name: str, platform: str, tmp_path: Path) -> None:
    file = FILES[name]
    expected = file.get(platform) if isinstance(file, dict) else file
    found = HOSTS[name].user_file(Platform(system=platform, home=tmp_path, variables={}))
    assert found == (tmp_path / expected if expected else None)


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
def test_files_are_in_the_folder_of_an_environment_variable(
    name: str, platform: str, variable: str, file: str, tmp_path: Path
) -> None:
    variables = {variable: str(tmp_path / "there")}
    there = Platform(system=platform, home=tmp_path / "home", variables=variables)
    assert HOSTS[name].user_file(there) == tmp_path / "there" / file


def test_the_most_precise_variable_of_cline_decides(tmp_path: Path) -> None:
    variables = {"CLINE_DIR": "/wide", "CLINE_DATA_DIR": "/data", "CLINE_MCP_SETTINGS_PATH": "/own"}
    found: list[Path | None] = []
    while variables:
        there = Platform(system="linux", home=tmp_path, variables=variables)
        found.append(HOSTS["cline"].user_file(there))
        variables.popitem()
    name = "settings/cline_mcp_settings.json"
    assert found == [Path("/own"), Path("/data", name), Path("/wide/data", name)]


def test_some_files_are_elsewhere(tmp_path: Path) -> None:
    """Those of the Windows package of Claude Desktop, and of projects."""
    package = tmp_path / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc"
    package.mkdir(parents=True)
    windows = Platform(system="win32", home=tmp_path, variables={})
    found = HOSTS["claude-desktop"].user_file(windows)
    assert found == package / "LocalCache/Roaming/Claude/claude_desktop_config.json"
    assert {name: host.project_file for name, host in HOSTS.items() if host.project_file} == {
        "claude-code": ".mcp.json",
        "cursor": ".cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
        "gemini-cli": ".gemini/settings.json",
        "codex": ".codex/config.toml",
        "zed": ".zed/settings.json",
        "copilot-cli": ".mcp.json",
    }


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
def test_entries(name: str) -> None:
    command, url = ENTRIES[name]
    entry = HOSTS[name].entry
    assert entry(ServerCommand(command="/bin/it", args=["a"])) == command
    with_variable = ServerCommand(command="/bin/it", args=["a"], env={"A": "b"})
    assert entry(with_variable) == {**command, "env": {"A": "b"}}
    if url is None:
        with pytest.raises(Unsupported, match="Settings > Connectors"):
            entry(ServerUrl(url=URL))
    else:
        assert entry(ServerUrl(url=URL, headers=HEADERS)) == url


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
def test_names_have_only_accepted_characters(name: str, host: str, accepted: str) -> None:
    assert HOSTS[host].accepted(name) == accepted


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        (
            {**START, "disabled": True, "env": {"KEY": "1"}, "timeout": 5},
            {"command": "/new", "args": [], "env": {"OTHER": "2"}},
            {
                "command": "/new",
                "args": [],
                "disabled": True,
                "env": {"KEY": "1", "OTHER": "2"},
                "timeout": 5,
            },
        ),
        ({"url": "http://sse", "trust": True}, {"httpUrl": URL}, {"trust": True, "httpUrl": URL}),
        ({**START, "env": {"A": "b"}}, {"url": URL}, {"url": URL}),
        ({"type": "stdio", **START}, START, {"type": "stdio", **START}),  # added by the host
        (None, START, START),
    ],
)
def test_additions_to_an_old_entry_are_kept(old: object, new: Entry, merged: Entry) -> None:
    assert merge_entry(old, new) == merged


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
BROKEN = {
    '{\n  "a" 1}': "Expecting ':' delimiter: line 2 column 7",
    '{"a": }': "Expecting value",
    '{"a": 1 "b": 2}': "Expecting ',' delimiter",
    '{"a": [1 2]}': "Expecting ',' delimiter",
    "{a: 1}": "Expecting property name",
    '{"a": "\\x"}': "Invalid .escape",
    '{"a": 1': "Expecting ',' delimiter",
    '{"a': "Unterminated string",
    '{"a": 1}}': "Extra data",
    '{"a": 1} /* b': "Extra data",
    "[]": "it is not an object",
    "[" * 100_000: "it is nested too deeply",
}


class TestJson:
    @pytest.mark.parametrize(("before", "after"), ADDED.values(), ids=ADDED)
    def test_an_entry_is_added_to_and_removed_without_a_trace(
        self, before: str, after: str
    ) -> None:
        """The last server leaves an empty list."""
        data = Json().load(before or "{}")
        assert Json().put(before, ["s", "n"], {"k": 1}) == after
        dropped = Json().drop(after, ["s", "n"])
        assert Json().load(dropped) == {**data, "s": data.get("s", {})}
        if data.get("s"):
            assert dropped == before

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('{"a": 1}', '{"a": ["x", "y"]}'),
            ('{\n  "a": ["x"] // c\n}', '{\n  "a": ["x", "y"] // c\n}'),
            ('{\n  "a": [\n    "x"\n  ]\n}', '{\n  "a": [\n    "x",\n    "y"\n  ]\n}'),
            ('{"a": 1, "a": 2}', '{"a": 1, "a": ["x", "y"]}'),  # the last of them counts
        ],
    )
    def test_a_value_is_replaced_in_its_own_style(self, before: str, after: str) -> None:
        assert Json().put(before, ["a"], ["x", "y"]) == after

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
    def test_a_key_is_removed_with_its_line(self, before: str, after: str) -> None:
        assert Json().drop(before, ["a"]) == after

    @pytest.mark.parametrize(("text", "message"), BROKEN.items(), ids=range(len(BROKEN)))
    def test_invalid_json_is_located(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            Json().load(text)


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
def test_editing_json_is_equivalent_to_editing_the_data(
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
    def test_an_entry_is_added_at_the_end_and_removed_again(self, end: str) -> None:
        before = CODEX.replace("\n", end)
        after = Toml().put(before, ["mcp_servers", "n"], ENTRY_TOML)
        assert after == before + ADDED_TABLE.replace("\n", end)
        assert Toml().load(after)["mcp_servers"]["n"] == ENTRY_TOML
        assert Toml().drop(after, ["mcp_servers", "n"]).rstrip() == before.rstrip()

    def test_edits_keep_what_is_there(self) -> None:
        after = Toml().put("\n", ["mcp_servers", "n"], {"command": "x"})
        assert after == '[mcp_servers.n]\ncommand = "x"\n'
        after = Toml().put(CODEX, ["mcp_servers", "other", "command"], "y")
        assert after == CODEX.replace('"x"', '"y"')
        after = Toml().put(CODEX, ["mcp_servers", "other", "env", "B"], "2")
        assert Toml().load(after)["mcp_servers"]["other"]["env"] == {"A": "1", "B": "2"}
        after = Toml().put("mcp_servers = { a = { url = 'u' } }\n", ["mcp_servers", "n"], ENTRY)
        assert Toml().load(after) == {"mcp_servers": {"a": {"url": "u"}, "n": ENTRY}}

    @pytest.mark.parametrize(
        ("text", "message"),
        [("a = ", "at line 1"), ("a = 1\na = 2", '"a" already exists'), ("[a]\n[a]", "already")],
    )
    def test_invalid_toml_is_located(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Toml().load(text)

    @pytest.mark.parametrize("text", ["a\x00\x1f\x7f\n\t", "'''", 'x"""y', "\\u0041"])
    def test_any_string_can_be_written(self, text: str) -> None:
        after = Toml().put("", ["s", "n"], {"command": text})
        assert Toml().load(after) == {"s": {"n": {"command": text}}}


# --- servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["archive-v0/ngD7/bin", "builds-v0/.tmpaz9/bin"])
def test_a_temporary_python_of_uv_is_rejected(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.py").write_text("")
    monkeypatch.setattr(sys, "executable", f"/home/ada/.cache/uv/{place}/python")
    with pytest.raises(Unsupported, match="this Python is temporary, in uv's cache: add --uv"):
        server_at(str(tmp_path / "server.py"), env={}, headers={}, uv=False)


# --- files ----------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_edited_safely_is_unchanged(tmp_path: Path) -> None:
    """An edit of this file would change more than its entry."""
    file = tmp_path / "config.json"
    file.write_text('{"mcpServers": {"n": 1}, "mcpServers": {"m": 2, "m": {"x": 1}}}')
    config = InFile(HOSTS["cursor"], file, private=False)
    assert list(config.entries) == ["m"]
    with pytest.raises(Unsupported, match="cannot be removed"):
        config.change("m", None)


class TestWriting:
    def test_a_file_that_changed_meanwhile_is_not_replaced(self, tmp_path: Path) -> None:
        file = tmp_path / "f"
        file.write_text("theirs")
        with pytest.raises(ValueError, match="another process has just changed it"):
            write(file, "ours", "before", private=False)
        assert [each.name for each in tmp_path.iterdir()] == ["f"]
        assert file.read_text() == "theirs"

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
    def test_there_is_one_backup_with_the_same_permissions(self, tmp_path: Path, mode: int) -> None:
        file, backup = tmp_path / "f", tmp_path / "f.bak"
        file.write_text("0")
        file.chmod(mode)
        for n in range(3):
            assert write(file, str(n + 1), str(n), private=False) == backup
        assert backup.read_text() == "2"
        assert len(list(tmp_path.iterdir())) == 2
        if sys.platform != "win32":
            assert [stat.S_IMODE(each.stat().st_mode) for each in (file, backup)] == [mode, mode]

    @pytest.mark.skipif(sys.platform == "win32", reason="has other permissions")
    @pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
    def test_a_private_file_is_readable_by_its_owner_only(
        self, tmp_path: Path, private: bool, mode: int
    ) -> None:
        before = os.umask(0o022)
        try:
            write(tmp_path / "f", "new", None, private=private)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == mode


def test_changes_of_several_survive(tmp_path: Path) -> None:
    """Each has read the file before any of them writes."""
    (tmp_path / "f").write_text(json.dumps({"mcpServers": {"a": ENTRY, "b": ENTRY}}))
    first, second, third = (
        InFile(HOSTS["cursor"], tmp_path / "f", private=False) for _ in range(3)
    )
    first.change("a", None).make()
    second.change("b", None).make()
    assert third.change("n", ENTRY).make() is not None
    assert second.change("n", ENTRY).make() is None
    with pytest.raises(Unsupported, match="another process has just changed n; try again"):
        first.change("n", {"command": "other"}).make()
    assert json.loads((tmp_path / "f").read_text())["mcpServers"] == {"n": ENTRY}


@pytest.mark.timeout(10)
@pytest.mark.skipif(sys.platform == "win32", reason="has files of holes only if asked for")
def test_a_large_file_is_not_edited_and_a_huge_one_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text(json.dumps({"a": [[]] * 5_000_000}))
    with pytest.raises(Unsupported, match="more than 1048576 characters, so nothing"):
        InFile(HOSTS["cursor"], file, private=True)
    os.truncate(file, 2**40)
    with pytest.raises(ValueError, match="it has more than 67108864 bytes"):
        read(file)


@pytest.mark.timeout(10)
def test_differences_of_long_texts_and_lines_are_found() -> None:
    lines = [f'"key{number // 2}": {{' if number % 2 else "}" for number in range(50_000)]
    other = [*lines[:20_000], "new", *lines[20_000:]]
    shown = configs.difference("\n".join(lines), "\n".join(other), "f")
    assert [line for line in shown if line.startswith("+")] == ["+++ f", "+new"]
    shown = configs.difference("a" * 100_000, "b" * 100_000, "f")
    assert max(map(len, shown)) == 1000


@pytest.mark.timeout(10)
@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link to a pipe"])
def test_a_special_file_is_neither_read_nor_replaced(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        os.mkfifo(tmp_path / "pipe")
        place.symlink_to("/dev/zero" if kind == "device" else "pipe")
    before = os.stat(place)
    with pytest.raises(ValueError, match="it is not a regular file"):
        read(place)
    with pytest.raises(ValueError, match="it is not a regular file"):
        write(place, "new", None, private=False)
    assert os.path.samestat(os.stat(place), before)
