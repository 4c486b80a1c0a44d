"""Lets a model build scenes in Blender, through the add-on of BlenderMCP that listens there.

    mcpkit run examples/ported/blender_server.py
    mcpkit run examples/ported/blender_server.py:make_app -- --port 9876 --no-code

The add-on takes a JSON object for each command, `{"type": …, "params": …}`, and answers with one,
`{"status": …, "result": …}`, with nothing between two of them. It executes what it is sent: keep it
on this machine. `--no-code` leaves out the tool that runs Python in Blender.
"""

import asyncio
import base64
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict

from mcpkit import Context, Image, MCPKit, ToolError, prompt, tool

MAX_SECONDS = 180.0
MAX_BYTES = 50_000_000
MAX_IMAGE_BYTES = 10_000_000
PICTURES = {".png", ".jpg", ".jpeg", ".webp"}

Prompt = Annotated[str, Field(description="What the user asked for; it is not used.")]
Assets = Literal["hdris", "textures", "models"]
Search = Literal["hdris", "textures", "models", "all"]
PicturePath = Annotated[str, Field(description="The path of a file on this machine.")]
Box = Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=3, max_length=3)]


class Job(TypedDict):
    """A task of Hyper3D that has begun."""

    task_uuid: str
    subscription_key: str


class HunyuanJob(TypedDict):
    """A task of Hunyuan3D that has begun."""

    job_id: str


