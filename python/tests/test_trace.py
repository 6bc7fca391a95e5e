"""What one thread does in a block or a request, and the middleware. Needs nothing but Python."""

import asyncio
import contextlib
import gc
import io
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import lancet
import lancet.asgi
import lancet.wsgi
from lancet import _companion, _counters, _trace

SECRET = "a secret of the application"
# What a middleware asks of a trace, and what may come out of each.
STEPS = ("begin", "pause", "resume", "as_of_now", "end", "figures")
FAULTS = (lancet.Lost, lancet.Error, OSError, ValueError, KeyError, TypeError)


def broken_traces():
    """Each step of a trace in turn fails in each way, while the caller does something."""
    for step in STEPS:
        for fault in FAULTS:

            def fails(*_, fault=fault):
                raise fault("made to fail")

            old = _trace.Trace.__dict__[step]
            with unittest.mock.patch.object(_trace.Trace, step, property(fails) if isinstance(old, property) else fails):
                yield f"{step}: {fault.__name__}"


def pipe_with(test):
    """A pipe that is closed at the end of the test."""
    ends = os.pipe()
    for end in ends:
        test.addCleanup(os.close, end)
    return ends


def sums(trace):
    """Calls and bytes of each group, of a trace that lacks nothing."""
    found = {group: (found.calls, found.bytes) for group, found in trace.calls.items()}
    if trace.lost:
        raise AssertionError(trace.lost)
    return found


def commands():
    """Processes that the companion has started to count calls."""
    tasks = pathlib.Path(f"/proc/{_companion.current().pid}/task")
    started = [pid for file in tasks.glob("*/children") for pid in file.read_text().split()]
    return [pid for pid in started if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [b"calls"]]


