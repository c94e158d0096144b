"""Quantization of whole models: ternary weights are restored exactly, others have the loss given by the formula."""

from __future__ import annotations

import io
import json
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import i2s_spec as i2s
from i2s_spec.cli.convert import quantize_command
from i2s_spec.convert.quantize_model import DESTROYED, MODEL_RULES, Loss, QuantizedModel, quantize_model
from i2s_spec.convert.rewrite import Replacement, rewrite
from i2s_spec.convert.trained import write_trained
from i2s_spec.schema.types import BY_NAME
from i2s_spec.testing.sample import Model

TYPES = ("I2_S", "interleave-64", "Q2_0", "TQ1_0", "TQ2_0", "PQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN")
#: Rows of 128 are not whole blocks of 256.
FITTING = ("I2_S", "interleave-64", "Q2_0", "PQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN")


def trained(to: str | None = None) -> i2s.File:
    out = io.BytesIO()
    write_trained(out, to=to)
    return i2s.open(out.getvalue())


def floats(seed: int = 1) -> bytes:
    """A model with normally distributed F32 projections, as no training with ternary weights leaves them."""
    random = np.random.default_rng(seed)
    model = Model("bitnet-b1.58")
    for tensor in model.tensors:
        if tensor.number == BY_NAME["I2_S"].number:
            weights = random.normal(0, 0.02, tensor.ne[::-1]).astype(np.float32)
            tensor.number, tensor.data = BY_NAME["F32"].number, weights.tobytes()
    return model.built()


def quantized(data: bytes | i2s.File, **options: object) -> tuple[QuantizedModel, i2s.File]:
    out = io.BytesIO()
    result = quantize_model(data if isinstance(data, i2s.File) else i2s.open(data), out, **options)  # type: ignore[arg-type]
    return result, i2s.open(out.getvalue())


@pytest.mark.requirement("R8.5-2")
@pytest.mark.parametrize("source", ["F32", "F16"])
def test_a_trained_model_comes_back(source: str) -> None:
    """Floats of a ternary model give the trits and scales that they were made of; from F32 the file itself."""
    original = trained()
    result, back = quantized(trained(source))
    assert [loss.relative for loss in result.losses] == [0.0] * len(result.losses)
    assert all(loss.was_ternary for loss in result.losses)
    assert DESTROYED not in result.notes
    for name, tensor in original.tensors.items():
        if tensor.type is not None and tensor.type.name == "I2_S":
            assert np.array_equal(tensor.trits(), back.tensors[name].trits())
            assert source == "F16" or tensor.scale() == back.tensors[name].scale()
        else:
            assert tensor.read() == back.tensors[name].read()


@pytest.mark.parametrize("to", FITTING)
def test_the_loss_of_floats_is_that_of_the_formula(to: str) -> None:
    data = floats()
    source = i2s.open(data)
    result, back = quantized(data, to=to)
    assert DESTROYED in result.notes
    assert {loss.name for loss in result.losses} == {
        n for n in source.tensors if n.startswith("blk.") and "norm" not in n
    }
    for loss in result.losses:
        weights = source.tensors[loss.name].array().astype(np.float64)
        mean = np.abs(weights).mean()
        trits = np.clip(np.rint(weights / mean), -1, 1)
        dialect = to if to == "interleave-64" else "canonical"
        stored = back.tensors[loss.name].dequantize(dialect)
        assert np.array_equal(np.sign(stored), trits)
        expected = math.sqrt(((weights - stored) ** 2).sum() / (weights**2).sum())
        assert loss.relative == pytest.approx(expected, rel=1e-12)
        assert 0.45 < loss.relative < 0.6  # of a normal distribution: 0.51
        assert loss.zeros == pytest.approx((trits == 0).mean(), abs=1e-12)
        assert loss.scale == pytest.approx(mean, rel=1e-3)
    whole = math.sqrt(sum(loss.squares[0] for loss in result.losses) / sum(loss.squares[1] for loss in result.losses))
    assert result.relative == pytest.approx(whole)
    if to == "I2_S":
        assert i2s.lint(back.source.read(0, back.size)).ok


def test_groups_keep_the_largest_of_each() -> None:
    data = floats()
    result, back = quantized(data, to="Q2_0", rule="by-group")
    for loss in result.losses:
        assert math.isnan(loss.scale)
        weights = i2s.open(data).tensors[loss.name].array()
        largest = np.abs(weights).reshape(-1, 64).max(axis=1).astype(np.float16).astype(np.float32)
        assert np.array_equal(np.abs(back.tensors[loss.name].dequantize()).reshape(-1, 64).max(axis=1), largest)


@pytest.mark.parametrize("rule", [rule for rule in MODEL_RULES if rule not in ("absmean", "by-group")])
def test_rules_are_those_of_single_tensors(rule: str) -> None:
    data = floats()
    result, back = quantized(data, rule=rule)
    name = result.losses[0].name
    with pytest.warns() if rule in ("absmax", "hf-first", "convert-ms") else nullcontext():
        expected = i2s.quantize(i2s.open(data).tensors[name].array(), rule)
    assert back.tensors[name].read() == expected


