"""Tests of the settings and of the messages about invalid ones."""

from pathlib import Path

import pytest
from mcpkit.auth import UpstreamLogin

from __PACKAGE__.auth import http_options, login
from __PACKAGE__.settings import read_settings
from __PACKAGE__.users import FILE, add_user, read_users

GITHUB = {"GITHUB_CLIENT_ID": "id", "GITHUB_CLIENT_SECRET": "secret", "GITHUB_USERS": "ada bob"}


def test_nothing_needs_to_be_set_on_the_machine_of_a_developer(tmp_path: Path) -> None:
    settings = read_settings({"DATA_DIR": str(tmp_path / "data")})
    assert (settings.host, settings.port, settings.public_url) == ("127.0.0.1", 8000, None)


def test_users_come_from_github_if_it_is_set(tmp_path: Path) -> None:
    settings = read_settings({**GITHUB, "DATA_DIR": str(tmp_path)})
    assert settings.github is not None
    assert settings.github.users == ("ada", "bob")
    assert isinstance(login(settings), UpstreamLogin)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PORT": "http"}, "PORT must be a number"),
        ({"HOST": "0.0.0.0"}, "set PUBLIC_URL"),
        ({"PUBLIC_URL": "https://notes.example.com/mcp"}, "MCPKIT_SECRET is not set"),
        ({"GITHUB_CLIENT_ID": "id"}, "set GITHUB_CLIENT_SECRET and GITHUB_USERS as well"),
        ({**GITHUB, "GITHUB_USERS": " "}, "set GITHUB_USERS as well"),
    ],
)
def test_what_is_missing_is_named_in_one_line(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_settings(environment)
    assert "\n" not in str(caught.value)


def test_a_server_that_nobody_can_log_in_to_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no user can log in"):
        http_options(read_settings({"DATA_DIR": str(tmp_path)}))


def test_passwords_are_kept_as_hashes_only(tmp_path: Path) -> None:
    password = add_user(tmp_path, "ada")
    kept = (tmp_path / FILE).read_text("utf-8")
    assert password not in kept
    assert read_users(tmp_path)["ada"].startswith("scrypt:")


def test_a_user_gets_a_new_password(tmp_path: Path) -> None:
    add_user(tmp_path, "bob")
    first, second = add_user(tmp_path, "ada"), add_user(tmp_path, "ada")
    assert first != second
    assert list(read_users(tmp_path)) == ["bob", "ada"]


@pytest.mark.parametrize("name", ["", "github:1", "a b", "../ada", "ada\n"])
def test_a_name_that_could_be_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid name"):
        add_user(tmp_path, name)


def test_a_malformed_file_of_users_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"users\.json is not a JSON object"):
        read_users(tmp_path)
