"""What `lancet calls` costs: a hooked call, the stop, a busy Ruby; and who lives through Fibers and exceptions."""

import os
import re
import statistics
import subprocess
import time

import tracers
from session import FIXTURES, LANCET, PLACE, SCALE, Failed, Guest, Process, Ruby, left, run
from table import row, say, skip, word

SOURCES = os.path.join(FIXTURES, "c/bench")
ROUNDS = 3
BURSTS = max(25, int(50 * SCALE))     # the first ones touch a tracer's buffers for the first time
PAUSE = 5000        # microseconds between two bursts
FULL = max(2000, int(200_000 * SCALE))
HOOKING = 20        # seconds for a tracer to hook
SLOWER = 3          # so many times slower, the function is hooked
STOPS = 7
RUBY_HOOKS = ["rb_yield", "rb_vm_exec"]
SCRIPTS = ["fib2", "exc", "raise"]
TARGET = {"lancet": 60, "lancet, with the script's line": 150, tracers.Rejected.name: 20}


def headers():
    """The flags to compile an extension of the machine's Ruby; nothing if it has no headers."""
    try:
        folders = run(["ruby", "-e", "puts RbConfig::CONFIG.values_at('rubyhdrdir', 'rubyarchhdrdir')"]).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    there = any(os.path.exists(os.path.join(folder, "ruby.h")) for folder in folders)
    return [f"-I{folder}" for folder in folders] if there else []


def compiled(output, source, *flags):
    path = os.path.join(PLACE, output)
    if not os.path.exists(path):
        try:
            run(["gcc", "-O2", "-w", "-o", path, os.path.join(SOURCES, source), *flags])
        except (OSError, subprocess.CalledProcessError) as error:
            raise Failed(f"it does not compile: {error}") from None
    return path


class Bench(Process):
    """A guest that calls into libbenchcall.so as often as it is told, and ends when it is told no more."""

    @staticmethod
    def mapped(_):
        return os.path.join(PLACE, "libbenchcall.so")

    def good_end(self):
        self.child.stdin.close()
        self.child.stdin = None
        if code := self.end():
            raise Failed(f"WRONG: the guest ended with {code}")


class Caller(Bench):
    """A program, or a Ruby with the same as an extension, that calls bench_call as often as it is told."""

    def __init__(self, in_ruby=False, prefix=()):
        compiled("libbenchcall.so", "callee.c", "-shared", "-fPIC")
        library = [f"-L{PLACE}", "-lbenchcall", f"-Wl,-rpath,{PLACE}"]
        if not in_ruby:
            command = [compiled("caller", "caller.c", *library)]
        elif flags := headers():
            compiled("from_ruby.so", "from_ruby.c", "-shared", "-fPIC", *flags, *library)
            command = ["ruby", f"-I{PLACE}", os.path.join(SOURCES, "from_ruby.rb")]
        else:
            raise Failed("Ruby's headers are missing; apt-get install ruby-dev")
        super().__init__([*prefix, *command], stdin=subprocess.PIPE)
        self.made = 0
        self.lines.until("^ready$")

    def calls(self, bursts, calls, pause, probe=0):
        """Nanoseconds a call, wall and CPU."""
        self.child.stdin.write(f"{probe} {bursts} {calls} {pause}\n".encode())
        self.child.stdin.flush()
        found = self.lines.until(r"^wall (\S+) cpu (\S+) calls (\d+)")
        self.made += 0 if probe else int(found[3])
        return float(found[1]), float(found[2])


def hooked(guest, tool, bare):
    """Calls until they are slower: then the tool is at work, whether or not it says so."""
    limit = time.monotonic() + HOOKING
    # Twice, because one may be slow for another reason.
    while min(guest.calls(5, 100, 0, probe=1)[0] for _ in range(2)) < SLOWER * max(bare, 2):
        if time.monotonic() > limit:
            raise Failed(f"0 events: hooked nothing within {HOOKING} s")
        if tool.child.poll() is not None:
            raise Failed("it ended: " + ((tool.said() + "\n".join(tool.lines.seen)).strip().splitlines() or ["silent"])[-1][:200])
        time.sleep(0.05)


