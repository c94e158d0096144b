"""Records: every computed value is written to disk, completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden import record, recording
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.store import NewRecord, digest, read_header
from i2s_spec.model.forward import Model
from i2s_spec.schema.architectures import ARCHITECTURES

TOKENS = [1, 17, 3, 44, 5, 9, 30, 8]


@pytest.mark.requirement("R10.1-2")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("form", ["safetensors", "npz"])
def test_everything_that_is_computed_is_there(
    model_of: Callable[[str], Model], tmp_path: Path, architecture: str, form: Any
) -> None:
    model = model_of(architecture)
    header = record(model, TOKENS, tmp_path / "golden", form=form)
    result = model.forward(TOKENS, taps=("*",))
    dump = read_dump(tmp_path / "golden")
    wanted = {name for name in result.taps if name.partition("-")[0] not in recording.NOT_RECORDED}
    assert set(dump) == wanted == set(header["taps"])
    for name in dump:
        value = dump[name].value
        assert value.dtype == result.taps[name].dtype
        assert value.tobytes() == result.taps[name].tobytes(), name
        assert header["taps"][name]["sha256"] == digest(value)
    last = "embedding" if model.architecture.embedding_model else "result_output"
    whole = result.embedding if result.embedding is not None else result.logits
    assert whole is not None
    assert dump[last].value.tobytes() == whole.tobytes()


@pytest.mark.requirement("R9.1-1", "R10.2-1")
def test_the_header_says_what_was_computed(golden_of: Callable[[str], Path], model_of: Callable[[str], Model]) -> None:
    header = read_header(golden_of("bitnet-b1.58"))
    model = model_of("bitnet-b1.58")
    assert header["profile"] == "bitnet-golden-1"
    assert header["token_ids"] == TOKENS
    assert header["architecture"] == "bitnet-b1.58"
    assert header["activation"]["name"] == "relu2"
    assert header["activation"]["rule"] == "architecture"
    assert header["versions"]["numpy"] == np.__version__
    from i2s_spec.compare.hash import hash as identity

    assert header["weights"] == identity(model.file).weights
    assert header["hyperparameters"]["embd"] == model.hyperparameters.embd
    assert header["bitlinear"]["blk.0.attn_q"]["codes"] == len(TOKENS) * model.hyperparameters.embd


@pytest.mark.requirement("R10.2-2")
def test_a_light_record_has_digests_of_sums(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path
) -> None:
    record(model_of("bitnet-b1.58"), TOKENS, tmp_path / "light", light=True)
    light, full = read_header(tmp_path / "light"), read_header(golden_of("bitnet-b1.58"))
    sums = "blk.0.attn_q.acc_i32"
    assert sums not in read_dump(tmp_path / "light")
    assert light["taps"][sums]["sha256"] == full["taps"][sums]["sha256"]
    assert "kq-0" not in light["taps"]


def test_the_same_bytes_every_time(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    for name in ("a", "b"):
        record(model_of("llama"), TOKENS, tmp_path / name, form="npz", text="all", kl_base=True)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["eval-callback.txt", "golden.json", "logits.kld", "taps.npz"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.requirement("R10.1-1")
def test_stock_libraries_read_it(
    golden_of: Callable[[str], Path], model_of: Callable[[str], Model], tmp_path: Path
) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    ours = read_dump(golden_of("bitnet-b1.58"))
    theirs = safetensors.load_file(golden_of("bitnet-b1.58") / "taps.safetensors")
    assert {name: value.tobytes() for name, value in theirs.items()} == {
        name: ours[name].value.tobytes() for name in ours
    }
    record(model_of("bitnet-b1.58"), TOKENS, tmp_path / "npz", form="npz")
    with np.load(tmp_path / "npz" / "taps.npz", allow_pickle=False) as archive:
        assert {name: archive[name].tobytes() for name in archive} == {
            name: ours[name].value.tobytes() for name in ours
        }


@pytest.mark.requirement("R10.2-3")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_an_interrupted_record_leaves_nothing(
    model_of: Callable[[str], Model], tmp_path: Path, error: type[BaseException]
) -> None:
    def stop(done: int, total: int) -> None:
        raise error

    with pytest.raises(error):
        record(model_of("bitnet-b1.58"), TOKENS, tmp_path / "golden", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_opens_no_folders(
    model_of: Callable[[str], Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: the record is the same, and nothing else is left."""
    model = model_of("bitnet-b1.58")
    record(model, [1, 2], tmp_path / "usual")
    monkeypatch.delattr(os, "O_DIRECTORY")
    record(model, [1, 2], tmp_path / "new")
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("usual", "new"))
    assert one == other
    assert len(list(tmp_path.iterdir())) == 2


