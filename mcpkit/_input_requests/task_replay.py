"""Input requests of a task: requests and answers are kept in its record.

The process that runs the task holds its handler until every request is answered. If it does not
any more, any process may start the next run, which replays the handler.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcpkit._input_requests.replay import Replay
from mcpkit._input_requests.requester import InputRequired
from mcpkit._input_requests.steps import Step
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._utils.json import UNSET, is_object
from mcpkit.errors import InputRequestRefused, InvalidInputResponse

MAX_TRIES: Final = 3
"""Invalid answers to one request, after which the handler is told that there is none."""

MAX_KEY: Final = 1000
"""Bytes of the key of a step that is stored as it is."""

Remember = Callable[[str, bytes], Awaitable[bytes]]
"""Stores the result of a step by its key, and returns the stored result; raises `Suspended` if the
task is not run here any more."""


class TaskReplay(Replay):
    """One run of a task."""

    def __init__(
        self,
        request: Request,
        asks: Mapping[str, bytes],  # every request by key, as `input_required` encodes it
        answers: Mapping[str, bytes],  # by key, as `reply` or `refusal` encodes them
        given: Mapping[str, tuple[str, Any]],  # before the task: key → fingerprint and result
        steps: Mapping[str, bytes],  # the results by key
        remember: Remember,
    ) -> None:
        super().__init__(request)
        self._marks: dict[str, str] = {key: from_json(value)["mark"] for key, value in asks.items()}
        self._answers = dict(answers)
        self._given = given
        self._steps = steps
        self._remember = remember
        self.ahead = {*answers, *map(_step_mark, steps)}

    def _find(self, key: str, mark: str, ask: InputRequest[Any]) -> tuple[bool, Any]:
        given = self._given.get(key)
        if given is not None and given[0] == mark:
            return True, ask.parse_result(given[1])
        tries = 0
        number = 1
        wire_key = key
        # A key is never used for a second request, nor for the same one again (TASKX-7).
        while wire_key in self._marks:
            if self._marks[wire_key] == mark:
                if wire_key not in self._answers:
                    break
                self.ahead.discard(wire_key)
                self.pending.pop(wire_key, None)
                try:
                    return True, _read(ask, self._answers[wire_key])
                except InvalidInputResponse:
                    tries += 1
                    if tries == MAX_TRIES:
                        raise
            number += 1
            wire_key = f"{key}~{number}"
        self.ahead.clear()
        self.pending[wire_key] = ask
        return False, None

    def abandon(self) -> None:
        """End every wait by `Suspended`: the task is not run here any more."""
        self.hold = None
        self.wake()

    def take(self, answers: Mapping[str, bytes]) -> None:
        """Let the handler go on with the answers in the record."""
        self._answers.update(answers)
        self.wake()

    async def _find_step(self, name: str, key: str) -> Step:
        key = _stored(key)
        end = partial(self._end_step, key)
        if key in self._steps:
            self.ahead.discard(_step_mark(key))
            return Step(name, key, True, from_json(self._steps[key]), end)
        self.ahead.clear()
        return Step(name, key, False, None, end)

    async def _end_step(self, key: str, result: Any) -> Any:
        if result is UNSET:
            return None
        return from_json(await self._remember(key, to_json(result)))

    def input_required(self) -> InputRequired:
        """Return the open requests by key, encoded for the record."""
        revision = self._request.revision
        open: dict[str, dict[str, Any]] = {
            key: {
                "method": ask.METHOD,
                "params": ask.params(revision),
                "mark": ask.fingerprint(revision),
            }
            for key, ask in self.pending.items()
        }
        self._marks.update({key: each["mark"] for key, each in open.items()})
        return InputRequired({key: encode(each) for key, each in open.items()})


def _stored(key: str) -> str:
    """Return the key of a step as every database can store and index it, whatever is in it."""
    data = key.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_KEY and "\0" not in key and data.decode("utf-8", "ignore") == key:
        return key
    return f"sha256:{sha256(data).hexdigest()}"


def _step_mark(key: str) -> str:
    return f"\0{key}"  # not to be taken for the key of a request


def _read(ask: InputRequest[Any], answer: bytes) -> Any:
    found: dict[str, Any] = from_json(answer)
    if "refused" in found:
        raise InputRequestRefused(found["refused"], found["code"])
    result = found["result"]
    if not is_object(result):
        raise InvalidInputResponse("the client's answer is malformed")
    return ask.parse_result(result)


class RelayedRequest(InputRequest[Mapping[str, Any]]):
    """A request of a task, sent to its client as it is in the record; see `question_id`."""

    def __init__(self, request: Mapping[str, Any], meta: Mapping[str, Any], id: str) -> None:
        super().__init__(timeout=math.inf)
        self.request_id = id
        self.METHOD = request["method"]
        self._params = {**request["params"], "_meta": meta}

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the params, with the ``_meta``."""
        return self._params

    def check(self, revision: Revision, client: ClientProfile) -> None:
        """Do nothing: the task has checked the capabilities of its client."""

    def parse_result(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result as it is, for the task to read."""
        return result
