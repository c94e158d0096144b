"""Edits of keys by `fix`: one key is another, everything else is as it was, byte for byte."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import written
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from peers.llama_cpp import log_probabilities, missing
from peers.programs import PROGRAM

import i2s_spec as i2s
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import Fixed, NewErrors, fix
from i2s_spec.linter.key_edits import KeyEdits, Setting, settings
from i2s_spec.testing.sample import Draft

READ_BY_GGUF_PY = """
import json, sys
from gguf import GGUFReader
reader = GGUFReader(sys.argv[1])
keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
tensors = {tensor.name: bytes(tensor.data).hex() for tensor in reader.tensors}
print(json.dumps([keys, tensors]))
"""


def edited(data: bytes, path: Path, *words: str, **options: Any) -> Fixed:
    """The file with values set."""
    path.unlink(missing_ok=True)
    return fix(data, path, edits=KeyEdits(settings(words)), **options)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edits") / "m.gguf"
    i2s.new(path, "llama", embd=256, ff=512, layers=1)
    return path


def odd_file(order: Any, alignment: int) -> bytes:
    """A file with what rewriters lose: a tensor of an unknown type, padding that is not zero, nested and empty arrays, bytes
    behind the last tensor."""

    def fill(writer: Any) -> None:
        writer.add("general.architecture", "sample")
        writer.add("a.nested", [["x"], ["y", "z"]], "arr[arr[str]]")
        writer.add("a.empty", [], "arr[f64]")
        writer.add("a.small", 3, "u8")
        writer.add("general.name", "before")
        writer.add_tensor("one", (5,), "F32", bytes(range(20)))
        writer.add_tensor("two", (3,), "I8", b"abc")

    data = bytearray(written(fill, byte_order=order, alignment=alignment))
    index = File(BufferSource(bytes(data))).index
    number = index.tensor(1).type_span
    data[number.start : number.stop] = (77).to_bytes(4, order)
    start = index.data_start
    assert start is not None
    data[start + 20 : start + alignment] = b"\xaa" * (alignment - 20)
    return bytes(data) + b"trailing"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80), st.sampled_from(["little", "big"]),
       st.sampled_from([32, 64, 4096]))  # fmt: skip
@examples(40)
def test_everything_else_stays_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, text: str, order: str, alignment: int
) -> None:
    data, path = odd_file(order, alignment), tmp_path_factory.getbasetemp() / f"odd-{order}.gguf"
    done = edited(data, path, f"general.name={text}:str", "a.small=9", force=True)
    before, after = File(BufferSource(data)), File(BufferSource(path.read_bytes()))
    assert (before.data_start, after.data_start) != (None, None)
    assert done.copied == len(data) - before.data_start  # type: ignore[operator]
    assert path.read_bytes()[after.data_start :] == data[before.data_start :]
    assert after.metadata["general.name"] == text
    assert (after.metadata["a.small"], after.metadata.entry("a.small").label) == (9, "u8")
    for name in ("general.architecture", "a.nested", "a.empty", "general.alignment"):
        assert record(after, name) == record(before, name)
    assert list(after.metadata) == list(before.metadata)
    again = fix(
        path.read_bytes(), edits=KeyEdits([Setting("general.name", "before"), Setting("a.small", "3")]), force=True
    )
    assert again.size == len(data)


def record(file: File, name: str) -> bytes | None:
    if name not in file.metadata:
        return None
    span = file.metadata.entry(name).span
    return file.source.read(span.start, span.stop - span.start)


@pytest.mark.parametrize("behind", [0, 3, 11, 40])
def test_a_file_without_tensors(tmp_path: Path, behind: int) -> None:
    """Such files end with their last key, with padding, or with something else."""
    data = written(lambda writer: writer.add("general.name", "x" * 9)) + bytes(behind)
    for text in ("", "abc", "y" * 50):
        done = edited(data, tmp_path / "o.gguf", f"general.name={text}:str", force=True)
        file = i2s.open((tmp_path / "o.gguf").read_bytes())
        assert file.metadata["general.name"] == text
        assert file.size == done.size


def test_values_and_types(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.gguf"
    words = [
        "general.name=A: B", "llama.context_length=4096", "llama.rope.freq_base=1e6", "tokenizer.ggml.add_bos_token=false",
        "general.tags=[\"a\", \"b\"]", "x.float=1.5", "x.int=-3", "x.text=1.5:str", "x.list=[1, 2]:arr[i16]", "x.on=true",
        "general.version=1.0", "x.label=a:u8:str", "tokenizer.ggml.bos_token_id=7:i64",
    ]  # fmt: skip
    done = edited(model.read_bytes(), out, *words, force=True)
    with i2s.open(out) as file:
        found = {
            name: (file.metadata[name], file.metadata.entry(name).label) for name in (each.key for each in done.keys)
        }
        listed = {name: list(value) for name, (value, label) in found.items() if label.startswith("arr")}
        assert list(file.metadata)[-1] == "x.label"
    single = {name: value for name, value in found.items() if name not in listed}
    assert single == {
        "general.name": ("A: B", "str"), "llama.context_length": (4096, "u32"), "llama.rope.freq_base": (1e6, "f32"),
        "tokenizer.ggml.add_bos_token": (False, "bool"), "x.float": (1.5, "f32"), "x.int": (-3, "i32"),
        "x.text": ("1.5", "str"), "x.on": (True, "bool"), "general.version": ("1.0", "str"), "x.label": ("a:u8", "str"),
        "tokenizer.ggml.bos_token_id": (7, "i64"),
    }  # fmt: skip
    assert listed == {"general.tags": ["a", "b"], "x.list": [1, 2]}
    (does,) = (each.does for each in done.keys if each.key == "tokenizer.ggml.bos_token_id")
    assert does.endswith("its type was u32 and is i64")


def test_a_value_that_ends_like_a_type() -> None:
    assert settings(["k=a:u8:str", "k=:str", "k=http://x", "k=a=b", "k=[1]:arr[arr[u8]]", "k=a:arr[u8"]) == [
        Setting("k", "a:u8", "str"), Setting("k", "", "str"), Setting("k", "http://x"), Setting("k", "a=b"),
        Setting("k", "[1]", "arr[arr[u8]]"), Setting("k", "a:arr[u8"),
    ]  # fmt: skip


def test_names_and_deletions(model: Path, tmp_path: Path) -> None:
    data, out = model.read_bytes(), tmp_path / "o.gguf"
    asked = KeyEdits([Setting("a.b", "x")], [("general.name", "general.basename")], ["tokenizer.chat_template"])
    fix(data, out, edits=asked)
    before, after = i2s.open(data), i2s.open(out.read_bytes())
    renamed = ["general.basename" if key == "general.name" else key for key in before.metadata]
    renamed.remove("tokenizer.chat_template")
    assert list(after.metadata) == [*renamed, "a.b"]
    assert after.metadata["general.basename"] == before.metadata["general.name"]
    fix(
        data,
        out,
        edits=KeyEdits((), [("general.name", "tokenizer.chat_template")], ["tokenizer.chat_template"]),
        force=True,
    )
    assert i2s.open(out.read_bytes()).metadata["tokenizer.chat_template"] == before.metadata["general.name"]


REFUSED = [
    (["noequals"], (), (), "no = after the key"),
    (["llama.context_length=many"], (), (), "'many' is no whole number"),
    (["llama.context_length=-1"], (), (), "does not fit u32"),
    (["llama.context_length=99999999999999999999999"], (), (), "is no whole number"),
    (["llama.rope.freq_base=1e99"], (), (), "beyond the largest f32"),
    (["llama.rope.freq_base=nan"], (), (), "is no number"),
    (["tokenizer.ggml.add_bos_token=yes"], (), (), "neither true nor false"),
    (["general.tags=a"], (), (), "JSON array"),
    (["general.tags=[1]"], (), (), "takes text"),
    (["general.tags=" + "[" * 100_000], (), (), "JSON array"),
    (["general.name=\udcff"], (), (), "not UTF-8"),
    (["k\u00e9y=1"], (), (), "printable ASCII"),
    (["general.name=a", "general.name=b"], (), (), "asked for twice"),
    ([], [("general.name", "x.y"), ("general.name", "x.z")], (), "asked for twice"),
    ([], [("general.name", "general.architecture")], (), "occur twice"),
    ([], [("general.file_type", "x.y"), ("general.name", "x.y")], (), "occur twice"),
    (["x.y=1"], [("general.name", "x.y")], (), "occur twice"),
    ([], [("none", "x.y")], (), "no key 'none'"),
    ([], (), ["none"], "no key 'none'"),
    (["general.alignment=48"], (), (), "power of two"),
    (["general.alignment=8192"], (), (), "do not lie at multiples"),
]


@pytest.mark.parametrize(("words", "names", "deleted", "why"), REFUSED)
def test_what_does_not_parse_is_refused(
    model: Path, tmp_path: Path, words: list[str], names: Any, deleted: Any, why: str
) -> None:
    with pytest.raises((ValueError, KeyError), match=re.escape(why)):
        fix(model, tmp_path / "o.gguf", edits=KeyEdits(settings(words), names, deleted), force=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["general.architecture", "general.alignment", "llama.block_count", "llama.embedding_length",
                                 "llama.attention.head_count_kv", "tokenizer.ggml.tokens", "tokenizer.ggml.pre",
                                 "split.count", "prism.hadamard.version"])  # fmt: skip
def test_keys_that_say_what_tensors_mean_are_protected(model: Path, key: str) -> None:
    for asked in (KeyEdits([Setting(key, "64")]), KeyEdits((), [("general.name", key)])):
        with pytest.raises(ValueError, match=r"is protected|would occur twice"):
            fix(model, edits=asked)


@pytest.mark.parametrize("word", ["llama.context_length=77", "llama.rope.freq_base=5.0", "general.name=x",
                                  "tokenizer.ggml.eos_token_id=3", "tokenizer.chat_template=x", "own.key=1"])  # fmt: skip
def test_other_keys_are_not(model: Path, word: str) -> None:
    assert fix(model, edits=KeyEdits(settings([word]))).keys


def test_a_new_error_needs_force(model: Path, tmp_path: Path) -> None:
    asked = KeyEdits([Setting("llama.context_length", "4096", "f32")])
    with pytest.raises(NewErrors, match="M003"):
        fix(model, tmp_path / "o.gguf", edits=asked)
    assert list(tmp_path.iterdir()) == []
    done = fix(model, tmp_path / "o.gguf", edits=asked, force=True)
    assert not done.remaining.ok
    # the same error before and after is not new
    done = fix(tmp_path / "o.gguf", tmp_path / "p.gguf", edits=KeyEdits([Setting("general.name", "x")]))
    assert not done.remaining.ok


def test_edits_and_repairs_are_one_plan(tmp_path: Path) -> None:
    broken = Draft().number("key_values[4].value", 2)
    asked = KeyEdits([Setting("own.key", "1")])
    alone = fix(broken, tmp_path / "a.gguf", edits=asked, force=True)
    assert (alone.actions, alone.copied is None) == ((), False)
    both = fix(broken, tmp_path / "b.gguf", edits=asked, select=["G215"], force=True)
    assert [action.code for action in both.actions] == ["G215"]
    assert i2s.open(tmp_path / "b.gguf").metadata["own.key"] == 1
    assert "G215" not in {finding.code for finding in lint(tmp_path / "b.gguf").findings}


def test_header_and_ranges_make_the_same_file(model: Path, tmp_path: Path) -> None:
    asked = KeyEdits([Setting("general.name", "n" * 100)])
    fix(model, tmp_path / "whole.gguf", edits=asked)
    fix(model, tmp_path / "head", edits=asked, ranges=tmp_path / "r.json")
    listed = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    sources = {"header": (tmp_path / "head").read_bytes(), "origin": model.read_bytes()}
    made = b"".join(sources[each["from"]][each["start"] : each["stop"]] for each in listed["pieces"])
    assert made == (tmp_path / "whole.gguf").read_bytes()
    assert listed["size"] == len(made)
    assert len(sources["header"]) < len(made) / 2
    with pytest.raises(ValueError, match="behind the header"):
        fix(model.read_bytes() + bytes(64), tmp_path / "h2", edits=asked, select=["G407"], ranges=tmp_path / "r2.json")
    assert len(list(tmp_path.iterdir())) == 3


def test_a_fault_of_the_header_is_said(model: Path, tmp_path: Path) -> None:
    with pytest.raises(i2s.FormatError):
        fix(model.read_bytes()[:3000], tmp_path / "o.gguf", edits=KeyEdits([Setting("general.name", "x")]))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_leaves_nothing(model: Path, tmp_path: Path) -> None:
    """The size of files is limited in a child, so that a write in the middle fails."""
    pytest.importorskip("resource")
    script = (
        "import resource, sys; from i2s_spec.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); main(sys.argv[1:])"
    )
    command = [
        sys.executable,
        "-B",
        "-c",
        script,
        "fix",
        str(model),
        "--set",
        "general.name=x",
        "-o",
        str(tmp_path / "o.gguf"),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "o.gguf: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_gguf_py_reads_the_result(tmp_path: Path) -> None:
    source, out = tmp_path / "f.gguf", tmp_path / "o.gguf"
    i2s.new(source, "llama", embd=256, ff=512, layers=1, type="F16")
    edited(source.read_bytes(), out, "general.name=\u00e4", "general.tags=[\"a\"]", "x.y=2")  # fmt: skip
    (keys, tensors), (changed, same) = (
        json.loads(subprocess.run([sys.executable, "-c", READ_BY_GGUF_PY, str(path)], capture_output=True, check=True,
                                  encoding="utf-8").stdout)
        for path in (source, out)
    )  # fmt: skip
    assert same == tensors
    assert changed == {**keys, "general.name": "\u00e4", "general.tags": ["a"], "x.y": 2}


@pytest.mark.skipif(missing("xllamacpp") is not None, reason=missing("xllamacpp") or "")
def test_llama_cpp_computes_the_same(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "q.gguf", tmp_path / "o.gguf"
    i2s.new(source, "llama", embd=256, ff=512, layers=1, type="TQ2_0")
    edited(source.read_bytes(), out, "general.name=new", "tokenizer.ggml.add_bos_token=false", "own.key=1")
    one, other = (log_probabilities("xllamacpp", path, [5, 6, 7]) for path in (source, out))
    assert (one == other).all()


def test_a_value_that_is_there_changes_nothing(model: Path) -> None:
    name = i2s.open(model).metadata["general.name"]
    done = fix(model, edits=KeyEdits([Setting("general.name", name)]))
    assert (done.changed, done.size) == (0, model.stat().st_size)
    assert "already" in done.keys[0].does


def test_hugging_face_reads_the_result(model: Path, tmp_path: Path) -> None:
    program = PROGRAM["@huggingface/gguf"]
    if (reason := program.missing()) is not None:
        pytest.skip(reason)
    out = tmp_path / "o.gguf"
    edited(model.read_bytes(), out, "general.name=new")
    script = tmp_path / "read.mjs"
    script.write_text(
        'import { createRequire } from "node:module";\n'
        'const { gguf } = createRequire(process.argv[2] + "/package.json")("@huggingface/gguf");\n'
        "const found = await gguf(process.argv[3], { allowLocalFile: true });\n"
        'console.log(found.metadata["general.name"], found.tensorInfos.length);\n',
        encoding="utf-8",
    )
    done = subprocess.run(["node", str(script), str(program.folder), str(out)], capture_output=True, encoding="utf-8",
                          check=False)  # fmt: skip
    assert done.stdout.split() == ["new", str(len(i2s.open(model).tensors))], done.stderr
