"""Rules on scales and codes of groups: output of quantizers gives no finding, and unusual values are counted exactly."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import share

import i2s_spec as i2s
from i2s_spec.codec.blocks_native import quantize
from i2s_spec.codec.observation import GROUPS_FROM, OCTAVES
from i2s_spec.linter.analysis.payload_stats import FAR, far_apart
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, block_layout
from i2s_spec.schema.types import padded
from i2s_spec.testing.sample import Draft, block_bytes, tensor_info

TYPES = [name for name in BLOCK_LAYOUTS if name != "Q2_0_G128"]


def file_of(kind: str, data: bytes, rows: int, cols: int) -> bytes:
    draft = Draft()
    file = draft.records()
    file.tensor_infos = [tensor_info(b"first.weight", (cols, rows), block_layout(kind).type.number, 0)]
    file.data = data.ljust(padded(len(data), 32), b"\0")
    return draft.built(file)


def found(data: bytes | Path, **options: Any) -> list[Any]:
    return [finding for finding in i2s.lint(data, **options).findings if finding.rule.code.startswith("B")]


def weights(name: str, rows: int = 512, cols: int = 1024) -> np.ndarray:
    drawn = np.random.default_rng(7)
    normal = drawn.normal(0, 0.02, (rows, cols))
    if name == "heavy tails":  # heavier tails than those of any trained matrix
        return 0.02 * drawn.standard_t(2, (rows, cols))
    if name == "outlier rows":
        normal[::37] *= 1000
    elif name == "outlier columns":
        normal[:, 5] *= 300
    elif name == "one outlier":
        normal[3, 3] = 40
    elif name == "rows next to nothing":
        normal[: rows // 5] *= 1e-4
    elif name == "rows of zeros":
        normal[: rows // 3] = 0
    elif name == "ternary":
        return 0.013 * drawn.integers(-1, 2, (rows, cols))
    elif name == "log-normal rows":
        normal *= np.exp(drawn.normal(0, 1.5, (rows, 1)))
    return normal


@pytest.mark.parametrize(("name", "kind"), share(product(
    ["normal", "heavy tails", "outlier rows", "outlier columns", "one outlier", "rows next to nothing", "rows of zeros",
     "ternary", "log-normal rows"], TYPES,
)))  # fmt: skip
def test_outputs_of_quantizers_have_no_findings(kind: str, name: str) -> None:
    made = weights(name).astype(np.float32)
    assert found(file_of(kind, quantize(made, kind), *made.shape)) == []


@pytest.mark.parametrize("kind", TYPES)
def test_a_flipped_bit_of_an_exponent_is_found(kind: str) -> None:
    """The highest bit of the exponent of one scale: 65,536 times as much, or an infinity."""
    layout = block_layout(kind)
    rows, cols = 256, 512
    data = bytearray(block_bytes(b"first.weight", (cols, rows), kind))
    front = layout.type.row_bytes
    unit = front + cols // layout.block * layout.nbytes if front else layout.nbytes
    at = 90 * unit + layout.scale.offset + layout.scale.nbytes - 1
    assert found(file_of(kind, bytes(data), rows, cols)) == []
    data[at] ^= 0x40
    (finding,) = found(file_of(kind, bytes(data), rows, cols))
    assert finding.rule.code == "B204"
    assert finding.details["group"] == 90
    assert finding.got == 1
    start = finding.span.start - i2s.open(file_of(kind, bytes(data), rows, cols)).data_start
    assert start <= at < start + finding.span.stop - finding.span.start


def test_scales_in_the_other_byte_order_are_one_finding() -> None:
    """Such scales are negative, infinite and far apart: the most severe finding is reported."""
    data = np.frombuffer(block_bytes(b"first.weight", (512, 256), "TQ2_0"), dtype=np.uint8).reshape(-1, 66).copy()
    data[:, 64:] = data[:, :63:-1]
    findings = found(file_of("TQ2_0", data.tobytes(), 256, 512))
    assert len(findings) == 1
    assert findings[0].rule.code in {"B201", "B202", "B204"}


def test_counts_and_shares_are_exact() -> None:
    kind, rows, cols = "Q2_0", 300, 640
    data = np.frombuffer(block_bytes(b"first.weight", (cols, rows), kind), dtype=np.uint8).reshape(-1, 18).copy()
    data[100:130, 2:18] = 0xFF
    data[7::100, :2] = [0, 0xBC]
    two, one = found(file_of(kind, data.tobytes(), rows, cols))  # in file order
    assert (one.rule.code, one.got, one.details["first"]) == ("B102", 30 * 64, 100 * 18 + 2)
    assert str(one.details["share"]) == "1 %"
    assert (two.rule.code, two.got, two.details["group"]) == ("B202", 30, 7)
    assert str(two.details["share"]) == "1 %"
    assert two.span.stop - two.span.start == 18


def test_one_weight_is_named_in_the_singular() -> None:
    kind, rows, cols = "TQ2_0", 2, 256
    data = bytearray(block_bytes(b"first.weight", (cols, rows), kind))
    data[3] = 0b01010111  # the first of its four codes is 3
    assert " has 1 weight of code 3, " in found(file_of(kind, bytes(data), rows, cols))[0].message
    data[3] = 0b01011111
    assert " has 2 weights of code 3, " in found(file_of(kind, bytes(data), rows, cols))[0].message


def test_a_sample_looks_at_groups_too() -> None:
    """A fault in the first window of a tensor of which a sample is taken; and a sound one stays silent."""
    rows, cols = 4096, 2048
    data = bytearray(block_bytes(b"first.weight", (cols, rows), "TQ1_0"))
    assert found(file_of("TQ1_0", bytes(data), rows, cols), payload="sample") == []
    data[54 * 3 + 52 : 54 * 3 + 54] = b"\0\x7e"
    (finding,) = found(file_of("TQ1_0", bytes(data), rows, cols), payload="sample")
    assert (finding.rule.code, finding.details["group"]) == ("B201", 3)


def test_any_way_of_reading_finds_the_same(tmp_path: Path) -> None:
    rows, cols = 2048, 5120
    data = np.frombuffer(block_bytes(b"first.weight", (cols, rows), "TQ1_0"), dtype=np.uint8).reshape(-1, 54).copy()
    data[[11, 30_001, 40_959], 52:] = 0
    data[35_000, 7] = 237
    raw = file_of("TQ1_0", data.tobytes(), rows, cols)
    one = [(each.rule.code, each.message, each.span) for each in found(raw)]
    assert [code for code, _, _ in one] == ["B203", "B103"]  # in file order
    assert [(each.rule.code, each.message, each.span) for each in found(raw, threads=2)] == one
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    assert [(each.rule.code, each.message, each.span) for each in found(path, threads=2)] == one


def test_scales_in_distant_octaves_are_counted() -> None:
    def octaves(**counts: int) -> list[int]:
        made = [0] * OCTAVES
        for name, count in counts.items():
            made[int(name[1:])] = count
        return made

    assert far_apart(octaves(o9=GROUPS_FROM - 2, o22=1)) == 0  # too few groups
    assert far_apart(octaves(o9=GROUPS_FROM, o21=1)) == 0  # twelve octaves may be a factor below 4,096
    assert far_apart(octaves(o9=GROUPS_FROM, o22=1)) == 1
    assert far_apart(octaves(o9=1000, o22=3, o30=2)) == 5
    assert far_apart(octaves(o0=700, o9=1000)) == 0
    assert far_apart(octaves(o0=900, o14=1000)) == 1000  # measured from the quartiles
    assert far_apart(octaves(o0=900, o12=1000)) == 0
    assert far_apart([]) == 0
    assert FAR == 12
