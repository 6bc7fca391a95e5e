"""What `lancet syscalls` costs a loop of getppid, the cheapest system call: the guest's CPU time beside the bare loop's of the same
round; and what strace, perf trace, bpftrace and sysdig cost it. And what it costs a Puma under load."""

import os
import re
import shutil
import statistics
import subprocess
import time

import tracers
from keeping_up import Threads, replayed
from session import FIXTURES, LANCET, PLACE, SCALE, STEP, Failed, Process, left
from table import row, say, skip

ROUNDS = 5
CALLS = max(50_000, int(2_000_000 * SCALE))
FEW = 20_000        # for tools that need microseconds for each
GETPPID = ["-e", "getppid"]


class Ours(tracers.Lancet):
    """lancet syscalls on a guest. `OUTPUT` in the options is a file."""

    def __init__(self, guest, options):
        self.output = os.path.join(PLACE, f"syscalls-{os.getpid()}")
        command = [LANCET, "syscalls", *options, "-p", str(guest.pid)]
        Process.__init__(self, [word.replace("OUTPUT", self.output) for word in command], lines="stderr")

    def hooks(self):
        found = self.lines.until(r"places hooked in .*stood still for (\S+) ms|seen by (?:ptrace|BPF)")
        return float(found[1] or 0)

    def leave(self):
        super().leave()
        if code := self.child.returncode:
            raise Failed(f"FAILED: lancet ended with {code}: " + " ".join(self.lines.seen[-2:]))


