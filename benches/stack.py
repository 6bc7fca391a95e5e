"""What `lancet stack` costs: how long the guest stands, what the whole command takes, what a file takes."""

import glob
import os
import re
import shutil
import statistics
import subprocess
import time

import fetched
from calls import compiled
from session import FIXTURES, LANCET, SCALE, STEP, Failed, Process, left
from table import row, say, skip

LOOKS = 9 if SCALE >= 1 else 3
# Depths of fixtures/ruby/bench/stack.rb, and what the stop may take in µs.
DEPTHS = [("100 KB", 75, 40), ("800 KB", 590, 150)]
SIX_HUNDRED = 100       # blocks deep, that is 600 native frames
SIX_HUNDRED_PYTHON = 150
MEGABYTES = 3

GDB = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set backtrace limit unlimited",
       "-ex", "thread apply all backtrace", "-p"]
PY_SPY, RBSPY = fetched.PROGRAMS["py-spy"], fetched.PROGRAMS["rbspy"]
# name, language it knows (none: native frames of any), program, command
RIVALS = [
    ("gdb", None, "gdb", GDB),
    ("eu-stack", None, "eu-stack", ["eu-stack", "-n", "0", "-p"]),
    ("rbspy snapshot", "ruby", RBSPY, [RBSPY, "snapshot", "--pid"]),
    ("py-spy dump --native", "python", PY_SPY, [PY_SPY, "dump", "--native", "--pid"]),
]
OURS = ("lancet", None, LANCET, [LANCET, "stack", "--native", "--bytes", "-p"])


class Deep(Process):
    """A Ruby or Python so many calls deep."""

    def __init__(self, language, depth, **env):
        script = {"ruby": "ruby/bench/stack.rb", "python": "python/bench/stack.py"}[language]
        program = {"ruby": "ruby", "python": "/usr/bin/python3"}[language]
        super().__init__([program, os.path.join(FIXTURES, script)], {"DEPTH": str(depth), **env}, subprocess.PIPE)
        self.lines.until("^ready$")

    def gaps(self):
        """Those of the whole time, as (start, length) in nanoseconds; ends it."""
        self.child.send_signal(10)
        found = []
        while (line := self.lines.next()) != "end":
            if line is None:
                raise Failed("the guest ended")
            found.append(tuple(int(word) for word in line.split()[1:]))
        if code := self.end():
            raise Failed(f"WRONG: the guest ended with {code}")
        return found


def missing(name, program):
    if shutil.which(program):
        return ""
    key = name.split()[0]
    return fetched.missing(key) if key in fetched.NAMES else f"{program} is missing"


def timed(command, pid):
    """Runs it on a process: seconds of wall, of CPU, and what it said."""
    since = time.monotonic()
    # To a file: what is long blocks no pipe.
    with Process([*command, str(pid)], lines="stderr") as tool:
        code = tool.end()
        wall = time.monotonic() - since
        said = tool.said()
        if code:
            raise Failed(f"it ended with {code}: {(tool.lines.next() or 'silent')[:200]}")
        return wall, tool.used.ru_utime + tool.used.ru_stime, said


def stops():
    say(f"stops: {LOOKS} looks at stacks of {' and '.join(d[0] for d in DEPTHS)}")
    for size, depth, limit in DEPTHS:
        try:
            with Deep("ruby", depth) as guest:
                floor = run_floor(guest.pid)
                stood, copied = [], ""
                for _ in range(LOOKS):
                    said = re.search(r"stood still for ([\d.]+) (µs|ms) while (.*) were copied", timed(OURS[3], guest.pid)[2])
                    stood.append(float(said[1]) * (1 if said[2] == "µs" else 1000))
                    copied = said[3]
            row("Ruby", f"{size}, asleep", "floor: stood still", [f[0] / 1e3 for f in floor], " µs", 1,
                beside=f"{floor[0][1] / 1024:.1f} KiB copied")
            row("Ruby", f"{size}, asleep", "lancet: stood still", stood, " µs", 1, ("≤", limit), beside=f"{copied} copied")
        except (Failed, OSError, TypeError, subprocess.SubprocessError) as failed:
            skip("Ruby", f"{size}, asleep", "stood still", f"FAILED: {failed}")
        for name, language, program, command in [OURS, *RIVALS]:
            guest = language or "ruby"
            if why := missing(name, program) or ("out of time" if left() < 60 else ""):
                skip(guest.title(), f"{size}, busy", f"{name}: gap", why)
                continue
            try:
                longest = seen_gaps(guest, depth, command)
            except (Failed, OSError) as failed:
                skip(guest.title(), f"{size}, busy", f"{name}: gap", f"{failed}")
                continue
            row(guest.title(), f"{size}, busy", f"{name}: gap", longest, " ms", 3)


