"""The one table of a run."""

import statistics
import sys

from session import SCALE

HEAD = ["guest", "case", "figure", "median", "spread", "n", "target", "met", "beside"]
rows = []


def row(ruby, case, figure, values=(), unit="", digits=2, target=None, judge=None, beside=""):
    """One line. `target` is ("≤", limit); `judge` makes of the values the figure that must hold it, else the median."""
    if not values:
        return skip(ruby, case, figure, beside)
    show = lambda value: f"{value:,.{digits}f}{unit}"
    met = limit = ""
    if target:
        sign, bound = target
        value = (judge or statistics.median)(values)
        limit = f"{sign} {bound:g}{unit}" + (" (worst)" if judge else "")
        holds = {"≤": value <= bound, "<": value < bound, "≥": value >= bound, "=": value == bound}
        met = "yes" if holds[sign] else "NO"
        if SCALE < 1:
            met = f"({met})"
        limit = limit.removeprefix("= ")
    low, high = show(min(values)).removesuffix(unit), show(max(values)).removesuffix(unit)
    spread = f"{low} – {high}" if len(values) > 1 else ""
    rows.append([ruby, case, figure, show(statistics.median(values)), spread, str(len(values)), limit, met, beside])
    say(f"    {rows[-1][0]} {case}: {figure} {rows[-1][3]} {spread} {met}")


def skip(ruby, case, figure, why):
    # What is not here is a skip; what went wrong is not.
    word = "FAILED" if "FAILED" in why or "WRONG" in why else "skip"
    rows.append([ruby, case, figure, word, "", "0", "", "", why.replace("FAILED: ", "") or "not measured"])
    say(f"    {word}: {ruby} {case}: {figure}: {rows[-1][8]}")


def word(guest, case, figure, what, beside):
    """A line for what has no figure and is no skip: a rival that crashes, or sees nothing."""
    rows.append([guest, case, figure, what, "", "", "", "", beside])
    say(f"    {guest} {case}: {figure}: {what}: {beside}")


def table():
    cells = [HEAD, *([c.replace("|", "\\|").replace("\n", " ") for c in r] for r in rows)]
    widths = [max(len(r[i]) for r in cells) for i in range(len(HEAD))]
    right = {3, 4, 5, 6}
    fit = lambda i, cell: cell.rjust(widths[i]) if i in right else cell.ljust(widths[i])
    lines = ["| " + " | ".join(fit(i, cell) for i, cell in enumerate(r)) + " |" for r in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 1) + (":" if i in right else "-") for i, w in enumerate(widths)) + "|")
    return "\n".join(lines)


def say(text):
    print(text, file=sys.stderr, flush=True)
