"""Trained weights reveal their layout; random weights never do."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from examples import share
from hypothesis import given
from hypothesis import strategies as st
from planted import layouts, opened, planted, written

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FileSource
from i2s_spec.layout_inference import evidence
from i2s_spec.layout_inference.evidence import LayoutEvidence, layout_evidence
from i2s_spec.layout_inference.roles import layer_role, roles
from i2s_spec.linter.analysis.scales import in_layer
from i2s_spec.schema.dialect import CODE_MAPS


def asked(data: bytes, code_map: str = "offset-1", **options: int) -> LayoutEvidence:
    with opened(data) as file:
        found = layout_evidence(file, CODE_MAPS[code_map], **options)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def learned() -> dict[str, np.ndarray]:
    return planted(1)


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("sub_norms", [True, False])
def test_each_layout_is_decided(learned: dict[str, np.ndarray], layout: str, sub_norms: bool) -> None:
    tensors = {name: array for name, array in learned.items() if sub_norms or "sub_norm" not in name}
    found = asked(written(tensors, layout))
    assert found.decided is not None
    assert found.decided.name == layout
    assert {tensor.decision.name for tensor in found.tensors} <= {layout, None}


@pytest.mark.parametrize("code_map", CODE_MAPS)
def test_the_layout_is_decided_under_each_code_map(learned: dict[str, np.ndarray], code_map: str) -> None:
    found = asked(written(learned, f"sequential-msb/{code_map}"), code_map)
    assert found.decided is not None
    assert found.decided.name == "sequential-msb"


@pytest.mark.requirement("R7.7-1")
@pytest.mark.parametrize("seed", share(range(20)))
def test_random_weights_decide_nothing(seed: int) -> None:
    found = asked(written(planted(seed, strength=0.0)))
    assert found.whole.name is None
    assert found.decided is None
    assert [tensor for tensor in found.tensors if tensor.decision.name is not None] == []


def test_channels_of_the_feed_forward_are_not_those_of_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of the feed-forward need not be a multiple of the number of heads; that of 2B-4T is not."""
    where = "i2s_spec.layout_inference.evidence.roles"
    monkeypatch.setattr(where, lambda file, layers: roles(file, layers)._replace(heads=5, key_heads=5))
    texts = {one.text for one in asked(written(planted(3))).comparisons}
    assert {"rows of ffn_gate ~ columns of ffn_down", "rows of ffn_up ~ columns of ffn_down"} <= texts


