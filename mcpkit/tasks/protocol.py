"""Tasks on the wire, in both shapes: capabilities, members of a task, ids of questions.

Two revisions have tasks. In 2025-11-25 a client requests one with each call, and fetches its
outcome with ``tasks/result``; in 2026-07-28 they are an extension: the server makes a task of a
call, and ``tasks/get`` returns all of its state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from hashlib import sha256
from math import ceil, inf
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcpkit._protocol.connection import RELATED_TASK_KEY, TASKS_EXTENSION, Request
from mcpkit._protocol.messages import members
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._utils.json import is_object, value_at
from mcpkit.errors import (
    InputRequestRefused,
    InvalidParams,
    MissingClientCapability,
    ProtocolError,
)
from mcpkit.tasks.record import Task

MAX_TTL_MS: Final = 10**15
"""A longer ``ttl`` of a client is read as this one: it must stay exact as a float of seconds."""


def owner_name(shape: str, principal: str | None) -> str:
    """Return the owner of a task: a principal, in one shape of tasks.

    Tasks of one shape are unknown in the other (TASKX-18).
    """
    return sha256(f"{shape}\0{principal or ''}".encode()).hexdigest()[:32]


def caller_name(owner: str) -> str:
    """Return the name that a record has for the owner of quotas, such as a network."""
    return sha256(f"caller\0{owner}".encode()).hexdigest()[:32] if owner else ""


def related(id: str) -> dict[str, Any]:
    """Return the ``_meta`` of a message that belongs to a task."""
    return {RELATED_TASK_KEY: {"taskId": id}}


def declares(client: ClientProfile) -> bool:
    """Return True if a client declares the extension."""
    return is_object(value_at(client.capabilities, "extensions", TASKS_EXTENSION))


def check_declared(client: ClientProfile) -> None:
    """Raise `MissingClientCapability` unless a client declares the extension (TASKX-4)."""
    if not declares(client):
        raise MissingClientCapability({"extensions": {TASKS_EXTENSION: {}}})


def may_list_tasks(request: Request) -> bool:
    """Return True if a request may list tasks: its client must be known (TASKL-13).

    A request without an origin arrived on a channel that has only one client.
    """
    return request.origin is None or request.principal is not None


def requested_ttl(task: object) -> float | None:
    """Return the seconds of ``task.ttl`` in the params of a call; None if there is none."""
    if not is_object(task):
        raise InvalidParams('"task" must be an object')
    ttl = task.get("ttl")
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 <= ttl < inf:
        raise InvalidParams('"task.ttl" must be a number of milliseconds')
    return min(ttl, MAX_TTL_MS) / 1000


def task_members(task: Task, revision: Revision, poll_interval: float) -> dict[str, Any]:
    """Return the members that every message about a task has (TASKL-10)."""
    suffix = "Ms" if revision.tasks == "extension" else ""
    found: dict[str, Any] = {"taskId": task.id, "status": task.status}
    if task.message is not None:
        found["statusMessage"] = task.message
    found["createdAt"] = _time(task.created)
    found["lastUpdatedAt"] = _time(task.updated)
    found[f"ttl{suffix}"] = None if task.ttl is None else _milliseconds(task.ttl)
    found[f"pollInterval{suffix}"] = _milliseconds(poll_interval)
    return found


def _time(seconds: float) -> str:
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(seconds: float) -> int:
    # Rounded up: a task must not be forgotten early (TASKX-17), and 0 would mean no wait at all.
    return ceil(round(seconds * 1000, 3))


def detailed(
    task: Task, revision: Revision, poll_interval: float, open: Callable[..., bytes]
) -> bytes:
    """Return the encoded members of a task with its questions and its outcome (2026-07-28)."""
    found = task_members(task, revision, poll_interval)
    if task.status == "input_required":  # TASKX-7
        found["inputRequests"] = {
            key: request_of(open(task, task.input_requests[key], "question", key))
            for key in task.open
        }
    text = members(found)
    if task.outcome is None:
        return text
    is_error, outcome = split_outcome(open(task, task.outcome, *outcome_field(task)))
    if is_error:
        return b'%b,"error":%b' % (text, outcome)
    return b'%b,"result":{%b}' % (text, outcome)


def outcome_field(task: Task) -> tuple[str, ...]:
    """Return the field that the outcome of a task is sealed for, once it has ended."""
    return "outcome", task.status, str(task.attempt)


def split_outcome(outcome: bytes) -> tuple[bool, bytes]:
    """Return True and an encoded error object; or False and the encoded members of a result."""
    return outcome[:1] == b"e", outcome[1:]


def read_answer(message: Mapping[str, Any]) -> tuple[str, Mapping[str, bytes]] | None:
    """Return the task and the answer by key, if a message answers one (TASKL-9)."""
    found = None if "method" in message else read_question_id(message.get("id"))
    if found is None:
        return None
    id, key = found
    error, result = message.get("error"), message.get("result")
    if is_object(error):
        rejected = ProtocolError.from_wire(error)
        answer = refusal(InputRequestRefused(rejected.message, rejected.code))
    elif is_object(result):
        answer = reply(result)
    else:
        return None
    return id, {key: answer}


# --- input requests in a record -------------------------------------------------------------------


def request_of(asked: bytes) -> dict[str, Any]:
    """Return the method and params of a request in a record."""
    found: dict[str, Any] = from_json(asked)
    return {"method": found["method"], "params": found["params"]}


def question_id(task: str, key: str) -> str:
    """Return an id for a request that relays one of a task, for any process to recognize."""
    return f"task/{task}/{os.urandom(6).hex()}/{key}"


def read_question_id(id: object) -> tuple[str, str] | None:
    """Return the task and the key in an id; None if `question_id` did not make it."""
    parts = id.split("/", 3) if isinstance(id, str) else []
    return (parts[1], parts[3]) if len(parts) == 4 and parts[0] == "task" else None


def reply(result: Mapping[str, Any] | None) -> bytes:
    """Return a result of the client, None if it is malformed, as an answer for the record."""
    return to_json({"result": result})


def refusal(error: InputRequestRefused) -> bytes:
    """Return an error of the client as an answer for the record."""
    return to_json({"refused": error.said, "code": error.code})
