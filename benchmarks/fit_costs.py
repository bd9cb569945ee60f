#!/usr/bin/env python3
"""Fits the coefficients of the CPU's cost model to timed candidates.

    build/bin/lathe_bench --mode oracle --oracle_candidates 100 --csv DIR ...    # writes DIR/oracle_candidates.csv
    benchmarks/fit_costs.py --clock 3.55e9 --bandwidth 33e9 --costs kernels/matmul/cpu/costs/zen4.json DIR/*.csv

--clock and --bandwidth are the facts clock_hz and core_bytes_per_second that the oracle had (`lathe devices`). The
model is that of kernels/matmul/cpu/cost_model.cc, for one thread. Prints the speed of the cheapest candidate over the
fastest (geometric mean and worst) with the old coefficients and the new ones; --write replaces those in the file. Needs
NumPy and cma (PyPI). benchmarks/oracle_candidates-zen3.csv.gz and -zen4.csv.gz have the timings behind costs/zen3.json
and zen4.json, and those of oracle-zen3.csv and oracle-zen4.csv that were held out.
"""
import argparse
import csv
import gzip
import json

import cma
import numpy as np

CYCLES = ["issue", "loads", "conversions", "starts", "entries", "ends", "sums", "lanes", "copies", "turns", "conflicts",
          "evicted", "again"]
CACHES = ["l2", "l3"]
MEMORY = ["memory", "written"]
WAITS = ["unfetched", "unpaced", "narrow", "crowded"]
READ_NANOSECONDS = ["runs", "jumps"]
WAIT_NANOSECONDS = ["groups", "tasks"]
COUNTS = CYCLES + CACHES + MEMORY + WAITS + READ_NANOSECONDS + WAIT_NANOSECONDS
NEAR = 1.6  # a candidate that takes longer than this times the fastest only has to look slow
# Width of the choice (in logarithms of prices) and weight of the prices' errors, coarse to fine.
STAGES = [(0.05, 0.5), (0.02, 0.15), (0.01, 0.03)]


def read_classes(files):
    """[(class, counts [candidates, COUNTS], seconds [candidates])] of the matmul classes of the tables (.csv, .csv.gz)."""
    classes = {}
    for name in files:
        with (gzip.open if name.endswith(".gz") else open)(name, "rt", newline="") as table:
            for row in csv.DictReader(table):
                if row["op"] != "matmul" or not row.get("work"):
                    continue
                work = dict(part.split("=") for part in row["work"].split(";"))
                key = (name, row["dtype"], row["M"], row["N"], row["K"])
                classes.setdefault(key, []).append(([float(work.get(c, 0)) for c in COUNTS], float(row["us"]) * 1e-6))
    return [(key, np.array([w for w, _ in rows]), np.array([s for _, s in rows])) for key, rows in classes.items()]


class Timings:
    """All candidates of all classes, one after the other."""

    def __init__(self, classes, clock, bandwidth):
        self.classes, self.clock, self.bandwidth = classes, clock, bandwidth
        sizes = [len(seconds) for _, _, seconds in classes]
        self.counts = np.concatenate([counts for _, counts, _ in classes])
        self.seconds = np.concatenate([seconds for _, _, seconds in classes])
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.of = np.repeat(np.arange(len(classes)), sizes)
        self.best = np.minimum.reduceat(self.seconds, self.first)
        self.lost = np.minimum(np.log(self.seconds / self.best[self.of]), 0.5)
        self.near = self.seconds < NEAR * self.best[self.of]

    def prices(self, coefficients):
        """Seconds, as task_seconds() in cost_model.cc computes them."""
        part = {name: self.counts[:, i] * coefficients[name] for i, name in enumerate(COUNTS)}
        total = lambda names: sum(part[name] for name in names)
        computing = total(CYCLES) / self.clock
        reading = total(CACHES) / self.clock + total(MEMORY) / self.bandwidth + total(READ_NANOSECONDS) * 1e-9
        waiting = total(WAITS) / self.bandwidth + total(WAIT_NANOSECONDS) * 1e-9
        return np.maximum(computing, reading) + coefficients["overlap"] * np.minimum(computing, reading) + waiting

    def loss(self, coefficients, width, error_weight):
        """The time that the choice loses, softened, more of it above 6 %, and some of the errors of near candidates."""
        logs = np.log(self.prices(coefficients))
        sums = lambda values: np.add.reduceat(values, self.first)
        choice = np.exp((np.minimum.reduceat(logs, self.first)[self.of] - logs) / width)
        lost = sums(choice * self.lost) / sums(choice)
        error = np.where(self.near, logs - np.log(self.seconds), 0)
        near = sums(self.near.astype(float))
        mean = sums(error) / near
        spread = np.sqrt(sums(np.where(self.near, (error - mean[self.of]) ** 2, 0)) / near)
        errors = spread + 0.5 * np.minimum(np.abs(mean), 0.5)
        return np.mean(lost + 0.6 * np.maximum(0, lost - 0.06) + error_weight * errors)

    def report(self, label, coefficients):
        prices = self.prices(coefficients)
        choices = [first + int(np.argmin(prices[self.of == i])) for i, first in enumerate(self.first)]
        speeds = self.best / self.seconds[choices]
        worst = int(np.argmin(speeds))
        mean = np.exp(np.mean(np.log(speeds)))
        print(f"{label}: {mean:.3f} of the fastest candidate's speed, {len(speeds)} classes; worst {speeds[worst]:.3f} "
              f"({' '.join(self.classes[worst][0][1:])})")


def minimize(loss, start, low, high, sigma, seed):
    """The best point within bounds that CMA-ES finds."""
    options = {"bounds": [low, high], "maxiter": 300, "popsize": 28, "seed": seed + 1, "tolx": 1e-3, "verbose": -9}
    search = cma.CMAEvolutionStrategy(np.clip(start, low, high), sigma, options)
    return search.optimize(loss).result.xbest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--costs", required=True)
    parser.add_argument("--clock", type=float, required=True)
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with open(options.costs) as file:
        costs = json.load(file)
    classes = read_classes(options.tables)
    if not classes:
        parser.error("no table has counts of matmul candidates")
    timings = Timings(classes, options.clock, options.bandwidth)
    timings.report("before", costs["coefficients"])
    names = list(costs["coefficients"])
    start = np.log([costs["coefficients"][name] for name in names])
    # No price may beat the peaks of arithmetic and of memory, which clock and rate can exceed by a tenth.
    least = np.array([np.log(0.9) if name in ("issue", "memory") else s - 4 for name, s in zip(names, start)])
    fitted = np.maximum(start, least)
    for stage, (width, error_weight) in enumerate(STAGES):
        def loss(logarithms):
            distance = 0.003 * np.mean((logarithms - start) ** 2)
            return timings.loss(dict(zip(names, np.exp(logarithms))), width, error_weight) + distance
        fitted = minimize(loss, fitted, least, start + 4, 0.25 if stage else 0.5, options.seed + stage)
    costs["coefficients"] = {name: float(f"{value:.3g}") for name, value in zip(names, np.exp(fitted))}
    timings.report("fitted", costs["coefficients"])
    print(json.dumps(costs["coefficients"], indent=2))
    if options.write:
        with open(options.costs, "w") as file:
            file.write(json.dumps(costs, indent=2) + "\n")


if __name__ == "__main__":
    main()
