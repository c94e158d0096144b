from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from examples import share

import i2s_spec as i2s
from i2s_spec.codec.reference import unpack
from i2s_spec.convert import random_weights
from i2s_spec.convert.new import new
from i2s_spec.convert.recipes import RECIPES
from i2s_spec.schema import container
from i2s_spec.schema.architectures import ARCHITECTURES, architecture_of, hyperparameters
from i2s_spec.schema.keys import OPTIONAL, REQUIRED

EACH = pytest.mark.parametrize("architecture", ARCHITECTURES)


def new_bytes(*args: Any, **options: Any) -> bytes:
    target = io.BytesIO()
    written = new(target, *args, **options)
    data = target.getvalue()
    assert written.size == len(data)
    return data


def check_fit(data: bytes) -> None:
    """The file has the keys and tensors that its architecture declares, and no others; types and shapes are the usual."""
    file = i2s.open(data)
    architecture = architecture_of(file.metadata, file.tensors)
    for entry in file.metadata.rows:
        assert entry.label == architecture.keys[entry.key].types[0]
    tokenizer = file.metadata["tokenizer.ggml.model"]
    for key in architecture.keys.values():
        assert key.need != REQUIRED or key.when not in ("", tokenizer) or key.name in file.metadata, key.name
    expected = [
        (name, ne, spec.usual)
        for name, ne, spec in architecture.tensors(hyperparameters(file.metadata))
        if spec.need != OPTIONAL
    ]
    assert [(tensor.name, tensor.ne, tensor.type.name) for tensor in file.tensors.rows if tensor.type] == expected
    assert len(file.metadata["tokenizer.ggml.tokens"]) == file.tensors["token_embd.weight"].shape[0]


@EACH
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_complete_small_model(architecture: str, order: Any) -> None:
    data = new_bytes(architecture, byte_order=order)
    assert len(data) < 200_000
    assert container.build(container.parse(data)) == data
    check_fit(data)
    file = i2s.open(data)
    assert file.byte_order == order
    end = max(tensor.span.stop for tensor in file.tensors.values())
    assert end <= file.size < end + 32
    metadata = file.metadata
    assert metadata["general.file_type"] == 40
    for name in ("bos", "eos", "padding", "unknown"):
        assert metadata.get(f"tokenizer.ggml.{name}_token_id", 0) < len(metadata["tokenizer.ggml.tokens"])


@EACH
@pytest.mark.parametrize("order", ["little", "big"])
def test_the_distribution_of_weights(architecture: str, order: Any) -> None:
    file = i2s.open(new_bytes(architecture, seed=3, byte_order=order, layers=1))
    scales = set()
    for tensor in file.tensors.values():
        assert tensor.type is not None
        if tensor.type.name == "I2_S":
            trits, scale = unpack(tensor.read(), tensor.shape, byte_order=order)
            shares = np.bincount(trits.reshape(-1) + 1, minlength=3) / trits.size
            assert np.abs(shares - [0.25, 0.5, 0.25]).max() < 0.03
            assert scale == pytest.approx(np.sqrt(2 / tensor.ne[0]), rel=0.07)
            assert tensor.tail[4:] == bytes(28)
            scales.add(scale)
        elif "norm" in tensor.name:
            size = 16 if (architecture, tensor.name) == ("gemma3", "output_norm.weight") else 1
            values = tensor.array().astype(np.float64) / size
            assert np.abs(values - 1).max() <= 1 / 8
            assert values.std() > 0.03
        else:
            # 1/16 is a power of two below 1 / sqrt(128); gemma3 has 1/256, because its graph scales embeddings up
            values = tensor.array().astype(np.float64) * (256 if architecture == "gemma3" else 16)
            assert abs(values.mean()) < 0.03
            assert values.std() == pytest.approx(1, abs=0.03)
    assert len(scales) > 3


@EACH
def test_big_endian_files_hold_the_same_numbers(architecture: str) -> None:
    little, big = (i2s.open(new_bytes(architecture, byte_order=order, layers=1)) for order in ("little", "big"))
    assert [entry.key for entry in little.metadata.rows] == [entry.key for entry in big.metadata.rows]
    for ours, theirs in zip(little.tensors.values(), big.tensors.values(), strict=True):
        assert ours.payload == theirs.payload or ours.type.is_plain
        if ours.type.is_plain:
            assert (ours.array() == theirs.array()).all()
        else:
            assert ours.tail[:4] == theirs.tail[3::-1]