@dataclass
class Blender:
    """The connection to the add-on, made when it is needed; and the tools.

    Args:
        host: Where Blender runs.
        port: That the add-on listens on.
    """

    host: str = "localhost"
    port: int = 9876
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, command: str, **params: Any) -> dict[str, Any]:
        """What Blender answers to a command.

        Raises:
            ToolError: Blender cannot be reached, or the command has failed.
        """
        text = json.dumps({"type": command, "params": params}).encode()
        # One command at a time: answers do not say what they answer.
        async with self._turn:
            try:
                answer = await asyncio.wait_for(self._exchange(text), MAX_SECONDS)
            except asyncio.TimeoutError:
                raise ToolError(
                    f"Blender did not answer in {MAX_SECONDS:g} s. Try a smaller step; "
                    "Blender without a window (blender -b) never answers."
                ) from None
            except (OSError, EOFError, ValueError) as error:
                raise ToolError(
                    f"No connection to Blender at {self.host}:{self.port} ({error}). Is the "
                    "add-on connected?"
                ) from None
        result: Any = answer.get("result")
        found = cast("dict[str, Any]", result) if isinstance(result, dict) else {"result": result}
        if answer.get("status") == "error" or "error" in found:
            reason = found.get("error") or answer.get("message", "it does not say why")
            raise ToolError(f"Blender: {reason}")
        return found

    async def _exchange(self, text: bytes) -> dict[str, Any]:
        kept = False
        try:
            if self._streams is not None and self._streams[0].at_eof():
                self.close()  # Blender was restarted
            if self._streams is None:
                self._streams = await asyncio.open_connection(self.host, self.port)
            reader, writer = self._streams
            writer.write(text)
            await writer.drain()
            answer = await read_object(reader)
            kept = True
            return answer
        finally:
            if not kept:  # what comes later would be taken for the next answer
                self.close()

    def close(self) -> None:
        """End the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    # --- the scene --------------------------------------------------------------------------------

    @tool(read_only=True, open_world=False)
    async def get_scene_info(self, user_prompt: Prompt = "") -> dict[str, Any]:
        """Tell what is in the scene: its name, its objects and how many materials."""
        return await self.send("get_scene_info")

    @tool(read_only=True, open_world=False)
    async def get_object_info(self, object_name: str, user_prompt: Prompt = "") -> dict[str, Any]:
        """Tell place, size, materials and mesh of an object.

        Args:
            object_name: As get_scene_info tells it.
        """
        return await self.send("get_object_info", name=object_name)

    @tool(read_only=True, open_world=False)
    async def get_viewport_screenshot(
        self,
        max_size: Annotated[int, Field(ge=16, le=4096)] = 1000,
        user_prompt: Prompt = "",
    ) -> Image:
        """Take a picture of the 3D viewport, to see what has been built.

        Args:
            max_size: Pixels of the longer side, at most.
        """
        # Blender writes it into a private folder, so no other user can put a link in its place.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "viewport.png")
            await self.send(
                "get_viewport_screenshot", max_size=max_size, filepath=str(path), format="png"
            )
            if not path.is_file():
                raise ToolError("Blender wrote no picture here. Does it run on this machine?")
            return Image(path.read_bytes(), "image/png")

    # --- Poly Haven -------------------------------------------------------------------------------

    @tool(read_only=True, open_world=False)
    async def get_polyhaven_status(self, user_prompt: Prompt = "") -> dict[str, Any]:
        """Tell whether Poly Haven is enabled: environments, textures and generic models."""
        return await self.send("get_polyhaven_status")

    @tool(read_only=True, open_world=True)
    async def get_polyhaven_categories(
        self, asset_type: Search = "hdris", user_prompt: Prompt = ""
    ) -> dict[str, int]:
        """Count what Poly Haven has in each category, the largest first.

        Args:
            asset_type: What to count.
        """
        found = await self.send("get_polyhaven_categories", asset_type=asset_type)
        counts: dict[str, int] = found["categories"]
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @tool(read_only=True, open_world=True)
    async def search_polyhaven_assets(
        self,
        asset_type: Search = "all",
        categories: str | None = None,
        user_prompt: Prompt = "",
    ) -> dict[str, Any]:
        """Search for assets of Poly Haven.

        Args:
            asset_type: What to search for.
            categories: Only of these, with commas between them.
        """
        return await self.send(
            "search_polyhaven_assets", asset_type=asset_type, categories=categories
        )

    @tool(destructive=False, open_world=True)
    async def download_polyhaven_asset(
        self,
        asset_id: str,
        asset_type: Assets,
        ctx: Context,
        resolution: str = "1k",
        file_format: str | None = None,
        user_prompt: Prompt = "",
    ) -> dict[str, Any]:
        """Import an asset of Poly Haven: into the scene, as a material, or as the world around it.

        Args:
            asset_id: As search_polyhaven_assets tells it.
            asset_type: What it is.
            resolution: Such as 1k, 2k or 4k.
            file_format: Such as hdr, exr, jpg, png, gltf or fbx.
        """
        ctx.info(f"downloading {asset_id}")
        return await self.send(
            "download_polyhaven_asset",
            asset_id=asset_id,
            asset_type=asset_type,
            resolution=resolution,
            file_format=file_format,
        )

    @tool(destructive=False, open_world=False)
    async def set_texture(
        self, object_name: str, texture_id: str, user_prompt: Prompt = ""
    ) -> dict[str, Any]:
        """Give an object a texture of Poly Haven that was downloaded before.

        Args:
            object_name: The object.
            texture_id: The asset.
        """
        return await self.send("set_texture", object_name=object_name, texture_id=texture_id)

    # --- Sketchfab --------------------------------------------------------------------------------

    @tool(read_only=True, open_world=False)
    async def get_sketchfab_status(self, user_prompt: Prompt = "") -> dict[str, Any]:
        """Tell whether Sketchfab is enabled: a large choice of realistic models."""
        return await self.send("get_sketchfab_status")

    @tool(read_only=True, open_world=True)
    async def search_sketchfab_models(
        self,
        query: str,
        categories: str | None = None,
        count: Annotated[int, Field(ge=1, le=100)] = 20,
        downloadable: bool = True,
        user_prompt: Prompt = "",
    ) -> list[dict[str, Any]]:
        """Search for models of Sketchfab.

        Args:
            query: Words to search for.
            categories: Only of these, with commas between them.
            count: How many at most.
            downloadable: Only models that can be downloaded.
        """
        found = await self.send(
            "search_sketchfab_models",
            query=query,
            categories=categories,
            count=count,
            downloadable=downloadable,
        )
        models: list[dict[str, Any] | None] = found.get("results") or []
        return [each for each in models if each]

    @tool(read_only=True, open_world=True)
    async def get_sketchfab_model_preview(self, uid: str, user_prompt: Prompt = "") -> Image:
        """Show a model of Sketchfab, to see whether it is the right one.

        Args:
            uid: As search_sketchfab_models tells it.
        """
        found = await self.send("get_sketchfab_model_preview", uid=uid)
        return Image(base64.b64decode(found["image_data"]), f"image/{found.get('format', 'jpeg')}")

    @tool(destructive=False, open_world=True)
    async def download_sketchfab_model(
        self,
        uid: str,
        target_size: Annotated[float, Field(gt=0)],
        ctx: Context,
        user_prompt: Prompt = "",
    ) -> dict[str, Any]:
        """Import a model of Sketchfab, scaled to a size.

        Args:
            uid: As search_sketchfab_models tells it.
            target_size: Metres of its longest side: a cup has 0.1, a chair 1, a car 4.5.
        """
        ctx.info(f"downloading {uid}")
        return await self.send(
            "download_sketchfab_model", uid=uid, normalize_size=True, target_size=target_size
        )

    # --- Hyper3D Rodin ----------------------------------------------------------------------------

    @tool(read_only=True, open_world=False)
    async def get_hyper3d_status(self, user_prompt: Prompt = "") -> dict[str, Any]:
        """Tell whether Hyper3D Rodin is enabled, and in which mode: it generates single models."""
        return await self.send("get_hyper3d_status")

    @tool(destructive=False, open_world=True)
    async def generate_hyper3d_model_via_text(
        self, text_prompt: str, bbox_condition: Box | None = None, user_prompt: Prompt = ""
    ) -> Job | dict[str, Any]:
        """Begin to generate a model with materials from a description. Ask poll_rodin_job_status
        whether it is done.

        Args:
            text_prompt: A short description, in English.
            bbox_condition: The proportions of length, width and height.
        """
        return await self.begin(text_prompt, None, bbox_condition)

    @tool(destructive=False, open_world=True)
    async def generate_hyper3d_model_via_images(
        self,
        input_image_paths: list[PicturePath] | None = None,
        input_image_urls: list[str] | None = None,
        bbox_condition: Box | None = None,
        user_prompt: Prompt = "",
    ) -> Job | dict[str, Any]:
        """Begin to generate a model with materials from pictures. Ask poll_rodin_job_status whether
        it is done.

        Args:
            input_image_paths: Pictures on this machine, for the mode MAIN_SITE.
            input_image_urls: Addresses of pictures, for the mode FAL_AI.
            bbox_condition: The proportions of length, width and height.
        """
        if bool(input_image_paths) == bool(input_image_urls):
            raise ToolError("Give either input_image_paths or input_image_urls.")
        pictures = await asyncio.to_thread(read_pictures, input_image_paths or [])
        return await self.begin(None, pictures or input_image_urls, bbox_condition)

    async def begin(
        self, text: str | None, images: Sequence[object] | None, box: Sequence[float] | None
    ) -> Job | dict[str, Any]:
        """Begin a task of Hyper3D."""
        scaled = [max(1, round(each / max(box) * 100)) for each in box] if box else None
        found = await self.send(
            "create_rodin_job", text_prompt=text, images=images, bbox_condition=scaled
        )
        if not found.get("submit_time"):
            return dict(found)
        return Job(task_uuid=found["uuid"], subscription_key=found["jobs"]["subscription_key"])

    @tool(read_only=True, open_world=True)
    async def poll_rodin_job_status(
        self, subscription_key: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]:
        """Tell how far a task of Hyper3D is: done when all parts are "Done", or at "COMPLETED".

        Args:
            subscription_key: Of the task, in the mode MAIN_SITE.
            request_id: Of the task, in the mode FAL_AI.
        """
        key = one_of(subscription_key=subscription_key, request_id=request_id)
        return await self.send("poll_rodin_job_status", **key)

    @tool(destructive=False, open_world=True)
    async def import_generated_asset(
        self, name: str, task_uuid: str | None = None, request_id: str | None = None
    ) -> dict[str, Any]:
        """Import a model of Hyper3D that is done.

        Args:
            name: For the new object.
            task_uuid: Of the task, in the mode MAIN_SITE.
            request_id: Of the task, in the mode FAL_AI.
        """
        key = one_of(task_uuid=task_uuid, request_id=request_id)
        return await self.send("import_generated_asset", name=name, **key)

    # --- Hunyuan3D --------------------------------------------------------------------------------

    @tool(read_only=True, open_world=False)
    async def get_hunyuan3d_status(self, user_prompt: Prompt = "") -> dict[str, Any]:
        """Tell whether Hunyuan3D is enabled, and in which mode: it generates single models."""
        return await self.send("get_hunyuan3d_status")

    @tool(destructive=False, open_world=True)
    async def generate_hunyuan3d_model(
        self,
        text_prompt: str | None = None,
        input_image_url: str | None = None,
        user_prompt: Prompt = "",
    ) -> HunyuanJob | dict[str, Any]:
        """Begin to generate a model with materials from a description, a picture, or both.

        Args:
            text_prompt: A short description, in English or Chinese.
            input_image_url: A picture: an address, or a file on the machine of Blender.
        """
        if not text_prompt and not input_image_url:
            raise ToolError("Give text_prompt, input_image_url, or both.")
        found = await self.send(
            "create_hunyuan_job", text_prompt=text_prompt, image=input_image_url
        )
        number = found.get("Response", {}).get("JobId")
        return HunyuanJob(job_id=f"job_{number}") if number else dict(found)

    @tool(read_only=True, open_world=True)
    async def poll_hunyuan_job_status(self, job_id: str) -> dict[str, Any]:
        """Tell how far a task of Hunyuan3D is: at "DONE", ResultFile3Ds has what to import.

        Args:
            job_id: Of the task.
        """
        return await self.send("poll_hunyuan_job_status", job_id=job_id)

    @tool(destructive=False, open_world=True)
    async def import_generated_asset_hunyuan(self, name: str, zip_file_url: str) -> dict[str, Any]:
        """Import a model of Hunyuan3D that is done.

        Args:
            name: For the new object.
            zip_file_url: As poll_hunyuan_job_status tells it.
        """
        return await self.send(
            "import_generated_asset_hunyuan", name=name, zip_file_url=zip_file_url
        )

    @prompt
    def asset_creation_strategy(self) -> str:
        """How to go about building something in Blender."""
        return STRATEGY


class Code:
    """The tool that runs whatever the model writes.

    Args:
        blender: Where it runs.
    """

    def __init__(self, blender: Blender) -> None:
        self._blender = blender

    @tool(destructive=True, idempotent=False, open_world=True)
    async def execute_blender_code(self, code: str, user_prompt: Prompt = "") -> str:
        """Run Python in Blender, with bpy; in small steps, and look at the result of each.

        Args:
            code: What it prints is returned.
        """
        found = await self._blender.send("execute_code", code=code)
        return f"Done. It printed: {found.get('result') or 'nothing'}"


STRATEGY = """Build in small steps, and look at what each has done.

