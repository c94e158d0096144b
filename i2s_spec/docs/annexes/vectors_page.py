"""This module writes the page about the test vectors: how to get them, what there is, and the text that comes with them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from i2s_spec.conformance.vectors import suite
from i2s_spec.conformance.vectors.bug_flags import FLAGS
from i2s_spec.conformance.vectors.vector import OPS, VERDICTS
from i2s_spec.conformance.vectors.write_suite import HERE
from i2s_spec.docs.runtimes import table

MARK: Final = "<!-- Written by i2s_spec.docs.annexes.vectors_page from the suite: edit that. -->\n"


def page() -> str:
    """The page: counts, flags, and `INTERPRETING.md` one heading lower."""
    made = suite()
    counts = Counter((vector.op, vector.verdict) for vector in made)
    rows = [[f"`{op}`", *(str(counts[op, verdict] or "") for verdict in VERDICTS)] for op in OPS]
    found = Counter(flag for vector in made for flag in vector.flags)
    bugs = [[f"`{name}`", FLAGS[name].bug, FLAGS[name].seen, str(count)] for name, count in sorted(found.items())]
    text = (HERE / "INTERPRETING.md").read_text(encoding="utf-8")
    lower = "\n".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines())
    parts = [
        "# Test vectors",
        "",
        f"Version {made.version} of the suite has {len(made)} vectors for decoders in any language. `i2s vectors export",
        "suite` writes them; the result is always the same and takes less than 5 MB. `i2s vectors package DIR --for pypi`",
        "(`npm`, `go`, `cargo`) makes packages of them. `i2s vectors mutants` runs programs with one bug each: every one",
        "fails a vector whose flag names its bug.",
        "",
        table(["operation", *VERDICTS], rows),
        lower,
        "",
        "## What the flags mean",
        "",
        table(["flag", "the program", "seen", "vectors"], bugs),
        MARK,
    ]
    return "\n".join(parts)
