"""This module writes the annex that is the registry: every meaning that a program gave to a number from 30 on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from i2s_spec.docs.drawings.block_type import SCALE
from i2s_spec.docs.runtimes import table
from i2s_spec.schema.block_layout import GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.registry.meaning import OWN_KEYS, Meaning
from i2s_spec.schema.registry.meanings import all_file_meanings, all_tensor_meanings, telling
from i2s_spec.schema.types import TAIL_BYTES

#: Last line of the page; it is never edited.
MARK: Final = "<!-- Written by i2s_spec.docs.annexes.registry_page from schema/registry: edit that. -->\n"

_HEAD: Final = """# D Registry of type numbers

This annex lists every meaning that a known program gave to a number of a tensor type or of `general.file_type`, from 30
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
3. the architecture: only BitNet's forks write `bitnet-b1.58` and `bitnet-25`;
4. the program that wrote the file, and when. `general.file_type` alone is not evidence: its numbers collide as well.

```i2s-example
from i2s_spec.schema.registry.meanings import fitting

for room in (18 * 1280, 34 * 640):
    print([(each.name, each.program) for each in fitting(42, (128, 640), room)])
---
[('Q2_0', 'llama.cpp'), ('Q2_0', 'PrismML')]
[('Q2_0_G128', 'PrismML')]
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


def page() -> str:
    """The page as a whole."""
    keys = ", ".join(f"`{start}*` of {program}" for program, start in OWN_KEYS.items())
    tensors = table(
        ["number", "type", "program", "since", "until", "how to tell it", "source"],
        [[*_who(each), _tell(each), each.source] for each in all_tensor_meanings()],
    )
    files = table(
        ["number", "file type", "program", "since", "until", "most matrices are", "source"],
        [[*_who(each), _tensors(each.tensors), each.source] for each in all_file_meanings()],
    )
    return "\n".join([_HEAD.format(keys=keys).rstrip("\n"), "", _blocks(), _TENSORS + tensors, _FILES + files, MARK])


def _blocks() -> str:
    """A section for each way to pack a block, under the names of all types that are packed so."""
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


def _who(each: Meaning) -> list[str]:
    return [str(each.number), each.name, each.program, each.since, each.until]


def _tell(each: Meaning) -> str:
    return telling(each) if each.files else f"in memory: {telling(each)}"


def _tensors(names: Sequence[str]) -> str:
    return ", ".join(names)
