"""The plugin, as pytest finds it: a test within its limit passes, and one beyond it fails and says where."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = '''
import os
import pytest


@pytest.fixture
def before():
    os.getppid()


@pytest.mark.limit_calls("getppid", 2)
def test_within(before):
    os.getppid()
    os.getppid()


@pytest.mark.limit_calls("getppid", 1)
def test_beyond():
    os.getppid()
    os.getppid()


@pytest.mark.limit_syscalls("getppid", 0)
@pytest.mark.limit_calls("getpid", 9)
def test_two_limits():
    os.getppid()


@pytest.mark.limit_calls("getppid", most=1)
def test_by_name():
    os.getppid()


@pytest.mark.limit_calls("getppid")
def test_without_a_limit():
    pass


@pytest.mark.limit_syscalls("fsync", "1")
def test_with_a_limit_that_is_no_number():
    pass


@pytest.mark.limit_calls("no_such_function", 1)
def test_of_nothing():
    pass


@pytest.mark.limit_calls("getppid", 0)
def test_that_fails_anyhow():
    os.getppid()
    assert "this" == "that"
'''


class Plugin(unittest.TestCase):
    """Runs pytest on a file of tests with limits, and looks at what it says of each."""

    def said_of(self, folder, tests, **variables):
        """What pytest says of these tests."""
        file = pathlib.Path(folder, "test_limits.py")
        file.write_text(tests)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:]), **variables},
            cwd=folder,
            check=False,
        )
        return done.stdout.decode()

    def test_the_limits_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            said = self.said_of(folder, TESTS)
            file = pathlib.Path(folder, "test_limits.py")
        self.assertIn("5 failed, 3 passed", said)
        # pluggy from 1.2 on warns of a wrapper of the old kind that raises.
        self.assertNotIn("PluggyTeardownRaisedWarning", said)
        self.assertIn("getppid was called 2 times, at most 1 allowed:", said)
        self.assertIn(f"getppid() at {file}:{TESTS.splitlines().index('def test_beyond():') + 2}", said)
        self.assertIn("getppid was called 1 times, at most 0 allowed:", said)
        self.assertIn("assert 'this' == 'that'", said)
        self.assertIn('limit_calls takes a name and a number: @pytest.mark.limit_calls("fsync", most=3)', said)
        self.assertNotIn("_name_and_most", said)
        self.assertIn("there is no function no_such_function in this process", said)

    def test_where_calls_may_be_missing_nobody_knows(self):
        companion = f"""#!{sys.executable}
import json, os, sys
if os.fork():
    os._exit(0)
print(json.dumps({{"lancet": "0", "protocol": 4, "pid": os.getpid()}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    answer = {{"watch": 1}} if request["do"] == "watch" else {{"exit": 4, "said": ["7 calls are not shown"], "lost": 0}}
    print(json.dumps({{"id": request["id"], "ok": answer}}), flush=True)
"""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "lancet")
            program.write_text(companion)
            program.chmod(0o755)
            said = self.said_of(folder, "import pytest\n@pytest.mark.limit_calls('fsync', 1)\ndef test_it(): pass\n", LANCET_BIN=str(program))
        self.assertIn("1 failed", said)
        self.assertRegex(said, "whether fsync was called at most 1 times is not known:\\s+7 calls are not shown")


if __name__ == "__main__":
    unittest.main()
