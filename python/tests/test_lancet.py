"""The package on the installed wheel, or on this folder with the program of LANCET_BIN. Needs nothing but Python."""

import enum
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import lancet
from lancet import _companion

LIMIT = 60


def companion_pid():
    """Of this process's."""
    return _companion.current().pid


def is_alive(pid):
    """Whether a process is there, and no zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def kill():
    """`kill -9` of the companion, which is not our child."""
    pid = companion_pid()
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        os.sched_yield()


def python(code, **variables):
    """How a script ends: its standard output, its exit code."""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE,
        timeout=LIMIT,
        check=False,
    )
    return done.stdout.decode(), done.returncode


class Kept:
    """Whose objects are counted by line."""


class Watches(unittest.TestCase):
    """What is seen."""

    def test_calls(self):
        with lancet.calls("getppid") as seen:
            for _ in range(3):
                os.getppid()
        self.assertEqual([call["function"] for call in seen], ["getppid"] * 3)
        self.assertEqual([call["result"] for call in seen], [str(os.getppid())] * 3)
        self.assertEqual(seen[0]["place"]["path"], __file__)
        self.assertEqual(len(seen), 3)
        self.assertIn("1 of 1 functions hooked", " ".join(seen.said))

    def test_system_calls(self):
        with lancet.syscalls("openat", "getppid") as seen:
            os.close(os.open("/dev/null", os.O_RDONLY))
            os.getppid()
        self.assertEqual([call["name"] for call in seen], ["openat", "getppid"])
        self.assertEqual(seen[0]["arguments"][1], '"/dev/null"')

    def test_not_what_asking_takes(self):
        with lancet.syscalls() as seen:
            os.getppid()
        self.assertIn("getppid", [call["name"] for call in seen])
        lines = [call[name] for call in seen for name in ("place", "library") if call[name]]
        self.assertFalse([line for line in lines if line["path"].endswith("/_companion.py")])

    def test_options(self):
        with lancet.syscalls("openat", failed_only=True) as seen:
            self.assertFalse(os.path.exists("/no/file"))
            with self.assertRaises(FileNotFoundError):
                open("/no/file", encoding="ascii")
        self.assertEqual([call["errno"] for call in seen], ["ENOENT"])
        with lancet.calls("getppid", c=True) as seen:
            os.getppid()
        self.assertEqual([row["calls"] for row in seen if row["record"] == "total"], [1])

    def test_a_table_of_counts_of_system_calls(self):
        with lancet.syscalls(c=True) as seen:
            for _ in range(5):
                os.getppid()
        counts = [row for row in seen if row["record"] == "count"]
        self.assertEqual(sum(row["calls"] for row in counts if row["name"] == "getppid"), 5)
        self.assertFalse([row for row in counts if row["place"] and "/_companion.py" in row["place"]["path"]])
        self.assertEqual([row["calls"] for row in seen if row["record"] == "sum"], [sum(row["calls"] for row in counts)])
        with lancet.syscalls(leaks=True) as seen, open("/dev/null", encoding="ascii"):
            pass
        self.assertIn("descriptors", [row["record"] for row in seen])

    def test_a_function_that_is_nowhere(self):
        with lancet.calls("no_such_function") as seen:
            pass
        self.assertEqual((seen.nowhere, seen.lost, len(seen)), (True, [], 0))

    def test_one_in_another(self):
        with lancet.calls("getppid") as outer:
            os.getppid()
            with lancet.calls("getppid") as inner:
                os.getppid()
        self.assertEqual((len(outer), len(inner)), (2, 1))

    def test_which_line_makes_and_keeps_memory(self):
        kept = []
        with lancet.mem() as seen:
            for _ in range(500):
                kept.append(Kept())
                Kept()
        rows = [row for row in seen if row["place"] and row["place"]["path"] == __file__]
        of = {(row["type"], row["live"], row["dead"]) for row in rows}
        # At either line the VM itself may make a few objects more.
        born = [live + dead for kind, live, dead in of if kind == "(PyObject)" and live in range(500, 510)]
        self.assertTrue(born and born[0] in range(500, 520), of)
        self.assertTrue(any(kind == "(PyObject)" and live == 0 and dead in range(500, 520) for kind, live, dead in of), of)
        self.assertEqual({row["record"] for row in seen}, {"row"})
        # What the package does to ask is none of them.
        paths = [row["place"]["path"] for row in seen if row["place"]]
        self.assertEqual([path for path in paths if "/lancet/_" in path or "/json/" in path], [])
        with lancet.mem(by="file") as seen:
            kept.append(Kept())
        self.assertIn(__file__, [row["place"]["path"] for row in seen if row["place"]])

    def test_options_that_leave_no_rows(self):
        for options in ({"output": "rows.json"}, {"o": "rows.json"}, {"every": "200ms"}, {"live": True}):
            with self.assertRaisesRegex(ValueError, "^lancet.mem\\(\\) tells what it has seen when its block ends"):
                lancet.mem(**options)

    def test_the_heap(self):
        kept = {"a key of the heap": ["a text of the heap"]}
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "ours.heap")
            self.assertEqual(lancet.heap(file), file)
            self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
            # What objects hold is kept only if it is asked for.
            self.assertNotIn(b"a text of the heap", pathlib.Path(file).read_bytes())
            self.assertEqual(lancet.heap(os.fsencode(file), contents=True), file)
            program = [sys.executable, "-m", "lancet", "heap", file, "--path", f"{__name__}.Watches", "--json"]
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(program, env=env, stdout=subprocess.PIPE, check=True)
            self.assertIn("Watches", done.stdout.decode())
        with self.assertRaisesRegex(lancet.Error, "no.such"):
            lancet.heap("/no/such/folder/file")
        self.assertEqual(len(kept), 1)

    def test_stacks(self):
        gone = threading.Event()
        thread = threading.Thread(target=gone.wait)
        thread.start()
        stacks = [record for record in lancet.stack() if record["record"] == "stack"]
        gone.set()
        thread.join()
        self.assertGreaterEqual(len(stacks), 2)

    def test_what_is_raised_comes_out(self):
        with self.assertRaises(ZeroDivisionError):
            with lancet.calls("getppid"):
                1 / 0  # noqa: B018
        with self.assertRaisesRegex(lancet.Error, "no-such-option"):
            with lancet.calls("getppid", no_such_option=1):
                self.fail("it was opened")


class Companions(unittest.TestCase):
    """What becomes of the companion, and of us."""

    def test_it_is_no_child_of_ours(self):
        companion_pid()
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_it_ends_with_us(self):
        code = "import lancet._companion as c; print(c.current().pid, flush=True)"
        out, ended = python(code)
        self.assertEqual(ended, 0)
        while is_alive(int(out)):
            os.sched_yield()

    def test_killed_within_a_block(self):
        with self.assertRaises(lancet.Lost):
            with lancet.calls("getppid"):
                kill()
        with self.assertRaises(ZeroDivisionError):
            with lancet.calls("getppid"):
                kill()
                1 / 0  # noqa: B018
        for kind in (KeyError, SystemExit, GeneratorExit):
            with self.assertRaises(kind):
                with lancet.calls("getppid"):
                    kill()
                    raise kind
        with lancet.calls("getppid") as seen:
            os.getppid()
        self.assertEqual(len(seen), 1)

    def test_killed_where_a_broken_pipe_ends_a_program(self):
        text = """
