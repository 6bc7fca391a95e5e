#!/usr/bin/env python3
"""Builds the package and the program as one wheel: as pip asks for it (PEP 517, `pip install ./python`), or by hand.

    python3 python/backend.py target/lancet FOLDER [THIRD-PARTY.txt]     FOLDER/lancet-VERSION-py3-none-manylinux_2_17_x86_64.….whl

A wheel is a zip with some files of metadata, so nothing has to be installed to build it. The same files make the same bytes. pip takes the program that
LANCET_BIN names (a path of the repository), or the one that `make build` has made. THIRD-PARTY.txt holds the licences of what the program holds of others
(`.ci/licences`), without which a wheel must not be given to anybody. The program is static and runs on any Linux of its processor; the tag names the oldest C library
that pip has a word for.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import pathlib
import re
import sys
import zipfile
from typing import Any

TAG = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "src" / "lancet"
PROGRAM = "lancet/bin/lancet"


class UnsupportedOperation(Exception):
    """Raised where something cannot be built, as PEP 517 asks for."""


def build_wheel(wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None) -> str:
    """The hook of PEP 517: builds the wheel, and returns the name of its file."""
    del config_settings, metadata_directory
    # First, because where they are not, the program is not either.
    _licenses(project()["project"]["license-files"])
    # pip calls this in a folder of its own choice.
    program = HERE.parent / (os.environ.get("LANCET_BIN") or "target/lancet")
    if not (program.is_file() and os.access(program, os.X_OK)):
        sys.exit(f"lancet: there is no program {program}: run `make build` first, or name a lancet in LANCET_BIN")
    return _built(program, pathlib.Path(wheel_directory)).name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """The hook of PEP 517: there is no archive of this folder alone, because the program is made of the rest of the repository."""
    del sdist_directory, config_settings
    raise UnsupportedOperation("the program in the wheel is built from the whole repository: take that, or the wheel")


def project() -> dict[str, dict[str, Any]]:
    """The tables of pyproject.toml from `[project]` on, by name: texts and lists of texts, which TOML writes as Python does. (Python has a reader of all of
    TOML since 3.11; a test compares.)"""
    tables: dict[str, dict[str, Any]] = {}
    table: dict[str, Any] = {}
    value = name = ""
    for line in (HERE / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if value:
            value += line
        elif line.startswith("["):
            table = tables[line.strip("[]")] = {}
            continue
        elif line and not line.startswith("#"):
            name, _, value = line.partition(" = ")
        if value.startswith('"') or value.endswith("]"):
            table[name] = ast.literal_eval(value)
            value = ""
        elif not value.startswith("["):
            value = ""
    return {name: table for name, table in tables.items() if name.partition(".")[0] == "project"}


def _built(program: pathlib.Path, folder: pathlib.Path, third_party: pathlib.Path | None = None) -> pathlib.Path:
    """Builds the wheel with this program, and the licences of what it holds of others, into a folder; its path."""
    said = re.search(r'^__version__ = "(.+)"$', (SOURCE / "__init__.py").read_text(encoding="utf-8"), re.M)
    assert said is not None
    version = said[1]
    info = f"lancet-{version}.dist-info"
    # In one order, whatever that of the folder is; the metadata stands last, as PEP 427 asks for.
    files = {f"lancet/{path.name}": path.read_bytes() for path in sorted(SOURCE.iterdir()) if path.suffix == ".py" or path.name == "py.typed"}
    files[PROGRAM] = program.read_bytes()
    files.update({f"{info}/{name}": data for name, data in _metadata(version, third_party).items()})
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"lancet-{version}-{TAG}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            # It has a time of its own, the first that a zip can hold.
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if name == PROGRAM else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _metadata(version: str, third_party: pathlib.Path | None) -> dict[str, bytes]:
    """The files of `dist-info`, but for RECORD."""
    tables = project()
    known = tables["project"]
    extras = tables["project.optional-dependencies"]
    licenses = [*_licenses(known["license-files"]), *([third_party] if third_party else [])]
    python, abi, platforms = TAG.split("-")
    heads = [
        "Metadata-Version: 2.4",
        f"Name: {known['name']}",
        f"Version: {version}",
        f"Summary: {known['description']}",
        f"Keywords: {','.join(known['keywords'])}",
        f"License-Expression: {known['license']}",
        *(f"License-File: {path.name}" for path in licenses),
        *(f"Classifier: {one}" for one in known["classifiers"]),
        *(f"Project-URL: {label}, {url}" for label, url in tables["project.urls"].items()),
        f"Requires-Python: {known['requires-python']}",
        "Description-Content-Type: text/markdown",
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(f"Requires-Dist: {need}; extra == '{extra}'" for extra, needs in extras.items() for need in needs),
    ]
    readme = (HERE / known["readme"]).read_text(encoding="utf-8")
    tags = [f"Tag: {python}-{abi}-{platform}" for platform in platforms.split(".")]
    points = {"console_scripts": tables["project.scripts"], "pytest11": tables["project.entry-points.pytest11"]}
    return {
        "METADATA": "\n".join([*heads, "", readme]).encode(),
        "WHEEL": "\n".join(["Wheel-Version: 1.0", "Generator: lancet", "Root-Is-Purelib: false", *tags, ""]).encode(),
        "entry_points.txt": "\n".join(
            line for group, entries in points.items() for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), "")
        ).encode(),
        **{f"licenses/{path.name}": path.read_bytes() for path in licenses},
    }


def _licenses(patterns: list[str]) -> list[pathlib.Path]:
    """Their files, in one order: links to those of the repository."""
    found = sorted(path for pattern in patterns for path in HERE.glob(pattern))
    if not found or not all(path.exists() for path in found):
        sys.exit("lancet: this folder was copied away from its repository: take pip 21.3 or later, which builds in place, or run backend.py by hand")
    return found


def _digest(data: bytes) -> str:
    """As RECORD has it: urlsafe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    print(_built(*map(pathlib.Path, sys.argv[1:])))
