"""Files in the forms of single writers: named, converted with a proof, and otherwise refused."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.convert.convert_file import Conversion, convert_file
from i2s_spec.convert.packed_files import to_checkpoint
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer_forms import NEOGPU, SKAINET, restored, writer_form
from i2s_spec.inspect.identify import identify
from i2s_spec.linter.engine import lint
from i2s_spec.model.load import load_model, refusal
from i2s_spec.testing.writer_files import neogpu_file, skainet_file

MAKERS = {"neogpu": neogpu_file, "skainet": skainet_file}
each_form = pytest.mark.parametrize("form", MAKERS)


def model(architecture: str = "bitnet-b1.58") -> bytes:
    return model_bytes(architecture, layers=2, seed=4)


def made(form: str, architecture: str = "bitnet-b1.58") -> bytes:
    with open_file(model(architecture)) as file:
        return MAKERS[form](file)


def converted(data: bytes, **options: str) -> tuple[bytes, Conversion]:
    out = io.BytesIO()
    with File(BufferSource(data)) as file:
        result = convert_file(file, out, **options)  # type: ignore[arg-type]
    return out.getvalue(), result


def codes(data: bytes) -> set[str]:
    return {finding.code for finding in lint(data).findings}


@each_form
def test_a_form_is_recognised_by_its_header(form: str) -> None:
    found = writer_form(File(BufferSource(made(form))))
    assert found is not None
    assert found.name == form
    assert found in (NEOGPU, SKAINET)
    for architecture in ("bitnet-b1.58", "bitnet", "llama", "qwen3-lm"):
        assert writer_form(File(BufferSource(model(architecture)))) is None


@each_form
@pytest.mark.parametrize("to", ["canonical", "interleave-64", "Q2_0", "F16"])
def test_the_weights_are_those_of_the_model(form: str, to: str) -> None:
    """Trits are equal; a scale that is stored as what is divided by is a reciprocal of a reciprocal."""
    data, result = converted(made(form), to=to)
    assert len(result.proofs) == 14
    assert MAKERS[form].__name__.startswith(form)
    assert ("NeoGPU" if form == "neogpu" else "SKaiNET") in result.advice[0]
    want = converted(model(), to=to)[0] if to != "canonical" else model()
    dialect = "interleave-64" if to == "interleave-64" else "canonical"
    with open_file(data) as ours, open_file(want) as theirs:
        assert set(ours.tensors) == set(theirs.tensors)
        for name, tensor in theirs.tensors.items():
            other = ours.tensors[name]
            assert (other.shape, other.kind) == (tensor.shape, tensor.kind)
            if tensor.type is not None and tensor.type.name in ("I2_S", "Q2_0"):
                one, two = other.ternary(dialect), tensor.ternary(dialect)
                assert (one.whole(1)[0] == two.whole(1)[0]).all()
                assert np.isclose(one.scale, two.scale, rtol=2e-7 if to != "Q2_0" else 1e-3)
    assert not {"I317", "I105", "G319", "G217", "M103"} & codes(data)


@each_form
def test_a_converted_file_runs_like_the_model(form: str) -> None:
    tokens = [3, 99, 250, 7]
    ours = load_model(converted(made(form), to="canonical")[0], threads=1).forward(tokens).logits
    theirs = load_model(model(), threads=1).forward(tokens).logits
    assert ours is not None
    assert theirs is not None
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()
    for force in (False, True):
        with pytest.raises(SettingError, match="i2s convert IN OUT --to canonical"):
            load_model(File(BufferSource(made(form))), force=force)
    assert "is not run" in (refusal(File(BufferSource(made(form)))) or "")


@each_form
def test_identify_names_the_program(form: str) -> None:
    with open_file(model()) as file:
        data = MAKERS[form](file).replace(b"synthetic-bitnet-b1.58", b"a-model-of-bitnet-b1.5")
    question = identify(data).question("quantizer")
    assert question.answer is not None
    assert question.answer.name == form
    layout = identify(data).question("layout")
    assert layout.answer is not None
    assert layout.answer.name == "sequential-lsb"
    assert {"neogpu", "skainet"} & {each.name for each in identify(model()).question("quantizer").open} == set()


def test_one_finding_names_the_form_of_neogpu() -> None:
    found = codes(made("neogpu"))
    assert "I317" in found
    assert not {"I105", "G319", "M102", "M103"} & found
    (finding,) = (each for each in lint(made("neogpu")).findings if each.code == "I317")
    assert (finding.severity.name, finding.got) == ("ERROR", 14)
    (finding,) = (each for each in lint(made("skainet")).findings if each.code == "I317")
    assert finding.severity.name == "WARNING"


def test_marks_alone_are_no_form() -> None:
    """A companion beside a tensor with a tail; an alignment of i32 where keys are in another order; one missing scale."""
    data = bytearray(made("neogpu"))
    place = data.index(b"blk.1.ffn_up.weight_scale")
    data[place : place + 25] = b"blk.1.ffn_up.weight_other"
    assert writer_form(File(BufferSource(bytes(data)))) is None
    sorted_keys = made("skainet")
    place = sorted_keys.index(b"general.alignment") + 17
    number = sorted_keys[:place] + struct.pack("<I", 4) + sorted_keys[place + 4 :]
    assert writer_form(File(BufferSource(number))) is None


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_scale_that_nothing_can_be_divided_by_is_refused(value: float) -> None:
    data = bytearray(made("neogpu"))
    with File(BufferSource(bytes(data))) as file:
        span = next(each.span for name, each in file.tensors.items() if name.endswith("_scale"))
    data[span.start : span.start + 4] = struct.pack("<f", value)
    with pytest.raises(ValueError, match="nothing can be divided by it"):
        converted(bytes(data), to="canonical")


@each_form
@pytest.mark.parametrize("cut", [1, 40, 20_000, 150_000])
def test_a_file_that_is_cut_is_refused(form: str, cut: int) -> None:
    whole = made(form)
    data = whole[: len(whole) - cut]
    file = File(BufferSource(data))
    if writer_form(file) is None:
        return
    out = io.BytesIO()
    try:
        convert_file(file, out, to="canonical")
    except (FormatError, ValueError):
        assert not out.getvalue()


@each_form
def test_a_restored_file_is_read_in_any_parts(form: str) -> None:
    with File(BufferSource(made(form))) as file:
        found = writer_form(file)
        assert found is not None
        source = restored(file, found).source
        whole = source.read(0, source.size)
        drawn = np.random.default_rng(1)
        for start, most in zip(drawn.integers(0, source.size, 200), drawn.integers(0, 3000, 200), strict=True):
            length = min(int(most), source.size - int(start))
            assert source.read(int(start), length) == whole[start : start + length]
        with pytest.raises(FormatError):
            source.read(source.size - 1, 2)


@each_form
def test_a_checkpoint_is_made_of_it(form: str, tmp_path: Path) -> None:
    with File(BufferSource(made(form))) as file:
        result = to_checkpoint(file, tmp_path / "model.safetensors")
    assert len(result.proofs) == 14
