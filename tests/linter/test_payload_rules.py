"""Rules on payloads and scales: what they must find, what they must not report, and that one failure has one rule."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from malformed_cases import CASES

from i2s_spec.codec import reference
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, FileSource, source_of
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis import payload_stats
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import OTHER_FORMATS, Finding, Rule, Severity, WeightUse
from i2s_spec.linter.rules import REGISTRY, all_rules
from i2s_spec.testing.malformed.payload import SIZE, TernaryTensor, matrix, model, scaled, trits
from i2s_spec.testing.sample import Draft

#: The rules that need the survey, and G411, which is better with it.
RULES = [made for made in all_rules() if made.payload and made.code[0] in "IG"] + [REGISTRY["G411"]]


def found(data: bytes | Path, mode: str = "full", threads: int = 1) -> list[Finding]:
    """What the rules on payloads say about a file."""
    file = File(source_of(data))
    with file:
        subject = LintContext(file, None, Reading(mode, threads))  # type: ignore[arg-type]
        return [finding for made in RULES for finding in made.findings(subject)]


def payload_codes(data: bytes | Path, mode: str = "full") -> set[str]:
    return {finding.code for finding in found(data, mode)}


def test_rules_on_payloads_are_silent_without_a_survey() -> None:
    bad = model(matrix(b"\xff" * SIZE, tail=scaled(float("nan"))))
    assert payload_codes(bad, "none") == set()
    assert payload_codes(bad) == {"I201", "I302"}


# --- no false alarms ---


def reference_files(shared: Path) -> list[Path]:
    return [
        path
        for folder in (shared / "vectors" / "gguf", shared / "real")
        for path in sorted(folder.glob("*.gguf"))
        if "CORRUPT" not in path.name
    ]


def test_files_of_reference_tools_have_notes_at_most(shared: Path) -> None:
    paths = reference_files(shared)
    assert len(paths) >= 12
    for path in paths:
        for mode in ("full", "sample"):
            assert all(finding.severity is Severity.NOTE for finding in found(path, mode)), path


def test_released_quantizer_vectors_are_left_alone(shared: Path) -> None:
    """Payloads that the released quantizer made of all sorts of input; only odd input gives warnings, and no error."""
    for path in sorted((shared / "vectors" / "quant" / "out_blk128").glob("*.bin")):
        data = path.read_bytes()
        count = 4 * (len(data) - 32)
        if count % 128 or count == 0:
            continue
        file = model(TernaryTensor(b"t", (128, count // 128), data[:-32], data[-32:]))
        errors = {f.code for f in found(file) if f.severity is Severity.ERROR}
        scale = struct.unpack("<f", data[-32:-28])[0]
        assert errors <= ({"I302", "I303", "I304", "I306"} if not 1e-12 <= scale < np.inf else set()), path.name


@pytest.mark.parametrize("zeros", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("cols", [128, 512, 2560])
def test_random_models_are_left_alone(zeros: float, cols: int) -> None:
    """Small or large, whatever the seed: shares of a few codes are not judged."""
    drawn = np.random.default_rng(int(100 * zeros) + cols)
    for rows in (1, 4, 32, 256):
        tensors = []
        for i in range(7):
            signs = drawn.choice([-1, 0, 1], (rows, cols), p=[(1 - zeros) / 2, zeros, (1 - zeros) / 2]).astype(np.int8)
            data = reference.pack(signs, float(drawn.uniform(0.01, 0.04)))
            tensors.append(TernaryTensor(b"blk.%d.attn_q.weight" % i, (cols, rows), data[:-32], data[-32:]))
        assert payload_codes(model(*tensors)) == set()


def test_pruned_rows_are_left_alone() -> None:
    """A few outputs without weights are shorter than a region."""
    signs = np.random.default_rng(1).integers(-1, 2, (64, 4096)).astype(np.int8)
    signs[10:13] = 0
    data = reference.pack(signs, 0.5)
    assert payload_codes(model(TernaryTensor(b"t", (4096, 64), data[:-32], data[-32:]))) == set()


def test_zero_matrix_with_zero_scale_is_not_an_error() -> None:
    assert payload_codes(model(matrix(b"\x55" * SIZE, tail=bytes(32)))) == {"I205"}


# --- thresholds ---


@pytest.mark.parametrize(("length", "code"), [(payload_stats.END - 1, None), (payload_stats.END, "I204")])
def test_zeros_at_the_end(length: int, code: str | None) -> None:
    payload = trits(8 * SIZE)[:-length]
    payload = payload[:-1] + b"\x15" + bytes(length)
    assert payload_codes(model(matrix(payload))) == ({code} if code else set())


@pytest.mark.parametrize("value", [0, 0x55, 0xAA, 0x12])
@pytest.mark.parametrize("at", [1, 4095, 4096, 20_000])
def test_the_least_length_of_a_reported_region(value: int, at: int) -> None:
    for length in (payload_stats.REGION - 1, payload_stats.REGION):
        payload = bytearray(trits(16 * SIZE))
        payload[at : at + length] = bytes([value]) * length
        payload[at - 1] = payload[at + length] = 0x46
        results = [f for f in found(model(matrix(bytes(payload)))) if f.code != "I201"]
        assert [f.code for f in results] == ([] if length < payload_stats.REGION else ["I206" if value else "G411"])
        for finding in results:
            start = len(model(matrix(bytes(payload)))) - 32 - len(payload)
            assert finding.span[:2] == (start + at, start + at + length)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((50, 0, 50), {"I209"}),
        ((495, 10, 495), {"I209"}),
        ((40, 20, 40), {"I212"}),
        ((37, 26, 37), set()),
        ((13, 74, 13), set()),
        ((10, 80, 10), {"I212"}),
        ((2, 96, 2), {"I210"}),
        ((40, 40, 28), set()),
        ((40, 40, 20), {"I211"}),
    ],
)
def test_shares(shares: tuple[int, ...], expected: set[str]) -> None:
    assert payload_codes(model(matrix(trits(8 * SIZE, shares=shares)))) == expected
    few = model(matrix(trits(payload_stats.SHARES_FROM // 4 - 128, shares=shares)))
    assert payload_codes(few) == set()


def test_statistics_are_one_finding_for_a_file() -> None:
    """210 tensors of a kind are one finding with a count, not 210."""
    bad = model(*(matrix(trits(SIZE, i, (1, 0, 1)), b"t%d" % i) for i in range(5)))
    [finding] = [f for f in found(bad) if f.code == "I209"]
    assert finding.details["tensors"] == 5


@pytest.mark.parametrize(
    ("scale", "code"),
    [
        (1e-4, None),
        (9e-5, "I307"),
        (100.0, None),
        (101.0, "I307"),
        (1.1e-12, "I307"),
        (9e-13, "I306"),
        (1e-45, "I306"),
        (-0.0, "I304"),
        (-1e30, "I305"),
        (3e38, "I307"),
    ],
)
def test_scale(scale: float, code: str | None) -> None:
    assert payload_codes(model(matrix(trits(), tail=scaled(scale)))) == ({code} if code else set())


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF])
def test_every_nan(bits: int) -> None:
    assert payload_codes(model(matrix(trits(), tail=struct.pack("<I", bits) + bytes(28)))) == {"I302"}


def test_scale_in_the_order_of_the_file() -> None:
    draft = Draft("big")
    start, _ = draft.span("data")
    broken = bytearray(draft.data)
    broken[start + 32 + 128 : start + 32 + 132] = struct.pack(">f", float("inf"))
    assert payload_codes(bytes(broken)) == {"I303"}


def test_swapped_scales_are_one_failure() -> None:
    """Where the scales are in the other order another rule says so, and these keep still."""
    swapped = model(
        *(matrix(trits(SIZE, i), b"t%d" % i, tail=struct.pack(">f", 0.02 + i / 1000) + bytes(28)) for i in range(5))
    )
    assert payload_codes(swapped) == {"I301"} or payload_codes(swapped) <= {"I310"}
    assert not {f.code for f in found(swapped)} & {"I305", "I306", "I307", "I308"}


# --- siblings ---


def siblings(*scales: float) -> bytes:
    return model(*(
        matrix(trits(SIZE, i), b"blk.%d.ffn_up.weight" % i, tail=scaled(scale)) for i, scale in enumerate(scales)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("scales", "expected"),
    [
        ((0.02, 0.021, 0.03, 0.025, 1 / 0.022), {"I308"}),
        ((0.02, 0.021, 0.03, 0.025, 1 / 0.00022), {"I307"}),  # large, but no reciprocal
        ((0.02, 0.021, 0.03, 0.025, 0.2), set()),
        ((0.9, 1.1, 1.2, 1.0, 0.8), set()),  # near 1, a reciprocal is no evidence
        ((0.02, 45.0), set()),  # two tensors are not enough to compare
        ((50.0, 42.0, 47.0, 40.0, 0.021), {"I308"}),
        ((1e3, 1.1e3, 1.2e3, 0.9e3, 1e-3), {"I307", "I308"}),
    ],
)
def test_reciprocals(scales: tuple[float, ...], expected: set[str]) -> None:
    results = found(siblings(*scales))
    assert {f.code for f in results} == expected
    assert all(f.span.path == "data[4].tail.scale" for f in results if f.code == "I308")


def test_identical_scales_need_four_tensors() -> None:
    assert payload_codes(siblings(0.5, 0.5, 0.5)) == set()
    assert payload_codes(siblings(0.5, 0.5, 0.5, 0.5)) == {"I313"}
    assert payload_codes(siblings(0.5, 0.5, 0.5, 0.501)) == set()


# --- duplicates ---


def test_copies() -> None:
    one, other = trits(SIZE, 1), trits(SIZE, 2)
    data = model(*(matrix(payload, b"t%d" % i, tail=scaled(0.1 + i // 3))
                   for i, payload in enumerate((one, other, one, other, one))))  # fmt: skip
    results = [(f.code, f.details["other"], f.details["name"]) for f in found(data)]
    assert sorted(results) == [("I208", b"t0", b"t2"), ("I316", b"t0", b"t4"), ("I316", b"t1", b"t3")]


def test_equal_fingerprints_are_compared() -> None:
    """Two payloads that were made to have one fingerprint: a bit was moved within a lane of a block."""
    payload = bytearray(trits(SIZE))
    twin = bytearray(payload)
    payload[0], payload[32], twin[0], twin[32] = 0x01, 0x00, 0x00, 0x01
    data = model(matrix(bytes(payload), b"one"), matrix(bytes(twin), b"two"))
    with File(source_of(data)) as file:
        survey = LintContext(file, None, Reading()).survey
        assert survey is not None
        assert survey[0].digest == survey[1].digest
    assert payload_codes(data) == set()


def test_rows() -> None:
    row = trits(128)
    assert payload_codes(model(matrix(row * 64))) == {"I207"}
    assert payload_codes(model(matrix(row * 64, cols=1024))) == {"I207"}
    assert payload_codes(model(matrix(row * 63 + trits(128, 2)))) == set()
    assert payload_codes(model(matrix(row * 3))) == set()


# --- unused codes and damage ---


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("form", "name"), [("e", "F16"), ("f", "F32")])
def test_floats(order: str, form: str, name: str) -> None:
    values = np.random.default_rng(7).normal(0, 0.03, SIZE // struct.calcsize(form)).astype(order + form)
    data = model(matrix(values.tobytes()))
    results = found(data)
    if order == "<":
        assert [(f.code, str(f.got)) for f in results] == [("I203", name)]
    else:
        assert {f.code for f in results} == {"I201"}  # in the other byte order they are not floats


def test_noise_is_not_taken_for_floats() -> None:
    noise = np.random.default_rng(9).integers(0, 256, SIZE, dtype=np.uint8).tobytes()
    assert payload_codes(model(matrix(noise))) == {"I201"}


def test_sample_says_what_it_is_about() -> None:
    payload = bytearray(trits(128) * (1 << 15))
    for at in (100, len(payload) // 2 + 100_000):
        payload[at] = 0xFF
    data = model(matrix(bytes(payload), cols=128))
    [whole] = [f for f in found(data) if f.code == "I201"]
    [part] = [f for f in found(data, "sample") if f.code == "I201"]
    assert (whole.got, part.got) == (8, 4)
    assert "in the part that was read" in part.message
    assert "in the part" not in whole.message
    assert whole.span == part.span
    assert whole.span.stop - whole.span.start == 1


# --- holes and files that change ---


def test_a_hole_is_reported_by_one_rule(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    data = model(matrix(trits(1 << 20)), matrix(trits(1 << 20, 2), b"other"))
    start = len(data) - 2 * ((1 << 20) + 32)
    begin, end = (start + 100_000) // 65_536 * 65_536, (start + 500_000) // 65_536 * 65_536
    with path.open("wb") as out:
        out.write(data[:begin])
        out.seek(end)
        out.write(data[end:])
    with File(FileSource(path)) as file:
        holes = payload_stats.holes(LintContext(file))
    if not holes:
        pytest.skip("this file system has no holes")
    assert payload_codes(path) == set()  # only G412 concerns the hole
    filled = tmp_path / "filled.gguf"
    filled.write_bytes(path.read_bytes())
    assert payload_codes(filled) == {"G411"}


def test_misplaced_tensors_are_left_to_the_rules_on_extents(shared: Path) -> None:
    assert payload_codes(shared / "vectors" / "gguf" / "bitnet.i2_s.2threads-CORRUPT.gguf") == set()


def test_all_at_once_and_one_by_one_agree(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(
        model(*(matrix(trits(SIZE, i, (1, i % 3, 1)), b"t%d" % i, tail=scaled(10.0**-i)) for i in range(9)))
    )
    with File(FileSource(path)) as file:
        subject = LintContext(file, None, Reading("full", 2))
        subject.begin()
        assert subject.survey is not None
        subject.end()
    assert [f[:4] for f in found(path)] == [f[:4] for f in found(path.read_bytes())]
    assert os.path.getsize(path)


# --- order of the rules ---


ON_HEADERS = [one for one in all_rules() if one.check and one.weights is WeightUse.NONE and one.family != OTHER_FORMATS]


@pytest.mark.parametrize("made", ON_HEADERS, ids=lambda one: one.code)
def test_rules_on_the_header_do_not_wait_for_the_payloads(made: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run while threads read the payloads; a rule that uses the survey declares that, and runs after them."""

    def asked(_: LintContext) -> None:
        raise AssertionError(f"{made.code} does not declare that it uses weights, and asks for the survey")

    monkeypatch.setattr(LintContext, "survey", property(asked))
    own = [case.data for case in CASES.values() if case.code == made.code and not case.large]
    for data in (model(matrix(trits())), Draft().data, Draft("big").data, *own[:1]):
        file = File(BufferSource(data))
        subject = LintContext(file, None, Reading("full"))
        list(made.findings(subject))
