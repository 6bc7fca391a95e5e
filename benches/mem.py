"""What `lancet mem` costs."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time

from session import FIXTURES, LANCET, PLACE, SCALE, STEP, Failed, Guest, Process, Ruby, left, run, started
from table import row, say, skip

RUBIES = os.environ.get("RUBIES", "3.1 3.3").split()
ROUNDS = int(os.environ.get("ROUNDS", "7"))
COST = 400          # seconds after which the cost stops once it has
ENOUGH = 5          # rounds
LIVE = 2_000_000    # objects for the report
KEEPS_2M = 1.28     # scale of w1.rb at which it keeps that many
LOOKS = 7
ATTACHES = 30
HELD = 3            # rounds of the memory
SERVED = 5          # rounds of the server
LOAD = 4            # seconds each


rubies = []


def find_rubies():
    for version in RUBIES:
        ruby = Ruby(version)
        if ruby.missing:
            skip(version, "all", "all", ruby.missing)
        else:
            rubies.append(ruby)


class Watch(Process):
    """A `lancet mem` on running processes, once it has opened `many`."""

    OPENED = r"process \d+ \((?:Ruby|Python|PHP|malloc) [^)]*\) in ([\d.]+) ms; it stood still for ([\d.]+) ms"

    def __init__(self, pid, *options, many=1):
        self.output = os.path.join(PLACE, f"report-{pid}")
        command = [LANCET, "mem", "-p", str(pid), "--format", "json", "-o", self.output, *options]
        super().__init__(command, lines="stderr", measured=True)
        try:
            opened = [self.lines.until(self.OPENED) for _ in range(many)]
        except Failed as failed:
            self.__exit__()
            raise Failed(f"FAILED: lancet {failed}") from None
        self.opened, self.stood = (max(float(o[i]) for o in opened) for i in (1, 2))

    def records(self):
        with open(self.output, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def leave(self):
        """Ctrl-C and a good end; the seconds this took."""
        since = time.monotonic()
        self.signal(signal.SIGINT)
        self.good_end()
        return time.monotonic() - since

    def good_end(self):
        if code := self.end():
            while self.lines.next() is not None:
                pass
            raise Failed(f"FAILED: lancet ended with {code}: {(self.lines.seen or ['silent'])[-1]}")


# name, what it is, options of lancet or environment of the rival
BARE, AGAIN = "bare", "bare again"
CASES = [
    (BARE, None, None),
    ("watched by lancet", "watched", []),
    ("watched, --stacks 64", "watched", ["--stacks", "64"]),
    ("after lancet has left", "left", []),
    (AGAIN, None, None),
    ("stackprof, every object", "rival", {"RIVAL": "stackprof", "INTERVAL": 1}),
    ("stackprof, 1 in 1,000", "rival", {"RIVAL": "stackprof", "INTERVAL": 1000}),
    ("memory_profiler", "rival", {"RIVAL": "memory_profiler"}),
    ("trace_object_allocations", "rival", {"RIVAL": "trace_object_allocations"}),
]


def cost_target(ruby, work, name):
    if name == "watched by lancet":
        return "≤", 1.30 if work == "w1" else 1.15 if ruby.wanted in ("2.7", "3.1") else 1.25
    return {"watched, --stacks 64": ("≤", 1.45), "after lancet has left": ("≤", 1.02)}.get(name)


def one_case(ruby, work, kind, how, reports):
    """Runs it once: its figures, for lancet with what its report and the process itself say. A rival's report may take
    longer than all the rest and is made only if asked for."""
    script = f"bench/{work}.rb"
    rival = {**how, **ruby.rival(how["RIVAL"])} if kind == "rival" else {}
    hold = "work" if rival and not reports else 1
    with Guest(ruby, script, SCALE=SCALE, ATTACH=1, HOLD=hold, **rival) as guest:
        guest.lines.until("^ready$")
        if kind in (None, "rival"):
            guest.go()
            return guest.figures("worked" if hold == "work" else "cpu")
        if kind == "left":
            with Watch(guest.pid, "--for", "50ms", "--no-gc") as watch:
                watch.good_end()
            guest.go()
            return guest.figures()
        with Watch(guest.pid, *how) as watch:
            guest.go()
            figures = guest.figures()
            watch.leave()
            records = watch.records()
            total = next(r for r in records if r["record"] == "total")
            head = next(r for r in records if r["record"] == "look")
            born = total["born"] + total["hidden"]["born"]
            figures |= {"own": watch.used.ru_utime + watch.used.ru_stime, "rss": watch.memory(),
                        "gc": (head["collection_pause_ns"] or 0) / 1e6, "walk": head["walk_pause_ns"] / 1e6}
        # Both count births; lancet a few more, of before and after the work.
        if not figures["objects"] <= born <= figures["objects"] * 1.001 + 500:
            raise Failed(f"WRONG: {born:,} births counted of {figures['objects']:,.0f}")
        return figures


def cost():
    say("cost: CPU time of the work, in rounds")
    cost_of(rubies, CASES, one_case, cost_target)


def cost_of(vms, cases, one_case, target, enough=ENOUGH, most=COST):
    """Of each case on each VM. After `most` seconds it stops, once it has enough rounds."""
    since, took, runs, why = time.monotonic(), 0, {}, {}
    order = [(vm, work, case) for vm in vms for work in ("w1", "w2") for case in cases]
    for number in range(ROUNDS):
        spent = time.monotonic() - since
        if number >= enough and spent + took > most:
            break
        if left() < took:
            break
        begun = time.monotonic()
        say(f"  round {number + 1} of {ROUNDS}, {spent:.0f} s so far")
        for vm in vms:
            for work in ("w1", "w2"):
                turn = (number * 2) % len(cases)
                for name, kind, how in cases[turn:] + cases[:turn]:
                    key = vm, work, name
                    if len(why.get(key, [])) > 1:
                        continue
                    try:
                        runs.setdefault(key, {})[number] = one_case(vm, work, kind, how, number == 0)
                    except Failed as failed:
                        why.setdefault(key, []).append(str(failed))
        took = time.monotonic() - begun
    for vm, work, (name, kind, _) in order:
        key, title = (vm, work, name), work.upper()
        done = runs.get(key, {})
        bares = [runs.get((vm, work, which), {}) for which in (BARE, AGAIN)]
        whole = [n for n in done if all(n in b for b in bares)]
        reasons = why.get(key, [])
        if not whole or any(reason.startswith("WRONG") for reason in reasons):
            skip(vm.version, title, name, (reasons or ["no bare run to compare with"])[-1])
            continue
        answers = {run["answer"] for run in (*done.values(), *bares[0].values())}
        if len(answers) > 1:
            skip(vm.version, title, name, f"WRONG: answers {answers}")
            continue
        typical = lambda field: statistics.median(done[n][field] for n in whole)
        if name == BARE:
            row(vm.version, title, name, [done[n]["cpu"] for n in whole], " s", 3,
                beside=f"{done[whole[0]]['objects']:,.0f} objects")
            continue
        if name == AGAIN:
            row(vm.version, title, "bare, second to first: the noise",
                [bares[1][n]["cpu"] / bares[0][n]["cpu"] for n in whole], "×")
            continue
        ratios = [done[n]["cpu"] / statistics.mean(b[n]["cpu"] for b in bares) for n in whole]
        beside = ""
        if kind == "watched":
            each = (typical("cpu") - statistics.median(b[n]["cpu"] for b in bares for n in whole)) / typical("objects")
            beside = (f"{each * 1e9:.0f} ns a birth; lancet itself {typical('own'):.2f} s CPU, "
                      f"{typical('rss'):.0f} MiB; report: gc {typical('gc'):.0f} ms, walk {typical('walk'):.1f} ms")
        elif kind == "rival":
            reports = [done[n]["report"] for n in whole if "report" in done[n]]
            beside = f"and {reports[0]:.2f} s CPU for its report, once" if reports else ""
        if reasons:
            beside += f"; FAILED {len(reasons)} times: {reasons[-1]}"
        row(vm.version, title, name, ratios, "×", target=target(vm, work, name), beside=beside)


def watched_blocks(vm, script, kind):
    """The figures of a script that makes blocks, of a VM that tells of their deaths, while it is watched, or after that."""
    with Guest(vm, script, SCALE=SCALE, ATTACH=1, HOLD=1) as guest:
        guest.lines.until("^ready$")
        options = ["--for", "50ms"] if kind == "left" else []
        with Watch(guest.pid, "--no-gc", *options) as watch:
            if kind == "left":
                watch.good_end()
            guest.go()
            figures = guest.figures()
            if kind == "watched":
                watch.leave()
                records = watch.records()
                total = next(r for r in records if r["record"] == "total")
                head = next(r for r in records if r["record"] == "look")
                figures |= {"least": figures["objects"], "objects": total["born"], "gc": 0,
                            "own": watch.used.ru_utime + watch.used.ru_stime, "rss": watch.memory(),
                            "walk": head["walk_pause_ns"] / 1e6}
    if kind == "watched" and figures["least"] > figures["objects"]:
        raise Failed(f"WRONG: {figures['objects']:,} births counted, and there are {figures['least']:,.0f} at least")
    return figures


# --- memory -----------------------------------------------------------------------------------------------------------


def rss(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))


def memory():
    """What the guest grew by while watched, with W1's objects held and garbage collected, per object it holds."""
    say("memory: the same point of W1 with and without")
    for ruby in rubies:
        bare, ours, back, tracing, live, why = [], [], [], [], [], {}
        for _ in range(HELD):
            if left() < 15:
                break
            with Guest(ruby, "bench/w1.rb", SCALE=SCALE, HOLD="work") as guest:
                guest.figures("held")
                bare.append(rss(guest.pid))
            try:
                with Guest(ruby, "bench/w1.rb", SCALE=SCALE, ATTACH=1, HOLD="work") as guest:
                    guest.lines.until("^ready$")
                    # Without another collection, so that what is given back is the agent's.
                    with Watch(guest.pid, "--no-gc") as watch:
                        guest.go()
                        guest.figures("held")
                        size = rss(guest.pid)
                        watch.leave()
                        total = next(r for r in watch.records() if r["record"] == "total")
                    ours.append(size - bare[-1])
                    back.append(size - rss(guest.pid))
                    live.append(total["live"] - total["before"]["live"])
            except Failed as failed:
                why["lancet"] = str(failed)
            try:
                with Guest(ruby, "bench/w1.rb", SCALE=SCALE, HOLD="work", RIVAL="trace_object_allocations") as guest:
                    guest.figures("held")
                    tracing.append(rss(guest.pid) - bare[-1])
            except Failed as failed:
                why["tracing"] = str(failed)
        count = statistics.median(live) if live else 0
        if not count:
            skip(ruby.version, "W1 held", "memory per live object", why.get("lancet", "out of time"))
            continue
        mib = lambda values: f"{statistics.median(values) / 2**20:.1f} MiB"
        row(ruby.version, "W1 held", "lancet, per live object", [v / count for v in ours], " B", 1, ("≤", 8),
            beside=f"{mib(ours)} for {count:,.0f} objects; given back on leaving {mib(back)}, "
                   f"{statistics.median(back) / count:.1f} B")
        row(ruby.version, "W1 held", "trace_object_allocations, per live object",
            [v / count for v in tracing], " B", 1,
            beside=mib(tracing) if tracing else why.get("tracing", "out of time"))