@pytest.mark.parametrize("threads", [1, 3])
def test_a_payload_that_is_cut_stops_every_thread(
    learned: dict[str, np.ndarray], threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "THREAD_BYTES", 1)
    data = written(learned)
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    source = FileSource(path)
    file = File(source)
    path.write_bytes(data[: len(data) // 2])
    before = set(threading.enumerate())
    with pytest.raises(FormatError):
        layout_evidence(file, CODE_MAPS["offset-1"], threads=threads)
    assert set(threading.enumerate()) <= before
    source.close()


def test_threads_change_nothing(learned: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "THREAD_BYTES", 1)
    data = written(learned)
    assert asked(data, threads=3).whole == asked(data).whole


def reversed_pairs(raw: np.ndarray) -> bytes:
    pairs = raw[:, None] >> np.array([6, 4, 2, 0], np.uint8) & 3
    return (pairs << np.array([0, 2, 4, 6], np.uint8)).sum(1).astype(np.uint8).tobytes()


def test_swapped_words_and_reversed_groups_are_named(learned: dict[str, np.ndarray]) -> None:
    """Payloads whose 32-bit words were swapped, and whose groups are reversed, have names of their own."""
    data = bytearray(written(learned))
    turned = bytearray(data)
    with opened(bytes(data)) as file:
        for tensor in file.tensors.values():
            if tensor.type is not None and tensor.type.name == "I2_S":
                span = tensor.payload_span
                raw = np.frombuffer(data[span.start : span.stop], np.uint8)
                data[span.start : span.stop] = raw.view("<u4").byteswap().tobytes()
                turned[span.start : span.stop] = reversed_pairs(raw)
    found = asked(bytes(data)).decided
    assert found is not None
    assert found.name == "interleave-128, 32-bit words swapped"
    found = asked(bytes(turned)).decided
    assert found is not None
    assert found.name == "interleave-128, groups reversed"


@pytest.mark.parametrize("other", ["interleave-64", "rows-1x4", "sequential-lsb"])
def test_mixed_files_are_named(learned: dict[str, np.ndarray], other: str) -> None:
    foreign = {"blk.0.attn_q.weight", "blk.1.ffn_up.weight"}
    found = asked(written(learned, others=dict.fromkeys(foreign, other)))
    assert found.mixed
    assert found.decided is None
    assert found.usual == "interleave-128"
    named = {tensor.matrix.name: tensor.decision.name for tensor in found.otherwise("interleave-128")}
    assert named == dict.fromkeys(foreign, other)


def test_damage_does_not_change_the_answer(learned: dict[str, np.ndarray]) -> None:
    random = np.random.default_rng(5)
    damaged = dict(learned)
    names = [name for name, array in learned.items() if array.dtype == np.int8]
    for name in names[:: len(names) // 2]:  # two of fourteen tensors, more than a tenth
        damaged[name] = random.choice([-1, 0, 1], size=learned[name].shape).astype(np.int8)
    found = asked(written(damaged, "interleave-64"))
    assert found.decided is not None
    assert found.decided.name == "interleave-64"


def test_a_file_without_matrices() -> None:
    with opened(written({"blk.0.attn_norm.weight": np.ones(128, np.float32)})) as file:
        assert layout_evidence(file, CODE_MAPS["offset-1"]) is None


@given(
    st.from_regex(rb"(blk)?\.?(0|[0-9]{1,6})?\.(ffn_up|attn_norm|attn|ffn_|output)?\.?(weight|bias)\n?", fullmatch=True)
)
def test_names_of_layers(name: bytes) -> None:
    match = re.fullmatch(rb"blk\.(0|[1-9][0-9]{0,3})\.(ffn_up|attn_norm)\.weight", name)
    assert layer_role(name) == (match and (int(match[1]), match[2].decode()))
    match = re.fullmatch(rb"blk\.([0-9]{1,6})\.(.+)", name, re.DOTALL)
    assert in_layer(name) == (match and (match[1], match[2]))


@pytest.mark.parametrize("many", [1, 2, 3, 4, 5])
def test_layers_are_chosen_among_those_with_ternary_matrices(many: int) -> None:
    tensors: dict[str, np.ndarray] = {}
    for layer in range(7):
        tensors[f"blk.{layer}.attn_norm.weight"] = np.full(128, layer, np.float32)
        for name in ("attn_q", "attn_v"):  # one matrix of layer 1, and both of layers 2 and 5, are not ternary
            is_float = layer in (2, 5) or (layer, name) == (1, "attn_q")
            tensors[f"blk.{layer}.{name}.weight"] = np.ones((128, 128), np.float32 if is_float else np.int8)
    with opened(written(tensors)) as file:
        every, some = roles(file), roles(file, many)
        assert every.layers == [0, 1, 3, 4, 6]
        chosen = {1: [0], 2: [0, 6], 3: [0, 3, 6], 4: [0, 1, 3, 6], 5: every.layers}[many]
        assert some.matrices == {key: each for key, each in every.matrices.items() if key[0] in chosen}
        for layer in chosen:
            gain = some.gains.get((layer, "attn_norm"))
            assert gain is not None
            assert gain.tolist() == [layer] * 128


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_with_nothing_to_compare(learned: dict[str, np.ndarray], threads: int) -> None:
    found = asked(written({"blk.0.attn_q.weight": learned["blk.0.attn_q.weight"]}), threads=threads)
    assert found.comparisons == found.tensors == ()
    assert found.whole.name is None


def test_a_half_written_payload_decides_nothing(shared: Path) -> None:
    """What several threads of llama-quantize left has an order, but not that of any layout."""
    found = asked((shared / "vectors" / "gguf" / "bitnet.i2_s.2threads-CORRUPT.gguf").read_bytes())
    assert found.decided is None
    assert found.whole.name is None
    assert not found.mixed


@pytest.mark.thorough
def test_a_thousand_random_models_decide_nothing() -> None:
    """One file of random codes after another, of the smallest shapes, with and without gains."""
    random = np.random.default_rng(11)
    shapes = {"attn_q": (128, 128), "attn_k": (64, 128), "attn_v": (64, 128), "attn_output": (128, 128)}
    shapes |= {"ffn_gate": (256, 128), "ffn_up": (256, 128), "ffn_down": (128, 256)}
    for number in range(1000):
        share = random.uniform(0.2, 0.6)
        shares = [(1 - share) / 2, share, (1 - share) / 2]
        tensors: dict[str, np.ndarray] = {
            f"blk.0.{name}.weight": random.choice([-1, 0, 1], size=shape, p=shares).astype(np.int8)
            for name, shape in shapes.items()
        }
        if number % 2:
            tensors |= {
                f"blk.0.{name}.weight": random.uniform(0.5, 2, 128).astype(np.float32)
                for name in ("attn_norm", "ffn_norm")
            }
        found = asked(written(tensors))
        assert found.whole.name is None, number
        assert not [one for one in found.tensors if one.decision.name is not None], number
