#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Turns the benchmarks' lines into ratios and tables.

The kernels with an option off and on were booted in turn, so the n-th line of a
case from the one is compared with the n-th from the other. Prints a table in
Markdown; appends the ratio lines to the file.
"""
import json
import statistics
import sys

BASELINE = "baseline"


def key(row):
    return row["bench"], row["case"], row["block"], row["file_bytes"], row["threads"]


def main(path):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    rows = [row for row in rows if "engine" in row]
    figures, units = {}, {}
    for row in rows:
        figures.setdefault(key(row), {}).setdefault(row["engine"], []).append(row["value"])
        units[key(row)] = row["unit"]

    ratios = []
    print("| bench | case | block | file | threads | unit | off | on | on / off (low to high) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for where, engines in figures.items():
        base = engines.get(BASELINE)
        for engine, values in engines.items():
            if engine == BASELINE or not base:
                continue
            each = [on / off for off, on in zip(base, values) if off]
            if not each:
                continue
            value = statistics.median(each)
            bench, case, block, file_bytes, threads = where
            ratios.append({
                "bench": bench, "ratio": f"{engine}/{BASELINE}", "case": case, "block": block,
                "file_bytes": file_bytes, "threads": threads, "value": round(value, 3),
                "low": round(min(each), 3), "high": round(max(each), 3),
            })
            print(f"| {bench} | {case} | {block} | {file_bytes} | {threads} | {units[where]} "
                  f"| {statistics.median(base):,.0f} | {statistics.median(values):,.0f} "
                  f"| {value:.3f} ({min(each):.3f} to {max(each):.3f}) |")

    with open(path, "w") as out:
        for row in rows + ratios:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