# --- report -----------------------------------------------------------------------------------------------------------


def report():
    say(f"report: {LIVE * SCALE:,.0f} live objects, {LOOKS} looks")
    for ruby in rubies:
        if left() < 30:
            skip(ruby.version, "2 M live", "pause for the count", "out of time")
            continue
        try:
            with Guest(ruby, "bench/w1.rb", SCALE=KEEPS_2M * SCALE, ATTACH=1, HOLD=1) as guest:
                guest.lines.until("^ready$")
                # Each look as soon as it is due: with the budget of 5 % the looks of so large a heap take minutes.
                with Watch(guest.pid, "--every", "1s", "--budget", "100", "--top", "3") as watch:
                    guest.go()
                    living = guest.figures()["answer"]
                    whole = lambda: [r for r in watch.records()[:-1] if r["record"] == "look"]
                    before, limit = len(whole()), time.monotonic() + STEP
                    # The first look after the end may have begun before it.
                    while len(whole()) < before + 1 + LOOKS and time.monotonic() < limit:
                        time.sleep(0.2)
                    looks = whole()[before + 1:]
                    wall = watch.leave()
            if living < LIVE * SCALE or len(looks) < LOOKS:
                raise Failed(f"{living:,.0f} live objects and {len(looks)} looks")
        except Failed as failed:
            skip(ruby.version, "2 M live", "pause for the count", str(failed))
            continue
        case = f"{living / 1e6:.2f} M live"
        row(ruby.version, case, "pause for the count", [r["walk_pause_ns"] / 1e6 for r in looks], " ms", 1,
            ("<", 100), max, f"from Ctrl-C to lancet's end {wall * 1e3:.0f} ms")
        row(ruby.version, case, "pause for the GC before it", [r["collection_pause_ns"] / 1e6 for r in looks], " ms", 1)


