"""The words of the protocol `i2s-cp/1`: its operations, verdicts, phases and classes of comparison.

Everything that asks, answers, compares or describes an operation reads `OPERATIONS`; a new one is one entry here.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, Final, NamedTuple

PROTOCOL: Final = "i2s-cp/1"


class Operation(NamedTuple):
    """Something that an implementation can be asked.

    :param element: the NumPy type of the elements of the answer; empty where the answer is JSON
    :param whole_file: whether the input is a GGUF file; else the data of a tensor, or floats
    """

    element: str = ""
    whole_file: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the answer is JSON."""
        return not self.element


#: Every operation by its name, in the order in which texts list them.
OPERATIONS: Final = MappingProxyType({
    "container": Operation(whole_file=True),
    "decode": Operation("<i1"),
    "dequant": Operation("<f4"),
    "quantize": Operation("u1"),
    "activation": Operation("<i1"),
    "bitlinear": Operation("<i4"),
    "forward": Operation("<f4", whole_file=True),
    "generate": Operation(whole_file=True),
    "tokenize": Operation(whole_file=True),
    "verdict": Operation(whole_file=True),
})  # fmt: skip

#: The layouts that are named by the processor whose builds wrote them, with their names in files.
PROCESSOR_LAYOUTS: Final = {"x86-128": "interleave-128", "arm-64": "interleave-64"}

#: What has to be done with an input.
VERDICTS: Final = ("valid", "invalid", "either", "survive")

#: The parts of a file in which a fault can be known, in the order in which readers reach them.
PHASES: Final = ("magic", "header", "metadata", "info", "extent", "payload", "semantics")

#: How an answer is compared.
COMPARISONS: Final = ("bits", "exact", "ulp", "rtol", "rank", "corr", "prefix")


def canonical_json(value: Any) -> bytes:
    """Write JSON in its canonical form: sorted keys, no blanks, UTF-8 unescaped.

    :raises ValueError: for NaN and infinities, which JSON does not have
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")