def test_an_interrupted_replacement_leaves_the_old_one(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    record(model_of("bitnet-b1.58"), TOKENS, tmp_path / "golden")
    before = (tmp_path / "golden" / "golden.json").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        record(model_of("bitnet-b1.58"), [1, 2], tmp_path / "golden", force=True, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["golden"]
    assert (tmp_path / "golden" / "golden.json").read_bytes() == before


def test_existing_files_and_folders_are_refused(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    model = model_of("bitnet-b1.58")
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("file", "folder"):
        for force in (False, True):
            with pytest.raises(FileExistsError, match=r"not a folder|not a record"):
                record(model, [1, 2], tmp_path / name, force=force)
    record(model, [1, 2], tmp_path / "empty")
    with pytest.raises(FileExistsError, match="force replaces it"):
        record(model, [1, 2], tmp_path / "empty")
    record(model, [1, 2, 3], tmp_path / "empty", force=True)
    assert read_header(tmp_path / "empty")["token_ids"] == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "folder"]


@pytest.mark.parametrize(
    ("tokens", "says"),
    [([], "empty"), ([99999], "the ids of this model are"), ([-1], "the ids"), (list(range(5000)), "ids|too many")],
)
def test_tokens_that_cannot_be_recorded(
    model_of: Callable[[str], Model], tmp_path: Path, tokens: list[int], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        record(model_of("bitnet-b1.58"), tokens, tmp_path / "golden")
    assert list(tmp_path.iterdir()) == []


def test_a_base_needs_logits_and_four_tokens(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="four tokens"):
        record(model_of("bitnet-b1.58"), [1, 2, 3], tmp_path / "golden", kl_base=True)
    with pytest.raises(SettingError, match="logits"):
        record(model_of("qwen3"), TOKENS, tmp_path / "golden", kl_base=True)


def test_logits_that_are_not_numbers_are_no_record(model_of: Callable[[str], Model], tmp_path: Path) -> None:
    """Nothing can be compared with NaN."""
    from i2s_spec.model.weights import ModelWeights, Ternary

    def broken(name: str, matrix: Ternary) -> Ternary:
        return matrix._replace(scale=np.float32("nan")) if name == "blk.0.ffn_up.weight" else matrix

    model = model_of("bitnet-b1.58")
    model = model.replace(weights=ModelWeights(model.file, change=broken))
    with pytest.raises(FormatError, match="M901") as caught:
        record(model, TOKENS, tmp_path / "golden", text="all")
    assert "nan as the logit of token 0" in str(caught.value)
    assert not (tmp_path / "golden").exists()


def test_a_tap_cannot_be_added_twice(tmp_path: Path) -> None:
    with NewRecord(tmp_path / "golden") as new:
        new.add("x", np.zeros(3, dtype=np.float32))
        with pytest.raises(ValueError, match="there already"):
            new.add("x", np.zeros(3, dtype=np.float32))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema_version": 1}', '{"schema_version": 1, "taps": [], "token_ids": [], "profile": ""}'],
)
def test_invalid_headers_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.json").write_text(text)
    with pytest.raises(SettingError, match="record"):
        read_header(tmp_path)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "golden.json").write_text('{"schema_version": 2, "taps": {}, "token_ids": [1], "profile": "x"}')
    with pytest.raises(SettingError, match="version 2"):
        read_header(tmp_path)


def test_the_package_has_the_functions() -> None:
    from i2s_spec import golden

    assert callable(golden.record)
    assert callable(golden.compare)
    assert {"record", "compare"} <= set(dir(golden))
    with pytest.raises(AttributeError, match="nothing"):
        golden.nothing  # noqa: B018
    assert i2s.load_model is not None