# --- attach -----------------------------------------------------------------------------------------------------------

STATES = [("states/accept.rb", "idle (accept)"), ("bench/w1.rb", "reading its input"), ("states/sleep.rb", "sleeping"),
          ("states/cpu_loop.rb", "busy")]


def attach():
    times = ATTACHES if SCALE >= 1 else 5
    say(f"attach: {times} times open and leave")
    for ruby in rubies:
        for script, case in STATES:
            if left() < 20:
                skip(ruby.version, case, "opened in", "out of time")
                continue
            opened, stood = [], []
            try:
                with Guest(ruby, script, ATTACH=1, SCALE=0.01) as guest:
                    guest.lines.until("^ready$")
                    time.sleep(0.2)
                    for _ in range(times):
                        with Watch(guest.pid, "--no-gc", "--for", "1ms") as watch:
                            watch.good_end()
                        opened.append(watch.opened)
                        stood.append(watch.stood)
                    if script.startswith("bench/"):
                        guest.go()
                    else:
                        guest.child.send_signal(signal.SIGUSR1)
                    answer = guest.lines.until("^answer (.*)")[1]
                    if guest.end():
                        raise Failed(f"WRONG: the guest's answer is then {answer}")
            except Failed as failed:
                skip(ruby.version, case, "opened in", f"{failed} (after {len(opened)} times)")
                continue
            row(ruby.version, case, "opened in", opened, " ms", 1, ("<", 100), max)
            row(ruby.version, case, "stood still", stood, " ms", 2, ("<", 5), max)


