"""Asking on behalf of a task: the questions and their answers are kept in its record.

A round is a leg of the task. Whoever asks is suspended, which ends the leg; when all that it has
asked is answered, any process begins the next one.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcpkit._input_requests.rounds import Rounds, Step
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import Ask
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._utils.json import UNSET, is_object
from mcpkit.errors import InputRequestRefused, InvalidInputResponse

__all__ = [
    "RelayedRequest",
    "TaskReplay",
    "question_id",
    "read_question_id",
    "refusal",
    "reply",
    "request_of",
]

_MOST_TRIES: Final = 3
"""Answers that do not fit, after which the handler is told that there is none."""

Remember = Callable[[str, bytes], Awaitable[bytes]]
"""Remembers the result of a step by its place, and returns what is remembered; raises `Suspended`
if the leg has been given up."""


class TaskReplay(Rounds):
    """Asks on behalf of one leg of a task.

    Args:
        request: The one that has begun the task.
        asks: All that the task has asked, by key, as `input_required` has made it.
        answers: Key → the answer, as `reply` or `refusal` has made it.
        given: What was answered before the task was made: key → fingerprint of the question, and
            the result.
        steps: What its steps have come to, by place.
        remember: For what another step has come to.
    """

    used_input = False

    def __init__(
        self,
        request: Request,
        asks: Mapping[str, bytes],
        answers: Mapping[str, bytes],
        given: Mapping[str, tuple[str, Any]],
        steps: Mapping[str, bytes],
        remember: Remember,
    ) -> None:
        super().__init__(request)
        self._marks: dict[str, str] = {key: from_json(value)["mark"] for key, value in asks.items()}
        self._answers = answers
        self._given = given
        self._steps = steps
        self._remember = remember
        self.ahead = {*answers, *map(_step_mark, steps)}

    def _find(self, key: str, mark: str, ask: Ask[Any]) -> tuple[bool, Any]:
        """Look among the answers that were given before the task was made, and in its record."""
        given = self._given.get(key)
        if given is not None and given[0] == mark:
            return True, ask.read(given[1])
        tries = 0
        number = 1
        wire_key = key
        # A key is never used for a second question, nor for the same one again (TASKX-7).
        while wire_key in self._marks:
            if self._marks[wire_key] == mark:
                if wire_key not in self._answers:
                    break
                self.ahead.discard(wire_key)
                try:
                    return True, _read(ask, self._answers[wire_key])
                except InvalidInputResponse:
                    tries += 1
                    if tries == _MOST_TRIES:
                        raise
            number += 1
            wire_key = f"{key}~{number}"
        self.ahead.clear()
        self.pending[wire_key] = ask
        return False, None

    async def _find_step(self, key: str, place: str) -> Step:
        """Look among the steps that the task has done."""
        end = partial(self._end_step, place)
        if place in self._steps:
            self.ahead.discard(_step_mark(place))
            return Step(key, place, True, from_json(self._steps[place]), end)
        self.ahead.clear()
        return Step(key, place, False, None, end)

    async def _end_step(self, place: str, result: Any) -> Any:
        if result is UNSET:
            return None
        return from_json(await self._remember(place, to_json(result)))

    # --- the end of a leg -------------------------------------------------------------------------

    def input_required(self) -> dict[str, Any]:
        """Return the questions as bytes, by key, for the record."""
        revision = self._request.revision
        return {key: _asked(ask, revision) for key, ask in self.pending.items()}


def _step_mark(place: str) -> str:
    # Not to be taken for the key of a question.
    return f"\0{place}"


def _asked(ask: Ask[Any], revision: Revision) -> bytes:
    asked = {"method": ask.METHOD, "params": ask.params(revision)}
    return to_json({**asked, "mark": ask.fingerprint(revision)})


def request_of(asked: bytes) -> dict[str, Any]:
    """Return the method and params of a question in a record."""
    found: dict[str, Any] = from_json(asked)
    return {"method": found["method"], "params": found["params"]}


def question_id(task: str, key: str) -> str:
    """Return an id for the request that puts a question of a task to a client.

    It says which question it is, because the answer may come to another process. Whoever answers
    has to be the owner of the task all the same.
    """
    return f"task/{task}/{os.urandom(6).hex()}/{key}"


def read_question_id(id: object) -> tuple[str, str] | None:
    """Return the task and the key that an id was made for; None if it is no such id."""
    parts = id.split("/", 3) if isinstance(id, str) else []
    return (parts[1], parts[3]) if len(parts) == 4 and parts[0] == "task" else None


def reply(result: Mapping[str, Any] | None) -> bytes:
    """Return a result of the client as an answer for the record; None for one that is malformed."""
    return to_json({"result": result})


def refusal(error: InputRequestRefused) -> bytes:
    """Return an error of the client as an answer for the record."""
    return to_json({"refused": error.said, "code": error.code})


def _read(ask: Ask[Any], answer: bytes) -> Any:
    found: dict[str, Any] = from_json(answer)
    if "refused" in found:
        raise InputRequestRefused(found["refused"], found["code"])
    result = found["result"]
    if not is_object(result):
        raise InvalidInputResponse("the client's answer is malformed")
    return ask.read(result)


class RelayedRequest(Ask[Mapping[str, Any]]):
    """A question of a task, put to its client as it stands in the record.

    Args:
        request: As `request_of` returns it.
        meta: The ``_meta`` of its params.
        id: Of the request; see `question_id`.
    """

    timeout = float("inf")

    def __init__(self, request: Mapping[str, Any], meta: Mapping[str, Any], id: str) -> None:
        self.request_id = id
        self.METHOD = request["method"]  # type: ignore[misc]
        self._params = {**request["params"], "_meta": meta}

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the params, with the ``_meta``."""
        del revision
        return self._params

    def check(self, revision: Revision, client: ClientProfile) -> None:
        """Do nothing: the task has checked what its client can be asked."""

    def read(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result as it is, for the task to read."""
        return result