def one_tracer(kind):
    """One round: what it adds to a call by wall and by the guest's CPU time, and the share of the calls that it told."""
    with Caller(in_ruby=kind in (tracers.WithLine, tracers.Counted)) as guest:
        bare = guest.calls(BURSTS, kind.burst, 1000)
        guest.made = 0
        with kind(guest, "libbenchcall.so", ["bench_call", "bench_probe"]) as tool:
            tool.hooks()
            if not issubclass(kind, tracers.Lancet):
                hooked(guest, tool, bare[0])
            wall, cpu = guest.calls(BURSTS, kind.burst, PAUSE)
            # What is told while nobody pauses: so much that no buffer holds it.
            guest.calls(1, FULL if wall < 10_000 else 2000, 0)
            made = guest.made
            tool.leave()
            told = tool.told()
        after = guest.calls(BURSTS, kind.burst, 1000)
        guest.good_end()
    return wall - bare[0], cpu - bare[1], after[0] - bare[0], told, made


def uftrace():
    tool = tracers.Uftrace(["bench_call", "bench_probe"])
    with Caller() as guest:
        bare = guest.calls(BURSTS, tool.burst, 1000)
    with Caller(prefix=tool.prefix) as guest:
        wall, cpu = guest.calls(BURSTS, tool.burst, PAUSE)
        guest.calls(1, FULL, 0)
        guest.good_end()
        return wall - bare[0], cpu - bare[1], 0, tool.told(), guest.made


def calls():
    say(f"calls: bursts of calls of one function, {ROUNDS} rounds")
    kinds, rounds, why = [*tracers.ATTACHED, tracers.Uftrace], {}, {}
    for kind in kinds:
        if reason := kind.missing():
            why[kind] = reason
    for _ in range(ROUNDS):
        for kind in kinds:
            if kind in why or left() < 60:
                continue
            try:
                rounds.setdefault(kind, []).append(uftrace() if kind is tracers.Uftrace else one_tracer(kind))
            except (Failed, OSError, ValueError, subprocess.SubprocessError) as failed:
                why[kind] = f"{failed}"
    for kind in kinds:
        guest = "Ruby" if kind in (tracers.WithLine, tracers.Counted) else "C"
        done, ours = rounds.get(kind, []), issubclass(kind, tracers.Lancet)
        reason = why.get(kind, "out of time")
        if not done:
            if ours or "missing" in reason or "fetched" in reason or reason == "out of time":
                skip(guest, "one call", kind.name, ("FAILED: " if ours and "no --" not in reason else "") + reason)
            else:
                word(guest, "one call", kind.name, "0 events" if "0 events" in reason else "failed", reason)
            continue
        beside = f"guest's CPU +{statistics.median(d[1] for d in done):,.0f} ns"
        beside += f"; after it has left {statistics.median(d[2] for d in done):+.1f} ns" if kind is not tracers.Uftrace else ""
        target = ("≤", TARGET[kind.name]) if kind.name in TARGET else None
        row(guest, "one call", kind.name, [d[0] for d in done], " ns", 1, target,
            beside=beside + (f"; then {why[kind]}" if kind in why else ""))
        if kind is not tracers.Rejected:
            row(guest, "told, of all calls", kind.name, [100 * d[3] / d[4] for d in done], " %", 2,
                ("=", 100) if ours else None, min, f"{sum(d[3] for d in done):,} of {sum(d[4] for d in done):,}")
    attach()
    crowd()


