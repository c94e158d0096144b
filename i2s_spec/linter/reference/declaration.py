"""This module declares what a file is compared with: another file of the same model, and how both are meant to be packed."""

from typing import NamedTuple

from i2s_spec.gguf.source import Origin


class Reference(NamedTuple):
    """A file of the same model whose weights are right.

    `origin` is a GGUF file, or a safetensors file or a folder of them. No file says how its I2_S tensors are packed:
    `dialect` says it of the reference, `expected` of the file that is judged.
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
