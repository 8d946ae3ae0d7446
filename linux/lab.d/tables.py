#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Turns the benchmarks' lines into ratios and tables.

The kernels with an option off and on were booted in turn, so the n-th line of a
case from the one is compared with the n-th from the other; and so are the two
better ways to free ranges, with each other. Prints tables in Markdown, all cases
and then the targets; appends the ratio lines to the file.

    tables.py FILE             what `lab bench` measured; fails if a target was not
    tables.py some FILE        the same, of which not every case was measured
    tables.py layouts FILE     what `lab layouts` measured: the baseline against itself
                               with its code at other places, and on / off place by place
    tables.py instructions FILE  what `lab instructions` counted, where a nanosecond of the
                               guest is an instruction
"""
import json
import os
import statistics
import sys

BASELINE = "baseline"

# A target that is missed by less than that is said to be, since two boots of one and
# the same kernel differ by as much.
NOISE = 0.01

# What, the least ratio, and the case: bench, case, block, bytes of the file, threads,
# and the engine if there are several.
TARGETS = [
    ("get and put of one count, two processors", 1.5, ("refcount", "one-count", 0, 0, 2)),
    ("alloc_page and __free_page", 0.99, ("refcount", "alloc-free", 4096, 0, 1)),
    ("alloc_page and put_page", 0.99, ("refcount", "alloc-put", 4096, 0, 1)),
    ("a try that fails, again and again", 0.5, ("refcount", "failed-try-again", 0, 0, 1)),
    ("a try that fails, of a walker", 0.5, ("refcount", "failed-try-seen", 0, 0, 1)),
    ("reads of 1 byte of one page, two threads", 1.5, ("short-read", "same-file", 1, 4096, 2)),
    ("of 128 bytes", 1.5, ("short-read", "same-file", 128, 4096, 2)),
    ("reads of 128 bytes, one thread", 1.0, ("short-read", "same-file", 128, 1048576, 1)),
    ("reads of 4 KiB, one thread", 1.0, ("short-read", "same-file", 4096, 4096, 1)),
    ("reads of 4 KiB of one page, two threads", 1.0, ("short-read", "same-file", 4096, 4096, 2)),
    ("reads of 4 KiB of two files, two threads", 1.0, ("short-read", "diff-file", 4096, 4096, 2)),
    ("migration of pages of a parent of 1000 children", 30.0, ("migrate", "forks-1000", 4096, 262144, 1)),
    ("migration of pages of a parent of 1 child", 0.99, ("migrate", "forks-1", 4096, 262144, 1)),
    ("order 9: allocate, split, free as a range, chunked", 8.0,
     ("free-contig", "loop-order-9", 2097152, 0, 1, "chunked")),
    ("the same, merged", 8.0, ("free-contig", "loop-order-9", 2097152, 0, 1, "merged")),
]


def print_targets(ratios):
    """Whether all were measured."""
    missing = missed = 0
    print("\n| target | at least | on / off (low to high) | fastest rounds | |")
    print("|---|---|---|---|---|")
    for what, least, where in TARGETS:
        row = ratios.get(where)
        if not row:
            print(f"| {what} | {least} | | | not measured |")
            missing += 1
            continue
        if row["value"] >= least:
            verdict = "met"
        elif row["value"] >= least * (1 - NOISE):
            verdict = f"missed by less than {NOISE:.0%}"
        elif row["high"] >= least:
            verdict = "missed by the median, reached by a boot"
        else:
            verdict = "missed"
        missed += row["value"] < least
        print(f"| {what} | {least} | {row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f}) "
              f"| {row['fastest']:.3f} | {verdict} |")
    print(f"\n{len(TARGETS) - missing - missed} of {len(TARGETS)} targets met")
    return missing == 0


def fastest(boots):
    """What a machine gives that nobody disturbs: the fastest round of the boot that had the
    second fastest one, since one may be faster than all others for reasons of its own."""
    return sorted(row["max"] for row in boots)[-2:][0]


def key(row):
    return row["bench"], row["case"], row["block"], row["file_bytes"], row["threads"]


def comparisons(engines):
    """Each with the baseline, and then, if there are several, the last with the first of them."""
    others = [engine for engine in engines if engine != BASELINE]
    pairs = [(BASELINE, other) for other in others] if BASELINE in engines else []
    return pairs + ([(others[0], others[-1])] if pairs and len(others) > 1 else [])


def main(path, is_whole=True):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    rows = [row for row in rows if "engine" in row]
    figures = {}
    for row in rows:
        figures.setdefault(key(row), {}).setdefault(row["engine"], []).append(row)

    ratios = []
    print("| bench | case | block | file | threads | unit | off | on | on / off (low to high) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for where, engines in figures.items():
        for one, other in comparisons(engines):
            base, values = ([row["value"] for row in engines[engine]] for engine in (one, other))
            if len(values) != len(base) or not all(base):
                sys.exit(f"{path}: {where}: {len(base)} figures of {one}, {len(values)} of {other}; some are missing")
            each = [on / off for off, on in zip(base, values)]
            value = statistics.median(each)
            bench, case, block, file_bytes, threads = where
            ratios.append({
                "bench": bench, "ratio": f"{other}/{one}", "case": case, "block": block,
                "file_bytes": file_bytes, "threads": threads, "value": round(value, 3),
                "low": round(min(each), 3), "high": round(max(each), 3),
                "fastest": round(fastest(engines[other]) / fastest(engines[one]), 3),
            })
            shown = f"{case}, {other} / {one}" if len(engines) > 2 else case
            print(f"| {bench} | {shown} | {block} | {file_bytes} | {threads} | {engines[one][0]['unit']} "
                  f"| {statistics.median(base):,.0f} | {statistics.median(values):,.0f} "
                  f"| {value:.3f} ({min(each):.3f} to {max(each):.3f}) |")

    by_case = {}
    for r in ratios:
        other, one = r["ratio"].split("/")
        if one == BASELINE:
            where = r["bench"], r["case"], r["block"], r["file_bytes"], r["threads"]
            by_case[where] = by_case[(*where, other)] = r
    all_measured = print_targets(by_case)

    with open(f"{path}.new", "w") as out:
        for row in rows + ratios:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    os.replace(f"{path}.new", path)
    if is_whole and not all_measured:
        sys.exit("some targets were not measured")


def instructions(path):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    counts = {}
    for row in rows:
        # That of the round which the fewest interrupts were taken in.
        counts.setdefault(key(row), {})[row["engine"]] = 1e9 / row["max"]
    print("| bench | case | block | file | instructions, off | on | on - off | off / on |")
    print("|---|---|---|---|---|---|---|---|")
    for (bench, case, block, file_bytes, _), engines in counts.items():
        for one, other in comparisons(list(engines)):
            shown = f"{case}, {other} / {one}" if len(engines) > 2 else case
            off, on = engines[one], engines[other]
            print(f"| {bench} | {shown} | {block} | {file_bytes} | {off:,.1f} | {on:,.1f} | {on - off:+,.1f} | {off / on:.3f} |")
    if not all(len(engines) > 1 for engines in counts.values()):
        sys.exit(f"{path}: some cases were counted in one kernel alone")


def layouts(path):
    with open(path) as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    figures = {}
    for row in rows:
        by_pad = figures.setdefault(key(row), {}).setdefault(row["engine"], {})
        by_pad.setdefault(row["pad"], []).append(row["value"])

    def span(ratios):
        return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"

    print("| bench | case | block | file | threads | off / off's median, low to high, places "
          "| off / off, low to high, boots of one place | on / off, same place, median (low to high) |")
    print("|---|---|---|---|---|---|---|---|")
    for where, engines in figures.items():
        places = {engine: {pad: statistics.median(values) for pad, values in by_pad.items()}
                  for engine, by_pad in engines.items()}
        base = places.pop(BASELINE, None)
        if not base:
            continue
        middle = statistics.median(base.values())
        boots = [value / base[pad] for pad, values in engines[BASELINE].items() for value in values]
        for other in places.values():
            print("| " + " | ".join(str(part) for part in where)
                  + f" | {min(base.values()) / middle:.3f} to {max(base.values()) / middle:.3f}"
                  + f" | {min(boots):.3f} to {max(boots):.3f}"
                  + f" | {span([other[pad] / base[pad] for pad in other if pad in base])} |")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "layouts":
        layouts(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "instructions":
        instructions(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "some":
        main(sys.argv[2], is_whole=False)
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
