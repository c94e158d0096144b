"""Rules on tensors: missing tensors, unknown tensors and wrong shapes, for every declared architecture."""

from __future__ import annotations

import struct

import pytest
from examples import share
from finding_codes import codes, codes_of

from i2s_spec.linter.engine import lint
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.keys import EXPECTED, REQUIRED
from i2s_spec.schema.types import I2_S, ValueType
from i2s_spec.testing.sample import Model

SOME = pytest.mark.parametrize("architecture", share(ARCHITECTURES))
EACH = pytest.mark.parametrize("architecture", ARCHITECTURES)
#: Findings that every file of an architecture has.
ALWAYS = {"bitnet-25": {"M019"}, "qwen3": {"P301"}, "gemma3": {"P301"}}


def model_codes(model: Model) -> set[str]:
    return codes_of(model.built()) - ALWAYS.get(model.architecture, set())


@SOME
def test_every_tensor_is_needed_as_declared(architecture: str) -> None:
    """Each tensor is taken away in turn."""
    declared = ARCHITECTURES[architecture]
    for tensor in Model(architecture).tensors:
        name = tensor.name.decode()
        spec, _ = declared.match(name) or (None, None)
        assert spec is not None
        wanted = {REQUIRED: {"M101"}, EXPECTED: {"M112"} if spec.role == "head" else {"M115"}}[spec.need]
        assert model_codes(Model(architecture).without(name)) == wanted, name


@SOME
def test_every_shape_is_as_declared(architecture: str) -> None:
    """Each tensor gets more columns, more rows, or another number of dimensions."""
    for tensor in Model(architecture).tensors:
        name, ne = tensor.name.decode(), tensor.ne
        kind = {0: "F32", 1: "F16", 36: "I2_S"}[tensor.number]
        wider = Model(architecture).like(name, (ne[0] + 128, *ne[1:]), kind)
        assert model_codes(wider) == {"M103"}, name
        if len(ne) > 1:
            taller = model_codes(Model(architecture).like(name, (ne[0], ne[1] + 4), kind))
            assert taller == ({"M105"} if name in ("token_embd.weight", "output.weight") else {"M103"}), name


@SOME
def test_every_norm_is_of_a_float_type(architecture: str) -> None:
    halves = architecture in ("qwen3", "gemma3")
    for tensor in Model(architecture).tensors:
        name = tensor.name.decode()
        if "norm" in name:
            assert model_codes(Model(architecture).like(name, tensor.ne, "F16")) == (set() if halves else {"M106"}), (
                name
            )
            assert model_codes(Model(architecture).like(name, tensor.ne, "F32")) == set(), name


@EACH
def test_dimensions_of_one_do_not_count(architecture: str) -> None:
    model = Model(architecture)
    for tensor in model.tensors:
        tensor.ne = (*tensor.ne, 1)
    assert model_codes(model) == set()


@EACH
def test_layers(architecture: str) -> None:
    assert model_codes(Model(architecture, layers=3)) == set()
    model = Model(architecture, layers=3).without(*(f"blk.1.{i}" for i in range(3)))
    model.tensors = [tensor for tensor in model.tensors if not tensor.name.startswith(b"blk.2.")]
    assert model_codes(model) == {"M104"}
    assert model_codes(Model(architecture, layers=2).set("{arch}.block_count", 1)) == {"M104"}


def test_the_message_names_whose_tensor_it_is() -> None:
    report = lint(Model("llama").like("blk.0.attn_sub_norm.weight", (128,), "F32").built())
    [finding] = [finding for finding in report.findings if finding.code == "M102"]
    assert "; bitnet-b1.58 and bitnet-25 and bitnet" in finding.message
    assert finding.message.endswith(" have it")


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama"])
def test_biases_and_rotation_factors_are_accepted(architecture: str) -> None:
    model = Model(architecture).like("rope_freqs.weight", (16,), "F32").like("blk.0.attn_q.bias", (128,), "F32")
    model.tensor("rope_freqs.weight").data = struct.pack("<16f", *[1.0] * 8, *[8.0] * 8)
    assert model_codes(model) == set()


@EACH
def test_scales_beside_weights_that_llama_cpp_knows_are_accepted(architecture: str) -> None:
    """Every projection with NAME.scale and NAME.input_scale; one in another shape or of another type is a mistake."""

    def scaled(ne: tuple[int, ...] = (1,), kind: str = "F32", weight: str = "Q2_0") -> set[str]:
        model = Model(architecture).set("general.file_type", 41)
        for tensor in [each for each in model.tensors if each.number == I2_S.number]:
            name = tensor.name.decode().removesuffix("weight")
            model.like(f"{name}weight", tensor.ne, weight)
            model.like(f"{name}scale", ne, kind).like(f"{name}input_scale", ne, "F32")
        return model_codes(model)

    assert scaled() == scaled(ne=(1, 1)) == set()
    assert scaled(ne=(2,)) == {"M103"}
    assert scaled(kind="F16") == {"M106"}


@EACH
def test_programs_for_i2s_know_scales_in_one_architecture(architecture: str) -> None:
    """There, the graph multiplies by the scale in the tail as well."""
    scale = Model(architecture).like("blk.0.attn_q.scale", (1,), "F32")
    assert model_codes(scale) == ({"M114"} if architecture == "bitnet" else {"M102"})
    stray = Model(architecture).like("blk.0.attn_q.weight_scale", (1,), "F32")
    assert model_codes(stray) == {"G319"}


def test_rows_of_partial_blocks_may_stay_floats() -> None:
    """A feed-forward of 192 columns cannot be I2_S; what is left as it was is no mistake."""
    model = Model("bitnet-b1.58").set("{arch}.feed_forward_length", 192)
    model.like("blk.0.ffn_sub_norm.weight", (192,), "F32").like("blk.0.ffn_down.weight", (192, 128), "F16")
    for name in ("gate", "up"):
        model.like(f"blk.0.ffn_{name}.weight", (128, 192), "I2_S")
    assert model_codes(model) == set()


def test_experts() -> None:
    model = Model("llama").add("{arch}.expert_count", ValueType.UINT32, 4)
    model.add("{arch}.expert_used_count", ValueType.UINT32, 2)
    assert model_codes(model) == {
        "M101",
        "M102",
    }  # the dense feed-forward tensors are unexpected, and the experts are missing
    model.without(*(f"blk.0.ffn_{name}.weight" for name in ("gate", "up", "down")))
    for name, ne in (("gate", (128, 128, 4)), ("up", (128, 128, 4)), ("down", (128, 128, 4))):
        model.like(f"blk.0.ffn_{name}_exps.weight", ne, "F16")
    model.set("general.file_type", 1)  # most weights are F16 now
    assert model_codes(model.like("blk.0.ffn_gate_inp.weight", (128, 4), "F32")) == set()


def test_numbers_in_names_of_tensors_are_not_trusted() -> None:
    model = Model("llama")
    for name in ("blk.999999999.attn_q.weight", "blk.-1.attn_q.weight", "blk.0.attn_q.weight\x1b[2J", "blk.99.x"):
        model.like(name, (128, 4), "F32")
    report = lint(model.built())
    assert codes(report) == {"M102", "M104", "G305"}
    assert all(finding.message.isprintable() for finding in report.findings)


def test_checkpoints_that_were_never_converted() -> None:
    model = Model("llama")
    for tensor in model.tensors:
        tensor.name = b"model.layers.0." + tensor.name.replace(b"blk.0.", b"")
    found = model_codes(model)
    assert {"M101", "M102", "M104"} <= found