def counted(tool):
    """Calls of getppid in a table of -c; 0 if it is not in it."""
    with open(tool.output, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return sum(int(words[3]) for words in rows if len(words) > 4 and "getppid" in words)


def counted_bare(tool):
    """The same, in a table of which calls are the first column."""
    with open(tool.output, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return sum(int(words[0]) for words in rows if len(words) > 1 and "getppid" in words)


def recorded(tool):
    return replayed(tool.output)[0]


# Name, options, the target, how many calls there are, and who says how many were told.
WAYS = [
    ("recorded: arguments, result, times", [*GETPPID, "--max-wait", "20s", "--record", "OUTPUT"], 1.15, CALLS, recorded),
    ("counted (-c)", ["-c", *GETPPID, "-o", "OUTPUT"], 1.08, CALLS, counted),
    ("counted, no times (-c -U calls,errors,name)", ["-c", "-U", "calls,errors,name", *GETPPID, "-o", "OUTPUT"], 1.08, CALLS, counted_bare),
    ("not asked for (-e openat)", ["-c", "-e", "openat", "-o", "OUTPUT"], 1.01, CALLS, None),
    ("by BPF, counted (--by bpf -c)", ["--by", "bpf", "-c", *GETPPID, "-o", "OUTPUT"], None, CALLS, counted),
    ("by BPF, recorded (--by bpf --record)", ["--by", "bpf", *GETPPID, "--record", "OUTPUT"], None, FEW, recorded),
    ("by ptrace (--by ptrace -c)", ["--by", "ptrace", "-c", *GETPPID, "-o", "OUTPUT"], None, FEW, counted),
]


class Ruby(Process):
    """A Ruby that calls Process.ppid from one line, as often as it is told."""

    SCRIPT = """$stdout.sync = true
puts 'ready'
while (count = $stdin.gets&.to_i)
  began = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  count.times { Process.ppid }
  puts "cpu #{(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - began) / count * 1e9}"
end
"""

    def __init__(self):
        path = os.path.join(PLACE, "ppid.rb")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.SCRIPT)
        super().__init__(["ruby", path], stdin=subprocess.PIPE)
        self.lines.until("^ready$")

    def calls(self, _, calls, __=1):
        self.child.stdin.write(f"{calls}\n".encode())
        self.child.stdin.flush()
        return 0, float(self.lines.until(r"^cpu (\S+)")[1]), 1

    def good_end(self):
        self.child.stdin.close()
        self.child.stdin = None
        if code := self.end():
            raise Failed(f"WRONG: the guest ended with {code}")


# Seconds for which the kernel's own count of calls is taken beside hooks, at the beginning, and some more. Every process pays for it meanwhile (the row
# "watched by BPF"), and later it is taken for a hundredth of the time.
FIRST_COUNT = 2


def beside_the_kernel(guest, calls):
    """Has the guest make calls until that first count is over; how many."""
    over, made = time.monotonic() + FIRST_COUNT, 0
    while time.monotonic() < over:
        guest.calls(1, calls // 10, 1)
        made += calls // 10
    return made


def one(guest_of, options, calls, told, watched=None):
    """The guest's CPU time while lancet watches it, or the process that is given, to that without, in one round."""
    with guest_of() as guest:
        guest.calls(1, calls, 1)
        bare = guest.calls(1, calls, 1)[1]
        with Ours(watched or guest, options) as tool:
            tool.hooks()
            total = calls + (beside_the_kernel(guest, calls) if "--by" not in options else 0)
            cpu = guest.calls(1, calls, 1)[1]
            tool.leave()
            if told and (found := told(tool)) != total:
                raise Failed(f"WRONG: {found:,} of {total:,} calls")
        bare = (bare + guest.calls(1, calls, 1)[1]) / 2
        guest.good_end()
    return cpu / bare


class Watched:
    """A process that sleeps, and is watched in the place of the guest whose time is measured."""

    def __init__(self):
        self.child = subprocess.Popen(["sleep", "600"])
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def another(options):
    """The guest's CPU time while lancet watches another process, to that without, in one round."""
    with Watched() as watched:
        return one(Threads, options, CALLS, None, watched)


def others():
    """What the other processes of the machine pay."""
    for name, options in (("by hooks", []), ("by BPF", ["--by", "bpf"])):
        try:
            done = [another([*options, "-c", "-o", "OUTPUT"]) for _ in range(ROUNDS)]
        except (Failed, OSError, ValueError) as failed:
            skip("C", "getppid", f"another process is watched {name}", str(failed))
            continue
        row("C", "getppid", f"guest's CPU, another process is watched {name}", done, "×", 2)


def syscalls():
    say(f"syscalls: {CALLS:,} calls of getppid, {ROUNDS} rounds")
    for name, options, target, calls, told in WAYS:
        ours("C", Threads, name, options, target, calls, told)
    ours("Ruby", Ruby, "recorded with the script's line", [*GETPPID, "--max-wait", "20s", "--record", "OUTPUT"], 1.6, CALLS // 4,
         recorded)
    ours("Ruby", Ruby, "counted with the script's line", ["-c", *GETPPID, "-o", "OUTPUT"], None, CALLS // 4, counted)
    others()
    rivals()


def ours(language, guest, name, options, target, calls, told):
    done, why = [], "out of time"
    for _ in range(ROUNDS):
        if left() < 60:
            break
        try:
            done.append(one(guest, options, calls, told))
        except (Failed, OSError, ValueError) as failed:
            why = f"FAILED: {failed}"
            break
    limit = ("≤", target) if target else None
    if done and "FAILED" not in why:
        row(language, "getppid", f"guest's CPU, {name}", done, "×", 2, limit, beside=f"{calls:,} calls, all told" if told else "")
    else:
        skip(language, "getppid", name, why)


BPFTRACE = "tracepoint:raw_syscalls:sys_enter /pid == PID/ { @calls = count(); }"
# The program with its options; `PID` is the guest's. Those of strace --seccomp-bpf start the guest.
RIVALS = [
    ("strace", ["strace", "-f", "-e", "trace=getppid", "-o", "OUTPUT", "-p", "PID"], rb"getppid\("),
    ("strace -c", ["strace", "-f", "-c", "-o", "OUTPUT", "-p", "PID"], rb"getppid"),
    ("strace, not asked for", ["strace", "-f", "-e", "trace=openat", "-o", "OUTPUT", "-p", "PID"], None),
    ("perf trace", ["perf", "trace", "-e", "getppid", "-o", "OUTPUT", "-p", "PID"], rb"getppid\("),
    ("bpftrace, counted", ["bpftrace", "-o", "OUTPUT", "-e", BPFTRACE], rb"@calls"),
    ("sysdig", ["sysdig", "-w", "OUTPUT", "proc.pid=PID and evt.type=getppid"], None),
]
LAUNCHED = [
    ("strace --seccomp-bpf", "getppid", rb"getppid\("),
    ("strace --seccomp-bpf, not asked for", "openat", None),
]


def rival(name, command, pattern):
    with Threads() as guest:
        bare = guest.calls(1, CALLS, 1)[1]
        words = [word.replace("PID", str(guest.pid)) for word in command]
        with tracers.Tracer(words, lines="stderr") as tool:
            time.sleep(3 if command[0] == "bpftrace" else 1)   # They do not all say when they are at work.
            cpu = guest.calls(1, FEW, 1)[1]
            tool.leave()
        told = tool.lines_with(pattern) if pattern else 0
        guest.good_end()
    if pattern and not told:
        raise Failed("it told nothing")
    row("C", "getppid", f"guest's CPU, {name}", [cpu / bare], "×", 2 if cpu / bare < 10 else 1)


def launched(name, asked, pattern):
    output = os.path.join(PLACE, "launched")
    with Threads() as guest:
        bare = guest.calls(1, CALLS, 1)[1]
        guest.good_end()
    with Threads(prefix=["strace", "-f", "--seccomp-bpf", "-e", f"trace={asked}", "-o", output]) as guest:
        cpu = guest.calls(1, FEW, 1)[1]
        guest.good_end()
    with open(output, "rb") as file:
        told = sum(1 for line in file if pattern and re.search(pattern, line))
    if pattern and told != FEW:
        raise Failed(f"it told {told:,} of {FEW:,}")
    row("C", "getppid", f"guest's CPU, {name}", [cpu / bare], "×", 2 if cpu / bare < 10 else 1)


def rivals():
    for what, cases in ((rival, RIVALS), (launched, LAUNCHED)):
        for name, command, pattern in cases:
            program = command[0] if what is rival else "strace"
            if not shutil.which(program):
                skip("C", "getppid", name, f"{program} is missing")
                continue
            try:
                what(name, command, pattern)
            except (Failed, OSError, ValueError) as failed:
                skip("C", "getppid", name, str(failed))


# --- process trees ----------------------------------------------------------------------------------------------------

THIRTY = "i=0; while [ $i -lt 30 ]; do /bin/true; i=$((i+1)); done"
MAKEFILE = "all: one two three four\none two three four: one.c\n\tgcc -o $@ one.c\n"


def made():
    place = os.path.join(PLACE, "made")
    os.makedirs(place, exist_ok=True)
    for name, text in (("Makefile", MAKEFILE), ("one.c", "int main(void) { return 0; }\n")):
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
    return ["make", "-s", "-B", "-C", place]


def took(words):
    begun = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, timeout=STEP, check=False)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or [f"FAILED: {done.returncode}"])[-1])
    return (time.monotonic() - begun) * 1e3


