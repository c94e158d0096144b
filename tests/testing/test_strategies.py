"""The strategies: files that they call valid pass all our checks, and the reference reader where it can read them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, Phase, find, given, settings

from i2s_spec.codec import native, reference
from i2s_spec.errors import MissingExtra
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.schema import container
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.limits import DEFAULT_ALIGNMENT
from i2s_spec.schema.types import NOT_WEIGHTS, ValueType
from i2s_spec.testing import strategies
from i2s_spec.testing.differential import scanner_against_schema
from i2s_spec.testing.mutations import begun, laid_out
from i2s_spec.testing.sample import key_value, tensor_info

#: False alarms found by the strategies; must be empty before a release.
DISPUTED: dict[str, str] = {}

few = settings(examples(40), suppress_health_check=[HealthCheck.too_slow])


@few
@given(strategies.gguf_files())
def test_files_are_sound(data: bytes) -> None:
    report = lint(data)
    assert {finding.code for finding in report.findings if finding.severity == "error"} <= DISPUTED.keys()
    assert scanner_against_schema(data) is None
    assert container.build(container.parse(data)) == data


@pytest.mark.parametrize("order", ["little", "big"])
def test_bytes_of_every_type_are_sound(order: ByteOrder) -> None:
    for kind in strategies._unambiguous()[1:]:
        file, ne = container.parse(begun(order)), (2 * kind.block, 3)
        file.key_values = [key_value(b"general.architecture", ValueType.STRING, b"made")]
        name = b"made.0.table" if kind.name in NOT_WEIGHTS else b"made.0.weight"
        file.tensor_infos = [tensor_info(name, ne, kind.number, 0)]
        report = lint(laid_out(file, [strategies._bytes_of(kind, ne, order)], DEFAULT_ALIGNMENT))
        assert [finding.code for finding in report.findings if finding.severity == "error"] == [], kind.name


@few
@given(strategies.i2s_tensors())
def test_tensors_hold_their_weights(tensor: strategies.I2sTensor) -> None:
    for codec in (native, reference):
        trits, scale = codec.unpack(tensor.data, tensor.shape, tensor.dialect, byte_order=tensor.byte_order)
        assert np.array_equal(trits, tensor.trits)
        assert scale == np.float32(tensor.scale)


@examples(8)
@given(strategies.models())
def test_models_are_sound(data: bytes) -> None:
    assert lint(data).ok


@few
@given(strategies.mutated())
def test_broken_files_get_a_verdict(data: bytes) -> None:
    scanner_against_schema(data)
    report = lint(data)
    assert not report.bugs
    assert all(0 <= finding.span.start <= finding.span.stop <= len(data) for finding in report.findings)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # the found examples are not shrunk
def test_every_dialect_and_type_occurs() -> None:
    """What is found is not made smaller, which would take most of the time."""
    searching = settings(max_examples=2000, database=None, phases=[Phase.generate])

    def holds(what: Any) -> None:
        find(strategies.gguf_files(), what, settings=searching)

    holds(lambda data: File(BufferSource(data)).alignment == 64)
    holds(lambda data: File(BufferSource(data)).byte_order == "big")
    holds(lambda data: 36 in {tensor.number for tensor in File(BufferSource(data)).tensors.rows})
    find(strategies.i2s_tensors(), lambda t: str(t.dialect) == "rows-1x4/zero-first/replicated-8", settings=searching)


@pytest.mark.thorough
def test_strategies_shrink_to_a_minimal_file() -> None:
    data = find(strategies.gguf_files(), lambda data: len(File(BufferSource(data)).tensors) > 0,
                settings=settings(max_examples=500, database=None))  # fmt: skip
    file = File(BufferSource(data))
    assert len(file.tensors) == len(file.metadata) == 1
    assert len(data) < 300


@examples(20)
@given(strategies.gguf_files(byte_order="little", types=["F32", "F16", "Q8_0", "I32"]))
def test_the_reference_reader_reads_them(data: bytes) -> None:
    reader_module = pytest.importorskip("gguf.gguf_reader")
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".gguf") as held:
        held.write(data)
        held.flush()
        try:
            reader = reader_module.GGUFReader(held.name)
        except ValueError as error:  # the reader cannot map an empty data section
            assert "mmap" in str(error) or "empty" in str(error)  # noqa: PT017
            return
        assert [t.name for t in reader.tensors] == [t.name for t in File(BufferSource(data)).tensors.rows]


def test_without_hypothesis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    true_import = builtins.__import__

    def no_hypothesis(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("hypothesis"):
            raise ImportError(name)
        return true_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_hypothesis)
    with pytest.raises(MissingExtra, match=r"\[testing\]"):
        strategies.gguf_files()


@examples(2)
@given(strategies.models("llama", byte_order="big"))
def test_models_take_either_order(data: bytes) -> None:
    assert File(BufferSource(data)).byte_order == "big"
