#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Broken variants of the reference count, which the tests must notice.

    mutate.py list
    mutate.py apply NAME HEADER SLOW NEW_HEADER NEW_SLOW
"""
import sys

# name: (which file, the text to find, which occurs once, and what replaces it)
MUTANTS = {
    # The winner of a put does not lock: a try on the freed page succeeds.
    "put-without-cas": (
        "header",
        "return atomic_cmpxchg_acquire(ref, 0, PAGE_REF_LOCKED) == 0;",
        "return true;",
    ),
    # A store for the CAS: wipes the reference of a try that came between.
    "put-with-store": (
        "header",
        "return atomic_cmpxchg_acquire(ref, 0, PAGE_REF_LOCKED) == 0;",
        "{ atomic_set(ref, PAGE_REF_LOCKED); return true; }",
    ),
    # Everybody whose CAS lost believes to have won.
    "put-ignores-cas": (
        "header",
        "return atomic_cmpxchg_acquire(ref, 0, PAGE_REF_LOCKED) == 0;",
        "{ atomic_cmpxchg_acquire(ref, 0, PAGE_REF_LOCKED); return true; }",
    ),
    # The exact put leaves a bare 0.
    "exact-put-to-bare-zero": (
        "header",
        "atomic_try_cmpxchg(ref, &old, new ?: PAGE_REF_LOCKED)",
        "atomic_try_cmpxchg(ref, &old, new)",
    ),
    # Two steps where one is needed.
    "freeze-in-two-steps": (
        "header",
        "return likely(atomic_cmpxchg(ref, expected, PAGE_REF_LOCKED) == expected);",
        "if (atomic_read(ref) != expected) return false;"
        " atomic_set(ref, PAGE_REF_LOCKED); return true;",
    ),
    # Freezing to what the baseline freezes to.
    "freeze-to-bare-zero": (
        "header",
        "return likely(atomic_cmpxchg(ref, expected, PAGE_REF_LOCKED) == expected);",
        "return atomic_cmpxchg(ref, expected, 0) == expected;",
    ),
    # A failed try leaves what it added.
    "no-reset": (
        "slow",
        "\tatomic_cmpxchg_relaxed(ref, new, PAGE_REF_LOCKED);\n\treturn false;",
        "\treturn false;",
    ),
    # A reset by a store: wipes an unfreeze.
    "reset-with-store": (
        "slow",
        "\tatomic_cmpxchg_relaxed(ref, new, PAGE_REF_LOCKED);\n\treturn false;",
        "\tatomic_set(ref, PAGE_REF_LOCKED);\n\treturn false;",
    ),
    # A reset that takes back what was added: goes below an unfreeze's store.
    "reset-by-subtraction": (
        "slow",
        "\tatomic_cmpxchg_relaxed(ref, new, PAGE_REF_LOCKED);\n\treturn false;",
        "\tatomic_sub(nr, ref);\n\treturn false;",
    ),
    # The published form: one attempt, however high the word is.
    "one-reset-when-high": (
        "slow",
        "if (!page_ref_lb_locked(seen) || !(seen & PAGE_REF_HIGH))\n\t\t\tbreak;",
        "break;",
    ),
    # No limit on live references.
    "no-limit": (
        "header",
        "return (unsigned int)word - 1 < PAGE_REF_LIMIT;",
        "return word > 0;",
    ),
    # An underflow is left as it is.
    "underflow-left": (
        "slow",
        "\tatomic_cmpxchg_relaxed(ref, new, PAGE_REF_LOCKED);\n}\nEXPORT_SYMBOL(page_ref_lb_misused_put);",
        "}\nEXPORT_SYMBOL(page_ref_lb_misused_put);",
    ),
}

# Comes before everything else in the tests' object.
PROLOGUE = "#include <linux/kconfig.h>\n#include <linux/types.h>\n#include <linux/atomic.h>\n"


def apply(name, header, slow, new_header, new_slow):
    which, find, put = MUTANTS[name]
    text = {}
    for kind, path in (("header", header), ("slow", slow)):
        with open(path) as source:
            text[kind] = source.read()
    if text[which].count(find) != 1:
        sys.exit(f"{name}: the text to find occurs {text[which].count(find)} times")
    text[which] = text[which].replace(find, put)
    with open(new_header, "w") as out:
        out.write(PROLOGUE + text["header"])
    with open(new_slow, "w") as out:
        out.write(text["slow"])


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(MUTANTS))
    elif len(sys.argv) == 7 and sys.argv[1] == "apply" and sys.argv[2] in MUTANTS:
        apply(*sys.argv[2:])
    else:
        sys.exit(__doc__)
