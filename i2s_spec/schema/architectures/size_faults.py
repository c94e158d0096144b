"""This module declares the faults for which the sizes of a model cannot be derived from its metadata."""

from i2s_spec.errors import Fault
from i2s_spec.light_typing import Final

ARCHITECTURE_UNKNOWN: Final = Fault("M001", "architecture-unknown", "the architecture is {got}; {want}")
KEY_MISSING: Final = Fault("M002", "key-missing", "the key {key} is missing")
KEY_TYPE: Final = Fault("M003", "key-type", "the key {key} holds {got}; {want} is needed")
KEY_VALUE: Final = Fault("M004", "key-value", "the key {key} is {got}; {want} is needed")
LAYER_ARRAY: Final = Fault(
    "M005", "layer-array-length", "the key {key} is an array of {got}; the model has {want:layer}"
)
HEADS: Final = Fault(
    "M006",
    "heads-do-not-fill",
    "{got:query head does|query heads do} not divide the {want:column} of the hidden state, and "
    "attention.key_length and value_length do "
    "not give the width of a head",
)
HEAD_GROUPS: Final = Fault("M007", "head-groups", "{want:query head} cannot share {got:key head} evenly")
ROPE_DIMENSIONS: Final = Fault("M008", "rope-dimensions", "rope.dimension_count is {got}; heads are {want} wide")
