"""The middleware for ASGI in a real server: uvicorn with requests at the same time, streams, web sockets and a lifespan. Needs uvicorn and websockets."""

import asyncio
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import lancet.asgi

SECRET = "a secret of the application"
HERE = pathlib.Path(__file__).parent
# Nothing takes longer unless something hangs.
LIMIT = 120


class Server(unittest.TestCase):
    """Tests of one server, which has an own one for each, so that its traces are theirs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.traces = pathlib.Path(folder.name, "traces")
        self.log = pathlib.Path(folder.name, "log")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = [sys.executable, "-m", "uvicorn", "served:traced", "--app-dir", str(HERE), "--port", str(self.port), "--log-level", "warning"]
        env = {**os.environ, "TRACES": str(self.traces), "SECRET": SECRET}
        with self.log.open("wb") as log:
            self.server = subprocess.Popen(words, env=env, stdout=log, stderr=log)
        self.addCleanup(self.stop)
        until = time.monotonic() + LIMIT
        while not self.listens():
            self.assertIsNone(self.server.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        # The first one has functions hooked, which takes a while.
        self.get("/work/1")

    def listens(self):
        """Whether it can be asked."""
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def stop(self):
        """Ends it, as an administrator does."""
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(LIMIT), 0, self.log.read_text())
        self.assertEqual(self.log.read_text(), "")

    def get(self, path, body=None, headers=()):
        """The answer to one request, and its headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request("POST" if body else "GET", path, body=body, headers=dict(headers))
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            return answer.read(), answer.headers
        finally:
            connection.close()

    def told(self, count):
        """The traces but for the first, when there are so many: a request is told after it was answered."""
        until = time.monotonic() + LIMIT
        # The first one makes the file.
        while len(lines := self.traces.read_text().splitlines() if self.traces.exists() else []) <= count:
            self.assertLess(time.monotonic(), until, lines)
            time.sleep(0.01)
        return [json.loads(line) for line in lines[1:]]

    def reads(self, trace):
        """Calls and bytes of a trace that lacks nothing."""
        self.assertEqual(trace["lost"], [])
        return trace["tracers"]["read"]["calls"], trace["tracers"]["read"]["bytes"]

    def test_requests_at_once(self):
        numbers = [1 + at % 8 for at in range(80)]
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            answers = list(clients.map(lambda number: json.loads(self.get(f"/work/{number}")[0]), numbers))
        # The lifespan has reached the application, and is no request.
        self.assertEqual(answers, [{"started": 1, "number": number, "length": 0} for number in numbers])
        told = self.told(80)
        self.assertEqual(sorted(trace["request"]["path"] for trace in told), sorted(f"/work/{number}" for number in numbers))
        for trace in told:
            number = int(trace["request"]["path"].split("/")[2])
            self.assertEqual(self.reads(trace), (number, number**2))

    def test_streams_and_bodies(self):
        value = lancet.asgi.signature(SECRET, "GET", "/stream/5")
        body, headers = self.get("/stream/5", headers=[("x-lancet-trace", value)])
        self.assertEqual(body, b"".join(b"part %d\n" % part for part in range(5)))
        self.assertRegex(headers["x-lancet-trace"], r"^\d+\.\d ms, \d+\.\d ms CPU")
        answer, headers = self.get("/work/2", body=b"x" * 300_000)
        self.assertEqual((json.loads(answer)["length"], headers["x-lancet-trace"]), (300_000, None))
        # The answer of the first is with us before its trace is told.
        self.assertEqual(sorted(self.reads(trace) for trace in self.told(2)), [(2, 4), (5, 25)])

    def test_a_client_that_goes_away(self):
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall(b"GET /stream/50 HTTP/1.1\r\nhost: here\r\n\r\n")
            client.recv(100)
        self.assertEqual(self.reads(self.told(1)[0])[0], 50)
        self.assertEqual(json.loads(self.get("/work/3")[0])["number"], 3)

    def test_web_sockets_pass(self):
        import websockets

        async def talk():
            async with websockets.connect(f"ws://127.0.0.1:{self.port}/talk/1") as connection:
                for word in ("one", "two"):
                    await connection.send(word)
                    self.assertEqual(await connection.recv(), word.upper())

        asyncio.run(talk())
        self.get("/work/3")
        self.assertEqual([trace["request"]["path"] for trace in self.told(1)], ["/work/3"])


if __name__ == "__main__":
    unittest.main()
