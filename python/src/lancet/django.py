"""Middleware for Django that traces requests: some of them at random, or one that asks for it by a signed header.

    MIDDLEWARE = ["lancet.django.Middleware", ...]
    LANCET = {"sample": 0.01, "threshold": 0.5}

README.md has the settings. What stands below it in MIDDLEWARE, and the view, is in the trace; parts of a streamed body that are made later are not.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Awaitable
from typing import Any, Callable

from ._signature import signature
from ._trace import Trace
from ._tracer import Tracer
from .asgi import begin, figures_of_now, traced

__all__ = ["Middleware", "signature"]

HEADER = "HTTP_X_LANCET_TRACE"
ANSWER = "x-lancet-trace"
SHARED = "what its synchronous code has done is not counted: it runs on a thread with that of other requests (Django before 4.0)"

# Django has no hints.
_conf: Any = importlib.import_module("django.conf")
_exceptions: Any = importlib.import_module("django.core.exceptions")
_sync: Any = importlib.import_module("asgiref.sync")


class Middleware:
    """Traces requests as the setting LANCET says, a dict of the tracer's options."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        self._tracer = _tracer(getattr(_conf.settings, "LANCET", {}))
        self._is_async = bool(_sync.iscoroutinefunction(get_response))
        if self._is_async:
            _sync.markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any | Awaitable[Any]:
        return self._answered_later(request) if self._is_async else self._answered(request)

    def _answered(self, request: Any) -> Any:
        chosen = self._tracer.border(self._chosen, request)
        trace = None if chosen is None else self._tracer.border(self._tracer.begun, chosen[0], chosen[1])
        if chosen is None or trace is None:
            return self._get_response(request)
        asked = chosen[2]
        try:
            response = self._get_response(request)
        except BaseException:
            self._tracer.ended(trace, asked)
            raise
        is_told = self._tracer.is_to_be_told(trace, asked)
        if asked:
            self._tracer.border(_add, response, self._tracer.figures(trace))
        if is_told:
            self._tracer.tell(trace)
        return response

    async def _answered_later(self, request: Any) -> Any:
        chosen = self._tracer.border(self._chosen, request)
        begun = None if chosen is None else await begin(self._tracer, chosen[0], chosen[1])
        if chosen is None or begun is None:
            return await self._get_response(request)
        trace, asked = begun, chosen[2]

        async def answered() -> Any:
            end = await self._on_its_thread(trace, trace.beside)
            response = await self._get_response(request)
            if end is not None:
                await self._on_its_thread(trace, end)
            if asked:
                self._tracer.border(_add, response, await figures_of_now(self._tracer, trace))
            return response

        return await traced(answered(), (self._tracer, trace), asked)

    async def _on_its_thread(self, trace: Trace, work: Callable[[], Any]) -> Any:
        """Does it on the thread that runs the synchronous code of this request, and that of no other one; None where there is no such thread."""
        if not _has_thread():
            trace.lose(SHARED)
            return None
        try:
            return await _sync.sync_to_async(self._tracer.border, thread_sensitive=True)(work)
        except RuntimeError as error:
            # The thread is ended, or none can be made.
            trace.lose(f"what its synchronous code has done is not counted: {error}")
            return None

    def _chosen(self, request: Any) -> tuple[str, str, bool] | None:
        """Method and path of a request that is traced, and whether it has asked for that; None if it is not traced."""
        method, path = request.method, request.path
        value = request.META.get(HEADER)
        asked = value is not None and self._tracer.asks(value, (method, path, request.META.get("QUERY_STRING", "")))
        if not asked and not self._tracer.is_chosen():
            return None
        return method, path, asked


def _tracer(options: Any) -> Tracer:
    try:
        return Tracer(**options)
    except (TypeError, ValueError) as error:
        raise _exceptions.ImproperlyConfigured(f"the setting LANCET: {error}") from error


def _add(response: Any, figures: str | None) -> None:
    if figures is not None:
        response[ANSWER] = figures


def _has_thread() -> bool:
    """Whether the request that is served has a thread of its own for synchronous code."""
    with contextlib.suppress(AttributeError):
        return _sync.SyncToAsync.thread_sensitive_context.get(None) is not None
    return False
