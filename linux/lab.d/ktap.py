#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Reads KUnit results from a kernel's console.

    ktap.py results LOG            one line a case: RESULT SUITE CASE
    ktap.py summary LOG            counts; fails on a failed case, or a report of
                                   a lock, a bad page or a bug in the console
    ktap.py ran LOG TREE SRC CONFIG
                                   fails unless each suite of mm/tests was run that SRC has for
                                   CONFIG and TREE has not, though its slow cases may be left out
    ktap.py compare OFF ON         fails if a case got worse, is gone, or fails though
                                   only ON has it, or if they have no case in common
    ktap.py caught LOG             for mutants: fails unless a case failed, or the
                                   kernel complained
    ktap.py guest LOG              as results, of the selftests in a QEMU guest, and to
                                   stderr counts, and what was tried more than once; fails
                                   if the guest did not reach its end, memory was wrong,
                                   its kernel complained, or a case of the selftests of
                                   migration did not pass; else what failed is for compare
    ktap.py deep LOG               as guest, and the random caller has to have passed, too
    ktap.py whole LOG              for the kernel that mutants are made from: fails unless the
                                   random caller has passed, and nobody complained
    ktap.py noticed LOG            for mutants: fails unless the random caller found something
                                   wrong, or the kernel complained
    ktap.py kcsan LOG NAMES        results, and the data races that were reported; fails
                                   on a failed case, another complaint, or a race in one
                                   of NAMES (touched.py) that is not known
"""
import glob
import os
import re
import sys

# A suite's cases are indented by 4; the runs of a case with parameters by 8.
# Names may have blanks in them.
CASE = re.compile(r"^( {4,})(not ok|ok) \d+ (.*?)(?:\s+# (.*))?$")
SUITE = re.compile(r"^( {4,})# Subtest: (\S+)")
# A suite that could not begin has no cases.
NO_SUITE = re.compile(r"^not ok \d+ (\S+)")
TROUBLE = re.compile(
    r"BUG:|Bad page|WARNING:|INFO: .*(lock|stall|hung|blocked)|non-static key|"
    r"turning off the locking|DEBUG_LOCKS_WARN|kernel BUG|Kernel panic|Oops|refcount_t:|refcount went|"
    r"page_counter underflow|alloc_tag was not"
)


# A report of lockdep's about 7.3 itself, in what follows its first line: a write to the state of a block of memory
# is under way while virtio-mem removes the block. The writer does not wait: it asks for device_hotplug_lock by a
# try, and begins anew without it; so there is no deadlock, which lockdep cannot know. It is off afterwards.
KNOWN_LOCKS = re.compile(
    r"possible circular locking.*is trying to acquire lock:[^(]*\(kn->active.*at: __kernfs_remove"
    r".*already holding lock:[^(]*\(mem_hotplug_lock\).*at: mem_hotplug_begin", re.DOTALL)
REPORT_LINES = 9


def is_trouble(lines, i):
    return bool(TROUBLE.search(lines[i])) and not KNOWN_LOCKS.search("".join(lines[i:i + REPORT_LINES]))


def cases(log):
    """(suite, case) -> pass, fail or skip, in the console's order; the worst of cases with equal names."""
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
                if (match[4] or "").startswith("SKIP"):
                    result = "skip"
                case = match[3] if len(match[1]) == 4 else f"{group}/{match[3]}"
                if found.get((suite, case)) != "fail":
                    found[suite, case] = result
            elif match := NO_SUITE.match(line):
                found[match[1], "(suite)"] = "fail"
    return found


def trouble(log):
    with open(log, errors="replace") as file:
        lines = file.readlines()
    return [line.rstrip() for i, line in enumerate(lines) if is_trouble(lines, i)]


def results(log):
    found = cases(log)
    for (suite, case), result in found.items():
        print(result, suite, case)
    return 0 if found else 1


def summary(log):
    found = cases(log)
    ours = [s for s in dict.fromkeys(s for s, _ in found) if re.match("page_ref|filemap_short|migrate_entry|free_contig", s)]
    print(f"        {counts(list(found.values()))} in {len({s for s, _ in found})} suites; ours: {', '.join(ours) or 'none'}")
    bad = trouble(log)
    for (suite, case), result in found.items():
        if result == "fail":
            print(f"        FAILED {suite} {case}")
    for line in bad:
        print(f"        CONSOLE {line}")
    return 1 if not found or "fail" in found.values() or bad else 0


