"""How fast `lancet calls` takes what it is told: calls recorded, lines printed, recordings read, beside tools that do the same work."""

import os
import re
import shutil
import subprocess
import time

import counted
import tracers
from calls import Bench, Caller, compiled
from session import LANCET, PLACE, SCALE, Failed, Process, left
from table import row, say, skip

ROUNDS = 3
CALLS = max(100_000, int(5_000_000 * SCALE))
LINES = max(20_000, int(500_000 * SCALE))
LARGE = int(100_000_000 * SCALE)
TARGETS = {"one": ("≥", 10), "four": ("≥", 8), "lines": ("≥", 3), "json": ("≥", 2), "cpu": ("≤", 60), "ruby": ("≥", 5),
           "bytes": ("≤", 8), "replay": ("≤", 5)}


class Threads(Bench):
    """Threads that call bench_call, or getppid, as often as they are told."""

    def __init__(self, prefix=()):
        compiled("libbenchcall.so", "callee.c", "-shared", "-fPIC")
        library = [f"-L{PLACE}", "-lbenchcall", f"-Wl,-rpath,{PLACE}", "-pthread"]
        super().__init__([*prefix, compiled("threads", "threads.c", *library)], stdin=subprocess.PIPE)
        self.lines.until("^ready$")

    def calls(self, threads, calls, what=0):
        """Nanoseconds a call by the clock and by CPU; the CPU time of the thread with least to that with most."""
        self.child.stdin.write(f"{what} {threads} {calls}\n".encode())
        self.child.stdin.flush()
        found = self.lines.until(r"^wall (\S+) cpu (\S+) fair (\S+)")
        return [float(number) for number in found.groups()]


class Taker(tracers.Lancet):
    """lancet on a guest; `options` say what it does with the calls. `OUTPUT` in them is a file."""

    hooked = ["-x", "bench_call@libbenchcall.so"]

    def __init__(self, guest, options):
        self.output = os.path.join(PLACE, f"taken-{os.getpid()}")
        self.functions = ["bench_call"]
        command = [LANCET, "calls", "--budget", "100", *options, "-p", str(guest.pid)]
        Process.__init__(self, [word.replace("OUTPUT", self.output) for word in command], lines="stderr")

    def hooks(self):
        self.lines.until("hooked in")

    def leave(self):
        """Its CPU time in seconds. What it lost makes the figure worthless."""
        super().leave()
        if code := self.child.returncode:
            raise Failed(f"FAILED: lancet ended with {code}: " + " ".join(self.lines.seen[-2:]))
        return self.used.ru_utime + self.used.ru_stime


def replayed(file, *options):
    """What a replay counts, and its seconds by the clock and by CPU, and its memory in MiB."""
    began = time.monotonic()
    with Process([LANCET, "calls", "-c", *options, file], measured=True) as tool:
        found, line = 0, ""
        while line is not None:
            if total := re.search(r"(\d+) total", line):
                found = int(total[1])
            line = tool.lines.next()
        if code := tool.end():
            raise Failed(f"FAILED: the replay ended with {code}")
        took = time.monotonic() - began
        return found, took, tool.used.ru_utime + tool.used.ru_stime, tool.memory()


def idle(guest, options):
    """CPU seconds of a run that hooks and is told nothing."""
    with Taker(guest, options) as tool:
        tool.hooks()
        return tool.leave()


def taken(threads, calls, options, lines=None):
    """One round: a dict of what it took the guest and lancet."""
    with Threads() as guest:
        guest.calls(threads, calls)
        bare = guest.calls(threads, calls)
        before = idle(guest, options)
        with Taker(guest, options) as tool:
            tool.hooks()
            wall, cpu, fair = guest.calls(threads, calls)
            ours = tool.leave() - before
            made, size = threads * calls, os.path.getsize(tool.output)
            if lines:
                told = tool.lines_with(lines)
            else:
                told = replayed(tool.output)[0]
            if told != made:
                raise Failed(f"WRONG: {told:,} of {made:,} calls")
        guest.good_end()
    return {"wall": wall, "cpu": cpu, "bare": bare, "ours": ours / made * 1e9, "bytes": size / made, "fair": fair}


def rounds(figure, case, *arguments, **options):
    """Some rounds, or a row that says why not."""
    done = []
    try:
        for _ in range(ROUNDS):
            if left() < 60:
                break
            done.append(taken(*arguments, **options))
    except (Failed, OSError, ValueError) as failed:
        skip("C", case, figure, f"FAILED: {failed}")
        return []
    if not done:
        skip("C", case, figure, "out of time")
    return done


