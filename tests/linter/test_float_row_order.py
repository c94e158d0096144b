"""Queries and keys stored as floats show which rows are rotated together, or the verdict says that they do not."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.codec.shape import to_bfloat16
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report.text import examined, sentence

ORDERS = {"llama": "norm", "bitnet-b1.58": "neox"}


def _floats(values: np.ndarray, type: str) -> bytes:
    if type == "BF16":
        return to_bfloat16(values.astype(np.float32)).astype("<u2").tobytes()
    return values.astype({"F16": "<f2", "F32": "<f4"}[type]).tobytes()


def _model(architecture: str, type: str, order: str, odd: float | None = None) -> bytes:
    """A model with float matrices; pairs of rows of queries and keys in an order have about the same magnitude."""
    data, out = io.BytesIO(), io.BytesIO()
    i2s.new(data, architecture, layers=4)
    random = np.random.default_rng(4)
    with i2s.open(data.getvalue()) as file, Writer(out) as writer:
        heads = {f"attn_{each}": file.metadata[f"{architecture}.attention.head_count{kv}"] for each, kv in
                 (("q", ""), ("k", "_kv"))}  # fmt: skip
        for key, value in file.metadata.items():
            writer.add(key, 1 if key == "general.file_type" else value)
        for name, tensor in file.tensors.items():
            if tensor.kind != "I2_S":
                writer.add_tensor(name, tensor.shape, tensor.kind, tensor.read())
                continue
            rows, cols = tensor.shape
            values = random.standard_normal((rows, cols)) * 0.1
            many = heads.get(name.split(".")[2], 0)
            if many and order != "none":
                pairs = random.uniform(0.5, 2, (many, rows // many // 2, 1))
                pairs = np.repeat(pairs, 2, 2) if order == "norm" else np.stack([pairs, pairs], 1)
                values *= pairs.reshape(rows, 1)
            if odd is not None:
                values[0, 0] = odd
            writer.add_tensor(name, tensor.shape, type, _floats(values, type))
    return out.getvalue()


def _linted(data: bytes, **options: Any) -> tuple[bool, str | None, str]:
    report = lint(data, payload=options.pop("payload", "full"), details=examined, **options)
    assert not report.bugs
    about = report.details
    assert about is not None
    return "I215" in {each.code for each in report.findings}, about["row_order"], sentence(about)


@pytest.mark.parametrize("type", ["F16", "F32", "BF16"])
@pytest.mark.parametrize("architecture", ORDERS)
@pytest.mark.parametrize("order", ["norm", "neox", "none"])
def test_the_order_of_rows_is_decided_or_not(architecture: str, type: str, order: str) -> None:
    found, decided, text = _linted(_model(architecture, type, order))
    assert found == (order not in ("none", ORDERS[architecture]))
    assert decided == ("undecided" if order == "none" else "decided")
    assert ("do not show in which order" in text) == (order == "none")


def test_nothing_is_said_of_what_was_not_looked_at() -> None:
    wrong = _model("llama", "F16", "neox")
    for options in ({"payload": "none"}, {"payload": "sample"}, {"ignore": ("I215",)}):
        found, decided, text = _linted(wrong, **options)
        assert (found, decided, "in which order" in text) == (False, None, False)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_matrices_that_are_no_numbers_decide_nothing(odd: float) -> None:
    assert _linted(_model("llama", "F32", "neox", odd))[:2] == (False, "undecided")