1. Begin with get_scene_info and get_viewport_screenshot.
2. Find out what there is to build with: get_polyhaven_status, get_sketchfab_status,
   get_hyper3d_status, get_hunyuan3d_status.
3. Take things from where they are best:
   - a known object: Sketchfab, then Poly Haven (search, preview, then download)
   - furniture and the like: Poly Haven, then Sketchfab
   - surfaces and light from around: textures and HDRIs of Poly Haven
   - models not found there: Hyper3D or Hunyuan3D, one item at a time; not a whole scene, not the
     ground, not parts to put together. Generate, poll until it is done, import. Copy what was
     generated instead of generating it again. If a free key has no balance left, tell the user:
     they may wait a day, or get a key of their own.
   - simple shapes, plain colours, and when nothing else is enabled: execute_blender_code
4. After every import look at the world_bounding_box: scale, turn and move the object until it
   stands right and cuts into nothing.
5. End with get_scene_info and a screenshot, and mend what looks wrong before you go on."""


async def read_object(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read one JSON object, whose end only shows by reading it."""
    text = bytearray()
    while chunk := await reader.read(65536):
        text += chunk
        if len(text) > MAX_BYTES:
            raise ValueError(f"an answer has more than {MAX_BYTES} bytes")
        # To read the whole again for every piece would take a time that grows with its square.
        if chunk.rstrip().endswith(b"}"):
            try:
                found: Any = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                return cast("dict[str, Any]", found)
            raise ValueError("an answer is not an object")
    raise EOFError("it was closed")


