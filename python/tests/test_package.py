"""The wheel as backend.py builds it of this folder, and what pyproject.toml says."""

import importlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

FOLDER = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FOLDER))
backend = importlib.import_module("backend")


class Package(unittest.TestCase):
    """Built twice, of the same files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)
        self.program = self.place / "lancet"
        self.program.write_text("#!/bin/sh\necho lancet of this test\n")
        self.program.chmod(0o755)

    def in_the_repository(self):
        """Cargo.toml, where it is."""
        cargo = FOLDER.parent / "Cargo.toml"
        if not cargo.exists():
            self.skipTest("the repository is not here, as in the root of another version")
        return cargo

    def built(self, name="wheel", **how):
        """The bytes of a wheel."""
        self.in_the_repository()
        folder = self.place / name
        subprocess.run([sys.executable, FOLDER / "backend.py", self.program, folder], check=True, stdout=subprocess.DEVNULL, **how)
        (wheel,) = folder.iterdir()
        return wheel.read_bytes()

    def test_two_builds_are_equal(self):
        first = self.built("first")
        # Other modes of files, another time of the program's.
        self.program.chmod(0o700)
        os.utime(self.program, (0, 0))
        self.assertEqual(first, self.built("second", preexec_fn=lambda: os.umask(0o077)))

    def test_what_is_in_it(self):
        with zipfile.ZipFile(io.BytesIO(self.built())) as wheel:
            names = wheel.namelist()
            modes = {entry.filename: entry.external_attr >> 16 for entry in wheel.infolist()}
            (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
            metadata = wheel.read(f"{info}/METADATA").decode()
            points = wheel.read(f"{info}/entry_points.txt").decode()
        source = {f"lancet/{path.name}" for path in (FOLDER / "src" / "lancet").iterdir() if path.is_file()}
        self.assertLessEqual(source | {"lancet/py.typed", "lancet/bin/lancet", f"{info}/licenses/LICENSE-MIT", f"{info}/licenses/LICENSE-APACHE"}, set(names))
        self.assertEqual({name for name, mode in modes.items() if mode != 0o100644}, {"lancet/bin/lancet"})
        self.assertIn("\nLicense-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n", metadata)
        self.assertIn("\nClassifier: Typing :: Typed\n", metadata)
        self.assertIn("\nRequires-Dist: duckdb; extra == 'fleet'\n", metadata)
        self.assertEqual(points, "[console_scripts]\nlancet = lancet.__main__:main\n\n[pytest11]\nlancet = lancet.pytest_plugin\n")

    def test_its_own_reader_of_pyproject_reads_what_pythons_does(self):
        if sys.version_info < (3, 11):
            self.skipTest("Python before 3.11 has no reader of TOML")
        import tomllib

        known = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        tables = backend.project()
        self.assertEqual(tables.pop("project"), {name: value for name, value in known.items() if not isinstance(value, dict)})
        self.assertEqual(tables.pop("project.entry-points.pytest11"), known["entry-points"]["pytest11"])
        self.assertEqual(tables, {f"project.{name}": known[name] for name in ("urls", "scripts", "optional-dependencies")})

    def test_its_links_are_those_of_the_repository(self):
        cargo = self.in_the_repository().read_text(encoding="utf-8")
        repository = re.search(r'^repository = "(.+)"$', cargo, re.M)[1]
        for url in backend.project()["project.urls"].values():
            self.assertTrue(url.startswith(repository), url)

    def pip(self, *words, program):
        """Has pip install this folder, from nowhere else."""
        env = {**os.environ, "LANCET_BIN": str(program), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        env.pop("PYTHONPATH", None)
        words = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", *words, str(FOLDER)]
        return subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)

    def test_pip_installs_the_folder_without_a_network(self):
        self.in_the_repository()
        if importlib.util.find_spec("pip") is None:
            self.skipTest("there is no pip")
        target = self.place / "packages"
        done = self.pip("--target", target, program=self.program)
        self.assertEqual(done.returncode, 0, done.stdout)
        said = subprocess.run([target / "bin" / "lancet"], env={"PYTHONPATH": str(target)}, stdout=subprocess.PIPE, check=True)
        self.assertEqual(said.stdout, b"lancet of this test\n")
        refused = self.pip("--target", self.place / "none", program="/no/lancet")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("lancet: there is no program /no/lancet: run `make build` first, or name a lancet in LANCET_BIN", refused.stdout)
        self.assertNotIn("Traceback", refused.stdout)
        # A folder can be entered, and not run.
        refused = self.pip("--target", self.place / "none", program=self.place)
        self.assertIn("lancet: there is no program /", refused.stdout)

    def test_pip_takes_a_program_by_a_path_of_the_repository(self):
        root = self.in_the_repository().parent
        if importlib.util.find_spec("pip") is None:
            self.skipTest("there is no pip")
        target = self.place / "packages"
        done = self.pip("--target", target, program=os.path.relpath(self.program, root))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual((target / "lancet" / "bin" / "lancet").read_bytes(), self.program.read_bytes())

    def test_the_licences_of_others(self):
        self.in_the_repository()
        (self.place / "THIRD-PARTY.txt").write_text("theirs")
        words = [sys.executable, FOLDER / "backend.py", self.program, self.place / "wheels", self.place / "THIRD-PARTY.txt"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = (self.place / "wheels").iterdir()
        with zipfile.ZipFile(wheel) as archive:
            (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
            self.assertEqual(archive.read(f"{info}/licenses/THIRD-PARTY.txt"), b"theirs")
            self.assertIn("\nLicense-File: THIRD-PARTY.txt\n", archive.read(f"{info}/METADATA").decode())


if __name__ == "__main__":
    unittest.main()
