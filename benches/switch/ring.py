"""thread-ring, 403 threads, in four builds: a table, and a plot as SVG.

ring.py DIRECTORY SVG: runs DIRECTORY/ring-{COPY,UCONTEXT,SETJMP,LANCET} in turn. The penalty of depth is taken
round by round, for the neighbours of a shared machine change from round to round. A second table is the reason why it
is not one figure for the copying build (DIRECTORY/copy-THREADS): it depends on which cache the stacks fit in.
"""
import math
import statistics
import subprocess
import sys

work, svg = sys.argv[1:3]
WAYS = [
    ("COPY", "stacks copied in and out", "#b03030"),
    ("UCONTEXT", "own stacks, swapcontext", "#c08020"),
    ("SETJMP", "own stacks, setjmp/longjmp", "#3060a0"),
    ("LANCET", "lancet-switch", "#208040"),
]
DEPTHS = [0, 10, 20, 40, 60, 80, 100]
SWITCHES = {"COPY": 300_000, "UCONTEXT": 300_000, "SETJMP": 2_000_000, "LANCET": 2_000_000}

ROUNDS = 5


def run(program, switches, depth):
    command = [f"{work}/{program}", str(switches), str(depth)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def penalties(shallow, deep):
    ratios = sorted(d / s for s, d in zip(shallow, deep))
    return f"{statistics.median(ratios):.2f}× | {ratios[0]:.2f}–{ratios[-1]:.2f}× |"


rounds = {(way, depth): [] for way, _, _ in WAYS for depth in DEPTHS}
for _ in range(ROUNDS):
    for way, _, _ in WAYS:
        for depth in DEPTHS:
            rounds[way, depth].append(run(f"ring-{way}", SWITCHES[way], depth))
times = {key: statistics.median(values) for key, values in rounds.items()}

print("| build | 0 frames, ns | 100 frames deeper, ns | penalty | least to most |\n|---|---|---|---|---|")
for way, what, _ in WAYS:
    print(
        f"| {what} | {times[way, 0]:.1f} | {times[way, 100]:.1f} |",
        penalties(rounds[way, 0], rounds[way, 100]),
    )

print("\n| copying, threads | 0 frames, ns | 100 frames deeper, ns | penalty | least to most |\n|---|---|---|---|---|")
for threads in sys.argv[3:]:
    pairs = [(run(f"copy-{threads}", 300_000, 0), run(f"copy-{threads}", 300_000, 100)) for _ in range(ROUNDS)]
    shallow, deep = zip(*pairs)
    print(
        f"| {threads} | {statistics.median(shallow):.1f} | {statistics.median(deep):.1f} |",
        penalties(shallow, deep),
    )

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 420, 70, 40, 200, 50
LOW, HIGH = 1, 4  # powers of ten


def x(depth):
    return LEFT + depth / 100 * (WIDTH - LEFT - RIGHT)


def y(ns):
    return TOP + (HIGH - math.log10(ns)) / (HIGH - LOW) * (HEIGHT - TOP - BOTTOM)


out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    f'<text x="{LEFT}" y="22" font-size="15">thread-ring, 403 threads: CPU time of one switch</text>',
]
for power in range(LOW, HIGH + 1):
    at = y(10**power)
    out.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
    out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10**power:,} ns</text>')
for depth in range(0, 101, 20):
    out.append(f'<text x="{x(depth):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{depth}</text>')
middle = (LEFT + WIDTH - RIGHT) / 2
out.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">frames deeper (some 400 bytes each)</text>')
for way, what, colour in WAYS:
    points = " ".join(f"{x(depth):.1f},{y(times[way, depth]):.1f}" for depth in DEPTHS)
    out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    label = y(times[way, 100]) + 4
    out.append(f'<text x="{x(100) + 8:.1f}" y="{label:.1f}" fill="{colour}">{what}</text>')
out.append("</svg>")
with open(svg, "w", encoding="utf-8") as file:
    file.write("\n".join(out) + "\n")
