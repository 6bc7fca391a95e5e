"""A trace beside what its thread runs in turns: greenlets and tasks."""

import asyncio
import os
import time
import unittest

import lancet

try:
    import greenlet
except ImportError:
    greenlet = None


def reads(trace):
    """How many reads a trace has."""
    return trace.calls["read"].calls if "read" in trace.calls else 0


class Turns(unittest.TestCase):
    """Of blocks that others interrupt."""

    def setUp(self):
        self.file = os.open("/proc/self/stat", os.O_RDONLY)
        self.addCleanup(os.close, self.file)

    def read(self, times):
        for _ in range(times):
            os.pread(self.file, 10, 0)
            os.lseek(self.file, 0, os.SEEK_SET)
            os.read(self.file, 10)

    def alone(self, times):
        with lancet.trace(["read"]) as trace:
            self.read(times)
        self.assertGreater(reads(trace), 0)
        return reads(trace)

    @unittest.skipUnless(greenlet, "python3-greenlet is not installed")
    def test_greenlets(self):
        kept = []

        def traced(times):
            with lancet.trace(["read"]) as trace:
                self.read(times)
                greenlet.getcurrent().parent.switch()
                self.read(times)
            kept.append(trace)

        one, other = greenlet.greenlet(traced), greenlet.greenlet(traced)
        one.switch(2)
        other.switch(50)
        self.read(7)
        until = time.thread_time() + 0.5
        while time.thread_time() < until:
            pass
        one.switch()
        other.switch()
        self.assertEqual([self.alone(4), self.alone(100)], [reads(trace) for trace in kept])
        self.assertLess(kept[0].cpu, 0.5)
        self.assertEqual([[], []], [trace.lost for trace in kept])
        self.assertIsNone(greenlet.gettrace())

    @unittest.skipUnless(greenlet, "python3-greenlet is not installed")
    def test_somebody_else_who_hears_of_switches(self):
        heard = []

        def hears(event, greenlets):
            heard.append(event)

        greenlet.settrace(hears)
        self.addCleanup(greenlet.settrace, None)
        with lancet.trace(["read"]) as trace:
            greenlet.greenlet(self.read).switch(30)
        self.assertEqual(["switch", "switch"], heard)
        self.assertEqual(0, reads(trace))
        self.assertIn("whose parent", trace.lost[0])
        self.assertEqual(hears, greenlet.gettrace())

    def test_tasks(self):
        async def traced():
            with lancet.trace(["read"]) as trace:
                self.read(1)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return trace

        async def others():
            self.read(50)
            await asyncio.sleep(0.01)

        async def both():
            beside = [asyncio.ensure_future(others()) for _ in range(3)]
            trace = await asyncio.ensure_future(traced())
            await asyncio.wait(beside)
            return trace

        trace = asyncio.run(both())
        self.assertEqual(["its task has waited for the event loop, and what other tasks (4) have done meanwhile is in it"], trace.lost)

    def test_a_block_that_does_not_wait(self):
        async def traced():
            beside = asyncio.ensure_future(asyncio.sleep(0.01))
            with lancet.trace(["read"]) as trace:
                self.read(3)
            await beside
            return trace

        self.assertEqual([], asyncio.run(traced()).lost)
        self.assertEqual([], asyncio.run(self.alone_in_its_loop()).lost)

    async def alone_in_its_loop(self):
        with lancet.trace(["read"]) as trace:
            await asyncio.sleep(0)
        return trace


if __name__ == "__main__":
    unittest.main()