def run_floor(pid):
    said = subprocess.run([compiled("floor", "floor.c"), str(pid), str(LOOKS)], capture_output=True, text=True,
                          timeout=STEP, check=True).stdout
    return [tuple(int(word) for word in line.split()) for line in said.splitlines()]


def seen_gaps(language, depth, command):
    """In ms: per look, the longest gap that the guest saw while the tool was there."""
    spans = []
    with Deep(language, depth, SPIN="1") as guest:
        for _ in range(LOOKS):
            since = time.monotonic_ns()
            timed(command, guest.pid)
            spans.append((since, time.monotonic_ns()))
        gaps = guest.gaps()
    longest = lambda since, until: max((length for start, length in gaps if since <= start < until), default=0)
    return [longest(*span) / 1e6 for span in spans]


def whole():
    say(f"whole: the whole command on 600 frames, {LOOKS} times, warm")
    for language, depth in (("ruby", SIX_HUNDRED), ("python", SIX_HUNDRED_PYTHON)):
        with Deep(language, depth) as guest:
            for name, knows, program, command in [OURS, *RIVALS]:
                if knows not in (None, language):
                    continue
                figure = f"{name}: the whole command"
                if why := missing(name, program) or ("out of time" if left() < 60 else ""):
                    skip(language.title(), "600 frames", figure, why)
                    continue
                try:
                    timed(command, guest.pid)
                    runs = [timed(command, guest.pid) for _ in range(LOOKS)]
                except (Failed, OSError) as failed:
                    ours = "FAILED: " if name == "lancet" else ""
                    skip(language.title(), "600 frames", figure, f"{ours}{failed}")
                    continue
                lines = runs[0][2].count("\n")
                row(language.title(), "600 frames", figure, [r[0] * 1e3 for r in runs], " ms", 1,
                    ("≤", 60) if name == "lancet" else None,
                    beside=f"{statistics.median(r[1] for r in runs) * 1e3:.0f} ms CPU; {lines:,} lines")


def disk():
    say(f"disk: libraries, CPU time per {MEGABYTES} MB")
    for pattern in ("libruby-*.so.*.*.*", "libpython3.*.so.1.0", "libcrypto.so.*"):
        found = sorted(glob.glob(f"/usr/lib/x86_64-linux-gnu/{pattern}"))
        if not found:
            skip("file", pattern, "scan", "not installed")
            continue
        path = os.path.realpath(found[0])
        megabytes = os.path.getsize(path) / 1e6
        tools = [("lancet", [LANCET, "stack", "--top", "0", path]), ("objdump + readelf", None)]
        for name, command in tools:
            times = []
            try:
                for _ in range(LOOKS if command else min(3, LOOKS)):
                    commands = [command] if command else [["objdump", "-d", path], ["readelf", "--debug-dump=frames", path]]
                    times.append(sum(cpu_of(each) for each in commands) * 1e3 * MEGABYTES / megabytes)
            except (Failed, OSError) as failed:
                skip("file", os.path.basename(path), name, ("FAILED: " if command else "") + str(failed))
                continue
            row("file", os.path.basename(path), f"{name}: CPU per {MEGABYTES} MB", times, " ms", 1,
                ("≤", 60) if command else None, beside=f"{megabytes:.1f} MB")


def cpu_of(command):
    with Process(command, lines="stderr") as tool:
        if code := tool.end():
            raise Failed(f"it ended with {code}")
        return tool.used.ru_utime + tool.used.ru_stime
