#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a tool says of sources with the series, and not of those without.

    messages.py new WITHOUT TREE WITH SRC    two logs, and the trees that they are of; prints
                                             what only WITH has, and fails if there is any
    messages.py style LOG LIST               checkpatch's messages (--terse --show-types);
                                             fails unless they are those of LIST

Lines of a source move, so a message is the same wherever in its file it is; but if there is
one more of the same, that is new. A line of LIST is PATCH TYPE TIMES, and the reason.
"""
import collections
import re
import sys

# Of a compiler, sparse, coccinelle, kernel-doc and Sphinx. Notes, where a compiler is, and the lines that it
# shows belong to a message beside them.
PART = re.compile(r"^(?:\s*\d* \| |SCRIPT |In file included from | +(?:inlined )?from )|: note: |\b[Ii]n function ['`]")
MESSAGE = re.compile(r"^(?:(?:Warning|Error|WARNING|ERROR): )?(?P<file>[\w./+-]+\.(?:[chS]|rst))"
                     r"(?P<place>:\d+(?:[:-]\d+)*):? (?P<text>.*)$")
# What else complains: objtool, modpost, a linker, Sphinx of no line, a tool of itself.
OTHER = re.compile(r"warning|error", re.I)
FILE = re.compile(r"[\w./+-]+\.(?:[chSo]|ko|rst|cocci)\b")
STYLE = re.compile(r"^(?:.*/)?(?P<patch>[\w-]+/\d{4})-[^:]*:\d+: (?:ERROR|WARNING|CHECK):(?P<type>\w+): (?P<text>.*)$")


def messages(log, root):
    """(file, text) -> the lines of the log that say so."""
    found = collections.defaultdict(list)
    with open(log, errors="replace") as lines:
        for line in lines:
            line = line.rstrip().replace(root.rstrip("/") + "/", "")
            if PART.search(line):
                continue
            if match := MESSAGE.match(line):
                file, text = match["file"], match["text"]
            elif OTHER.search(line):
                file, text = (FILE.search(line) or [""])[0], line
            else:
                continue
            text = re.sub(r"\blines? \d+(, \d+)*", "line", text)
            # Where in a function, which objtool says.
            text = re.sub(r"\+0x[0-9a-f]+", "", text)
            found[re.sub(r"^(\.\./)+src/", "", file), text].append(line)
    return found


def new(log_without, tree, log_with, src):
    before, after = messages(log_without, tree), messages(log_with, src)
    count = 0
    for key, lines in sorted(after.items()):
        for line in lines[len(before.get(key, [])):]:
            print(f"        NEW {line}")
            count += 1
    print(f"        {sum(map(len, after.values()))} messages, {count} of them not of the sources without the series")
    return 1 if count else 0


def style(log, accepted):
    wanted, seen = {}, collections.Counter()
    with open(accepted) as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                patch, kind, times, _ = line.split(maxsplit=3)
                wanted[patch, kind] = int(times)
    bad = 0
    with open(log, errors="replace") as lines:
        for line in lines:
            if match := STYLE.match(line.rstrip()):
                key = match["patch"], match["type"]
                seen[key] += 1
                if seen[key] > wanted.get(key, wanted.get(("*", key[1]), 0)):
                    print(f"        NEW {line.rstrip()}")
                    bad += 1
            elif line.strip():
                print(f"        NOT UNDERSTOOD {line.rstrip()}")
                bad += 1
    for key in sorted(wanted):
        # A row of all patches says how often each may have it.
        if key[0] != "*" and seen[key] < wanted[key]:
            print(f"        GONE {' '.join(key)}: {seen[key]} and not {wanted[key]}, so the list is too long")
            bad += 1
    print(f"        {sum(seen.values())} messages, of which the list has {sum(wanted.values())}")
    return 1 if bad else 0


if __name__ == "__main__":
    command = {("new", 4): new, ("style", 2): style}.get((sys.argv[1] if sys.argv[1:] else "", len(sys.argv) - 2))
    if not command:
        sys.exit(__doc__)
    sys.exit(command(*sys.argv[2:]))