def keeping_up():
    say(f"keeping up: {CALLS:,} calls a thread, {ROUNDS} rounds")
    record = [*Taker.hooked, "--record", "OUTPUT"]
    for threads, case, target in ((1, "one thread", "one"), (4, "four threads", "four")):
        if done := rounds("recorded", case, threads, CALLS // threads, record):
            waits = "; ".join(f"guest {d['cpu']:.0f} ns of CPU a call ({d['bare'][1]:.0f} bare), {d['wall']:.0f} by the clock, fair {d['fair']:.2f}"
                              for d in done[:1])
            row("C", case, "recorded", [1e3 / d["wall"] for d in done], " M/s", 2, TARGETS[target], beside=f"nothing lost; {waits}")
            row("C", case, "our CPU a recorded call", [d["ours"] for d in done], " ns", 0, TARGETS["cpu"])
            row("C", case, "bytes a recorded call", [d["bytes"] for d in done], "", 2, TARGETS["bytes"])
    for figure, options, pattern in (("lines", [], rb"\bbench_call\("), ("json", ["--json"], rb'"bench_call"')):
        options = [*options, *Taker.hooked, "--max-wait", "20s", "-o", "OUTPUT"]
        if done := rounds(figure, "one thread", 1, LINES, options, lines=pattern):
            row("C", "one thread", f"{figure} printed to a file", [1e3 / d["wall"] for d in done], " M/s", 2, TARGETS[figure],
                beside=f"our CPU a line {done[0]['ours']:.0f} ns")
    counted.counted()
    ruby()
    rivals()
    replay()


def ruby():
    """An extension of Ruby that calls from one line of a script."""
    done, why = [], "out of time"
    for _ in range(ROUNDS):
        if left() < 60:
            break
        try:
            with Caller(in_ruby=True) as guest:
                guest.calls(1, CALLS, 0)
                bare = guest.calls(1, CALLS, 0)
                with Taker(guest, [*Taker.hooked, "--record", "OUTPUT"]) as tool:
                    tool.hooks()
                    wall, cpu = guest.calls(1, CALLS, 0)
                    tool.leave()
                    told = replayed(tool.output)[0]
                guest.good_end()
            if told != CALLS:
                raise Failed(f"WRONG: {told:,} of {CALLS:,} calls")
            done.append((wall, cpu, bare))
        except (Failed, OSError, ValueError) as failed:
            why = f"FAILED: {failed}" if "missing" not in str(failed) else str(failed)
            break
    beside = f"guest {done[0][1]:.0f} ns of CPU a call, {done[0][2][1]:.0f} bare" if done else why
    row("Ruby", "one line", "recorded with the script's line", [1e3 / d[0] for d in done], " M/s", 2, TARGETS["ruby"], beside=beside)


def rivals():
    """Others that record or print each call of the same function."""
    if not (why := tracers.Uftrace.missing()):
        try:
            tool = tracers.Uftrace(["bench_call"])
            with Threads(prefix=tool.prefix) as guest:
                wall, cpu, _ = guest.calls(1, CALLS // 10)
                guest.good_end()
            size = sum(os.path.getsize(os.path.join(tool.folder, name)) for name in os.listdir(tool.folder))
            row("C", "one thread", "uftrace record, with arguments", [1e3 / wall], " M/s", 2,
                beside=f"{size / (CALLS // 10):.0f} bytes and {cpu:.0f} ns of the guest's CPU a call")
        except (Failed, OSError, ValueError) as failed:
            why = str(failed)
    if why:
        skip("C", "one thread", "uftrace record", why)
    for kind in (tracers.Bpftrace, tracers.Ltrace):
        if why := kind.missing():
            skip("C", "one thread", kind.name, why)
            continue
        try:
            with Threads() as guest, kind(guest, "libbenchcall.so", ["bench_call"]) as tool:
                time.sleep(3)   # They do not say when they are at work.
                wall, _, _ = guest.calls(1, 20_000)
                tool.leave()
                told = tool.told()
                guest.good_end()
            if not told:
                raise Failed("it told nothing")
            row("C", "one thread", kind.name, [1e3 / wall], " M/s", 3, beside=f"{told:,} of 20,000 told")
        except (Failed, OSError, ValueError) as failed:
            skip("C", "one thread", kind.name, str(failed))


def replay():
    """A table of many calls of four threads, made once, read some times."""
    try:
        with Threads() as guest:
            with Taker(guest, [*Taker.hooked, "--max-wait", "20s", "--record", "OUTPUT"]) as tool:
                tool.hooks()
                guest.calls(4, LARGE // 4)
                tool.leave()
            guest.good_end()
        size, done = os.path.getsize(tool.output), []
        while len(done) < ROUNDS and left() > 60:
            done.append(replayed(tool.output))
        if any(found != LARGE // 4 * 4 for found, *_ in done):
            raise Failed("WRONG: the table lacks calls")
        scale = 100e6 / LARGE
        row("C", "replay -c", "100 M calls", [took * scale for _, took, *_ in done], " s", 2, TARGETS["replay"],
            beside=f"{LARGE:,} calls of four threads, {size / 2**20:,.0f} MiB; CPU {done[0][2] * scale:.2f} s")
        row("C", "replay -c", "memory", [memory for *_, memory in done], " MiB", 0, ("≤", 64), max)
        opened = [replayed(tool.output, "--until", "1ms")[1] for _ in range(ROUNDS)]
        row("C", "replay -c", "opened, one part read", opened, " s", 3, ("≤", 2))
        os.unlink(tool.output)
    except (Failed, OSError, ValueError) as failed:
        skip("C", "replay -c", "100 M calls", f"FAILED: {failed}")
