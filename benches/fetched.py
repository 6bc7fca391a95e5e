#!/usr/bin/python3
"""fetched: rivals that Debian does not have, in $LANCET_RIVALS (~/.cache/lancet/rivals).

  benches/fetched.py    fetches what is missing; says what cannot be had and why, and that is no error

frida and py-spy come from PyPI into a virtual environment, rbspy is built from crates.io. Their versions are fixed here.
"""

import os
import shutil
import subprocess
import sys

PLACE = os.environ.get("LANCET_RIVALS") or os.path.join(os.path.expanduser("~"), ".cache/lancet/rivals")
PYTHON = os.path.join(PLACE, "venv/bin/python")
VERSIONS = {"frida": "17.26.0", "py-spy": "0.4.3", "rbspy": "0.55.0"}
PROGRAMS = {"frida": PYTHON, "py-spy": os.path.join(PLACE, "venv/bin/py-spy"), "rbspy": os.path.join(PLACE, "bin/rbspy")}


def missing(name):
    """Why it is not here; nothing if it is."""
    try:
        with open(os.path.join(PLACE, name + ".version"), encoding="ascii") as file:
            found = file.read().strip()
    except OSError:
        found = ""
    if found == VERSIONS[name] and os.path.exists(PROGRAMS[name]):
        return ""
    try:
        with open(os.path.join(PLACE, name + ".why"), encoding="utf-8") as file:
            return "not fetched: " + (file.read().strip() or "no reason given")
    except OSError:
        return "not fetched; make deps-bench"


def versions():
    return [f"{name} {'missing' if missing(name) else VERSIONS[name]}" for name in VERSIONS]


def fetch(name, *commands):
    if not missing(name):
        return
    print(f"fetching {name} {VERSIONS[name]} …", file=sys.stderr)
    why = os.path.join(PLACE, name + ".why")
    for command in commands:
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=1800)
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        if said:
            with open(why, "w", encoding="utf-8") as file:
                file.write(said)
            print(f"{name}: {said}", file=sys.stderr)
            return
    with open(os.path.join(PLACE, name + ".version"), "w", encoding="ascii") as file:
        file.write(VERSIONS[name])


def main():
    os.makedirs(PLACE, exist_ok=True)
    venv = [] if os.path.exists(PYTHON) else [["python3", "-m", "venv", os.path.join(PLACE, "venv")]]
    for name in ("frida", "py-spy"):
        fetch(name, *venv, [PYTHON, "-m", "pip", "install", "--quiet", f"{name}=={VERSIONS[name]}"])
    cargo = shutil.which("cargo") or "cargo"
    fetch("rbspy", [cargo, "install", "--quiet", "--locked", "--root", PLACE, "--version", VERSIONS["rbspy"], "rbspy"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
