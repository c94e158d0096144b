"""Test vectors for decoders in any language, with the expected answers.

    all_vectors     suite, load: every vector by its id; the suite as a folder
      payloads      drafts of payloads: layouts, code maps, scales, tails, types with a scale for each group
      files         drafts of whole files: sound ones, faulty ones, their contents as JSON
      models        drafts of whole models, and of computations
        vector      Vector, Suite and Draft; features; pseudo-random numbers; the ledger of published ids and digests

A line calls those that are indented below it.

    >>> from i2s_spec.conformance.vectors import suite
    >>> suite()["I2S-0001"].op
    'decode'
"""

from i2s_spec.conformance.vectors.all_vectors import load as load
from i2s_spec.conformance.vectors.all_vectors import suite as suite
from i2s_spec.conformance.vectors.vector import Suite as Suite
from i2s_spec.conformance.vectors.vector import Vector as Vector

__all__ = ["Suite", "Vector", "load", "suite"]