@EACH
def test_the_same_arguments_give_the_same_bytes(architecture: str) -> None:
    first, second, other = (
        new_bytes(architecture, seed=1),
        new_bytes(architecture, seed=1),
        new_bytes(architecture, seed=2),
    )
    assert first == second
    assert len(first) == len(other)
    start = i2s.open(first).data_start
    assert first[:start] == other[:start]
    assert first[start:] != other[start:]


@pytest.mark.parametrize(
    ("architecture", "sha256"),
    [
        ("bitnet-b1.58", "f2890bc8e301cdeae223fc8b1f7874b41727fd9cab2991b758357f5a7e6dd183"),
        ("bitnet-25", "25d7491c8dd24a534e5be81fe06e845bac9f982c4f6df716071f0e7ca7d4df81"),
        ("bitnet", "2c8e7e72823a37b5e3c09b41849dec0c21a15a4bf300a68c9581c3a050716a5f"),
        ("llama", "43e5887f13d073a817608b4d1e516ba887b5d750d1d77612f262c5e6e18c52d3"),
        ("qwen3", "611dfa083ddd7ed5b6dd81ea2b24c8975a83618ee3396896b230c79588083266"),
        ("qwen3-lm", "5405d49980deb63d28ec5b1e32d2b2f083dc1b3eba26a0730667e6814f816395"),
        ("gemma3", "bcba119136d5737a0713c3c5d6a51088adc60f4d5d2b5364cc35cb455023f131"),
        ("qwen35", "4a434e19d0bb286818bf10f67e230bbad556f2e2f2331d8cc7b523c550377ce6"),
    ],
)
def test_the_bytes_are_pinned(architecture: str, sha256: str) -> None:
    """The same on every machine, with every version of NumPy; a change here is a change for users."""
    assert hashlib.sha256(new_bytes(architecture)).hexdigest() == sha256


@pytest.mark.parametrize(
    ("architecture", "sha256"),
    [
        ("bitnet-b1.58", "a87901eae81a12b016406eaffccbeda211a6315ea48451cb6422e096a4b6f35a"),
        ("bitnet-25", "4a4cc2d50bbc4a8becbc3e059560f5f15664dd8ae0296cadb9ccb52a340d9b4f"),
        ("bitnet", "2642fc120614554309d81ed99261afb49a957ea1b73471cb7afc0841f8918729"),
        ("llama", "078a9af7af4244c0480bd31b8cce125ce1100cf1a260d99a3cea0a03cc95774e"),
        ("qwen3", "00eed1f500feb4d7f4e11c5ac79a58fbf1ed875c26682575c1dbdc5078438214"),
        ("gemma3", "ac7200e42421ed3592f2a4132e9d7ec183e83f2b3b4ab9810d73ffbf73aa5d12"),
    ],
)
def test_the_bytes_of_unit_tables_are_those_of_the_first_version(architecture: str, sha256: str) -> None:
    assert hashlib.sha256(new_bytes(architecture, unit_tables=True)).hexdigest() == sha256


@pytest.mark.parametrize(
    ("architecture", "sha256"),
    [
        ("bitnet-b1.58", "4e19e038322a3a05c6cd97bcf4a6adab2aab1a6012f47b9bd38dceb40b36f8ea"),
        ("bitnet-25", "24ca5113eb925bd1bfc08d5239da8593c36104947f58e453ebaf1c061d99646d"),
        ("bitnet", "2c8e7e72823a37b5e3c09b41849dec0c21a15a4bf300a68c9581c3a050716a5f"),
        ("llama", "43e5887f13d073a817608b4d1e516ba887b5d750d1d77612f262c5e6e18c52d3"),
        ("qwen3", "3107e38c450cc7cad0881c7c6bd5cb62687e02854265693baa3893e3b4d59e90"),
        ("gemma3", "9481d1d503cdc6d25f9a3fc7ed418534a5fd6477da532b94ece55899902ce151"),
    ],
)
def test_the_bytes_with_published_keys_are_pinned(architecture: str, sha256: str) -> None:
    assert hashlib.sha256(new_bytes(architecture, as_published=True)).hexdigest() == sha256


