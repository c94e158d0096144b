"""Test vectors for decoders in any language, with what each has to answer.

vector          what a vector is, and a suite of them
all_vectors     every vector under its id; a suite that was exported, read back
ledger          ids and digests that were given out, which never change
draft, chance   a vector before it has an id; numbers that look like chance

    >>> from i2s_spec.conformance.vectors import suite
    >>> suite()["I2S-0001"].op
    'decode'
"""

from i2s_spec.conformance.vectors.all_vectors import load as load
from i2s_spec.conformance.vectors.all_vectors import suite as suite
from i2s_spec.conformance.vectors.vector import Suite as Suite
from i2s_spec.conformance.vectors.vector import Vector as Vector

__all__ = ["Suite", "Vector", "load", "suite"]