class Traces(unittest.TestCase):
    """Of blocks."""

    def test_reads_and_writes(self):
        reader, writer = pipe_with(self)
        with lancet.trace() as trace:
            for _ in range(3):
                os.write(writer, b"12345")
            os.read(reader, 100)
        self.assertEqual(sums(trace), {"read": (1, 15), "write": (3, 15)})
        self.assertGreater(trace.calls["read"].time, 0)

    def test_connects_and_statements(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            with lancet.trace() as trace:
                for _ in range(2):
                    socket.create_connection(server.getsockname()).close()
        self.assertEqual(trace.calls["connect"].calls, 2)
        base = sqlite3.connect(":memory:")
        base.execute("CREATE TABLE t (a)")
        with lancet.trace(calls=["sqlite"]) as trace:
            for number in range(5):
                base.execute("INSERT INTO t VALUES (?)", (number,))
            base.execute("SELECT a FROM t").fetchall()
        base.close()
        # Python begins a transaction before the first INSERT.
        self.assertIn(trace.calls["sqlite"].calls, (6, 7))

    def test_threads_apart(self):
        found = {}

        def work(number):
            reader, writer = pipe_with(self)
            seen = set()
            for _ in range(10):
                with lancet.trace() as trace:
                    for _ in range(number):
                        os.write(writer, b"1" * number)
                        time.sleep(0)
                        os.read(reader, 100)
                seen.add(tuple(sums(trace)["read"]))
            found[number] = seen

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {number: {(number, number**2)} for number in range(1, 6)})

    def test_one_in_another(self):
        _, writer = pipe_with(self)
        with lancet.trace() as outer:
            os.write(writer, b"1")
            with lancet.trace() as inner:
                os.write(writer, b"2")
            inner.to_json()
        self.assertEqual([sums(inner)["write"], sums(outer)["write"]], [(1, 1), (2, 2)])

    def test_one_in_another_of_other_groups(self):
        _, writer = pipe_with(self)
        # Each of two `lancet calls` sees the marks of the other.
        with lancet.trace(calls=["write", "connect"]) as outer:
            for _ in range(3):
                os.write(writer, b"1")
            with lancet.trace(calls=["write", "sqlite"]) as inner:
                os.write(writer, b"2")
                os.write(writer, b"2")
            os.write(writer, b"1")
        self.assertEqual([sums(inner)["write"], sums(outer)["write"]], [(2, 2), (6, 6)])

    def test_a_question_that_fails(self):
        _, writer = pipe_with(self)
        with lancet.trace():
            pass
        counting = commands()
        counters = _counters.of(True)
        end_of_it = counters.mark()
        with self.assertRaisesRegex(lancet.Error, "more calls were made since than are kept") as raised:
            counters.between([(0, end_of_it)])
        self.assertNotIsInstance(raised.exception, lancet.Lost)
        with lancet.trace() as trace:
            os.write(writer, b"1")
        self.assertEqual((sums(trace)["write"], commands()), ((1, 1), counting))

    def test_a_command_that_is_killed(self):
        _, writer = pipe_with(self)
        with lancet.trace():
            pass
        with lancet.trace() as trace:
            for pid in commands():
                os.kill(int(pid), signal.SIGKILL)
        self.assertIsNone(trace.calls)
        self.assertRegex(" ".join(trace.lost), "not told any more")
        with lancet.trace() as trace:
            os.write(writer, b"1")
        self.assertEqual((sums(trace)["write"], len(commands())), ((1, 1), 1))

    def test_time_and_collections(self):
        with lancet.trace(calls=False) as trace:
            began = time.thread_time()
            while time.thread_time() < began + 0.05:
                pass
            time.sleep(0.05)
            gc.collect()
            gc.collect()
            spent = time.thread_time() - began
        self.assertGreaterEqual(trace.cpu, 0.05)
        self.assertAlmostEqual(trace.cpu, spent, delta=0.01)
        self.assertGreaterEqual(trace.seconds, 0.1)
        self.assertGreaterEqual(trace.collections, 2)
        self.assertGreater(trace.collecting, 0)
        self.assertIsNone(trace.calls)

    def test_as_json_and_in_the_log(self):
        _, writer = pipe_with(self)
        with lancet.trace() as trace:
            os.write(writer, b"12345")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "traces")
            trace.append_to(file)
            trace.append_to(file)
            first, second = map(json.loads, file.read_text().splitlines())
            self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(first, second)
        self.assertEqual((first["tracers"]["write"]["calls"], first["tracers"]["write"]["bytes"], first["lost"]), (1, 5, []))
        self.assertRegex(str(trace), r"^lancet: \d+\.\d ms, \d+\.\d ms CPU.*, write 1 in \d+\.\d ms$")

    def test_what_is_raised_comes_out(self):
        with self.assertRaises(ZeroDivisionError):
            with lancet.trace() as trace:
                1 / 0  # noqa: B018
        self.assertEqual(sums(trace), {})
        with self.assertRaisesRegex(lancet.Error, "in the groups malloc, "):
            with lancet.trace(calls=["nothing"]):
                self.fail("it was opened")

    def test_a_companion_that_is_killed(self):
        _, writer = pipe_with(self)
        with lancet.trace() as trace:
            os.kill(_companion.current().pid, signal.SIGKILL)
            os.write(writer, b"1")
        self.assertIsNone(trace.calls)
        self.assertRegex(" ".join(trace.lost), "ended")
        with lancet.trace() as trace:
            os.write(writer, b"1")
        self.assertEqual(sums(trace)["write"], (1, 1))

    def test_a_question_that_fails_is_not_asked_again(self):
        asked = []

        class Fails:
            def between(self, stretches):
                asked.append(stretches)
                raise lancet.Error("it cannot be told")

            def mark(self):
                return 1

        with lancet.trace(calls=False) as trace:
            trace._counters = Fails()
        self.assertEqual([str(trace), trace.to_json(), trace.calls][2:], [None])
        self.assertEqual((len(asked), trace.lost), (1, ["it cannot be told"]))

    def test_a_forked_child(self):
        _, writer = pipe_with(self)
        with lancet.trace() as trace:
            os.write(writer, b"1")
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    with lancet.trace() as own:
                        for _ in range(3):
                            os.write(writer, b"1")
                    code = 0 if own.calls["write"].calls == 3 else 2
                finally:
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(sums(trace)["write"], (1, 1))

    def test_steps(self):
        _, writer = pipe_with(self)
        trace = lancet.Trace()
        trace.begin()
        for _ in range(_trace.MOST_STEPS + 10):
            trace.pause()
            trace.resume()
        os.write(writer, b"1")
        trace.end()
        self.assertEqual(trace.calls, {})
        self.assertIn("beyond the first 4,096 steps", trace.lost[0])


