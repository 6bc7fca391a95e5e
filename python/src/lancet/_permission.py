"""The right of the companion to open this process, where Yama gives it only to a process's ancestors."""

from __future__ import annotations

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
# include/uapi/linux/prctl.h. Yama knows the process from then on, and its children.
PR_SET_PTRACER = 0x59616D61


def give(pid: int) -> None:
    """Lets `pid` open us. Under other scopes there is nothing to be given (0), or it is not ours to give (2 and 3), and then
    the companion says what to do."""
    try:
        with open(SCOPE, encoding="ascii") as file:
            if file.read().strip() != "1":
                return
    except FileNotFoundError:
        return
    prctl(PR_SET_PTRACER, pid)


def prctl(option: int, argument: int) -> None:
    """prctl(2); raises what the kernel answers."""
    # ctypes is loaded only where it is needed.
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl")
