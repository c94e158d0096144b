"""Graphs as data: executed whole, from a layer, one operation at a time, and with a change."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from builders import model_bytes
from examples import share

from i2s_spec.model.architectures import GRAPHS
from i2s_spec.model.forward import Model
from i2s_spec.model.graph import PER_SEQUENCE_OPS, Builder, Graph, Node, base
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NUMERIC_PROFILES
from i2s_spec.schema.architectures import ARCHITECTURES

SIZES: dict[str, dict[str, int]] = {name: {"heads": 4, "heads_kv": 2} for name in ARCHITECTURES} | {
    "bitnet": {"heads": 4}
}
TOKENS = [3, 99, 250, 7, 7, 41]


def loaded(architecture: str, profile: str = "bitnet-golden-1", **settings: Any) -> Model:
    data = model_bytes(architecture, layers=2, seed=1, embd=256, ff=512, **SIZES[architecture])
    return load_model(data, profile, threads=1, **settings)


@pytest.fixture(scope="module")
def model() -> Model:
    return loaded("bitnet-b1.58")


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_a_graph_uses_every_tensor_that_its_architecture_needs(architecture: str) -> None:
    model = loaded(architecture)
    used = {name for node in model.graph for name in node.weights}
    there = set(model.file.tensors)
    assert used <= there
    assert there - used == set()


@pytest.mark.parametrize(("profile", "architecture"), share(product(NUMERIC_PROFILES, ARCHITECTURES)))
def test_every_operation_replays_from_the_values_that_entered_it(architecture: str, profile: str) -> None:
    """Bit for bit, with what BitLinear has inside; for every architecture and profile."""
    model = loaded(architecture, profile)
    result = model.forward(TOKENS, taps=("*",))
    values = {"inp_tokens": np.array(TOKENS), **result.taps}
    assert set(result.taps) >= {node.name for node in model.graph}
    for node in model.graph:
        for name, value in model.evaluate(node, values).items():
            if profile == "fast":  # its order of additions is unspecified
                np.testing.assert_allclose(value, values[name], rtol=1e-4, atol=1e-4)
            else:
                assert value.tobytes() == values[name].tobytes(), name


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_a_layer_runs_from_what_enters_it(architecture: str) -> None:
    model = loaded(architecture)
    result = model.forward(TOKENS, taps=("l_out", "act_q8"))
    out, taps = model.layer(1, result.taps["l_out-0"], taps=("act_q8",))
    assert out.tobytes() == result.taps["l_out-1"].tobytes()
    assert len(taps) == 7
    for name, codes in taps.items():
        assert codes.tobytes() == result.taps[name].tobytes()


def test_names_are_those_of_llama_cpp(model: Model) -> None:
    names = [node.name for node in model.graph.layer(1)]
    assert names == [
        "norm-1", "attn_norm-1", "Qcur-1", "Kcur-1", "Vcur-1", "Qcur-1#1", "Kcur-1#1", "k-1", "v-1", "kq-1",
        "kq_soft_max_ext-1", "kqv_out-1", "norm-1#1", "attn_sub_norm-1", "attn_o_out-1", "ffn_inp-1", "norm-1#2",
        "ffn_norm-1", "ffn_up-1", "ffn_gate-1", "ffn_relu-1", "ffn_sqr(relu)-1", "ffn_out-1", "norm-1#3",
        "ffn_sub_norm-1", "ffn_down-1", "l_out-1",
    ]  # fmt: skip
    assert [node.name for node in model.graph.after_layers()] == ["result_rows", "norm", "result_norm", "result_output"]
    assert (base("Qcur-0#1"), base("blk.0.attn_q.act_q8"), base("norm")) == ("Qcur", "act_q8", "norm")


@pytest.mark.parametrize(
    ("architecture", "names"),
    [
        ("bitnet", {"ffn_silu-0", "ffn_sub_out-0"}),
        ("llama", {"ffn_silu-0", "ffn_gate_par-0", "attn_out-0", "ffn_out-0"}),
        ("qwen3", {"attn_q_norm_in-0", "Qcur_normed-0", "attn_out_norm_in-0", "ffn_gate_up-0", "ffn_down_norm_in-0"}),
        ("qwen3-lm", {"Qcur_normed-0", "Kcur_normed-0", "attn_o_out-0", "ffn_gate_up-0", "result_output"}),
        ("gemma3", {"inp_scaled", "Qcur_scaled-0", "attn_post_norm-0", "sa_out-0", "ffn_gate_gelu-0", "embedding"}),
    ],
)
def test_names_that_only_some_architectures_have(architecture: str, names: set[str]) -> None:
    assert names <= {node.name for node in loaded(architecture).graph}


def test_shapes_of_taps(model: Model) -> None:
    h, count = model.hyperparameters, len(TOKENS)
    taps = model.forward(TOKENS, taps=("*",)).taps
    assert taps["inp_embd"].shape == (count, h.embd)
    assert taps["Qcur-0"].shape == (count, h.q_width)
    assert taps["Qcur-0#1"].shape == (count, h.heads, h.head_dim)
    assert taps["kq-0"].shape == taps["kq_soft_max_ext-0"].shape == (h.heads, count, count)
    assert taps["kqv_out-0"].shape == (count, h.o_width)
    assert taps["blk.0.ffn_down.act_q8"].shape == (count, h.ff)
    assert taps["blk.0.ffn_down.act_scale"].shape == taps["blk.0.ffn_down.act_sum"].shape == (count,)
    assert taps["blk.0.ffn_down.acc_i32"].shape == (count, h.embd)
    assert taps["blk.0.ffn_down.acc_i32"].dtype == np.int32
    dot, total = taps["blk.0.ffn_down.dot_i32"], taps["blk.0.ffn_down.act_sum"]
    assert (dot - total[:, None] == taps["blk.0.ffn_down.acc_i32"]).all()
    assert set(taps) == set(model.tap_names())


def test_soft_max_rows_are_shares_and_nobody_sees_the_future(model: Model) -> None:
    p = model.forward(TOKENS, taps=("kq_soft_max_ext",)).taps["kq_soft_max_ext-0"]
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-6)
    assert (p[:, np.triu(np.ones((len(TOKENS),) * 2, bool), 1)] == 0).all()


def test_a_deviation_is_a_changed_node(model: Model) -> None:
    """Whole, and replayed: everything before the changed value stays, the value itself does not."""
    right = model.forward(TOKENS, taps=("*",)).taps
    changed = model.graph.replaced("Qcur-1#1", pairs="norm")
    wrong = model.replace(graph=changed).forward(TOKENS, taps=("*",)).taps
    first = next(node.name for node in model.graph if right[node.name].tobytes() != wrong[node.name].tobytes())
    assert first == "Qcur-1#1"
    replayed = model.evaluate(model.graph["Qcur-1#1"].replace(pairs="norm"), {"Qcur-1": right["Qcur-1"]})
    assert replayed["Qcur-1#1"].tobytes() == wrong["Qcur-1#1"].tobytes()


def test_a_deviation_is_an_operation_left_out(model: Model) -> None:
    right = model.forward(TOKENS, taps=("*",)).taps
    without = model.graph.without("norm-0#1", "attn_sub_norm-0")
    assert len(without.nodes) == len(model.graph.nodes) - 2
    wrong = model.replace(graph=without).forward(TOKENS, taps=("*",)).taps
    common = [name for name in model.tap_names() if name in wrong]
    first = next(name for name in common if right[name].tobytes() != wrong[name].tobytes())
    assert first == "blk.0.attn_output.act_q8"


def test_a_deviation_is_another_profile_or_other_weights_for_one_operation(model: Model) -> None:
    right = model.forward(TOKENS, taps=("*",)).taps
    inputs = {"attn_norm-0": right["attn_norm-0"]}
    four = model.evaluate("Qcur-0", inputs, numerics="ik-iq2bn")
    assert four["blk.0.attn_q.act_scale"].shape == (len(TOKENS), 4)
    assert four["Qcur-0"].tobytes() != right["Qcur-0"].tobytes()
    np.testing.assert_allclose(four["Qcur-0"], right["Qcur-0"], atol=0.1 * np.abs(right["Qcur-0"]).max())

    from i2s_spec.model.weights import ModelWeights
    from i2s_spec.schema.dialect import parse

    misread = model.evaluate("Qcur-0", inputs, weights=ModelWeights(model.file, parse("interleave-64")))
    assert misread["blk.0.attn_q.act_q8"].tobytes() == right["blk.0.attn_q.act_q8"].tobytes()
    assert misread["blk.0.attn_q.acc_i32"].tobytes() != right["blk.0.attn_q.acc_i32"].tobytes()


def test_invalid_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match="neither given nor computed"):
        Graph((Node("a", "add", ("b", "c")),), ("b",))
    with pytest.raises(ValueError, match="two values are called a"):
        Graph((Node("a", "square", ("b",)), Node("a", "square", ("b",))), ("b",))
    g = Builder()
    x = g.add("add", "sum", g.given("a"), g.given("b"))
    graph = g.graph(x)
    with pytest.raises(ValueError, match="only operations with one input can be left out"):
        graph.without("sum")
    with pytest.raises(ValueError, match="no value called 'nothing'"):
        graph.without("nothing")
    with pytest.raises(ValueError, match="no value called 'nothing'"):
        graph["nothing"]


def test_scales_and_biases_beside_projections_are_operations() -> None:
    """Architecture bitnet may have scales, the others biases: their values carry the projection's name."""
    model = loaded("bitnet")
    g = Builder([*model.file.tensors, "blk.0.attn_q.scale", "blk.0.attn_q.bias"])
    graph = GRAPHS["bitnet"](g, model.hyperparameters, model.settings)
    assert [graph[name].op for name in ("Qcur-0", "Qcur-0#1", "Qcur-0#2", "Qcur-0#3")] == [
        "linear", "scale", "bias", "rope",
    ]  # fmt: skip


