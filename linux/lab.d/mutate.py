#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Broken variants of the series, which the tests must notice.

    mutate.py list [guest]            those for user-mode Linux, or for a guest in QEMU, which
                                      has huge pages
    mutate.py list-in-place           without those of the header
    mutate.py files                   the files that variants change in place
    mutate.py suites NAME             the pattern of the suites that have to notice it
    mutate.py apply NAME SRC HEADER   changes SRC, a kernel tree, or writes the
                                      changed header to HEADER; prints the suites
"""
import os
import sys

HEADER = "include/linux/page_ref_frozen_bit.h"
SLOW = "mm/page_ref_frozen_bit.c"
SEND = "include/linux/net.h"
SEAL = "mm/memfd.c"
DAX = "include/linux/dax.h"
READ = "mm/filemap_short_read.c"
COUNT = "mm/migrate_entry_count.h"
MERGE = "mm/free_contig.c"
ALLOC = "mm/page_alloc.c"

# name: (which file, the text to find, which occurs once, and what replaces it)
MUTANTS = {
    # The winner of a put does not lock: a try on the freed page succeeds.
    "put-without-cas": (
        HEADER,
        "return atomic_cmpxchg_acquire(ref, 0, PAGEREF_FROZEN) == 0;",
        "return true;",
    ),
    # A store for the CAS: wipes the reference of a try that came between.
    "put-with-store": (
        HEADER,
        "return atomic_cmpxchg_acquire(ref, 0, PAGEREF_FROZEN) == 0;",
        "{ atomic_set(ref, PAGEREF_FROZEN); return true; }",
    ),
    # Everybody whose CAS lost believes to have won.
    "put-ignores-cas": (
        HEADER,
        "return atomic_cmpxchg_acquire(ref, 0, PAGEREF_FROZEN) == 0;",
        "{ atomic_cmpxchg_acquire(ref, 0, PAGEREF_FROZEN); return true; }",
    ),
    # The exact put leaves a bare 0, where its guess is right and where it is not.
    "exact-put-to-bare-zero": (
        HEADER,
        "atomic_try_cmpxchg(ref, &guess, PAGEREF_FROZEN)",
        "atomic_try_cmpxchg(ref, &guess, 0)",
    ),
    "looped-put-to-bare-zero": (
        SLOW,
        "atomic_try_cmpxchg(ref, &old, new ?: PAGEREF_FROZEN)",
        "atomic_try_cmpxchg(ref, &old, new)",
    ),
    # An exchange forgets the references of others.
    "exact-put-by-exchange": (
        HEADER,
        "likely(atomic_try_cmpxchg(ref, &guess, PAGEREF_FROZEN))",
        "atomic_xchg(ref, PAGEREF_FROZEN) == guess",
    ),
    # To have looked is not to own: a try may come between.
    "seen-put-with-store": (
        HEADER,
        "if (seen == nr &&\n"
        "\t    likely(atomic_try_cmpxchg(ref, &seen, PAGEREF_FROZEN)))\n\t\treturn true;",
        "if (seen == nr) {"
        " atomic_set(ref, PAGEREF_FROZEN); return true; }",
    ),
    # Two steps where one is needed.
    "freeze-in-two-steps": (
        HEADER,
        "return likely(count > 0 &&\n\t\t      atomic_cmpxchg(ref, count, PAGEREF_FROZEN) == count);",
        "if (count <= 0 || atomic_read(ref) != count) return false;"
        " atomic_set(ref, PAGEREF_FROZEN); return true;",
    ),
    # Freezing to what the baseline freezes to.
    "freeze-to-bare-zero": (
        HEADER,
        "return likely(count > 0 &&\n\t\t      atomic_cmpxchg(ref, count, PAGEREF_FROZEN) == count);",
        "return count > 0 && atomic_cmpxchg(ref, count, 0) == count;",
    ),
    # A failed try leaves what it added.
    "no-reset": (
        SLOW,
        "\tatomic_cmpxchg_relaxed(ref, new, PAGEREF_FROZEN);\n\treturn false;",
        "\treturn false;",
    ),
    # A reset by a store: wipes an unfreeze.
    "reset-with-store": (
        SLOW,
        "\tatomic_cmpxchg_relaxed(ref, new, PAGEREF_FROZEN);\n\treturn false;",
        "\tatomic_set(ref, PAGEREF_FROZEN);\n\treturn false;",
    ),
    # A reset that takes back what was added: goes below an unfreeze's store.
    "reset-by-subtraction": (
        SLOW,
        "\tatomic_cmpxchg_relaxed(ref, new, PAGEREF_FROZEN);\n\treturn false;",
        "\tatomic_sub(new - PAGEREF_FROZEN, ref);\n\treturn false;",
    ),
    # The RFC's form: one attempt, however high the word is.
    "one-reset-when-high": (
        SLOW,
        "if ((unsigned int)seen < PAGEREF_HIGH)\n\t\t\tbreak;",
        "break;",
    ),
    # No limit on live references.
    "no-limit": (
        HEADER,
        "return (unsigned int)atomic_read(ref) - 1 < PAGEREF_LIMIT;",
        "return atomic_read(ref) > 0;",
    ),
    # Fallible callers are not refused, whether they add little or much.
    "limit-not-asked": (
        HEADER,
        "\tif (unlikely(!page_ref_word_gettable(ref)))\n\t\treturn false;\n",
        "",
    ),
    "limit-not-asked-of-many": (
        SLOW,
        "if (old < min || old > PAGEREF_LIMIT - nr)",
        "if (page_ref_fb_frozen(old))",
    ),
    # Others are: a page with many references looks frozen for ever.
    "tries-refused-at-the-limit": (
        HEADER,
        "\tif (likely(new > 0))\n\t\treturn true;\n\n\treturn page_ref_fb_try_add_slow(ref, new);",
        "\tif (likely(new > 0 && new <= PAGEREF_LIMIT))\n\t\treturn true;\n"
        "\tif (new > 0) { atomic_sub(nr, ref); return false; }\n"
        "\treturn page_ref_fb_try_add_slow(ref, new);",
    ),
    # As in what was posted: from 2^31 references on a page looks frozen.
    "saturated-is-frozen": (
        HEADER,
        "\treturn (unsigned int)word >= PAGEREF_FROZEN_MIN;",
        "\treturn word < 0;",
    ),
    # Tries fail then, and their resets forget references.
    "saturated-try-fails": (
        SLOW,
        "\tif (page_ref_fb_in_band(new)) {\n\t\tpage_ref_fb_centre_from(ref, new);\n\t\treturn true;\n\t}\n",
        "",
    ),
    # A negative count is taken for idle, and forgotten.
    "saturated-is-idle": (
        HEADER,
        "page_ref_fb_frozen(old) ? 1 : (unsigned int)old + 1",
        "old <= 0 ? 1 : (unsigned int)old + 1",
    ),
    # A saturated word is forgotten by a get of an idle page.
    "saturated-idle-get-centres": (
        HEADER,
        "\t\tif (unlikely(page_ref_fb_in_band(old) && page_ref_fb_near_centre(old)))\n\t\t\treturn;\n",
        "",
    ),
    # Such a get counts on in the saturated band.
    "saturated-idle-get-unchecked": (
        HEADER,
        "\t\tif (unlikely(new < 0))\n\t\t\tnew = PAGEREF_SATURATED;\n",
        "",
    ),
    # Tries, gets, and puts leave a saturated word where it is, and count on.
    "saturated-try-not-centred": (
        SLOW,
        "\tif (page_ref_fb_in_band(new)) {\n\t\tpage_ref_fb_centre_from(ref, new);\n\t\treturn true;\n",
        "\tif (page_ref_fb_in_band(new)) {\n\t\treturn true;\n",
    ),
    "saturated-get-unchecked": (
        HEADER,
        "\t\tsaturated = atomic_add_negative_relaxed(nr, ref);\n\t}\n\tif (unlikely(saturated))\n",
        "\t\tsaturated = atomic_add_negative_relaxed(nr, ref);\n\t}\n\tif (saturated && false)\n",
    ),
    "saturated-returning-get-unchecked": (
        HEADER,
        "\tif (unlikely(new < 0))\n\t\tpage_ref_fb_centre(ref);\n\treturn new;\n",
        "\treturn new;\n",
    ),
    "saturated-sub-unchecked": (
        HEADER,
        "\t\tsaturated = atomic_add_negative_relaxed(-nr, ref);\n\t}\n\tif (unlikely(saturated))\n",
        "\t\tsaturated = atomic_add_negative_relaxed(-nr, ref);\n\t}\n\tif (saturated && false)\n",
    ),
    "saturated-put-unchecked": (
        HEADER,
        "\telse if (unlikely(old <= nr))\n",
        "\telse if (unlikely(old == nr))\n",
    ),
    "saturated-exact-put-not-centred": (
        SLOW,
        "new = page_ref_fb_in_band(old) ? PAGEREF_SATURATED : old - nr;",
        "new = page_ref_fb_in_band(old) ? old : old - nr;",
    ),
    # A word goes so far off the centre that the bounds do not hold.
    "saturated-slack-exceeded": (
        SLOW,
        "return (unsigned int)word - least <= 2 * PAGEREF_SAT_SLACK;",
        "return (unsigned int)word - least <= 4 * PAGEREF_SAT_SLACK;",
    ),
    # The band having been seen does not mean that the page still exists.
    "saturated-with-store": (
        SLOW,
        "\t} while (!atomic_try_cmpxchg_relaxed(ref, &seen, PAGEREF_SATURATED));\n",
        "\t\tatomic_set(ref, PAGEREF_SATURATED);\n\t} while (0);\n",
    ),
    # An expected count that wrapped matches the word.
    "saturated-page-is-frozen": (
        HEADER,
        "likely(count > 0 &&\n\t\t      atomic_cmpxchg",
        "likely(atomic_cmpxchg",
    ),
    # Sending it fails for ever, with a warning.
    "saturated-page-is-not-sent": (
        SEND,
        "page_count(page) < 0;",
        "false;",
    ),
    # A comparison without a freeze matches a mapcount that wrapped.
    "saturated-count-is-expected": (
        HEADER,
        "return count >= 0 && page_ref_word_read(ref) == count;",
        "return page_ref_word_read(ref) == count;",
    ),
    # A file is sealed while its saturated folio may be pinned.
    "saturated-folio-is-sealed": (
        SEAL,
        "return !folio_ref_count_equals(folio, folio_expected_ref_count(folio));",
        "return folio_ref_count(folio) != folio_expected_ref_count(folio);",
    ),
    # Much is added, or subtracted, without a check before.
    "saturated-batch-get-not-looped": (
        HEADER,
        "\tif (unlikely(nr > PAGEREF_TRY_MAX)) {\n\t\tpage_ref_fb_add_live(ref, nr);\n",
        "\tif (false) {\n\t\tpage_ref_fb_add_live(ref, nr);\n",
    ),
    "saturated-batch-sub-not-looped": (
        HEADER,
        "\tif (unlikely(nr > PAGEREF_TRY_MAX)) {\n\t\tpage_ref_fb_sub_looped(ref, nr);\n",
        "\tif (false) {\n\t\tpage_ref_fb_sub_looped(ref, nr);\n",
    ),
    "saturated-batch-put-not-looped": (
        HEADER,
        "\tif (unlikely(nr > PAGEREF_TRY_MAX))\n\t\treturn page_ref_fb_sub_looped(ref, nr) == 0;\n",
        "",
    ),
    # A word that can still leave the band is left alone.
    "saturated-batch-forgotten": (
        SLOW,
        "\t\tif (unlikely(page_ref_fb_near_centre(old)))\n\t\t\treturn;\n",
        "\t\tif (unlikely(page_ref_fb_in_band(old)))\n\t\t\treturn;\n",
    ),
    # It saturates a count that is far below 2^31: the page leaks.
    "saturated-batch-too-early": (
        SLOW,
        "\t\tif (unlikely(new < 0 || page_ref_fb_in_band(old)))\n",
        "\t\tif (true)\n",
    ),
    # The loop for many adds to a frozen word: enough of these make a free page live.
    "many-added-to-a-frozen-page": (
        SLOW,
        "\t\tif (unlikely(!page_ref_fb_has(old, 1))) {\n\t\t\tpage_ref_fb_warn_add(old, nr);\n",
        "\t\tif (false) {\n\t\t\tpage_ref_fb_warn_add(old, nr);\n",
    ),
    # Holders of a reference add much to a bare 0, as only tries may.
    "many-added-to-a-bare-zero": (
        HEADER,
        "return page_ref_fb_add_looped(ref, 1, nr);",
        "return page_ref_fb_add_looped(ref, 0, nr);",
    ),
    # No room below the value that is stored: a stray put makes a free page live.
    "underflow-is-live": (
        HEADER,
        "\treturn (unsigned int)word >= PAGEREF_FROZEN_MIN;",
        "\treturn (unsigned int)word >= (unsigned int)PAGEREF_FROZEN;",
    ),
    # Who has the line need not write to a frozen word, and does.
    "seen-try-does-not-look": (
        HEADER,
        "\tif (!page_ref_fb_frozen(atomic_read(ref)))\n\t\tgot = page_ref_word_try_add(ref, nr);\n",
        "\tgot = page_ref_word_try_add(ref, nr);\n",
    ),
    # The struct page that was looked at is gone when the try writes to it: no section,
    # one that begins after the look, and two.
    "preempted-seen-try": (
        HEADER,
        "\tpreempt_disable();\n\tif (!page_ref_fb_frozen(atomic_read(ref)))\n"
        "\t\tgot = page_ref_word_try_add(ref, nr);\n\tpreempt_enable();\n",
        "\tif (!page_ref_fb_frozen(atomic_read(ref)))\n"
        "\t\tgot = page_ref_word_try_add(ref, nr);\n",
    ),
    "preempted-after-the-look": (
        HEADER,
        "\tpreempt_disable();\n\tif (!page_ref_fb_frozen(atomic_read(ref)))\n"
        "\t\tgot = page_ref_word_try_add(ref, nr);\n\tpreempt_enable();\n",
        "\tif (page_ref_fb_frozen(atomic_read(ref)))\n\t\treturn false;\n"
        "\tpreempt_disable();\n\tgot = page_ref_word_try_add(ref, nr);\n\tpreempt_enable();\n",
    ),
    "preempted-between-look-and-addition": (
        HEADER,
        "\tpreempt_disable();\n\tif (!page_ref_fb_frozen(atomic_read(ref)))\n"
        "\t\tgot = page_ref_word_try_add(ref, nr);\n\tpreempt_enable();\n",
        "\tpreempt_disable();\n\tgot = !page_ref_fb_frozen(atomic_read(ref));\n\tpreempt_enable();\n"
        "\tif (!got)\n\t\treturn false;\n"
        "\tpreempt_disable();\n\tgot = page_ref_word_try_add(ref, nr);\n\tpreempt_enable();\n",
    ),
    # The same for the second step of a put.
    "preempted-put": (
        HEADER,
        "\tpreempt_disable();\n\told = atomic_fetch_sub(nr, ref);\n",
        "\tpreempt_disable();\n\told = atomic_fetch_sub(nr, ref);\n"
        "\tpreempt_enable();\n\tpreempt_disable();\n",
    ),
    # A page is taken for idle while a try can still get it.
    "idle-between-the-steps": (
        HEADER,
        "\treturn page_ref_fb_frozen(atomic_read(ref));\n",
        "\treturn page_ref_word_read(ref) == 0;\n",
    ),
    "idle-at-zero-alone": (
        HEADER,
        "\treturn page_ref_fb_frozen(atomic_read(ref));\n",
        "\treturn atomic_read(ref) == 0;\n",
    ),
    "idle-between-the-steps-for-dax": (
        DAX,
        "\treturn page && page_ref_idle(page);\n",
        "\treturn page && page_ref_count(page) == 0;\n",
    ),
    # An underflow is left as it is.
    "underflow-left": (
        SLOW,
        "\tatomic_cmpxchg_relaxed(ref, new, PAGEREF_FROZEN);\n}\nEXPORT_SYMBOL(page_ref_fb_misused_put);",
        "}\nEXPORT_SYMBOL(page_ref_fb_misused_put);",
    ),
    # What was copied is believed.
    "read-unchecked": (
        READ,
        "valid = valid && short_read_still_valid(mapping, seq);",
        "",
    ),
    # A removal between the lookup and the first look at the counter is missed.
    "read-notes-late": (
        READ,
        "\t\tpage = short_read_find(mapping, seq, pos, last_pos);\n",
        "\t\tpage = short_read_find(mapping, seq, pos, last_pos);\n"
        "\t\tseq = atomic_long_read_acquire(&mapping->removal_seq);\n",
    ),
    # The part of the last page beyond the end of the file is handed out.
    "read-beyond-size": (
        READ,
        "if (pos >= isize)\n\t\t\treturn 0;\n"
        "\t\tbytes = min(PAGE_SIZE - offset_in_page(pos), count);\n"
        "\t\tbytes = min_t(loff_t, bytes, isize - pos);",
        "bytes = min(PAGE_SIZE - offset_in_page(pos), count);",
    ),
    # A page that is still being filled is served.
    "read-not-up-to-date": (
        READ,
        "!(flags & BIT(PG_uptodate)) || ",
        "",
    ),
    # The next readahead is not started.
    "read-ignores-readahead-mark": (
        READ,
        "BIT(PG_readahead) | ",
        "",
    ),
    # As was posted: a page that is only read in small pieces is never activated.
    "read-referenced-suffices": (
        READ,
        "return (flags & BIT(PG_referenced)) &&\n"
        "\t       (flags & (BIT(PG_active) | BIT(PG_unevictable)));",
        "return flags & BIT(PG_referenced);",
    ),
    # The second folio of a read is served from the place of the first.
    "read-keeps-position": (
        READ,
        "iocb->ki_pos += copied;\n",
        "",
    ),
    # A file system may be called with the bytes on the stack.
    "read-faults-on-its-stack": (
        READ,
        "\t\tpagefault_disable();\n\t\tcopied = copy_to_iter(buf, bytes, iter);\n"
        "\t\tpagefault_enable();\n",
        "\t\tcopied = copy_to_iter(buf, bytes, iter);\n",
    ),
    # A read copies from its page outside of its RCU read-side section.
    "read-leaves-its-section": (
        READ,
        "\t\tvalid = short_read_copy_page(buf, page, offset_in_page(pos), bytes);\n"
        "\t\tshort_read_at(SHORT_READ_COPIED);\n",
        "\t\trcu_read_unlock();\n"
        "\t\tvalid = short_read_copy_page(buf, page, offset_in_page(pos), bytes);\n"
        "\t\tshort_read_at(SHORT_READ_COPIED);\n"
        "\t\trcu_read_lock();\n",
    ),
    # Pages go to a hypervisor while a reader may still load from them.
    "no-wait-before-hand-over": (
        "mm/util.c",
        "\tmight_sleep();\n\tsynchronize_rcu();\n",
        "\tmight_sleep();\n",
    ),
    # Short reads are switched off, and some may still be under way.
    "read-off-does-not-wait": (
        READ,
        "\tstatic_branch_inc(&short_reads_off);\n\tsynchronize_rcu();\n",
        "\tstatic_branch_inc(&short_reads_off);\n",
    ),
    # The key is tested before the RCU read-side section, which is what is waited for.
    "read-off-tested-early": (
        READ,
        "\tseq = atomic_long_read_acquire(&mapping->removal_seq);\n\n"
        "\tshort_read_at(SHORT_READ_NOTED);\n\n"
        "\tscoped_guard(rcu) {\n"
        "\t\t/* filemap_short_read_disable() waits for the section of this test. */\n"
        "\t\tif (static_branch_unlikely(&short_reads_off))\n\t\t\treturn 0;\n",
        "\tif (static_branch_unlikely(&short_reads_off))\n\t\treturn 0;\n"
        "\tseq = atomic_long_read_acquire(&mapping->removal_seq);\n\n"
        "\tshort_read_at(SHORT_READ_NOTED);\n\n"
        "\tscoped_guard(rcu) {\n",
    ),
    # The removers, one by one.
    "removal-batch-silent": (
        "mm/filemap.c",
        "\tmapping_note_removal(mapping);\n\tmapping->nrpages -= total_pages;",
        "\tmapping->nrpages -= total_pages;",
    ),
    "removal-batch-early": (
        "mm/filemap.c",
        "\tmapping_set_update(&xas, mapping);\n\txas_for_each(&xas, folio, ULONG_MAX) {",
        "\tmapping_note_removal(mapping);\n"
        "\tmapping_set_update(&xas, mapping);\n\txas_for_each(&xas, folio, ULONG_MAX) {",
    ),
    "replacement-silent": (
        "mm/filemap.c",
        "\txas_store(&xas, new);\n\tmapping_note_removal(mapping);\n",
        "\txas_store(&xas, new);\n",
    ),
    "migration-silent": (
        "mm/migrate.c",
        "\t\txas_store(&xas, newfolio);\n\t\tmapping_note_removal(mapping);\n",
        "\t\txas_store(&xas, newfolio);\n",
    ),
    "huge-migration-silent": (
        "mm/migrate.c",
        "\txas_store(&xas, dst);\n\tmapping_note_removal(mapping);\n",
        "\txas_store(&xas, dst);\n",
    ),
    # Migration entries as they were counted in what was published: copies from the
    # end of the first walk on.
    "entries-published": (
        "mm/migrate.c",
        "\t\tentries = migrate_entries_begin(src);\n"
        "\t\tentries += try_to_migrate(src, mode == MIGRATE_ASYNC ? TTU_BATCH_FLUSH : 0);\n",
        "\t\tentries = try_to_migrate(src, mode == MIGRATE_ASYNC ? TTU_BATCH_FLUSH : 0);\n"
        "\t\tentries += migrate_entries_begin(src);\n",
    ),
    # A fork's copies are not counted at all.
    "entry-copies-uncounted": (
        "mm/memory.c",
        "\t\tmigrate_entry_copied(folio, 1);\n",
        "",
    ),
    # What is restored stays counted: the walk goes on in vain.
    "entry-restores-uncounted": (
        "mm/migrate.c",
        "\trmap_walk_arg->entries -= nr_restored;\n",
        "",
    ),
    "entries-made-uncounted": (
        "mm/rmap.c",
        "\t\t\tttma->nr_made++;\n",
        "",
    ),
    # By areas, and not by pages.
    "entries-restored-by-areas": (
        "mm/migrate.c",
        "\trmap_walk_arg->entries -= nr_restored;\n",
        "\trmap_walk_arg->entries--;\n",
    ),
    # One too few.
    "entries-end-with-one-left": (
        COUNT,
        "\treturn left;\n",
        "\treturn left == 1 ? 0 : left;\n",
    ),
    # Copies under the locks of different page tables.
    "entries-copied-by-load-and-store": (
        COUNT,
        "\tatomic_long_add(nr, migrate_entry_copies_of(folio));\n",
        "\tatomic_long_set(migrate_entry_copies_of(folio),"
        " atomic_long_read(migrate_entry_copies_of(folio)) + nr);\n",
    ),
    # A copy that comes while the second walk is under way is not seen.
    "entries-left-without-copies": (
        COUNT,
        "left = entries + atomic_long_read(migrate_entry_copies_of(folio));",
        "left = entries + atomic_long_read(migrate_entry_copies_of(folio)) % 1;",
    ),
    # What was known is lost between the walks, or when a move is tried again.
    "entries-lost-between-the-walks": (
        "mm/migrate.c",
        "*entries = dst->migrate_entries;",
        "*entries = migrate_entries_begin(dst);",
    ),
    "entries-lost-by-a-retry": (
        "mm/migrate.c",
        "\t\tlist_add(&dst->lru, prev);\n"
        "\t\t__migrate_folio_record(dst, old_folio_state, anon_vma, entries);\n",
        "\t\tlist_add(&dst->lru, prev);\n"
        "\t\t__migrate_folio_record(dst, old_folio_state, anon_vma,"
        " migrate_entries_begin(src));\n",
    ),
    # Who has not counted ends its walk all the same.
    "entries-of-others-counted": (
        "mm/migrate.c",
        "\t\t.map_unused_to_zeropage = flags & TTU_USE_SHARED_ZEROPAGE,\n",
        "\t\t.map_unused_to_zeropage = flags & TTU_USE_SHARED_ZEROPAGE,\n"
        "\t\t.counted = true,\n"
        "\t\t.entries = migrate_entries_begin(src) + 1,\n",
    ),
    # Entries for a PMD, which user-mode Linux has not.
    "pmd-entry-copies-uncounted": (
        "mm/huge_memory.c",
        "\tif (IS_ENABLED(CONFIG_MIGRATE_ENTRY_COUNT) && softleaf_is_migration(entry))\n"
        "\t\tmigrate_entry_copied(softleaf_to_folio(entry), HPAGE_PMD_NR);\n",
        "",
    ),
    "pmd-entry-copies-count-once": (
        "mm/huge_memory.c",
        "migrate_entry_copied(softleaf_to_folio(entry), HPAGE_PMD_NR);",
        "migrate_entry_copied(softleaf_to_folio(entry), 1);",
    ),
    "pmd-entries-made-count-once": (
        "mm/rmap.c",
        "ttma->nr_made += HPAGE_PMD_NR;",
        "ttma->nr_made++;",
    ),
    "pmd-entries-restored-count-once": (
        "mm/migrate.c",
        "nr_restored += HPAGE_PMD_NR;",
        "nr_restored++;",
    ),
    # Reads of large folios, which user-mode Linux has not. The end of the folio is
    # believed, which a split overwrites before the counter moves.
    "thp-read-beyond-its-page": (
        READ,
        "\t\tbytes = min(PAGE_SIZE - offset_in_page(pos), count);\n",
        "\t\tbytes = folio_test_large(page_folio(page)) ? folio_large_nr_pages(page_folio(page)) : 1;\n"
        "\t\tbytes -= folio_page_idx(page_folio(page), page);\n"
        "\t\tbytes = min((bytes << PAGE_SHIFT) - offset_in_page(pos), count);\n",
    ),
    "thp-read-of-poison": (
        READ,
        "if (READ_ONCE(page->flags.f) & __PG_HWPOISON)",
        "if (0)",
    ),
    "thp-split-silent": (
        "mm/huge_memory.c",
        "\t\tif (mapping)\n\t\t\tmapping_note_removal(mapping);\n",
        "",
    ),
    # Shared tails of HugeTLB folios stay read-only, and the late step of a put faults.
    "tails-read-only": (
        "mm/hugetlb_vmemmap.c",
        "return IS_ENABLED(CONFIG_PAGE_REF_FROZEN_BIT);",
        "return false;",
    ),
    # Merging what has several owners, or without undoing what the split did.
    "merge-ignores-tags": (
        MERGE,
        "return pgalloc_tag_get(first) == pgalloc_tag_get(page) &&\n\t       page_owner_alike",
        "return page_owner_alike",
    ),
    "merge-ignores-owners": (
        "mm/page_owner.c",
        "return handles[0] == handles[1];",
        "return true;",
    ),
    # They know whose a page is, and are not asked.
    "merge-asks-no-owners": (
        MERGE,
        "return pgalloc_tag_get(first) == pgalloc_tag_get(page) &&\n\t       page_owner_alike(first, page);",
        "return pgalloc_tag_get(first) == pgalloc_tag_get(page);",
    ),
    "merge-ignores-charges": (
        MERGE,
        "\tif (first->memcg_data != page->memcg_data)\n\t\treturn false;\n",
        "",
    ),
    "merge-keeps-charges": (MERGE, "\tmerge_page_memcg(page, order);\n", ""),
    "merge-keeps-tags": (MERGE, "\tpgalloc_tag_merge(page, order);\n", ""),
    "merge-keeps-private": (MERGE, "\t\tset_page_private(page + i, 0);\n", ""),
    "merge-takes-any-page": (
        MERGE,
        "\t\t\tplain = page_is_plain(page);\n",
        "\t\t\tplain = true;\n",
    ),
    "merge-ignores-references": (
        MERGE,
        "ours = is_frozen || put_page_testzero(page);",
        "ours = is_frozen || put_page_testzero(page) || true;",
    ),
    "merge-puts-frozen-pages": (
        MERGE,
        "ours = is_frozen || put_page_testzero(page);",
        "ours = put_page_testzero(page);",
    ),
    "merge-beyond-the-end": (
        MERGE,
        "order = min_t(unsigned int, order, ilog2(nr_pages));",
        "order = min_t(unsigned int, order, order_base_2(nr_pages));",
    ),
    # Accounting a run of pages to the tag, the owner or the charge of one of them.
    "prepare-ignores-tags": (
        ALLOC,
        "if (tag != ct_to_alloc_tag(ref.ct)) {",
        "if (!tag) {",
    ),
    "prepare-ignores-owners": (
        "mm/page_owner.c",
        "if (page_owner->handle != owner) {",
        "if (owner == early_handle) {",
    ),
    "prepare-ignores-charges": (
        ALLOC,
        "\t\tif (page->memcg_data != run->memcg_data)\n\t\t\tcontig_run_uncharge(run);\n",
        "",
    ),
    # Accounting for fewer pages than there are, or for none.
    "prepare-counts-one-call": (
        ALLOC,
        "this_cpu_sub(tag->counters->calls, nr_pages);",
        "this_cpu_dec(tag->counters->calls);",
    ),
    "prepare-counts-one-page-of-an-owner": ("mm/page_owner.c", "\t\tnr_owned++;\n", "\t\tnr_owned = 1;\n"),
    "prepare-counts-one-charge": (ALLOC, "\t\trun->nr_charged++;\n", "\t\trun->nr_charged = 1;\n"),
    "prepare-keeps-references-of-charges": (
        "mm/memcontrol.c",
        "\tobj_cgroup_uncharge_pages(objcg, nr_pages);\n\tobj_cgroup_put_many(objcg, nr_pages);\n",
        "\tobj_cgroup_uncharge_pages(objcg, nr_pages);\n\tobj_cgroup_put_many(objcg, 1);\n",
    ),
    "prepare-keeps-tags": (ALLOC, "\tpgalloc_tag_sub_contig(page, nr_pages);\n", ""),
    "prepare-keeps-owners": (ALLOC, "\treset_page_owner_contig(page, nr_pages);\n", ""),
    "prepare-keeps-charges": (
        ALLOC,
        "\tcontig_run_uncharge(run);\n\treset_page_owner_contig",
        "\trun->nr_charged = 0;\n\treset_page_owner_contig",
    ),
    # The struct page and the memory of each page.
    "prepare-keeps-private": (ALLOC, "\tpage->private = 0;\n}\n", "}\n"),
    "prepare-keeps-flags": (
        ALLOC,
        "\tpage->flags.f &= ~PAGE_FLAGS_CHECK_AT_PREP;\n\tpage->private = 0;\n}\n",
        "\tpage->private = 0;\n}\n",
    ),
    "prepare-first-page-of-the-memory": (
        ALLOC,
        "free_pages_prepare_memory(page, order, run->skip_kasan_poison, FPI_NONE);",
        "free_pages_prepare_memory(page, 0, run->skip_kasan_poison, FPI_NONE);",
    ),
    "prepare-takes-any-page": (ALLOC, "if (!page_fits_run(page)) {", "if (0) {"),
    # Pages that are not the caller's, and neighbours.
    "prepare-ignores-references": (
        ALLOC,
        "if (!is_frozen && !put_page_testzero(page)) {",
        "if (!is_frozen && !put_page_testzero(page) && 0) {",
    ),
    "prepare-puts-frozen-pages": (
        ALLOC,
        "if (!is_frozen && !put_page_testzero(page)) {",
        "if (!put_page_testzero(page)) {",
    ),
    "prepare-runs-over-a-held-page": (
        ALLOC,
        "\t\tif (!is_frozen && !put_page_testzero(page)) {\n\t\t\tcontig_run_free(&run, page);\n",
        "\t\tif (!is_frozen && !put_page_testzero(page)) {\n",
    ),
    "prepare-runs-over-a-page-freed-alone": (
        ALLOC,
        "\t\tif (!page_fits_run(page)) {\n\t\t\tcontig_run_free(&run, page);\n",
        "\t\tif (!page_fits_run(page)) {\n",
    ),
    "prepare-beyond-the-end": (
        ALLOC,
        "order = min_t(unsigned int, order, ilog2(nr_pages));\n\t\tpage_table_check_free",
        "order = min_t(unsigned int, order, order_base_2(nr_pages));\n\t\tpage_table_check_free",
    ),
}

# Which suites have to notice the mutants of a file; those of the others are
# changed for more than one of them.
SUITES = {HEADER: "page_ref*", SLOW: "page_ref*", SEND: "page_ref*", SEAL: "page_ref*", DAX: "page_ref*"}


# Those that need huge pages, by the beginnings of their names, and the suites for them:
# without the stress tests.
IN_GUEST = {"pmd-": "migrate_entry_count", "thp-": "filemap_short_read", "tails-": "page_ref_users"}


def in_guest(name):
    return any(name.startswith(begin) for begin in IN_GUEST)


def suites(name):
    which = MUTANTS[name][0]
    if name.startswith("entr"):
        return "migrate_entry_count*"
    for begin, suite in IN_GUEST.items():
        if name.startswith(begin):
            return suite
    if name.startswith(("merge", "prepare")):
        return "free_contig"
    return SUITES.get(which, "filemap_short_read")

# Comes before everything else in the tests' object.
PROLOGUE = "#include <linux/kconfig.h>\n#include <linux/types.h>\n#include <linux/atomic.h>\n"


def files():
    """The header is not among them: its variants go into a file of their own."""
    return sorted({which for which, _, _ in MUTANTS.values()} - {HEADER})


def write_if_new(path, text):
    """What is not changed is not built again."""
    if os.path.exists(path):
        with open(path) as old:
            if old.read() == text:
                return
    with open(path, "w") as out:
        out.write(text)


def apply(name, src, new_header):
    which, find, put = MUTANTS[name]
    with open(os.path.join(src, HEADER)) as source:
        header = source.read()
    with open(os.path.join(src, which)) as source:
        text = source.read()
    if text.count(find) != 1:
        sys.exit(f"{name}: the text to find occurs {text.count(find)} times")
    text = text.replace(find, put)
    if which == HEADER:
        header = text
    else:
        write_if_new(os.path.join(src, which), text)
    write_if_new(new_header, PROLOGUE + header)
    print(suites(name))


if __name__ == "__main__":
    if sys.argv[1:] in (["list"], ["list", "guest"]):
        print("\n".join(name for name in MUTANTS if in_guest(name) == (len(sys.argv) == 3)))
    elif sys.argv[1:] == ["list-in-place"]:
        print("\n".join(name for name, (which, _, _) in MUTANTS.items() if which != HEADER and not in_guest(name)))
    elif sys.argv[1:] == ["files"]:
        print("\n".join(files()))
    elif len(sys.argv) == 3 and sys.argv[1] == "suites" and sys.argv[2] in MUTANTS:
        print(suites(sys.argv[2]))
    elif len(sys.argv) == 5 and sys.argv[1] == "apply" and sys.argv[2] in MUTANTS:
        apply(*sys.argv[2:])
    else:
        sys.exit(__doc__)
