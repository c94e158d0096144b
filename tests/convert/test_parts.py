"""Models as several files and as one again: byte for byte the same, read by others, refused where lint refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import written
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import SMALL
from peers.llama_cpp import log_probabilities, missing
from peers.programs import PROGRAM
from transcripts_runner import run

import i2s_spec as i2s
from i2s_spec.convert.parts import PartSize, merge, part_size, split
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.split_set import TYPES, part_keys
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.key_edits import KeyEdits, Setting


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts") / "m.gguf"
    i2s.new(path, "llama", embd=256, ff=512, type="TQ2_0")
    return path


def joined(first: Path, out: Path, **options: Any) -> bytes:
    with i2s.open(first) as file:
        merge(file, out, **options)
    return out.read_bytes()


def parts_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-of-*.gguf"))


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Files with anything behind their tensors and between them, in either byte order, with various alignments."""
    order, alignment = draw(st.sampled_from(["little", "big"])), draw(st.sampled_from([None, 8, 32, 64, 256]))
    sizes = draw(st.lists(st.integers(1, 300), min_size=1, max_size=9))

    def fill(writer: Any) -> None:
        writer.add("general.architecture", "sample")
        writer.add("a.nested", [["x"], []], "arr[arr[str]]")
        for i, size in enumerate(sizes):
            writer.add_tensor(f"t{i}", (size,), "I8", bytes((i + j) % 251 for j in range(size)))

    data = bytearray(written(fill, byte_order=order, alignment=alignment))
    with File(BufferSource(bytes(data))) as file:
        start = file.data_start or 0
        for i in range(len(sizes)):
            info = file.index.tensor(i)
            end = start + info.offset + sizes[i]
            data[end : end + -sizes[i] % (alignment or 32)] = bytes([draw(st.integers(0, 255))]) * (
                -sizes[i] % (alignment or 32)
            )
            if draw(st.booleans()):  # a type that nobody knows
                data[info.type_span.start : info.type_span.stop] = (77).to_bytes(4, order)
    end = draw(st.integers(0, 2))
    last = -sizes[-1] % (alignment or 32)
    return bytes(data[: len(data) - last] if end == 1 and last else data) + b"behind" * (end == 2)


