"""What the lines of this program do, asked of a lancet that has it open from outside.

    with lancet.calls("mysql_real_query") as seen:
        page()
    assert len(seen) <= 3

See README.md.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection
from typing import Any

from . import _watch
from ._error import Error, Lost
from ._trace import Trace
from ._watch import Watch

__all__ = ["Error", "Lost", "Trace", "Watch", "calls", "heap", "mem", "stack", "syscalls", "trace"]
__version__ = "0.1.0"


def calls(*functions: str, **options: Any) -> Watch:
    """The calls of these C functions: a context manager. Options are those of `lancet calls`: `preset="sql"`."""
    names = [word for function in functions for word in ("-x", function)]
    return Watch("calls", names + _watch.words(options))


def syscalls(*names: str, **options: Any) -> Watch:
    """The system calls of these names, or all: a context manager. Options are those of `lancet syscalls`."""
    chosen = ["-e", "trace=" + ",".join(names)] if names else []
    return Watch("syscalls", chosen + _watch.words(options))


def trace(calls: bool | Collection[str] = True) -> Trace:
    """What this thread does in a block: a context manager. With `calls` (True, or a list of groups) queries, reads, writes and connects with their time."""
    return Trace(calls)


def heap(file: str | os.PathLike[str], contents: bool = False) -> str:
    """Saves the whole heap, who refers to whom and by what name, in a file that `lancet heap FILE` reads and only its owner may. What each object holds is in
    it only with `contents`. Returns the file's name; what could not be saved is a warning."""
    path = os.path.abspath(file)
    ended = _watch.ended("heap", ["--save", path, *(["--contents"] if contents else [])])
    if ended["exit"] == 4:
        for line in ended["said"]:
            warnings.warn(f"lancet: {line}", stacklevel=2)
    elif ended["exit"] != 0:
        raise Error("; ".join(ended["said"]))
    return path


def mem(**options: Any) -> Watch:
    """What is made while the block runs, and what of it still lives at its end, by line and type, of all threads: a context manager. Options are those of
    `lancet mem`: `by="file"`, `no_gc=True`."""
    return Watch("mem", _watch.words(options), only="row")


def stack(**options: Any) -> list[dict[str, Any]]:
    """What each thread does now, and where: a list of dicts. Options are those of `lancet stack`."""
    return _watch.run("stack", _watch.words(options))
