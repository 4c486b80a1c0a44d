"""examples/ported/blender_server.py: commands for an add-on, which a socket here plays."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import TestClient
from mcpkit.types import ImageContent
from tests.docs.pages import free_port
from tests.examples.host import data_of, refused
from tests.examples.ported.serving import OVER, arguments_of, ported
from tests.kit import PATIENCE

PNG = b"\x89PNG\r\n\x1a\n of a cube"


class FakeAddOn:
    """Plays the add-on in Blender: it takes commands and answers as that does, in pieces."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, dict[str, Any]]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._current: socket.socket | None = None
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def leave(self) -> None:
        """Close the connection, as Blender does when it ends."""
        if self._current is not None:
            with suppress(OSError):  # the server may have left before
                self._current.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        self.leave()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self._current = connection
                self._answer_all(connection)
            self._current = None

    def _answer_all(self, connection: socket.socket) -> None:
        text = b""
        while piece := connection.recv(8192):
            text += piece
            try:
                command = json.loads(text)
            except ValueError:
                continue
            text = b""
            self.commands.append((command["type"], command["params"]))
            answer = json.dumps(self._answer(command["type"], command["params"])).encode()
            half = answer.index(b"}") + 1  # the worst place: what is there ends like an object
            connection.sendall(answer[:half])
            connection.sendall(answer[half:])

    def _answer(self, kind: str, params: dict[str, Any]) -> dict[str, Any]:
        if kind == "get_object_info" and params["name"] != "Cube":
            return {"status": "error", "message": f"Object not found: {params['name']}"}
        if kind == "get_viewport_screenshot":
            Path(params["filepath"]).write_bytes(PNG)
        if kind == "execute_code":
            return {"status": "success", "result": {"result": f"ran {params['code']}"}}
        return {"status": "success", "result": ANSWERS.get(kind, {"echo": {"of": kind}})}


ANSWERS: dict[str, Any] = {
    "get_scene_info": {"name": "Scene", "objects": [{"name": "Cube"}, {"name": "Light"}]},
    "get_viewport_screenshot": {"success": True, "width": 16, "height": 9},
    "get_polyhaven_categories": {"categories": {"indoor": 3, "outdoor": 8}},
    "search_polyhaven_assets": {"error": "Poly Haven is resting"},
    "search_sketchfab_models": {"results": [{"uid": "u1", "name": "Chair"}, None]},
    "get_sketchfab_model_preview": {
        "image_data": base64.b64encode(PNG).decode(),
        "format": "png",
    },
    "create_rodin_job": {"uuid": "t1", "jobs": {"subscription_key": "k1"}, "submit_time": "now"},
    "create_hunyuan_job": {"Response": {"JobId": "77"}},
}


@pytest.fixture(scope="module")
def add_on() -> Iterator[FakeAddOn]:
    add_on = FakeAddOn()
    try:
        yield add_on
    finally:
        add_on.stop()


@pytest.fixture(scope="module", params=OVER)
def client(request: pytest.FixtureRequest, add_on: FakeAddOn) -> Iterator[TestClient]:
    flags = ("--host", "127.0.0.1", "--port", str(add_on.port))
    with ported("blender_server.py", request.param, *flags) as client:
        yield client


def test_the_tools_have_their_old_names_and_arguments(client: TestClient) -> None:
    prompt = ["user_prompt"]
    assert arguments_of(client) == {
        "get_scene_info": prompt,
        "get_object_info": ["object_name", *prompt],
        "get_viewport_screenshot": ["max_size", *prompt],
        "get_polyhaven_status": prompt,
        "get_polyhaven_categories": ["asset_type", *prompt],
        "search_polyhaven_assets": ["asset_type", "categories", *prompt],
        "download_polyhaven_asset": [
            *("asset_id", "asset_type", "resolution", "file_format", "user_prompt")
        ],
        "set_texture": ["object_name", "texture_id", *prompt],
        "get_sketchfab_status": prompt,
        "search_sketchfab_models": ["query", "categories", "count", "downloadable", *prompt],
        "get_sketchfab_model_preview": ["uid", *prompt],
        "download_sketchfab_model": ["uid", "target_size", *prompt],
        "get_hyper3d_status": prompt,
        "generate_hyper3d_model_via_text": ["text_prompt", "bbox_condition", *prompt],
        "generate_hyper3d_model_via_images": [
            *("input_image_paths", "input_image_urls", "bbox_condition", "user_prompt")
        ],
        "poll_rodin_job_status": ["subscription_key", "request_id"],
        "import_generated_asset": ["name", "task_uuid", "request_id"],
        "get_hunyuan3d_status": prompt,
        "generate_hunyuan3d_model": ["text_prompt", "input_image_url", *prompt],
        "poll_hunyuan_job_status": ["job_id"],
        "import_generated_asset_hunyuan": ["name", "zip_file_url"],
        "execute_blender_code": ["code", *prompt],
    }
    (strategy,) = client.list_prompts()
    assert strategy.name == "asset_creation_strategy"


