"""The middleware of WSGI and ASGI. Needs nothing but Python."""

import asyncio
import contextlib
import io
import os
import pathlib
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
from lancet import _counters, _signature, _trace
from test_trace import pipe_with, sums

SECRET = "a secret of the application"
# What signatures were taken is remembered for all processes of a user's, and each run of the tests takes some that are always the same.
_place = tempfile.TemporaryDirectory()
os.environ["TMPDIR"] = _place.name
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
        value = lancet.wsgi.signature(SECRET, "GET", "/cart")
        _, headers, _ = self.get(self.middleware(self.streams, sample=0, secret=SECRET), HTTP_X_LANCET_TRACE=value)
        self.assertIn("write 2 in", headers["x-lancet-trace"])
        self.assertEqual(sums(self.told[1])["write"], (4, 4))

    def test_headers_are_there_once_the_application_has_returned(self):
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/cart"}
        environ["HTTP_X_LANCET_TRACE"] = lancet.wsgi.signature(SECRET, "GET", "/cart")
        statuses = []
        body = self.middleware(sample=0, secret=SECRET)(environ, lambda status, *_: statuses.append(status))
        # A server that answers HEAD takes no part of the body.
        self.assertEqual(statuses, ["200 OK"])
        body.close()

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

    def is_answered(self, value, path="/cart", query=""):
        """Whether a request with this header is traced."""
        middleware = self.middleware(sample=0, secret=SECRET, calls=False)
        return "x-lancet-trace" in self.get(middleware, path, QUERY_STRING=query, HTTP_X_LANCET_TRACE=value)[1]

    def test_a_signature_holds_for_one_query(self):
        def sign(target):
            return lancet.wsgi.signature(SECRET, "GET", target)

        self.assertTrue(self.is_answered(sign("/cart?page=2"), query="page=2"))
        self.assertFalse(self.is_answered(sign("/cart?page=2"), query="page=3"))
        self.assertFalse(self.is_answered(sign("/cart?page=2")))
        self.assertFalse(self.is_answered(sign("/cart"), query="page=2"))
        # A path that has a question mark of its own (%3F) is another one than a path and a query.
        self.assertFalse(self.is_answered(sign("/cart?page=2"), path="/cart?page=2"))
        self.assertFalse(self.is_answered(sign("/ca?rt?page=2"), path="/ca?rt", query="page=2"))
        self.assertTrue(self.is_answered(sign("/cart?q=a?b"), query="q=a?b"))

    def test_a_signature_is_good_once(self):
        # Two for one request, made in the same second.
        one, other = (lancet.wsgi.signature(SECRET, "GET", "/cart") for _ in range(2))
        self.assertTrue(self.is_answered(one))
        self.assertFalse(self.is_answered(one))
        self.assertTrue(self.is_answered(other))
        # What was refused was not used.
        another = lancet.wsgi.signature(SECRET, "GET", "/cart")
        self.assertFalse(self.is_answered(another, path="/other"))
        self.assertTrue(self.is_answered(another))

    def test_a_signature_that_others_have_made(self):
        # printf '99999999999:ab GET 5 /cart?page=2' | openssl dgst -sha256 -hmac 'a secret of the application'; the gem has the same test.
        made = "99999999999:ab:59c55ddbaa76536b52b880fa1a3190d3c7af76ad07c75f8d69563c5cd88401fe"
        self.assertTrue(self.is_answered(made, query="page=2"))

    def test_used_signatures_are_remembered_within_bounds(self):
        used = _signature.Used()
        request = ("GET", "/cart", "")

        def is_first(seconds=60, value=None):
            return used.is_first(SECRET, value or lancet.wsgi.signature(SECRET, "GET", "/cart", seconds=seconds), request)

        with unittest.mock.patch.object(_signature, "MOST_USED", 3):
            kept = lancet.wsgi.signature(SECRET, "GET", "/cart")
            self.assertTrue(is_first(value=kept))
            self.assertEqual([is_first(seconds=10) for _ in range(3)], [True, True, False])
            # None was forgotten that is good for some time yet.
            self.assertFalse(is_first(value=kept))
            with unittest.mock.patch.object(_signature.time, "time", return_value=time.time() + 11):
                self.assertTrue(is_first())
                self.assertFalse(is_first(value=kept))

    def test_a_signature_by_which_nothing_was_traced_is_good_once_more(self):
        for fails in (lancet.Error, ValueError):
            middleware = self.middleware(sample=0, secret=SECRET, calls=False)
            value = lancet.wsgi.signature(SECRET, "GET", "/cart")
            with unittest.mock.patch.object(_trace.Trace, "begin", side_effect=fails("made to fail")):
                # The second one finds the tracer at rest.
                for _ in range(2):
                    self.assertNotIn("x-lancet-trace", self.get(middleware, HTTP_X_LANCET_TRACE=value)[1])
            self.assertTrue(self.is_answered(value))
            self.assertFalse(self.is_answered(value))

    def test_a_signature_of_half_a_second(self):
        self.assertTrue(self.is_answered(lancet.wsgi.signature(SECRET, "GET", "/cart", seconds=1.5)))

    def test_options_that_are_none(self):
        nan = float("nan")
        odd = [("sample", "1"), ("sample", nan), ("sample", True), ("threshold", nan), ("threshold", -1), ("secret", b"x"), ("secret", 5)]
        odd += [("calls", "mysql"), ("calls", ["nosuch"]), ("calls", [b"mysql"]), ("calls", 3), ("log", 5), ("told", 3), ("file", 5)]
        for name, value in odd:
            with self.subTest(name, value=value), self.assertRaises(ValueError):
                self.middleware(**{name: value})
        for calls in (True, False, None, ["mysql", "memory"], ("read",), {"write"}):
            self.middleware(calls=calls)

    def test_a_file_of_traces_that_does_not_answer(self):
        middleware = self.middleware(sample=1, calls=False)
        middleware._tracer._file = "traces"
        with unittest.mock.patch.object(_trace.Trace, "append_to", side_effect=TimeoutError("made to fail")):
            self.assertEqual(self.get(middleware)[0], "200 OK")

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

    def test_a_signature_is_good_once_for_all_processes(self):
        """Of several workers of a server one takes it, and a folder that is not ours alone is not believed."""
        code = "import sys; from lancet._signature import used; print(used.is_first(sys.argv[1], sys.argv[2], ('GET', '/cart', '')))"

        def take(value):
            words = [sys.executable, "-c", code, SECRET, value]
            done = subprocess.run(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stdout=subprocess.PIPE, timeout=60, check=True)
            return done.stdout.decode().strip() == "True"

        value = lancet.wsgi.signature(SECRET, "GET", "/cart")
        self.assertEqual([take(value), take(value), _signature.used.is_first(SECRET, value, ("GET", "/cart", ""))], [True, False, False])
        given_back = lancet.wsgi.signature(SECRET, "GET", "/cart")
        self.assertTrue(_signature.used.is_first(SECRET, given_back, ("GET", "/cart", "")))
        _signature.used.give_back(given_back)
        self.assertTrue(take(given_back))
        folder = os.path.join(os.environ["TMPDIR"], f"lancet-signed-{os.geteuid()}")
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        # A new process tidies first: what it cannot remove, as what another one has removed before it, makes no signature good twice.
        os.mkdir(os.path.join(folder, "1-aa"))
        self.addCleanup(os.rmdir, os.path.join(folder, "1-aa"))
        value = lancet.wsgi.signature(SECRET, "GET", "/cart")
        self.assertEqual([take(value), take(value)], [True, False])
        os.chmod(folder, 0o755)
        self.addCleanup(os.chmod, folder, 0o700)
        self.assertFalse(take(lancet.wsgi.signature(SECRET, "GET", "/cart")))

    def test_what_it_raises(self):
        def raises(environ, start_response):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            self.get(self.middleware(raises, sample=1))
        self.assertEqual(len(self.told), 1)


    def test_whatever_fails_of_a_trace_the_request_is_served(self):
        for what in broken_traces():
            for app, body in ((self.app, b"served"), (self.streams, b"part" * 3)):
                for more in ({}, {"HTTP_X_LANCET_TRACE": lancet.wsgi.signature(SECRET, "GET", "/cart")}):
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

    async def get(self, middleware, path, headers=(), query=b""):
        sent = []

        async def send(message):
            sent.append(message)

        await middleware({"type": "http", "method": "GET", "path": path, "query_string": query, "headers": list(headers)}, None, send)
        return sent

    def middleware(self, app=None, **options):
        options = {"log": None, "told": self.told.append, **options}
        return lancet.asgi.Middleware(app or self.app, **options)

    def test_whatever_fails_of_a_trace_the_request_is_served(self):
        for what in broken_traces():
            for headers in ((), [(b"x-lancet-trace", lancet.asgi.signature(SECRET, "GET", "/1").encode())]):
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

    def test_a_signature_by_which_nothing_was_traced_is_good_once_more(self):
        value = [(b"x-lancet-trace", lancet.asgi.signature(SECRET, "GET", "/1").encode())]

        def answered(**options):
            middleware = self.middleware(sample=0, secret=SECRET, **options)
            return b"x-lancet-trace" in dict(asyncio.run(self.get(middleware, "/1", value))[0]["headers"])

        with unittest.mock.patch.object(_trace.Trace, "begin", side_effect=lancet.Error("made to fail")):
            self.assertFalse(answered(calls=False))
        with unittest.mock.patch.object(_counters, "of", side_effect=lancet.Error("made to fail")):
            self.assertFalse(answered(calls=["connect"]))
        self.assertEqual([answered(calls=False) for _ in range(2)], [True, False])

    def test_an_application_that_raises_where_it_is_called(self):
        def raises(*_):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            asyncio.run(self.get(self.middleware(raises, sample=1, calls=False), "/1"))
        self.assertEqual(len(self.told), 1)

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

    def test_a_signature_holds_for_one_query_and_once(self):
        middleware = self.middleware(sample=0, secret=SECRET, calls=False)
        headers = [(b"x-lancet-trace", lancet.asgi.signature(SECRET, "GET", "/1?page=2").encode())]
        found = [dict(asyncio.run(self.get(middleware, "/1", headers, query))[0]["headers"]) for query in (b"page=3", b"", b"page=2", b"page=2")]
        self.assertEqual([b"x-lancet-trace" in one for one in found], [False, False, True, False])

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
