#!/usr/bin/env python3
"""fleet: makes the answers of a whole fleet of those of one host, plants three faults, and asks each question of each engine that is here.

    benches/fleet.py LANCET CAPTURES FOLDER [--hosts 1000] [--hours 24] [--engines duckdb,clickhouse,spark]

CAPTURES is a folder of answers that were saved (--json) of real programs. They are exported, and DuckDB multiplies their rows: each host has them once
an hour, under its name and in its time; figures of memory and time are up to a tenth higher. Release A runs for the first half of the hours, B for the
second. Planted are a line that leaks on three hosts since B, a statement that takes fifty times as long on one, and a setting that one has otherwise:
each must be the first row of its question on each engine, and all engines must have the same rows. It needs the Python modules of the engines.
"""

import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time

import duckdb

HOUR = 3_600_000_000_000
LEAKING, SLOW, ODD = (7, 77, 777), 13, 99
# Files of an hour are one, as a fleet would compact them.
GROWN = {
    "alloc_agg": ["bytes", "now_bytes", "allocated"],
    "call_agg": ["total_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns"],
    "sample": ["own"],
}
QUESTIONS = {"leaks": "planted.rb:42", "slow": "host-00013", "hot": "", "holders": "", "regress": "", "tune": "host-00099"}


def main():
    args = arguments()
    shutil.rmtree(args.folder, ignore_errors=True)
    one = args.folder / "one"
    subprocess.run([args.lancet, "export", *sorted(args.captures.glob("*.json")), "-o", one, "--service", "shop"], check=True)
    base = duckdb.connect()
    fleet = args.folder / "fleet"
    rows = sum(multiplied(base, one, fleet, table, args) for table in sorted(path.name for path in one.iterdir()))
    size = sum(path.stat().st_size for path in fleet.rglob("*.parquet"))
    print(f"{args.hosts} hosts x {args.hours} h: {rows:,} rows, {size / 2**20:,.1f} MiB, {size / max(rows, 1):.1f} B a row, {size / args.hosts / args.hours * 24 / 1024:,.0f} KiB a host and day")
    failed = [question for question, first in QUESTIONS.items() if not asked(args, fleet, question, first)]
    sys.exit(f"not the first row, or not the same rows: {', '.join(failed)}" if failed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lancet")
    parser.add_argument("captures", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--engines", default="duckdb")
    return parser.parse_args()


def multiplied(base, one, fleet, table, args):
    """Writes the rows of all hosts, a file an hour; how many they are."""
    source = f"read_parquet('{one}/{table}/**/*.parquet', union_by_name = true, hive_partitioning = false)"
    names = {row[0] for row in base.execute(f"describe select * from {source}").fetchall()}
    count = 0
    for hour in range(args.hours):
        release = "A" if 2 * hour < args.hours else "B"
        changes = {
            "host": "printf('host-%05d', number)",
            "boot_id": "md5('boot' || number)",
            "capture_id": f"md5(capture_id || ' ' || number || ' {hour}')",
            "release": f"'{release}'",
            "start_ns": f"start_ns + {hour * HOUR}",
            "end_ns": f"end_ns + {hour * HOUR}",
        }
        for name in GROWN.get(table, []):
            changes[name] = f"cast({name} * (1 + (hash(number, {hour}, line) % 100) / 1000.0) as bigint)"
        if table == "call_agg":
            first = base.execute(f"select function from {source} where total_ns is not null order by total_ns desc, function limit 1").fetchone()[0]
            for name in ("p99_ns", "max_ns"):
                changes[name] += f" * case when number = {SLOW} and function = {quoted(first)} then 50 else 1 end"
        if table == "tune_fact":
            setting = base.execute(f"select setting from {source} where observed is not null order by id, setting limit 1").fetchone()[0]
            changes["observed"] = f"case when number = {ODD} and setting = {quoted(setting)} then 'planted' else observed end"
        replaced = ", ".join(f"{value} as {name}" for name, value in changes.items())
        rows = f"select * replace ({replaced}) from {source}, (select unnest(range({args.hosts})) as number)"
        rows = f"select * exclude (number) from ({rows.replace('* replace', '* replace', 1)})"
        if table == "alloc_agg" and release == "B":
            rows += " union all by name " + planted(source, names, hour, args.hosts)
        folder = fleet / table / "dt=2026-11-30"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"hour-{hour:02}.parquet"
        order = "order by file, line" if {"file", "line"} <= names else ""
        base.execute(f"copy ({rows} {order}) to '{path}' (format parquet, compression zstd)")
        count += base.execute(f"select count(*) from '{path}'").fetchone()[0]
    return count


def planted(source, names, hour, hosts):
    """A line that leaks on three hosts."""
    numbers = [number for number in LEAKING if number < hosts]
    return f"""select * exclude (number) from (select * replace (
        printf('host-%05d', number) as host, md5('boot' || number) as boot_id, md5('leak ' || number || ' {hour}') as capture_id, 'B' as release,
        start_ns + {hour * HOUR} as start_ns, end_ns + {hour * HOUR} as end_ns,
        'leak' as record, 'app/planted.rb' as file, 42 as line, 'Planted' as type, 50000000 as now_bytes)
        from (select * from {source} where record = 'row' limit 1), (select unnest({numbers}) as number))"""


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def asked(args, fleet, question, first):
    """Asks each engine; whether all have the same rows, and the first is the expected one."""
    answers = []
    for engine in args.engines.split(","):
        words = {"duckdb": [], "clickhouse": ["--clickhouse"], "spark": ["--spark", "local[2]"]}[engine]
        began = time.monotonic()
        done = subprocess.run([args.lancet, "fleet", question, "--from", fleet, *words], stdout=subprocess.PIPE, text=True)
        took = time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        line = done.stdout.split("\n", 1)[0]
        print(f"{question:8} {engine:10} {took:6.1f} s, children so far at most {peak} MiB: {line[:150]}")
        answers.append(done.stdout if done.returncode == 0 else None)
    return None not in answers and len(set(answers)) == 1 and first in answers[0].split("\n", 1)[0]


if __name__ == "__main__":
    main()
