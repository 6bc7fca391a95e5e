"""Tracers of calls: lancet and its rivals, each a process that hooks functions of another, entry and return, with six
arguments, result and time where it can tell them. What is counted is calls of the first function."""

import json
import os
import re
import shutil
import signal
import subprocess

import fetched
from session import HERE, LANCET, PLACE, Failed, Process

QUIET = 30      # seconds to read what was recorded


class Tracer(Process):
    """A tracer at work. `told` is how many calls came out, once it has left."""

    name = ""
    needs = ""      # the program, and where it comes from
    burst = 1000    # calls that it is given at once

    def __init__(self, command, **streams):
        self.output = os.path.join(PLACE, f"told-{os.getpid()}")
        if os.path.exists(self.output):
            os.unlink(self.output)
        super().__init__([word.replace("OUTPUT", self.output) for word in command], **streams)

    @classmethod
    def missing(cls):
        program, _, how = cls.needs.partition(": ")
        return "" if shutil.which(program) else f"{program} is missing; apt-get install {how or program}"

    def hooks(self):
        """Waits until it says that it is at work, if it says so."""

    def leave(self):
        self.child.send_signal(signal.SIGINT)
        self.end()

    def lines_with(self, pattern):
        try:
            with open(self.output, "rb") as file:
                return sum(1 for line in file if re.search(pattern, line))
        except OSError:
            return 0


class Lancet(Tracer):
    name, needs = "lancet", LANCET
    options = ["-T", "-tt"]

    def __init__(self, guest, library, functions):
        self.functions = functions
        hooks = [word for function in functions for word in ("-x", f"{function}@{library}")]
        super().__init__([LANCET, "calls", "--budget", "100", *self.options, *hooks, "-o", "OUTPUT", "-p", str(guest.pid)],
                         lines="stderr")

    def hooks(self):
        self.lines.until("functions hooked in")

    def told(self):
        return self.lines_with(rb"\b%s\(" % self.functions[0].encode())


class WithLine(Lancet):
    name, options = "lancet, with the script's line", ["-T", "-tt"]


class Counted(Lancet):
    name, options = "lancet -c, with the script's line", ["-c", "--json"]

    def told(self):
        with open(self.output, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return sum(row["calls"] for row in rows if row["record"] == "row" and row["function"] == self.functions[0])


class Rejected(Lancet):
    name, options = "lancet, rejected in the guest (--where)", ["-T", "--where", "arg1 == -1"]

    @classmethod
    def missing(cls):
        said = subprocess.run([LANCET, "calls", "--help"], capture_output=True, text=True, check=False).stdout
        return "" if "--where" in said else "this lancet has no --where"


class Ltrace(Tracer):
    name, needs, burst = "ltrace", "ltrace", 50

    def __init__(self, guest, library, functions):
        self.functions = functions
        hooks = [word for function in functions for word in ("-x", function)]
        super().__init__(["ltrace", "-T", *hooks, "-o", "OUTPUT", "-p", str(guest.pid)])

    def told(self):
        return self.lines_with(rb"\b%s(@\S+)?\(" % self.functions[0].encode())


class Bpftrace(Tracer):
    name, needs, burst = "bpftrace, uprobe + uretprobe, printed", "bpftrace", 200
    entry = 'printf("call FUNCTION %d %d %d %d %d %d %llu\\n", arg0, arg1, arg2, arg3, arg4, arg5, nsecs)'
    back = 'printf("= %d %llu\\n", retval, nsecs)'

    def __init__(self, guest, library, functions):
        self.first = functions[0].encode()
        probes = [f"{kind}:{guest.mapped(library)}:{function} {{ {what.replace('FUNCTION', function)} }}" for function in functions
                  for kind, what in (("uprobe", self.entry), ("uretprobe", self.back))]
        super().__init__(["bpftrace", "-o", "OUTPUT", "-p", str(guest.pid), "-e", "; ".join(probes).replace("};", "}")])

    def told(self):
        return self.lines_with(rb"^call %s " % self.first)


class BpftraceCounted(Bpftrace):
    name, entry, back = "bpftrace, uprobe + uretprobe, counted", "@at[tid] = nsecs", \
        '@time["FUNCTION"] = hist(nsecs - @at[tid]); @calls["FUNCTION"] = count()'

    def told(self):
        with open(self.output, encoding="utf-8") as file:
            found = re.search(r"^@calls\[%s\]: (\d+)" % self.first.decode(), file.read(), re.M)
        return int(found[1]) if found else 0


class Frida(Tracer):
    name, kind = "Frida, CModule", "compiled"

    def __init__(self, guest, library, functions):
        command = [fetched.PROGRAMS["frida"], os.path.join(HERE, "frida_hook.py"), str(guest.pid), self.kind]
        library = os.path.basename(guest.mapped(library))
        super().__init__([*command, library, *functions], stdin=subprocess.PIPE)
        self.count = 0

    @classmethod
    def missing(cls):
        return fetched.missing("frida")

    def hooks(self):
        self.lines.until("^ready$")

    def leave(self):
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()
        self.count = int(self.lines.until(r"^told (\d+)")[1])
        self.end()

    def told(self):
        return self.count


class FridaScript(Frida):
    name, kind, burst = "Frida, JavaScript", "script", 500


class Uftrace:
    """It only starts programs: a prefix of the guest's command, and what it recorded afterwards."""

    name, burst = "uftrace", 1000

    def __init__(self, functions):
        self.first = functions[0]
        self.folder = os.path.join(PLACE, "uftrace")
        shutil.rmtree(self.folder, ignore_errors=True)
        each = [word for function in functions for word in
                ("-A", f"{function}@arg1,arg2,arg3,arg4,arg5,arg6", "-R", f"{function}@retval")]
        self.prefix = ["uftrace", "record", "--force", "--nest-libcall", "-d", self.folder, *each]

    @staticmethod
    def missing():
        return "" if shutil.which("uftrace") else "uftrace is missing; apt-get install uftrace"

    def told(self):
        said = subprocess.run(["uftrace", "replay", "--no-pager", "-f", "none", "-d", self.folder], capture_output=True,
                              text=True, errors="replace", timeout=QUIET, check=False)
        return len(re.findall(rf"\b{self.first}\(", said.stdout))


ATTACHED = [Lancet, WithLine, Counted, Rejected, Ltrace, Bpftrace, BpftraceCounted, Frida, FridaScript]
