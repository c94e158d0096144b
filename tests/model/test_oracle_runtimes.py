"""Logits and intermediate values of the reference runtimes: equal to the bit, or as close as each profile allows."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
SEQUENCES: list[dict[str, Any]] = json.loads((ORACLE / "sequences.json").read_text())

BITNET = "gguf/bitnet.i2_s.gguf"
#: Recorded logits, and their model files.
OFFICIAL = {
    "bitnet": BITNET,
    "bitnet25": "gguf/bitnet-25.i2_s.gguf",
    "b158": "gguf/bitnet-b1.58.i2_s.via_llama_quantize.gguf",
    "b158packed": "gguf/bitnet-b1.58.packed.i2_s.direct.gguf",
    "bitnet_f32": "gguf/bitnet.f32.gguf.gz",
}


@pytest.fixture(params=["committed", "shared"])
def folder(request: pytest.FixtureRequest) -> Path:
    if request.param == "committed":
        return ORACLE
    found: Path = request.getfixturevalue("shared") / "vectors"
    return found


@pytest.fixture
def vectors(shared: Path) -> Path:
    return shared / "vectors"


def loaded(path: Path, profile: Any, **settings: Any) -> Model:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return load_model(data, profile, threads=1, **settings)


def logits(model: Model, sequence: dict[str, Any]) -> np.ndarray:
    """Of all positions, in one batch or token by token, as the runtime was run."""
    if sequence["mode"] == "batch":
        found = model.forward(sequence["tokens"]).logits
        assert found is not None
        return found
    cache = model.new_cache()
    steps = [model.forward([token], cache=cache).logits for token in sequence["tokens"]]
    return np.concatenate([step for step in steps if step is not None])


def distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Relative L2."""
    wide = theirs.astype(np.float64)
    return float(np.linalg.norm(ours - wide) / np.linalg.norm(wide))


def distances(model: Model, path: Path, which: range | tuple[int, ...] = range(7)) -> list[float]:
    """0 where every bit is the same."""
    theirs = np.load(path)
    found = []
    for index in which:
        if f"s{index}" in theirs:
            ours, want = logits(model, SEQUENCES[index]), theirs[f"s{index}"]
            found.append(0.0 if ours.tobytes() == want.tobytes() else distance(ours, want))
    assert found
    return found


def test_official_runtime_committed() -> None:
    model = loaded(ORACLE / BITNET, "bitnetcpp-2025")
    assert distances(model, ORACLE / "logits/bitnet.npz") == [0.0] * 7


@pytest.mark.requirement("R9.2-1", "R9.2-2", "R9.2-3")
@pytest.mark.parametrize("name", OFFICIAL)
def test_official_runtime(vectors: Path, name: str) -> None:
    """Every bit of every sequence of every model, the F32 one too."""
    model = loaded(vectors / OFFICIAL[name], "bitnetcpp-2025")
    assert distances(model, vectors / f"logits/{name}.npz") == [0.0] * 7


#: SHA-256 of logits, float32 [T, V], from a build with llamafile: the fork at 406a5036 with AVX2, FMA and F16C, gcc 12.
#: The same build without llamafile reproduces `logits/bitnet.npz` exactly. By file and sequence; with one token both
#: builds agree.
LLAMAFILE = {
    ("bitnet", 0): "c3bb2b6a3ff077f3fd05c17ee5e8b797332d69bf39a6cb709ad922503a037780",
    ("bitnet", 2): "7df39c443401337539c23e4050ab040242dbf24f908e4e12e9cc111b06759e62",
    ("bitnet", 3): "2d7edd91af282ff5fdbdb7239e002acc8251bab9d543890e48e9cabdaaf2dfcf",
    ("bitnet", 4): "15c9ced8f5bd3f01fff58b1e1730dc0cb2a4c07df015d65e0df85e9ae7e1322f",
    ("bitnet", 5): "12385c1d7f3804de3252171f82e120f4a1cf93ca6c485b5be77ce618f2785cb6",
    ("bitnet", 6): "483fb4cb2089d07494e917f8f3baa02085e31395d9df1e6c2e9821c5e606bc71",
    ("bitnet_f32", 0): "17a639c3a67e440169360a335d82b1b620e990041dbbf62258231a8c8d995f68",
    ("bitnet_f32", 4): "7c0285283feefc0ef6246bd03294e04fc77620aad1653432d2388daa99cd75e1",
}


@pytest.mark.parametrize(("name", "index"), [key for key in LLAMAFILE if key[0] == "bitnet"])
def test_llamafile_committed(name: str, index: int) -> None:
    found = logits(loaded(ORACLE / BITNET, "bitnetcpp-2025-llamafile"), SEQUENCES[index])
    assert hashlib.sha256(found.tobytes()).hexdigest() == LLAMAFILE[name, index]


@pytest.mark.parametrize(("name", "index"), LLAMAFILE)
def test_llamafile(vectors: Path, name: str, index: int) -> None:
    """Equal in every bit, for a file of floats too; flipped codes put it 2 % from the build without llamafile."""
    found = logits(loaded(vectors / OFFICIAL[name], "bitnetcpp-2025-llamafile"), SEQUENCES[index])
    assert hashlib.sha256(found.tobytes()).hexdigest() == LLAMAFILE[name, index]
    without = np.load(vectors / f"logits/{name}.npz")[f"s{index}"]
    if len(found) > 1:
        assert 1e-4 < distance(found, without) < 0.03
    else:
        assert found.tobytes() == without.tobytes()


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_normative_profile_is_near_the_official_runtime(vectors: Path, name: str) -> None:
    """0.1 at most, by the flips that an F16 cache makes; without quantized activations 3e-4, by that cache itself."""
    found = distances(loaded(vectors / OFFICIAL[name], "bitnet-golden-1"), vectors / f"logits/{name}.npz")
    assert max(found) < (5e-4 if name == "bitnet_f32" else 0.3)