class Wsgi(unittest.TestCase):
    """Middleware of WSGI."""

    def setUp(self):
        self.reader, self.writer = pipe_with(self)
        self.told = []

    def app(self, environ, start_response):
        os.write(self.writer, b"1")
        start_response("200 OK", [("content-type", "text/plain")])
        return [b"served"]

    def streams(self, environ, start_response):
        os.write(self.writer, b"1")
        start_response("200 OK", [])
        for _ in range(3):
            os.write(self.writer, b"1")
            yield b"part"

    def get(self, middleware, path="/cart", **more):
        """Asks as a server does: status, headers, body."""
        answer = []
        environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, **more}
        body = middleware(environ, lambda *start: answer.extend(start[:2]))
        parts = []
        for part in body:
            # What a server does in between is not the request's.
            os.write(self.writer, b"12345")
            parts.append(part)
        if hasattr(body, "close"):
            body.close()
        return answer[0], dict(answer[1]), b"".join(parts)

    def middleware(self, app=None, **options):
        options = {"log": None, "told": self.told.append, **options}
        return lancet.wsgi.Middleware(app or self.app, **options)

    def test_every_request(self):
        self.assertEqual(self.get(self.middleware(sample=1))[2], b"served")
        self.assertEqual(self.get(self.middleware(self.streams, sample=1))[2], b"part" * 3)
        self.assertEqual([sums(trace)["write"] for trace in self.told], [(1, 1), (4, 4)])
        self.assertEqual(self.told[0].request, {"method": "GET", "path": "/cart"})

    def test_none_some_and_slow_ones(self):
        for _ in range(50):
            self.get(self.middleware(sample=0))
        self.assertEqual(self.told, [])
        some = self.middleware(sample=0.5, calls=False)
        for _ in range(200):
            self.get(some)
        # 1 in 10^9 of all random rows has more or fewer.
        self.assertIn(len(self.told), range(55, 146))
        self.told.clear()
        self.get(self.middleware(sample=1, threshold=60))
        self.assertEqual(self.told, [])
        with self.assertRaises(ValueError):
            self.middleware(sample=2)

    def test_one_that_is_asked_for(self):
        middleware = self.middleware(sample=0, threshold=60, secret=SECRET)
        value = lancet.wsgi.signature(SECRET, "GET", "/cart")
        _, headers, body = self.get(middleware, HTTP_X_LANCET_TRACE=value)
        self.assertRegex(headers["x-lancet-trace"], r"^\d+\.\d ms, \d+\.\d ms CPU.*write 1 in \d+\.\d ms$")
        self.assertEqual((body, len(self.told)), (b"served", 1))
        _, headers, _ = self.get(self.middleware(self.streams, sample=0, secret=SECRET), HTTP_X_LANCET_TRACE=value)
        self.assertIn("write 2 in", headers["x-lancet-trace"])
        self.assertEqual(sums(self.told[1])["write"], (4, 4))

    def test_signatures_that_are_none(self):
        good = lancet.wsgi.signature(SECRET, "GET", "/cart")
        old = lancet.wsgi.signature(SECRET, "GET", "/cart", seconds=-1)
        other = lancet.wsgi.signature("another", "GET", "/cart")
        later = str(int(good.split(":")[0]) + 1) + good[good.index(":") :]
        middleware = self.middleware(sample=0, secret=SECRET)
        for value in (old, other, later, good[:-1] + "x", "", ":", "x:y", "9" * 50, "\xff:\xff", "²:1"):
            self.assertNotIn("x-lancet-trace", self.get(middleware, HTTP_X_LANCET_TRACE=value)[1])
        self.get(middleware, "/other", HTTP_X_LANCET_TRACE=good)
        self.get(self.middleware(sample=0), HTTP_X_LANCET_TRACE=good)
        self.assertEqual(self.told, [])
        with self.assertRaises(ValueError):
            self.middleware(secret="")

    def test_where_it_is_told(self):
        log = io.StringIO()
        self.get(self.middleware(sample=1, log=log, told=None), "/a\x1b[31m\n")
        self.assertRegex(log.getvalue(), r"^lancet: GET /a\\x1b\[31m\\n \d+\.\d ms, .*\n$")
        broken = self.middleware(sample=1, log=log, file="/no/such/folder/file")
        for _ in range(2):
            self.assertEqual(self.get(broken)[0], "200 OK")
        self.assertEqual(log.getvalue().count("not traced: [Errno 2]"), 1)

    def test_a_log_that_is_replaced(self):
        traced = lancet.wsgi.Middleware(self.app, sample=1, calls=False)
        with contextlib.redirect_stderr(io.StringIO()) as log:
            self.get(traced)
        self.assertRegex(log.getvalue(), "^lancet: GET /cart ")

    def test_a_body_without_a_length_is_one(self):
        traced = self.middleware(self.streams, sample=1, calls=False)
        body = traced({"REQUEST_METHOD": "GET"}, lambda *_: None)
        self.assertTrue(body)
        body.close()

    def test_a_threshold_that_is_none(self):
        self.get(self.middleware(sample=1, calls=False, threshold=None))
        self.assertEqual(len(self.told), 1)
        with self.assertRaises(ValueError):
            self.middleware(threshold="0.5")

    def test_a_rest_after_what_cannot_be_opened(self):
        code = """
import lancet.wsgi, os, time
traced = lancet.wsgi.Middleware(lambda *_: [b"served"], sample=1, log=None)
attempts = lambda: len(open(os.environ["LANCET_BIN"] + ".attempts").readlines())
began = time.monotonic()
for _ in range(50):
    traced({}, None)
# One a second, however slow the machine is.
print(attempts() <= 1 + time.monotonic() - began)
before = attempts()
while attempts() == before:
    traced({}, None)
"""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "lancet")
            pathlib.Path(program).write_text("#!/bin/sh\necho >>$0.attempts\n")
            os.chmod(program, 0o755)
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LANCET_BIN": program}
            done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, timeout=60, check=True)
        self.assertEqual(done.stdout, b"True\n")

    def test_what_it_raises(self):
        def raises(environ, start_response):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            self.get(self.middleware(raises, sample=1))
        self.assertEqual(len(self.told), 1)


    def test_whatever_fails_of_a_trace_the_request_is_served(self):
        asks = {"HTTP_X_LANCET_TRACE": lancet.wsgi.signature(SECRET, "GET", "/cart")}
        for what in broken_traces():
            for app, body in ((self.app, b"served"), (self.streams, b"part" * 3)):
                for more in ({}, asks):
                    with self.subTest(what, app=app, asked=bool(more)):
                        status, _, parts = self.get(self.middleware(app, sample=1, calls=False, secret=SECRET), **more)
                        self.assertEqual((status, parts), ("200 OK", body))

    def test_whatever_a_server_hands_over_is_served(self):
        odd = [{"REQUEST_METHOD": None}, {"REQUEST_METHOD": 5}, {"SCRIPT_NAME": 7}, {"SCRIPT_NAME": "/caf\xc3\xa9"}]
        odd += [{"HTTP_X_LANCET_TRACE": value} for value in ("\u20ac:\xff", b"1", 7)]
        for more in odd:
            self.assertEqual(self.get(self.middleware(sample=1, calls=False, secret=SECRET), **more)[2], b"served", more)
        for path in (None, b"x", "/\udc80\u20ac", "/caf\xc3\xa9", "/\xff"):
            self.assertEqual(self.get(self.middleware(sample=1, calls=False, secret=SECRET), path)[2], b"served", path)