@pytest.mark.filterwarnings("ignore::i2s_spec.errors.ReadOnWarning")  # it may seem to begin elsewhere
@given(files(), st.data())
@examples(60)
def test_joined_parts_are_the_file_that_was_split(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, draw: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("law")
    with File(BufferSource(data)) as file:
        count = file.index.tensors
    into = draw.draw(
        st.one_of(
            st.integers(2, count + 1).map(lambda n: PartSize(parts=n)),
            st.integers(1, 900).map(lambda n: PartSize(nbytes=n)),
        )
    )
    found = split(data, folder / "p", into)
    assert found.differs == ""
    assert [part.size for part in found.parts] == [os.path.getsize(part.path) for part in found.parts]
    assert sum(part.tensors for part in found.parts) == count
    assert found.parts[0].tensors == 0
    assert all(part.tensors for part in found.parts[1:])
    if into.parts is not None:
        assert len(found.parts) == into.parts
    else:
        assert all(part.size <= (into.nbytes or 0) or part.tensors == 1 for part in found.parts[1:])
    assert joined(Path(found.parts[0].path), folder / "o.gguf") == data
    again = split(i2s.open(found.parts[0].path), folder / "again", PartSize(parts=2))
    assert joined(Path(again.parts[0].path), folder / "o2.gguf") == data


def test_keys_and_names_are_those_of_llama_cpp(model: Path, tmp_path: Path) -> None:
    run(f"i2s convert {model} --split 4 -o big.gguf", tmp_path)
    names = [path.name for path in parts_of(tmp_path)]
    assert names == [f"big-0000{i}-of-00004.gguf" for i in range(1, 5)]
    whole = i2s.open(model)
    for i, name in enumerate(names):
        with i2s.open(tmp_path / name) as file:
            assert part_keys(file) == (i, 4, len(whole.tensors))
            assert [file.metadata.entry(key.decode()).type for key in TYPES] == list(TYPES.values())
            assert (len(file.tensors) == 0) == (i == 0)
        assert lint(tmp_path / name).ok
    with i2s.open(tmp_path / names[0]) as file:
        assert list(file.metadata)[: len(whole.metadata)] == list(whole.metadata)


def test_one_sentence_and_nothing_written(model: Path, tmp_path: Path) -> None:
    os.link(model, tmp_path / "m.gguf")
    cases = {
        "--split 1 -o p": "a model is split into 2 to 65,535 parts",
        "--split two -o p": "'two' is neither a number of parts",
        "--split 1.5 -o p": "neither a number of parts",
        "--split 0G -o p": "no part has 0 bytes",
        "--split 99 -o p": "99 parts need 98 tensors",
        "--split 3 -o nowhere/p": "the folder for the file does not exist",
        "--split 3 --to F16 -o p": "--to is not for parts",
        "--split 3 --into m.gguf -o p": "--into is not for parts",
        "-o p": "nothing to do",
        "--split 3 -o .": "names a folder",
        "--split 3 -o ./": "names a folder",
    }  # fmt: skip
    for words, sentence in cases.items():
        text = run(f"i2s convert m.gguf {words}", tmp_path)
        assert sentence in text, words
        assert os.listdir(tmp_path) == ["m.gguf"]
    run("i2s convert m.gguf --split 3 -o p", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert "already exists" in run("i2s convert m.gguf --split 3 -o p", tmp_path)
    assert "input file" in run("i2s convert p-00001-of-00003.gguf -o p-00002-of-00003.gguf --force", tmp_path)
    assert "input file" in run("i2s convert p-00001-of-00003.gguf --split 3 -o p --force", tmp_path)
    assert "name the first part" in run("i2s convert p-00002-of-00003.gguf -o o.gguf", tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    shutil.copy(tmp_path / "p-00001-of-00003.gguf", tmp_path / "other.gguf")
    assert "G231" in run("i2s convert other.gguf -o o.gguf", tmp_path)
    assert not (tmp_path / "o.gguf").exists()


def _without(folder: Path) -> None:
    (folder / "p-00002-of-00004.gguf").unlink()


def _order(folder: Path) -> None:
    one, other = (folder / f"p-0000{i}-of-00004.gguf" for i in (2, 3))
    one.rename(folder / "x")
    other.rename(one)
    (folder / "x").rename(other)


def _twice(folder: Path) -> None:
    data = bytearray((folder / "p-00002-of-00004.gguf").read_bytes())
    with File(BufferSource(bytes(data))) as file:
        span = file.metadata.entry("split.no").value_span
    data[span.start : span.stop] = (2).to_bytes(2, "little")
    (folder / "p-00003-of-00004.gguf").write_bytes(data)


def _foreign(folder: Path) -> None:
    i2s.new(folder / "f.gguf", "llama", embd=256, ff=512, type="TQ2_0", seed=9)
    split(folder / "f.gguf", folder / "f", PartSize(parts=4))
    (folder / "f-00003-of-00004.gguf").replace(folder / "p-00003-of-00004.gguf")


def _cut(folder: Path) -> None:
    path = folder / "p-00003-of-00004.gguf"
    path.write_bytes(path.read_bytes()[:-100])


def _fault(folder: Path) -> None:
    path = folder / "p-00003-of-00004.gguf"
    path.write_bytes(path.read_bytes()[:90])


@pytest.mark.parametrize("change", [_without, _order, _twice, _foreign, _cut, _fault])
def test_parts_that_lint_refuses_are_not_joined(model: Path, tmp_path: Path, change: Any) -> None:
    split(model, tmp_path / "p", PartSize(parts=4))
    change(tmp_path)
    before = sorted(tmp_path.iterdir())
    text = run("i2s convert p-00001-of-00004.gguf -o o.gguf", tmp_path)
    assert text.endswith(("[exit 2]\n", "[exit 3]\n", "[exit 1]\n")), text
    assert sorted(tmp_path.iterdir()) == before
    with i2s.open(tmp_path / "p-00001-of-00004.gguf") as file, pytest.raises((ValueError, RuntimeError)):
        merge(file, tmp_path / "o.gguf")
    assert sorted(tmp_path.iterdir()) == before
    if change is not _cut:  # whose end is read with the part itself
        assert not lint(tmp_path / "p-00001-of-00004.gguf").ok


def test_what_cannot_come_back_is_said(model: Path, tmp_path: Path) -> None:
    fix(model, tmp_path / "k.gguf", edits=KeyEdits([Setting("split.count", "1")]), force=True)
    found = split(tmp_path / "k.gguf", tmp_path / "k", PartSize(parts=2))
    assert "keys about splitting" in found.differs
    assert joined(Path(found.parts[0].path), tmp_path / "o.gguf") == model.read_bytes()
    data = bytearray(model.read_bytes())
    with i2s.open(model) as file:
        assert file.infos_end is not None
        assert file.data_start is not None
        fill = file.data_start - file.infos_end
    if fill:
        data[file.infos_end : file.data_start] = b"x" * fill
        assert "padding" in split(bytes(data), tmp_path / "d", PartSize(parts=2)).differs


def test_keys_of_the_first_part_can_be_edited_alone(model: Path, tmp_path: Path) -> None:
    split(model, tmp_path / "p", PartSize(parts=3))
    first = tmp_path / "p-00001-of-00003.gguf"
    run(f"i2s fix {first.name} --set general.name=Renamed -o new.gguf", tmp_path)
    (tmp_path / "new.gguf").replace(first)
    assert lint(first).ok
    fix(model, tmp_path / "wanted.gguf", edits=KeyEdits([Setting("general.name", "Renamed")]))
    assert joined(first, tmp_path / "o.gguf") == (tmp_path / "wanted.gguf").read_bytes()


@pytest.mark.parametrize("limit", [3_000, 100_000, 400_000])
def test_a_full_disk_leaves_nothing(model: Path, tmp_path: Path, limit: int) -> None:
    pytest.importorskip("resource")
    script = (
        "import resource, sys; from i2s_spec.cli import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); main(sys.argv[1:])"
    )
    split(model, tmp_path / "p", PartSize(parts=3))
    before = sorted(tmp_path.iterdir())
    calls = [["p-00001-of-00003.gguf", "-o", "o.gguf"], [str(model), "--split", "3", "-o", "q"]]
    for words in calls[: 1 if limit == 400_000 else 2]:
        done = subprocess.run([sys.executable, "-B", "-c", script, "convert", *words], capture_output=True, check=False,
                              encoding="utf-8", cwd=tmp_path)  # fmt: skip
        assert done.returncode == 3, done.stderr
        assert (done.stderr.count("\n"), "File too large" in done.stderr) == (1, True)
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(missing("xllamacpp") is not None, reason=missing("xllamacpp") or "")
def test_llama_cpp_computes_the_same(model: Path, tmp_path: Path) -> None:
    wanted = log_probabilities("xllamacpp", model, [5, 6, 7, 8])
    for name, into in (("a", PartSize(parts=3)), ("b", PartSize(nbytes=100_000))):
        first = Path(split(model, tmp_path / name, into).parts[0].path)
        assert np.array_equal(log_probabilities("xllamacpp", first, [5, 6, 7, 8]), wanted)


def test_gguf_py_and_hugging_face_read_the_parts(model: Path, tmp_path: Path) -> None:
    split(model, tmp_path / "p", PartSize(parts=3))
    script = (
        "import sys; from gguf import GGUFReader\nprint(sum(len(GGUFReader(path).tensors) for path in sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", script, *map(str, parts_of(tmp_path))], capture_output=True, check=False,
                          encoding="utf-8")  # fmt: skip
    count = len(i2s.open(model).tensors)
    assert done.stdout.strip() == str(count), done.stderr
    program = PROGRAM["@huggingface/gguf"]
    if (reason := program.missing()) is not None:
        pytest.skip(reason)
    script = (
        'import { createRequire } from "node:module";\n'
        'const { gguf } = createRequire(process.argv[2] + "/package.json")("@huggingface/gguf");\n'
        "const counts = [];\n"
        "for (const path of process.argv.slice(3))\n"
        "  counts.push((await gguf(path, { allowLocalFile: true })).tensorInfos.length);\n"
        "console.log(JSON.stringify(counts));\n"
    )
    (tmp_path / "read.mjs").write_text(script, encoding="utf-8")
    done = subprocess.run(["node", str(tmp_path / "read.mjs"), str(program.folder), *map(str, parts_of(tmp_path))],
                          capture_output=True, check=False, encoding="utf-8")  # fmt: skip
    counts = json.loads(done.stdout or "[]")
    assert (counts[:1], sum(counts)) == ([0], count), done.stderr


def test_sizes() -> None:
    assert [part_size(text).nbytes for text in ("1K", "500M", "2G", "1.5g", "4GiB", "1GB")] == [
        1000, 500_000_000, 2_000_000_000, 1_500_000_000, 4 << 30, 1_000_000_000,
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::i2s_spec.errors.ReadOnWarning")
@pytest.mark.parametrize("name", share(sorted(SMALL)))
def test_broken_files_come_back_or_are_refused(tmp_path: Path, name: str) -> None:
    try:
        found = split(SMALL[name].data, tmp_path / "p", PartSize(parts=2))
    except (ValueError, i2s.FormatError):
        assert list(tmp_path.iterdir()) == []
        return
    back = joined(Path(found.parts[0].path), tmp_path / "o.gguf")
    assert (back == SMALL[name].data) == (not found.differs)
