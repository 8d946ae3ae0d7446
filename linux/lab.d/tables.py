#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Turns the benchmarks' lines into ratios and tables.

The kernels with an option off and on were booted in turn, so the n-th line of a
case from the one is compared with the n-th from the other; and so are the better
ways to free ranges, with the first of them. Prints tables in Markdown: all cases,
the targets, and the cases that are below 0.97, with the reasons that below.list has.
What counts are the fastest rounds, or the medians where two threads want one cache line. Appends the ratio lines to the file.
Each mode fails unless all kernels have printed the same cases equally often.

    tables.py FILE             what `lab bench` measured; fails if a target was not
    tables.py some FILE        the same, of which not every case was measured
    tables.py designs FILE     of the same file the tables of the design files
    tables.py layouts FILE     what `lab layouts` measured: the baseline against itself
                               with its code at other places, and on / off place by place
    tables.py instructions FILE  what `lab instructions` counted, where a nanosecond of the
                               guest is an instruction
"""
import collections
import fnmatch
import itertools
import json
import os
import statistics
import sys

BASELINE = "baseline"
# Another baseline, which is no part of the series.
ASSUME_ONE = "assume-one"
LEAST = 0.97
BELOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "below.list")

# Two threads that want one cache line. Their fastest round is the one in which they met
# least, so of these the medians count.
CONTENDED = [("refcount", "one-count*"), ("refcount", "try-n"), ("refcount", "failed-try*"), ("short-read", "same-file")]

# What, the least ratio, and the case: bench, case, block, bytes of the file, threads,
# and the engine if there are several.
TARGETS = [
    ("get and put of one count, two processors", 1.5, ("refcount", "one-count", 0, 0, 2)),
    ("alloc_page and __free_page", 0.99, ("refcount", "alloc-free", 4096, 0, 1)),
    ("alloc_page and put_page", 0.99, ("refcount", "alloc-put", 4096, 0, 1)),
    ("a try that fails, again and again", 0.5, ("refcount", "failed-try-again", 0, 0, 1)),
    ("the same, two threads", 0.5, ("refcount", "failed-try-again", 0, 0, 2)),
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
    ("the same, prepared in runs", 8.0, ("free-contig", "loop-order-9", 2097152, 0, 1, "prepare")),
]

# The rows of the design file of the count.
COUNT_ROWS = [
    ("get and put of one count", "one-count", 0),
    ("the same with `put_page()`", "one-count-put-page", 0),
    ("the same if `folio_put()` looked first", "one-count-look", 0),
    ("if it asked for the line for writing, and looked", "one-count-prefetch", 0),
    ("get and put, a count for each thread", "own-count", 0),
    ("`folio_ref_try_add(2)` and `folio_put_refs(2)`, one count", "try-n", 2),
    ("the same by 16", "try-n", 16),
    ("by 64", "try-n", 64),
    ("by 512, a CAS loop in both", "try-n", 512),
    ("a try that fails, the first of a lookup", "failed-try", 0),
    ("**a lookup that tries 16 times** (`folio_try_get_again()`)", "failed-try-again", 0),
    ("a try that fails, of a walker (`get_page_unless_zero()`)", "failed-try-seen", 0),
    ("last put, two steps (`folio_put()`)", "last-put", 0),
    ("last put after a look (`put_page()`)", "last-put-seen", 0),
    ("last put by a guess (`__free_pages()`)", "last-put-exact", 0),
    ("`alloc_page` and `__free_page`", "alloc-free", 4096),
    ("`alloc_page` and `put_page`", "alloc-put", 4096),
    ("truncation of a tmpfs file, pages", "truncate", 4096),
]


def key(row):
    return row["bench"], row["case"], row["block"], row["file_bytes"], row["threads"]


def read(path):
    """The lines of the kernels: as many of each case from every engine, and with the code at every place."""
    with open(path) as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    rows = [row for row in rows if "engine" in row]
    times = collections.Counter((key(row), row["engine"], row.get("pad")) for row in rows)
    engines = {}
    for row in rows:
        engines.setdefault(row["bench"], {})[row["engine"]] = True
    for bench, names in engines.items():
        if BASELINE not in names or len(names) < 2:
            sys.exit(f"{path}: {bench}: there is nothing to compare {', '.join(names)} with")
    for where, pad in itertools.product(dict.fromkeys(map(key, rows)), {pad for _, _, pad in times}):
        for engine in engines[where[0]]:
            if times[where, engine, pad] != max(times.values()):
                at = "" if pad is None else f" at {pad}"
                sys.exit(f"{path}: {where}: {times[where, engine, pad]} figures of {engine}{at}, and not "
                         f"{max(times.values())}; some are missing")
    if not rows or not all(row["value"] and row["max"] for row in rows):
        sys.exit(f"{path}: nothing was measured, or a figure is 0")
    return rows


def by_engine(rows):
    """Case -> engine -> its rows, boot by boot."""
    figures = {}
    for row in rows:
        figures.setdefault(key(row), {}).setdefault(row["engine"], []).append(row)
    return figures


def fastest(boots):
    """What a machine gives that nobody disturbs: the fastest round of the boot that had the
    second fastest one, since one may be faster than all others for reasons of its own."""
    return sorted(row["max"] for row in boots)[-2:][0]


def pairs(engines, one, other):
    """The ratios of the boots, pair by pair."""
    return [on["value"] / off["value"] for off, on in zip(engines[one], engines[other])]


def spread(ratios, digits=3):
    return f"{statistics.median(ratios):.{digits}f} ({min(ratios):.{digits}f} to {max(ratios):.{digits}f})"


def medians(ratio):
    return f"{ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def is_contended(row):
    return row["threads"] > 1 and any(row["bench"] == bench and fnmatch.fnmatchcase(row["case"], case)
                                      for bench, case in CONTENDED)


def judged(ratio):
    """The figure that counts."""
    return ratio["value" if is_contended(ratio) else "fastest"]


def comparisons(engines):
    """Each with the baseline, and then, if there are several, each other one with the first of them."""
    others = [engine for engine in engines if engine != BASELINE]
    return [(BASELINE, other) for other in others] + [(others[0], other) for other in others[1:]]


def print_targets(ratios, is_whole):
    """Those that were measured, and of a whole run the others, too. Whether there are others."""
    wanted = [target for target in TARGETS if is_whole or target[2] in ratios]
    missing = missed = 0
    if wanted:
        print("\n| target | at least | on / off, fastest rounds | medians (low to high) | what counts | |")
        print("|---|---|---|---|---|---|")
    for what, least, where in wanted:
        if row := ratios.get(where):
            is_met = judged(row) >= least
            missed += not is_met
            print(f"| {what} | {least} | {row['fastest']:.3f} | {medians(row)} "
                  f"| {'median' if is_contended(row) else 'fastest'} | {'met' if is_met else 'missed'} |")
        else:
            print(f"| {what} | {least} | | | | not measured |")
            missing += 1
    if wanted:
        print(f"\n{len(wanted) - missing - missed} of {len(wanted)} targets met")
    return missing > 0


def reasons(path):
    """Patterns of bench, case, block, bytes of the file and threads, and the reason."""
    with open(path) as lines:
        return [line.strip().split(maxsplit=5) for line in lines if line.strip() and not line.startswith("#")]


def print_below(ratios, accepted):
    """No mistake by itself, since timings scatter."""
    below = [row for row in ratios if judged(row) < LEAST
             and row["ratio"].endswith(f"/{BASELINE}") and not row["ratio"].startswith(ASSUME_ONE)]
    print(f"\nBelow {LEAST}: {len(below) or 'none'}")
    if below:
        print("\n| bench | case | block | file | threads | on / off, fastest rounds | medians (low to high) | why |")
        print("|---|---|---|---|---|---|---|---|")
    for row in below:
        where = [str(part) for part in key(row)]
        why = next((reason for *patterns, reason in accepted if all(map(fnmatch.fnmatchcase, where, patterns))),
                   "no reason given")
        where[1] += f", {row['ratio'].partition('/')[0]}"
        print(f"| {' | '.join(where)} | {row['fastest']:.3f} | {medians(row)} | {why} |")


def main(path, is_whole=True):
    rows = read(path)
    ratios = []
    print("| bench | case | block | file | threads | unit | off | on | on / off (low to high) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for where, engines in by_engine(rows).items():
        for one, other in comparisons(engines):
            each = pairs(engines, one, other)
            bench, case, block, file_bytes, threads = where
            ratios.append({
                "bench": bench, "ratio": f"{other}/{one}", "case": case, "block": block,
                "file_bytes": file_bytes, "threads": threads, "value": round(statistics.median(each), 3),
                "low": round(min(each), 3), "high": round(max(each), 3),
                "fastest": round(fastest(engines[other]) / fastest(engines[one]), 3),
            })
            shown = f"{case}, {other} / {one}" if len(engines) > 2 else case
            off, on = (statistics.median(row["value"] for row in engines[engine]) for engine in (one, other))
            print(f"| {bench} | {shown} | {block} | {file_bytes} | {threads} | {engines[one][0]['unit']} "
                  f"| {off:,.0f} | {on:,.0f} | {spread(each)} |")

    by_case = {}
    for row in ratios:
        other, one = row["ratio"].split("/")
        if one == BASELINE:
            by_case[(*key(row), other)] = row
            if other != ASSUME_ONE:
                by_case[key(row)] = row
    is_missing = print_targets(by_case, is_whole)
    print_below(ratios, reasons(BELOW))

    with open(f"{path}.new", "w") as out:
        for row in rows + ratios:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    os.replace(f"{path}.new", path)
    if is_missing:
        sys.exit("some targets were not measured")


def significant(value, digits):
    return f"{value:.{digits}g}" if value < 10 ** (digits - 1) else f"{value:.0f}"


def designs(path):
    figures = by_engine(read(path))

    def cell(how, *where):
        """off -> on, and the ratio of these by the fastest rounds; the median of the ratios (lowest to highest)"""
        if where not in figures:
            sys.exit(f"{path}: {where}: not measured")
        one, other = comparisons(figures[where])[0]
        off, on = (fastest(figures[where][engine]) for engine in (one, other))
        return f"{how(off)} -> {how(on)}, {on / off:.2f}; {spread(pairs(figures[where], one, other), 2)}"

    def table(title, *columns):
        print(f"\n{title}\n\n| {' | '.join(columns)} |")
        print("|" + "---|" * len(columns))

    def line(*cells):
        print("| " + " | ".join(cells) + " |")

    benches = {where[0] for where in figures}
    if "refcount" in benches:
        table("design/page-ref-frozen.md", "case, millions a second", "one thread", "two threads")
        for what, case, block in COUNT_ROWS:
            file_bytes = 2097152 if case == "truncate" else 0
            line(what, *(cell(lambda value: significant(value / 1e6, 4), "refcount", case, block, file_bytes, threads)
                         for threads in (1, 2)))
    if "short-read" in benches:
        columns = [(name, threads) for name in ("same", "diff") for threads in (1, 2)]
        table("design/short-read.md", "file", "block", "same file, 1 thread", "same file, 2 threads",
              "different files, 1 thread", "different files, 2 threads")
        for file_bytes, block in sorted({(file_bytes, block) for bench, _, block, file_bytes, _ in figures if bench == "short-read"}):
            line(f"{file_bytes >> 10} KiB", str(block),
                 *(cell(lambda value, nr=threads: f"{nr * 1e9 / value:.0f}", "short-read", f"{name}-file", block, file_bytes, threads)
                   for name, threads in columns))
    if "migrate" in benches:
        def of_pages(case, unit):
            return cell(lambda value: significant(value / unit, 3), "migrate", case, 4096, 262144, 1)

        table("design/migrate-count.md", "children", "each has written all", "shares all", "only the youngest has them")
        for children in (0, 1, 10, 100, 1000):
            line(str(children), *(of_pages(f"{name}-{children}", 1e3) if children >= least else ""
                                  for name, least in (("forks", 0), ("shared", 1), ("last", 100))))
        table("design/migrate-count.md, millions of pages a second", "what", "mapped", "migration entries in their place")
        for case in ("fork", "unmap"):
            line(case, of_pages(case, 1e6), of_pages(f"{case}-entries", 1e6))
    if "free-contig" in benches:
        table("design/contiguous-free.md", "order", "what", "page by page", "chunked", "merged", "prepare",
              "merged / chunked", "prepare / chunked")
        for order, (case, what) in itertools.product((9, 6, 3, 1, 0), (("loop", "allocate, split, free"), ("free", "the free alone"))):
            where = "free-contig", f"{case}-order-{order}", 4096 << order, 0, 1
            if where not in figures:
                sys.exit(f"{path}: {where}: not measured")
            engines = figures[where]
            middle = {engine: significant(statistics.median(row["value"] for row in rows) / 1e6, 3)
                      for engine, rows in engines.items()}
            line(str(order), what, middle[BASELINE],
                 *(f"{middle[engine]}, {spread(pairs(engines, BASELINE, engine), 2)}"
                   for engine in ("chunked", "merged", "prepare")),
                 *(spread(pairs(engines, "chunked", engine), 2) for engine in ("merged", "prepare")))


def instructions(path):
    print("| bench | case | block | file | instructions, off | on | on - off | off / on |")
    print("|---|---|---|---|---|---|---|---|")
    for (bench, case, block, file_bytes, _), engines in by_engine(read(path)).items():
        for one, other in comparisons(engines):
            shown = f"{case}, {other} / {one}" if len(engines) > 2 else case
            # That of the round which the fewest interrupts were taken in.
            off, on = (1e9 / max(row["max"] for row in engines[engine]) for engine in (one, other))
            print(f"| {bench} | {shown} | {block} | {file_bytes} | {off:,.1f} | {on:,.1f} | {on - off:+,.1f} | {off / on:.3f} |")


def layouts(path):
    rows = read(path)
    if len({row.get("pad") for row in rows}) < 2:
        sys.exit(f"{path}: the code was at one place alone")
    print("| bench | case | block | file | threads | off / off's median, low to high, places "
          "| off / off, low to high, boots of one place | on / off, same place, median (low to high) |")
    print("|---|---|---|---|---|---|---|---|")
    for where, engines in by_engine(rows).items():
        values = {}
        for engine, boots in engines.items():
            for row in boots:
                values.setdefault(engine, {}).setdefault(row["pad"], []).append(row["value"])
        places = {engine: {pad: statistics.median(of_pad) for pad, of_pad in by_pad.items()}
                  for engine, by_pad in values.items()}
        base = places.pop(BASELINE)
        middle = statistics.median(base.values())
        boots = [value / base[pad] for pad, of_pad in values[BASELINE].items() for value in of_pad]
        for engine, other in places.items():
            bench, case, *rest = where
            shown = f"{case}, {engine}" if len(places) > 1 else case
            print("| " + " | ".join(str(part) for part in (bench, shown, *rest))
                  + f" | {min(base.values()) / middle:.3f} to {max(base.values()) / middle:.3f}"
                  + f" | {min(boots):.3f} to {max(boots):.3f}"
                  + f" | {spread([other[pad] / base[pad] for pad in base])} |")


if __name__ == "__main__":
    modes = {"some": lambda path: main(path, is_whole=False), "designs": designs, "layouts": layouts,
             "instructions": instructions}
    if len(sys.argv) == 3 and sys.argv[1] in modes:
        modes[sys.argv[1]](sys.argv[2])
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
