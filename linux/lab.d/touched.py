#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The functions of a kernel that have code of the series in them.

    touched.py TREE SRC DIR FILE...   TREE: the sources without the patches, SRC: with
                                      them, DIR: what was built of SRC, FILE: what the
                                      patches name

Prints the names of text symbols, one a line. A report of the race detector names symbols,
but a function that the series changes may be none, or not everywhere: the compiler puts
it into those that call it. So

 1. whatever differs between TREE and SRC is found in the functions, and the macros, that
    are around it. Comments and blank lines do not count;

 2. from each of them one goes up to those that call it in the sources, and on. The way ends
    at a caller whose machine code has a call of it (or of a function between them that
    is a symbol): its code is not in there;

 3. what was passed and is a symbol is printed.

Too many are printed rather than too few: a call that the configuration leaves out looks
like one that was put in place. Not seen: the bodies of trace events, calls that macros
make up from parts of names, and a function that one call site has in place and another
one of the same caller has not.
"""
import collections
import os
import re
import subprocess
import sys

# kind: function, static (a function of that file alone), macro, or alias (a macro without
# parameters).
Definition = collections.namedtuple("Definition", "name first last kind")

HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DEFINE = re.compile(r"^\s*#\s*define\s+([A-Za-z_]\w*)(\(?)")
CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
WORD = re.compile(r"\b[A-Za-z_]\w*")
SYSTEM_CALL = re.compile(r"^(COMPAT_|)SYSCALL_DEFINE\d\(\s*(\w+)")
# What may stand before the name of a function with brackets of its own.
ATTRIBUTE = re.compile(r"__attribute__|__aligned|__section|__printf|__no_sanitize\w*|__alloc_size|"
                       r"__malloc|__releases|__acquires|__must_hold\w*|__diag\w*|(?:__)?typeof(?:__)?")


def code(text):
    """The text with blanks for comments, strings and characters, line by line the same."""
    return HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def function_name(header):
    """The name of what a line of text defines before its body, or None."""
    if match := SYSTEM_CALL.match(header):
        return f"__do_{match[1].lower()}sys_{match[2]}"
    if not re.search(r"\)[\w\s]*$", header):
        return None
    for match in CALL.finditer(header):
        if not ATTRIBUTE.fullmatch(match[1]):
            return match[1]
    return None


def definitions(lines):
    """The functions and macros of lines that have gone through code(). In the kernel's style:
    a body begins with a brace and ends with one in the first column, unless it is on one
    line with its header."""
    found, header, first, at = [], "", 0, 0
    while at < len(lines):
        line = lines[at]
        begin = at
        if re.match(r"^\s*#", line):
            while lines[at].endswith("\\") and at + 1 < len(lines):
                at += 1
            if match := DEFINE.match(line):
                found.append(Definition(match[1], begin, at, "macro" if match[2] else "alias"))
            at += 1
            continue
        if not line.strip():
            header = ""
            at += 1
            continue
        if not header:
            first = at
        before, brace, _ = line.partition("{")
        header = f"{header} {before.strip()}".strip()
        if not brace:
            if line.rstrip().endswith((";", "}")):
                header = ""
            at += 1
            continue
        depth = 0
        while True:
            depth += lines[at].count("{") - lines[at].count("}")
            # In a body that is written as usual, braces may be in both arms of an #if.
            if depth <= 0 and (at == begin or not line.startswith("{")) or \
                    at > begin and lines[at].startswith("}") or at + 1 == len(lines):
                break
            at += 1
        if name := function_name(header):
            is_static = re.search(r"\bstatic\b", header)
            found.append(Definition(name, first, at, "static" if is_static else "function"))
        header = ""
        at += 1
    return found


def changed_lines(old, new):
    """The lines of the file new that are not in old, and between which lines some were lost,
    counted from 0: (first, last), or (last before, first after)."""
    said = subprocess.run(["diff", old, new], stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
    if said.returncode > 1:
        raise OSError(f"diff {old} {new} failed")
    with open(old, errors="replace") as text:
        old_lines = code(text.read()).split("\n")
    with open(new, errors="replace") as text:
        new_lines = code(text.read()).split("\n")
    changed, lost = [], []
    for match in re.finditer(r"^(\d+)(?:,(\d+))?([acd])(\d+)(?:,(\d+))?$", said.stdout, re.M):
        old_first, new_first = int(match[1]) - 1, int(match[4]) - 1
        old_last, new_last = int(match[2] or match[1]), int(match[5] or match[4])
        if match[3] != "d":
            changed += [n for n in range(new_first, new_last) if new_lines[n].strip()]
        elif any(line.strip() for line in old_lines[old_first:old_last]):
            lost.append((new_first, new_first + 1))
    return changed, lost


class Sources:
    """Which functions and macros there are in files of the kernel, and who calls them. Each is
    a node (file, name), of which the file is empty unless no other file can see the name."""

    def __init__(self, src, files):
        self.src, self.defined, self.local = src, {}, set()
        self.callers = collections.defaultdict(set)
        names, bodies = set(), []
        for file in files:
            lines = self.lines(file)
            self.defined[file] = definitions(lines)
            for one in self.defined[file]:
                names.add(one.name)
                if file.endswith(".c") and one.kind != "function":
                    self.local.add((file, one.name))
                bodies.append((file, one.name, "\n".join(lines[one.first:one.last + 1]), one.kind))
        for file, caller, body, kind in bodies:
            # What an alias stands for is called where the alias is.
            for name in set((WORD if kind == "alias" else CALL).findall(body)):
                if name in names and name != caller:
                    self.callers[name].add((file, caller))

    def lines(self, file):
        with open(os.path.join(self.src, file), errors="replace") as text:
            return code(text.read()).split("\n")

    def node(self, file, name):
        return (file if (file, name) in self.local else "", name)

    def callers_of(self, node):
        file, name = node
        for of, caller in self.callers[name]:
            if of == file or not file and (of, name) not in self.local:
                yield self.node(of, caller)

    def around(self, file, changed, lost):
        """What has one of the lines, or was around those that were lost."""
        found = set()
        for one in self.defined[file]:
            if any(one.first <= line <= one.last for line in changed) or \
                    any(one.first <= before and after <= one.last for before, after in lost):
                found.add(self.node(file, one.name))
        return found


def calls_of(disassembly):
    """Of the lines of objdump -d: symbol -> those that it calls, or jumps to. The compiler
    may have made variants of a function, NAME.isra.0 and the like. One that is called NAME.part.0
    has the rest of it in its callers, so it does not count as called."""
    calls, symbol = {}, None
    for line in disassembly:
        if match := re.match(r"[0-9a-f]+ <([^>]+)>:", line):
            symbol = plain(match[1])
            calls.setdefault(symbol, set())
        elif symbol and (match := re.search(r"\t(?:call|j\w+) .*<([^>+]+)>", line)):
            if ".part." not in match[1]:
                calls[symbol].add(plain(match[1]))
    return calls


def plain(name):
    return name.split(".")[0]


def symbols_of(name):
    """What a function may be called in the kernel's machine code."""
    if match := re.match(r"__do_(compat_|)sys_(\w+)$", name):
        return [f"__{prefix}_{match[1]}sys_{match[2]}" for prefix in ("do", "se", "x64", "ia32")]
    return [name]


