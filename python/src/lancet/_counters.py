"""Calls that one thread makes in stretches of its time, by group: `malloc`, `free`, `read`, `write`, `connect`, `mysql`, `postgres`, `sqlite`, `memcached`,
`redis`. Their functions are hooked once for this process and stay hooked as long as the companion is there.

A thread sets a mark where a stretch begins and where it ends, and asks only then what lies between, if anybody wants to know.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Collection
from typing import Any, Literal, NamedTuple, cast

from . import _companion
from ._error import Lost

# All but memory, which takes a call for most objects.
USUAL = ("read", "write", "connect", "mysql", "postgres", "sqlite", "memcached", "redis")
# What only waits: for input, for a lock, for the clock, for a child process, for a disk, for the address of a host. More groups than one when they are told.
WAITS = ("waits", "poll", "sleep", "lock", "child", "disk", "lookup")
ALL = (*USUAL, "memory", *WAITS)
# Those of a page.
SHOWN = (*USUAL, "waits")
# A mark is a call of `getenv`, which is hooked too: nobody else asks for such a name.
MARK = b"LANCET_TRACE_%d"


class Sum(NamedTuple):
    """What was called of one group: how often, for how many seconds, and the bytes that were moved or got."""

    calls: int
    time: float
    bytes: int

    def plus(self, other: Sum) -> Sum:
        """The sum of both."""
        return Sum(self.calls + other.calls, self.time + other.time, self.bytes + other.bytes)


_lock = threading.RLock()
_all: dict[tuple[str, ...], Counters] = {}
# The last choice of groups, and what was found for it: most programs have one, and ask for it with each request.
_last: tuple[object, Counters] | None = None
# Marks are numbered for the process: each `lancet calls` sees the marks of all threads, also those that are meant for another one.
_numbers = itertools.count(1)


def _after_fork() -> None:
    global _lock, _last
    _lock = threading.RLock()
    _all.clear()
    _last = None


os.register_at_fork(after_in_child=_after_fork)


class Between(NamedTuple):
    """What a thread has called in some stretches of its time."""

    #: By group.
    sums: dict[str, Sum]
    #: Sentences about what may be missing in them.
    lost: list[str]
    #: What the calls were about, and when they were made, as docs/inside.md has it; None where it was not asked for.
    details: dict[str, Any] | None

    def plus(self, other: Between) -> Between:
        """The same of two threads."""
        none = Sum(0, 0.0, 0)
        sums = {group: self.sums.get(group, none).plus(other.sums.get(group, none)) for group in {**self.sums, **other.sums}}
        return Between(sums, self.lost + other.lost, _together(self.details, other.details))


def _together(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """The rows of both; the timeline is that of the first, because the other one begins at another time."""
    if one is None or other is None:
        return one
    return {**one, "rows": one["rows"] + other["rows"], "within_ns": one["within_ns"] + other["within_ns"], "left_out": one["left_out"] + other["left_out"]}


def check(groups: object) -> None:
    """Raises ValueError for what says no groups: True, False, None, or a collection of names."""
    if groups is None or isinstance(groups, bool):
        return
    if not isinstance(groups, Collection) or isinstance(groups, (str, bytes)):
        raise ValueError("calls is True, False, or a list of groups: " + ", ".join(ALL))
    for one in cast("Collection[object]", groups):
        if one not in ALL:
            raise ValueError(f"there is no group of calls {one!r}: there are {', '.join(ALL)}")


def of(groups: Literal[True] | Collection[str]) -> Counters:
    """Returns the counters of this process for these groups, and hooks their functions if that was not done yet; True = the usual groups."""
    global _last
    last = _known(groups)
    if last is not None:
        return last
    names = _names(groups)
    with _lock:
        found = _all.get(names)
        if found is None or not found.is_there():
            found = _all[names] = Counters(names)
        # What may be changed meanwhile may be another choice the next time.
        _last = (groups, found) if groups is True or isinstance(groups, (tuple, frozenset)) else None
        return found


def are_there(groups: Literal[True] | Collection[str]) -> bool:
    """Whether the functions of these groups are hooked, as far as is known, so that `of` has nothing to wait for."""
    found = _known(groups) or _all.get(_names(groups))
    return found is not None and found.is_there()


def _known(groups: Literal[True] | Collection[str]) -> Counters | None:
    """What was found last, if it was for the same choice and is still there."""
    last = _last
    return last[1] if last is not None and last[0] is groups and last[1].is_there() else None


def _names(groups: Literal[True] | Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(USUAL if groups is True else groups))


class Counters:
    """The functions of some groups, hooked in this process from when the object is made until its companion ends. `of` keeps one for
    each choice of groups, which all threads use."""

    def __init__(self, groups: Collection[str]) -> None:
        # ctypes is loaded only where it is needed. PyDLL calls with the interpreter's lock held, because a mark takes less than giving it up.
        import ctypes

        self._getenv = ctypes.PyDLL(None).getenv
        self._getenv.restype = ctypes.c_void_p
        self._companion, answer, _ = _companion.begin(do="counters", groups=list(groups))
        self._watch = answer["watch"]
        self._gone = False

    def is_there(self) -> bool:
        """Whether calls are still counted, as far as is known: one question that fails (too many calls were made since) is no reason to have all functions
        hooked once more."""
        return not self._gone and not self._companion.is_over()

    def mark(self) -> int:
        """Sets a mark in the calls of this thread, and returns its number, which no other mark of this process has."""
        number = next(_numbers)
        self._getenv(MARK % number)
        return number

    def between(self, stretches: list[tuple[int, int]], details: bool = False) -> Between:
        """What lies in these stretches, pairs of marks."""
        try:
            ended, records = self._companion.ask(do="between", watch=self._watch, stretches=stretches, details=details)
        except Lost:
            # Whoever traces next has the functions hooked anew.
            self._gone = True
            raise
        told = next((record["details"] for record in records if "details" in record), None)
        rows = [record for record in records if "details" not in record]
        sums = {record["group"]: Sum(record["calls"], record["time_ns"] / 1e9, record["bytes"]) for record in rows}
        return Between(sums, ended.get("lost", []), told)
