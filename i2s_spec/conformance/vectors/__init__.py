"""Test vectors for decoders in any language, with the expected answers.

vector          the class of a vector, and of a suite
all_vectors     every vector by its id; reading an exported suite
ledger          published ids and digests, which never change draft, chance   a vector before it has an id;
                pseudo-random numbers

    >>> from i2s_spec.conformance.vectors import suite
    >>> suite()["I2S-0001"].op
    'decode'
"""

from i2s_spec.conformance.vectors.all_vectors import load as load
from i2s_spec.conformance.vectors.all_vectors import suite as suite
from i2s_spec.conformance.vectors.vector import Suite as Suite
from i2s_spec.conformance.vectors.vector import Vector as Vector

__all__ = ["Suite", "Vector", "load", "suite"]
