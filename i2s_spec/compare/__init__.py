"""Everything about two files: identities of files and weights, differences, lineage, and comparison with known weights.

    hash            the identity of a file, its metadata and its weights; the one form that hashes and diffs share
    checksums       lists of checksums, of sha256sum's form
    header_record   a header as a record, and what differs from it
    cyclonedx       a model as a bill of materials
    diff            two files compared by meaning
    diff_text       their differences, as lines and as data
    lineage         which trits training changed, and which channels are off: the fingerprint of a family
    known_weights   a file compared with a file of the same model whose weights are known
    explanation     what a tensor is that is not what it should be, in words
    tensor_rows     tensors as rows of numbers, a window at a time

    header_record, cyclonedx -> hash
    diff_text -> diff -> hash, lineage
                      -> explanation
    known_weights     -> explanation, tensor_rows

`Reference` names the file that a linted file is compared with.
"""

from __future__ import annotations

from typing import NamedTuple

from i2s_spec.gguf.source import Origin
from i2s_spec.schema.dialect import parse


class Reference(NamedTuple):
    """A file of the same model whose weights are known to be right.

    `origin` is a GGUF file, a safetensors file, or a folder of safetensors files. No file states how its I2_S tensors
    are packed: `dialect` gives it for the reference, `expected` for the file that is linted.
    """

    origin: Origin
    dialect: str = "canonical"
    expected: str = "canonical"

    def check(self) -> None:
        """Check the names of the dialects.

        :raises ValueError: for a dialect that does not exist, or occurs in no GGUF file
        """
        for name in (self.dialect, self.expected):
            layout = parse(name).layout
            if not layout.in_gguf:
                raise ValueError(f"{layout} is a layout of checkpoints; it does not occur in GGUF files")
