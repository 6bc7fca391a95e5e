"""`python -m lancet …`: the program itself."""

from __future__ import annotations

import os
import sys

from . import _program
from ._error import Error


def main() -> None:
    """Becomes the program."""
    try:
        program = _program.path()
    except Error as error:
        sys.exit(f"lancet: {error}")
    os.execv(program, ["lancet", *sys.argv[1:]])


if __name__ == "__main__":
    main()