def test_kept_and_additional_matrices() -> None:
    data = floats()
    result, back = quantized(data, keep=["*.attn_q.weight", "blk.0.ffn_up.weight"], also=["token_embd.weight"])
    names = {loss.name for loss in result.losses}
    assert "token_embd.weight" in names
    assert names.isdisjoint({"blk.0.attn_q.weight", "blk.0.ffn_up.weight"})
    for name in result.copied:
        assert back.tensors[name].read() == i2s.open(data).tensors[name].read()
    assert set(result.copied) | names == set(back.tensors)


@pytest.mark.requirement("R8.5-1")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"to": "F16"}, "F16 is not a ternary type"),
        ({"to": "Q9"}, "is not one of"),
        ({"to": "TQ2_0"}, "rows of 128 are not whole blocks"),
        ({"rule": "mean"}, "unknown rule"),
        ({"rule": "by-group"}, "I2_S has one scale"),
        ({"keep": ["nobody"]}, "no float projection"),
        ({"also": ["nobody"]}, "no other float matrix"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], says: str, tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    with pytest.raises(ValueError, match=says):
        quantize_model(i2s.open(floats()), target, **options)  # type: ignore[arg-type]
    assert not target.exists()


def test_a_model_without_floats_and_one_with_infinities(tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    with pytest.raises(ValueError, match="no float projections"):
        quantize_model(trained(), target)
    model = Model("bitnet-b1.58")
    last = [tensor for tensor in model.tensors if tensor.number == BY_NAME["I2_S"].number][-1]
    weights = np.ones(last.ne[::-1], np.float32)
    weights[-1, -1] = np.inf
    last.number, last.data = BY_NAME["F32"].number, weights.tobytes()
    with pytest.raises(ValueError, match="has infinities or NaN"):
        quantize_model(i2s.open(model.built()), target)
    assert list(tmp_path.iterdir()) == []


def never_ternary(path: Path) -> None:
    """The trained model in floats, with the gains of its norms folded into its matrices and random ones left behind.

    It computes the same as before, and its weights are those of a model that was not trained with ternary ones.
    """
    file, random = trained("F32"), np.random.default_rng(5)
    changed: dict[str, Replacement] = {}

    def change(name: str, weights: np.ndarray) -> None:
        data = weights.astype("<f4").tobytes()
        changed[name] = Replacement("F32", lambda: iter([data]))

    for norm, matrices in (("attn_norm", ("attn_q", "attn_k", "attn_v")), ("ffn_norm", ("ffn_gate", "ffn_up"))):
        for layer in range(file.metadata["bitnet-b1.58.block_count"]):
            gains = file.tensors[f"blk.{layer}.{norm}.weight"].array()
            other = np.exp(random.normal(0, 1.5, gains.shape)).astype(np.float32)
            change(f"blk.{layer}.{norm}.weight", gains / other)
            for matrix in matrices:
                change(f"blk.{layer}.{matrix}.weight", file.tensors[f"blk.{layer}.{matrix}.weight"].array() * other)
    rewrite(file, path, replace=changed)


def test_the_command_measures_what_is_lost(tmp_path: Path) -> None:
    """A trained model keeps its perplexity; the same model with weights that never were ternary is destroyed."""
    kept, lost, text = tmp_path / "kept.gguf", tmp_path / "lost.gguf", tmp_path / "text"
    write_trained(kept, to="F16")
    never_ternary(lost)
    unseen = Path(i2s.__file__).parent / "convert" / "unseen.txt"
    text.write_bytes(unseen.read_bytes()[:6000])
    found = {}
    for source in (kept, lost):
        out = str(source.with_suffix(".out"))
        options = [str(source), "-o", out, "--text", str(text), "-c", "64", "--chunks", "2", "--json"]
        done = CliRunner().invoke(quantize_command, options)
        assert done.exit_code == 0, done.output
        found[source] = json.loads(done.stdout)
    before, after = (found[kept]["perplexity"][name] for name in ("before", "after"))
    assert after == pytest.approx(before, rel=0.05)
    assert found[lost]["perplexity"]["before"] == pytest.approx(before, rel=0.01)
    assert found[lost]["perplexity"]["after"] > 10 * before
    assert DESTROYED in found[lost]["notes"]
    assert DESTROYED not in found[kept]["notes"]


@pytest.mark.requirement("R8.6-1")
def test_the_warning_is_printed(tmp_path: Path) -> None:
    source = tmp_path / "float.gguf"
    source.write_bytes(floats())
    done = CliRunner().invoke(quantize_command, [str(source), "-o", str(tmp_path / "o.gguf")])
    assert done.exit_code == 0
    assert "destroyed by quantization" in done.stderr
    assert "relative L2 error of all quantized weights: 0.5" in done.stdout
    again = CliRunner().invoke(quantize_command, [str(source), "-o", str(tmp_path / "o.gguf")])
    assert again.exit_code == 2


def test_a_loss_is_one_line() -> None:
    loss = Loss("a", (2, 2), "F32", "I2_S", 0.5, 0.25, 0.125, False, (1.0, 64.0))
    assert str(loss) == "a: F32 -> I2_S, scale 0.5, 25.0 % zeros, relative L2 0.125"
