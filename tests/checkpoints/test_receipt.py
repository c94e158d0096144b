"""Receipts: valid files pass, and every mistake that is injected into the importer is detected."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_checkpoints import (
    TINY,
    TYPE,
    Tiny,
    bf16_2b4t,
    bonsai,
    embedding_gemma3,
    embedding_qwen3,
    llama3,
    one_bit_llm,
    packed_2b4t,
    weight_only,
)

import i2s_spec as i2s
from i2s_spec.checkpoints.receipt import checkpoint_forward
from i2s_spec.checkpoints.receipt.checkpoint_forward import CheckpointForward
from i2s_spec.checkpoints.receipt.checkpoint_witness import Witness
from i2s_spec.checkpoints.receipt.import_with_receipt import import_with_receipt
from i2s_spec.checkpoints.receipt.make_receipt import embed_receipt, failed, make_receipt, verify_receipt, write_receipt
from i2s_spec.checkpoints.source import recognition, source_weights
from i2s_spec.checkpoints.source.checkpoint_folder import CheckpointFolder
from i2s_spec.checkpoints.source.families import Family
from i2s_spec.checkpoints.vocabulary import token_arrays
from i2s_spec.checkpoints.writing import import_checkpoint as importer
from i2s_spec.checkpoints.writing import target_types, tensor_plan
from i2s_spec.checkpoints.writing.import_checkpoint import import_checkpoint
from i2s_spec.cli import cli
from i2s_spec.convert.container.rewrite import Value
from i2s_spec.convert.hugging_face import packed
from i2s_spec.errors import FormatError
from i2s_spec.schema.types import ValueType


def statuses(receipt: dict[str, Any]) -> dict[str, str]:
    return {check["id"]: check["status"] for check in receipt["checks"]}


@pytest.mark.parametrize("name", TINY)
def test_sound_files_pass_every_check_that_can_be_made(name: str, tmp_path: Path) -> None:
    folder, path = TINY[name][1]().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, to=TYPE.get(name, "I2_S"))
    receipt = make_receipt(folder, path, positions=8)
    not_made = {"i", "g"} if name == "weight-only" else {"i"}
    assert statuses(receipt) == {id: "not made" if id in not_made else "passed" for id in "abcdefghik"}


@pytest.mark.thorough
@pytest.mark.parametrize("to", ["F32", "F16", "Q2_0", "PQ2_0", "IQ2_BN"])
def test_other_types_pass_as_well(to: str, tmp_path: Path) -> None:
    folder, path = llama3().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, to=to, pre="llama-bpe")
    assert failed(make_receipt(folder, path, only="abcdegk", positions=8)) == []


# --- mistakes -----------------------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def _family(**changes: Any) -> Patch:
    """The family with other data; a function gets the old value."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        recognize = recognition.recognize

        def changed(*given: Any) -> Any:
            found = recognize(*given)
            family: Family = found.family
            new = {key: value(getattr(family, key)) if callable(value) else value for key, value in changes.items()}
            return found._replace(family=family._replace(**new))

        monkeypatch.setattr(importer, "recognize", changed)

    return patch


