"""Echo servers with 10,000 connections: fibers, tokio, threads. echo.py RELEASE_DIRECTORY

CPU time of the server for a request is what is compared: requests per second and p99 depend on
what else the machine does.
"""
import os
import re
import resource
import statistics
import subprocess
import sys

release = sys.argv[1]
CONNECTIONS, SECONDS, ROUNDS = 10_000, 3, 3
SERVERS = [
    ("lancet-switch, one thread", f"{release}/examples/echo"),
    ("tokio, one thread", f"{release}/echo-tokio"),
    ("threads, one a connection", f"{release}/echo-threads"),
]
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def status(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(rf"{name}:\s+(\d+)", file.read()).group(1))


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(program):
    server = subprocess.Popen([program, "0"], stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    before = status(server.pid, "VmRSS") + status(server.pid, "VmPTE")
    load = subprocess.Popen([f"{release}/load", address, str(CONNECTIONS), str(SECONDS)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if load.stdout.readline().strip() != "ready":
            return None
        each = (status(server.pid, "VmRSS") + status(server.pid, "VmPTE") - before) * 1024 / CONNECTIONS
        start = cpu(server.pid)
        load.stdin.write("\n")
        load.stdin.flush()
        requests, _, p99 = map(int, load.stdout.readline().split())
        return requests / SECONDS, (cpu(server.pid) - start) / requests * 1e6, p99 / 1000, each
    finally:
        load.kill()
        server.kill()
        load.wait()
        server.wait()


results = {name: [] for name, _ in SERVERS}
for _ in range(ROUNDS):
    for name, program in SERVERS:
        result = measure(program)
        if result:
            results[name].append(result)
print("| server | CPU µs/request | requests/s | p99, ms | bytes a connection |\n|---|---|---|---|---|")
for name, _ in SERVERS:
    if not results[name]:
        print(f"| {name} | did not come up | | | |")
        continue
    rate, cost, p99, each = (statistics.median(column) for column in zip(*results[name]))
    print(f"| {name} | {cost:.1f} | {rate:,.0f} | {p99:.1f} | {each:,.0f} |")
