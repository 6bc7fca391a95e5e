"""Rivals that Debian does not have, as `.ci/rival` has fetched them."""

import os

from session import run

PLACE = os.environ.get("LANCET_RIVALS") or os.path.join(os.path.expanduser("~"), ".cache/lancet/rivals")
NAMES = ["frida", "memprof", "memray", "py-spy", "rbspy"]
# Of memprof it is the extension. A link to the Python that has it would lose its packages: the real one is named.
PROGRAMS = {name: os.path.join(PLACE, "bin", name) for name in NAMES} | {
    name: os.path.join(PLACE, name, "bin/python") for name in ("frida", "memray")}


def missing(name):
    """Why it is not here; nothing if it is."""
    if os.path.exists(PROGRAMS[name]):
        return ""
    try:
        with open(os.path.join(PLACE, name + ".why"), encoding="utf-8") as file:
            return "not fetched: " + (file.read().strip().splitlines() or ["no reason given"])[-1]
    except OSError:
        return "not fetched; make deps-bench"


def version(name):
    if missing(name):
        return "missing"
    if name in ("frida", "memray"):
        return run([PROGRAMS[name], "-c", f"import {name}; print({name}.__version__)"])
    if name == "memprof":
        return run(["php", "-d", "extension=" + PROGRAMS[name], "-r", "echo phpversion('memprof');"])
    return run([PROGRAMS[name], "--version"]).split()[-1]


def versions():
    return [f"{name} {version(name)}" for name in NAMES]
