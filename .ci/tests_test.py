#!/usr/bin/env python3
"""tests_test: .ci/tests on a Cargo and test executables that are made up here.

  .ci/tests_test.py
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

TESTS = Path(__file__).resolve().parent / "tests"

# Prints the messages in the file `messages` beside it, and keeps what it was asked for; there are no documentation tests.
CARGO = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
case "$*" in
  *--doc*) echo "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured" ;;
  *) cat "$(dirname "$0")/messages" ;;
esac
"""

# A test executable: its tests are the functions of the file `bodies` beside it.
EXECUTABLE = """#!{python}
import os, signal, sys, time
here = os.path.dirname(os.path.abspath(__file__))
tests = {{}}
exec(open(here + "/bodies").read(), tests)
tests = {{name: body for name, body in tests.items() if name.startswith("t_")}}
words = sys.argv[1:]
exact = "--exact" in words
if "--test-threads" in words:
    del words[words.index("--test-threads") + 1]
filters = [word for word in words if not word.startswith("--") and word != "terse"]
wanted = [name for name in tests if not filters or any(name == one if exact else one in name for one in filters)]
if "--list" in words:
    print("".join(name + ": test\\n" for name in wanted), end="")
    sys.exit()
failed = 0
for name in wanted:
    try:
        tests[name]()
        print(f"test {{name}} ... ok", flush=True)
    except AssertionError as error:
        failed += 1
        print(error)
        print(f"test {{name}} ... FAILED", flush=True)
print(f"test result: {{'FAILED' if failed else 'ok'}}. {{len(wanted) - failed}} passed; {{failed}} failed; 0 ignored; 0 measured")
sys.exit(101 if failed else 0)
"""