def suites_of(tree, src, config):
    """Of the suites that a series brings and the configuration has: name -> has it a case that is not slow?"""
    found = {}
    without = left_out(src, config)
    for path in glob.glob(os.path.join(src, "mm/tests/*.c")):
        name = os.path.relpath(path, src)
        if os.path.exists(os.path.join(tree, name)) or name in without:
            continue
        with open(path) as source:
            text = source.read()
        for suite in re.findall(r"struct kunit_suite \w+ = \{(.*?)\n\};", text, re.DOTALL):
            array = re.search(r"\.test_cases\s*=\s*(\w+)", suite)[1]
            rows = re.search(rf"struct kunit_case {array}\[\] = \{{(.*?)\n\}};", text, re.DOTALL)[1]
            found[re.search(r'\.name\s*=\s*"(\w+)"', suite)[1]] = any(
                "SLOW" not in row for row in re.findall(r"KUNIT_CASE\w*\([^)]*\)", rows))
    return found


def left_out(src, config):
    """The files of tests that mm/Makefile has under an ifdef of an option that is not in the configuration."""
    with open(config) as lines:
        options = set(lines.read().splitlines())
    found, off = set(), False
    with open(os.path.join(src, "mm/Makefile")) as lines:
        for line in lines:
            if condition := re.match(r"ifdef (CONFIG_\w+)$", line):
                off = f"{condition[1]}=y" not in options
            elif line.startswith("endif"):
                off = False
            elif off:
                found.update(f"mm/{name}.c" for name in re.findall(r"(tests/\w+)\.o", line))
    return found


def ran(log, tree, src, config):
    results = {}
    for (suite, _), result in cases(log).items():
        results.setdefault(suite, set()).add(result)
    missing = [suite for suite, has_quick in sorted(suites_of(tree, src, config).items())
               if suite not in results or has_quick and "pass" not in results[suite]]
    for suite in missing:
        print(f"        NOT RUN {suite}")
    return 1 if missing else 0


def compare(off, on):
    def load(path):
        with open(path) as lines:
            return {tuple(line.split()[1:]): line.split()[0] for line in lines}

    before, after = load(off), load(on)
    both = before.keys() & after.keys()
    # A case that only the one has should not fail; how it fails, by a signal or in the end,
    # should be the same. What failed with the options off and then passed may fail with
    # them on.
    rank = {"pass": 0, "xfail": 0, "unsteady": 0, "skip": 1, "fail": 2}
    worse = sorted(key for key, result in after.items()
                   if rank.get(result, 3) > {**rank, "unsteady": 2}.get(before.get(key, "skip"), 3))
    for key in sorted(key for key, result in before.items() if result == "unsteady"):
        print(f"        UNSTEADY with the options off: {' '.join(key)}: {after.get(key, 'absent')} with them on")
    gone = sorted(before.keys() - after.keys())
    for key in worse:
        print(f"        WORSE {' '.join(key)}: {before.get(key, 'absent')} -> {after[key]}")
    for key in gone:
        print(f"        GONE {' '.join(key)}")
    print(f"        {len(both)} cases with the options off and on: {len(worse)} worse, {len(gone)} gone; "
          f"{len(after.keys() - before.keys())} only with them on")
    return 1 if worse or gone or not both else 0


def caught(log):
    found = cases(log)
    failed = [f"{suite}.{case}" for (suite, case), result in found.items() if result == "fail"]
    if failed:
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        print(f"        caught by {', '.join(failed[:3])}{more}")
        return 0
    if bad := trouble(log):
        print(f"        caught by the kernel: {bad[0][:100]}")
        return 0
    with open(log, errors="replace") as lines:
        ended = re.search("reboot: (Power down|Restarting system)", lines.read())
    print("        SURVIVED" if ended else "        NOT SHOWN: it did not reach its end, or never ran, and nothing had failed")
    return 1


# The lines for migrations that a guest has.
MOVES = 5
# All of them were out, and in the swap cache when they were moved; some beside forks.
SWAP_CACHE = re.compile(r'SWAPCACHE .*"pages":(\d+),"swapped":\1,"cached":\1,"forked":[1-9]\d*,"moved_each_time":[1-9]\d*,"bad":0}')
GUEST_TEST = re.compile(r"^SELFTEST (\S+) ([^\s,]+)(?:, \d+ s)?(?:, try (\d+))?$")
GUEST_CASE = re.compile(r"^CASE (\S+) (not ok|ok)\b(?: \d+)?(.*)$")
GUEST_TRIED = re.compile(r"^TRIED (\S+), try \d+: not ok\b(?: \d+)?(.*)$")
# What the series is about: all of it has to have been run.
MIGRATION = re.compile(r"migration(_|$)")
RANDOM = re.compile(r"random_")


