"""The changes that a task may go through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from tests.tasks.conftest import present

NEW = Task(id="t", owner="o", call=b"call", ttl=60, created=100, updated=100)


def claimed(task: Task = NEW, runner: str = "a") -> Task:
    return present(record.claim(task, runner, now=100, lease=30))


def suspended(*keys: str, task: Task | None = None) -> Task:
    task = task or claimed()
    asked = {key: b"?" + key.encode() for key in keys}
    return present(record.suspend(task, task.attempt, asked, 110))


def test_a_task_is_due_at_once_and_when_its_lease_expires() -> None:
    assert (NEW.status, NEW.due, NEW.is_over, NEW.expires) == ("working", 100, False, 160)
    assert replace(NEW, ttl=None).expires is None
    first = claimed()
    assert (first.attempt, first.worker, first.due) == (1, "a", 130)
    assert claimed(first, "b").attempt == 2


def test_only_the_last_attempt_may_change_the_task() -> None:
    """The number of an attempt is a fence."""
    lost = claimed()
    task = claimed(lost, "b")
    late = lost.attempt
    assert record.renew(task, late, 200) is None
    assert record.note(task, 120, late, "half done") is None
    assert record.advance(task, late) is None
    assert record.suspend(task, late, {"q": b"?"}, 120) is None
    assert record.release(task, late) is None
    assert record.finish(task, late, "completed", b"late", 120) is None
    finished = record.finish(task, task.attempt, "completed", b"in time", 120)
    assert present(finished).outcome == b"in time"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_an_ended_task_does_not_change(end: Any) -> None:
    """TASKL-5."""
    task = claimed()
    finished = record.finish(task, 1, end, b"outcome", 120)
    over = present(record.cancel(task, 120) if end == "cancelled" else finished)
    assert (over.status, over.is_over, over.due) == (end, True, None)
    assert record.claim(over, "b", 200, 30) is None
    assert record.cancel(over, 130) is None
    assert record.answer(over, {"q": b"!"}, 130) is None
    for attempt in (0, 1, 2):
        assert record.finish(over, attempt, "completed", b"again", 130) is None
        assert record.suspend(over, attempt, {"q": b"?"}, 130) is None


def test_questions_wait_for_all_of_their_answers() -> None:
    """TASKX-7, TASKX-9: what is outstanding is shown whole; answers may come one by one."""
    task = suspended("a", "b")
    assert (task.status, task.open) == ("input_required", ("a", "b"))
    assert (task.due, task.worker) == (None, None)
    half = present(record.answer(task, {"a": b"1", "unknown": b"2"}, 120))
    assert (half.status, half.open, dict(half.answers)) == ("input_required", ("b",), {"a": b"1"})
    assert record.answer(half, {"a": b"other"}, 121) is None
    whole = present(record.answer(half, {"a": b"other", "b": b"3"}, 122))
    assert (whole.status, whole.open, whole.due) == ("working", (), 122)
    assert dict(whole.answers) == {"a": b"1", "b": b"3"}


def test_a_question_that_is_held_leaves_its_answer_to_the_holder() -> None:
    """As long as that renews its lease; another attempt then repeats nothing that was recorded."""
    task = claimed()
    held = present(record.suspend(task, 1, {"q": b"?"}, 110, is_held=True))
    assert (held.status, held.worker, held.due, held.starts) == ("input_required", "a", None, 0)
    renewed = present(record.renew(held, 1, 150))
    answered = present(record.answer(renewed, {"q": b"!"}, 120))
    assert (answered.status, answered.worker, answered.due) == ("working", "a", 150)
    noted = present(record.note(held, 115, 1, "half done"))
    assert record.note(noted, 116, 1, "half done") is None
    gone_on = present(record.resume(answered, 1))
    assert [claimed(each, "b").starts for each in (answered, gone_on)] == [1, 2]
    assert record.resume(claimed(answered, "b"), 1) is None


def test_a_key_keeps_its_question_and_its_answer() -> None:
    """TASKX-7, TASKX-9: an attempt that asks again is due at once; an old question is closed."""
    answered = present(record.answer(suspended("a"), {"a": b"1"}, 120))
    again = suspended("a", task=claimed(answered))
    assert (again.status, again.due) == ("working", 110)
    task = replace(suspended("b", task=claimed(answered)), answers={})
    assert record.answer(task, {"a": b"late"}, 130) is None
    assert list(task.input_requests) == ["a", "b"]
    task = claimed(answered)
    other = present(record.suspend(task, task.attempt, {"a": b"something else"}, 120))
    assert other.input_requests["a"] == b"?a"


def test_crashes_are_counted_until_an_attempt_makes_progress() -> None:
    task = NEW
    for _ in range(5):
        task = claimed(replace(task, worker=None))
    assert task.crashes == 5
    for better in (record.advance(task, 5), record.suspend(task, 5, {"q": b"?"}, 110)):
        assert present(better).crashes == 0
    back = present(record.release(task, 5))
    assert (back.crashes, back.worker, back.due) == (4, None, 100)


def test_a_task_that_ends_processes_waits_longer_each_time() -> None:
    """Once it is run again at once: processes are also ended by others."""
    task = claimed(claimed(NEW))
    assert task.attempt == 2
    for pause in (2.0, 4.0, 8.0, 16.0, 32.0, record.MAX_PAUSE_S, record.MAX_PAUSE_S):
        paused = present(record.claim(task, "b", 100, 30))
        assert (paused.worker, paused.due, paused.attempt) == (None, 100 + pause, task.attempt)
        task = claimed(paused)
        assert task.attempt == paused.attempt + 1


TASKS = st.builds(
    Task,
    id=st.text(),
    owner=st.text(),
    call=st.binary(),
    ttl=st.none() | st.floats(0, 1e6),
    created=st.floats(0, 1e10),
    updated=st.floats(0, 1e10),
    status=st.sampled_from(["working", "input_required", "completed", "failed", "cancelled"]),
    message=st.none() | st.text(),
    input_requests=st.dictionaries(st.text(), st.binary()),
    open=st.lists(st.text()).map(tuple),
    answers=st.dictionaries(st.text(), st.binary()),
    outcome=st.none() | st.binary(),
    attempt=st.integers(0, 2**40),
    worker=st.none() | st.text(),
    lease_expires=st.floats(0, 1e10),
    crashes=st.integers(0, 100),
    caller=st.text(),
    tool=st.text(),
)


@given(TASKS)
def test_a_task_survives_as_bytes(task: Task) -> None:
    loaded = record.load(record.dump(task))
    assert loaded == task
    assert (list(loaded.input_requests), list(loaded.answers)) == (
        list(task.input_requests),
        list(task.answers),
    )
