"""Runs statements on an engine of the user's and prints the rows of the last one as JSON: `lancet fleet` starts it, with a job on standard input.

Exit code 3: the engine's module is not installed.
"""

import sys

# The folder in which lancet was started is others' as often as not, and what lies there is no module: `python3 -c` would look there first.
sys.path[:] = [folder for folder in sys.path if folder]

import json  # noqa: E402


def duckdb(engine, job):
    connection = engine.connect()
    for statement in job["statements"]:
        found = connection.execute(statement)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row)) for row in found.fetchall()]


def chdb(engine, job):
    from chdb import session

    connection = session.Session()
    for statement in job["statements"]:
        # Numbers of 64 bits as numbers; as texts they would be for JavaScript.
        found = connection.query(statement + "\nsettings output_format_json_quote_64bit_integers = 0" if statement is job["statements"][-1] else statement, "JSON")
    return json.loads(str(found))["data"]


def pyspark(engine, job):
    from pyspark.sql import SparkSession

    settings = SparkSession.builder.master(job["url"]).appName("lancet fleet")
    connection = settings.config("spark.ui.enabled", "false").getOrCreate()
    try:
        for statement in job["statements"]:
            found = connection.sql(statement)
        return [row.asDict() for row in found.collect()]
    finally:
        connection.stop()


def main():
    job = json.load(sys.stdin)
    try:
        engine = __import__(job["engine"])
    except ImportError:
        sys.exit(3)
    rows = globals()[job["engine"]](engine, job)
    # Sums of DuckDB may have 128 bits, and are whole numbers of Python then; what is a decimal in Spark is none in JSON.
    json.dump(rows, sys.stdout, default=float)


main()
