"""Compares two runs of SQLite's test suite: what fails with the VFS that is tested, and not without.

Usage: compare.py UNIX.log PAGEWELL.log DIFFERENCES.txt

A line of DIFFERENCES.txt is a pattern of names (as of a shell), white space, and the reason. A name is that of a test that fails, or `not-begun:` and that of one
that is not begun because its file has ended before. How a file may end early, by an error of Tcl's or the end of its process, is told; the tests that it
has not begun then need a pattern too.
"""

import fnmatch
import re
import sys

# A test prints its name with three points; "Ok" follows on the same line, or a failure begins with "!" or "Error:" on a line of its own. At the end of a run is a
# line with the names of all that have failed, also of those that have printed something else.
STARTED = re.compile(r"^(\S.*?)\.\.\.")
FAILED = re.compile(r"^! (\S+) (?:expected|got)")
ALL_FAILED = "!Failures on these tests:"


def read(path):
    """The tests that a log has, and the reasons why some have failed; how files or the run have ended early."""
    begun, failed, ended = set(), {}, []
    last = None
    with open(path, errors="replace") as log:
        for line in log:
            line = line.rstrip("\n")
            if match := STARTED.match(line):
                last = match[1]
                begun.add(last)
            elif line.startswith("Error:") and last is not None:
                failed.setdefault(last, []).append(line)
            elif match := FAILED.match(line):
                failed.setdefault(match[1], []).append(line)
            elif line.startswith(ALL_FAILED):
                for name in line.removeprefix(ALL_FAILED).split():
                    failed.setdefault(name, [])
            elif line.startswith("!Ended"):
                ended.append((line, last))
    return begun, failed, ended


def main():
    unix, ours, table = sys.argv[1:]
    begun_unix, failed_unix, ended_unix = read(unix)
    begun, failed, ended = read(ours)
    missing = begun_unix - begun
    patterns = []
    with open(table) as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                pattern, reason = line.split(None, 1)
                patterns.append((pattern, reason.strip(), []))
    unexplained = []
    for name in sorted(failed.keys() - failed_unix.keys()) + sorted("not-begun:" + name for name in missing):
        for pattern, _, met in patterns:
            if fnmatch.fnmatchcase(name, pattern):
                met.append(name)
                break
        else:
            unexplained.append(name)
    print(f"without: {len(begun_unix)} tests, {len(failed_unix)} fail; with: {len(begun)} tests, {len(failed)} fail, {len(failed.keys() & failed_unix.keys())} of them without too")
    print(f"only without: {len(failed_unix.keys() - failed.keys())} fail; {len(missing)} tests are not begun with this VFS")
    for pattern, reason, met in patterns:
        if met:
            print(f"  {len(met):4} {pattern}: {reason}")
    for how, log in (("without", ended_unix), ("with", ended)):
        for line, last in log:
            print(f"{how}: {line}, last {last}")
    for name in unexplained[:200]:
        print(f"UNEXPLAINED {name}")
        for line in failed.get(name, [])[:2]:
            print("    " + line[:240])
    # What ends a whole process is never explained.
    died = [line for line, _ in ended if ": code " in line]
    print(f"{len(begun) - len(failed)} passed, {len(unexplained)} unexplained, {len(died)} processes died")
    sys.exit(1 if unexplained or died or not begun else 0)


main()
