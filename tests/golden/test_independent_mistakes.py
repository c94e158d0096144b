"""Mistakes are named independently of our code: a forward pass in a few lines of NumPy that shares nothing with it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import pairs, share

import i2s_spec as i2s
from i2s_spec.golden import compare, record
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model

TOKENS = np.array([1, 17, 3, 44, 5, 9, 30, 8, 77, 120, 121])
F32 = np.float32
HEADS, GROUPS, LAYERS, WIDTH, WORD = 4, 2, 2, 256, 512
Array = np.ndarray[Any, Any]


class Naive:
    """BitNet b1.58 as its formulas say; `wrong` names what is not."""

    def __init__(self, data: bytes, wrong: str) -> None:
        self.wrong, self.taps = wrong, dict[str, Array]()
        self.tensors: dict[str, Any] = {}
        with i2s.open(data) as file:
            self.base = float(file.metadata["bitnet-b1.58.rope.freq_base"])
            if wrong == "rope-base-1000000":
                self.base = 1e6
            self.eps = float(file.metadata["bitnet-b1.58.attention.layer_norm_rms_epsilon"])
            if wrong == "eps-0":
                self.eps = 0.0
            for name, tensor in file.tensors.items():
                raw = np.frombuffer(data[tensor.span.start : tensor.span.stop], np.uint8)
                assert tensor.type is not None
                kind = {"F32": "<f4", "F16": "<f2"}.get(tensor.type.name)
                self.tensors[name] = (
                    self.unpacked(raw, tensor.shape)
                    if kind is None
                    else raw.view(kind).astype(F32).reshape(tensor.shape)
                )

    def unpacked(self, raw: Array, shape: tuple[int, ...]) -> tuple[Array, Any]:
        k = np.arange(shape[0] * shape[1])
        lane = (k % 128) // 32
        shift = 2 * lane if self.wrong == "lanes-reversed" else 6 - 2 * lane
        byte = (k // 128) * 32 + k % 32
        if self.wrong == "layout-interleave-64":
            byte, shift = (k // 64) * 16 + k % 16, 6 - 2 * ((k % 64) // 16)
        codes = raw[byte] >> shift.astype(np.uint8) & 3
        worth = {"codes-zero-first": [0, 1, -1, 2], "offset-not-subtracted": [0, 1, 2, 3]}.get(
            self.wrong, [-1, 0, 1, 2]
        )
        scale = raw[k.size // 4 : k.size // 4 + 4].view("<f4")[0]
        return np.array(worth)[codes].reshape(shape).astype(np.float64), scale

    def norm(self, x: Array, name: str) -> Array:
        wide = x.astype(np.float64)
        if self.wrong == "norm-centred":
            wide = wide - wide.mean(axis=-1, keepdims=True)
        normed: Array = (wide / np.sqrt((wide * wide).mean(axis=-1, keepdims=True) + self.eps)).astype(F32)
        layer, _, word = name.rpartition(".")
        if self.wrong == "norms-exchanged" and word in ("attn_norm", "ffn_norm"):
            name = f"{layer}.{'ffn_norm' if word == 'attn_norm' else 'attn_norm'}"
        return normed if self.wrong == "gains-missing" else normed * self.tensors[f"{name}.weight"]

    def linear(self, name: str, x: Array) -> Array:
        weights, scale = self.tensors[f"{name}.weight"]
        if self.wrong == "scale-of-another" and name == "blk.1.attn_k":
            scale = self.tensors["blk.1.attn_q.weight"][1]
        if self.wrong == "weights-transposed":
            weights = weights.reshape(weights.shape[::-1]).T
        if self.wrong == "activation-blocks-64":
            blocks = x.astype(np.float64).reshape(len(x), -1, 64)
            step = np.abs(blocks).max(axis=-1, keepdims=True) / 127
            whole: Array = (np.rint(blocks / step) * step).reshape(x.shape) @ weights.T * np.float64(scale)
            return whole.astype(F32)
        amax = np.maximum(np.abs(x).max(axis=1), 1e-5).astype(np.float64)
        if self.wrong == "activation-one-scale":
            amax[:] = amax.max()
        most = {"activation-128": 128, "activation-4-bits": 7}.get(self.wrong, 127)
        s = (most / amax).astype(F32)
        codes = x * s[:, None]
        rounded = {"activation-truncated": np.trunc, "activation-floored": np.floor}.get(self.wrong, np.rint)
        codes = np.clip(rounded(codes), -128, 127).astype(np.float64)
        columns = {"sum-of-half": x.shape[1] // 2, "last-block-dropped": x.shape[1] - 128}.get(self.wrong, x.shape[1])
        sums = codes[:, :columns] @ weights[:, :columns].T
        if self.wrong == "offset-half":
            sums = codes @ (weights + 1).T - np.floor(codes.sum(axis=1, keepdims=True) / 2)
        y: Array = sums.astype(F32) / s[:, None]
        doubled = self.wrong == "scale-doubled" and name == "blk.1.ffn_up"
        half = F32(np.float16(scale)) if self.wrong == "scale-half" else scale
        return y / scale if self.wrong == "scale-reciprocal" else y * half * F32(1 + doubled)

    def rotated(self, x: Array) -> Array:
        d = x.shape[-1] // 2 if self.wrong == "rope-half-of-head" else x.shape[-1]
        at = np.arange(len(x)) + (self.wrong == "rope-from-1")
        angle = at[:, None] * self.base ** (-2 * np.arange(d // 2) / d)
        c, s = np.cos(angle).astype(F32)[:, None], np.sin(angle).astype(F32)[:, None]
        if self.wrong == "rope-reversed":
            s = -s
        neighbors = self.wrong == "rope-pairs"
        one, two = (slice(0, None, 2), slice(1, None, 2)) if neighbors else (slice(0, d // 2), slice(d // 2, d))
        out = x.copy()
        out[..., one], out[..., two] = x[..., one] * c - x[..., two] * s, x[..., one] * s + x[..., two] * c
        return out

    def keep(self, name: str, value: Array) -> Array:
        self.taps[name] = value
        return value

    def run(self) -> dict[str, Array]:
        h, keep = self.keep("inp_embd", self.tensors["token_embd.weight"][TOKENS]), self.keep
        count = len(h)
        if self.wrong == "embedding-scaled":
            h = h * F32(np.sqrt(WIDTH))
        for i in range(LAYERS):
            block = f"blk.{i}"
            x = h
            a = keep(f"attn_norm-{i}", self.norm(h, f"{block}.attn_norm"))
            names = "qvk" if self.wrong == "key-value-exchanged" else "qkv"
            q, k, v = (
                keep(f"{c.upper()}cur-{i}", self.linear(f"{block}.attn_{n}", a))
                for c, n in zip("qkv", names, strict=True)
            )
            q = keep(f"Qcur-{i}#1", self.rotated(q.reshape(count, HEADS, -1)))
            k = keep(f"Kcur-{i}#1", self.rotated(k.reshape(count, GROUPS, -1)))
            mine = np.arange(HEADS) % GROUPS if self.wrong == "heads-in-turn" else np.arange(HEADS) // (HEADS // GROUPS)
            if self.wrong == "heads-first":
                mine = np.zeros(HEADS, dtype=int)
            scores = np.einsum("thd,shd->hts", q, k[:, mine]).astype(np.float64)
            scores /= q.shape[-1] if self.wrong == "attention-scaled-by-width" else np.sqrt(q.shape[-1])
            if self.wrong == "attention-scaled-by-embedding":
                scores *= np.sqrt(q.shape[-1] / WIDTH)
            if self.wrong != "attention-not-causal":
                scores[:, ~np.tri(count, dtype=bool)] = -np.inf
            p = np.exp(scores - scores.max(axis=-1, keepdims=True))
            p /= p.sum(axis=-1, keepdims=True)
            o = np.einsum("hts,shd->thd", p, v.reshape(count, GROUPS, -1)[:, mine])
            o = keep(f"kqv_out-{i}", o.astype(F32).reshape(count, -1))
            if self.wrong != "attn-sub-norm-missing":
                o = keep(f"attn_sub_norm-{i}", self.norm(o, f"{block}.attn_sub_norm"))
            residual = a if self.wrong == "residual-normed" else h
            h = keep(f"ffn_inp-{i}", residual + keep(f"attn_o_out-{i}", self.linear(f"{block}.attn_output", o)))
            b = keep(f"ffn_norm-{i}", self.norm(x if self.wrong == "parallel" else h, f"{block}.ffn_norm"))
            up, gate = (keep(f"ffn_{n}-{i}", self.linear(f"{block}.ffn_{n}", b)) for n in ("up", "gate"))
            if self.wrong == "activation-silu":
                active = (gate / (1 + np.exp(-gate.astype(np.float64)))).astype(F32)
            else:
                active = np.maximum(gate, 0) ** 2
            if self.wrong == "up-activated":
                active, up = np.maximum(up, 0) ** 2, gate
            if self.wrong == "ffn-sub-norm-first":
                m = keep(f"ffn_out-{i}", self.norm(active, f"{block}.ffn_sub_norm") * up)
            else:
                m = keep(f"ffn_out-{i}", active * up)
                if self.wrong != "ffn-sub-norm-missing":
                    m = keep(f"ffn_sub_norm-{i}", self.norm(m, f"{block}.ffn_sub_norm"))
            residual = {"residual-normed": b, "residual-of-layer": x}.get(self.wrong, h)
            h = keep(f"l_out-{i}", residual + keep(f"ffn_down-{i}", self.linear(f"{block}.ffn_down", m)))
        last = keep("result_norm", self.norm(h, "output_norm"))
        keep(
            "result_output",
            (last.astype(np.float64) @ self.tensors["token_embd.weight"].T.astype(np.float64)).astype(F32),
        )
        return self.taps


#: The first tap that each mistake changes.
FIRST = {
    "layout-interleave-64": "Qcur-0", "lanes-reversed": "Qcur-0", "codes-zero-first": "Qcur-0",
    "offset-not-subtracted": "Qcur-0", "scale-reciprocal": "Qcur-0", "scale-half": "Qcur-0", "scale-doubled": "ffn_up-1",
    "activation-one-scale": "Qcur-0", "activation-128": "Qcur-0", "activation-truncated": "Qcur-0",
    "rope-pairs": "Qcur-0#1", "rope-from-1": "Qcur-0#1", "rope-reversed": "Qcur-0#1", "heads-in-turn": "kqv_out-0",
    "key-value-exchanged": "Kcur-0", "attention-not-causal": "kqv_out-0", "attention-scaled-by-width": "kqv_out-0",
    "attn-sub-norm-missing": "attn_o_out-0", "activation-silu": "ffn_out-0", "norm-centred": "attn_norm-0",
    "gains-missing": "attn_norm-0", "weights-transposed": "Qcur-0", "scale-of-another": "Kcur-1", "eps-0": "attn_norm-0",
    "activation-floored": "Qcur-0", "activation-blocks-64": "Qcur-0", "rope-base-1000000": "Qcur-0#1",
    "embedding-scaled": "attn_norm-0", "heads-first": "kqv_out-0", "attention-scaled-by-embedding": "kqv_out-0",
    "ffn-sub-norm-first": "ffn_out-0", "up-activated": "ffn_out-0",
}  # fmt: skip

#: More such mistakes.
NEWER = {
    "activation-4-bits": "Qcur-0", "offset-half": "Qcur-0", "sum-of-half": "Qcur-0", "last-block-dropped": "Qcur-0",
    "rope-half-of-head": "Qcur-0#1", "residual-normed": "ffn_inp-0", "residual-of-layer": "l_out-0",
    "norms-exchanged": "attn_norm-0",
}  # fmt: skip

Record = tuple[bytes, Model, Path]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Record:
    file = io.BytesIO()
    i2s.new(file, layers=LAYERS, embd=WIDTH, ff=WORD, heads=HEADS, heads_kv=GROUPS, seed=9)
    model, folder = load_model(file.getvalue(), threads=1), tmp_path_factory.mktemp("independent") / "golden"
    record(model, TOKENS, folder)
    return file.getvalue(), model, folder


@pytest.fixture
def dump(golden: Record, tmp_path: Path) -> Callable[[str], Path]:
    def make(wrong: str, *only: str) -> Path:
        taps = Naive(golden[0], wrong).run()
        save: Any = np.savez  # its stubs take every name for an option
        save(tmp_path / "t.npz", **{name: taps[name] for name in only or taps})
        return tmp_path / "t.npz"

    return make


@pytest.mark.parametrize("mode", ["op-replay", "layer-forced", "free-running"])
def test_without_mistakes_it_is_clean(golden: Record, dump: Callable[..., Path], mode: Any) -> None:
    result = compare(golden[2], dump(""), model=golden[1], mode=mode)
    assert result.ok, result.verdict
    assert result.whole is not None
    assert result.whole.verdict == "plausible"


@pytest.mark.parametrize("wrong", [*share(FIRST), *share(NEWER)])
def test_tap_and_mistake_are_named(golden: Record, dump: Callable[..., Path], wrong: str) -> None:
    result = compare(golden[2], dump(wrong), model=golden[1])
    assert result.first is not None
    assert result.first.name == {**FIRST, **NEWER}[wrong]
    assert result.diagnoses[0].name == wrong, result.verdict
    assert "nrc-4" not in [each.name for each in result.diagnoses]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrong", "mode"),
    [("attention-not-causal", "op-replay"), ("activation-silu", "free-running"), ("lanes-reversed", "op-replay")],
)
def test_logits_alone_name_it_too(golden: Record, dump: Callable[..., Path], wrong: str, mode: Any) -> None:
    """Also a mistake that lets later tokens count, where the first few would not do, and one that changes little."""
    result = compare(golden[2], dump(wrong, "result_output"), model=golden[1], mode=mode)
    assert wrong in [each.name for each in result.diagnoses], result.verdict


def test_another_tensor_is_named(golden: Record, dump: Callable[..., Path]) -> None:
    result = compare(golden[2], dump("scale-of-another"), model=golden[1])
    assert "the scale of blk.1.attn_q.weight was used" in result.verdict


@pytest.mark.thorough
def test_a_layer_names_no_mistake_that_would_show_earlier(golden: Record, dump: Callable[..., Path]) -> None:
    """Sums that are right say that no scale is wrong, however near a layer comes with one."""
    result = compare(golden[2], dump("parallel"), model=golden[1], mode="layer-forced")
    assert result.first is not None
    assert result.first.name == "ffn_norm-0"
    assert not result.diagnoses, result.verdict


def test_a_mistake_before_a_layer_is_named(golden: Record, dump: Callable[..., Path]) -> None:
    """Embeddings that are too large change a norm like a missing epsilon; the layer after it distinguishes the two."""
    result = compare(golden[2], dump("embedding-scaled"), model=golden[1], mode="layer-forced")
    assert result.first is not None
    assert result.first.name == "attn_norm-0"
    exact = [each.name for each in result.diagnoses if each.fits == "exactly"]
    assert exact == ["embedding-scaled"], result.verdict


@pytest.mark.thorough
def test_a_layer_tells_the_activation_of_up_from_exchanged_matrices(golden: Record, dump: Callable[..., Path]) -> None:
    result = compare(golden[2], dump("up-activated"), model=golden[1], mode="layer-forced")
    assert [each.name for each in result.diagnoses] == ["up-activated"]


@pytest.mark.parametrize("mode", share(["op-replay", "layer-forced", "free-running"]))
def test_nothing_but_nan_is_not_blamed_on_arm(
    golden: Record, dump: Callable[..., Path], tmp_path: Path, mode: Any
) -> None:
    """Of thirteen tokens `nrc-4` makes numbers 8 to 11 wrong; the last one is right where the input is."""
    tokens = np.arange(13) + 7
    record(golden[1], tokens, tmp_path / "golden", form="npz")
    with np.load(tmp_path / "golden" / "taps.npz") as stored:
        taps = {name: stored[name] for name in stored if not name.startswith("blk.")}
    taps["Qcur-0"] = np.full_like(taps["Qcur-0"], np.nan)
    np.savez(tmp_path / "nan.npz", **taps)
    result = compare(tmp_path / "golden", tmp_path / "nan.npz", model=golden[1], mode=mode)
    assert result.first is not None
    assert result.first.name == "Qcur-0"
    if mode == "op-replay":
        assert result.diagnoses[0].name == "not-finite", result.verdict


@pytest.mark.parametrize(("tokens", "value"), share([(4, np.nan), (7, np.inf), (13, np.nan)]))
def test_values_that_are_not_finite_are_reported_first(
    golden: Record, dump: Callable[..., Path], tmp_path: Path, tokens: int, value: float
) -> None:
    """Also for numbers of tokens at which `nrc-4` has an effect: values that are not finite are no evidence of it."""
    record(golden[1], np.arange(tokens) + 7, tmp_path / "golden", form="npz")
    with np.load(tmp_path / "golden" / "taps.npz") as stored:
        taps = {name: stored[name] for name in stored if not name.startswith("blk.")}
    taps["result_output"] = np.full_like(taps["result_output"], value)
    np.savez(tmp_path / "strange.npz", result_output=taps["result_output"])
    result = compare(tmp_path / "golden", tmp_path / "strange.npz", model=golden[1])
    names = [each.name for each in result.diagnoses]
    assert names[0] == "not-finite", result.verdict
    assert "all of whose elements are NaN or infinite: every element is NaN or infinite [not-finite]" in result.verdict
    if "nrc-4" in names:
        assert "it may be this: of" in result.verdict
        assert "nothing else that is known explains the value" in result.verdict


@pytest.mark.parametrize(("mode", "part"), pairs(["op-replay", "layer-forced"], ["attention", "feed-forward"]))
def test_a_value_that_lost_its_name_to_an_absent_norm(
    golden: Record, dump: Callable[..., Path], tmp_path: Path, mode: Any, part: str
) -> None:
    """A node has one name: where the norm is left out, its input gets the name of the norm, and no other."""
    raw, norm = {"attention": ("kqv_out", "attn_sub_norm"), "feed-forward": ("ffn_out", "ffn_sub_norm")}[part]
    word = norm.replace("_", "-")
    with np.load(dump(f"{word}-missing")) as stored:
        taps = {name: stored[name] for name in stored if not name.startswith("norm-")}
    for layer in range(LAYERS):
        taps[f"{norm}-{layer}"] = taps.pop(f"{raw}-{layer}")
    save: Any = np.savez
    save(tmp_path / "labelled.npz", **taps)
    result = compare(golden[2], tmp_path / "labelled.npz", model=golden[1], mode=mode)
    assert result.first is not None
    assert result.first.name == f"{norm}-0"
    assert result.diagnoses[0].name == f"{word}-missing", result.verdict


def test_taps_of_other_shapes_only(golden: Record, tmp_path: Path) -> None:
    save: Any = np.savez
    save(tmp_path / "t.npz", **{"Qcur-0": np.zeros(3, dtype=F32)})
    result = compare(golden[2], tmp_path / "t.npz", model=golden[1])
    assert not result.ok
    assert "the one tensor of the candidate that the record knows is of another shape" in result.verdict


def test_only_four_tokens_of_a_product_are_blamed_on_arm() -> None:
    """Of seven tokens `nrc-4` makes the first four wrong, of thirteen number 8 to 11; nothing else looks like it."""
    from i2s_spec.golden.diagnosis.patterns import recognized

    def names(tokens: int, wrong: list[int], op: str = "linear") -> list[str]:
        rng = np.random.default_rng(tokens)
        want = rng.standard_normal((tokens, 16)).astype(F32)
        got = want.copy()
        got[wrong] = rng.standard_normal((len(wrong), 16))
        return [each.name for each in recognized(got, want, 1e-6, (), tokens, op)]

    assert "nrc-4" in names(7, [0, 1, 2, 3])
    assert "nrc-4" in names(13, [8, 9, 10, 11])
    assert "nrc-4" not in names(4, [0, 1, 2, 3])  # everything is wrong
    assert "nrc-4" not in names(7, [1, 2, 3])
    assert "nrc-4" not in names(7, [0, 1, 2, 3, 4])
    assert "nrc-4" not in names(11, [4, 5, 6, 7])
    assert "nrc-4" not in names(7, [0, 1, 2, 3], "embed")


def test_tokens_do_not_hide_a_rotation() -> None:
    from i2s_spec.golden.diagnosis.patterns import recognized

    want = np.random.default_rng(3).standard_normal((7, 4, 8)).astype(F32)
    got = want.copy()
    got[1:] = got[1:, :, ::-1]
    assert [each.name for each in recognized(got, want, 1e-6, (), 7, "rope")] == ["rotation"]
    assert [each.name for each in recognized(got, want, 1e-6, (), 7, "linear")] == ["some-tokens"]