def with_code_of(touched, sources, calls):
    """The symbols that have code of one of the touched nodes in them."""
    found = set()
    for root in touched:
        # How one came to a node: by way of which symbol, the root and the nearest.
        todo = [(root, ())]
        seen = set(todo)
        while todo:
            node, passed = todo.pop()
            own = [name for name in symbols_of(node[1]) if name in calls]
            found.update(own)
            passed = (*passed[:1], own[0]) if own else passed
            for caller in sources.callers_of(node):
                called = set().union(*(calls.get(name, ()) for name in symbols_of(caller[1])))
                if not called.isdisjoint(passed):
                    continue
                if (caller, passed) not in seen:
                    seen.add((caller, passed))
                    todo.append((caller, passed))
    return found


def built_files(src, directory):
    """What the objects in a directory were made from, by the lists that kbuild keeps."""
    found, prefix = set(), os.path.realpath(src) + os.sep
    for where, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if name not in ("scripts", "tools")]
        for file in files:
            if not (file.startswith(".") and file.endswith(".o.cmd")):
                continue
            with open(os.path.join(where, file), errors="replace") as text:
                for line in text:
                    word = line.rstrip(" \\\n").split(" ")[-1]
                    if word.endswith((".c", ".h")) and line.startswith(("  ", "source_")):
                        path = os.path.normpath(os.path.join(directory, word))
                        if path.startswith(prefix):
                            found.add(path[len(prefix):])
    return found


def touched_by(tree, src, sources, files):
    """The nodes that differ, and the files that do."""
    touched, differ = set(), []
    for file in files:
        old, new = os.path.join(tree, file), os.path.join(src, file)
        changed, lost = changed_lines(old if os.path.exists(old) else os.devnull, new)
        if changed or lost:
            differ.append(file)
            touched |= sources.around(file, changed, lost)
    return touched, differ


def main(tree, src, directory, *files):
    built = built_files(src, directory)
    if not built:
        sys.exit(f"touched.py: nothing in {directory} was built of {src}")
    sources = Sources(src, sorted(built))
    touched, differ = touched_by(tree, src, sources, sorted(built.intersection(files)))
    objdump = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", os.path.join(directory, "vmlinux")],
                               stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
    with objdump:
        calls = calls_of(objdump.stdout)
    found = with_code_of(touched, sources, calls)
    if objdump.returncode or not found:
        sys.exit(f"touched.py: no symbol of {directory}/vmlinux has code of what differs")
    for name in sorted(found):
        print(name)
    print(f"        {len(differ)} files differ, {len(touched)} functions and macros in them; "
          f"their code is in {len(found)} of {len(calls)} symbols", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
