"""Checks that every benchmarks/*.csv is a table: all rows have as many fields as the header.

usage: csv_test.py SOURCE_ROOT
"""
import csv
import pathlib
import sys

tables = sorted((pathlib.Path(sys.argv[1]) / "benchmarks").glob("*.csv"))
assert tables, f"no CSV file in {sys.argv[1]}/benchmarks"
problems = []
for table in tables:
    with open(table, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, strict=True))
    if len(rows) < 2:
        problems.append(f"{table}: no rows")
    problems += [f"{table}: row {number} has {len(row)} fields, but the header has {len(rows[0])}"
                 for number, row in enumerate(rows, 1) if len(row) != len(rows[0])]
print("\n".join(problems) or f"{len(tables)} tables")
sys.exit(1 if problems else 0)
