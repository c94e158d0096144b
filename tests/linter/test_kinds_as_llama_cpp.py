"""Adapters and projectors are judged as llama.cpp itself judges them: it loads them beside a model, or refuses them."""

from __future__ import annotations

import random
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from peers import projector_table
from peers.programs import PROGRAM

from i2s_spec.convert.new import new
from i2s_spec.linter.engine import lint
from i2s_spec.schema import kinds
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.companions import Companion

_JUDGE = PROGRAM["xllamacpp"]
_WIDTH = 256
_CHILD = Path(projector_table.__file__).parent / "children" / "load_beside_model.py"

#: Files that are made, a part of which is sound; with --hypothesis-seed or not, always the same ones.
_FILES = 24


def _loads(model: Path, kind: str, file: Path) -> bool:
    """Whether llama.cpp loads a file beside a model."""
    words = [_JUDGE.command()[0], str(_CHILD), str(model), kind, str(file)]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False, timeout=120)
    return "loaded" in done.stdout


def _changed(drawn: random.Random, kind: str) -> tuple[str, bytes]:
    """A file of a kind in which at most one thing is changed, and what."""
    types = [name for name, row in kinds.projector_table()["types"].items() if "refused" not in row]
    name = drawn.choice(types) if kind == kinds.PROJECTOR else ""
    file = Companion(kind, name, width=_WIDTH)
    what = drawn.choice(("nothing", "key", "tensor", "type"))
    if what == "key":
        pair = drawn.choice(file.keys)
        file.keys.remove(pair)
        what = f"without {pair.key.decode()}"
    elif what == "tensor":
        tensor = drawn.choice(file.tensors)
        file.tensors.remove(tensor)
        what = f"without {tensor.name.decode()}"
    elif what == "type":
        pair = drawn.choice([pair for pair in file.keys if pair.type in (ValueType.UINT32, ValueType.FLOAT32)])
        pair.type = int(ValueType.UINT64 if pair.type == ValueType.UINT32 else ValueType.FLOAT64)
        what = f"type of {pair.key.decode()}"
    return f"{name} {what}", file.built()


@pytest.mark.parametrize("kind", [kinds.ADAPTER, kinds.PROJECTOR])
def test_what_llama_cpp_refuses_is_an_error(kind: str, tmp_path: Path) -> None:
    if (reason := _JUDGE.missing()) is not None:
        pytest.skip(reason)
    model = tmp_path / "model.gguf"
    with model.open("wb") as target:
        new(target, "llama", type="F16", embd=_WIDTH, ff=_WIDTH, layers=2)
    drawn = random.Random(kind)
    differ = []
    for number in range(_FILES):
        what, data = _changed(drawn, kind)
        file = tmp_path / f"{number}.gguf"
        file.write_bytes(data)
        report = lint(file, reference=model)
        if report.ok != _loads(model, kind, file):
            differ.append((what, [finding.message for finding in report.findings]))
    assert not differ


# --- the reader of the table -----------------------------------------------------------------------------------------

_HEADER = """
#define KEY_SIZE    "clip.vision.size"
#define KEY_MORE    "clip.vision.more"
#define TN_ONE      "mm.one.%s"
#define TN_BLOCK    "%s.blk.%d.one.%s"
enum projector_type { PROJECTOR_TYPE_A, PROJECTOR_TYPE_B, PROJECTOR_TYPE_C };
    { PROJECTOR_TYPE_A, "a" }, { PROJECTOR_TYPE_B, "b" }, { PROJECTOR_TYPE_C, "c" },
"""
_CODE = """
switch (model.proj_type) {
    case PROJECTOR_TYPE_A:
    case PROJECTOR_TYPE_B:
        {
            bool needed = model.proj_type == PROJECTOR_TYPE_B;
            get_u32(KEY_SIZE, hparams.size);  // of both
            get_f32(KEY_MORE, hparams.more, needed);
        } break;
}
auto get_merger_tensor = [&](const std::string & name) {
    return get_tensor(name);
            };
const bool has_standard_layers = ( model.proj_type != PROJECTOR_TYPE_B );
switch (model.proj_type) {
    case PROJECTOR_TYPE_A:
        {
            model.one = get_tensor(string_format(TN_ONE, "weight"));
            model.two = get_tensor(string_format(TN_ONE, "bias"), false);
            for (int i : {0, 2}) {
                model.three[i] = get_tensor(string_format(TN_BLOCK, prefix, i, "bias"));
            }
        } break;
    case PROJECTOR_TYPE_B:
        {
            for (int il = 0; il < hparams.n_layer; ++il) {
                layer.one = get_tensor(string_format(TN_BLOCK, prefix, il, "weight"));
            }
            if (model.one) {
                model.four = get_tensor(string_format(TN_ONE, "weight"));
            }
        } break;
}
int clip_n_mmproj_embd(const struct clip_ctx * ctx) {
    switch (ctx->model.proj_type) {
        case PROJECTOR_TYPE_A:
            return ctx->model.one->ne[1];
    }
}
"""


def _sources(folder: Path, code: str) -> Path:
    place = folder / "tools" / "mtmd"
    place.mkdir(parents=True)
    (place / "clip-impl.h").write_text(_HEADER)
    (place / "clip.cpp").write_text(code)
    return folder


def test_the_reader_of_the_table_reads_calls_with_their_loops_and_conditions(tmp_path: Path) -> None:
    made: dict[str, Any] = projector_table.table(_sources(tmp_path, _CODE), "abc")["types"]
    assert made["a"] == {
        "keys": {"clip.vision.size": "u32"}, "optional": {"clip.vision.more": "f32"}, "width": ["mm.one.weight", 1],
        "tensors": [{"names": "mm.one.weight"}, {"names": "{p}.blk.{i}.one.bias", "for": {"i": [0, 2]}}],
    }  # fmt: skip
    assert made["b"] == {
        "keys": {"clip.vision.size": "u32", "clip.vision.more": "f32"}, "blocks": False,
        "tensors": [{"names": "{p}.blk.{i}.one.weight", "for": {"i": "{m}.block_count"}}],
    }  # fmt: skip
    assert made["c"] == {"refused": True}


@pytest.mark.parametrize(
    ("old", "new"),
    [("(int i : {0, 2})", "(auto i = 0; f(i);)"), ("get_u32", "get_u99"), ('TN_ONE, "weight"', "TN_ONE, x")],
)
def test_the_reader_stops_at_what_it_does_not_understand(old: str, new: str, tmp_path: Path) -> None:
    read = partial(projector_table.table, _sources(tmp_path, _CODE.replace(old, new)), "abc")
    with pytest.raises((projector_table.UnreadError, KeyError)):
        read()


def test_the_table_is_written_as_the_reader_writes_it() -> None:
    path = Path(kinds.__file__).with_name("projectors.json")
    assert path.read_text(encoding="utf-8") == projector_table.text(kinds.projector_table())
