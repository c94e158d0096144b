"""Conversion and creation of files: copies with changes, other types and byte orders, packed checkpoints, new models.

    rewrite               copies of a file with changes; every new layout of a file is made here
    convert_file          whole files: ternary tensors to another type or dialect, with proofs
    parts                 a model as several files, and as one again
    encode                one scale: trits encoded in any type and proved; single tensors to and from arrays
    groups                how a tensor is converted; a scale for each group to another such type or to floats
    packed_files          to packed Hugging Face checkpoints, and back
    quantize_model        float projections to trits, with the loss

    new                   new models with random weights
    smallest              those of architectures that are not declared: what llama.cpp's loader requires
    recipes               how the real files are made: keys in order, usual sizes
    random_weights        their weights and types
    made_up_vocabulary    their vocabularies
    trained               the trained models that come with the package

    trained, quantize_model, packed_files -> convert_file -> rewrite
    parts -> rewrite
    convert_file -> groups -> encode
    new -> recipes, smallest, random_weights, made_up_vocabulary

Files that are written appear complete or not at all.

As a part of the public face the room is a function, `convert_file`: `i2s.convert("model.gguf", "copy.gguf", to="Q2_0")`.
"""

import sys
from types import ModuleType

TYPE_CHECKING = False  # `typing` is not imported for this
if TYPE_CHECKING:
    from typing import Any

    from i2s_spec.convert.convert_file import Conversion


class _Convert(ModuleType):
    def __call__(self, *given: "Any", **options: "Any") -> "Conversion":
        """Copy a GGUF file with its ternary tensors in another type or dialect: see `convert_file`."""
        from i2s_spec.convert.convert_file import convert_file

        return convert_file(*given, **options)


sys.modules[__name__].__class__ = _Convert
