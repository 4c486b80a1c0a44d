"""Rounds of one call, without a session (MRTR-5…15)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from pydantic import BaseModel

from mcpkit import Elicit, Roots, Sample
from mcpkit._input_requests.replay import StatelessReplay, StepMemory
from mcpkit._input_requests.steps import Suspended
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.revisions import BY_VERSION, ClientProfile
from mcpkit._signature.schema import typed
from mcpkit._utils.sealing import Sealer
from mcpkit.errors import InvalidParams
from mcpkit.tasks.service import StoredSource
from mcpkit.testing import REVISIONS
from mcpkit.types import Principal
from tests.asking.conftest import accept, capabilities_in
from tests.authoring import wait

MODERN = BY_VERSION[REVISIONS[-1]]
NOW = 1_000_000.0


class Calls:
    """Makes rounds of one call."""

    def __init__(self, **params: Any) -> None:
        self.params: dict[str, Any] = {"name": "tool", "arguments": {"a": 1}, **params}
        self.sealer = Sealer(["secret"], "request state", "app")
        self.steps = StepMemory()
        self.capabilities = capabilities_in(MODERN.version)

    def round(
        self,
        state: Any = None,
        responses: Any = None,
        params: Any = None,
        *,
        principal: str | None = None,
        lifetime: float = 3600,
        method: str = "tools/call",
        now: float = NOW,
    ) -> StatelessReplay:
        given = {**self.params, **(params or {})}
        if state is not None:
            given["requestState"] = state
        if responses is not None:
            given["inputResponses"] = responses
        request = Request(
            1,
            method,
            MODERN.methods[method],
            given,
            {},
            MODERN,
            ClientProfile(self.capabilities, None),
            origin=None if principal is None else StoredSource(Principal(principal), principal),
        )
        with patch("time.time", return_value=now):
            return StatelessReplay(request, self.sealer, self.steps, lifetime)


@pytest.fixture
def calls() -> Calls:
    return Calls()


NAME = Elicit("Name?", str, key="name")


def asked(replay: StatelessReplay, *asks: InputRequest[Any]) -> dict[str, Any]:
    """What the round ends with, once it was suspended by these."""
    with pytest.raises(Suspended):
        wait(lambda: replay.gather(asks))
    return dict(replay.input_required().members)


def state_of(calls: Calls, **options: Any) -> str:
    state: str = asked(calls.round(**options), NAME)["requestState"]
    return state


def answer(replay: StatelessReplay, ask: InputRequest[Any]) -> Any:
    [found] = wait(lambda: replay.gather([ask]))
    return found


def refused(calls: Calls, state: str, **options: Any) -> None:
    with pytest.raises(InvalidParams) as caught:
        calls.round(state, **options)
    assert str(caught.value) == "The request state is not valid; start the request again without it"


def test_a_state_belongs_to_its_principal_and_method(calls: Calls) -> None:
    """MRTR-7."""
    state = state_of(calls, principal="ann")
    calls.round(state, principal="ann")
    for other in ({"principal": "bob"}, {}, {"principal": "ann", "method": "prompts/get"}):
        refused(calls, state, **other)


def test_the_order_of_members_and_the_meta_data_do_not_matter(calls: Calls) -> None:
    """MRTR-16: a client may write the same params differently."""
    first = Calls(arguments={"a": {"x": 1, "y": [{"p": 1, "q": 2}]}}, _meta={"progressToken": 1})
    other = Calls(arguments={"a": {"y": [{"q": 2, "p": 1}], "x": 1}}, _meta={"progressToken": 2})
    other.sealer = first.sealer
    other.round(state_of(first))


def test_a_state_expires(calls: Calls) -> None:
    """MRTR-7: and each round extends it."""
    state = state_of(calls, lifetime=60)
    calls.round(state, now=NOW + 59)
    calls.round(state, now=NOW + 60)
    refused(calls, state, now=NOW + 61)
    later = asked(calls.round(state, now=NOW + 59, lifetime=60), NAME)["requestState"]
    calls.round(later, now=NOW + 118)


def test_a_state_of_another_layout_is_refused(calls: Calls) -> None:
    """Such as one from a newer version."""
    for value in (b"[1]", b"[]", b"{}", b"null", b"not JSON"):
        refused(calls, calls.sealer.seal(value))


def test_keys_are_never_the_same(calls: Calls) -> None:
    """MRTR-3: also if an author's look like a second use of another; the others name a method."""
    asks = [Roots(key=key) for key in ("a", "a", "a#2", "a#2", "a")]
    keys = asked(calls.round(), *asks, Roots(), Sample("x"), Sample("y"))["inputRequests"]
    assert len(keys) == 8
    named = [key.rpartition("_")[0] for key in [*keys][5:]]
    assert named == ["roots_list", "sampling_createMessage", "sampling_createMessage"]


