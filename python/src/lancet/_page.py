"""The page of the last requests: where the time of each went, its SQL, its waits, and what its route usually takes. It is the page of `lancet profile` and
`lancet heap` with another script, and the companion has it."""

from __future__ import annotations

import collections
import html
import json
import os
import re
import sys
import threading
from typing import Any, Callable, NamedTuple, cast

from . import _companion, _counters
from ._error import Error
from ._trace import Trace
from ._tracer import Options, Tracer

KEPT = 50
# A request is compared with so many of its route, and so many routes are known.
BEFORE = 100
ROUTES = 500
# What a path has in the place of a number or a name of its own.
PARTS = re.compile(r"(?<=/)(?:\d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,})(?=/|\Z)")
DATA = "/*DATA*/"
# The page is made of what stands in it alone, whatever the application's own policy says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = [("content-type", "text/html; charset=utf-8"), ("cache-control", "no-store"), ("content-security-policy", POLICY)]

# Seconds of wall clock and of processor time.
Figures = tuple[float, float]


class _Entry(NamedTuple):
    """A request that was traced, and the figures of its route before it."""

    number: str
    trace: Trace
    route: str
    before: list[Figures]


class Recent:
    """The last requests that were traced, and what each route took before them. What calls were about is asked only when somebody looks, because few are
    looked at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: collections.deque[_Entry] = collections.deque(maxlen=KEPT)
        self._routes: dict[str, collections.deque[Figures]] = {}
        self._last = 0

    def add(self, trace: Trace) -> None:
        """Adds a trace that has ended."""
        request = trace.request or {}
        route = trace.route or f"{request.get('method', '')} {PARTS.sub(':id', request.get('path', ''))}"
        with self._lock:
            if route not in self._routes and len(self._routes) >= ROUTES:
                del self._routes[next(iter(self._routes))]
            seen = self._routes.setdefault(route, collections.deque(maxlen=BEFORE))
            self._last += 1
            self._entries.appendleft(_Entry(f"{os.getpid()}-{self._last}", trace, route, list(seen)))
            seen.append((trace.seconds, trace.cpu))

    def data(self, refused: str | None, folder: str) -> dict[str, Any]:
        """The data of the page, as docs/inside.md has it."""
        with self._lock:
            entries, routes = list(self._entries), {route: list(seen) for route, seen in self._routes.items()}
        return {
            "who": f"{os.path.basename(sys.argv[0] or 'python')} (process {os.getpid()})",
            "sums": f"The last {len(entries)} that were traced",
            "refused": refused,
            "app": folder.rstrip("/") + "/",
            "routes": [{"route": route, **_usual(seen)} for route, seen in routes.items()],
            "requests": [_told(entry) for entry in entries],
        }


def _told(entry: _Entry) -> dict[str, Any]:
    trace, request = entry.trace, entry.trace.request or {}
    details = trace.details
    sums = trace.calls
    return {
        "id": entry.number,
        "job": False,
        "title": f"{request.get('method', '')} {request.get('path', '')}",
        "route": entry.route,
        "started": trace.start,
        "wall": trace.seconds,
        "cpu": trace.cpu,
        "gc": {"calls": trace.collections, "time": trace.collecting},
        "sums": None if sums is None else [{"group": group, "calls": one.calls, "time_ns": round(one.time * 1e9), "bytes": one.bytes} for group, one in sums.items()],
        "details": details,
        "before": _usual(entry.before),
        "lost": trace.lost,
        "objects": None,
    }


def _usual(seen: list[Figures]) -> dict[str, Any]:
    """The median and the 95th of a hundred, of each figure."""
    wall, cpu = sorted(one[0] for one in seen), sorted(one[1] for one in seen)
    return {"count": len(seen), "wall": _ranks(wall), "cpu": _ranks(cpu), "created": None}


def _ranks(values: list[float]) -> list[float]:
    return [values[round(part * (len(values) - 1))] for part in (0.5, 0.95)] if values else [0, 0]


class Page:
    """What the pages of WSGI and ASGI have in common: the tracer, and the page itself."""

    def __init__(self, path: str, signed: bool, root: str | os.PathLike[str] | None, options: Options) -> None:
        if signed and options.get("secret") is None:
            raise ValueError("a page that is signed needs the secret")
        self.path, self.signed = path, signed
        self._root = os.fspath(root) if root is not None else os.getcwd()
        self._recent = Recent()
        self._template: str | None = None
        # Whoever can reach an unsigned page is a developer, who wants to see each request.
        defaults: Options = {"sample": 0 if signed else 1, "log": None}
        told = options.get("told")
        self.options = cast(Options, {**defaults, **options, "told": self._adds(told)})
        if self.options.get("calls", True) is True:
            self.options["calls"] = _counters.SHOWN

    def _adds(self, told: Callable[[Trace], object] | None) -> Callable[[Trace], object]:
        def add(trace: Trace) -> None:
            self._recent.add(trace)
            if told is not None:
                told(trace)

        return add

    def is_at(self, method: str, path: str) -> bool:
        """Whether a request is for the page."""
        return method == "GET" and path == self.path

    def html(self, tracer: Tracer) -> bytes:
        """The page; asks the companion."""
        try:
            if self._template is None:
                _, _, (page,) = _companion.begin(do="page")
                self._template = str(page)
            data = json.dumps(self._recent.data(tracer.refused, self._root))
            before, _, behind = self._template.partition(DATA)
            # A text with `</script>` must not end the element that holds the data.
            text = before + data.replace("<", "\\u003c") + behind
        except Error as error:
            text = f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>lancet</title><p>{html.escape(str(error))}</html>"
        return text.encode("utf-8", "replace")
