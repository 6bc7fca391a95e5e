"""What is in the program that is shipped, beside lancet's own code: crates of the registry, Rust's standard library with crates of its own, and the C library and the
unwinder of GCC, which a static program holds. `.ci/sbom` and `.ci/licences` are made of this.

The crates are those that Cargo compiles for the program on its platform, with the features that it turns on. The rest is what is installed on the machine that asks, so the
program must be built there, too.
"""

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "x86_64-unknown-linux-gnu"
# The program, and what its build script builds by a Cargo of its own and puts into it: no edge of Cargo's leads there.
PROGRAM, AGENT = "lancet", "lancet-agent"
# Packages of Debian of which a static program holds code: name, what it is, licence. (Of libgcc the exception is used, by which what is linked with it may have any licence.)
DEBIAN = {
    "libc6-dev": ("glibc", "LGPL-2.1-or-later"),
    "libgcc-12-dev": ("gcc-12", "GPL-3.0-or-later WITH GCC-exception-3.1"),
}
# Crates of the library that only tests and macros have.
NOT_IN_PROGRAMS = {"getopts", "rustc-literal-escaper"}


@dataclass(frozen=True, order=True)
class Crate:
    """One crate as Cargo names it."""

    name: str
    version: str


@dataclass
class Shipped:
    """Crates by name and version with what each needs; those whose code is of this repository; what Cargo says of each."""

    needs: dict[Crate, set[Crate]] = field(default_factory=dict)
    packages: dict[Crate, dict] = field(default_factory=dict)

    def is_ours(self, crate):
        """Whether its code is of this repository."""
        return self.packages[crate]["source"] is None

    def program(self):
        """The crate of the program itself."""
        return next(crate for crate in self.needs if crate.name == PROGRAM)


def crates():
    """The crates that are compiled into the program, and by its build scripts and macros."""
    found = Shipped()
    for name in (PROGRAM, AGENT):
        _add(found.needs, _said(["cargo", "tree", "--locked", "-p", name, "-e", "normal,build", "--target", PLATFORM, "--prefix", "depth", "--format", " {p}"]))
    agent = next(crate for crate in found.needs if crate.name == AGENT)
    found.needs[found.program()].add(agent)
    known = json.loads(_said(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM]))
    for package in known["packages"]:
        found.packages[Crate(package["name"], package["version"])] = package
    return found


def _add(needs, tree):
    """Adds what a tree of Cargo's shows: a line is `DEPTH NAME vVERSION …`, and one whose needs stand elsewhere ends with `(*)`."""
    above = []
    for line in tree.splitlines():
        if not line.strip():
            continue
        depth, name, version = line.split()[:3]
        crate = Crate(name, version.removeprefix("v"))
        needs.setdefault(crate, set())
        del above[int(depth) :]
        if above:
            needs[above[-1]].add(crate)
        above.append(crate)


def checksums():
    """The SHA-256 of each crate of the registry."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {Crate(one["name"], one["version"]): one["checksum"] for one in lock["package"] if "checksum" in one}


def compiler():
    """The version of Rust's compiler, which is that of its standard library."""
    return re.search(r"^release: (.+)$", _said(["rustc", "-vV"]), re.M)[1]


def notices():
    """The folder of the notices of Rust's standard library."""
    return Path(_said(["rustc", "--print", "sysroot"]).strip()) / "share/doc/rust"


def of_std():
    """The crates of which code is in Rust's standard library on this platform, each with its licence and the texts by file, as its own list names them. One of which that list has
    no version (addr2line, which is in the sources of `backtrace`) is not told apart from the library."""
    page = notices() / "COPYRIGHT-library.html"
    built = {path.name[3:].rpartition("-")[0] for path in (page.parents[3] / "lib/rustlib" / PLATFORM / "lib").glob("lib*.rlib")}
    if not page.is_file() or not built:
        sys.exit(f"{page} is not there: take a toolchain of rustup's, with {PLATFORM}")
    found = {}
    for part in page.read_text(encoding="utf-8").split("<h3>")[1:]:
        name, _, version = re.match(r"\S+ (\S+)</h3>", part)[1].rpartition("-")
        if name.replace("-", "_") in built and name not in NOT_IN_PROGRAMS:
            licence = re.search(r"<b>License:</b> ([^<]+)", part)[1].strip()
            files = re.findall(r"<summary><code>(.+?)</code></summary>\s*<pre>(.*?)</pre>", part, re.S)
            found[Crate(name, version)] = (unescape(licence), {file: unescape(text) for file, text in files})
    return found


def copyright_of_std():
    """Who holds the rights of Rust's standard library: a line for each folder or file of its own, as its own list names them."""
    page = (notices() / "COPYRIGHT-library.html").read_text(encoding="utf-8").partition('<h2 id="out-of-tree')[0]
    said = re.findall(r"<b>(File/Directory|License|Copyright):</b> ([^\n]+)", page)
    return "\n".join(f"{what}: {unescape(re.sub('<[^>]+>', '', value)).strip()}" for what, value in said)


def of_debian():
    """The version of each package of `DEBIAN` on this machine."""
    listed = _said(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *DEBIAN])
    return dict(line.split() for line in listed.splitlines())


def _said(words):
    try:
        return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    except FileNotFoundError:
        sys.exit(f"{words[0]} is not installed: what the program is made of is known on Debian with Rust's toolchain")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
