#!/usr/bin/env python3
"""Fits the coefficients of the CPU's cost model to timed candidates.

    build/bin/lathe_bench --mode oracle --oracle_candidates 100 --csv DIR ...    # writes DIR/oracle_candidates.csv
    benchmarks/fit_costs.py --clock 3.55e9 --bandwidth 33e9 --costs kernels/matmul/cpu/costs/zen4.json DIR/*.csv

--clock and --bandwidth are the facts clock_hz and core_bytes_per_second that the oracle had (`lathe devices`). The model is
that of kernels/matmul/cpu/cost_model.cc, for one thread. Prints the speed of the cheapest candidate over the fastest one
(geometric mean and worst) with the old coefficients and the new ones; --write replaces those in the file. Needs NumPy and
SciPy.
"""
import argparse
import csv
import json

import numpy as np
from scipy.optimize import minimize

CYCLES = ["issue", "starts", "sums", "lanes", "copies", "turns", "conflicts", "again"]
CACHES = ["l2", "l3"]
MEMORY = ["memory", "written"]
WAITS = ["unfetched", "unpaced", "narrow"]
NANOSECONDS = ["runs", "groups"]
COUNTS = CYCLES + CACHES + MEMORY + WAITS + NANOSECONDS
NEAR = 1.6  # a candidate that takes longer than this times the fastest only has to look slow


def read_classes(files):
    """[(class, counts [candidates, COUNTS], seconds [candidates])] of the matmul classes of the tables."""
    classes = {}
    for name in files:
        with open(name, newline="") as table:
            for row in csv.DictReader(table):
                if row["op"] != "matmul" or not row.get("work"):
                    continue
                work = dict(part.split("=") for part in row["work"].split(";"))
                key = (name, row["dtype"], row["M"], row["N"], row["K"])
                classes.setdefault(key, []).append(([float(work[c]) for c in COUNTS], float(row["us"]) * 1e-6))
    return [(key, np.array([w for w, _ in rows]), np.array([s for _, s in rows])) for key, rows in classes.items()]


def price(coefficients, counts, clock, bandwidth):
    """Seconds, as task_seconds() in cost_model.cc computes them."""
    part = {name: counts[:, i] * coefficients[name] for i, name in enumerate(COUNTS)}
    total = lambda names: sum(part[name] for name in names)
    computing = total(CYCLES) / clock
    reading = total(CACHES) / clock + total(MEMORY) / bandwidth + part["runs"] * 1e-9
    waiting = total(WAITS) / bandwidth + part["groups"] * 1e-9
    return np.maximum(computing, reading) + coefficients["overlap"] * np.minimum(computing, reading) + waiting


def loss(logarithms, start, names, classes, machine):
    """The time that the choice loses, softened, plus a part of the error of near candidates and of the distance from
    the coefficients that the fit began with."""
    coefficients = dict(zip(names, np.exp(logarithms)))
    total = 0
    for _, counts, seconds in classes:
        prices = price(coefficients, counts, *machine)
        choice = np.exp((np.log(prices.min()) - np.log(prices)) / 0.015)
        lost = np.minimum(np.log(seconds / seconds.min()), 0.5)
        near = seconds < NEAR * seconds.min()
        error = np.log(prices[near] / seconds[near])
        total += np.sum(choice * lost) / choice.sum() + 0.15 * (np.std(error) + min(abs(np.mean(error)), 0.5))
    return total / len(classes) + 0.003 * np.mean((logarithms - start) ** 2)


def report(label, coefficients, classes, machine):
    speeds = [seconds.min() / seconds[np.argmin(price(coefficients, counts, *machine))] for _, counts, seconds in classes]
    worst = int(np.argmin(speeds))
    print(f"{label}: {np.exp(np.mean(np.log(speeds))):.3f} of the fastest candidate's speed, {len(speeds)} classes; "
          f"worst {speeds[worst]:.3f} ({' '.join(classes[worst][0][1:])})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--costs", required=True)
    parser.add_argument("--clock", type=float, required=True)
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with open(options.costs) as file:
        costs = json.load(file)
    classes = read_classes(options.tables)
    if not classes:
        parser.error("no table has counts of matmul candidates")
    machine = options.clock, options.bandwidth
    report("before", costs["coefficients"], classes, machine)
    names = list(costs["coefficients"])
    start = np.log([costs["coefficients"][name] for name in names])
    # No price may beat the peaks of arithmetic and of memory.
    least = [np.log(0.97) if name in ("issue", "memory") else s - 4 for name, s in zip(names, start)]
    fitted = start
    for _ in range(3):
        fitted = minimize(loss, fitted, args=(start, names, classes, machine), method="Powell",
                          bounds=list(zip(least, start + 3)), options={"maxiter": 3, "xtol": 2e-2, "ftol": 1e-4}).x
    costs["coefficients"] = {name: float(f"{value:.3g}") for name, value in zip(names, np.exp(fitted))}
    report("fitted", costs["coefficients"], classes, machine)
    print(json.dumps(costs["coefficients"], indent=2))
    if options.write:
        with open(options.costs, "w") as file:
            file.write(json.dumps(costs, indent=2) + "\n")


if __name__ == "__main__":
    main()