def read_pictures(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Pictures as Hyper3D wants them; other files of this machine are none of its business."""
    found: list[tuple[str, str]] = []
    for path in map(Path, paths):
        kind = path.suffix.lower()
        if kind not in PICTURES or not path.is_file() or path.stat().st_size > MAX_IMAGE_BYTES:
            raise ToolError(
                f"{path} is not a picture ({', '.join(sorted(PICTURES))}) of at most "
                f"{MAX_IMAGE_BYTES} bytes."
            )
        found.append((kind, base64.b64encode(path.read_bytes()).decode("ascii")))
    return found


def one_of(**keys: str | None) -> dict[str, str]:
    """The one argument that is given of several."""
    given = {name: value for name, value in keys.items() if value}
    if len(given) != 1:
        raise ToolError(f"Give one of {' and '.join(keys)}.")
    return given


def make_app(
    host: str | None = None, port: int | None = None, no_code: bool = False
) -> MCPKit[None]:
    """Make the server, with the flags of its command line."""
    blender = Blender(
        host or os.environ.get("BLENDER_HOST", "localhost"),
        port or int(os.environ.get("BLENDER_PORT", "9876")),
    )

    @asynccontextmanager
    async def lifespan(_: MCPKit[None]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            blender.close()

    app = MCPKit(
        "BlenderMCP",
        version="1.0",
        instructions="Look at the scene before you change it, and after.",
        lifespan=lifespan,
    )
    app.include(blender)
    if not no_code:
        app.include(Code(blender))
    return app


app = make_app()

if __name__ == "__main__":
    app.run()