def attach():
    """The stop for all functions of libruby, of a Ruby that waits and of one that works."""
    for script, state in (("states/sleep.rb", "sleeping"), ("states/cpu_loop.rb", "busy")):
        stood, hooks, stops, took = [], 0, 1, []
        try:
            with Guest(Ruby("3.1"), script) as guest:
                guest.lines.until("^ready$")
                for _ in range(STOPS if SCALE >= 1 else 2):
                    with Process([LANCET, "calls", "--budget", "100", "-c", "-x", "*@libruby*", "--for", "100ms", "-o", "/dev/null",
                                  "-p", str(guest.pid)], lines="stderr") as tool:
                        said = tool.lines.until(r"(\d+) of \d+ functions hooked in ([\d.]+) ms; it stood still (?:(\d+) times, )?for ([\d.]+)")
                        hooks, _ = int(said[1]), took.append(float(said[2]))
                        stops = int(said[3] or 1)
                        stood.append(float(said[4]))
                        if code := tool.end():
                            raise Failed(f"FAILED: lancet ended with {code}")
        except Failed as failed:
            skip("3.1", state, "all of libruby hooked: stood still", str(failed))
            continue
        row("Ruby", state, f"{hooks:,} hooks: stood still", stood, " ms", 2, ("≤", 10), max,
            f"the longest of {stops} stops; hooked in {statistics.median(took):.0f} ms, most of it before them")


CROWD = 5000        # threads
CROWDED = {         # what opens them
    "calls -c": ["calls", "-c", "-x", "work"],
    "syscalls -c": ["syscalls", "-c"],
}


class Crowd(Process):
    def __init__(self, sleep):
        super().__init__([compiled("crowd", os.path.join(FIXTURES, "c/crowd.c"), "-pthread"), str(CROWD), sleep, "clock"], stdin=subprocess.PIPE)
        self.lines.until("^ready$")

    def gap(self):
        """Milliseconds for which its clock's thread stood still at most, since the last call."""
        self.child.stdin.write(b"1\n")
        self.child.stdin.flush()
        return float(self.lines.until(r"^gap ([\d.]+)$")[1])


def crowd():
    """The longest stop of many threads, by the guest's own clock: pause(2) has no end, epoll_wait(2) begins again behind a stop."""
    for what, command in CROWDED.items():
        for sleep in ("pause", "epoll_wait"):
            gaps = []
            try:
                with Crowd(sleep) as guest:
                    for _ in range(STOPS if SCALE >= 1 else 2):
                        guest.gap()
                        done = subprocess.run([LANCET, *command, "--for", "200ms", "-o", "/dev/null", "-p", str(guest.pid)],
                                              capture_output=True, text=True, check=False)
                        gaps.append(guest.gap())
                        if done.returncode not in (0, 4):
                            raise Failed(f"FAILED: lancet ended with {done.returncode}: {done.stderr.strip()[:200]}")
            except Failed as failed:
                skip("C", f"{CROWD} threads", f"{what}: stood still", str(failed))
                continue
            row("C", f"{CROWD} threads in {sleep}", f"{what}: stood still", gaps, " ms", 1, ("≤", 100),
                beside="the longest stop of each attach, by the guest's clock")


# --- malloc of a busy Ruby --------------------------------------------------------------------------------------------

MALLOC = [tracers.Counted, tracers.BpftraceCounted, tracers.Frida]


class Worker(Guest):
    def mapped(self, _):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as file:
            return re.search(r"\s(/\S*/libc\.so\.6)$", file.read(), re.M)[1]


def one_worker(kind):
    """CPU seconds of W2's work, and the calls of malloc that were counted."""
    with Worker(Ruby("3.1"), "bench/w2.rb", SCALE=0.3 * SCALE, ATTACH=1, HOLD=1) as guest:
        guest.lines.until("^ready$")
        if kind is None:
            guest.go()
            return guest.figures()["cpu"], 0
        with kind(guest, "libc.so.6", ["malloc"]) as tool:
            tool.hooks()
            # Long enough for those that do not say when they have hooked.
            time.sleep(3 if kind is tracers.BpftraceCounted else 1)
            guest.go()
            cpu = guest.figures()["cpu"]
            tool.leave()
            return cpu, tool.told()


