"""Middleware for ASGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.asgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. Requests of one thread run in turns, a step of one after a step of another, so a trace counts the steps
of its own request: what the application's coroutine does itself and awaits. What it has tasks or threads of their own do is not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, MutableMapping
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from ._signature import signature
from ._trace import Trace
from ._tracer import Options, Tracer

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Middleware", "signature"]

HEADER = b"x-lancet-trace"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
T = TypeVar("T")


class Middleware:
    """An ASGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app: Application, **options: Unpack[Options]) -> None:
        self._app = app
        self._tracer = Tracer(**options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        chosen = self._tracer.border(self._chosen, scope)
        begun = None if chosen is None else await begin(self._tracer, chosen[0], chosen[1])
        if chosen is None or begun is None:
            return await self._app(scope, receive, send)
        trace, asked = begun, chosen[2]

        async def sends(message: MutableMapping[str, Any]) -> None:
            if asked and message["type"] == "http.response.start":
                figures = await figures_of_now(self._tracer, trace)
                if figures is not None:
                    message = self._tracer.border(_with_figures, message, figures) or message
            await send(message)

        return await traced(self._app(scope, receive, sends), (self._tracer, trace), asked)

    def _chosen(self, scope: Scope) -> tuple[str, str, bool] | None:
        """Method and path of a request that is traced, and whether it has asked for that; None if it is not traced."""
        method, path = scope["method"], scope["path"]
        value = next((value for name, value in scope.get("headers", ()) if name == HEADER), None)
        asked = value is not None and self._tracer.asks(value.decode("latin-1"), (method, path, _query(scope)))
        if not asked and not self._tracer.is_chosen():
            return None
        return method, path.encode("utf-8", "replace").decode("utf-8"), asked


def _query(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    return query.decode("utf-8", "surrogateescape")


async def begin(tracer: Tracer, method: str, path: str) -> Trace | None:
    """A trace of a request that has begun and is paused, or None if it cannot be."""
    is_prepared = tracer.is_prepared() or await _aside(tracer.prepare)
    trace = tracer.border(tracer.begun, method, path) if is_prepared else None
    if trace is not None:
        tracer.border(trace.pause)
    return trace


async def figures_of_now(tracer: Tracer, trace: Trace) -> str | None:
    """What is told in a header of a trace that goes on; None if it cannot be."""
    now = tracer.border(trace.as_of_now)
    return None if now is None else await _aside(tracer.figures, now)


async def traced(coroutine: Awaitable[T], begun: tuple[Tracer, Trace], asked: bool) -> T:
    """Does what a coroutine does, its steps of this trace, and ends and tells that."""
    tracer, trace = begun
    try:
        answer = await _Steps(coroutine, begun)
    except BaseException:
        # Nothing is waited for that may not be: the coroutine may be closed.
        tracer.ended(trace, asked)
        raise
    if tracer.is_to_be_told(trace, asked):
        await _aside(tracer.tell, trace)
    return answer


def _with_figures(message: MutableMapping[str, Any], figures: str) -> MutableMapping[str, Any]:
    return {**message, "headers": [*message.get("headers", []), (HEADER, figures.encode("ascii", "replace"))]}


async def _aside(work: Callable[..., T], *arguments: Any) -> T:
    """Has a thread of the event loop's do what may wait for the companion, so that other requests go on; where the loop is none of asyncio's, does it here."""
    try:
        done = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    except RuntimeError:
        # There is no such loop, or its threads are ended, or no thread can be made.
        return work(*arguments)
    return await done


class _Steps(Awaitable[T]):
    """A coroutine whose steps are of a trace."""

    def __init__(self, coroutine: Awaitable[T], begun: tuple[Tracer, Trace]) -> None:
        self._coroutine = coroutine
        self._tracer, self._trace = begun

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._coroutine.__await__()
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            self._tracer.border(self._trace.resume)
            try:
                awaited = step(value)
            except StopIteration as done:
                answer: T = done.value
                return answer
            finally:
                self._tracer.border(self._trace.pause)
            try:
                step, value = steps.send, (yield awaited)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001
                step, value = steps.throw, error