def test_the_scene_is_described_and_refusals_of_blender_are_errors(client: TestClient) -> None:
    found = data_of(client.call_tool("get_scene_info", {"user_prompt": "a house"}))
    assert [each["name"] for each in found["objects"]] == ["Cube", "Light"]
    assert data_of(client.call_tool("get_object_info", {"object_name": "Cube"}))
    said = refused(client, "get_object_info", object_name="Cone")
    assert said == "Blender: Object not found: Cone"
    assert refused(client, "search_polyhaven_assets") == "Blender: Poly Haven is resting"


def test_a_screenshot_is_a_picture_and_leaves_no_file(
    client: TestClient, add_on: FakeAddOn
) -> None:
    (picture,) = client.call_tool("get_viewport_screenshot", {"max_size": 64}).content
    assert isinstance(picture, ImageContent)
    assert (picture.data, picture.mime_type) == (PNG, "image/png")
    assert not Path(add_on.commands[-1][1]["filepath"]).parent.exists()


def test_assets_are_searched_and_shown_and_code_runs(client: TestClient) -> None:
    counts = data_of(client.call_tool("get_polyhaven_categories"))
    assert list(counts.items()) == [("outdoor", 8), ("indoor", 3)]
    found = data_of(client.call_tool("search_sketchfab_models", {"query": "chair"}))
    assert found == [{"uid": "u1", "name": "Chair"}]
    (picture,) = client.call_tool("get_sketchfab_model_preview", {"uid": "u1"}).content
    assert isinstance(picture, ImageContent)
    done = client.call_tool("execute_blender_code", {"code": "print(1)"})
    assert done.text == "Done. It printed: ran print(1)"


def test_models_are_generated(client: TestClient, add_on: FakeAddOn, tmp_path: Path) -> None:
    arguments = {"text_prompt": "a cup", "bbox_condition": [1, 2, 4]}
    job = data_of(client.call_tool("generate_hyper3d_model_via_text", arguments))
    assert job == {"task_uuid": "t1", "subscription_key": "k1"}
    assert add_on.commands[-1][1]["bbox_condition"] == [25, 50, 100]
    file = tmp_path / "cup.png"
    file.write_bytes(PNG)
    client.call_tool("generate_hyper3d_model_via_images", {"input_image_paths": [str(file)]})
    assert add_on.commands[-1][1]["images"] == [[".png", base64.b64encode(PNG).decode()]]
    client.call_tool("poll_rodin_job_status", {"subscription_key": "k1"})
    assert add_on.commands[-1] == ("poll_rodin_job_status", {"subscription_key": "k1"})
    job = data_of(client.call_tool("generate_hunyuan3d_model", {"text_prompt": "a cup"}))
    assert job == {"job_id": "job_77"}


def test_files_other_than_pictures_are_not_sent(client: TestClient, add_on: FakeAddOn) -> None:
    before = len(add_on.commands)
    said = refused(client, "generate_hyper3d_model_via_images", input_image_paths=["/etc/passwd"])
    assert said.startswith("/etc/passwd is not a picture")
    assert len(add_on.commands) == before


def test_a_connection_serves_many_commands_until_blender_leaves(
    client: TestClient, add_on: FakeAddOn
) -> None:
    client.call_tool("get_scene_info")
    before = add_on.connections
    client.call_tool("get_hunyuan3d_status")
    assert add_on.connections == before
    add_on.leave()
    again = client.call_tool("get_scene_info")
    # It depends on who is faster whether the server sees the end before it sends.
    assert not again.is_error or "Is the add-on connected?" in again.text
    assert data_of(client.call_tool("get_scene_info"))["name"] == "Scene"
    assert add_on.connections == before + 1


def test_blender_that_does_not_run_is_explained_and_code_can_be_left_out() -> None:
    port = str(free_port())
    flags = ("--host", "127.0.0.1", "--port", port, "--no-code")
    with ported("blender_server.py", "stdio", *flags) as client:
        assert "execute_blender_code" not in arguments_of(client)
        said = refused(client, "get_scene_info")
    assert said.startswith(f"No connection to Blender at 127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("download_sketchfab_model", {"uid": "u1", "target_size": 0}, "target_size: expected"),
        ("get_polyhaven_categories", {"asset_type": "cars"}, "asset_type: expected"),
        (
            "generate_hyper3d_model_via_text",
            {"text_prompt": "x", "bbox_condition": [1, 2]},
            "bbox_condition: expected",
        ),
        ("poll_rodin_job_status", {}, "Give one of subscription_key and request_id."),
        ("generate_hyper3d_model_via_images", {}, "Give either input_image_paths or"),
    ],
)
def test_a_bad_argument_is_refused(
    client: TestClient, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    assert problem in refused(client, tool, **arguments)
