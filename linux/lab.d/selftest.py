#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What the lab's own checks notice, each beside what they let pass. Run by `lab check`."""
import contextlib
import io
import json
import os
import tempfile
import unittest

import ktap
import tables

KUNIT = """\
    KTAP version 1
    # Subtest: page_ref
    ok 1 first
    ok 2 second # SKIP why not
        # Subtest: third
        ok 1 a
        ok 2 b
    ok 3 third
ok 1 page_ref
reboot: Power down
"""
GUEST = """\
GUEST swap on, 2 nodes, 3 processors
""" + 'MBIND {"bench":"mbind","bad":0}\n' * ktap.MOVES + """\
SELFTEST cow pass, 3 s
CASE cow ok 1 a page of 0x7f12
TRIED rmap, try 1: not ok 2 rmap.file
SELFTEST rmap fail, 9 s, try 3
CASE rmap ok 1 rmap.anon
CASE rmap not ok 2 rmap.file
CASE rmap ok 3 # SKIP why not
SELFTEST migration_-t_private_anon pass, 20 s
CASE migration_-t_private_anon ok 1 migration.private_anon
KERNEL <4>Memory failure: injected
GUEST done
"""
RACE = """\
BUG: KCSAN: data-race in lru_add / mark

write to 0x1 of 8 bytes by task 1 on cpu 0:
 lru_add+0x1/0x2
 folio_batch_move_lru+0x1/0x2

read to 0x1 of 8 bytes by task 2 on cpu 1:
 {}+0x1/0x2
 caller+0x1/0x2

Reported by Kernel Concurrency Sanitizer on:
"""

