"""Chapter 10 agrees with the declarations: every limit, every mistake, every bound."""

from __future__ import annotations

import re
from pathlib import Path

from i2s_spec.golden import tolerance
from i2s_spec.golden.code_flips import WHOLE, WHOLE_RTOL
from i2s_spec.golden.diagnosis.mistakes import MISTAKES
from i2s_spec.golden.recording import AMBIGUOUS, DIGEST_ONLY, NOT_LIGHT
from i2s_spec.golden.tap_names import NODE_NAMES

CHAPTER = (Path(__file__).resolve().parents[2] / "spec" / "10-golden.md").read_text(encoding="utf-8")
PLAIN = " ".join(CHAPTER.split())


def test_limits() -> None:
    found = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", CHAPTER, re.M)
    assert found == [(op, limit.words) for op, limit in tolerance.LIMITS.items()]


def test_mistakes() -> None:
    rows = [f"| `{each.name}` | {each.mistake.says} | {each.mistake.seen or '·'} |" for each in MISTAKES]
    assert "\n".join(rows) in CHAPTER


def test_names_of_runtimes() -> None:
    rows = [
        f"| `{each.value}` | {each.op} | `{each.name}` | {each.node} | {each.runtime} {each.version} | "
        f"{', '.join(each.architectures)} |"
        for each in NODE_NAMES
    ]
    assert "\n".join(rows) in CHAPTER


def test_bounds() -> None:
    for words in (
        f"that of a layer, {tolerance.FORCED.words};",
        f"within {tolerance.FORCED.words}, and their {tolerance.FORCED_MEDIAN.words}",
        f"below a relative L2 of {tolerance.PLAUSIBLE.relative}, with more than {tolerance.PLAUSIBLE.top:.0%}",
        f"divergence below {tolerance.PLAUSIBLE.divergence}; beyond {tolerance.FAIL.relative}, or a divergence of "
        f"{tolerance.FAIL.divergence}",
        f"cosine of more than {tolerance.EMBEDDING_COSINE}",
        f"within {WHOLE} of an integer",
    ):
        assert words in PLAIN, words
    assert AMBIGUOUS == 127 * 2.0**-23
    assert WHOLE_RTOL == 2.0**-21


def test_the_light_set() -> None:
    assert f"({', '.join(f'`{word}`' for word in sorted(NOT_LIGHT))})" in PLAIN
    assert frozenset({"acc_i32"}) == DIGEST_ONLY


def test_requirements_are_numbered_by_section() -> None:
    section, seen = "", []
    for line in CHAPTER.splitlines():
        if line.startswith("## "):
            section = line.split()[1]
        if (found := re.match(r"- \*\*\[R([\d.]+)-(\d+)\]\(#R\1-\2\)\*\*\{ #R\1-\2 \}", line)) is not None:
            assert found[1] == section
            seen.append((section, int(found[2])))
    assert len(seen) == len(set(seen)) == 8
