"""Runtimes with several activation scales add partial sums as floats, each in its own order."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share

import i2s_spec as i2s
from i2s_spec.codec.reference import unpack_codes
from i2s_spec.golden import compare, record
from i2s_spec.golden.dumps import read_dump
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import bitlinear
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CANONICAL

TOKENS = [1, 17, 3, 44, 5]

Floats = np.ndarray[Any, np.dtype[np.float32]]


def other_order(model: Any, node: Any, x: Floats, how: str) -> Floats:
    """A projection with its partial sums in float32, added in another order than the profile's."""
    matrix = model.weights.matrix(node.weight)
    assert isinstance(matrix, Ternary)
    rule = model.numerics.quantizer
    quantized = bitlinear.quantize(x, rule)
    codes = unpack_codes(matrix.payload, (matrix.rows, matrix.columns), CANONICAL.layout).astype(np.float64)
    k = np.arange(matrix.columns)
    owner = k // 256 if rule.groups == "blocks-256" else k // 4 % 4
    step = 1 / quantized.scale if quantized.steps is None else quantized.steps
    total = np.zeros((8 if how == "lanes" else 1, len(x), matrix.rows), dtype=np.float32)
    taken_off = np.zeros((len(x), 1), dtype=np.float32)
    groups = list(range(owner.max() + 1))
    for group in reversed(groups) if how == "reversed" else groups:
        for lane in range(len(total)):
            mine = (owner == group) & (k % 8 == lane if how == "lanes" else True)
            q = quantized.codes[:, mine].astype(np.float64)
            worth = codes[:, mine] - (0 if how == "offset" else 1)
            d = step[:, group, None].astype(np.float32)
            if rule.groups == "blocks-256":
                d = d * np.float32(np.float16(matrix.scale))
            total[lane] += (q @ worth.T).astype(np.float32) * d
            if how == "offset":
                taken_off += q.sum(axis=1, keepdims=True).astype(np.float32) * d
    found: Floats = total.sum(axis=0, dtype=np.float32) - taken_off
    return found if rule.groups == "blocks-256" else found * matrix.scale


@pytest.mark.parametrize(
    ("profile", "how"),
    share([("tq2_0", "reversed"), ("tq2_0", "lanes"), ("ik-iq2bn", "reversed"), ("ik-iq2bn", "offset")], every=2),
)
def test_another_order_is_right_and_another_scale_is_not(tmp_path: Path, profile: str, how: str) -> None:
    file = io.BytesIO()
    i2s.new(file, "bitnet", layers=1, embd=1024, ff=2048, heads=4, heads_kv=2)
    model = load_model(file.getvalue(), profile, threads=1)
    record(model, TOKENS, tmp_path / "golden")
    dump = read_dump(tmp_path / "golden")
    taps = {name: dump[name].value for name in dump if not name.startswith("blk.")}
    node = model.graph["ffn_down-0"]
    ours, theirs = taps[node.name], other_order(model, node, taps[node.inputs[0]], how)
    assert 0 < np.linalg.norm(ours - theirs) / np.linalg.norm(ours) < 3e-6
    ulp = np.abs(ours - theirs) / np.spacing(np.abs(ours))
    assert ulp.max() > 3  # so the limit cannot be a few units in the last place of the result
    del taps["l_out-0"]
    for value, right in ((theirs, True), (theirs * np.float32(1 + 1e-3), False)):
        np.savez(tmp_path / "x.npz", **{**taps, node.name: value})
        result = compare(tmp_path / "golden", tmp_path / "x.npz", model=model)
        assert (result[node.name].status == "ok") == right, result.verdict
        assert "sum of magnitudes" in result[node.name].limit