def busy():
    say("busy: malloc counted in a Ruby at work")
    for kind in MALLOC:
        ratios, told, why = [], 0, kind.missing()
        for _ in range(0 if why else ROUNDS):
            if left() < 60:
                why = "out of time"
                break
            try:
                bare, (hooked_cpu, told) = one_worker(None)[0], one_worker(kind)
                ratios.append(hooked_cpu / statistics.mean([bare, one_worker(None)[0]]))
            except (Failed, OSError, ValueError) as failed:
                why = ("FAILED: " if kind is tracers.Counted else "") + str(failed)
        row("3.1", "W2, malloc", kind.name, ratios, "×", target=("≤", 1.5) if kind is tracers.Counted else None,
            beside=f"{told:,} calls counted" if ratios else why or "no events")


# --- who lives --------------------------------------------------------------------------------------------------------


class Script(Process):
    """A script of fixtures/ruby/calls."""

    LONG = 30       # seconds after which it hangs

    def __init__(self, script, prefix=()):
        super().__init__([*prefix, "ruby", os.path.join(FIXTURES, f"ruby/calls/{script}.rb")], stdin=subprocess.PIPE)
        self.lines.until("^ready$")

    def mapped(self, _):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as file:
            return re.search(r"\s(/\S*/libruby[^/\s]*)$", file.read(), re.M)[1]

    def answer(self):
        """What it answers; or how it died, or that it hangs."""
        try:
            self.child.stdin.write(b"1\n\n")
            self.child.stdin.flush()
            limit = time.monotonic() + self.LONG
            while (line := self.lines.next(limit - time.monotonic())) is not None:
                if line.startswith("answer"):
                    return line
        except (Failed, BrokenPipeError):
            if self.child.poll() is None:
                return "hangs"
        code = self.end()
        return f"dies of signal {-code}" if code < 0 else f"ends with {code}"


def alive():
    say(f"alive: {', '.join(SCRIPTS)} with {', '.join(RUBY_HOOKS)} hooked, entry and return")
    try:
        truth = {}
        for script in SCRIPTS:
            with Script(script) as guest:
                truth[script] = guest.answer()
    except Failed as failed:
        return skip("Ruby", "Fibers, exceptions", "all", str(failed))
    for kind in [tracers.WithLine, tracers.Ltrace, tracers.Bpftrace, tracers.Frida, tracers.Uftrace]:
        if why := kind.missing() or ("out of time" if left() < 120 else ""):
            skip("Ruby", "Fibers, exceptions", kind.name, why)
            continue
        good, ends, told = 0, [], 0
        for script in SCRIPTS:
            try:
                end, seen = one_script(kind, script)
            except (Failed, OSError, ValueError, subprocess.SubprocessError) as failed:
                end, seen = str(failed)[:80], 0
            good, told = good + (end == truth[script]), told + seen
            ends.append(f"{script} {'as without it' if end == truth[script] else end}")
        ours = kind is tracers.WithLine
        beside = f"{'; '.join(ends)}; {told:,} events"
        if good == len(SCRIPTS) and told:
            row("Ruby", "Fibers, exceptions", f"{kind.name}: lived", [good], f" of {len(SCRIPTS)}", 0,
                ("=", len(SCRIPTS)) if ours else None, beside=beside)
        else:
            what = "0 events" if good == len(SCRIPTS) else "crashed"
            word("Ruby", "Fibers, exceptions", kind.name, "FAILED" if ours else what, beside)


def one_script(kind, script):
    if kind is tracers.Uftrace:
        tool = tracers.Uftrace(RUBY_HOOKS)
        try:
            with Script(script, tool.prefix) as guest:
                end = guest.answer()
        except Failed:
            return "dies at its start", 0
        return end, tool.told()
    with Script(script) as guest, kind(guest, "libruby*", RUBY_HOOKS) as tool:
        tool.hooks()
        time.sleep(4 if kind is tracers.Bpftrace else 1.5)
        end = guest.answer()
        try:
            tool.leave()
            return end, tool.told()
        except (Failed, OSError, ValueError):
            return end, 0
