"""Every exception of mcpkit, with the JSON-RPC code it becomes at the border.

Exceptions outside this tree that leave a handler are faults of the server: the other side sees a
reference, the server's log has the traceback under the same reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal


class MCPKitError(Exception):
    """The root of every exception that mcpkit raises on purpose."""


class RegistrationError(MCPKitError, TypeError):
    """A function, template or option cannot be registered as written; the message has the fix."""


class MissingEnvironment(MCPKitError):
    """Variables of the environment are missing, or have values that are of no use.

    Args:
        names: The names of the variables.
        why: The rest of a sentence about them; by default that they are not set.
    """

    def __init__(self, names: Sequence[str], why: str = "") -> None:
        is_many = len(names) > 1
        why = why or f"{'are' if is_many else 'is'} not set in the environment"
        super().__init__(f"{', '.join(names)} {why}")
        self.names = tuple(names)


class PublicError(MCPKitError):
    """An error whose message may be shown to the client, its user and its model."""


class InvalidArguments(PublicError):
    """Arguments do not fit the signature of their function.

    Args:
        problems: The first ones, each as ``path: expected …, got …``, and the number of the others.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ToolError(PublicError):
    """A tool failed in a way the model should read about: a result with ``isError: true``."""


class ResourceError(PublicError):
    """A resource could not be produced; its message goes into the JSON-RPC error."""


class ResourceNotFound(ResourceError):
    """There is no resource at this URI.

    Args:
        uri: The requested URI; mcpkit adds it if a handler does not.
        message: Shown to the client; a sentence about the URI by default.
    """

    def __init__(self, uri: str | None = None, message: str | None = None) -> None:
        self.uri = uri
        super().__init__(message or ("Resource not found" + (f": {uri:.200}" if uri else "")))


class PromptError(PublicError):
    """A prompt could not be produced; its message goes into the JSON-RPC error."""


class InputRequestError(PublicError):
    """A question to the client has no usable answer."""


class InputRequestRefused(InputRequestError):
    """The client answered with an error instead, such as -1: the user rejected it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(f"The client refused to answer: {message} ({code})")
        self.said = message
        self.code = code


class InputRequestTimeout(InputRequestError, TimeoutError):
    """The client did not answer in time; the request to it was cancelled."""


class InvalidInputResponse(InputRequestError):
    """The client's answer does not fit the question; the message says where."""


class ElicitationError(MCPKitError, TypeError):
    """The input request cannot be expressed, at all or in the client's revision."""


class ProtocolError(MCPKitError):
    """A request that is answered with a JSON-RPC error object.

    A handler raises it to send it; a client raises it when the server has sent it.

    Args:
        message: A short sentence for the other side.
        code: The JSON-RPC error code; that of the class by default.
        data: Any JSON value; None omits the member.
    """

    CODE: ClassVar[int] = -32603

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.CODE if code is None else code
        self.data = data

    @staticmethod
    def from_wire(error: Mapping[str, Any]) -> ProtocolError:
        """Return the exception for a received error object, of the class that owns its code."""
        code = error.get("code")
        message = str(error.get("message", ""))
        made = ProtocolError(message, code=code if isinstance(code, int) else None)
        made.data = error.get("data")
        if isinstance(code, int):
            # The subclasses' constructors build what the wire already carries.
            made.__class__ = _BY_CODE.get(code, ProtocolError)
        return made

    def to_wire(self) -> dict[str, Any]:
        """Return the error object of JSON-RPC 2.0, section 5.1."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


class ParseError(ProtocolError):
    """A message is not JSON."""

    CODE = -32700


class InvalidRequest(ProtocolError):
    """A message is JSON but not JSON-RPC, or not allowed at this point."""

    CODE = -32600


class MethodNotFound(ProtocolError):
    """The method does not exist in this revision, or its capability is not advertised."""

    CODE = -32601


class InvalidParams(ProtocolError):
    """The parameters do not fit the method."""

    CODE = -32602


class InternalError(ProtocolError):
    """The server failed, and not by the client's doing."""


