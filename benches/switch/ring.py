"""thread-ring, 403 threads, in four builds: a table, and a plot as SVG.

ring.py DIRECTORY SVG: runs DIRECTORY/ring-{COPY,UCONTEXT,SETJMP,LANCET} in turn.
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

times = {}
for depth in DEPTHS:
    rounds = {way: [] for way, _, _ in WAYS}
    for _ in range(5):
        for way, _, _ in WAYS:
            command = [f"{work}/ring-{way}", str(SWITCHES[way]), str(depth)]
            rounds[way].append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    for way, values in rounds.items():
        times[way, depth] = statistics.median(values)

print("| build | 0 frames, ns | 100 frames deeper, ns | penalty |\n|---|---|---|---|")
for way, what, _ in WAYS:
    shallow, deep = times[way, 0], times[way, 100]
    print(f"| {what} | {shallow:.1f} | {deep:.1f} | {deep / shallow:.2f}× |")

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
