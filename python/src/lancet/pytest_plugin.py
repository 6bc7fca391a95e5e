"""For pytest: a test that may make only so many calls.

@pytest.mark.limit_calls("mysql_real_query", 3)
@pytest.mark.limit_syscalls("fsync", 1)
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator
from typing import Any, Callable

import pytest

from . import calls, syscalls
from ._watch import Watch

MARKS: dict[str, Callable[[str], Watch]] = {"limit_calls": calls, "limit_syscalls": syscalls}


class _Limits:
    """What a test may call, and what it has called."""

    def __init__(self, item: pytest.Item) -> None:
        self._limits = [(watch, *_limit(mark)) for name, watch in MARKS.items() for mark in item.iter_markers(name)]
        self._seen: list[tuple[Watch, str, int]] = []

    @contextlib.contextmanager
    def watched(self) -> Generator[None, None, None]:
        """Watches the block."""
        with contextlib.ExitStack() as stack:
            self._seen = [(stack.enter_context(watch(name)), name, most) for watch, name, most in self._limits]
            yield

    def hold(self) -> None:
        """Fails if they were exceeded, or if nobody knows."""
        for seen, name, most in self._seen:
            if len(seen) > most:
                pytest.fail(_too_many(seen, name, most), pytrace=False)
            if seen.lost:
                # Calls may be missing, so nobody knows.
                lost = "\n".join(seen.lost)
                pytest.fail(f"whether {name} was called at most {most} times is not known:\n{lost}", pytrace=False)
            if seen.nowhere:
                warnings.warn(f"lancet: there is no function {name} in this process: is that its name?", stacklevel=1)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marks known."""
    for name in MARKS:
        config.addinivalue_line("markers", f"{name}(name, most): the test calls `name` at most `most` times")


def _call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watches the test itself, not its fixtures. What it raises comes out of the `yield`."""
    limits = _Limits(item)
    with limits.watched():
        result = yield
    limits.hold()
    return result


def _call_of_old(item: pytest.Item) -> Generator[None, Any, None]:
    """The same for pluggy before 1.2, which hands over what the test has raised."""
    limits = _Limits(item)
    with limits.watched():
        outcome = yield
    if outcome.excinfo is None:
        # Raised, because pluggy before 1.1 knows no other way.
        limits.hold()


try:
    pytest_runtest_call = pytest.hookimpl(wrapper=True)(_call)
except TypeError:
    pytest_runtest_call = pytest.hookimpl(hookwrapper=True)(_call_of_old)


def _limit(mark: pytest.Mark) -> tuple[str, int]:
    """The name and the most of a mark."""
    try:
        return _name_and_most(*mark.args, **mark.kwargs)
    except TypeError:
        raise pytest.UsageError(f'{mark.name} takes a name and a number: @pytest.mark.{mark.name}("fsync", most=3)') from None


def _name_and_most(name: str, most: int) -> tuple[str, int]:
    return name, most


def _too_many(seen: Watch, name: str, most: int) -> str:
    lines = [f"{name} was called {len(seen)} times, at most {most} allowed:"]
    for call in seen:
        place = call["place"]
        at = f" at {place['path']}:{place['line']}" if place and place["path"] else ""
        lines.append(f"  {name}({', '.join(call['arguments'])}){at}")
    return "\n".join(lines)
