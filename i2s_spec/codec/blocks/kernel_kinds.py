"""This module says what the compiled kernels call the layouts of blocks, without NumPy, which a survey does not need."""

from typing import Final

from i2s_spec.schema.block_layout import BlockLayout

#: The number of each layout; Q2_0_G128 and PQ2_0 are one.
KINDS: Final = {
    "Q2_0": 0, "Q2_0_G128": 1, "PQ2_0": 1, "TQ2_0": 2, "IQ2_BN": 3, "TQ1_0": 4, "PTQ1_0": 5, "IQ1_BN": 6,
}  # fmt: skip

#: Blocks that the survey's kernels take at once.
TILE: Final = 32


def group_bytes(layout: BlockLayout, cols: int) -> int:
    """Bytes from one scale to the next: of a block, or of a row with its scale."""
    return (
        layout.nbytes if layout.scale.per == "block" else layout.type.row_bytes + cols // layout.block * layout.nbytes
    )