def counts(found):
    """How many of the results passed, failed and were skipped, in words."""
    times = {what: found.count(what) for what in ("pass", "fail", "skip")}
    said = f"{times['pass']} passed, {times['fail']} failed, {times['skip']} skipped"
    others = len(found) - sum(times.values())
    return f"{said}, {others} ended otherwise" if others else said


def case_name(text):
    """What differs from run to run is no part of a name."""
    return re.sub(r"0x[0-9a-f]+|\d+MB|Extra pages.*|\d{4,}|[\s#]+", "-", text.strip()) or "-"


def guest(log, required=(("migration", MIGRATION),)):
    """A selftest as a whole, and its cases by their names, the worst of equal ones. What
    failed before its last try and passed in that is unsteady, and is told."""
    again = set()
    tests, found, tries, done, bad, moves, cached, is_set_up = {}, {}, [], False, [], 0, 0, False
    with open(log, errors="replace") as file:
        lines = file.readlines()
        for i, line in enumerate(lines):
            line = line.strip()
            if match := GUEST_TEST.match(line):
                tests[match[1]] = match[2]
                if match[3]:
                    tries.append(f"{match[1]}, try {match[3]}: {match[2]}")
                    again.add(match[1])
            elif match := GUEST_CASE.match(line):
                case = case_name(match[3])
                result = "fail" if match[2] == "not ok" else "skip" if "SKIP" in match[3] else "pass"
                if found.get((match[1], case)) != "fail":
                    found[match[1], case] = result
            elif line.startswith("TRIED "):
                tries.append(line[len("TRIED "):])
                if match := GUEST_TRIED.match(line):
                    again.add((match[1], case_name(match[2])))
            elif line.startswith(("SELFTEST ", "CASE ")):
                bad.append(f"not understood: {line}")
            elif line.startswith("MBIND ") and '"bad":0}' in line:
                moves += 1
            elif SWAP_CACHE.fullmatch(line):
                cached += 1
            elif line.startswith(("WRONG ", "HUNG ")):
                bad.append(line)
            elif line == "GUEST swap on, 2 nodes, 3 processors":
                is_set_up = True
            # What the kernel said, on the console or in its log, which the guest prints.
            elif is_trouble(lines, i):
                bad.append(line)
            done |= line == "GUEST done"
    if moves != MOVES:
        bad.append(f"{moves} of {MOVES} migrations went well")
    if cached != 1:
        bad.append("what is in the swap cache was not moved, or went wrong")
    if not is_set_up:
        bad.append("no swap, or not two nodes and three processors")
    if not done:
        bad.append("it did not reach its end")
    for what, pattern in required:
        of_that = [test for test in tests if pattern.match(test)]
        if not of_that:
            bad.append(f"no selftest of {what} was run")
        for test in of_that:
            results = [result for (name, _), result in found.items() if name == test]
            if tests[test] != "pass" or set(results) != {"pass"}:
                bad.append(f"{test} ended as {tests[test]}, of its cases {counts(results)}")
    def steady(what, result):
        return "unsteady" if result == "pass" and what in again else result

    for test, result in tests.items():
        print(steady(test, result), test, "whole")
    for (test, case), result in found.items():
        print(steady((test, case), result), test, case)
    print(f"        {counts(list(tests.values()))} of {len(tests)} selftests; of their {len(found)} cases "
          f"{counts(list(found.values()))}", file=sys.stderr)
    for line in tries:
        print(f"        AGAIN {line}", file=sys.stderr)
    for line in bad:
        print(f"        CONSOLE {line}", file=sys.stderr)
    return 0 if found and not bad else 1


def deep(log):
    return guest(log, (("migration", MIGRATION), ("random calls", RANDOM)))


def complaints(log):
    """What was said to be wrong, and which tests ended how, the guest as a whole among them.
    The kernel's log is printed at the end, so what is first may be either."""
    said, ended = [], {}
    with open(log, errors="replace") as file:
        lines = file.readlines()
        for i, line in enumerate(lines):
            line = line.strip()
            if line.startswith(("WRONG ", "HUNG ")) or is_trouble(lines, i):
                said.append(line)
            elif match := GUEST_TEST.match(line):
                ended[match[1]] = match[2]
            elif line == "GUEST done":
                ended["GUEST"] = "pass"
    for line in said[:3]:
        print(f"        {line[:200]}")
    return said, ended


