"""For pytest: a test that may make only so many calls.

@pytest.mark.limit_calls("mysql_real_query", 3)
@pytest.mark.limit_syscalls("fsync", 1)
"""

import contextlib

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
    limits = [(watch, mark.args) for name, watch in MARKS.items() for mark in item.iter_markers(name)]
    with contextlib.ExitStack() as stack:
        watches = [(stack.enter_context(watch(name)), name, most) for watch, (name, most) in limits]
        outcome = yield
    if outcome.excinfo is not None:
        return
    for seen, name, most in watches:
        if len(seen) > most:
            # Raised, because pluggy before 1.1 knows no other way.
            pytest.fail(_too_many(seen, name, most), pytrace=False)


def _too_many(seen, name, most):
    lines = [f"{name} was called {len(seen)} times, at most {most} allowed:"]
    for call in seen:
        line = call["line"]
        place = f" at {line['path']}:{line['line']}" if line else ""
        lines.append(f"  {name}({', '.join(call['arguments'])}){place}")
    return "\n".join(lines)
