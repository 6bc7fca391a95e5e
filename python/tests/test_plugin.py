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


@pytest.mark.limit_calls("getppid", 0)
def test_that_fails_anyhow():
    os.getppid()
    assert "this" == "that"
'''


class Plugin(unittest.TestCase):
    """Runs pytest on a file of tests with limits, and looks at what it says of each."""

    def test_the_limits_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "test_limits.py")
            file.write_text(TESTS)
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(file)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:])},
                cwd=folder,
                check=False,
            )
        said = done.stdout.decode()
        self.assertIn("3 failed, 1 passed", said)
        self.assertIn("getppid was called 2 times, at most 1 allowed:", said)
        self.assertIn(f"getppid() at {file}:{TESTS.splitlines().index('def test_beyond():') + 2}", said)
        self.assertIn("getppid was called 1 times, at most 0 allowed:", said)
        self.assertIn("assert 'this' == 'that'", said)


if __name__ == "__main__":
    unittest.main()