@EACH
def test_the_linter_finds_nothing_unexpected(architecture: str) -> None:
    """But what is true of every such file: a former name, norms that only forks know, a turn that no key ends."""
    findings = {finding.code for finding in i2s.lint(new_bytes(architecture)).findings}
    assert findings == {
        "bitnet-25": {"M019"}, "llama": {"T025"}, "qwen3": {"P301"}, "qwen3-lm": {"T025"}, "gemma3": {"P301"},
        "qwen35": {"T025"},
    }.get(architecture, set())  # fmt: skip
    assert {"bitnet-b1.58": "T009", "qwen3": "M012"}.get(architecture, "") in {
        "", *(finding.code for finding in i2s.lint(new_bytes(architecture, as_published=True)).findings)
    }  # fmt: skip


def test_tensors_do_not_depend_on_the_rest_of_the_model() -> None:
    small, large = i2s.open(new_bytes(layers=1)), i2s.open(new_bytes(layers=3, vocab=500))
    name = "blk.0.attn_q.weight"
    assert small.tensors[name].read() == large.tensors[name].read()
    assert small.tensors[name].payload != large.tensors["blk.1.attn_q.weight"].payload


def test_the_quantiles_are_those_of_the_normal_distribution() -> None:
    normal = NormalDist()
    exact = np.array([normal.inv_cdf((i + 0.5) / 256) for i in range(256)])
    assert (random_weights.NORMAL.view(np.float16) == exact.astype(np.float16)).all()


def test_bytes_come_in_chunks() -> None:
    count = random_weights.CHUNK + 13
    chunks = list(random_weights.random_bytes(5, "x", count))
    assert [len(chunk) for chunk in chunks] == [random_weights.CHUNK, 13]
    assert b"".join(map(bytes, random_weights.near_one(0, "x", 3, "F32")))[3] == 0x3F


def test_keys_of_the_official_file() -> None:
    """The 24 pairs of BitNet-b1.58-2B-4T, in their order, with their types."""
    pairs = [
        ("general.architecture", "str"),
        ("general.name", "str"),
        ("{}.vocab_size", "u32"),
        ("{}.context_length", "u32"),
        ("{}.embedding_length", "u32"),
        ("{}.block_count", "u32"),
        ("{}.feed_forward_length", "u32"),
        ("{}.rope.dimension_count", "u32"),
        ("{}.attention.head_count", "u32"),
        ("{}.attention.head_count_kv", "u32"),
        ("tokenizer.ggml.add_bos_token", "bool"),
        ("{}.attention.layer_norm_rms_epsilon", "f32"),
        ("{}.rope.freq_base", "f32"),
        ("general.file_type", "u32"),
        ("tokenizer.ggml.model", "str"),
        ("tokenizer.ggml.tokens", "arr[str]"),
        ("tokenizer.ggml.scores", "arr[f32]"),
        ("tokenizer.ggml.token_type", "arr[i32]"),
        ("tokenizer.ggml.merges", "arr[str]"),
        ("tokenizer.ggml.bos_token_id", "u32"),
        ("tokenizer.ggml.eos_token_id", "u32"),
        ("tokenizer.ggml.padding_token_id", "u32"),
        ("tokenizer.chat_template", "str"),
        ("general.quantization_version", "u32"),
    ]
    for architecture in ("bitnet-b1.58", "bitnet-25"):
        rows = i2s.open(new_bytes(architecture, as_published=True)).metadata.rows
        assert [(entry.key, entry.label) for entry in rows] == [(key.format(architecture), kind) for key, kind in pairs]


def test_bitnet_files_are_like_the_real_ones(shared: Path) -> None:
    real = i2s.open(shared / "vectors/gguf/bitnet.i2_s.gguf")
    ours = i2s.open(new_bytes("bitnet", layers=2, embd=256, ff=512, heads=4, heads_kv=2, vocab=320, context=512))
    assert [(e.key, e.label, e.count) for e in ours.metadata.rows if e.key != "general.name"] == [
        (e.key, e.label, e.count) for e in real.metadata.rows if e.key != "general.name"
    ]
    vocabulary = {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "general.name"}
    for key in ours.metadata.keys() - vocabulary:
        assert np.all(ours.metadata[key] == real.metadata[key]), key
    assert ours.metadata["tokenizer.ggml.tokens"][:259] == real.metadata["tokenizer.ggml.tokens"][:259]
    assert [(t.name, t.ne, t.type, t.offset) for t in ours.tensors.values()] == [
        (t.name, t.ne, t.type, t.offset) for t in real.tensors.values()
    ]


