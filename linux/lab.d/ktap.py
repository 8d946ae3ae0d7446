#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Reads KUnit results from a kernel's console.

    ktap.py results LOG            one line a case: RESULT SUITE CASE
    ktap.py summary LOG            counts; fails on a failed case, or a report of
                                   a lock, a bad page or a bug in the console
    ktap.py compare OFF ON         fails if a case that both have got worse
    ktap.py caught LOG             for mutants: fails if everything passed
"""
import re
import sys

# A suite's cases are indented by 4; the runs of a case with parameters by 8.
CASE = re.compile(r"^( {4,})(not ok|ok) \d+ (\S+)(.*)$")
SUITE = re.compile(r"^( {4,})# Subtest: (\S+)")
TROUBLE = re.compile(
    r"BUG:|Bad page|WARNING: .*(lock|inversion|dependency)|INFO: .*(lock|stall)|"
    r"kernel BUG|Kernel panic|Oops|refcount_t:|alloc_tag was not|"
    r"WARNING: (mm/(migrate|rmap|memory|page_alloc|free_contig|page_owner|alloc_tag)|include/linux/alloc_tag)"
)


def cases(log):
    """(suite, case) -> pass, fail or skip, in the console's order."""
    found = {}
    suite = group = "?"
    with open(log, errors="replace") as lines:
        for line in lines:
            if match := SUITE.match(line):
                if len(match[1]) == 4:
                    suite = match[2]
                else:
                    group = match[2]
            elif match := CASE.match(line):
                result = "fail" if match[2] == "not ok" else "pass"
                if "# SKIP" in match[4]:
                    result = "skip"
                case = match[3] if len(match[1]) == 4 else f"{group}/{match[3]}"
                found[suite, case] = result
    return found


def trouble(log):
    with open(log, errors="replace") as lines:
        return [line.rstrip() for line in lines if TROUBLE.search(line)]


def results(log):
    found = cases(log)
    for (suite, case), result in found.items():
        print(result, suite, case)
    return 0 if found else 1


def summary(log):
    found = cases(log)
    count = {what: list(found.values()).count(what) for what in ("pass", "fail", "skip")}
    ours = [s for s in dict.fromkeys(s for s, _ in found) if re.match("page_ref|filemap_short|migrate_entry|free_contig", s)]
    print(f"        {count['pass']} passed, {count['fail']} failed, {count['skip']} skipped"
          f" in {len({s for s, _ in found})} suites; ours: {', '.join(ours) or 'none'}")
    bad = trouble(log)
    for (suite, case), result in found.items():
        if result == "fail":
            print(f"        FAILED {suite} {case}")
    for line in bad:
        print(f"        CONSOLE {line}")
    return 1 if not found or count["fail"] or bad else 0


def compare(off, on):
    def load(path):
        with open(path) as lines:
            return {tuple(line.split()[1:]): line.split()[0] for line in lines}

    before, after = load(off), load(on)
    both = before.keys() & after.keys()
    worse = sorted(key for key in both if before[key] == "pass" and after[key] != "pass")
    gone = sorted(before.keys() - after.keys())
    for key in worse:
        print(f"        WORSE {' '.join(key)}: {before[key]} -> {after[key]}")
    for key in gone:
        print(f"        GONE {' '.join(key)}")
    print(f"        {len(both)} cases with the options off and on: {len(worse)} worse, {len(gone)} gone; "
          f"{len(after.keys() - before.keys())} only with them on")
    return 1 if worse or gone else 0


def caught(log):
    found = cases(log)
    failed = [f"{suite}.{case}" for (suite, case), result in found.items() if result == "fail"]
    if failed:
        print(f"        caught by {', '.join(failed)}")
        return 0
    with open(log, errors="replace") as lines:
        ended = "reboot: Power down" in lines.read()
    if not ended or trouble(log):
        print("        caught: the kernel did not survive it")
        return 0
    print("        SURVIVED")
    return 1


if __name__ == "__main__":
    command = {"results": results, "summary": summary, "compare": compare, "caught": caught}
    if len(sys.argv) < 3 or sys.argv[1] not in command:
        sys.exit(__doc__)
    sys.exit(command[sys.argv[1]](*sys.argv[2:]))