class LimitExceeded(ProtocolError):
    """A call is rejected because of a limit. Its data is ``{"retryAfter": seconds}``.

    A model reads it in the result of the tool; over HTTP on 2026-07-28, another method has the
    status 429.

    Args:
        message: What the limit is.
        retry_after: Seconds after which another attempt may succeed, rounded up; at least 1.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = max(1, math.ceil(retry_after))
        plural = "" if self.retry_after == 1 else "s"
        super().__init__(
            f"{message}; try again in {self.retry_after} second{plural}",
            data={"retryAfter": self.retry_after},
        )


class HeaderMismatch(ProtocolError):
    """A header that repeats the body is missing, malformed, or says otherwise (2026-07-28)."""

    CODE = -32020


class MissingClientCapability(ProtocolError):
    """The request cannot be served to a client that lacks a capability (2026-07-28).

    Args:
        required: The capabilities that are needed, as the object a client would declare,
            for example ``{"elicitation": {"url": {}}}``.
    """

    CODE = -32021

    def __init__(self, required: Mapping[str, Any], message: str | None = None) -> None:
        parts = [[f"{name}.{part}" for part in each] or [name] for name, each in required.items()]
        names = ", ".join(name for each in parts for name in each)
        super().__init__(
            message or f"This request needs client capabilities that were not declared: {names}",
            data={"requiredCapabilities": dict(required)},
        )


class UnsupportedProtocolVersion(ProtocolError):
    """A request names a protocol version that this server does not speak (2026-07-28)."""

    CODE = -32022

    def __init__(self, requested: str, supported: list[str]) -> None:
        requested = requested[:200]
        super().__init__(
            f"Unsupported protocol version: {requested}; supported: {', '.join(supported)}",
            data={"supported": supported, "requested": requested},
        )


class UrlElicitationRequired(ProtocolError):
    """The user must open a page first; the client should then try again (2025-11-25).

    On 2026-07-28 an input request says the same, on older revisions a failed result.

    Args:
        message: The reason, for the user.
        url: The URL of the page.
        elicitation_id: Identifies the page to the client; made from the URL if None.
    """

    CODE = -32042

    def __init__(self, message: str, url: str, *, elicitation_id: str | None = None) -> None:
        from hashlib import sha256  # loaded when needed: it brings OpenSSL along

        self.url = url
        self.elicitation_id = elicitation_id or sha256(url.encode()).hexdigest()[:32]
        asked = {
            "mode": "url",
            "message": message,
            "url": url,
            "elicitationId": self.elicitation_id,
        }
        super().__init__(message, data={"elicitations": [asked]})


class SkillError(MCPKitError, ValueError):
    """A skill cannot be published, or read from a server, as it is.

    Args:
        path: The file or directory at fault, or the URI or prefix that is not valid.
        reason: The rest of a sentence about it.
        line: The line of the file, counted from 1; None if the fault is not in one line.
    """

    def __init__(self, path: str, reason: str, line: int | None = None) -> None:
        shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in path)
        super().__init__(f"{shown}:{line}: {reason}" if line else f"{shown}: {reason}")
        self.path = path
        self.reason = reason
        self.line = line


class TaskCancelled(MCPKitError):
    """The task that a client waits for was cancelled.

    Args:
        id: Of the task.
        reason: What the server says beside it; None if nothing.
    """

    def __init__(self, id: str, reason: str | None = None) -> None:
        super().__init__("The task was cancelled" + (f": {reason}" if reason else ""))
        self.id = id
        self.reason = reason


class AccessDenied(MCPKitError):
    """The caller of an HTTP request is rejected; raised by the function of ``principal=``.

    Args:
        message: For the caller.
        status: 401 if the caller is not authenticated; 403 if it is, and is not allowed.
        challenge: The header ``WWW-Authenticate``; ``Bearer`` by default with 401.

    Raises:
        ValueError: The status is another one.
    """

    def __init__(
        self, message: str = "Not allowed", *, status: Literal[401, 403] = 403, challenge: str = ""
    ) -> None:
        if status not in (401, 403):
            raise ValueError(f"AccessDenied has the status 401 or 403, not {status}")
        super().__init__(message)
        self.status: Literal[401, 403] = status
        self.challenge = challenge or ("Bearer" if status == 401 else "")


class Forbidden(ProtocolError):
    """The caller lacks the permission; over HTTP the status is 403.

    mcpkit raises it for entries with ``scopes=`` and ``allow=``; handlers may raise it too.

    Args:
        message: For the caller.
        scopes: That their token lacks, or all that are needed; the challenge names them.
        status: 401 if the caller is unknown.
    """

    CODE = -32600

    def __init__(
        self,
        message: str = "Not allowed",
        *,
        scopes: Sequence[str] = (),
        status: Literal[401, 403] = 403,
    ) -> None:
        super().__init__(message)
        self.scopes = tuple(scopes)
        self.status: Literal[401, 403] = status


class ConnectionClosed(MCPKitError):
    """The other side closed the connection, or its process ended, before it answered.

    Args:
        message: What happened.
        exit_code: Of the server's process, if this side started it and it has ended; negative if a
            signal ended it.
    """

    def __init__(self, message: str = "", *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_BY_CODE: Final[Mapping[int, type[ProtocolError]]] = {
    each.CODE: each for each in reversed(ProtocolError.__subclasses__())
}
"""The classes that own a code. Those that others derive from them mean something to them alone."""