# --- server -----------------------------------------------------------------------------------------------------------


def server():
    say("server: Sinatra on Puma under load, unwatched and watched in turn")
    control = os.path.join(FIXTURES, "ruby/server/run")
    env = {**os.environ, "LANCET_SERVER": os.path.join(PLACE, "server")}
    rounds, seconds = (SERVED, LOAD) if SCALE >= 1 else (2, 1)

    def load(length):
        return started([control, "load", str(length)], env=env, stdout=subprocess.PIPE, text=True)

    def answer(child):
        out = child.communicate(timeout=STEP)[0]
        found = {name: float(value) for name, value in (line.split() for line in out.splitlines())}
        if child.returncode or not found.get("requests"):
            raise Failed("the load failed")
        return found["requests/s"], found["requests"], found["failed"]

    def out_of_time():
        return left() < 4 * seconds + 10

    case, figure = "Sinatra, Puma, 2 workers", "requests a second, watched to unwatched"
    try:
        start = subprocess.run([control, "start"], env=env, capture_output=True, text=True, timeout=STEP, check=False)
        if start.returncode:
            raise Failed((start.stderr.strip().splitlines() or ["it did not start"])[-1])
        master = dict(line.split(maxsplit=1) for line in start.stdout.splitlines())["master"]
        version = run(["ruby", "-e", "print RUBY_VERSION"])
        answer(load(seconds))
        ratios, rates, requests, failed = [], [], 0, 0
        for number in range(rounds):
            if out_of_time():
                break
            pair = {}
            for watched in (False, True) if number % 2 else (True, False):
                if watched:
                    with Watch(master, "--children", "--top", "3", many=3) as watch:
                        pair[watched] = answer(load(seconds))
                        watch.leave()
                else:
                    pair[watched] = answer(load(seconds))
                requests, failed = requests + pair[watched][1], failed + pair[watched][2]
            ratios.append(pair[True][0] / pair[False][0])
            rates.append(pair[False][0])
        # Opening and leaving under load, over and over.
        lost = made = visits = 0
        if not out_of_time():
            running = load(2 * seconds)
            while running.poll() is None:
                with Watch(master, "--children", "--top", "3", "--for", "300ms", many=3) as watch:
                    watch.good_end()
                visits += 1
                time.sleep(0.3)
            _, made, lost = answer(running)
        if not ratios:
            raise Failed("out of time")
        row(version, case, figure, ratios, "×", target=("≥", 0.85),
            beside=f"{statistics.median(rates):,.0f} a second unwatched")
        row(version, case, "failed requests", [failed], digits=0, target=("=", 0), beside=f"of {requests:,.0f}")
        if visits:
            row(version, case, "failed requests, opened and left under load", [lost], digits=0, target=("=", 0),
                beside=f"of {made:,.0f}; {visits} times, each with a GC and a report of all three")
    except (Failed, subprocess.TimeoutExpired) as failed:
        skip("own Ruby", case, figure, str(failed))
    finally:
        subprocess.run([control, "stop"], env=env, check=False)


