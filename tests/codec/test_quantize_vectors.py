"""The codec against bytes written by the reference implementations; tests/oracle/README.md lists them.

Every test runs on the committed part of the vectors, and on the whole set if it is available. Two groups of `pyconv/`
are documented here but not imitated. `ms_codes` and `ms_scale_tile8` are from `transform_to_i2` of convert-ms: the scale
is the first weight that is not 0, with its sign, the codes are x/scale + 2 for T-MAC kernels, and the scale is repeated
eight times. This is not I2_S, and its own writer crashes on it. `pre_quant_weight_fp16` is the fake quantization of
preprocess-huggingface: the method of `weight_quant` with other arithmetic. Its result goes through `quantize_i2_s` like
any other weights.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec.native import read_as
from i2s_spec.codec.quantize import NotTernaryWarning, quantize, ternarise, weight_quant
from i2s_spec.codec.shape import UndefinedElementsWarning, dropped_elements
from i2s_spec.schema.dialect import LAYOUTS

ORACLE = Path(__file__).resolve().parent.parent / "oracle"

#: Folders with the output of the three builds of the quantizer, and their layouts.
BUILDS = [("blk128", "interleave-128"), ("blk64", "interleave-64"), ("row4", "rows-1x4")]

#: Unusual inputs give warnings here; other tests check when.
pytestmark = [
    pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.NotTernaryWarning"),
    pytest.mark.filterwarnings("ignore::i2s_spec.codec.shape.UndefinedElementsWarning"),
]


def cases(folder: Path, pattern: str, least: int) -> Iterator[tuple[str, Path]]:
    """Names and files of the cases of a kind: what precedes the first `.hf_i2s` and the like, and at least so many."""
    files = sorted(folder.glob(pattern))
    assert len(files) >= least
    end = pattern.replace("*", "", 1)
    return ((file.name.removesuffix(end), file) for file in files)


def test_committed_files_are_what_their_manifest_says() -> None:
    listed = json.loads((ORACLE / "manifest.json").read_text())["files"]
    there = {file.relative_to(ORACLE).as_posix() for file in ORACLE.rglob("*") if file.is_file()}
    assert there == set(listed) | {"manifest.json", "README.md"}
    for path, sha256 in listed.items():
        assert hashlib.sha256((ORACLE / path).read_bytes()).hexdigest() == sha256, path


def test_shared_files_are_what_their_manifest_says(shared: Path) -> None:
    """Every path that the manifest of the whole set names exists and has the content that it says."""
    folder = shared / "vectors"
    named: set[str] = set()
    hashed: dict[str, tuple[int, str]] = {}

    def walk(node: Any, key: str = "") -> None:
        if isinstance(node, list):
            for item in node:
                walk(item)
        elif isinstance(node, dict):
            if "file" in node:
                hashed[node["file"]] = node["bytes"], node["sha256"]
            for name, value in node.items():
                walk(value, name)
        elif key in ("input", "weights", "activations", "model") and isinstance(node, str):
            named.add(node)

    walk(json.loads((folder / "manifest.json").read_text())["cases"])
    assert len(hashed) > 1000
    assert len(named) > 50
    assert not [path for path in named if not (folder / path).is_file()]
    for path, expected in hashed.items():
        data = (folder / path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == expected, path
    for path in json.loads((ORACLE / "manifest.json").read_text())["files"]:
        assert (folder / path).read_bytes() == (ORACLE / path).read_bytes(), path


@pytest.mark.parametrize(("build", "dialect"), BUILDS)
def test_quantize_i2_s(vectors: Path, codec: Any, build: str, dialect: str) -> None:
    """Remainders, NaN, denormals, the threshold and all zeros are among the cases; the last 28 bytes are uninitialized."""
    for case, file in cases(vectors / f"quant/out_{build}", "*.bin", 34):
        weights, theirs = np.load(vectors / f"quant/in/{case}.npy"), file.read_bytes()
        written = weights.size // 4 + 4
        assert theirs[written:] == b"\xaa" * 28, case
        assert quantize(weights, "absmax", None, dialect, strict=False) == theirs[:written] + bytes(28), case
        trits, scale = ternarise(weights)
        assert codec.pack(trits, scale, dialect, strict=False) == theirs[:written] + bytes(28), case

        gone = dropped_elements(LAYOUTS[dialect], *weights.shape)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got, read = codec.unpack(theirs, weights.shape, dialect, strict=False)
        assert [warning.category for warning in caught] == ([UndefinedElementsWarning] if gone else []), case
        if gone:
            trits.reshape(-1)[gone.start :] = 0
        assert (got == trits).all(), case
        assert read.tobytes() == scale.tobytes(), case


def test_elements_that_quantize_i2_s_drops(shared: Path) -> None:
    """The number of lost elements is what the reference run measured."""
    layouts = {f"quant/{build}": LAYOUTS[name] for build, name in BUILDS}
    seen = 0
    for case in json.loads((shared / "vectors/manifest.json").read_text())["cases"]:
        if layout := layouts.get(case["id"].rpartition("/")[0]):
            gone = dropped_elements(layout, *case["shape"])
            assert (gone.stop - gone.start if gone else 0) == case["elements_lost_at_remainder"], case["id"]
            assert case["unwritten_byte_ranges"] == [[case["payload_bytes"] + 4, case["returned_size"]]], case["id"]
            seen += 1
    assert seen == 114


@pytest.mark.parametrize(("build", "dialect"), BUILDS)
def test_quantize_i2_s_for_the_kernels(vectors: Path, codec: Any, build: str, dialect: str) -> None:
    for case, file in cases(vectors / f"dot/w_{build}", "*.bin", 4):
        trits, scale = ternarise(np.load(vectors / f"dot/in/{case}.npy"))
        assert codec.pack(trits, scale, dialect, strict=False)[:-28] == file.read_bytes(), case


def weights_of(vectors: Path, case: str, build: str = "blk128") -> tuple[bytes, tuple[int, int]]:
    """The bytes that a case of `dequant/` was read from, and the shape."""
    folder, out = ("quant", "out") if (vectors / f"quant/in/{case}.npy").exists() else ("dot", "w")
    weights = np.load(vectors / f"{folder}/in/{case}.npy")
    data = (vectors / f"{folder}/{out}_{build}/{case}.bin").read_bytes()
    return data.ljust(weights.size // 4 + 32, b"\xaa"), weights.shape


def test_dequantize_row_i2_s(vectors: Path, codec: Any) -> None:
    seen = 0
    for case, file in cases(vectors / "dequant", "*.npy", 18):
        if "." not in case:
            data, shape = weights_of(vectors, case)
            weights = codec.dequantize(data, shape)
            assert weights.dtype == np.float32
            assert weights.shape == shape
            assert weights.tobytes() == np.load(file).tobytes(), case
            codes, taken = read_as("dequantize", data, shape)
            assert taken.all()
            assert ((codes == 2).astype(int) - (codes == 0) == np.sign(weights)).all(), case
            seen += 1
    assert seen >= 12


def test_get_rows_where_rows_begin_inside_blocks(vectors: Path, codec: Any) -> None:
    """What per-row readers make of such tensors is predicted, down to the bytes that they take from the tail."""
    for case, file in cases(vectors / "dequant", "*.get_rows.npy", 4):
        data, shape = weights_of(vectors, case)
        codes, taken = read_as("get-rows", data, shape)
        assert taken.all()
        scale = codec.unpack(data, shape)[1]
        theirs = np.load(file)
        assert (np.array([-1, 0, 1, 0], np.float32)[codes] * scale == theirs).all(), case
        assert (theirs != codec.dequantize(data, shape)).any(), case


def test_blocks_of_64_read_as_blocks_of_128(vectors: Path, codec: Any) -> None:
    for case, file in cases(vectors / "dequant", "*.arm64layout_WRONG.npy", 2):
        data, shape = weights_of(vectors, case, "blk64")
        assert codec.dequantize(data, shape, unused_code="zero").tobytes() == np.load(file).tobytes(), case
        right, _ = weights_of(vectors, case)
        written = len(right) - 28
        assert codec.transcode(data, shape, "interleave-64")[:written] == right[:written], case


def test_code_3(vectors: Path, codec: Any) -> None:
    """Two programs, two answers. A tensor that ends inside a block takes its codes from bytes that are there, here."""
    data, shape = (vectors / "code3/w_allcodes_4x256.bin").read_bytes(), (4, 256)
    by_hand = [byte >> shift & 3 for byte in data[:256] for shift in (6, 4, 2, 0)]
    with pytest.raises(
        ValueError, match=f"it occurs {by_hand.count(3)} times, first at element 4 \\(row 0, column 4\\)"
    ):
        codec.dequantize(data, shape)
    assert codec.unpack(data, shape, unused_code="zero")[1] == 0.375
    zero, two = (codec.dequantize(data, shape, unused_code=policy).reshape(-1) for policy in ("zero", "plus-two"))
    for n in (1, 33, 100, 130, 1024):
        assert zero[:n].tobytes() == np.load(vectors / f"code3/official_dequant_n{n}.npy").tobytes()
    assert two.tobytes() == np.load(vectors / "code3/ik_dequant_n1024.npy").tobytes()
    assert codec.histogram(data, shape) == tuple(by_hand.count(code) for code in range(4))
    found = codec.scan(data, shape)
    assert (found.count, found.first) == (by_hand.count(3), int(np.flatnonzero(two == 0.75)[0]))


@pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.AlreadyTernaryWarning")
@pytest.mark.parametrize(
    ("name", "rule", "scale"),
    [
        ("hf_i2s", "hf-first", None),
        ("emb_i2s", "embedding-mean", None),
        ("hf_i2s_sign_override0.61", "given", 0.61),
        ("hf_weight_quant_then_i2s", "hf-first", None),
    ],
)
def test_python_converters(vectors: Path, codec: Any, name: str, rule: str, scale: float | None) -> None:
    """Every byte equals theirs, zeros of the tail included. If they raise an error, so does a strict rule."""
    seen = refused = 0
    for case, file in cases(vectors / "quant/in", "*.npy", 34):
        weights = np.load(file)
        if name.endswith("then_i2s"):
            weights = np.load(vectors / f"pyconv/{case}.hf_weight_quant.npy")
        elif "sign" in name:
            weights = np.sign(weights)
        theirs = vectors / f"pyconv/{case}.{name}.npy"
        if weights.size % 128:
            assert not theirs.exists()
            with pytest.raises(ValueError, match="blocks of 128"):
                quantize(weights, rule, scale)
            refused += 1
            continue
        expected = np.load(theirs).tobytes()
        assert quantize(weights, rule, scale, strict=False) == expected, case
        assert codec.pack(*ternarise(weights, rule, scale), strict=False) == expected, case
        seen += 1
    assert (seen, refused) >= (22, 12)


def test_weight_quant(vectors: Path) -> None:
    """Bit for bit: the mean is added up in PyTorch's order, where NumPy's is up to 3 units in the last place away."""
    for case, file in cases(vectors / "pyconv", "*.hf_weight_quant.npy", 34):
        weights, theirs = np.load(vectors / f"quant/in/{case}.npy"), np.load(file)
        ours = weight_quant(weights)
        assert ours.dtype == np.float32
        assert (np.isnan(ours) == np.isnan(theirs)).all(), case
        assert ours[~np.isnan(ours)].tobytes() == theirs[~np.isnan(theirs)].tobytes(), case


def test_transform_to_i2(shared: Path) -> None:
    """Of weights with codes 1 to 3: the codes of `offset-2`, and the scale eight times. Others give bytes of no trit."""
    vectors = shared / "vectors"
    seen = 0
    for case, file in cases(vectors / "pyconv", "*.ms_codes.npy", 34):
        weights, codes = np.load(vectors / f"quant/in/{case}.npy"), np.load(file)
        tile = np.load(vectors / f"pyconv/{case}.ms_scale_tile8.npy")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotTernaryWarning)
            trits, scale = ternarise(weights, "convert-ms")
        assert tile.astype(np.float32).tobytes() == scale.tobytes() * 8, case
        known = (codes >= 1) & (codes <= 3)
        assert (trits[known] + 2 == codes[known]).all(), case
        seen += int(known.all())
    assert seen >= 20


def test_preprocessing_of_checkpoints(shared: Path) -> None:
    """`quant_weight_fp16` gives the bits that `weight_quant` gives."""
    vectors = shared / "vectors"
    for case, file in cases(vectors / "pyconv", "*.pre_quant_weight_fp16.npy", 34):
        ours, theirs = weight_quant(np.load(vectors / f"quant/in/{case}.npy")), np.load(file)
        assert np.array_equal(np.isnan(ours), np.isnan(theirs)), case
        assert ours[~np.isnan(ours)].tobytes() == theirs[~np.isnan(theirs)].tobytes(), case


def test_packing_of_0xbitnet(vectors: Path, codec: Any) -> None:
    """Whole blocks are the same; a partial last block is filled with zeros, while the quantizer stops before it."""
    for case, file in cases(vectors / "ref_0xbitnet", "*.packI2S_flat.npy", 9):
        trits = np.sign(np.load(vectors / f"quant/in/{case}.npy")).astype(np.int8).reshape(-1)
        whole = np.zeros(-(-trits.size // 128) * 128, np.int8)
        whole[: trits.size] = trits
        assert codec.pack(whole, 1.0)[:-32] == np.load(file).astype("<u4").tobytes(), case
    for case, file in cases(vectors / "ref_0xbitnet", "*.packI2SMatrix.npy", 5):
        trits = np.sign(np.load(vectors / f"quant/in/{case}.npy")).astype(np.int8)
        assert codec.pack(trits, 1.0)[:-32] == np.load(file).astype("<u4").tobytes(), case
