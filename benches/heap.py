"""What `lancet heap` costs a Ruby of 3.3 million objects that goes on working, beside `ObjectSpace.dump_all` and gcore."""

import os
import re
import shutil
import subprocess
import time

from session import LANCET, PLACE, SCALE, STEP, Failed, Guest, left
from table import row, say, skip

OBJECTS = int(3_300_000 * SCALE)
ROUNDS = 5 if SCALE >= 1 else 1


class Own:
    """The machine's own Ruby."""
    folder = "ruby"
    command = ["ruby"]


class Large(Guest):
    """A guest with that many objects."""

    def __init__(self):
        super().__init__(Own, "bench/heap.rb", OBJECTS=OBJECTS)
        self.objects = int(self.lines.until(r"^objects (\d+)")[1])

    def tell(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def gap_and_piece(self):
        self.tell("end")
        found = self.lines.until(r"^gap (\S+) piece (\S+)")
        return float(found[1]), float(found[2])


def timed(command):
    """Seconds, what it said on standard error, and the MiB that it had at most."""
    before = time.monotonic()
    done = subprocess.run(["time", "-f", "most %M", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          timeout=STEP, check=False)
    took = time.monotonic() - before
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["it failed"])[0])
    return took, done.stderr, int(re.search(r"^most (\d+)", done.stderr, re.M)[1]) / 1024


def heap():
    say(f"heap: a Ruby of {OBJECTS:,} objects")
    case = f"{OBJECTS / 1e6:.1f} million objects"
    try:
        with Large() as guest:
            rounds(guest, case)
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        skip("own Ruby", case, "a snapshot", f"FAILED: {error}")


def rounds(guest, case):
    file = os.path.join(PLACE, "large.heap")
    figures = {name: [] for name in ("pause", "gap", "ready", "slower", "answer", "memory")}
    for _ in range(ROUNDS):
        if left() < STEP:
            break
        guest.tell("begin")
        time.sleep(1)
        _, bare = guest.gap_and_piece()
        guest.tell("begin")
        took, said, _ = timed([LANCET, "heap", "-p", str(guest.pid), "--save", file])
        gap, piece = guest.gap_and_piece()
        figures["pause"].append(float(re.search(r"stood still for ([\d.]+) ms", said)[1]))
        figures["gap"].append(gap)
        figures["ready"].append(took)
        figures["slower"].append(piece / bare)
        took, _, most = timed([LANCET, "heap", file, "--top", "5"])
        figures["answer"].append(took)
        figures["memory"].append(most)
    if not figures["pause"]:
        raise Failed("out of time")
    with open(f"/proc/{guest.pid}/status", encoding="utf-8") as status:
        resident = int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / (1 << 20)
    beside = f"{guest.objects:,} objects, {resident:.2f} GiB"
    row("own Ruby", case, "its VM stood still for the copy", figures["pause"], " ms", 1, target=("≤", round(max(25 * resident, 1), 1)), beside=beside)
    row("own Ruby", case, "longest gap in its work", figures["gap"], " ms", 1, beside="entering and leaving it, too")
    row("own Ruby", case, "its work while it is copied and read", figures["slower"], "×", target=("≤", 1.6))
    row("own Ruby", case, "until the file is there", figures["ready"], " s", target=("≤", 1.0),
        beside=f"{os.path.getsize(file) / (1 << 20):.0f} MiB, {os.path.getsize(file) / guest.objects:.1f} bytes an object")
    row("own Ruby", case, "the answer from the file", figures["answer"], " s", target=("≤", 1.5))
    row("own Ruby", case, "… memory at most", figures["memory"], " MiB", 0, target=("≤", 600))
    rivals(guest, case)


def rivals(guest, case):
    dump = os.path.join(PLACE, "dump.json")
    times = []
    for _ in range(min(ROUNDS, 2)):
        guest.tell(f"dump {dump}")
        times.append(float(guest.lines.until(r"^dumped (\S+)")[1]) * 1e3)
    row("own Ruby", case, "ObjectSpace.dump_all: stood still", times, " ms", 0, beside=f"{os.path.getsize(dump) / (1 << 20):.0f} MiB")
    os.unlink(dump)
    if not shutil.which("gcore"):
        return skip("own Ruby", case, "gcore: stood still", "gdb is not installed")
    guest.tell("begin")
    core = os.path.join(PLACE, "core")
    subprocess.run(["gcore", "-o", core, str(guest.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=STEP, check=False)
    gap, _ = guest.gap_and_piece()
    for name in os.listdir(PLACE):
        if name.startswith("core."):
            os.unlink(os.path.join(PLACE, name))
    row("own Ruby", case, "gcore: stood still", [gap], " ms", 0)