def test_the_roots_are_asked_for_once_in_a_call(calls: Calls) -> None:
    """So what a handler does between two looks at them is not done twice."""
    first = asked(calls.round(), Roots())
    (key,) = first["inputRequests"]
    replay = calls.round(first["requestState"], {key: {"roots": [{"uri": "file:///a"}]}})
    for _ in range(2):
        assert [each.uri for each in answer(replay, Roots())] == ["file:///a"]
    with pytest.raises(Suspended):
        answer(replay, Roots(key="now"))


def test_an_early_answer_is_bound_to_the_question_it_answered(calls: Calls) -> None:
    """MRTR-13."""
    first = calls.round(None, {"name": accept("Ann")})
    assert answer(first, NAME).data == "Ann"
    state = asked(first, Roots(key="more"))["requestState"]
    second = calls.round(state)
    with pytest.raises(Suspended):
        answer(second, Elicit("Other name?", str, key="name"))


# --- steps ----------------------------------------------------------------------------------------


async def run_step(replay: StatelessReplay, key: str, value: Any) -> tuple[bool, Any]:
    step = await replay.start_step(key)
    if not step.done:
        await step.finish(value)
        return True, step.value
    return False, step.value


def test_a_step_is_remembered_in_the_state_alone(calls: Calls) -> None:
    """MRTR-12, MRTR-15: a replica that never saw the call knows as well."""
    first = calls.round()
    assert wait(lambda: run_step(first, "s", [1])) == (True, [1])
    state = asked(first, NAME)["requestState"]
    calls.steps = StepMemory()
    assert wait(lambda: run_step(calls.round(state), "s", [2])) == (False, [1])


def test_a_step_after_the_state_was_sealed_is_remembered_by_the_server(calls: Calls) -> None:
    """MRTR-8: for that call alone."""
    state = state_of(calls)
    assert wait(lambda: run_step(calls.round(state), "s", 1)) == (True, 1)
    assert wait(lambda: run_step(calls.round(state), "s", 2)) == (False, 1)
    assert wait(lambda: run_step(calls.round(), "s", 2)) == (True, 2)


def test_a_result_that_json_cannot_carry_is_an_error_and_frees_the_step(calls: Calls) -> None:
    state = state_of(calls)
    with pytest.raises(ValueError, match="the step 's' returned a object, which JSON cannot carry"):
        wait(lambda: run_step(calls.round(state), "s", object()))
    assert wait(lambda: run_step(calls.round(state), "s", 1)) == (True, 1)


class Memory(StepMemory):
    def store(self, call: str, *keys: str, owner: str = "", lifetime: float = 60) -> None:
        """Run steps whose results are their keys."""
        for key in keys:
            assert not self.has(call, key)
            self.end((call, key), key, owner, lifetime)

    def has(self, call: str, key: str) -> bool:
        return wait(lambda: self.start((call, key))) == (True, key)


@pytest.mark.parametrize("limit", [{"limit": 2}, {"max_bytes": 8}])
def test_the_memory_of_steps_is_bounded(limit: dict[str, int]) -> None:
    """MRTR-12: the oldest are forgotten."""
    memory = Memory(**limit, share=1)
    memory.store("call", "a", "b", "c")
    assert [memory.has("call", key) for key in ("c", "b", "a")] == [True, True, False]
    memory = Memory(max_bytes=9)
    memory.store("call", "x" * 20)
    assert not memory.has("call", "x" * 20), "it is above the limit by itself"


def test_a_client_with_many_steps_loses_its_own_and_not_those_of_others() -> None:
    """MRTR-8: no client makes the server forget what another has paid for."""
    memory = Memory(limit=100)
    memory.store("hers", "charge", owner="alice")
    memory.store("many", *map(str, range(150)), owner="mallory")
    assert memory.has("hers", "charge")
    assert not memory.has("many", "0")


def test_steps_whose_state_has_expired_are_forgotten() -> None:
    memory = Memory()
    memory.store("early", "step", lifetime=-1)
    memory.store("late", "step", lifetime=60)
    assert not memory.has("early", "step")


class Model(BaseModel):
    x: int


def model() -> Model: ...  # type: ignore[empty-body]
def untyped(): ...  # type: ignore[no-untyped-def]
def anything() -> Any: ...
async def numbers() -> set[int]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (model, {"x": 1}, Model(x=1)),
        (untyped, {"x": 1}, {"x": 1}),
        (anything, [1], [1]),
        (numbers, [1, 1], {1}),
        (len, 3, 3),
        (lambda: None, 3, 3),
    ],
)
def test_a_remembered_value_has_the_type_that_its_function_names(
    function: Any, value: Any, expected: Any
) -> None:
    assert typed(function, value) == expected


def test_a_recorded_value_of_another_type_than_declared_is_an_error() -> None:
    """The handler would go on with something that it does not expect, in a later round only."""
    with pytest.raises(ValueError, match=r"model\(\) of the step is annotated to return .*Model"):
        typed(model, "unfit")
