"""New models with every type of projections: the tensors have that type, and the linter finds no error."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import share

from i2s_spec.convert.new import new
from i2s_spec.convert.random_weights import TYPES
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.engine import lint
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.keys import FILE_TYPES, OWN_FILE_TYPES

#: Findings of sound files, by type: other programs refuse the type, or may expect a rotation.
SAID = {"I2_SR": {"G318", "M031"}, "Q2_0_G128": {"G321"}, "PQ2_0": {"M042"}, "PTQ1_0": {"M042"}}


@pytest.mark.parametrize(("type", "architecture"), share(product(TYPES, ARCHITECTURES)))
def test_projections_have_the_type_and_the_rest_does_not(type: str, architecture: str) -> None:
    data = model_bytes(architecture, layers=1, vocab=ARCHITECTURES[architecture].small_vocab, type=type)
    file = open_file(data)
    declared = ARCHITECTURES[architecture]
    for name, tensor in file.tensors.items():
        found = declared.match(name)
        assert found is not None
        assert tensor.type is not None
        table = found[0].role in ("embedding", "head")
        want = type if found[0].role == "projection" or (table and type == "F32") else found[0].usual
        assert tensor.type.name == want, name
    number = file.metadata["general.file_type"]
    names = FILE_TYPES | {number: name for name, number in OWN_FILE_TYPES.items() if name == type}
    assert names[number] == type.removesuffix("_G128")
    plain = {finding.code for finding in lint(model_bytes(architecture, layers=1)).findings}
    assert {finding.code for finding in lint(data).findings} - plain == SAID.get(type, set())


@pytest.mark.parametrize("type", BLOCK_LAYOUTS)
def test_weights_are_those_of_i2s_but_for_their_scales(type: str) -> None:
    name = "blk.0.ffn_gate.weight"
    sizes: dict[str, Any] = {"layers": 1, "embd": 256, "ff": 256}
    plain = open_file(model_bytes("llama", **sizes)).tensors[name].dequantize()
    other = open_file(model_bytes("llama", type=type, **sizes)).tensors[name].dequantize()
    assert np.array_equal(np.sign(plain), np.sign(other))
    used = plain != 0
    ratio = other[used] / plain[used]
    assert 0.87 < ratio.min() < 0.9
    assert 1.1 < ratio.max() < 1.13


@pytest.mark.parametrize("type", ["F32", "F16", "BF16"])
def test_floats_are_the_weights_of_i2s(type: str) -> None:
    name = "blk.0.ffn_gate.weight"
    plain = open_file(model_bytes("llama", layers=1)).tensors[name].dequantize()
    other = open_file(model_bytes("llama", layers=1, type=type)).tensors[name].dequantize()
    assert np.allclose(plain, other, rtol={"F32": 0, "F16": 2**-11, "BF16": 2**-8}[type], atol=0)


def test_widths_grow_to_whole_blocks_unless_they_are_given() -> None:
    assert open_file(model_bytes("llama", layers=1, type="TQ2_0")).metadata["llama.embedding_length"] == 256
    with pytest.raises(ValueError, match="embd is 128; rows of TQ1_0 must be multiples of 256"):
        new(io.BytesIO(), "llama", type="TQ1_0", embd=128)
    with pytest.raises(ValueError, match="'Q4_0' is not a type for projections; there are: I2_S"):
        new(io.BytesIO(), "llama", type="Q4_0")


@pytest.mark.parametrize("type", ["Q2_0", "PTQ1_0", "IQ2_BN", "F32", "BF16"])
def test_byte_order_changes_no_number(type: str) -> None:
    little, big = (open_file(model_bytes("llama", layers=1, type=type, byte_order=each)) for each in ("little", "big"))
    for name in little.tensors:
        assert np.array_equal(little.tensors[name].dequantize(), big.tensors[name].dequantize()), name


def test_the_same_arguments_give_the_same_bytes() -> None:
    files = []
    for _ in range(2):
        out = io.BytesIO()
        new(out, "llama", layers=1, type="PQ2_0", rotated=True, seed=3)
        files.append(out.getvalue())
    assert files[0] == files[1]
    assert files[0] != model_bytes("llama", layers=1, type="PQ2_0", rotated=True, seed=4)
