"""What `lancet profile` costs, and how many of its samples there are, beside py-spy and rbspy."""

import json
import os
import re
import statistics

import fetched
from session import FIXTURES, LANCET, PLACE, SCALE, Failed, Process, left, started
from stack import missing
from table import row, say, skip

SECONDS = 5 if SCALE >= 1 else 2
BUSY = 200              # calls deep
RATES = [100, 1000]     # a second
LOAD = 20               # programs that want a processor, too
GUESTS = [
    ("Python", ["/usr/bin/python3", "python/bench/busy.py"]),
    ("Ruby", ["ruby", "ruby/bench/busy.rb"]),
    ("PHP", ["php", "php/bench/busy.php"]),
]
FILE = os.path.join(PLACE, "profile")
PY_SPY, RBSPY = fetched.PROGRAMS["py-spy"], fetched.PROGRAMS["rbspy"]


def lancet(pid, rate):
    return [LANCET, "profile", "-p", str(pid), "--for", f"{SECONDS}s", "--every", f"{1000 // rate}ms", "--json", "-o", FILE]


def py_spy(pid, rate):
    return [PY_SPY, "record", "--pid", str(pid), "-r", str(rate), "-d", str(SECONDS), "-f", "raw", "-o", FILE]


def rbspy(pid, rate):
    return [RBSPY, "record", "--pid", str(pid), "--rate", str(rate), "--duration", str(SECONDS), "--format", "collapsed",
            "--raw-file", FILE + ".raw", "--file", FILE]


def looks():
    """How often lancet has looked, and how often the guest was seen, running or waiting for a processor."""
    with open(FILE, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    profile = next(one for one in records if one["record"] == "profile")
    return profile["looks"], profile["samples"] + profile["queued"] + profile["slept"]


def folded():
    with open(FILE, encoding="utf-8") as file:
        return sum(int(line.rsplit(" ", 1)[1]) for line in file)


def profiles():
    say(f"profile: {BUSY} calls deep, {SECONDS} s at {' and '.join(map(str, RATES))} a second")
    for language, (program, script) in GUESTS:
        if why := missing(program, program):
            skip(language, "busy", "samples", why)
            continue
        for rate in RATES:
            of_guest(language, [program, os.path.join(FIXTURES, script)], rate, 0)
        of_guest(language, [program, os.path.join(FIXTURES, script)], RATES[0], LOAD)


def of_guest(language, guest, rate, load):
    case = f"{rate} Hz" + (f", load {load}" if load else "")
    rivals = {"Python": [("py-spy", PY_SPY, py_spy)], "Ruby": [("rbspy", RBSPY, rbspy)]}.get(language, [])
    for name, program, command in [("lancet", LANCET, lancet), *rivals]:
        if why := missing(name, program) or ("out of time" if left() < 60 else ""):
            skip(language, case, f"{name}: samples", why)
            continue
        try:
            one(language, case, name, command, guest, rate, load)
        except (Failed, OSError, ValueError, StopIteration) as failed:
            skip(language, case, f"{name}: samples", ("FAILED: " if name == "lancet" else "") + str(failed))


def one(language, case, name, command, guest, rate, load):
    spinners = [started(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
    try:
        with Process(guest, {"DEPTH": str(BUSY)}) as busy:
            busy.lines.until("^ready$")
            rounds = lambda: float(busy.lines.until("^rounds (.*)")[1])
            before = [rounds() for _ in range(2)]
            with Process(command(busy.pid, rate), lines="stderr") as tool:
                rounds()
                during = [rounds() for _ in range(max(1, SECONDS - 2))]
                if (code := tool.end()) not in (0, 4):
                    raise Failed(f"it ended with {code}: {tool.lines.next() or 'silent'}")
                said = "\n".join(tool.lines.seen)
                cpu = tool.used.ru_utime + tool.used.ru_stime
            rounds()
            after = [rounds() for _ in range(2)]
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    seen = looks()[0] if name == "lancet" else folded()
    landed = 100 * seen / (rate * SECONDS)
    beside = f"{cpu / SECONDS * 100:.1f} % CPU of its own"
    if stood := re.search(r"stood still for [^;\n]*", said):
        beside += f"; {stood[0]}"
    row(language, case, f"{name}: samples of those that were asked for", [landed], " %", 1,
        ("≥", 99) if name == "lancet" else None, beside=beside)
    if not load:
        slower = 100 * (1 - statistics.median(during) / statistics.median(before + after))
        row(language, case, f"{name}: the guest is slower by", [slower], " %", 2,
            ("≤", 1) if name == "lancet" and rate == 100 else None)
