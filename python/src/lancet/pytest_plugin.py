"""For pytest: a test that may make only so many calls.

@pytest.mark.limit_calls("mysql_real_query", 3)
@pytest.mark.limit_syscalls("fsync", 1)
"""

import contextlib
import warnings

import pytest

from . import calls, syscalls

MARKS = {"limit_calls": calls, "limit_syscalls": syscalls}


def pytest_configure(config):
    """Makes the marks known."""
    for name in MARKS:
        config.addinivalue_line("markers", f"{name}(name, most): the test calls `name` at most `most` times")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Watches the test itself, not its fixtures."""
    limits = [(watch, _limit(mark)) for name, watch in MARKS.items() for mark in item.iter_markers(name)]
    with contextlib.ExitStack() as stack:
        watches = [(stack.enter_context(watch(name)), name, most) for watch, (name, most) in limits]
        outcome = yield
    if outcome.excinfo is not None:
        return
    for seen, name, most in watches:
        # Raised, because pluggy before 1.1 knows no other way.
        if len(seen) > most:
            pytest.fail(_too_many(seen, name, most), pytrace=False)
        if seen.lost:
            # Calls may be missing, so nobody knows.
            lost = "\n".join(seen.lost)
            pytest.fail(f"whether {name} was called at most {most} times is not known:\n{lost}", pytrace=False)
        if seen.nowhere:
            warnings.warn(f"lancet: there is no function {name} in this process: is that its name?", stacklevel=1)


def _limit(mark):
    """The name and the most of a mark."""
    try:
        return _name_and_most(*mark.args, **mark.kwargs)
    except TypeError:
        raise pytest.UsageError(f'{mark.name} takes a name and a number: @pytest.mark.{mark.name}("fsync", most=3)') from None


def _name_and_most(name, most):
    return name, most


def _too_many(seen, name, most):
    lines = [f"{name} was called {len(seen)} times, at most {most} allowed:"]
    for call in seen:
        place = call["place"]
        at = f" at {place['path']}:{place['line']}" if place and place["path"] else ""
        lines.append(f"  {name}({', '.join(call['arguments'])}){at}")
    return "\n".join(lines)
