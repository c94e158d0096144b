"""A number that is planted into one operation is solved from arrays and from the corners that a text shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.convert.trained import open_trained
from i2s_spec.golden import compare, record
from i2s_spec.golden.diagnosis.mistakes import share_of_nonzeros
from i2s_spec.golden.diagnosis.solving import Context, Solved, solve
from i2s_spec.golden.store import corner_indices
from i2s_spec.model.forward import Model
from i2s_spec.model.graph import unlisted
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import attention, bitlinear, matmul
from i2s_spec.model.weights import Ternary

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8, 2]
FORMS = ("arrays", "text")
DIGITS = 4


@cache
def trained() -> tuple[Model, dict[str, Any]]:
    """The trained model, whose values have sizes as real ones, and all its values."""
    model = load_model(open_trained(), threads=1)
    found = model.forward(TOKENS, taps=("*",))
    return model, {**found.taps, "result_output": found.logits}


def solved(name: str, got: Any, form: str, **changes: Any) -> list[Solved]:
    """What is solved of a value, whole or as a text shows it: corners of each dimension with four digits."""
    model, values = trained()
    node, want = model.graph[name], np.asarray(values[name])
    inputs = tuple(changes.get(each, values.get(each)) for each in node.inputs)
    if form == "arrays":
        return solve(Context(model, node, got.astype(np.float32), want, want, inputs))
    places = tuple(corner_indices(side) for side in want.shape)
    cut = np.ix_(*places)
    shown = np.round(got[cut].astype(np.float64), DIGITS).astype(np.float32)
    return solve(Context(model, node, shown, want[cut], want, inputs, 0.5 * 10.0**-DIGITS, places))


def only(found: list[Solved], name: str) -> Solved:
    assert [each.name for each in found] == [name]
    return found[0]


def projection(
    name: str, scales: Callable[[Any], Any], rounding: Callable[[Any], Any] = np.rint, offset: float = 0.0
) -> Any:
    """A projection whose activation scales, or codes, are others."""
    model, values = trained()
    node = model.graph[name]
    x, matrix = values[node.inputs[0]], model.weights.matrix(node.weight)
    assert isinstance(matrix, Ternary)
    scale = np.asarray(scales(x), dtype=np.float64)[:, None]
    codes = np.clip(rounding(x * scale), -128, 127).astype(np.int8)
    acc = matmul.accumulate(matrix.payload, matrix.rows, matrix.columns, codes)
    acc = acc + offset * codes.sum(axis=1, dtype=np.int64)[:, None]
    return acc / scale * float(matrix.scale)


def of_largest(x: Any, columns: slice = slice(None)) -> Any:
    return 127 / np.abs(x[:, columns]).max(axis=1)


# Projections


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [1 / 0.9, 128 / 127, 0.93, 1.01, 1.7])
@pytest.mark.parametrize("name", ["Qcur-0", "ffn_up-1", "ffn_down-2"])
def test_a_factor_of_activation_scales(name: str, share: float, form: str) -> None:
    found = only(solved(name, projection(name, lambda x: share * of_largest(x)), form), "activation-scale")
    assert found.value == pytest.approx(share, rel=1e-4)
    if share == 128 / 127:
        assert "(128/127)" in found.says
    if share == 1 / 0.9:
        assert "(1/0.9)" in found.says


@pytest.mark.parametrize("form", FORMS)
def test_columns_left_out_of_the_maximum(form: str) -> None:
    """Of tokens whose largest element is among the last 64 columns."""
    _, values = trained()
    at = next(
        f"{word}-{layer}" for layer in range(4) for word in ("ffn_up", "Qcur", "attn_o_out")
        if _affected(values, f"{word}-{layer}", form)
    )  # fmt: skip
    got = projection(at, lambda x: of_largest(x, slice(0, x.shape[1] - 64)))
    found = only(solved(at, got, form), "columns-not-in-maximum")
    assert found.value == pytest.approx(64, rel=0.01)
    assert "left out of the maximum" in found.says


def _affected(values: dict[str, Any], name: str, form: str) -> bool:
    """Whether a shown token has its largest element there, another one has not, and the place is bracketed."""
    x = np.abs(values[trained()[0].graph[name].inputs[0]])
    rows = corner_indices(len(x)) if form == "text" else np.arange(len(x))
    peaks = x.argmax(axis=1)[rows]
    late = peaks >= x.shape[1] - 64
    return bool(late.any() and not late.all() and x.shape[1] - 128 < peaks[~late].max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("scales", "words"),
    [
        (lambda x: np.full(len(x), of_largest(x)[0]), "first token"),
        (lambda x: of_largest(x)[[0, *range(len(x) - 1)]], "token before"),
        (lambda x: np.full(len(x), of_largest(x).min()), "of all tokens"),
    ],
)
def test_scales_of_other_tokens(scales: Any, words: str, form: str) -> None:
    found = solved("Qcur-0", projection("Qcur-0", scales), form)
    assert words in only(found, "scale-of-another-token").says


@pytest.mark.parametrize("form", FORMS)
def test_codes_that_are_rounded_at_random(form: str) -> None:
    random = np.random.default_rng(7)
    got = projection("Qcur-0", of_largest, lambda x: np.floor(x + random.random(x.shape)))
    assert "rounded in another way" in only(solved("Qcur-0", got, form), "codes-rounded").says


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.25, 0.5, -1.0])
def test_a_share_of_the_sum_of_codes(share: float, form: str) -> None:
    got = projection("Kcur-1", of_largest, offset=share)
    assert only(solved("Kcur-1", got, form), "sum-offset").value == pytest.approx(share, rel=0.01)


def test_scales_of_single_tokens() -> None:
    factors = np.array([1, 1.031, 1, 0.97, 1, 1, 1.2, 1, 1])
    found = only(
        solved("Vcur-0", projection("Vcur-0", lambda x: factors * of_largest(x)), "arrays"), "activation-scale"
    )
    assert found.value == pytest.approx(1.031, rel=1e-4)
    assert "1.031, 0.97, 1.2" in found.says


@pytest.mark.parametrize("form", FORMS)
def test_factors_of_a_projection(form: str) -> None:
    model, values = trained()
    matrix = model.weights.matrix("blk.0.attn_q.weight")
    assert isinstance(matrix, Ternary)
    share = share_of_nonzeros(matrix)
    assert 0.4 < share < 0.8
    found = only(solved("Qcur-0", values["Qcur-0"] * share, form), "scales-requantised")
    assert found.value == pytest.approx(share, rel=1e-3)
    assert "absmean" in found.says
    other = model.weights.matrix("blk.3.ffn_up.weight")
    assert isinstance(other, Ternary)
    got = values["Qcur-0"] * np.float32(other.scale / matrix.scale)
    if form == "arrays":
        assert "blk.3.ffn_up" in only(solved("Qcur-0", got, form), "scale-of-another").says
    assert only(solved("Qcur-0", values["Qcur-0"] * 1.0473, form), "factor").value == pytest.approx(1.0473, rel=1e-3)


# Attention


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("term", [1.0, 0.25, 3.0])
def test_a_term_in_the_soft_max_sum(term: float, form: str) -> None:
    _, values = trained()
    want = values["kq_soft_max_ext-0"]
    got = want / (1 + term * want.max(axis=-1, keepdims=True).astype(np.float64))
    assert only(solved("kq_soft_max_ext-0", got, form), "soft-max-term").value == pytest.approx(term, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_a_sink_beside_the_keys(form: str) -> None:
    model, values = trained()
    scale = model.graph["kq_soft_max_ext-0"].settings["scale"]
    scores = values["kq-0"].astype(np.float64) * scale
    seen = np.tri(len(TOKENS), dtype=bool)
    power = np.where(seen, np.exp(scores), 0)
    got = power / (power.sum(axis=-1, keepdims=True) + np.exp(1.5))
    assert only(solved("kq_soft_max_ext-0", got, form), "soft-max-sink").value == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("factor", [0.5, 1.3, 8.0])
def test_a_factor_of_the_scores(factor: float, form: str) -> None:
    _, values = trained()
    want = values["kq_soft_max_ext-1"].astype(np.float64)
    got = want**factor / (want**factor).sum(axis=-1, keepdims=True)
    found = only(solved("kq_soft_max_ext-1", got, form), "scores-factor")
    assert found.value == pytest.approx(factor, rel=0.01)
    assert ("root of the head's width" in found.says) == (factor == 8.0)


# Rotations


def rotated(name: str, positions: Any, base: float | None = None, pairs: int | None = None) -> Any:
    model, values = trained()
    node = model.graph[name]
    x = values[node.inputs[0]].reshape(len(TOKENS), node.settings["heads"], -1)
    dims = node.settings["dims"]
    frequencies = (node.settings["base"] if base is None else base) ** (-2 * np.arange(dims // 2) / dims)
    angles = np.asarray(positions, dtype=np.float64)[:, None] * frequencies
    if pairs is not None:
        angles[:, pairs:] = 0
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return attention.rotate(x, cos, sin, node.settings["pairs"])


WHERE = np.arange(len(TOKENS))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["Qcur-0#1", "Kcur-1#1"])
@pytest.mark.parametrize(
    ("positions", "value", "words"),
    [
        (WHERE - 1, -1, "position - 1"),
        (WHERE + 3, 3, "position + 3"),
        (np.maximum(WHERE - 1, 0), -1, "but the first"),
        (1.5 * WHERE, 1.5, "1.5 times"),
        (0.7 * WHERE, 0.7, "0.7 times"),
        (WHERE[::-1], 0, "positions 8, 7, 6"),
    ],
)
def test_positions(name: str, positions: Any, value: float, words: str, form: str) -> None:
    found = only(solved(name, rotated(name, positions), form), "positions")
    assert found.value == pytest.approx(value, rel=0.01, abs=0.01)
    if "8, 7" not in words or form == "arrays":
        assert words in found.says


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("base", [10_000.0, 1e6, 123_456.0])
def test_the_base_of_a_rotation(base: float, form: str) -> None:
    found = only(solved("Qcur-0#1", rotated("Qcur-0#1", WHERE, base), form), "rope-base")
    assert found.value == pytest.approx(base, rel=0.01)


def test_frequencies_of_another_width() -> None:
    model, _ = trained()
    settings = model.graph["Qcur-0#1"].settings
    found = only(
        solved("Qcur-0#1", rotated("Qcur-0#1", WHERE, settings["base"] ** (settings["dims"] / 128)), "arrays"),
        "rope-base",
    )
    assert "a width of 128" in found.says


# Sums and norms


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("of_x", "of_y"), [(1, 0.5), (1, 0.9), (1.25, 1), (0.5, 0.7)])
def test_weights_of_a_residual_connection(of_x: float, of_y: float, form: str) -> None:
    model, values = trained()
    a, b = (values[name] for name in model.graph["ffn_inp-1"].inputs)
    found = only(solved("ffn_inp-1", of_x * a + of_y * b, form), "residual-weight")
    assert found.value == pytest.approx(of_y if of_x == 1 else of_x, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [1e-2, 3e-3])
def test_an_epsilon(value: float, form: str) -> None:
    model, values = trained()
    name = "norm-1#1"
    x = values[model.graph[name].inputs[0]].astype(np.float64)
    got = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + value)
    assert only(solved(name, got, form), "epsilon").value == pytest.approx(
        value, rel=0.01 if form == "arrays" else 0.05
    )


# Right values, and values that no number explains


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_solved_of_right_values(form: str) -> None:
    model, values = trained()
    for node in model.graph:
        if node.name in values and values[node.name].dtype.kind == "f":
            assert not solved(node.name, values[node.name], form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numerics", ["bitnetcpp-2025", "hf-f32", "ik-iq2bn"])
def test_nothing_is_solved_of_right_runtimes(numerics: str, form: str) -> None:
    """Values of other numerics, each from the same inputs: they are off by rounding, and no number explains that."""
    model, values = trained()
    other = model.replace(numerics=numerics)
    for node in model.graph:
        if node.op in ("embed", "store_kv") or any(name not in values for name in node.inputs):
            continue
        inputs = [values[name] for name in node.inputs]
        found = unlisted(other.evaluate(node, inputs)[node.name], node.op)
        if found.dtype.kind == "f":
            names = {each.name for each in solved(node.name, found, form)}
            assert not names - {"codes-rounded"}, node.name  # a flipped code is that


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_solved_of_noise(form: str) -> None:
    model, values = trained()
    random = np.random.default_rng(2)
    for node in model.graph:
        value = values.get(node.name)
        if value is not None and value.dtype.kind == "f" and node.layer in (0, None):
            noise = random.normal(size=value.shape) * np.abs(value).max()
            assert not solved(node.name, noise, form), node.name
            assert not solved(node.name, value + 0.01 * noise, form), node.name


def test_compare_prints_the_number(tmp_path: Path) -> None:
    model = load_model(model_bytes(layers=1, heads=4, heads_kv=2), threads=1)
    record(model, TOKENS, tmp_path / "golden")
    taps = dict(model.forward(TOKENS, taps=("*",)).taps)
    x, matrix = taps["attn_norm-0"], model.weights.matrix("blk.0.attn_q.weight")
    assert isinstance(matrix, Ternary)
    scale = (1 / 0.9 * bitlinear.quantize_activations(x).scale).astype(np.float32)
    codes = np.clip(np.rint(x * scale[:, None]), -128, 127).astype(np.int8)
    acc = matmul.accumulate(matrix.payload, matrix.rows, matrix.columns, codes)
    taps = {name: value for name, value in taps.items() if "." not in name}
    taps["Qcur-0"] = bitlinear.epilogue(acc, scale, matrix.scale)
    np.savez(tmp_path / "x.npz", **taps)
    result = compare(tmp_path / "golden", tmp_path / "x.npz", model=model)
    assert result.first is not None
    assert result.first.name == "Qcur-0"
    assert result.diagnoses[0].name == "activation-scale"
    assert "1.1111 (1/0.9) times 127 / amax" in result.verdict