import os, signal, sys, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
import lancet
from lancet import _companion
with lancet.trace() as trace:
    os.getpid()
pid = _companion.current().pid
os.kill(pid, signal.SIGKILL)
def is_gone():
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True
while not is_gone():
    time.sleep(0.01)
trace.calls
with lancet.trace() as trace:
    os.getpid()
print("alive")
"""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, env=env, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"alive\n"), done.stderr)

    def test_it_ends_first_where_memory_ends(self):
        def of(pid):
            return pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text().strip()

        self.assertEqual(of(_companion.current().pid), "1000")
        self.assertNotEqual(of("self"), "1000")

    def test_killed_before_a_call(self):
        kill()
        self.assertTrue(lancet.stack())

    def test_a_child_of_a_fork_has_its_own(self):
        ours = companion_pid()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with lancet.calls("getppid") as seen:
                    os.getppid()
                code = 0 if len(seen) == 1 and companion_pid() != ours else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(companion_pid(), ours)
        self.assertTrue(lancet.stack())

    def beside(self, companion, code):
        """How a script ends beside a companion of ours: it greets, and then does what its script says with each request."""
        script = f"""#!{sys.executable}
import json, os, signal, sys, time
if os.fork():
    os._exit(0)
program = int(sys.argv[sys.argv.index("--pid") + 1])
print(json.dumps({{"lancet": "0", "protocol": 4, "pid": os.getpid()}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    def answer(**what):
        print(json.dumps({{"id": request["id"], "ok": what}}), flush=True)
{textwrap.indent(textwrap.dedent(companion), "    ")}
"""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "lancet")
            with open(program, "w") as file:
                file.write(script)
            os.chmod(program, 0o755)
            return python(code, LANCET_BIN=program)

    def test_a_child_leaves_the_block_of_its_parent_while_another_thread_asks(self):
        # It begins a watch, and answers nothing else.
        companion = """
            if request["do"] == "watch":
                answer(watch=1)
        """
        code = """
import lancet, os, signal, threading
from lancet import _companion
child = None
with lancet.calls("getppid") as seen:
    threading.Thread(target=lancet.stack, daemon=True).start()
    while _companion.current()._last < 2:
        os.sched_yield()
    child = os.fork()
    if child:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.alarm(20)
        print(os.waitpid(child, 0)[1], flush=True)
        os._exit(0)
print(len(seen), seen.lost, flush=True)
os._exit(0)
"""
        out, _ = self.beside(companion, code)
        self.assertRegex(out, r"^0 \[.this process was forked within the block.*\n0\n$")

    def test_what_was_lost_is_told(self):
        companion = """
            if request["do"] == "watch":
                answer(watch=1)
                continue
            for record in ({"record": "call", "place": None}, {"record": "losses", "losses": [{"pid": 1, "what": "records", "text": "7 calls"}], "more": 2}):
                print(json.dumps({"id": request["id"], "record": record}), flush=True)
            answer(exit=4, said=["said"], lost=3)
        """
        code = "import lancet\nwith lancet.calls('f') as seen: pass\nprint(len(seen), seen.lost)"
        self.assertEqual(self.beside(companion, code)[0], "1 ['7 calls', '2 more losses', '3 records found no room']\n")

    def test_a_watch_that_was_killed_has_seen_nothing_whole(self):
        companion = """
            answer(watch=1) if request["do"] == "watch" else answer(exit=None, said=["why"], lost=0)
        """
        code = """
import lancet
try:
    with lancet.calls("f"): pass
except lancet.Lost as error:
    print(error)
try:
    with lancet.calls("f"): raise KeyError
except KeyError:
    print("ours")
"""
        told = "lancet calls was ended before its block, and what it had seen is not all: why"
        self.assertEqual(self.beside(companion, code)[0], f"{told}\nours\n")

    def test_the_handler_of_a_signal(self):
        # Before it answers the first request it waits for what the handler has done.
        companion = """
            if request["id"] == 1:
                os.kill(program, signal.SIGUSR1)
                while not os.path.exists(sys.argv[0] + ".told"):
                    time.sleep(0.01)
            answer(exit=0, said=[], lost=0)
        """
        code = """
import lancet, os, signal
def handler(*_):
    try:
        lancet.stack()
    except lancet.Error as error:
        print(error)
    open(os.environ["LANCET_BIN"] + ".told", "w").close()
signal.signal(signal.SIGUSR1, handler)
print(lancet.stack(), lancet.stack())
"""
        out, _ = self.beside(companion, code)
        self.assertEqual(out, _companion.HANDLER + "\n[] []\n")

    def test_a_companion_that_is_given_up_beside_a_child(self):
        code = """
import ctypes, os, signal
from lancet import _companion
companion = _companion.current()
# A child that Python does not know of: it has the pipes, too.
child = ctypes.CDLL(None).fork()
if child == 0:
    os.closerange(0, 3)
    signal.pause()
companion.abandon()
print(companion.pid, child)
"""
        out, _ = python(code)
        companion, child = map(int, out.split())
        while is_alive(companion):
            os.sched_yield()
        self.assertTrue(is_alive(child))
        os.kill(child, signal.SIGKILL)

    def test_a_program_that_closes_everything(self):
        code = "import lancet, os\nlancet.stack()\nos.closerange(3, 1000)\nprint(len(lancet.stack()) > 0)"
        self.assertEqual(python(code), ("True\n", 0))

    def test_no_program(self):
        code = "import lancet\ntry: lancet.stack()\nexcept lancet.Error as error: print(error)"
        self.assertIn("there is no program /no/lancet: install", python(code, LANCET_BIN="/no/lancet")[0])
        self.assertIn("/bin/true has not answered", python(code, LANCET_BIN="/bin/true")[0])

    def test_attempts_that_fail_leave_nothing_open(self):
        code = """
import lancet, os, resource
def open_ones():
    # Without the one that looks.
    return len(os.listdir("/proc/self/fd")) - 1
def attempt():
    try:
        lancet.stack()
    except lancet.Error as error:
        return str(error)
for program in ("/no/lancet", "/bin/true"):
    os.environ["LANCET_BIN"] = program
    attempt()
    before = open_ones()
    for _ in range(20):
        attempt()
    print(open_ones() - before)
# Room for none, for one, and so on until all that a start needs: how many that are depends on the version of Python.
free = max(map(int, os.listdir("/proc/self/fd"))) + 1
for number in range(free):
    try:
        os.fstat(number)
    except OSError:
        os.dup2(0, number)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
said, left = set(), set()
for room in range(10):
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, limit[1]))
    said.update(attempt() for _ in range(5))
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    left.add(open_ones() - free)
print(sorted(said), left)
"""
        out, ended = python(code)
        said = ["/bin/true has not answered: is it a lancet, and not one of another machine?", "lancet cannot be started: [Errno 24] Too many open files"]
        self.assertEqual((out.splitlines(), ended), (["0", "0", f"{said} {{0}}"], 0))

    def test_a_program_that_is_no_lancet(self):
        code = "import lancet.wsgi, sys\napp = lancet.wsgi.Middleware(lambda *_: [b'served'], sample=1, log=sys.stdout)\nfor _ in range(2): print(list(app({}, None)))"
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "lancet")
            for line in ("hello", "[1]", "{}"):
                with open(program, "w") as file:
                    file.write(f"#!/bin/sh\necho '{line}'\n")
                os.chmod(program, 0o755)
                said = python(code, LANCET_BIN=program)[0].splitlines()
                self.assertRegex(said[0], "^lancet: not traced: the first line that .* is no companion's")
                self.assertEqual(said[1:], ["[b'served']"] * 2)

    def test_where_nobody_may_trace(self):
        code = """
import ctypes, struct, lancet
# ptrace, process_vm_readv and _writev answer EPERM, as in a container without the right to trace.
code = b"".join(struct.pack("HBBI", *one) for one in [
    (0x20, 0, 0, 0), (0x15, 3, 0, 101), (0x15, 2, 0, 310), (0x15, 1, 0, 311), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)])