def test_listed_operations_are_those_with_one_array_for_each_sequence(model: Model) -> None:
    assert {model.graph[name].op for name in ("k-0", "kq-0", "kq_soft_max_ext-0")} <= PER_SEQUENCE_OPS


def test_a_deviation_is_another_profile_for_one_value(model: Model) -> None:
    right = model.forward(TOKENS, taps=("*",)).taps
    wrong = (
        model.replace(substitutes={"ffn_down-0": "tq2_0"})
        .forward(TOKENS, taps=("ffn_down", "Qcur", "ffn_sub_norm"))
        .taps
    )
    assert wrong["ffn_sub_norm-0"].tobytes() == right["ffn_sub_norm-0"].tobytes()
    assert wrong["ffn_down-0"].tobytes() != right["ffn_down-0"].tobytes()
    with pytest.raises(ValueError, match="no value called 'Xcur-0'"):
        model.replace(substitutes={"Xcur-0": "tq2_0"}).forward(TOKENS)


def test_known_mistakes_are_deviations_of_one_operation(model: Model) -> None:
    """The reciprocal of a scale, codes whose offset stays, another layout: each replayed from right inputs."""
    from i2s_spec.model.weights import ModelWeights

    right = model.forward(TOKENS, taps=("*",)).taps
    inputs = {"attn_norm-0": right["attn_norm-0"]}
    scale = model.weights.matrix("blk.0.attn_q.weight").scale  # type: ignore[union-attr]
    reciprocal = ModelWeights(model.file, change=lambda name, matrix: matrix._replace(scale=1 / matrix.scale))
    found = model.evaluate("Qcur-0", inputs, weights=reciprocal)
    np.testing.assert_allclose(found["Qcur-0"], right["Qcur-0"] / scale**2, rtol=1e-6)
    assert found["blk.0.attn_q.acc_i32"].tobytes() == right["blk.0.attn_q.acc_i32"].tobytes()

    kept = model.evaluate("Qcur-0", inputs, numerics=model.numerics.replace(quantizer={"offset": "kept"}))
    assert kept["blk.0.attn_q.acc_i32"].tobytes() == right["blk.0.attn_q.dot_i32"].tobytes()
    floats = model.evaluate("Qcur-0", inputs, numerics=model.numerics.replace(quantizer={"groups": "none"}))
    assert set(floats) == {"Qcur-0"}
    assert 0 < np.abs(floats["Qcur-0"] - right["Qcur-0"]).max() < 0.05 * np.abs(right["Qcur-0"]).max()
