"""The annexes: answers to public descriptions, the registry of type numbers, the test vectors.

statements      the answers of annex A, which `with_anchors` makes addressable
registry_page   every meaning that a program gave to a number from 29 on, and how each type packs a block
vectors_page    how to get the vectors, what there is, and the text that comes with them
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_site.checkout import chapters
from i2s_site.figures import SCALE
from i2s_site.runtimes import table
from i2s_spec.conformance.explanations import FLAGS
from i2s_spec.conformance.protocol_terms import OPERATIONS, VERDICTS
from i2s_spec.conformance.vectors import suite
from i2s_spec.conformance.vectors.all_vectors import HERE
from i2s_spec.schema.blocks import GROUP_LAYOUTS, SCALES, BlockLayout
from i2s_spec.schema.type_registry import OWN_KEYS, Assignment, all_file_assignments, all_tensor_assignments, telling
from i2s_spec.schema.types import BY_NAME, TAIL_BYTES

#: What annex A calls a statement: the key of its text and a number. A row of a table begins with one or more of them.
_ROW: Final = re.compile(
    r"^\| (?P<ids>[A-F]-\d+(?:, [A-F]-\d+)*) \| (?P<claim>[^|\n]+) \| (?P<verdict>[^|\n]+) \| (?P<answer>[^|\n]+) \|$",
    re.M,
)

#: Verdicts of annex A.
VERDICTS_OF_STATEMENTS: Final = ("true", "in part", "false", "other", "open")


class Answer(NamedTuple):
    """A row of annex A: the statements that it answers, what they claim, the verdict, and the evidence (Markdown)."""

    statements: tuple[str, ...]
    claim: str
    verdict: str
    evidence: str


def answers() -> list[Answer]:
    """Return the rows of annex A in their order."""
    page = (chapters() / "annexes" / "reconciliation.md").read_text(encoding="utf-8")
    return [
        Answer(tuple(row["ids"].split(", ")), row["claim"], row["verdict"], row["answer"])
        for row in _ROW.finditer(page)
    ]


def statements() -> str:
    """How many statements of each text have each verdict, as a table."""
    found = Counter((each[0], answer.verdict) for answer in answers() for each in answer.statements)
    rows = [
        [f"**{key}**", *(str(found[key, verdict]) for verdict in VERDICTS_OF_STATEMENTS),
         str(sum(count for (text, _), count in found.items() if text == key))]
        for key in sorted({key for key, _ in found})
    ]  # fmt: skip
    sums = [str(sum(int(row[at]) for row in rows)) for at in range(1, len(VERDICTS_OF_STATEMENTS) + 2)]
    return table(("text", *VERDICTS_OF_STATEMENTS, "all"), [*rows, ["all", *sums]])


def with_anchors(markdown: str) -> str:
    """Return a page whose rows of statements have an anchor for each: `reconciliation.html#C-44`."""

    def anchored(row: re.Match[str]) -> str:
        links = ", ".join(f"[{each}](#{each}){{ #{each} }}" for each in row["ids"].split(", "))
        return row[0].replace(row["ids"], links, 1)

    return _ROW.sub(anchored, markdown)


_HEAD: Final = """# D Registry of type numbers

This annex lists every meaning that a known program gave to a number of a tensor type or of `general.file_type`, from 29
on; smaller numbers have the same meaning in all programs. A row is one meaning in one program for one period: *since* and
*until* are dates, with the commit or the release where the meaning began and ended, if known; an empty *until* means that
it is still in use.
The same table is available to programs: `i2s schema --format registry` writes it as JSON, `--format registry-tsv` as
tab-separated values.

## How to tell meanings apart

A number alone may be ambiguous. These facts determine the type of a tensor, in this order:

1. the space from its offset to that of the next tensor: only those meanings are possible whose padded size equals it
   ([R2.6-10](../02-container.md#R2.6-10));
2. keys that only one program writes: {keys};
3. the contents: where a meaning has the scales of its blocks, the bytes read as plausible numbers, and no weight has a
   code that weights do not have. If neither room nor contents nor keys decide, the tensors are not decoded
   ([G323](../rules/G323.md));
4. the architecture: only BitNet's forks write `bitnet-b1.58` and `bitnet-25`;
5. the program that wrote the file, and when. `general.file_type` alone is not evidence: its numbers collide as well.

```i2s-example
from i2s_spec.schema.type_registry import fitting

for room in (18 * 1280, 34 * 640):
    print([(each.name, each.program) for each in fitting(42, (128, 640), room)])
---
[('Q2_0', 'llama.cpp'), ('Q2_0', 'PrismML')]
[('TQ2_0_g128', 'OxiBonsai'), ('Q2_0_G128', 'PrismML')]
```

"""

_BLOCKS: Final = """## Blocks of the ternary types

Each drawing shows a block of different weights with the scale {scale}. Requirements are in
[5.6](../05-payload.md#56-types-with-a-scale-for-each-group); `i2s dump FILE TENSOR` shows the blocks of a file the same way,
and the [exports](../exports.md) have the formulas. The weight of a code is (code − 1) times the scale. Digit n of a byte is
3 times the low byte of its product with the nth power of 3, divided by 256 and rounded down.

"""

_TENSORS: Final = """## Tensor types

*In memory* marks numbers that tensors have only while a program runs, and that occur in no file.

"""

_FILES: Final = """## Values of `general.file_type`

Nothing is computed from this number, so that a wrong one costs no more than confusion: [M030](../rules/M030.md) and
[M031](../rules/M031.md) report it.

"""


def registry_page() -> str:
    """Return the page as a whole."""
    keys = ", ".join(f"`{start}*` of {program}" for program, start in OWN_KEYS.items())
    tensors = table(
        ["number", "type", "program", "since", "until", "how to tell it", "source"],
        [[*_who(each), _tell(each), each.source] for each in all_tensor_assignments()],
    )
    files = table(
        ["number", "file type", "program", "since", "until", "most matrices are", "source"],
        [[*_who(each), _names(each.tensors), each.source] for each in all_file_assignments()],
    )
    return "\n".join([_HEAD.format(keys=keys).rstrip("\n"), "", _blocks(), _TENSORS + tensors, _FILES + files])


def scales() -> str:
    """Return the scales of each type with a scale for each block or row: the table of section 5.7."""
    rows = []
    for name, fields in SCALES.items():
        kind, first = BY_NAME[name], fields[0]
        where = "each block" if first.per == "block" else "behind all codes" if first.apart else "in front of each row"
        shown = ", ".join(
            f"`{each.field}` at {each.offset}" if each.per == "block" else f"`{each.field}`" for each in fields
        )
        rows.append([name, str(kind.number), where, shown, first.type, "" if first.form.mask else "any byte is finite"])
    rows.sort(key=lambda row: int(row[1]))
    return table(["type", "number", "where", "scales, and the first byte of each in a block", "form", "note"], rows)


def _blocks() -> str:
    """Return a section for each way to pack a block, under the names of all types that are packed so."""
    ways: dict[BlockLayout, list[BlockLayout]] = {}
    for layout in GROUP_LAYOUTS.values():
        ways.setdefault(layout._replace(name=""), []).append(layout)
    return _BLOCKS.format(scale=SCALE) + "\n".join(_way(layouts) for layouts in ways.values())


def _way(layouts: list[BlockLayout]) -> str:
    first = layouts[0]
    numbers = " and ".join(str(layout.type.number) for layout in layouts)
    scale = f"{first.scale.type}, at byte {first.scale.offset} of the block"
    if first.scale.apart:
        scale = f"{first.scale.type} for each row, behind all blocks; {TAIL_BYTES} bytes that mean nothing follow"
    elif first.scale.per == "row":
        scale = f"{first.scale.type}, in front of each row"
    codes = "two bits each" if first.coding == "bits" else "digits of base 3"
    fourth = {"weight": "code 3 is the weight +2", "reserved": "code 3 is reserved", "": "there is no code 3"}[
        first.fourth
    ]
    return (
        f"### {' and '.join(layout.name for layout in layouts)}\n\n"
        f"Type{'s' if len(layouts) > 1 else ''} {numbers}: {first.block} weights in {first.nbytes} bytes. "
        f"Codes are {codes}; {fourth}. The scale is {scale}.\n\n"
        f"```i2s-drawing\nblock-type {first.name}\n```\n"
    )


def _who(each: Assignment) -> list[str]:
    return [str(each.number), each.name, each.program, each.since, each.until]


def _tell(each: Assignment) -> str:
    return telling(each) if each.files else f"in memory: {telling(each)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def vectors_page() -> str:
    """Return the page: counts, flags, and `INTERPRETING.md` one heading lower."""
    made = suite()
    counts = Counter((vector.op, vector.verdict) for vector in made)
    rows = [[f"`{op}`", *(str(counts[op, verdict] or "") for verdict in VERDICTS)] for op in OPERATIONS]
    found = Counter(flag for vector in made for flag in vector.flags)
    bugs = [[f"`{name}`", FLAGS[name].bug, FLAGS[name].seen, str(count)] for name, count in sorted(found.items())]
    text = (HERE / "INTERPRETING.md").read_text(encoding="utf-8")
    lower = "\n".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines())
    parts = [
        "# Test vectors",
        "",
        f"Version {made.version} of the suite has {len(made)} vectors for decoders in any language. `i2s vectors export",
        "suite` writes them; the result is always the same and takes about 13 MB. `i2s vectors package DIR --for pypi`",
        "(`npm`, `go`, `cargo`) makes packages of them. `i2s vectors mutants` runs programs with one bug each: every one",
        "fails a vector whose flag names its bug.",
        "",
        table(["operation", *VERDICTS], rows),
        lower,
        "",
        "## What the flags mean",
        "",
        table(["flag", "the program", "seen", "vectors"], bugs),
    ]
    return "\n".join(parts)
