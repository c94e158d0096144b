"""Rules about scales that stand in front of codes, where I2_S has them behind."""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.errors import Words
from i2s_spec.linter.rooms import misjudged, row_scales
from i2s_spec.linter.rule import Finding, rule
from i2s_spec.linter.scales import in_front, odd
from i2s_spec.linter.subject import Subject


@rule("I112", "scale-in-rows", "I2_S tensor {name} has room for {got} bytes where {want} are expected: {rows} rows with a "
      "{type} in front of each", clause="6.1", sources="S12", provenance=("ikawrakow/ik_llama.cpp IQ2_BN",))  # fmt: skip
def scale_in_rows(subject: Subject) -> Iterator[Finding]:
    """Every row of a tensor has a scale in front.

    Why: related types keep a scale for each row, IQ2_BN of ik_llama.cpp for instance, and some writers do as they do under
    the number of I2_S. A loader takes the first payload bytes that come for codes, so that scales become weights and each
    row lies further off than the one before.

    Example: 64 rows of 256 weights in 64 times 68 bytes.

    Fix: convert the checkpoint with a released writer; do not change type numbers by hand.
    """
    for placement, room, _ in misjudged(subject, "row-scales"):
        found = row_scales(subject, placement, room)
        assert found is not None
        (rows, width), start = found, placement.offset
        yield scale_in_rows.at(
            subject.absolute(start, start + room, f"data[{placement.row}]"), got=room, want=placement.size,
            name=subject.name(placement.row), rows=rows, type=Words("float32" if width == 4 else "float16"),
        )  # fmt: skip


@rule("I312", "scale-in-front", "I2_S tensor {name} begins with a {type} scale of {got}{zeros}, and has none behind its "
      "payload", clause="6.1", sources="S12", when="files with I2_S tensors whose payloads are read", payload=True,
      provenance=("Scottcjn/BitNet",))  # fmt: skip
def scale_in_front(subject: Subject) -> Iterator[Finding]:
    """The scale stands in front of the codes.

    Why: a fork for PowerPC writes a header of 32 bytes with a float16 scale, then blocks of its own; other writers put the
    float32 in front. Type and size are those of I2_S, the weights are not: all of them are shifted.

    Example: 00 3c and 30 zero bytes at the start of a tensor, and no scale at its end.

    Fix: convert the checkpoint with a released writer.
    """
    for _, tensor in odd(subject, "header"):
        found = in_front(subject, tensor)
        assert found is not None
        width = 2 if found.type == "float16" else 4
        zeros = f" and {found.size - width} zero bytes" if found.size > width else ""
        yield scale_in_front.at(
            tensor.span(0, found.size), got=Words(f"{found.scale:.6g}"), name=tensor.name, type=Words(found.type),
            zeros=Words(zeros),
        )  # fmt: skip