# --- instructions -----------------------------------------------------------------------------------------------------


def instructions():
    """Of user code per birth: a watched guest against one that was opened and left, so that opening cancels out."""
    case, figure, event = "W1", "instructions a birth", os.environ.get("EVENT", "instructions:u")
    say(f"instructions: {event} by perf")
    counts = os.path.join(PLACE, "perf")

    def counted(ruby, stay):
        prefix = ["perf", "stat", "-x", ";", "-e", event, "-o", counts, "--"]
        with Guest(ruby, "bench/w1.rb", *prefix, SCALE=0.2 * SCALE, ATTACH=1, HOLD=1) as guest:
            guest.lines.until("^ready$")
            pid = int(run(["pgrep", "-P", str(guest.pid)]).split()[0])
            with Watch(pid, "--no-gc", *([] if stay else ["--for", "1ms"])) as watch:
                if not stay:
                    watch.good_end()
                guest.go()
                figures = guest.figures()
                if stay:
                    watch.leave()
            guest.go()
            guest.end()
        with open(counts, encoding="ascii") as file:
            value = next(line.split(";")[0] for line in file if event in line)
        return float(value), figures["objects"]

    try:
        command = ["perf", "stat", "-x", ";", "-e", event, "true"]
        seen = subprocess.run(command, capture_output=True, text=True, check=False)
        reason = "perf counts no instructions on this machine" if seen.returncode or "<not" in seen.stderr else ""
    except OSError:
        reason = "perf is missing; apt-get install linux-perf"
    for ruby in rubies:
        values, why = [], reason
        for _ in range(0 if reason else 3):
            try:
                (gone, _), (watched, objects) = counted(ruby, False), counted(ruby, True)
                values.append((watched - gone) / objects)
            except (Failed, subprocess.CalledProcessError) as failed:
                why = str(failed)
        row(ruby.version, case, figure, values, digits=1, beside="" if values else why)
