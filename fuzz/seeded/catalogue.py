"""All seeded bugs in the order in which they run: those that need a compiler come last."""

from __future__ import annotations

from typing import Final

from seeded import codec, comparison, container, kernels, scanner
from seeded.bug import Bug

BUGS: Final[list[Bug]] = [*container.BUGS, *codec.BUGS, *comparison.BUGS, *scanner.BUGS, *kernels.BUGS]