def trees():
    rounds = 15 if SCALE >= 1 else 2
    say(f"trees: process trees under syscalls -f and strace -f, {rounds} rounds")
    output = os.path.join(PLACE, "tree")
    cases = [("true", ["/bin/true"]), ("30 × true", ["sh", "-c", THIRTY]), ("make, four files", made())]
    for case, words in cases:
        for figure, options in (("lines", []), ("counted (-c)", ["-c"])):
            tools = {"strace": ["strace", "-f", *options, "-o", output],
                     "lancet": [LANCET, "syscalls", "-f", *options, "-o", output, "--"]}
            times = {tool: [] for tool in tools}
            try:
                for _ in range(rounds):
                    for tool, command in tools.items():
                        times[tool].append(took(command + words))
            except (Failed, OSError) as failed:
                skip("tree", case, f"time by the clock beside strace's, {figure}", str(failed))
                continue
            # Each round beside its own: what else the machine does is the same for both.
            ratios = [ours / theirs for ours, theirs in zip(times["lancet"], times["strace"])]
            ours, theirs = (statistics.median(times[tool]) for tool in ("lancet", "strace"))
            row("tree", case, f"time by the clock beside strace's, {figure}", ratios, "×", 2, ("≤", 1.0),
                beside=f"{ours:.1f} ms, strace {theirs:.1f} ms")


