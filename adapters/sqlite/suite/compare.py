"""Compares two runs of SQLite's test suite: what fails with the VFS that is tested, and not without.

Usage: compare.py UNIX.log PAGEWELL.log DIFFERENCES.txt

A line of DIFFERENCES.txt is a pattern of names (as of a shell), white space, and the reason. Patterns that meet nothing are told.
"""

import fnmatch
import re
import sys

# A test prints its name with three points; "Ok" follows on the same line, or a failure begins with "!" on a line of its own.
STARTED = re.compile(r"^(\S.*?)\.\.\.")
FAILED = re.compile(r"^! (\S+) (?:expected|got)")


def read(path):
    """The tests that a log has, and the reasons why some have failed."""
    begun, failed, ended = set(), {}, []
    last = None
    with open(path, errors="replace") as log:
        for line in log:
            line = line.rstrip("\n")
            if match := STARTED.match(line):
                last = match[1]
                begun.add(last)
                if "Error:" in line and not line.endswith("Ok"):
                    failed.setdefault(last, []).append(line)
            elif match := FAILED.match(line):
                failed.setdefault(match[1], []).append(line)
            elif line.startswith("!Ended"):
                ended.append((line, last))
    return begun, failed, ended


def main():
    unix, ours, table = sys.argv[1:]
    begun_unix, failed_unix, _ = read(unix)
    begun, failed, ended = read(ours)
    patterns = []
    with open(table) as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                pattern, reason = line.split(None, 1)
                patterns.append((pattern, reason.strip(), []))
    unexplained = []
    for name in sorted(failed.keys() - failed_unix.keys()):
        for pattern, _, met in patterns:
            if fnmatch.fnmatchcase(name, pattern):
                met.append(name)
                break
        else:
            unexplained.append(name)
    print(f"without: {len(begun_unix)} tests, {len(failed_unix)} fail; with: {len(begun)} tests, {len(failed)} fail, {len(failed.keys() & failed_unix.keys())} of them without too")
    print(f"only without: {len(failed_unix.keys() - failed.keys())} fail; {len(begun_unix - begun)} tests are not begun with this VFS")
    for pattern, reason, met in patterns:
        if met:
            print(f"  {len(met):4} {pattern}: {reason}")
    for name in unexplained:
        print(f"UNEXPLAINED {name}")
        for line in failed[name][:2]:
            print("    " + line[:240])
    for line, last in ended:
        print(f"{line}, last {last}")
    missing = sorted(begun_unix - begun)
    for name in missing[:20]:
        print(f"  not begun: {name}")
    # The suite ends with an error if any test has failed; a run that ends early has fewer tests.
    print(f"{len(begun) - len(failed)} passed, {len(unexplained)} failed")
    sys.exit(1 if unexplained or len(begun) < 0.98 * len(begun_unix) else 0)


main()
