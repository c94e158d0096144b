"""Files of llama.cpp's architectures against its loader's table: one change a file, a sound twin beside it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.linter.analysis import loader_view as views
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.loader_view import loader_view
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report_data import Report
from i2s_spec.linter.rule import Severity
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Model, array

U32, U64, F32, F64, STRING = (
    ValueType.UINT32, ValueType.UINT64, ValueType.FLOAT32, ValueType.FLOAT64, ValueType.STRING,
)  # fmt: skip


def floats(architecture: str = "llama") -> Model:
    """A model whose matrices are F16 and whose vectors are F32."""
    model = Model(architecture).set("general.file_type", 1)
    for tensor in list(model.tensors):
        if tensor.number == 36:
            model.like(tensor.name.decode(), tensor.ne, "F16")
    return model


def errors(report: Report) -> set[str]:
    assert report.bugs == ()
    return {finding.code for finding in report.findings if finding.severity is Severity.ERROR}


def warnings(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity is Severity.WARNING}


def another(type: ValueType, value: Any, key: str) -> Callable[[Model], object]:
    return lambda model: model.drop(key).add(key, type, value)


#: What llama.cpp refuses, and the rule that says so.
REFUSED: Mapping[str, tuple[Callable[[Model], object], str]] = {
    "a norm is missing": (lambda model: model.without("blk.0.attn_norm.weight"), "M101"),
    "the embedding is missing": (lambda model: model.without("token_embd.weight"), "M101"),
    "a norm is F16": (lambda model: model.like("blk.0.attn_norm.weight", (128,), "F16"), "M106"),
    "a matrix is I32": (lambda model: model.like("blk.0.ffn_up.weight", (128, 256), "I32"), "G415"),
    "a name is nobody's": (lambda model: model.like("blk.0.zzz.weight", (128,), "F32"), "M102"),
    "a matrix is transposed": (lambda model: model.like("blk.0.ffn_down.weight", (128, 256), "F16"), "M103"),
    "heads are twice as many": (lambda model: model.set("{arch}.attention.head_count_kv", 4), "M103"),
    "a block too few": (lambda model: model.set("{arch}.block_count", 2), "M104"),
    "epsilon is missing": (lambda model: model.drop("{arch}.attention.layer_norm_rms_epsilon"), "M002"),
    "epsilon is f64": (another(F64, 1e-5, "{arch}.attention.layer_norm_rms_epsilon"), "M003"),
    "blocks are u64": (another(U64, 1, "{arch}.block_count"), "M003"),
    "name is an array": (lambda model: model.drop("general.name").add("general.name", ValueType.ARRAY,
                                                                     array(STRING, [b"a"])), "M003"),
    "base is 0": (lambda model: model.set("{arch}.rope.freq_base", 0.0), "M004"),
    "experts without experts": (lambda model: model.add("{arch}.expert_group_count", U32, 2), "M023"),
    "tokenizer is foo": (lambda model: model.set("tokenizer.ggml.model", b"foo"), "T002"),
    "pre-tokenizer is foo": (lambda model: model.set("tokenizer.ggml.pre", b"foo"), "T010"),
    "merges are missing": (lambda model: model.drop("tokenizer.ggml.merges"), "T001"),
}  # fmt: skip


def test_the_sound_file_is_sound() -> None:
    report = lint(floats().built())
    assert errors(report) == warnings(report) == set()
    assert report.unchecked == ()
    row = next(verdict for verdict in lint(floats().built(), runtimes=True).runtimes if verdict.runtime == "llama.cpp")
    assert row.loads == "yes"


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_loader_refuses_is_an_error(name: str) -> None:
    change, code = REFUSED[name]
    model = floats()
    change(model)
    report = lint(model.built(), runtimes=True)
    assert code in errors(report)
    row = next(verdict for verdict in report.runtimes if verdict.runtime == "llama.cpp")
    assert row.loads in ("no", "crash")


#: What llama.cpp loads, and the rule that warns, if one does.
LOADED: Mapping[str, tuple[Callable[[Model], object], str]] = {
    "quantization_version is u64": (another(U64, 2, "general.quantization_version"), "M003"),
    "general.type is u32": (lambda model: model.add("general.type", U32, 1), "M003"),
    "key heads in an array": (lambda model: model.drop("{arch}.attention.head_count_kv").add(
        "{arch}.attention.head_count_kv", ValueType.ARRAY, array(U32, [2])), ""),
    "biases": (lambda model: model.like("blk.0.attn_q.bias", (128,), "F32"), ""),
    "a scale beside a weight": (lambda model: model.like("blk.0.ffn_up.scale", (1,), "F32"), ""),
    "a tensor of other architectures": (lambda model: model.like("blk.0.attn_q_norm.weight", (64,), "F32"), "M102"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADED)
def test_what_may_load_is_no_error(name: str) -> None:
    change, code = LOADED[name]
    model = floats()
    change(model)
    report = lint(model.built())
    assert errors(report) == set()
    assert ({code} - {""}) <= warnings(report)


def fused(architecture: str, kind: str) -> bytes:
    """A ternary model whose queries, keys and values are one matrix, as llama.cpp's `--fuse-qkv` writes them."""
    model = Model(architecture)
    for tensor in list(model.tensors):
        if tensor.number == 36 and kind != "I2_S":
            model.like(tensor.name.decode(), tensor.ne, kind)
    rows = sum(model.tensor(f"blk.0.attn_{part}.weight").ne[1] for part in "qkv")
    columns = model.tensor("blk.0.attn_q.weight").ne[0]
    model.without(*(f"blk.0.attn_{part}.weight" for part in "qkv"))
    return model.like("blk.0.attn_qkv.weight", (columns, rows), kind).built()


@pytest.mark.parametrize("kind", ["F16", "Q2_0"])
def test_fused_queries_keys_and_values_are_known(kind: str) -> None:
    assert not errors(lint(fused("llama", kind))) & {"M101", "M102", "M103"}


def test_an_old_table_only_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    model = floats().without("blk.0.attn_norm.weight").built()
    assert errors(lint(model)) == {"M101"}
    monkeypatch.setattr(views, "OLD_AFTER", -1)
    report = lint(model)
    assert errors(report) == set()
    assert warnings(report) >= {"M101"}


def test_the_view_is_computed_once_and_bounded() -> None:
    subject = LintContext(File(source_of(floats().built())))
    assert loader_view(subject) is loader_view(subject)
    model = floats()
    model.set("{arch}.block_count", 2**32 - 1)
    assert "M004" in errors(lint(model.built()))


def test_names_that_are_no_text_do_no_harm() -> None:
    model = floats()
    model.tensors[3].name = b"blk.0.\xff\xfe.weight"
    assert lint(model.built()).bugs == ()


def test_new_models_of_llama_are_loaded() -> None:
    out = io.BytesIO()
    new(out, "llama", type="F16", layers=3)
    view = loader_view(LintContext(File(source_of(out.getvalue()))))
    assert view is not None
    assert view.refusal() is None
    assert np.frombuffer(out.getvalue()[:4], dtype="S4")[0] == b"GGUF"
