"""For pytest: a test that may make only so many calls.

    @pytest.mark.limit_calls("mysql_real_query", 3)
    def test_page(): …

    @pytest.mark.limit_syscalls("fsync", 1)
    def test_save(): …
"""

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
    begun = []
    for watch, (name, most) in limits:
        begun.append((watch(name).__enter__(), name, most))
    outcome = yield
    for seen, name, most in reversed(begun):
        seen.__exit__(None, None, None)
        if len(seen) > most and outcome.excinfo is None:
            outcome.force_exception(AssertionError(_too_many(seen, name, most)))


def _too_many(seen, name, most):
    lines = [f"{name} was called {len(seen)} times, at most {most} allowed:"]
    for call in seen:
        line = call["line"]
        place = f" at {line['path']}:{line['line']}" if line else ""
        lines.append(f"  {name}({', '.join(call['arguments'])}){place}")
    return "\n".join(lines)