class Asgi(unittest.TestCase):
    """Middleware of ASGI."""

    def setUp(self):
        self.reader, self.writer = pipe_with(self)
        self.told = []

    async def app(self, scope, receive, send):
        number = int(scope["path"][1:])
        for _ in range(number):
            os.write(self.writer, b"1" * number)
            await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"served"})

    async def get(self, middleware, path, headers=()):
        sent = []

        async def send(message):
            sent.append(message)

        await middleware({"type": "http", "method": "GET", "path": path, "headers": list(headers)}, None, send)
        return sent

    def middleware(self, app=None, **options):
        options = {"log": None, "told": self.told.append, **options}
        return lancet.asgi.Middleware(app or self.app, **options)

    def test_whatever_fails_of_a_trace_the_request_is_served(self):
        asks = [(b"x-lancet-trace", lancet.asgi.signature(SECRET, "GET", "/1").encode())]
        for what in broken_traces():
            for headers in ((), asks):
                with self.subTest(what, asked=bool(headers)):
                    traced = self.middleware(sample=1, calls=False, secret=SECRET)
                    sent = asyncio.run(self.get(traced, "/1", headers))
                    self.assertEqual(sent[-1]["body"], b"served")

    def test_whatever_a_server_hands_over_is_served(self):
        async def app(scope, receive, send):
            await send({"type": "http.response.body", "body": b"served"})

        odd = [{}, {"method": "GET"}, {"method": None, "path": "/"}, {"method": "GET", "path": b"/x"}, {"method": "GET", "path": "/\udc80"}]
        odd += [{"method": "GET", "path": "/", "headers": headers} for headers in (None, [(b"x-lancet-trace",)], [(b"x-lancet-trace", "text")])]
        for scope in odd:
            sent = []

            async def send(message, sent=sent):
                sent.append(message)

            asyncio.run(self.middleware(app, sample=1, calls=False, secret=SECRET)({"type": "http", **scope}, None, send))
            self.assertEqual([message["body"] for message in sent], [b"served"], scope)

    def test_requests_at_once(self):
        async def all_at_once():
            traced = self.middleware(sample=1)
            await asyncio.gather(*(self.get(traced, f"/{number}") for number in range(1, 21)))

        asyncio.run(all_at_once())
        found = {trace.request["path"]: sums(trace)["write"] for trace in self.told}
        self.assertEqual(found, {f"/{number}": (number, number**2) for number in range(1, 21)})

    def test_one_that_is_asked_for(self):
        value = lancet.asgi.signature(SECRET, "GET", "/3").encode()
        middleware = self.middleware(sample=0, secret=SECRET)
        sent = asyncio.run(self.get(middleware, "/3", [(b"x-lancet-trace", value)]))
        self.assertIn(b"write 3 in", dict(sent[0]["headers"])[b"x-lancet-trace"])
        asyncio.run(self.get(middleware, "/4", [(b"x-lancet-trace", value)]))
        self.assertEqual(len(self.told), 1)

    def test_what_is_raised_and_cancelled(self):
        began = None

        async def fails(scope, receive, send):
            try:
                began.set()
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                os.write(self.writer, b"1")
                raise

        async def cancelled():
            nonlocal began
            # Python 3.9 makes one for the loop that runs.
            began = asyncio.Event()
            task = asyncio.ensure_future(self.get(self.middleware(fails, sample=1), "/"))
            await began.wait()
            task.cancel()
            await task

        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(cancelled())
        self.assertEqual([sums(trace)["write"] for trace in self.told], [(1, 1)])

    def test_the_loop_goes_on_while_a_trace_is_told(self):
        ticked = threading.Event()

        def tells(trace):
            # Another request's work, which the loop does meanwhile.
            self.told.append(ticked.wait(20))

        async def beside():
            traced = self.middleware(sample=1, told=tells)
            served = asyncio.ensure_future(self.get(traced, "/1"))
            while not served.done():
                await asyncio.sleep(0.01)
                ticked.set()
            await served

        asyncio.run(beside())
        self.assertEqual(self.told, [True])

    def test_other_scopes_pass(self):
        seen = []

        async def lifespan(scope, receive, send):
            seen.append(scope["type"])

        asyncio.run(self.middleware(lifespan, sample=1)({"type": "lifespan"}, None, None))
        self.assertEqual((seen, self.told), (["lifespan"], []))


if __name__ == "__main__":
    unittest.main()
