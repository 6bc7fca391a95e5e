"""The run: what it is set to, what time it has left, and the processes it starts."""

import atexit
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
FIXTURES = os.path.join(TOP, "fixtures")
LANCET = os.environ.get("LANCET_BIN", os.path.join(TOP, "target/lancet"))
SCALE = float(os.environ.get("SCALE", "1"))

STARTED = time.monotonic()
WHOLE = 1150        # seconds for everything; what has no time left says so
STEP = 90           # seconds that a single guest or lancet may take to answer

children = []
PLACE = tempfile.mkdtemp(prefix="lancet-bench-", dir="/tmp")
atexit.register(shutil.rmtree, PLACE, ignore_errors=True)


class Failed(Exception):
    """This case has no figure; the message is the row's reason."""


def left():
    return WHOLE - (time.monotonic() - STARTED)


def started(*arguments, **options):
    child = subprocess.Popen(*arguments, **options)
    children.append(child)
    return child


@atexit.register
def stop_children():
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()


class Lines:
    """Lines of a pipe, waited for with a limit."""

    def __init__(self, pipe):
        self.fd, self.rest, self.seen = pipe.fileno(), b"", []

    def next(self, seconds=STEP):
        limit = time.monotonic() + seconds
        while b"\n" not in self.rest:
            wait = limit - time.monotonic()
            if wait <= 0 or not select.select([self.fd], [], [], wait)[0]:
                raise Failed(f"silent for {seconds} s")
            data = os.read(self.fd, 65536)
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        self.seen.append(line.decode(errors="replace"))
        return self.seen[-1]

    def until(self, pattern):
        while (line := self.next()) is not None:
            if found := re.search(pattern, line):
                return found
        raise Failed("ended: " + (self.seen[-1] if self.seen else "it said nothing"))


class Process:
    """A child with its output as lines. `with` kills what is still there at the end. `measured`: what memory it had at most
    is known at its end. The figure of wait4 is no less than what this process has, because a child's begins with its
    parent's and an exec keeps it; so GNU time, which is small, becomes its parent."""

    def __init__(self, command, env=None, stdin=subprocess.DEVNULL, lines="stdout", measured=False):
        self.most = None
        if measured:
            self.most = tempfile.NamedTemporaryFile(mode="r")
            command = ["time", "-f", "%M", "-o", self.most.name, *command]
        self.other = tempfile.TemporaryFile()
        streams = {"stdout": self.other, "stderr": self.other, lines: subprocess.PIPE}
        self.child = started(command, env={**os.environ, **(env or {})}, stdin=stdin, **streams)
        self.pid = self.child.pid
        self.lines = Lines(getattr(self.child, lines))
        self.used = None

    def end(self):
        """Waits; its exit code. What it used is then in `used`."""
        limit = time.monotonic() + STEP
        while self.child.returncode is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.child.returncode, self.used = os.waitstatus_to_exitcode(status), used
            elif time.monotonic() > limit:
                raise Failed(f"did not end within {STEP} s")
            else:
                time.sleep(0.002)
        return self.child.returncode

    def signal(self, number):
        """To the program itself: time ignores Ctrl-C, and leaves it alone when it is killed."""
        pids = [self.pid]
        if self.most:
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as children:
                pids = [int(pid) for pid in children.read().split()]
        for pid in pids:
            os.kill(pid, number)

    def memory(self):
        """The MiB that it had at most, when it has ended."""
        self.most.seek(0)
        return int(self.most.read().split()[-1]) / 1024

    def said(self):
        self.other.seek(0)
        return self.other.read().decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.returncode is None:
            self.signal(signal.SIGKILL)
            self.child.kill()
            self.end()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr, self.other, self.most):
            if stream:
                stream.close()


class Guest(Process):
    """A VM on a script of the fixtures."""

    def __init__(self, ruby, script, *prefix, **env):
        command = [*prefix, *ruby.command, os.path.join(FIXTURES, ruby.folder, script)]
        super().__init__(command, {k: str(v) for k, v in env.items()}, stdin=subprocess.PIPE)

    def go(self):
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()

    def figures(self, last="cpu"):
        """What a bench script prints, up to the figure named `last`; `worked` counts as `cpu`."""
        found = {}
        while last not in found:
            line = self.lines.next()
            if line is None:
                self.end()
                raise Failed((self.said().strip().splitlines() or ["the guest ended without a figure"])[-1])
            if line.startswith("skip: "):
                raise Failed(line.removeprefix("skip: "))
            name, _, value = line.partition(" ")
            if name in ("objects", "answer", "report", "cpu", "worked", "held"):
                found[name] = float(value or 0)
        if last == "worked":
            found["cpu"] = found["worked"]
        return found


class Ruby:
    folder = "ruby"

    def __init__(self, wanted):
        self.wanted, self.missing, self.own = wanted, None, False
        found = shutil.which("ruby")
        if found and run([found, "-e", "print RUBY_VERSION"]).startswith(wanted + "."):
            self.command, self.own = [found], True
        else:
            self.command = [os.path.join(FIXTURES, "roots/ruby"), wanted]
            if os.geteuid():
                self.missing = "a root is entered as root only"
                return
        try:
            self.version = run([*self.command, "-e", "print RUBY_VERSION"])
            self.description = run([*self.command, "-v"])
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            self.missing = said[-1] if said else "it does not run"

    def rival(self, name):
        """What the rival's environment needs on this Ruby."""
        if self.own or name == "trace_object_allocations":
            return {}
        if name == "stackprof":
            raise Failed("Debian builds it for the machine's own Ruby only")
        # Plain Ruby code, which any version runs; a root sees /tmp.
        here = shutil.which("ruby") or "ruby"
        try:
            file = run([here, "-rmemory_profiler", "-e", "print $LOADED_FEATURES.grep(/memory_profiler.rb$/)[0]"])
        except (OSError, subprocess.CalledProcessError):
            raise Failed("not installed; apt-get install ruby-memory-profiler") from None
        copy = os.path.join(PLACE, "memory_profiler")
        if not os.path.isdir(copy):
            shutil.copytree(os.path.dirname(file), copy)
        return {"RUBYLIB": copy}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
