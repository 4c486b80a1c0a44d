"""Who takes part in a benchmark, who does not and why."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from benchmarks.client import ServerFailed
from benchmarks.contenders import Contender
from benchmarks.measure import Dropout

NOT_INSTALLED = "not installed"


def labels_of(contenders: Mapping[str, Contender]) -> dict[str, str]:
    """How tables call each."""
    return {name: contender.label for name, contender in contenders.items()}


def missing(contenders: Mapping[str, Contender]) -> dict[str, str]:
    """Those that are not installed, with that as the reason."""
    return {name: NOT_INSTALLED for name, c in contenders.items() if not c.installed}


def present(names: Mapping[str, object], absent: Mapping[str, str]) -> list[str]:
    """Those that are not absent."""
    return [name for name in names if name not in absent]


@contextmanager
def failures_drop_out() -> Generator[None, None, None]:
    """A contender whose server fails in the block leaves the benchmark, with the reason."""
    try:
        yield
    except (ServerFailed, OSError, ValueError, LookupError) as error:
        raise Dropout(f"failed: {type(error).__name__}: {error!s:.120}") from error