@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "bitnet-25"])
def test_values_like_the_real_ones(shared: Path, architecture: str) -> None:
    name = {"bitnet-25": "bitnet-25.i2_s.gguf", "bitnet-b1.58": "bitnet-b1.58.i2_s.via_llama_quantize.gguf"}
    real = i2s.open(shared / "vectors/gguf" / name[architecture]).metadata
    ours = i2s.open(new_bytes(architecture, layers=2, embd=256, ff=512, heads=4, heads_kv=2, vocab=320)).metadata
    for key in real:
        if not key.startswith("tokenizer.") and key != "general.name":
            assert ours[key] == real[key], key


def test_embedding_models() -> None:
    for architecture, added in (("qwen3", "add_eos_token"), ("gemma3", "add_space_prefix")):
        file = i2s.open(new_bytes(architecture, embd=256, heads=2, head_dim=192, heads_kv=1))
        assert file.metadata[f"{architecture}.attention.key_length"] == 192
        assert file.metadata[f"{architecture}.rope.dimension_count"] == 192
        assert file.metadata[f"{architecture}.pooling_type"] == 3
        assert file.metadata[f"tokenizer.ggml.{added}"] is (added == "add_eos_token")
        assert file.tensors["blk.0.attn_output.weight"].shape == (256, 384)
        assert file.tensors["blk.0.attn_output_norm_in.weight"].shape == (384,)
        assert file.tensors["blk.0.attn_q_norm.weight"].shape == (192,)
        assert file.tensors["output_norm.weight"].type.name == "F16"
        assert "output.weight" not in file.tensors


def test_llama_has_a_head_of_its_own() -> None:
    file = i2s.open(new_bytes("llama"))
    assert file.metadata["tokenizer.ggml.pre"] == "llama-bpe"
    assert file.tensors["output.weight"].read() != file.tensors["token_embd.weight"].read()
    assert len(file.metadata) == 22


@pytest.mark.parametrize("alignment", [8, 16, 32, 64, 4096])
def test_alignment(alignment: int) -> None:
    target = io.BytesIO()
    written = new(target, alignment=alignment, layers=1)
    file = i2s.open(target.getvalue())
    assert file.alignment == alignment
    assert written.keys == len(file.metadata) == 25 + (alignment != 32)
    assert all(tensor.span.start % alignment == 0 for tensor in file.tensors.values())