def _exchanged(one: str, other: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """Two names of a layer for each other."""
    words = {one: other, other: one}
    return lambda layer: {module: words.get(name, name) for module, name in layer.items()}


def _convention(monkeypatch: pytest.MonkeyPatch) -> None:
    recognize = recognition.recognize

    def changed(*given: Any) -> Any:
        found = recognize(*given)
        return found._replace(convention="divide" if found.convention == "multiply" else "multiply")

    monkeypatch.setattr(importer, "recognize", changed)


def _sizes(**changes: Callable[[Any], Any]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        sizes_of = importer.sizes_of

        def changed(config: Any) -> Any:
            found = sizes_of(config)
            h = found.h._replace(
                **{key: value(getattr(found.h, key)) for key, value in changes.items() if key != "rope"}
            )
            rope = changes["rope"](found.rope) if "rope" in changes else found.rope
            return found._replace(h=h, rope=rope)

        monkeypatch.setattr(importer, "sizes_of", changed)

    return patch


def _matrix(change: Callable[[source_weights.TernaryMatrix], source_weights.TernaryMatrix]) -> Patch:
    """What becomes of a matrix once it is read, packed or not."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("float_matrix", "packed_matrix"):
            read = getattr(tensor_plan, name)
            monkeypatch.setattr(tensor_plan, name, lambda *given, read=read: change(_with_trits(read(*given))))

    return patch


def _with_trits(matrix: source_weights.TernaryMatrix | source_weights.FloatMatrix) -> source_weights.TernaryMatrix:
    return source_weights.TernaryMatrix(matrix.trits, matrix.scales, matrix.rule)


def _absmean(change: Callable[[np.ndarray], tuple[np.ndarray, np.float32]]) -> Patch:
    """Another rule for floats: weights to trits and scale."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def made(stored: Any, rule: str, *_: Any) -> source_weights.TernaryMatrix:
            values = np.concatenate(list(source_weights.float_windows(stored))).reshape(stored.shape)
            trits, scale = change(values)
            return source_weights.TernaryMatrix(trits.astype(np.int8), np.full((1, 1), scale, np.float32), rule)

        monkeypatch.setattr(tensor_plan, "float_matrix", made)

    return patch


def _mean(values: np.ndarray) -> np.float32:
    return np.float32(np.abs(values).mean())


def _floats(change: Callable[[str, np.ndarray], np.ndarray]) -> Patch:
    """What becomes of the floats of a tensor before they are written."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        words = target_types.float_words
        monkeypatch.setattr(
            tensor_plan, "float_words", lambda name, values, type: words(name, change(name, values), type)
        )
        slow = tensor_plan._float_bytes
        monkeypatch.setattr(tensor_plan, "_table_bytes", lambda name, stored, type, _: slow(name, stored, type, 0.0))

    return patch


def _values(change: Callable[[dict[str, Any]], Any]) -> Patch:
    """What becomes of the keys of the tokenizer."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        values = importer.tokenizer_values

        def changed(*given: Any) -> dict[str, Any]:
            found = values(*given)
            change(found)
            return found

        monkeypatch.setattr(importer, "tokenizer_values", changed)

    return patch


def _plan(change: Callable[[list[Any]], list[Any]]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        planned = importer.planned

        def changed(*given: Any) -> Any:
            tensors, tied = planned(*given)
            return change(tensors), tied

        monkeypatch.setattr(importer, "planned", changed)

    return patch


def _relabelled(tensors: list[Any], one: str, other: str) -> list[Any]:
    """Two tensors under each other's names."""
    names = {one: other, other: one}
    return [tensor._replace(name=names.get(tensor.name, tensor.name)) for tensor in tensors]


def _like_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """BF16 read as if it were F16."""
    widened = source_weights.widened
    monkeypatch.setattr(
        source_weights, "widened", lambda words, type: widened(words, "F16" if type == "BF16" else type)
    )


def _rows_in_fours(matrix: source_weights.TernaryMatrix) -> source_weights.TernaryMatrix:
    """Packed rows taken as neighbors, not as blocks."""
    rows, cols = matrix.trits.shape
    return matrix._replace(trits=matrix.trits.reshape(4, rows // 4, cols).swapaxes(0, 1).reshape(rows, cols).copy())


def _transposed(matrix: source_weights.TernaryMatrix) -> source_weights.TernaryMatrix:
    rows, cols = matrix.trits.shape
    return matrix._replace(trits=np.ascontiguousarray(matrix.trits.T)) if rows == cols else matrix


def _kv_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows permuted as if there were as many heads as keys have."""
    permuted = tensor_plan.to_gguf_rows
    monkeypatch.setattr(tensor_plan, "to_gguf_rows", lambda matrix, heads: permuted(matrix, 2))


def _shifted(key: str) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        items = list(values[key])
        values[key] = items[1:] + items[:1]

    return change


def _set(key: str, value: Any) -> Patch:
    return _values(lambda values: values.__setitem__(f"tokenizer.{key}", value))


def _rows_shifted(name: str, values: np.ndarray) -> np.ndarray:
    return np.roll(values.reshape(-1, 128), 1, axis=0).reshape(-1) if name == "token_embd.weight" else values


def _wide_table() -> Tiny:
    """An embedding in F32, which F16 rounds."""
    tiny = packed_2b4t()
    table = np.random.default_rng(1).standard_normal((384, 128)).astype("<f4")
    tiny.tensors["model.embed_tokens.weight"] = ("F32", table)
    return tiny


def _towards_zero(name: str, values: np.ndarray) -> np.ndarray:
    if name != "token_embd.weight":
        return values
    halves = values.astype(np.float16)
    bits = halves.view(np.uint16) - (np.abs(halves.astype(np.float32)) > np.abs(values)).astype(np.uint16)
    return bits.view(np.float16).astype(np.float32)


def _words_for_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    from i2s_spec.checkpoints.vocabulary import byte_pair_tokens

    made = token_arrays.by_id

    def changed(words: Any, added: list[Any], size: int) -> tuple[list[str], list[int]]:
        tokens, types = made(words, added, size)
        return tokens, [1 if kind == token_arrays.CONTROL else kind for kind in types]

    monkeypatch.setattr(byte_pair_tokens, "by_id", changed)


#: Mistakes of an importer: a checkpoint that shows each, the type, the patch, and the check that must fail.
MISTAKES: dict[str, tuple[Callable[[], Tiny], str, Patch, str]] = {
    "gate and up exchanged": (llama3, "I2_S", _family(layer=_exchanged("ffn_gate", "ffn_up")), "b"),
    "keys and values exchanged": (packed_2b4t, "I2_S", _family(layer=_exchanged("attn_k", "attn_v")), "b"),
    "two norms exchanged": (packed_2b4t, "I2_S", _family(layer=_exchanged("attn_norm", "ffn_norm")), "b"),
    "head norms exchanged": (embedding_qwen3, "I2_S", _family(layer=_exchanged("attn_q_norm", "attn_k_norm")), "b"),
    "input norms exchanged": (embedding_qwen3, "I2_S", _family(layer=_exchanged("attn_q_norm_in", "attn_v_norm_in")), "b"),
    "queries not permuted": (llama3, "I2_S", _family(rows="same"), "e"),
    "queries permuted for nothing": (packed_2b4t, "I2_S", _family(rows="neighbors"), "e"),
    "queries permuted by the heads of keys": (llama3, "I2_S", _kv_heads, "b"),
    "reciprocal scale": (packed_2b4t, "I2_S", _convention, "c"),
    "scale that divides taken as it is": (llama3, "I2_S", _convention, "c"),
    "largest magnitude as scale": (bf16_2b4t, "I2_S", _absmean(
        lambda w: (np.sign(w) * (np.abs(w) > 1e-6), np.float32(np.abs(w).max()))), "b"),
    "weights cut off, not rounded": (bf16_2b4t, "I2_S", _absmean(
        lambda w: (np.clip(np.trunc(w / _mean(w)), -1, 1), _mean(w))), "b"),
    "weights rounded up": (bf16_2b4t, "I2_S", _absmean(lambda w: (np.clip(np.ceil(w / _mean(w)), -1, 1), _mean(w))), "b"),
    "median in place of the mean": (bf16_2b4t, "I2_S", _absmean(
        lambda w: (np.clip(np.rint(w / np.median(np.abs(w))), -1, 1), np.median(np.abs(w)))), "b"),
    "gain in place of the scale": (bf16_2b4t, "I2_S", _matrix(lambda m: m._replace(scales=1 / m.scales)), "c"),
    "scale shrunk by the zeros": (bf16_2b4t, "I2_S", _matrix(
        lambda m: m._replace(scales=m.scales * np.float32(np.abs(m.trits).mean()))), "c"),
    "scale rounded to a half": (bf16_2b4t, "I2_S", _matrix(
        lambda m: m._replace(scales=m.scales.astype(np.float16).astype(np.float32))), "c"),
    "scale off by its last bit": (bf16_2b4t, "I2_S", _matrix(
        lambda m: m._replace(scales=np.nextafter(m.scales, np.float32(9)))), "c"),
    "signs turned": (packed_2b4t, "I2_S", _matrix(lambda m: m._replace(trits=-m.trits)), "b"),
    "square matrices transposed": (packed_2b4t, "I2_S", _matrix(_transposed), "b"),
    "packed rows taken as neighbors": (packed_2b4t, "I2_S", _matrix(_rows_in_fours), "b"),
    "bfloat16 read as float16": (bf16_2b4t, "I2_S", _like_halves, "b"),
    "scales of groups in reverse": (bonsai, "Q2_0", _matrix(
        lambda m: m._replace(scales=np.ascontiguousarray(m.scales[::-1]))), "c"),
    "one scale for all groups": (bonsai, "Q2_0", _matrix(lambda m: m._replace(scales=m.scales[:1, :1])), "c"),
    "Gemma's norms without the 1": (embedding_gemma3, "I2_S", _family(norm_offset=0.0), "b"),
    "the 1 added to a model without": (packed_2b4t, "I2_S", _family(norm_offset=1.0), "b"),
    "embedding scaled": (embedding_gemma3, "I2_S", _floats(
        lambda name, values: values * np.float32(128**0.5) if name == "token_embd.weight" else values), "b"),
    "embedding off by a row": (packed_2b4t, "I2_S", _floats(_rows_shifted), "b"),
    "embedding rounded towards 0": (_wide_table, "I2_S", _floats(_towards_zero), "b"),
    "layers in reverse": (packed_2b4t, "I2_S", _plan(
        lambda tensors: _relabelled(tensors, "blk.0.ffn_down.weight", "blk.1.ffn_down.weight")), "b"),
    "a norm left out": (packed_2b4t, "I2_S", _plan(lambda tensors: tensors[:-1]), "a"),
    "a tensor too many": (packed_2b4t, "I2_S", _plan(
        lambda tensors: [*tensors, tensors[-1]._replace(name="blk.0.extra.weight")]), "a"),
    "head left out": (llama3, "I2_S", _plan(
        lambda tensors: [tensor for tensor in tensors if tensor.name != "output.weight"]), "a"),
    "head and embedding exchanged": (llama3, "I2_S", _plan(
        lambda tensors: _relabelled(tensors, "output.weight", "token_embd.weight")), "b"),
    "bias left out": (weight_only, "I2_S", _plan(
        lambda tensors: [tensor for tensor in tensors if not tensor.name.endswith("bias")]), "a"),
    "base of the rotation left at its default": (packed_2b4t, "I2_S", _sizes(rope=lambda r: r._replace(base=10000.0)), "g"),
    "epsilon of another model": (packed_2b4t, "I2_S", _sizes(eps=lambda _: 1e-2), "k"),
    "context of another model": (packed_2b4t, "I2_S", _sizes(context=lambda _: 4096), "k"),
    "architecture of another activation": (packed_2b4t, "I2_S", _family(architecture="bitnet"), "g"),
    "vocabulary off by one": (llama3, "I2_S", _values(_shifted("tokenizer.ggml.tokens")), "f"),
    "merges in reverse": (llama3, "I2_S", _values(
        lambda values: values["tokenizer.ggml.merges"].reverse()), "f"),
    "merges left out": (llama3, "I2_S", _values(
        lambda values: values["tokenizer.ggml.merges"].__delitem__(slice(5, None))), "f"),
    "pre-tokenizer of another model": (llama3, "I2_S", _set("ggml.pre", "gpt-2"), "f"),
    "no first token": (llama3, "I2_S", _set("ggml.add_bos_token", False), "f"),
    "a last token": (llama3, "I2_S", _set("ggml.add_eos_token", True), "f"),
    "special tokens as words": (llama3, "I2_S", _words_for_marks, "f"),
    "end of text exchanged": (llama3, "I2_S", _set("ggml.eos_token_id", 381), "f"),
    "chat template left out": (llama3, "I2_S", _values(lambda values: values.pop("tokenizer.chat_template")), "f"),
    "chat template of another model": (llama3, "I2_S", _set("chat_template", "{{ messages[0]['content'] }}"), "f"),
    "scores turned": (one_bit_llm, "I2_S", _values(
        lambda values: values.__setitem__("tokenizer.ggml.scores", [-s for s in values["tokenizer.ggml.scores"]])), "f"),
    "scores left out": (embedding_gemma3, "I2_S", _values(
        lambda values: values.__setitem__("tokenizer.ggml.scores", [0.0] * 384)), "f"),
    "a space put before text": (embedding_gemma3, "I2_S", _set("ggml.add_space_prefix", True), "f"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Tiny]], Path]:
    """The folder of each checkpoint, written once for all mistakes; nothing writes there."""
    return cache(lambda make: make().write(tmp_path_factory.mktemp("checkpoint")))


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_caught(
    name: str, folders: Callable[[Callable[[], Tiny]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, to, patch, check = MISTAKES[name]
    folder, path = folders(make), tmp_path / "out.gguf"
    with monkeypatch.context() as patched:
        patch(patched)
        import_checkpoint(folder, path, to=to, pre="qwen2" if make is embedding_qwen3 else None)
    assert check in failed(make_receipt(folder, path, only=check, positions=8))


def test_logits_catch_what_weights_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistakes of tables and orders fail check g as well, which shares nothing with the importer."""
    for name in ("gate and up exchanged", "queries not permuted", "reciprocal scale", "Gemma's norms without the 1"):
        make, to, patch, _ = MISTAKES[name]
        folder, path = make().write(tmp_path / name), tmp_path / f"{name}.gguf"
        with monkeypatch.context() as patched:
            patch(patched)
            import_checkpoint(folder, path, to=to)
        assert failed(make_receipt(folder, path, only="g", positions=8)) == ["g"], name


def test_a_code_on_a_tie_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound file in which the two forward passes round three activations otherwise, and every other is the same."""
    folder, path = packed_2b4t(100).write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path, pre="llama-bpe")
    (check,) = (check for check in make_receipt(folder, path, only="g")["checks"] if check["id"] == "g")
    assert (check["status"], check["facts"]["ties"] > 0) == ("passed", True)
    assert check["facts"]["largest_difference"] < 1e-5
    monkeypatch.setattr(checkpoint_forward, "TIE", -1)
    assert failed(make_receipt(folder, path, only="g")) == ["g"]


def test_codes_of_the_file_count_on_ties_only(tmp_path: Path) -> None:
    products = np.array([[0.5, 1.499, 1.49, -2.502, 126.5, 0.5]], dtype=np.float32)
    theirs = np.array([[1, 2, 2, -2, 127, 2]], dtype=np.int8)
    with CheckpointFolder(packed_2b4t().write(tmp_path)) as folder:
        forward = CheckpointForward(
            Witness(folder), quantized=lambda _: True, table=lambda values: values, scale=lambda _, values: values
        )
        assert forward._rounded(products, theirs).tolist() == [[1, 2, 1, -2, 127, 0]]
        assert forward.ties == 4
        assert forward._rounded(products, None).tolist() == [[0, 1, 1, -3, 126, 0]]


def test_a_receipt_in_the_file(tmp_path: Path) -> None:
    """The keys say what the receipt says, the tensors stay, and a later change of the file is found."""
    folder, path, receipt = packed_2b4t().write(tmp_path / "c"), tmp_path / "o.gguf", tmp_path / "r.json"
    arguments = ["import", str(folder), "-o", str(path), "--receipt", str(receipt), "--receipt-in-file", "-q"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    written = json.loads(receipt.read_text())
    with i2s.open(path) as file:
        inside = json.loads(file.metadata["i2s.receipt"])
    assert {**inside, "file": 0, "checks": 0} == {**written, "file": 0, "checks": 0}
    assert statuses(inside) == statuses(written)
    assert written["file"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c", "o.gguf", "r.json"]
    for options in ([], ["--receipt", str(receipt)]):
        run = CliRunner().invoke(cli, ["verify", str(path), *options])
        assert (run.exit_code, run.output.splitlines()[-1]) == (0, "24 tensors match the receipt")
    with i2s.open(path) as file:
        place = file.tensors["blk.1.ffn_up.weight"].span.start
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(b"\x15\x15")
    run = CliRunner().invoke(cli, ["verify", str(path)])
    assert (run.exit_code, "changed: tensor 'blk.1.ffn_up.weight' differs: data, trits" in run.output) == (1, True)
    with pytest.raises(ValueError, match="another file: tensors differ"):
        embed_receipt(written, path)


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["make_receipt", "embed_receipt", "give_name"])
def test_a_killed_run_leaves_no_file_without_its_receipt(tmp_path: Path, step: str) -> None:
    """Whatever the run was about to do: the old file stays as it was, and the next run removes what was left."""
    folder, path = packed_2b4t().write(tmp_path / "c"), tmp_path / "o.gguf"
    path.write_bytes(b"old")
    code = f"""
import os, signal
from i2s_spec.checkpoints.receipt import import_with_receipt as module
module.{step} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
module.import_with_receipt({str(folder)!r}, {str(path)!r}, force=True)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (left,) = (each for each in tmp_path.iterdir() if each.name not in ("c", "o.gguf"))
    assert left.name.startswith(".o.gguf.")
    imported, receipt = import_with_receipt(folder, path, force=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c", "o.gguf"]
    assert (imported.size, receipt["file"]["name"]) == (path.stat().st_size, "o.gguf")
    assert not verify_receipt(path)["changed"]


def test_a_refused_import_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, path = packed_2b4t().write(tmp_path / "c"), tmp_path / "o.gguf"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        import_with_receipt(folder, path)
    path.unlink()
    with pytest.raises(FormatError):
        import_with_receipt(folder, path, rule="ternary", latent=tmp_path)
    monkeypatch.setattr(os, "link", _no_room)
    with pytest.raises(OSError, match=r"No space left on device: '.*o\.gguf'$") as error:
        import_with_receipt(folder, path)
    assert error.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["c"]


def _no_room(part: str, _: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", part)


def test_a_file_without_a_receipt_says_so(tmp_path: Path) -> None:
    path = tmp_path / "plain.gguf"
    import_checkpoint(packed_2b4t().write(tmp_path / "c"), path)
    with pytest.raises(FormatError, match=r"H105 .*no text under the key i2s.receipt"):
        verify_receipt(path)
    for text in ("{", "[]", '{"schema_version": 1}'):
        with i2s.open(path) as file:
            i2s.rewrite(file, tmp_path / "odd.gguf", set={"i2s.receipt": Value(ValueType.STRING, text)}, force=True)
        with pytest.raises(FormatError, match="H105"):
            verify_receipt(tmp_path / "odd.gguf")
    run = CliRunner().invoke(cli, ["verify", str(path)])
    assert isinstance(run.exception, FormatError)


def test_a_lost_fine_tune_is_seen(tmp_path: Path) -> None:
    base, tuned = packed_2b4t(1), packed_2b4t(1)
    import_checkpoint(base.write(tmp_path / "base"), tmp_path / "base.gguf")
    same = make_receipt(tmp_path / "base", tmp_path / "base.gguf", base=tmp_path / "base.gguf", only="i")
    assert statuses(same)["i"] == "failed"
    tuned.tensors["model.layers.1.mlp.up_proj.weight"] = packed_2b4t(2).tensors["model.layers.1.mlp.up_proj.weight"]
    import_checkpoint(tuned.write(tmp_path / "tuned"), tmp_path / "tuned.gguf")
    changed = make_receipt(tmp_path / "tuned", tmp_path / "tuned.gguf", base=tmp_path / "base.gguf", only="i")
    assert statuses(changed)["i"] == "passed"
    assert changed["checks"][8]["facts"]["changed"] > 10000


def test_a_float_revision_proves_the_convention(tmp_path: Path) -> None:
    latent = bf16_2b4t(20)
    latent.write(tmp_path / "latent")
    packed_one = packed_2b4t(20)
    for name in [each for each in packed_one.tensors if each.endswith("weight_scale")]:
        words = latent.tensors[name.removesuffix("_scale")][1]
        mean = np.abs((words.astype(np.uint32) << 16).view(np.float32)).mean()
        packed_one.tensors[name] = ("F32", np.array([mean], "<f4"))
    folder, path = packed_one.write(tmp_path / "packed"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    receipt = make_receipt(folder, path, latent=tmp_path / "latent", only="c")
    assert statuses(receipt)["c"] == "passed"
    assert "scales are the means of the float revision in 14 matrices" in receipt["checks"][2]["detail"]
    packed_one.config["quantization_config"]["linear_class"] = "bitlinear"  # this class divides by the scale
    import_checkpoint(packed_one.write(tmp_path / "wrong"), path, force=True)
    wrong = make_receipt(tmp_path / "wrong", path, latent=tmp_path / "latent", only="c")
    assert statuses(wrong)["c"] == "failed"


# --- repeated checks ----------------------------------------------------------------------------------------------


def test_verify_names_what_changed(tmp_path: Path) -> None:
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    write_receipt(make_receipt(folder, path, only="abcdk"), tmp_path / "r.json")
    assert verify_receipt(path, tmp_path / "r.json")["changed"] == []
    assert statuses(verify_receipt(path, tmp_path / "r.json"))["b"] == "not made"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1  # in the last norm
    path.write_bytes(data)
    assert verify_receipt(path, tmp_path / "r.json")["changed"] == ["tensor 'output_norm.weight' differs: data"]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rope_theta": 10000.0}))
    found = verify_receipt(path, tmp_path / "r.json", folder, positions=4)["changed"]
    assert "'config.json' of the checkpoint differs" in found
    assert "check b fails now" in found
    assert "check k fails now" in found


def test_matrices_of_several_types_are_each_computed_as_stored(tmp_path: Path) -> None:
    folder, path = packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    result = import_checkpoint(folder, path, to="TQ2_0", fallback="F32")
    assert (result.types["TQ2_0"], result.types["F32"]) == (2, 9 + 12)
    (check,) = [each for each in make_receipt(folder, path, only="g")["checks"] if each["id"] == "g"]
    assert check["status"] == "passed", check
    assert check["facts"]["largest_difference"] < 1e-5  # 0.009 if one matrix's type is used for all


def _zero_scale(folder: Path, tiny: Tiny) -> None:
    tiny.tensors[f"{_UP}_scale"][1][0] = 0
    tiny.write(folder)


def _no_matrix(folder: Path, tiny: Tiny) -> None:
    del tiny.tensors[_UP], tiny.tensors[f"{_UP}_scale"]
    tiny.write(folder)


def _whole_numbers(folder: Path, tiny: Tiny) -> None:
    tiny.tensors["model.norm.weight"] = ("I8", np.ones(128, np.int8))
    tiny.write(folder)


def _floats_with_scale(folder: Path, tiny: Tiny) -> None:
    tiny.tensors[_UP] = bf16_2b4t().tensors[_UP]
    tiny.write(folder)


_UP = "model.layers.0.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "letter", "words"),
    [
        (_zero_scale, "b", "the weight_scale of 'layers.0.mlp.up_proj' is 0.0, not a positive number"),
        (_no_matrix, "a", f"the checkpoint has no tensor '{_UP}' for 'blk.0.ffn_up.weight'"),
        (_no_matrix, "b", f"'blk.0.ffn_up.weight': the checkpoint has no tensor '{_UP}'"),
        (_whole_numbers, "b", "'model.norm.weight' of the checkpoint is 'I8', not floats"),
        (_floats_with_scale, "a", f"'{_UP}_scale' of the checkpoint is in no tensor of the file"),
    ],
)
def test_a_checkpoint_that_broke_fails_in_a_sentence(
    change: Callable[[Path, Tiny], None], letter: str, words: str, tmp_path: Path
) -> None:
    import_checkpoint(packed_2b4t().write(tmp_path / "checkpoint"), tmp_path / "out.gguf")
    change(tmp_path / "checkpoint", packed_2b4t())
    checks = make_receipt(tmp_path / "checkpoint", tmp_path / "out.gguf", only="abcdeg")["checks"]
    found = {each["id"]: each for each in checks}
    assert (found[letter]["status"], words in found[letter]["detail"]) == ("failed", True), found[letter]


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": None},
        {"rms_norm_eps": "x"},
        {"architectures": 5},
        {"quantization_config": ["bitnet"]},
        {"rope_scaling": [1]},
    ],
)
def test_a_config_that_broke_is_refused_by_its_name(change: dict[str, Any], tmp_path: Path) -> None:
    tiny = packed_2b4t()
    folder = tiny.write(tmp_path / "checkpoint")
    import_checkpoint(folder, tmp_path / "out.gguf")
    (folder / "config.json").write_text(json.dumps(tiny.config | change))
    with pytest.raises(FormatError, match=next(iter(change)).replace("scaling", "parameters")) as found:
        make_receipt(folder, tmp_path / "out.gguf")
    assert found.value.file == str(folder / "config.json")


def test_invalid_receipts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema_version": 2}')
    with pytest.raises(FormatError, match=r"H105 .*it does not have the form of version 1"):
        verify_receipt(tmp_path / "x.gguf", tmp_path / "r.json")
    with pytest.raises(ValueError, match="unknown check 'z'"):
        make_receipt(tmp_path, tmp_path / "x.gguf", only="az")


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, path, receipt = packed_2b4t().write(tmp_path / "c"), str(tmp_path / "o.gguf"), str(tmp_path / "r.json")
    run = CliRunner().invoke(cli, ["import", str(folder), "-o", path, "--receipt", receipt])
    assert run.exit_code == 0, run.output
    assert "family: bitnet-2b4t (architectures BitNetForCausalLM)" in run.output
    assert "g  passed" in run.output
    run = CliRunner().invoke(cli, ["verify", path, "--receipt", receipt])
    assert (run.exit_code, run.output.splitlines()[-1]) == (0, "24 tensors match the receipt")
    run = CliRunner().invoke(cli, ["import", str(folder), "-o", path, "--receipt", receipt])
    assert (run.exit_code, "already exists" in run.output) == (2, True)
    for written in ("config.json", "model.safetensors", "tokenizer.json"):
        taken, before = str(folder / written), (folder / written).read_bytes()
        for names in (("-o", taken), ("-o", path, "--receipt", taken)):
            run = CliRunner().invoke(cli, ["import", str(folder), *names, "--force"])
            assert (run.exit_code, "is an input file" in run.output) == (2, True)
        assert (folder / written).read_bytes() == before
    _convention(monkeypatch)
    run = CliRunner().invoke(cli, ["import", str(folder), "-o", path, "--receipt", receipt, "--force", "--json"])
    assert run.exit_code == 1
    document = json.loads(run.output)
    assert {check["id"] for check in document["checks"] if check["status"] == "failed"} >= {"c", "g"}
    run = CliRunner().invoke(cli, ["verify", path, "--receipt", receipt, "-q"])
    assert (run.exit_code, run.output) == (0, "")


@pytest.mark.usefixtures("own_process")
def test_the_library_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    """An expression that goes back over a text forever ends with that process."""
    folder, path = llama3().write(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    import_checkpoint(folder, path)
    assert statuses(make_receipt(folder, path, only="f"))["f"] == "passed"


def test_witness_is_independent_of_the_importer() -> None:
    """What the receipt derives stands in other modules than what the importer does."""
    from i2s_spec.checkpoints.receipt import checkpoint_witness

    names = vars(checkpoint_witness)
    assert not {
        each for each in names.values() if getattr(each, "__module__", "") in (packed.__name__, source_weights.__name__)
    }


def test_infinite_weights_bring_no_warning() -> None:
    class Infinite:
        """A witness whose gains no norm can take."""

        def gains(self, module: str) -> Any:
            return np.array([np.inf, np.nan, 0, 1], dtype=np.float32)

    forward = CheckpointForward.__new__(CheckpointForward)
    forward.witness, forward.eps = cast(Witness, Infinite()), np.float32(1e-5)
    normed = forward._rms(np.array([[np.inf, 0, 1, 1]], dtype=np.float32), "norm")
    assert normed.dtype == np.float32
    assert not np.isfinite(normed).all()