@pytest.mark.parametrize("name", ["bitnet", "b158packed"])
@pytest.mark.parametrize("index", [0, 3])
def test_intermediate_values(vectors: Path, name: str, index: int) -> None:
    """Every dumped node, bit for bit; but rotated heads, where the C library's cosf is not correctly rounded."""
    theirs = {
        key.partition("/")[2]: value
        for key, value in np.load(vectors / f"layers/{name}.npz").items()
        if key.startswith(f"s{index}/")
    }
    assert len(theirs) == 37
    result = loaded(vectors / OFFICIAL[name], "bitnetcpp-2025").forward(SEQUENCES[index]["tokens"], taps=theirs)
    assert set(result.taps) == set(theirs)
    for key, want in theirs.items():
        ours = result.taps[key]
        assert ours.shape == want.shape
        if key.endswith("#1"):
            assert (ours != want).mean() < 0.01
            assert distance(ours, want) < 2e-8
        else:
            assert ours.tobytes() == want.tobytes(), key


@pytest.mark.parametrize("name", ["bitnet", "b158packed"])
def test_the_normative_profile_replays_the_official_runtime(vectors: Path, name: str) -> None:
    """Each operation from the runtime's own inputs: integers exactly, floats within the tolerances of op-replay."""
    theirs = {
        key.partition("/")[2]: value
        for key, value in np.load(vectors / f"layers/{name}.npz").items()
        if key.startswith("s0/")
    }
    model = loaded(vectors / OFFICIAL[name], "bitnet-golden-1")
    seen = set()
    for node in model.graph:
        if node.name not in theirs or any(source not in theirs for source in node.inputs):
            continue
        ours, want = model.evaluate(node, theirs)[node.name], theirs[node.name]
        ours = ours.reshape(want.shape)
        seen.add(node.op)
        most = {"add": 0.0, "linear": 0.0, "rope": 4.0, "head": None}[node.op]
        if most is None:
            assert distance(ours, want) < 1e-3  # the runtime rounds the input of the head to F16
        else:
            unit = np.spacing(np.abs(want).max() if node.op == "rope" else np.abs(want))
            assert (np.abs(ours - want) <= most * unit).all(), node.name
    assert seen == {"add", "linear", "rope", "head"}


def test_ik_llama(folder: Path) -> None:
    """Its F32 file without quantized activations: keys and values in F16, all else F32; section 9.9 states the bound."""
    found = distances(loaded(folder / BITNET, "ik-f32"), folder / "logits_ik/bitnet.F32.npz")
    assert len(found) == 5
    assert 3e-7 < max(found) < 7e-7


def test_old_arm_build(folder: Path) -> None:
    found = distances(loaded(folder / BITNET, "bitnetcpp-2025"), folder / "logits_arm/arm-old.bitnet.npz")
    assert max(found) < 1e-7


def test_new_arm_build_reads_its_own_file(vectors: Path) -> None:
    """5, 4 and 6 tokens are garbage there (s3, s5, s6): its matrix product calls a kernel that it must not."""
    model = loaded(vectors / "gguf/bitnet.i2_s.arm64block.gguf", "bitnetcpp-2025", dialect="interleave-64")
    assert max(distances(model, vectors / "logits_arm/arm-new.bitnet.npz", (0, 1, 2, 4))) < 1e-7


def test_new_arm_build_reads_the_official_file(folder: Path) -> None:
    """Wrong, and wrong just so: the file taken for interleave-64."""
    theirs = folder / "logits_expected_wrong/arm-new.bitnet.x86file.npz"
    wrong = loaded(folder / BITNET, "bitnetcpp-2025", dialect="interleave-64")
    assert max(distances(wrong, theirs, (0, 1, 2, 4))) < 1e-7
    right = loaded(folder / BITNET, "bitnetcpp-2025")
    assert min(distances(right, theirs, (0, 1, 2, 4))) > 0.3


def test_build_without_act_parallel_reads_its_own_file(vectors: Path) -> None:
    """It writes rows-1x4 and reads interleave-128."""
    path = vectors / "gguf/bitnet.i2_s.row4-BROKEN.gguf"
    wrong = loaded(path, "bitnetcpp-2025")
    assert distances(wrong, vectors / "logits_expected_wrong/x86-newnoact.bitnet.ownfile.npz") == [0.0] * 7
    assert distances(loaded(path, "bitnetcpp-2025", dialect="rows-1x4"), vectors / "logits/bitnet.npz") == [0.0] * 7


@pytest.mark.requirement("R5.5-1")
def test_the_same_model_in_another_layout_is_the_same_model(vectors: Path) -> None:
    tokens = SEQUENCES[4]["tokens"]
    one = loaded(vectors / "gguf/bitnet-25.i2_s.gguf", "bitnet-golden-1").forward(tokens).logits
    path = vectors / "gguf/bitnet-25.i2_s.arm64block.gguf"
    other = loaded(path, "bitnet-golden-1", dialect="interleave-64").forward(tokens).logits
    assert one is not None
    assert other is not None
    assert one.tobytes() == other.tobytes()
