"""What a thread runs in turns beside the block of a trace: greenlets, which tell of each switch, and tasks of asyncio, which do not.

The module `greenlet` is asked only where the program has loaded it, and only while a trace is open on that thread."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from ._trace import Trace

_here = threading.local()


class Greenlets:
    """The traces of one thread by the greenlet that has begun them. A trace is paused when its greenlet goes, and goes on when it comes again."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._traces: dict[Any, list[Trace]] = {}
        self._paused: set[Trace] = set()
        self._before: Callable[[str, Any], object] | None = None

    def begin(self, trace: Trace) -> None:
        if not self._traces:
            self._before = self._module.settrace(self._switched)
        self._traces.setdefault(self._module.getcurrent(), []).append(trace)

    def end(self, trace: Trace) -> None:
        for of, traces in list(self._traces.items()):
            if trace in traces:
                traces.remove(trace)
                if not traces:
                    del self._traces[of]
        self._paused.discard(trace)
        # Somebody else may have come to hear of switches since, and hands them on.
        if not self._traces and self._module.gettrace() == self._switched:
            self._module.settrace(self._before)
            self._before = None

    def _switched(self, event: str, greenlets: Any) -> None:
        if self._before is not None:
            self._before(event, greenlets)
        if event not in ("switch", "throw"):
            return
        origin, target = greenlets
        for trace in self._traces.get(origin, ()):
            if trace.is_on():
                trace.pause()
                self._paused.add(trace)
                if _is_below(target, origin):
                    # It may work for the block, or be the hub of all others.
                    trace.lose("what greenlets did whose parent is that of the block is not counted")
        for trace in self._traces.get(target, ()):
            if trace in self._paused:
                self._paused.discard(trace)
                trace.resume()


class Tasks:
    """Whether the event loop went on to others while a block ran in one of its tasks."""

    def __init__(self, asyncio: ModuleType, loop: Any) -> None:
        self._asyncio, self._loop = asyncio, loop
        self._others = self._count()
        self._turned = False
        self._handle = loop.call_soon(self._turn)

    def _count(self) -> int:
        return len(self._asyncio.all_tasks(self._loop) - {self._asyncio.current_task(self._loop)})

    def _turn(self) -> None:
        self._turned = True

    def end(self) -> str | None:
        """A sentence about what may be in the trace and is not the block's; None if nothing is."""
        self._handle.cancel()
        others = max(self._others, self._count())
        if not self._turned or not others:
            return None
        return f"its task has waited for the event loop, and what other tasks ({others}) have done meanwhile is in it"


def _is_below(one: Any, other: Any) -> bool:
    """Whether a greenlet has another as its parent, or as a parent of that."""
    while one is not None:
        one = one.parent
        if one is other:
            return True
    return False


def greenlets() -> Greenlets | None:
    """The traces of this thread's greenlets; None where the program has none."""
    module = sys.modules.get("greenlet")
    if module is None or not hasattr(module, "settrace"):
        return None
    known: Greenlets | None = getattr(_here, "greenlets", None)
    if known is None:
        known = _here.greenlets = Greenlets(module)
    return known


def tasks() -> Tasks | None:
    """The tasks beside the one that asks; None where no task of asyncio's asks."""
    asyncio = sys.modules.get("asyncio")
    # A module that is being loaded has not everything yet.
    running = getattr(asyncio, "_get_running_loop", None)
    loop = running and running()
    if asyncio is None or loop is None or asyncio.current_task(loop) is None:
        return None
    return Tasks(asyncio, loop)
