"""Instructions that lancet needs for a call, counted by callgrind: figures that repeat on any machine, however busy it is.

A fixed image of a ring (crates/calls/src/live/guest/straight/counted.rs) is read into a recording, and the recording is
read again in each way. Each is done with so many calls and with twice as many; the difference is what the calls cost,
without what comes before and after them.
"""

import os
import re
import shutil
import subprocess

from session import LANCET, PLACE, SCALE, STEP, TOP, Failed
from table import row, skip

CALLS = max(5_000, int(100_000 * SCALE))
COUNTED = os.environ.get("LANCET_COUNTED_BIN", os.path.join(TOP, "target/counted"))
TEST = "live::guest::straight::counted::a_ring_becomes_a_recording_call_by_call"
READ = {"counted by -c": ["-c"], "printed as a line": [], "printed by --json": ["--json"]}


def instructions(command, **env):
    """Of a command, in all its threads."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(valgrind, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, timeout=STEP, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise Failed(f"FAILED: {' '.join(command)} ended with {done.returncode}: {done.stderr[-200:]}")
    return int(found[1])


def counted():
    if why := next((f"{what} is missing" for what in ("valgrind", COUNTED, LANCET) if not shutil.which(what)), None):
        return skip("C", "ring image", "instructions a call", why)
    try:
        files = {calls: os.path.join(PLACE, f"counted-{calls}") for calls in (CALLS, 2 * CALLS)}
        once, twice = (instructions([COUNTED, "--exact", TEST], LANCET_COUNTED=str(calls), LANCET_COUNTED_FILE=file)
                       for calls, file in files.items())
        row("C", "ring image", "instructions a call, recorded", [(twice - once) / CALLS], "", 0,
            beside=f"{os.path.getsize(files[2 * CALLS]) / 2 / CALLS:.1f} bytes a call")
        for what, options in READ.items():
            once, twice = (instructions([LANCET, "calls", *options, file]) for file in files.values())
            row("C", "recording", f"instructions a call, {what}", [(twice - once) / CALLS], "", 0)
    except (Failed, OSError, subprocess.TimeoutExpired) as failed:
        skip("C", "ring image", "instructions a call", f"FAILED: {failed}")
    return None
