"""Sound files of every architecture and type, moved and cut: what is wrong is named, or every weight is as it was."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from builders import model_bytes
from examples import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from i2s_spec.compare.diff import diff
from i2s_spec.compare.hash import weights_digest
from i2s_spec.errors import FormatError, ReadOnWarning
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.runtimes.verdicts import verdicts
from i2s_spec.linter.sanitize import sanitize
from i2s_spec.schema import limits
from i2s_spec.schema.types import padded

ARCHITECTURES = ("bitnet-b1.58", "bitnet-25", "bitnet", "llama", "qwen3", "qwen3-lm", "gemma3")
#: Of these one for each way in which weights lie in a tensor.
TYPES = ("I2_S", "TQ1_0", "TQ2_0", "Q2_0", "PQ2_0", "PTQ1_0", "IQ2_BN", "F16", "BF16", "F32")

models = st.tuples(st.sampled_from(ARCHITECTURES), st.sampled_from(TYPES), st.integers(0, 3))


def made(model: tuple[str, str, int]) -> bytes:
    """A sound file; the seed also makes headers of different lengths."""
    architecture, kind, seed = model
    options = {} if kind == "I2_S" else {"type": kind}
    try:
        return model_bytes(architecture, layers=1 + seed % 2, seed=seed, vocab=512 + seed, **options)
    except ValueError:  # not every architecture has every type
        assume(False)
        raise


def places(data: bytes) -> tuple[int, int]:
    """Where the tensor infos end, and where the data section begins."""
    file = File(BufferSource(data))
    assert file.infos_end is not None
    assert file.data_start is not None
    return file.infos_end, file.data_start


def moved(data: bytes, alignment: int, behind: int = 0) -> bytes:
    """The data section where another alignment puts it, without the key that says so."""
    end, start = places(data)
    return data[:end] + bytes(padded(end, alignment) - end) + data[start:] + bytes(range(1, 1 + behind))


def computed(data: bytes) -> list[str]:
    """The programs that are said to compute a file, rightly or as expected."""
    found = verdicts(LintContext(File(BufferSource(data))))
    return [each.runtime.name for each in found if each.loads == "yes" and each.computes in ("correctly", "expected")]


def weights_of(data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadOnWarning)
        return weights_digest(open_file(data))


@given(models, st.sampled_from(limits.ALIGNMENTS), st.sampled_from((0, 0, 7, 64)))
@examples(60)
def test_moved_weights_are_named_or_read_where_they_are(
    model: tuple[str, str, int], alignment: int, behind: int
) -> None:
    data = made(model)
    end, start = places(data)
    assume(padded(end, alignment) != start)
    broken = moved(data, alignment, behind)
    report = lint(broken)
    codes = {finding.code for finding in report.findings}
    assert codes & {"G222", "G414", "G401"} or (behind == 0 and {"G407"} <= codes), model
    assert not computed(broken)
    if codes & {"G222", "G414"}:
        assert weights_of(broken) == weights_of(data)
        with pytest.warns(ReadOnWarning, match="tensors lie"):
            assert np.array_equal(_first(broken), _first(data))
        found = diff(open_file(data), File(BufferSource(broken)))
        assert found.displaced
        assert not found.same
        assert not found.tensors
    for keep in (_fixed, _sanitized):
        kept = keep(broken)
        assert kept is None or data[start:].rstrip(b"\0") in kept, (model, keep)
    repaired = _fixed(broken)
    if codes & {"G222", "G414"}:
        assert repaired is not None
        assert weights_of(repaired) == weights_of(data)
        assert not {"G222", "G414", "G401"} & {finding.code for finding in lint(repaired).findings}


@given(models, st.integers(1, 1 << 16))
@examples(40)
def test_cut_files_are_errors_and_run_nowhere(model: tuple[str, str, int], amount: int) -> None:
    data = made(model)
    start = places(data)[1]
    padding = len(data) - len(data[start:].rstrip(b"\0")) - start
    cut = data[: -min(padding + amount, (len(data) - start) // 2)]
    report = lint(cut)
    assert "G401" in {finding.code for finding in report.findings} | {"G402"} & {f.code for f in report.findings}
    assert not computed(cut)


@given(models, st.integers(1, 200), st.booleans())
@examples(40)
def test_rubbish_behind_a_sound_file_is_cut(model: tuple[str, str, int], size: int, zeros: bool) -> None:
    data = made(model)
    broken = data + (bytes(size) if zeros else bytes(i % 255 + 1 for i in range(size)))
    assert lint(broken).ok
    kept = _fixed(broken)
    assert kept is not None
    assert weights_of(kept) == weights_of(data)


def _fixed(data: bytes) -> bytes | None:
    out = io.BytesIO()
    fix(data, out, unsafe=True)
    return out.getvalue() or None


def _sanitized(data: bytes) -> bytes | None:
    out = io.BytesIO()
    try:
        sanitize(data, out, keep_unknown=True)
    except (FormatError, ValueError):
        return None
    return out.getvalue()


def _first(data: bytes) -> np.ndarray:
    file = open_file(data)
    return next(tensor for tensor in file.tensors.values() if len(tensor.ne) == 2).dequantize()