def whole(log):
    said, ended = complaints(log)
    passed = [test for test, result in ended.items() if RANDOM.match(test) and result == "pass"]
    print(f"        {', '.join(passed) or 'no random caller'} passed" + ("" if "GUEST" in ended else "; it did not reach its end"))
    return 0 if passed and set(ended.values()) == {"pass"} and "GUEST" in ended and not said else 1


def noticed(log):
    said, ended = complaints(log)
    if not said:
        print("        SURVIVED" if "GUEST" in ended else "        NOT SHOWN: it did not reach its end, and nothing was said to be wrong")
    return 0 if said else 1


# Races of plain Linux 7.3 by their titles (patterns), and which of NAMES may be in them.
KNOWN = {
    # A reader, in filemap_read(), marks a page as accessed, while another task that wants to
    # evict the page reads its flags without a mark, in folio_has_private().
    "BUG: KCSAN: data-race in folio_mark_accessed / mapping_evict_folio":
        {"filemap_read", "mapping_evict_folio"},
    # Who finds a page by its entry reads in page_folio(), with a mark, the word that says
    # whether it is a tail; in a small folio a list of the LRU links it there, without one.
    # A test is who looks for the page, or who empties the batches of a processor. The names
    # are in the order of the alphabet.
    r"BUG: KCSAN: data-race in (folio_walk_start / lru\w+|folio_isolate_lru / folio_walk_start)":
        {"access_byte", "drive_isolate", "folio_batch_move_lru", "folio_isolate_lru"},
}


def known(title):
    """Which functions may be in a race of plain Linux with that title."""
    allowed = set()
    for pattern, names in KNOWN.items():
        if re.fullmatch(pattern, title):
            allowed |= names
    return allowed


def races(log):
    """The reports of the race detector: their titles, and the functions in these and the two
    innermost of either side, since a title may name no more than what a helper is called."""
    title, inner, left = None, [], 0
    with open(log, errors="replace") as lines:
        for line in lines:
            line = re.sub(r"^\[.*?\]\s*", "", line.strip())
            if line.startswith("BUG: KCSAN"):
                if title:
                    yield title, names_in(title, inner)
                title, inner, left = line, [], 0
            elif title and re.match(r"(read|write|race|assert).* (by (task|interrupt)|at unknown)", line):
                left = 2
            elif title and left and line:
                inner.append(line)
                left -= 1
            elif title and line.startswith("Reported by"):
                yield title, names_in(title, inner)
                title = None
    if title:
        yield title, names_in(title, inner)


def names_in(title, inner):
    """Of "... in NAME / NAME" and "NAME+0x1/0x2", without what the compiler appends."""
    names = title.partition(" in ")[2].split(" / ") + inner
    return {re.split(r"[.+]", name.strip())[0] for name in names}


def kcsan(log, names):
    with open(names) as lines:
        own = {line.strip() for line in lines}
    found = cases(log)
    print(f"        {counts(list(found.values()))}")
    failed = [f"{suite}.{case}" for (suite, case), result in found.items() if result == "fail"]
    reports = {}
    for title, functions in races(log):
        ours = own & functions
        whose = "" if not ours else "KNOWN " if ours <= known(title) else "OURS "
        reports.setdefault(title, []).append((whose, ours))
    for title, same in sorted(reports.items()):
        # Where several have the same title, what is wrong with any is.
        near = ", ".join(sorted(set().union(*(ours for _, ours in same))))
        print(f"        {max(whose for whose, _ in same)}{title} ({len(same)}){near and ': '}{near}")
    for case in failed:
        print(f"        FAILED {case}")
    bad = [line for line in trouble(log) if "BUG: KCSAN" not in line]
    for line in bad:
        print(f"        CONSOLE {line}")
    is_ours = any(whose == "OURS " for same in reports.values() for whose, _ in same)
    return 1 if failed or bad or not found or not own or is_ours else 0


if __name__ == "__main__":
    command = {"results": results, "summary": summary, "ran": ran, "compare": compare, "caught": caught,
               "guest": guest, "deep": deep, "whole": whole, "noticed": noticed, "kcsan": kcsan}
    if len(sys.argv) < 3 or sys.argv[1] not in command:
        sys.exit(__doc__)
    sys.exit(command[sys.argv[1]](*sys.argv[2:]))
