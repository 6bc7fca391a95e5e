"""What the lines of this program do, asked of a lancet that has it open from outside.

    with lancet.calls("mysql_real_query") as seen:
        page()
    assert len(seen) <= 3

See README.md.
"""

from . import _watch
from ._error import Error, Lost
from ._trace import Trace
from ._watch import Watch

__all__ = ["Error", "Lost", "Trace", "Watch", "calls", "mem", "stack", "syscalls", "trace"]
__version__ = "0.1.0"


def calls(*functions, **options):
    """The calls of these C functions: a context manager. Options are those of `lancet calls`: `preset="sql"`."""
    names = [word for function in functions for word in ("-x", function)]
    return Watch("calls", names + _watch.words(options))


def syscalls(*names, **options):
    """The system calls of these names, or all: a context manager. Options are those of `lancet syscalls`."""
    chosen = ["-e", "trace=" + ",".join(names)] if names else []
    return Watch("syscalls", chosen + _watch.words(options))


def trace(calls=True):
    """What this thread does in a block: a context manager. With `calls` (True, or a list of groups) queries, reads, writes and connects with their time."""
    return Trace(calls)


def mem(*_, **__):
    """Which line holds the memory. `lancet mem` does that for Ruby alone, so this says what does it for Python."""
    raise Error("lancet mem does not know the objects of a Python: tracemalloc tells the line of each")


def stack(**options):
    """What each thread does now, and where: a list of dicts. Options are those of `lancet stack`."""
    return _watch.run("stack", _watch.words(options))
