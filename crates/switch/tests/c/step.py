"""For gdb: steps through resumes and suspends, and prints where no backtrace leads from the fiber out to main."""
import gdb


def names():
    frame, found = gdb.newest_frame(), []
    while frame is not None and len(found) < 30:
        found.append(frame.name())
        frame = frame.older()
    return found


gdb.execute("break resumer")
for arguments in ("", "keep"):
    gdb.execute(f"run {arguments}", to_string=True)
    seen, lost = set(), set()
    for _ in range(300):
        gdb.execute("stepi", to_string=True)
        pc = int(gdb.parse_and_eval("$pc"))
        seen.add(pc)
        stack = names()
        if "resumer" not in stack or stack[-1] != "main":
            lost.add(pc)
    print(f"\nsteps at {len(seen)} instructions, lost at {len(lost)}")
    for pc in lost:
        print("lost:", gdb.execute(f"x/i {pc}", to_string=True).strip())
