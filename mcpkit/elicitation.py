"""Questions to the user: a form to fill in, or a page to open; and the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NoReturn, TypeAlias

from typing_extensions import TypeVar

from mcpkit._forms import Form
from mcpkit._protocol.input_request import Ask, digest
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._utils.json import UNSET, is_object
from mcpkit._utils.text import quote
from mcpkit.errors import ElicitationError, InvalidInputResponse, MissingClientCapability, ToolError

__all__ = ["Accepted", "Declined", "Dismissed", "Elicit", "ElicitUrl", "Elicitation"]

T = TypeVar("T", default=Any)


# --- answers --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Accepted(Generic[T]):
    """The user answered.

    Args:
        data: The validated answer: what the schema describes; None for a mere confirmation.
    """

    data: T
    accepted: Literal[True] = True
    action: Literal["accept"] = "accept"


class _Unanswered:
    __slots__ = ()

    # Pyright does not narrow an answer by whether its `accepted` is true. What nobody can have
    # takes no part in the type of ``answer.data`` either, so that it has the right one anyway.
    @property
    def data(self) -> NoReturn:
        """There is none; look at ``accepted`` first.

        Raises:
            ToolError: Always: what the user did not say is not to be used.
        """
        did = "declined" if isinstance(self, Declined) else "dismissed the question"
        raise ToolError(f"The user {did}.")


@dataclass(slots=True)
class Declined(_Unanswered):
    """The user said no."""

    accepted: Literal[False] = False
    action: Literal["decline"] = "decline"


@dataclass(slots=True)
class Dismissed(_Unanswered):
    """The user closed the question without an answer (``cancel`` on the wire)."""

    accepted: Literal[False] = False
    action: Literal["cancel"] = "cancel"


Elicitation: TypeAlias = Accepted[T] | Declined | Dismissed
"""The answer that `Context.elicit` returns: look at ``accepted`` or ``action``, or ``match`` on the
class."""


# --- questions ------------------------------------------------------------------------------------


class Elicit(Ask[Elicitation[T]]):
    """A form for the user; also written inside ``Annotated`` to have a parameter asked for.

    Args:
        message: The question.
        schema: What to answer: a model, dataclass or TypedDict with flat fields, a scalar type,
            Literal, Enum, a list of choices, `Choices`, or None for a confirmation.
        key, timeout: See `Ask`.

    Raises:
        ElicitationError: The schema does not fit into a form.
    """

    METHOD = "elicitation/create"

    def __init__(
        self,
        message: str | Callable[..., str],
        schema: Any = UNSET,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.message = message
        self.schema = schema
        self.key = key
        self.timeout = timeout
        self.form: Form[T] = Form(None if schema is UNSET else schema)

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request."""
        if "form" not in revision.elicitation_modes:
            raise ElicitationError(f"revision {revision.version} has no elicitation")
        if not isinstance(self.message, str):
            raise ElicitationError("only a declared question may have a function for a message")
        params: dict[str, Any] = {}
        if "url" in revision.elicitation_modes:
            params["mode"] = "form"
        params["message"] = self.message
        params["requestedSchema"] = self.form.requested(revision)
        return params

    def needs(self, revision: Revision) -> dict[str, Any]:
        """Return the capability for forms, which an empty ``elicitation`` declares as well."""
        return {"elicitation": {}}

    def check(self, revision: Revision, client: ClientProfile) -> None:
        """Refuse to ask what the client has not declared."""
        declared = client.capabilities.get("elicitation")
        # ELIC-1: `elicitation: {}` means form only.
        if not is_object(declared) or not (declared == {} or "form" in declared):
            raise MissingClientCapability({"elicitation": {}})

    def read(self, result: Mapping[str, Any]) -> Elicitation[T]:
        """Accepted with validated data, declined, or dismissed."""
        action = _action(result)
        if action == "accept":
            return Accepted(self.form.read(result.get("content")))
        return Declined() if action == "decline" else Dismissed()


class ElicitUrl(Ask[Elicitation[None]]):
    """A page for the user to open: for what must not pass through the client, such as credentials.

    Args:
        message: Why.
        url: Where; nothing personal or authenticating in it (ELIC-6).
        elicitation_id: Identifies it towards the client (2025-11-25).
    """

    METHOD = "elicitation/create"

    def __init__(
        self,
        message: str,
        url: str,
        elicitation_id: str,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.message = message
        self.url = url
        self.elicitation_id = elicitation_id
        self.key = key
        self.timeout = timeout

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request."""
        if "url" not in revision.elicitation_modes:
            raise ElicitationError(f"revision {revision.version} cannot ask to open a URL")
        params = {"mode": "url", "message": self.message, "url": self.url}
        if revision.elicitation_ids:
            params["elicitationId"] = self.elicitation_id
        return params

    def needs(self, revision: Revision) -> dict[str, Any]:
        """Return the capability for URLs, which has to be declared by its name."""
        return {"elicitation": {"url": {}}}

    def read(self, result: Mapping[str, Any]) -> Elicitation[None]:
        """Accepted means consent to open, not completion (ELIC-10)."""
        action = _action(result)
        if action == "accept":
            return Accepted(None)
        return Declined() if action == "decline" else Dismissed()

    def fingerprint(self, revision: Revision) -> str:
        """Return a text for the page without the id, because the id differs each time."""
        asked = encode([self.METHOD, self.message, self.url])
        return digest(asked)


def _action(result: Mapping[str, Any]) -> str:
    action = result.get("action")
    if isinstance(action, str) and action in ("accept", "decline", "cancel"):
        return action
    raise InvalidInputResponse(f'"action" must be accept, decline or cancel, got {quote(action)}')