class Queue(unittest.TestCase):
    """Each test makes executables, runs .ci/tests on them, and reads what it prints."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lancet-queue-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.table = {"alone": {}, "apart": {}, "quick": [], "seconds": {}}
        self.write(self.folder / "cargo", CARGO)
        self.messages = []

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def executable(self, name, bodies):
        """A target `tests/NAME.rs` of the crate `box` with these tests."""
        place = self.folder / "crates" / "box"
        self.write(place / name / "run", EXECUTABLE.format(python=sys.executable))
        (place / name / "bodies").write_text(f"import os, signal, sys, time\nplace = {str(self.folder)!r}\n{bodies}")
        self.messages.append({"reason": "compiler-artifact", "executable": str(place / name / "run"),
                              "manifest_path": str(place / "Cargo.toml"), "profile": {"test": True},
                              "target": {"kind": ["test"], "name": name}})

    def environment(self, **more):
        (self.folder / "messages").write_text("".join(json.dumps(one) + "\n" for one in self.messages))
        (self.folder / "table.json").write_text(json.dumps(self.table))
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "TMPDIR": str(self.folder),
                "LANCET_TESTS_TABLE": str(self.folder / "table.json"), "CARGO_TARGET_DIR": str(self.folder / "target"), **more}

    def run_tests(self, *arguments, **more):
        done = subprocess.run([str(TESTS), *arguments], env=self.environment(**more), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_all_that_pass_are_counted(self):
        self.executable("one", "def t_a(): pass\ndef t_b(): pass")
        self.executable("two", "def t_c(): pass")
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (0, "3 passed, 0 failed"))
        self.assertRegex(said, r"(?m)^test result: ok\. 3 passed; 0 failed; 0 ignored$")

    def test_a_test_that_fails_each_time_has_failed(self):
        self.executable("one", "def t_a(): assert False, 'seen 5'\ndef t_b(): pass")
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (101, "1 passed, 1 failed"))
        self.assertIn("seen 5", said)
        self.assertRegex(said, r"cargo test --manifest-path \S*crates/box/Cargo.toml --test one -- --exact t_a --nocapture\n")
        self.assertIn("\nFAILED box/one t_a\n", said)

    def test_a_test_that_passes_alone_is_disturbed(self):
        self.executable("one", "def t_a():\n if not os.path.exists(place + '/x'): open(place + '/x', 'w'); assert False, 'first'")
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (0, "1 passed, 0 failed"))
        self.assertIn("DISTURBED box/one t_a: failed beside other tests, passed three times alone", said)
        self.assertIn("first", said)
        self.assertEqual(said.count("=== again, alone"), 3)

    def test_one_failure_in_three_alone_has_failed(self):
        body = "def t_a():\n open(place + '/x', 'a').write('x'); assert os.path.getsize(place + '/x') in (2, 3)"
        self.executable("one", body)
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (101, "0 passed, 1 failed"))
        self.assertNotIn("DISTURBED", said)

    def test_more_than_five_are_not_run_again(self):
        self.executable("one", "".join(f"def t_{at}(): assert False\n" for at in range(6)))
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (101, "0 passed, 6 failed"))
        self.assertNotIn("again", said)

    def test_a_quick_executable_is_one_process_and_fails_by_test(self):
        self.table["seconds"]["box/one"] = 1
        self.executable("one", "".join(f"def t_{at}(): assert {at} != 2, os.getpid()\n" for at in range(4)))
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (101, "3 passed, 1 failed"))
        self.assertIn("\nFAILED box/one t_2\n", said)
        self.assertEqual(len(re.findall(r"(?m)^\S+ +[\d.]+ s +[\d.]+ s  box/one", said)), 2)

    def test_a_process_that_dies_has_failed(self):
        self.executable("one", "def t_a(): os.kill(os.getpid(), signal.SIGSEGV)\ndef t_b(): pass")
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (101, "1 passed, 1 failed"))
        self.assertIn("exit code -11", said)

    def test_a_quick_executable_that_dies_has_failed_as_a_whole(self):
        self.table["seconds"]["box/one"] = 1
        self.executable("one", "def t_a(): pass\ndef t_b(): os._exit(0)")
        code, said = self.run_tests()
        self.assertEqual((code, said.splitlines()[-1]), (101, "0 passed, 1 failed"))
        self.assertIn("\nFAILED box/one\n", said)

    def test_what_hangs_is_ended_and_shown(self):
        self.executable("one", "def t_a():\n os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '977'); time.sleep(600)")
        code, said = self.run_tests(LANCET_TIMEOUT="0.5")
        self.assertEqual(code, 101)
        self.assertRegex(said, r"ended after 0 s; its processes were:")
        self.assertRegex(said, r"(?m)^  \d+ S \S+ sleep 977$")
        self.assertEqual(subprocess.run(["pgrep", "-f", "sleep 97[7]"], stdout=subprocess.DEVNULL, check=False).returncode, 1)

    def test_the_longest_begin_first(self):
        self.table["seconds"]["box/one"] = {"t_a": 1, "t_c": 9}
        body = "".join(f"def t_{name}(): open(place + '/order', 'a').write('{name}')\n" for name in "abcd")
        self.executable("one", body)
        self.run_tests(LANCET_JOBS="1")
        # Those of which nothing is known stand in the middle.
        self.assertRegex((self.folder / "order").read_text(), "^c(bda|dba)$|^(b|d|c){3}a$")

    def test_a_test_that_wants_the_machine_has_it(self):
        self.table["alone"]["box/one t_a"] = "It measures."
        body = ("import glob\ndef busy(name, alone):\n open(place + '/run-' + name, 'w'); time.sleep(0.3)\n"
                " seen = len(glob.glob(place + '/run-*')); os.remove(place + '/run-' + name)\n"
                " assert os.environ['LANCET_ALONE'] == str(int(alone)) and (seen == 1 or not alone), seen\n"
                "def t_a(): busy('a', True)\n")
        body += "".join(f"def t_{name}(): busy('{name}', False)\n" for name in "bcdef")
        self.executable("one", body)
        code, said = self.run_tests(LANCET_JOBS="4")
        self.assertEqual(code, 0, said)

    def test_tests_that_disturb_each_other_are_apart(self):
        self.table["apart"]["box/one t_"] = "One device."
        body = ("def one():\n os.mkdir(place + '/held'); time.sleep(0.1); os.rmdir(place + '/held')\n"
                "def t_a(): one()\ndef t_b(): one()\ndef t_c(): one()")
        self.executable("one", body)
        code, said = self.run_tests(LANCET_JOBS="4")
        self.assertEqual(code, 0, said)
        self.assertNotIn("DISTURBED", said)

    def test_signals_and_cores_are_as_tests_need_them(self):
        self.executable("one", "import resource\ndef t_a():\n"
                        " assert signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler)\n"
                        " assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0")
        shell = ["sh", "-c", "trap '' INT HUP QUIT; exec \"$0\"", str(TESTS)]
        done = subprocess.run(shell, env=self.environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_ctrl_c_ends_everything(self):
        self.executable("one", "def t_a():\n open(place + '/began', 'w'); os.spawnlp(os.P_WAIT, 'sleep', 'sleep', '978')")
        tests = subprocess.Popen([str(TESTS)], env=self.environment(), stdout=subprocess.PIPE, text=True)
        while not (self.folder / "began").exists():
            time.sleep(0.01)
        tests.send_signal(signal.SIGINT)
        said, _ = tests.communicate(timeout=60)
        self.assertEqual(tests.returncode, 130, said)
        self.assertEqual(subprocess.run(["pgrep", "-f", "sleep 97[8]"], stdout=subprocess.DEVNULL, check=False).returncode, 1)

    def test_skipped_tests_are_said(self):
        self.executable("one", "def t_a(): print('test: SKIPPED a: no root')")
        _, said = self.run_tests()
        self.assertIn("SKIPPED a: no root\n", said)

    def test_sets_have_filters_and_variables_of_their_own(self):
        self.executable("one", "def t_a(): assert os.environ['V'] == '1'\ndef t_b(): assert os.environ['V'] == '2'")
        code, said = self.run_tests("V=1", "--test", "one", "--", "t_a", "+", "V=2", "--test", "one", "--", "t_b")
        self.assertEqual((code, said.splitlines()[-1]), (0, "2 passed, 0 failed"), said)

    def test_one_package_has_the_features_of_all(self):
        self.executable("one", "def t_a(): pass")
        for given, asked, passed in [("-p lancet-box --test one", "--workspace --test one", 1), ("-p lancet-box --lib", "-p lancet-box --lib", 1),
                                     ("-p lancet-other --test one", "--workspace --test one", 0)]:
            _, said = self.run_tests(*given.split())
            self.assertEqual(said.splitlines()[-1], f"{passed} passed, 0 failed", given)
            self.assertTrue((self.folder / "asked").read_text().endswith(f" {asked}\n"), given)

    def test_examples_are_run_without_a_library_that_only_they_would_build(self):
        self.executable("one", "def t_a(): pass")
        self.run_tests("--workspace")
        self.assertTrue((self.folder / "asked").read_text().endswith("test --doc --workspace --exclude lancet-agent\n"))

    def test_quick_runs_what_is_quick_and_what_is_listed(self):
        self.table["seconds"] = {"box/one": 1, "box/two": {}}
        self.table["quick"] = ["box/two t_c"]
        self.executable("one", "def t_a(): pass\ndef t_b(): pass")
        self.executable("two", "def t_c(): pass\ndef t_d(): assert False")
        code, said = self.run_tests("--quick")
        self.assertEqual((code, said.splitlines()[-1]), (0, "3 passed, 0 failed"))

    def test_times_are_kept(self):
        self.table["seconds"] = {"box/one": 7, "box/two": {"t_c": 9}}
        self.executable("one", "def t_a(): pass")
        self.executable("two", "def t_c(): pass\ndef t_d(): time.sleep(2.5)")
        self.run_tests("--save")
        kept = json.loads((self.folder / "table.json").read_text())["seconds"]
        kept["box/two"]["t_d"] = min(kept["box/two"]["t_d"], 2)
        self.assertEqual(kept, {"box/one": 0, "box/two": {"t_d": 2}, "documentation": 0})

    def test_what_each_took_is_written_the_dearest_first(self):
        self.executable("one", "def t_a(): time.sleep(0.2)\ndef t_b():\n while time.process_time() < 0.3: pass")
        self.run_tests()
        head, *rows = [line.split("\t") for line in (self.folder / "target/test-times.tsv").read_text().splitlines()]
        self.assertEqual(head, ["seconds", "processor", "test"])
        self.assertEqual(sorted(row[2] for row in rows), ["box/one t_a", "box/one t_b", "documentation"])
        self.assertEqual(rows[0][2], "box/one t_b")
        self.assertGreaterEqual(float(rows[0][1]), 0.3)

    def test_folders_of_processes_that_are_gone_are_removed(self):
        self.executable("one", "def t_a(): os.mkdir(place + '/lancet-test-x-%d-0' % os.getpid())")
        (self.folder / f"lancet-test-mine-{os.getpid()}-0").mkdir()
        self.run_tests()
        self.assertEqual([path.name for path in self.folder.glob("lancet-test-*")], [f"lancet-test-mine-{os.getpid()}-0"])


def imported():
    """The program as a module, without a compiled file beside it."""
    sys.dont_write_bytecode = True
    loader = SourceFileLoader("tests", str(TESTS))
    module = module_from_spec(spec_from_loader("tests", loader))
    loader.exec_module(module)
    return module


class Places(unittest.TestCase):
    """How many tests run at once."""

    def test_more_run_while_processors_have_nothing_to_do(self):
        tests = imported()
        tests.Places.LOOK = 0
        idle = busy = 0
        places = tests.Places(3, 5, lambda: f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 …\n")
        counts = []
        # Seconds in which so many hundredths of the processors' time were idle.
        for share in (100, 30, 26, 20, 6, 4, 0, 0, 25, 40):
            idle, busy = idle + share, busy + 100 - share
            places.look()
            counts.append(places.count)
        self.assertEqual(counts, [4, 5, 5, 5, 5, 4, 3, 3, 3, 4])

    def test_a_number_that_is_given_stays(self):
        tests = imported()
        tests.Places.LOOK = 0
        places = tests.Places(3, 3, lambda: "cpu  0 0 0 0 0 0 0 0 0 0\n")
        places.read = lambda: self.fail("nobody asks how busy they are")
        places.look()
        self.assertEqual(places.count, 3)


class Compiler(unittest.TestCase):
    """A made-up repository with .ci/compiler, and a compiler that counts how often it is run."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in (".ci", "bin", "real", "kept", "out"):
            (self.folder / name).mkdir()
        shutil.copy(TESTS.parent / "compiler", self.folder / ".ci/compiler")
        (self.folder / "bin/gcc").symlink_to(self.folder / ".ci/compiler")
        real = shutil.which("gcc")
        (self.folder / "real/gcc").write_text(f'#!/bin/sh\necho >>{self.folder}/runs\nexec {real} "$@"\n')
        (self.folder / "real/gcc").chmod(0o755)
        (self.folder / "value.h").write_text("#define VALUE 3\n")
        (self.folder / "value.c").write_text('#include "value.h"\nint main(void) { return VALUE; }\n')

    def compile(self, *more):
        """The code of the compiler, and of the program that came out."""
        out = self.folder / "out" / f"program-{time.monotonic_ns()}"
        path = f"{self.folder}/bin:{self.folder}/real:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LANCET_COMPILED": str(self.folder / "kept")}
        command = ["gcc", "-O1", "-o", str(out), str(self.folder / "value.c"), *more]
        code = subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False).returncode
        return code, subprocess.run([out], check=False).returncode if out.exists() else None

    def runs(self):
        return (self.folder / "runs").read_text().count("\n")

    def test_a_program_is_compiled_once_and_again_when_anything_it_is_made_of_changes(self):
        self.assertEqual([self.compile() for _ in range(3)], [(0, 3)] * 3)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.compile("-DOTHER"), (0, 3))
        self.assertEqual(self.runs(), 2)
        (self.folder / "value.h").write_text("#define VALUE 4\n")
        self.assertEqual([self.compile() for _ in range(2)], [(0, 4)] * 2)
        self.assertEqual(self.runs(), 3)

    def test_what_cannot_be_compiled_is_not_kept(self):
        (self.folder / "value.c").write_text("no C\n")
        self.assertEqual([self.compile() for _ in range(2)], [(1, None)] * 2)
        self.assertEqual(self.runs(), 2)


if __name__ == "__main__":
    unittest.main()