buffer = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("H6xQ", 6, ctypes.addressof(buffer)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(317, 1, 0, program) == 0
def block(watch):
    with watch:
        pass
for work in (lancet.stack, lambda: block(lancet.calls("read")), lambda: block(lancet.syscalls()), lambda: block(lancet.trace()), lambda: lancet.heap("/tmp/never")):
    try:
        work()
        print("it was done")
    except lancet.Error as error:
        print(error)
"""
        out, ended = python(code)
        self.assertEqual((ended, len(out.splitlines())), (0, 5), out)
        for line in out.splitlines():
            self.assertRegex(line, "cannot be opened|may not|ptrace")

    def test_what_is_no_request_is_refused_at_once(self):
        companion = _companion.current()
        for value in (b"-a", pathlib.Path("/x"), float("nan"), object(), lancet, {1}):
            with self.assertRaisesRegex(TypeError, f"^{type(value).__name__} is no value of a request"):
                _companion.begin(do="run", command="stack", words=[value])
        self.assertIs(_companion.current(), companion)
        self.assertTrue(lancet.stack())

        class Odd(enum.IntEnum):
            SEVEN = 7

        self.assertEqual(_companion._written([Odd.SEVEN, True, None]), "[7,true,null]")

    def test_a_line_that_the_companion_cannot_read(self):
        companion = _companion.current()
        with self.assertRaises(lancet.Error) as raised:
            # A path that is no UTF-8 has no JSON.
            lancet.heap(b"/tmp/\xff.heap")
        self.assertNotIsInstance(raised.exception, lancet.Lost)
        self.assertIs(_companion.current(), companion)
        self.assertTrue(lancet.stack())

    def test_the_command(self):
        done = subprocess.run([sys.executable, "-m", "lancet", "--version"], stdout=subprocess.PIPE, check=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.stdout.decode().strip(), f"lancet {lancet.__version__}")


if __name__ == "__main__":
    unittest.main()