class Checks(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name

    def file(self, text, name="file"):
        path = os.path.join(self.dir, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def run_on(self, check, *texts):
        """The exit code, and what was said."""
        paths = [self.file(text, f"file{n}") for n, text in enumerate(texts)]
        with contextlib.redirect_stdout(io.StringIO()) as said, \
                contextlib.redirect_stderr(said):
            return check(*paths), said.getvalue()

    def test_cases_have_their_suite_and_group(self):
        found = ktap.cases(self.file(KUNIT))
        self.assertEqual(found["page_ref", "second"], "skip")
        self.assertEqual(found["page_ref", "third/b"], "pass")
        self.assertEqual(len(found), 5)

    def test_a_summary_fails_on_what_failed_and_on_what_the_kernel_said(self):
        self.assertEqual(self.run_on(ktap.summary, KUNIT)[0], 0)
        for text in ("", KUNIT.replace("ok 1 first", "not ok 1 first"),
                     KUNIT + "not ok 2 filemap_short_read\n",
                     KUNIT + "WARNING: mm/x.c:1 at f\n", KUNIT + "BUG: Bad page state\n",
                     KUNIT + "INFO: rcu_sched detected stalls\n"):
            self.assertEqual(self.run_on(ktap.summary, text)[0], 1, text[-40:])

    def test_a_comparison_fails_on_what_is_worse_or_gone(self):
        off = "pass s a\nskip s b\nfail s c\n"
        for on in (off, off + "pass s d\n", off.replace("fail", "pass"), off + "skip s d\n"):
            self.assertEqual(self.run_on(ktap.compare, off, on)[0], 0, on)
        for on in (off.replace("pass s a", "fail s a"), off.replace("pass s a", "skip s a"),
                   off.replace("skip s b", "fail s b"), off.replace("fail s c", "timeout s c"),
                   off.replace("fail s c", "signal-11 s c"), off + "fail s d\n",
                   off.replace("pass s a\n", "")):
            self.assertEqual(self.run_on(ktap.compare, off, on)[0], 1, on)

    def test_a_mutant_is_caught_by_a_case_or_by_the_kernel_alone(self):
        for text in (KUNIT.replace("ok 3 third", "not ok 3 third"), "Kernel panic\n",
                     KUNIT + "refcount_t: underflow\n"):
            self.assertEqual(self.run_on(ktap.caught, text)[0], 0, text)
        code, said = self.run_on(ktap.caught, KUNIT)
        self.assertEqual((code, "SURVIVED" in said), (1, True))
        # Cut, or never begun.
        for text in ("", KUNIT.replace("reboot: Power down\n", "")):
            code, said = self.run_on(ktap.caught, text)
            self.assertEqual((code, "NOT SHOWN" in said), (1, True))

    def test_a_guest_has_done_all(self):
        code, said = self.run_on(ktap.guest, GUEST)
        self.assertEqual(code, 0, said)
        self.assertIn("pass cow a-page-of--", said)
        for text in (GUEST.replace("GUEST done", ""), GUEST.replace('"bad":0', '"bad":1', 1),
                     GUEST.replace("swap on", "swap off"), GUEST.replace("3 proc", "1 proc"),
                     GUEST + "KERNEL <4>WARNING: mm/x.c:1 at f\n",
                     GUEST.replace("cow pass", "cow pa[ 1.0] what the console said"),
                     GUEST.replace("cow ok", "cow [ 1.0] what the console said"),
                     GUEST.replace("SELFTEST", "").replace("CASE", "")):
            self.assertEqual(self.run_on(ktap.guest, text)[0], 1, text)

    def test_a_guest_counts_what_it_ran(self):
        said = self.run_on(ktap.guest, GUEST)[1]
        self.assertIn("2 passed, 1 failed, 0 skipped of 3 selftests; "
                      "of their 5 cases 3 passed, 1 failed, 1 skipped", said)
        said = self.run_on(ktap.guest, GUEST.replace("cow pass", "cow timeout"))[1]
        self.assertIn("1 passed, 1 failed, 0 skipped, 1 ended otherwise of 3 selftests", said)

    def test_a_guest_has_migrated(self):
        case = "CASE migration_-t_private_anon ok 1 migration.private_anon\n"
        self.assertEqual(self.run_on(ktap.guest, GUEST + "SELFTEST migration pass\n" +
                                     case.replace("_-t_private_anon", ""))[0], 0)
        for text in (GUEST.replace(case, ""), GUEST.replace(case, case[:-1] + " # SKIP too few\n"),
                     GUEST.replace(case, case.replace("ok 1", "not ok 1")),
                     GUEST + case.replace("private_anon\n", "shared_anon # SKIP why not\n"),
                     GUEST + "SELFTEST migration pass\n",
                     GUEST.replace("anon pass, 20 s", "anon timeout, 900 s"),
                     GUEST.replace("migration", "compaction")):
            self.assertEqual(self.run_on(ktap.guest, text)[0], 1, text)

    def test_what_a_guest_tried_again_is_told_and_is_no_result(self):
        said = self.run_on(ktap.guest, GUEST)[1].splitlines()
        self.assertIn("        AGAIN rmap, try 1: not ok 2 rmap.file", said)
        self.assertIn("        AGAIN rmap, try 3: fail", said)
        once = "".join(line for line in GUEST.replace(", try 3", "").splitlines(True)
                       if not line.startswith("TRIED"))
        both = []
        for text in (once, GUEST):
            with contextlib.redirect_stdout(io.StringIO()) as results, \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                ktap.guest(self.file(text))
            both.append(results.getvalue())
        self.assertEqual(both[0], both[1])
        self.assertIn("fail rmap whole\n", both[0])
        self.assertEqual(self.run_on(ktap.compare, *both)[0], 0)

    def test_a_race_is_ours_by_either_side(self):
        self.assertEqual(self.run_on(ktap.kcsan, KUNIT + RACE.format("mark"), "own_function\n")[0], 0)
        for function in ("own_function", "remove_migration_pte", "filemap_short_read"):
            code, said = self.run_on(ktap.kcsan, KUNIT + RACE.format(function), "own_function\n")
            self.assertEqual((code, "OURS" in said), (1, True), function)
        self.assertEqual(self.run_on(ktap.kcsan, KUNIT + "WARNING: x\n", "own\n")[0], 1)

    def lines(self, ratio, boots=3):
        values = {}
        for _, _, (*where, engine) in [(*t[:2], t[2] if len(t[2]) > 5 else (*t[2], "on")) for t in tables.TARGETS]:
            values[(*where, "baseline")] = 100
            values[(*where, engine)] = 100 * ratio
        names = ("bench", "case", "block", "file_bytes", "threads", "engine")
        return [{**dict(zip(names, where)), "value": value, "unit": "x"}
                for where, value in values.items() for _ in range(boots)]

    def tables(self, rows, **how):
        path = self.file("".join(json.dumps(row) + "\n" for row in rows))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            tables.main(path, **how)
        return said.getvalue()

    def test_ratios_are_of_pairs_and_targets_are_met_or_missed(self):
        self.assertNotIn("missed", self.tables(self.lines(8)))
        said = self.tables(self.lines(1.05))
        self.assertIn("| missed |", said)
        self.assertIn("1.050 (1.050 to 1.050) | met", said)

    def test_what_was_not_measured_is_said(self):
        rows = self.lines(2)
        with self.assertRaises(SystemExit):
            self.tables(rows[:-1])
        with self.assertRaises(SystemExit):
            self.tables([row for row in rows if row["bench"] != "migrate"])
        self.assertIn("not measured",
                      self.tables([row for row in rows if row["bench"] != "migrate"], is_whole=False))


if __name__ == "__main__":
    unittest.main()
