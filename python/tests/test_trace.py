"""What one thread does in a block. Needs nothing but Python."""

import gc
import json
import os
import pathlib
import signal
import socket
import sqlite3
import tempfile
import threading
import time
import unittest

import lancet
from lancet import _companion, _counters, _trace


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

    def test_the_same_choice_and_another_one(self):
        usual = _counters.of(True)
        self.assertIs(_counters.of(True), usual)
        chosen = ["read", "write"]
        first = _counters.of(chosen)
        chosen.append("connect")
        self.assertIsNot(_counters.of(chosen), first)
        self.assertIs(_counters.of(["write", "read"]), first)
        self.assertIs(_counters.of(True), usual)

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
            def between(self, stretches, details=False):
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


if __name__ == "__main__":
    unittest.main()
