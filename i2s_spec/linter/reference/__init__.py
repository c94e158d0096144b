"""Compare a file with another file of the same model whose weights are known. This shows what a file alone cannot.

    known        the weights of one tensor, whatever holds them, a window at a time
    weights      the file of known weights: GGUF of any ternary or float type, safetensors with floats or packed trits
    comparison   one tensor compared with its known weights

`analysis.against_reference` compares all tensors of a file, once for all rules.
`inspect.identify.reference` tries the dialects; `i2s identify --reference` uses it too.
"""

from __future__ import annotations

from typing import NamedTuple

from i2s_spec.gguf.source import Origin


class Reference(NamedTuple):
    """A file of the same model whose weights are known to be right.

    `origin` is a GGUF file, a safetensors file, or a folder of safetensors files. No file states how its I2_S tensors
    are packed: `dialect` gives it for the reference, `expected` for the file that is linted.
    """

    origin: Origin
    dialect: str = "canonical"
    expected: str = "canonical"

    def check(self) -> None:
        """
        :raises ValueError: for a dialect that does not exist, or occurs in no GGUF file
        """
        from i2s_spec.schema.dialect import parse

        for name in (self.dialect, self.expected):
            layout = parse(name).layout
            if not layout.in_gguf:
                raise ValueError(f"{layout} is a layout of checkpoints; it does not occur in GGUF files")
