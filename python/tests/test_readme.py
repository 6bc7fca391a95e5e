"""The examples of README.md: what they print is what stands below them."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", README, re.M | re.S)


class Examples(unittest.TestCase):
    """Of the page."""

    def test_what_they_print(self):
        printed = [(code, output) for code, output in EXAMPLES if output]
        self.assertGreaterEqual(len(printed), 2)
        for code, output in printed:
            done = subprocess.run(
                [sys.executable, "-c", code],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                check=False,
            )
            self.assertEqual((done.stdout.decode(), done.returncode), (output, 0), code)

    def test_the_others_are_python(self):
        for code, output in EXAMPLES:
            if not output:
                compile(code, "README.md", "exec")


if __name__ == "__main__":
    unittest.main()
