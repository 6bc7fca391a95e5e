"""Middleware for ASGI that traces requests: some of them at random, or one that asks for it by a signed header.

    app = lancet.asgi.Middleware(app, sample=0.01, threshold=0.5)

README.md has the options. Requests of one thread run in turns, a step of one after a step of another, so a trace counts the steps
of its own request: what the application's coroutine does itself and awaits. What it has tasks or threads of their own do is not in it.
"""

import asyncio

from ._tracer import Tracer, signature

__all__ = ["Middleware", "signature"]

HEADER = b"x-lancet-trace"


class Middleware:
    """An ASGI application that hands every request to `app` and traces those that were chosen or ask for it; `options` are those of
    the tracer."""

    def __init__(self, app, **options):
        self._app = app
        self._tracer = Tracer(**options)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        method, path, asked = self._tracer.border(self._chosen, scope) or (None, None, None)
        if asked is None:
            return await self._app(scope, receive, send)
        is_prepared = self._tracer.is_prepared() or await _aside(self._tracer.prepare)
        trace = self._tracer.border(self._tracer.begun, method, path) if is_prepared else None
        if trace is None:
            return await self._app(scope, receive, send)
        self._tracer.border(trace.pause)

        async def sends(message):
            if asked and message["type"] == "http.response.start":
                now = self._tracer.border(trace.as_of_now)
                figures = None if now is None else await _aside(self._tracer.figures, now)
                if figures is not None:
                    message = self._tracer.border(_with_figures, message, figures) or message
            await send(message)

        try:
            answer = await _Steps(self._app(scope, receive, sends), (self._tracer, trace))
        except BaseException:
            # Nothing is waited for that may not be: the coroutine may be closed.
            self._tracer.ended(trace, asked)
            raise
        if self._tracer.is_to_be_told(trace, asked):
            await _aside(self._tracer.tell, trace)
        return answer

    def _chosen(self, scope):
        """Method and path of a request that is traced, and whether it has asked for that; None if it is not traced."""
        method, path = scope["method"], scope["path"]
        value = next((value for name, value in scope.get("headers", ()) if name == HEADER), None)
        asked = self._tracer.asks(None if value is None else value.decode("latin-1"), method, path)
        if not asked and not self._tracer.is_chosen():
            return None
        return method, path.encode("utf-8", "replace").decode("utf-8"), asked


def _with_figures(message, figures):
    return {**message, "headers": [*message.get("headers", []), (HEADER, figures.encode("ascii", "replace"))]}


async def _aside(work, *arguments):
    """Has a thread of the event loop's do what may wait for the companion, so that other requests go on; where the loop is none of asyncio's, does it here."""
    try:
        done = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    except RuntimeError:
        # There is no such loop, or its threads are ended, or no thread can be made.
        return work(*arguments)
    return await done


class _Steps:
    """A coroutine whose steps are of a trace."""

    def __init__(self, coroutine, traced):
        self._coroutine = coroutine
        self._tracer, self._trace = traced

    def __await__(self):
        steps = self._coroutine.__await__()
        step, value = steps.send, None
        while True:
            self._tracer.border(self._trace.resume)
            try:
                awaited = step(value)
            except StopIteration as done:
                return done.value
            finally:
                self._tracer.border(self._trace.pause)
            try:
                step, value = steps.send, (yield awaited)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001
                step, value = steps.throw, error
