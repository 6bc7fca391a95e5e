"""The `lancet` program: the file of LANCET_BIN, or the one in this package."""

from __future__ import annotations

import os

from ._error import Error

CARRIED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lancet")


def path() -> str:
    """Its path."""
    found = os.environ.get("LANCET_BIN") or CARRIED
    if os.access(found, os.X_OK):
        return found
    raise Error(
        f"there is no program {found}: install the wheel for Linux on x86-64, or name a lancet in LANCET_BIN"
    )