def test_sizes_can_be_chosen() -> None:
    data = new_bytes("llama", layers=12, embd=384, ff=640, heads=6, heads_kv=3, vocab=700, context=99, seed=2**70)
    check_fit(data)
    h = hyperparameters(i2s.open(data).metadata)
    assert (h.layers, h.embd, h.ff, h.heads, h.heads_kv, h.vocab, h.context) == (12, 384, 640, 6, 3, 700, 99)
    assert list(i2s.open(data).tensors)[20:21] == ["blk.10.attn_norm.weight"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"architecture": "bitnet2"},
            "unknown architecture 'bitnet2'; did you mean bitnet or bitnet-25 or bitnet-b1.58?",
        ),
        ({"layers": 0}, "there are 0 layers; a model has 1 to 512"),
        ({"layers": 513}, "a model has 1 to 512"),
        ({"embd": 192}, "embd is 192; it must be a multiple of 128"),
        ({"embd": 0}, "embd is 0; it must be a multiple"),
        ({"embd": 1 << 30}, "embd is 1,073,741,824; it must be"),
        ({"ff": 100}, "ff is 100; it must be a multiple of 128"),
        ({"heads": 3}, "heads is 3; it must divide embd, which is 128"),
        ({"heads": -4}, "heads is -4; it must divide embd"),
        ({"heads": 4, "heads_kv": 3}, "heads_kv is 3; it must divide heads, which is 4"),
        ({"heads_kv": 0}, "heads_kv is 0; it must divide heads"),
        ({"heads": 128, "heads_kv": 1}, "heads are 1 wide; the width must be even"),
        ({"head_dim": 64}, "head_dim is 64; bitnet-b1.58 has heads of embd / heads, which is 32"),
        ({"architecture": "qwen3", "head_dim": 7}, "heads are 7 wide; the width must be even"),
        ({"architecture": "qwen3", "head_dim": 0}, "heads are 0 wide"),
        ({"architecture": "qwen3", "head_dim": 80}, "4 heads of 80 are 320 wide; together they must be a multiple of"),
        ({"vocab": 100}, "a vocabulary of this kind has 259 to 1,048,576 tokens, not 100"),
        ({"architecture": "gemma3", "vocab": 259}, "has 260 to 1,048,576 tokens, not 259"),
        ({"vocab": 10**12}, "tokens, not 1,000,000,000,000"),
        ({"context": 0}, "context is 0; it must be 1 to"),
        ({"seed": -1}, "the seed is -1; seeds start at 0"),
        ({"shape": "7b"}, "there is no shape '7b'; there is 2b4t"),
        ({"shape": "2b4t", "layers": 3, "ff": 256}, "2b4t sets all sizes; layers and ff cannot be given as well"),
        ({"shape": "2b4t", "architecture": "llama"}, "2b4t is a shape of bitnet-b1.58 and bitnet-25, not of llama"),
        ({"alignment": 24}, "general.alignment is 24, which is not a power of two"),
        ({"byte_order": "middle"}, "the byte order is 'middle'"),
    ],
)
def test_impossible_sizes_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        new(tmp_path / "model.gguf", **options)
    assert said in str(error.value)
    assert os.listdir(tmp_path) == []


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        new(path)
    assert path.read_bytes() == b"precious"
    new(path, force=True)
    assert path.read_bytes() == new_bytes()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append((done, sorted(os.listdir(tmp_path))))
        raise error

    with pytest.raises(error):
        new(tmp_path / "model.gguf", embd=1024, ff=4096, layers=2, progress=progress)
    assert len(seen) == 1
    assert len(seen[0][1]) == 1
    assert os.listdir(tmp_path) == []


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    written = new(tmp_path / "model.gguf", embd=1024, ff=4096, progress=lambda *told: seen.append(told))
    assert seen[-1] == (written.size, written.size)
    assert len(seen) > 5
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


class _FullError(Exception):
    pass


class _Head(io.BytesIO):
    """A stream that has seen enough when the header is there."""

    def write(self, data: Any) -> int:
        if self.tell() > 9_000_000:
            raise _FullError
        return super().write(data)


@pytest.mark.parametrize("architecture", share(["bitnet-b1.58", "bitnet-25"]))
def test_the_full_shape(architecture: str) -> None:
    head = _Head()
    with pytest.raises(_FullError):
        new(head, architecture, shape="2b4t")
    file = i2s.open(head.getvalue())
    assert len(file.metadata) == 24
    assert len(file.tensors) == 332
    assert file.data_start is not None
    assert abs(file.data_start / 8_351_360 - 1) < 0.02
    *_, last = file.tensors.values()
    assert last.offset + last.nbytes == 1_179_449_920
    types = [tensor.type.name for tensor in file.tensors.values() if tensor.type]
    assert [types.count(name) for name in ("F32", "F16", "I2_S")] == [121, 1, 210]
    assert file.tensors["blk.0.attn_q.weight"].offset == 672_048_288
    assert sum(tensor.elements for tensor in file.tensors.values() if tensor.type.name == "I2_S") == 2_084_044_800
    h = hyperparameters(file.metadata)
    assert (h.layers, h.embd, h.ff, h.heads, h.heads_kv, h.vocab, h.context, h.head_dim) == (
        30, 2560, 6912, 20, 5, 128256, 4096, 128,
    )  # fmt: skip
    assert file.metadata.entry("tokenizer.ggml.merges").count == 280147
    ids = [file.metadata[f"tokenizer.ggml.{name}_token_id"] for name in ("bos", "eos", "padding")]
    assert ids == [128000, 128001, 128001]
    assert file.metadata["tokenizer.ggml.tokens"][128009] == "<|eot_id|>"


def test_every_architecture_has_a_recipe() -> None:
    assert RECIPES.keys() == ARCHITECTURES.keys()
    for name, recipe in RECIPES.items():
        keys = [key.replace("{arch}", ARCHITECTURES[name].prefix) for key in recipe.keys]
        assert len(set(keys)) == len(keys)
        assert set(keys) <= ARCHITECTURES[name].keys.keys()