# --- Puma under load --------------------------------------------------------------------------------------------------

# Name and options; `OUTPUT` is a file.
SERVED = [
    ("recorded: arguments, result, times, line", ["--children", "--max-wait", "20s", "--record", "OUTPUT"]),
    ("counted (-c)", ["--children", "-c", "-o", "OUTPUT"]),
]
PROCESSES = 3       # the master and its workers
CONTROL = os.path.join(FIXTURES, "ruby/server/run")


def processor_time(master):
    """Nanoseconds of processor time that the threads of a process and of its children have taken (proc(5), schedstat)."""
    with open(f"/proc/{master}/task/{master}/children", encoding="utf-8") as file:
        pids = [master, *file.read().split()]
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                total += int(file.read().split()[0])
    return total


def a_request(master, env, seconds):
    """Its processor time in the server, under load."""
    before = processor_time(master)
    command = [CONTROL, "load", str(seconds)]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=STEP, check=False)
    found = dict(line.split() for line in out.stdout.splitlines())
    requests, failed = float(found.get("requests", 0)), float(found.get("failed", 0))
    if out.returncode or not requests or failed:
        raise Failed(f"FAILED: the load: {failed:.0f} of {requests:.0f} requests failed")
    return (processor_time(master) - before) / requests


class OfMaster:
    """What `Ours` needs of a guest: its id."""

    def __init__(self, pid):
        self.pid = pid


def served():
    seconds, rounds = (4, ROUNDS) if SCALE >= 1 else (1, 2)
    say(f"served: Sinatra on Puma under load, {rounds} rounds")
    env = {**os.environ, "LANCET_SERVER": os.path.join(PLACE, "served")}
    case, figure = "Sinatra, Puma, 2 workers", "a request's CPU time in the server"
    try:
        start = subprocess.run([CONTROL, "start"], env=env, capture_output=True, text=True, timeout=STEP, check=False)
        if start.returncode:
            raise Failed((start.stderr.strip().splitlines() or ["it did not start"])[-1])
        master = dict(line.split(maxsplit=1) for line in start.stdout.splitlines())["master"]
        a_request(master, env, seconds)
        for name, options in SERVED:
            done, bares, stops = [], [], []
            for _ in range(rounds):
                if left() < 4 * seconds + 10:
                    break
                first = a_request(master, env, seconds)
                with Ours(OfMaster(master), options) as tool:
                    stops += [tool.hooks() for _ in range(PROCESSES)]
                    watched = a_request(master, env, seconds)
                    tool.leave()
                bares.append((first + a_request(master, env, seconds)) / 2)
                done.append(watched / bares[-1])
            if not done:
                raise Failed("out of time")
            row("Ruby", case, f"{figure}, {name}", done, "×", 2, ("≤", 1.02), beside=f"{statistics.median(bares) / 1000:,.0f} µs unwatched")
            row("Ruby", case, f"a process stands still to be hooked, {name.split(':')[0]}", stops, " ms", 1, ("≤", 10))
    except (Failed, OSError, subprocess.TimeoutExpired) as failed:
        skip("Ruby", case, figure, str(failed))
    finally:
        subprocess.run([CONTROL, "stop"], env=env, check=False)
