"""Bad input gets an answer: no command hangs, crashes, or reports a bug in i2s-spec."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from one_process import i2s
from pace import units

import i2s_spec
from i2s_spec.cli import main
from i2s_spec.cli.model_input import read_text
from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.errors import FormatError
from i2s_spec.gguf import source
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import read_regular, require_written
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.llama_cpp import LONGEST_LINE, node_of, read_callback_text
from i2s_spec.linter.paths import inputs
from i2s_spec.testing.sample import Draft, tensor_info


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a record `g`, and a FIFO without a writer."""
    folder = tmp_path_factory.mktemp("answers")
    new(folder / "m.gguf", "bitnet-b1.58", layers=1)
    assert called("golden", "record", str(folder / "m.gguf"), "--tokens", "1,2", "-o", str(folder / "g")) == 0
    os.mkfifo(folder / "fifo")
    return folder


def called(*args: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return ended.value.code


@pytest.fixture
def deadline() -> Iterator[None]:
    """End a test that hangs, in the process that it runs in."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(600)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- only regular files -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("odd", ["fifo", "/dev/zero"])
@pytest.mark.parametrize(
    "args",
    [
        ["golden", "compare", "g", "ODD"],
        ["golden", "compare", "g", "g", "--model", "ODD"],
        ["golden", "record", "ODD", "--tokens", "1", "-o", "h"],
        ["lint", "m.gguf", "--config", "ODD"],
        ["lint", "m.gguf", "--baseline", "ODD"],
        ["lint", "@ODD"],
        ["lint", "m.gguf", "--reference", "ODD"],
        ["identify", "m.gguf", "--likelihood", "ODD"],
        ["conform", "report", "ODD"],
        ["run", "m.gguf", "--file", "ODD", "-n", "1"],
        ["perplexity", "m.gguf", "--file", "ODD"],
        ["quantize", "m.gguf", "-o", "h", "--text", "ODD"],
    ],
    ids=lambda args: "-".join(word for word in args if word.islower()),
)
def test_fifos_and_devices_are_refused(place: Path, args: list[str], odd: str) -> None:
    done = i2s(place, *(word.replace("ODD", odd) for word in args))
    assert done.returncode in (2, 3), done.stderr
    assert "FIFO" in done.stderr + done.stdout or "character device" in done.stderr + done.stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO here")
def test_a_file_with_nothing_to_read_yet_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files of /proc are called regular and have nothing to read yet; a FIFO with a writer stands for them."""
    os.mkfifo(tmp_path / "waits")
    writer = os.open(tmp_path / "waits", os.O_RDWR)
    monkeypatch.setattr(source, "kind_of", lambda status: None)
    try:
        with pytest.raises(OSError, match="nothing to read"):
            read_regular(tmp_path / "waits", 100)
        assert read_text(str(tmp_path / "waits")) == ""
    finally:
        os.close(writer)


@pytest.mark.usefixtures("deadline")
def test_a_fifo_as_config_json_of_a_checkpoint(place: Path, tmp_path: Path) -> None:
    """config.json says what packed weights mean; it may be a FIFO without a writer."""
    checkpoint, model = tmp_path / "c", str(place / "m.gguf")
    assert called("export", model, "-o", str(checkpoint)) == 0
    (checkpoint / "config.json").unlink()
    os.mkfifo(checkpoint / "config.json")
    assert called("lint", model, "--reference", str(checkpoint)) in (0, 1)
    assert called("convert", str(checkpoint), str(tmp_path / "o.gguf"), "--into", model) in (2, 3)
    assert called("import", str(checkpoint), "-o", str(tmp_path / "o.gguf")) in (2, 3)


@pytest.mark.usefixtures("deadline")
def test_a_fifo_as_header_of_a_record(place: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "golden.json")
    assert called("golden", "compare", str(tmp_path), str(place / "g")) in (2, 3)


# --- records and dumps --------------------------------------------------------------------------------------------


def broken_record(place: Path, to: Path, **changes: Any) -> str:
    header = json.loads((place / "g" / "golden.json").read_text())
    for name, value in changes.items():
        if name == "tap":
            next(iter(header["taps"].values())).update(value)
        else:
            header[name] = value
    to.mkdir()
    (to / "golden.json").write_text(json.dumps(header))
    (to / "taps.safetensors").write_bytes((place / "g" / "taps.safetensors").read_bytes())
    return str(to)


@pytest.mark.parametrize(
    "changes",
    [
        {"tap": {"dtype": 7}},
        {"tap": {"dtype": None}},
        {"tap": {"shape": [1] * 100_000}},
        {"tap": {"shape": [True, 4]}},
        {"token_ids": [2**70]},
        {"token_ids": [-1]},
    ],
)
def test_hostile_headers_of_records(place: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = broken_record(place, tmp_path / "r", **changes)
    assert called("golden", "compare", folder, str(place / "g")) in (2, 3)


@pytest.mark.parametrize("numerics", ["bitnet-golden-1", "bitnetcpp-2025"])
@pytest.mark.parametrize("base", [1e-38, 1e-30, 1e-45, -1e4, 0.0, float("inf"), float("nan")])
def test_any_base_of_the_rotation_gets_an_answer(place: Path, tmp_path: Path, base: float, numerics: str) -> None:
    """Angles are powers of the base: a small base makes them too large for a meaningful cosine."""
    odd = tmp_path / "odd.gguf"
    with open_file(place / "m.gguf") as file:
        rewrite(file, odd, set={"bitnet-b1.58.rope.freq_base": base})
    words = ["golden", "record", str(odd), "--tokens", "1,2", "-o", str(tmp_path / "g"), "--numerics", numerics]
    assert called(*words, "--force", "-q") in (0, 2, 3)


@pytest.mark.parametrize(
    "shape", ["(0, 1" + 4000 * "0" + ")", "(0, 1" + 4400 * "0" + ")", "(True, 4)", str((1,) * 99), "(0, -1)", "(4.0,)"]
)
def test_hostile_headers_of_arrays(place: Path, tmp_path: Path, shape: str) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    data = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text + bytes(16 if "True" in shape else 0)
    (tmp_path / "x.npy").write_bytes(data)
    assert called("golden", "compare", str(place / "g"), str(tmp_path / "x.npy")) in (2, 3)
    (tmp_path / "y.npy").write_bytes(data.replace(b"\x02\x00", b"\x01\x00", 1))
    assert called("encode", str(tmp_path / "x.npy"), str(tmp_path / "o.gguf"), "--name", "a") in (2, 3)


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (1 << 26,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
        file.write(head.getvalue())
        for _ in range(256):
            file.write(bytes(1 << 20))
    assert (tmp_path / "x.npz").stat().st_size < 1 << 20
    with pytest.raises(FormatError, match="packed into"):
        read_dump(tmp_path / "x.npz")["a"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_compressed_otherwise_than_by_numpy_is_refused(tmp_path: Path, method: int) -> None:
    """For the first byte of a bzip2 or LZMA stream, Python unpacks a whole block: of a few hundred bytes, 800 MB."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive, archive.open("a.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 23,)})
        file.write(bytes(1 << 25))
    tracemalloc.start()
    with pytest.raises(FormatError, match="neither stored nor deflated"):
        read_dump(tmp_path / "x.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 21


def test_an_archive_of_zeros_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(1 << 20, dtype=np.float32))
    assert read_dump(tmp_path / "x.npz")["a"].value.size == 1 << 20


def test_a_shape_of_very_many_dimensions(tmp_path: Path, place: Path) -> None:
    shape = json.dumps([1 << 62] * 100_000)
    text = f'{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,0]}}}}'.encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert units(lambda: called("golden", "compare", str(place / "g"), str(path))) < 600
    assert called("lint", str(place / "m.gguf"), "--reference", str(path)) in (2, 3)


# --- the text of eval-callback ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", [": " * 250 + " = (" * 100, "a = (f32) " + "x(" * 400, "a = (f32) x(" + "a" * 900 + "}) = {1, 1, 1, 1}",
             "a = (f32) " * 80 + "}) = {1, 1, 1, 1}", "}) = {" * 150]
)  # fmt: skip
def test_lines_take_linear_time(line: str) -> None:
    assert len(line) <= LONGEST_LINE
    assert units(lambda: list(read_callback_text([line] * 3000))) < 600


@pytest.mark.parametrize(
    ("line", "name", "op", "sources"),
    [
        ("ggml_debug: Qcur-0 = (f32) MUL_MAT(blk.0.attn_q.weight{4, 4, 1, 1}, attn_norm-0{4, 2, 1, 1}}) = {4, 2, 1, 1}",
         "Qcur-0", "MUL_MAT", ("blk.0.attn_q.weight", "attn_norm-0")),
        ("0.01.2 I log: cache_k_l0 (view) (permuted) = (f16) PERMUTE(cache_k_l0 (view){1, 2, 3, 4}, }) = {4, 2, 1, 1}",
         "cache_k_l0 (view) (permuted)", "PERMUTE", ("cache_k_l0 (view)",)),
        ("  a b = (i32)  VIEW({}, }) = {1, 1, 1, 1} ", "a b", "VIEW", ()),
    ],
)  # fmt: skip
def test_lines_of_callback_text_are_parsed(line: str, name: str, op: str, sources: tuple[str, ...]) -> None:
    node = node_of(line)
    assert node is not None
    assert (node.name, node.op, node.sources) == (name, op, sources)


PIECES = [" = (", "f32", ") ", "OP(", "a{1, 2, 3, 4}", ", ", "}) = {", "1, 1, 1, 1}", ": ", " ", "x"]


@given(st.lists(st.sampled_from(PIECES)))
@examples(100)
def test_any_line_gets_an_answer(pieces: list[str]) -> None:
    node = node_of("".join(pieces))
    assert node is None or (node.name and len(node.ne) == 4)


# --- names of files -----------------------------------------------------------------------------------------------


def test_globs_follow_no_circles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gl" / "x" / "y").mkdir(parents=True)
    for name in ("gl/a", "gl/b", "gl/x/c"):
        (tmp_path / name).symlink_to(tmp_path / "gl")
    for name in ("gl/1.gguf", "gl/x/2.gguf", "gl/x/y/3.gguf", "gl/x/.hidden.gguf", "gl/x/4.txt"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    wanted = ["gl/1.gguf", "gl/x/2.gguf", "gl/x/y/3.gguf"]
    assert [each.path for each in inputs(["gl/**/*.gguf"])] == wanted
    assert [each.path for each in inputs(["gl/**"])] == wanted
    assert [each.path for each in inputs(["**/y/**/*.gguf"])] == wanted[2:]
    assert [each.path for each in inputs([f"{tmp_path}/**/[12].gguf"])] == [f"{tmp_path}/{name}" for name in wanted[:2]]
    assert [each.path for each in inputs(["gl/a/*.gguf"])] == ["gl/a/1.gguf"]
    assert inputs(["gl/**/*.bin"]).__next__().problem == "no file matches this pattern"


def test_globs_visit_each_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two links on each level, the number of paths is two to the power of the number of levels."""
    monkeypatch.chdir(tmp_path)
    for level in range(24):
        (tmp_path / f"d{level}").mkdir()
        for name in "ab":
            (tmp_path / f"d{level}" / name).symlink_to(f"../d{level + 1}")
    (tmp_path / "d24").mkdir()
    (tmp_path / "d24" / "1.gguf").write_bytes(b"")
    assert [each.path for each in inputs(["d0/" + "*/" * 24 + "*.gguf"])] == ["d0/" + "a/" * 24 + "1.gguf"]
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2" / "x.gguf").write_bytes(b"")
    (tmp_path / "latest").symlink_to("v2")
    assert [each.path for each in inputs(["[lv]*/*.gguf"])] == ["v2/x.gguf"]
    assert [each.path for each in inputs(["latest/*.gguf"])] == ["latest/x.gguf"]
    assert [each.path for each in inputs(["[lv]*/x.gguf"])] == ["v2/x.gguf", "latest/x.gguf"][::-1]
    assert [each.path for each in inputs(["[v]*/*/"])] == ["[v]*/*/"]


def test_a_folder_of_any_depth(tmp_path: Path) -> None:
    before = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
        for _ in range(1500):
            os.chdir("..")
        found = list(inputs([str(tmp_path)]))
        for number in range(1, 1500):  # deeply nested folders are unnested first, because deleting them may recurse
            os.rename("d/d", f"d{number}")
            os.rename("d", f"e{number}")
            os.rename(f"d{number}", "d")
    finally:
        os.chdir(before)
    assert len(found) == 1
    assert found[0].problem


@pytest.mark.parametrize("value", ["keys=1__0", "keys=_1", "keys=1_", "keys=-1", "keys=٣x", "keys=" + "9" * 21])
def test_limits_that_are_not_numbers_are_refused(place: Path, value: str) -> None:
    assert called("lint", str(place / "m.gguf"), "--limit", value) == 2


# --- tensors that share bytes ------------------------------------------------------------------------------------


def stairs(count: int, size: int) -> bytes:
    """Tensors of `size` floats, each 32 bytes after the one before."""
    records = Draft().records()
    records.tensor_infos = [tensor_info(b"t%d" % i, (size,), 0, 32 * i) for i in range(count)]
    records.data = bytes(32 * count + 4 * size)
    return Draft().built(records)


@pytest.mark.parametrize(("verb", "code"), [("hash F", 2), ("fix F --dry-run --scrub-tail", 1), ("diff F F", 2)])
def test_tensors_that_share_bytes_are_not_read_again_and_again(
    tmp_path: Path, verb: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """If each were read whole, the time would grow with the square of the file's size."""
    path = tmp_path / "stair.gguf"
    path.write_bytes(stairs(500, 1 << 14).replace(b"sample.flag\x07\0\0\0\x01", b"sample.flag\x07\0\0\0\x02"))
    assert called(*(str(path) if word == "F" else word for word in verb.split())) == code
    said = capsys.readouterr()
    assert "tensors share bytes" in said.out + said.err


# --- inputs are never overwritten --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "convert M LINK --to interleave-64 --force",
        "convert M M --to interleave-64 --force",
        "decode M blk.0.attn_q.weight M --force",
        "encode Q M --scale 0.5 --into M --tensor blk.0.attn_q.weight --force",
        "encode Q Q --scale 0.5 --force",
        "diff M N -o M --force",
        "diff N M --lineage --format html -o LINK --force",
        "perplexity M --tokens 1,5,9,20,33,64,100,200 -c 4 --kl-divergence-base M",
        "golden compare g g --model M -o M",
        "embed M --text x -o M --overwrite",
    ],
)
def test_no_verb_replaces_a_file_that_it_reads(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    names = {name: tmp_path / f"{name}.bin" for name in ("M", "N", "Q", "LINK")}
    model = (place / "m.gguf").read_bytes()
    names["M"].write_bytes(model)
    names["N"].write_bytes(model)
    names["LINK"].hardlink_to(names["M"])
    with names["Q"].open("wb") as file:
        np.save(file, np.zeros((128, 128), np.int8))
    before = {name: path.read_bytes() for name, path in names.items()}
    assert called(*(str(names.get(word, word)) for word in words.split())) == 2
    assert "is an input file; the output needs another name" in capsys.readouterr().err
    assert {name: path.read_bytes() for name, path in names.items()} == before


@pytest.mark.parametrize(
    "words",
    [
        "diff m.gguf NO", "diff NO m.gguf", "hash NO", "identify NO", "fix NO --dry-run", "sanitize NO --dry-run",
        "perplexity NO --tokens 1,2,3,4 -c 4", "run NO --tokens 1", "embed NO --text x", "convert NO o --to I2_S",
        "decode NO t o", "encode NO o", "golden record NO --tokens 1 -o r",
    ],
)  # fmt: skip
@pytest.mark.parametrize("broken", ["nothing", "empty", "no-gguf"])
def test_an_error_names_its_file(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, broken: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(place)
    path = tmp_path / broken
    if broken != "nothing":
        path.write_bytes(b"" if broken == "empty" else b"no GGUF file, nor an array")
    assert called(*(str(path) if word == "NO" else word for word in words.split())) == 3
    said = capsys.readouterr().err
    assert str(path) in said
    assert "0x0..0x0" not in said


# --- the process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "closed"),
    share(
        product(
            ["lint m.gguf", "show m.gguf", "hash m.gguf", "fix m.gguf -o OUT", "--version", "info"],
            [">&-", "2>&-", "<&- >&- 2>&-"],
        ),
        every=4,
    ),
)
def test_verbs_work_with_closed_streams(place: Path, tmp_path: Path, closed: str, verb: str) -> None:
    command = f'"$0" -m i2s_spec {verb.replace("OUT", str(tmp_path / "o.gguf"))} {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=place, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0
    assert b"error" not in done.stderr
    if "OUT" in verb:
        assert (tmp_path / "o.gguf").read_bytes()[:4] == b"GGUF"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (MemoryError(), "not enough memory"),
        (RuntimeError("can't start new thread"), "no further thread can be started"),
    ],
)
def test_shortage_is_not_reported_as_a_bug(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: Exception, message: str
) -> None:
    module = import_module("i2s_spec.compare.hash")  # the package has a function of this name

    def short(*rest: object, **options: object) -> None:
        raise failure

    monkeypatch.setattr(module, "hash", short)
    assert called("hash", str(place / "m.gguf")) == 71
    assert message in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="a limit for open files")
@pytest.mark.parametrize("verb", ["lint", "import"])
def test_too_many_open_files_are_no_fault_of_the_input(tmp_path: Path, verb: str) -> None:
    """A folder with more shards than files may be open: no shard is called unreadable, and nothing is a bug."""
    folder = tmp_path / "ck"
    folder.mkdir()
    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    names = [f"model-{i:05d}-of-00080.safetensors" for i in range(1, 81)]
    for name in names:
        text = header.replace(b'"x"', f'"{name}"'.encode())
        (folder / name).write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    weights = {"metadata": {}, "weight_map": {name: name for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(weights), encoding="utf-8")
    (folder / "config.json").write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}', encoding="utf-8"
    )
    command = f"ulimit -n 64; exec {sys.executable} -m i2s_spec {verb} ck" + (" -o o.gguf" if verb == "import" else "")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 71, done.stderr
    assert (
        done.stderr
        == "i2s: too many files are open at once (ulimit -n allows more); this says nothing about the input\n"
    )
    assert done.stdout == ""


# --- exit codes for arbitrary files -------------------------------------------------------------------------------


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("words", ["hash F", "fix F --dry-run", "diff F F", "identify F --sha256", "run F --prompt x"])
def test_a_sparse_file_is_not_read_whole(place: Path, tmp_path: Path, words: str) -> None:
    path = tmp_path / "F"
    draft = Draft()
    file = draft.records()
    file.key_values[4].value = 2  # so that there is something to repair
    file.tensor_infos = [tensor_info(b"t", (1 << 40,), 0, 0)]
    file.data = b""
    path.write_bytes(draft.built(file))
    with path.open("r+b") as stream:
        try:
            stream.truncate(path.stat().st_size + 4 * (1 << 40))
        except OSError:
            pytest.skip("no file here may be that large")
    with open_file(path) as opened, pytest.raises(ValueError, match="bytes were ever written"):
        require_written(opened.source)
    done = i2s(tmp_path, *words.replace("F", str(path)).split())
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert "were ever written" in done.stderr + done.stdout or words.startswith("run")


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("words", ["fix F --dry-run", "fix F -o O --unsafe", "sanitize F -o O"])
def test_a_hole_behind_the_last_tensor_is_not_read(place: Path, tmp_path: Path, words: str) -> None:
    shutil.copy(place / "m.gguf", tmp_path / "F")
    with (tmp_path / "F").open("r+b") as stream:
        try:
            stream.truncate(4 << 40)
        except OSError:
            pytest.skip("no file here may be that large")
    done = i2s(tmp_path, *words.split())
    assert (done.returncode, os.listdir(tmp_path)) == (2, ["F"])
    assert "were ever written" in done.stderr


def test_a_file_with_a_hole_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(Draft().data)
    with path.open("r+b") as stream:
        stream.truncate(1 << 24)
    with open_file(path) as opened:
        require_written(opened.source)
    assert called("hash", str(path)) == 0


@pytest.mark.parametrize("words", ["hash F --json", "identify F --json", "identify F --format json", "diff F F --json",
                                   "diff m.gguf F --format json"])  # fmt: skip
def test_errors_are_json_with_json_output(
    place: Path, monkeypatch: pytest.MonkeyPatch, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert called(*words.replace("F", "missing").split()) == 3
    out = capsys.readouterr().out
    document = json.loads(out)
    assert (document["path"], document["fault"]["code"]) == ("missing", "S901")
    schema = {"identify": "inspect/identify.schema.json", "diff": "compare/diff.schema.json"}.get(
        words.split(maxsplit=1)[0]
    )
    if schema is not None:
        package = Path(i2s_spec.__file__).parent
        jsonschema.validate(document, json.loads((package / schema).read_text(encoding="utf-8")))


@pytest.mark.parametrize("words", ["golden compare g g -o F -q", "perplexity m.gguf --tokens 1,5,9,20,33,64,100,200 -c 4 "
                                   "--kl-divergence-base F -q"])  # fmt: skip
def test_no_other_file_is_replaced_unasked(place: Path, tmp_path: Path, monkeypatch: Any, words: str) -> None:
    monkeypatch.chdir(place)
    path = tmp_path / "F"
    path.write_bytes(b"mine")
    line = words.replace("F", str(path)).split()
    assert called(*line) == 2
    assert path.read_bytes() == b"mine"
    assert called(*line, "--overwrite" if "perplexity" in words else "--force") == 0
    assert path.read_bytes() != b"mine"


@pytest.mark.parametrize("scale", ["nan", "inf", "-inf"])
def test_a_scale_that_is_not_a_number_is_refused(
    tmp_path: Path, scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for dtype in (np.int8, np.float32):
        np.save(tmp_path / "a.npy", np.ones((2, 128), dtype))
        assert called("encode", str(tmp_path / "a.npy"), str(tmp_path / "out"), "--scale", scale) == 2
        assert "no weight can be computed from it" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_file_of_four_bytes_has_no_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").write_bytes(b"GGUF")
    assert called("identify", str(tmp_path / "f")) == 1
    assert "version unknown" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"<html>", b"GGUF", Draft().data])
@pytest.mark.parametrize("words", ["run F --prompt x", "golden record F --tokens 1 -o h"])
def test_force_is_named_only_where_it_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("F").write_bytes(content)
    assert called(*words.split()) in (2, 3)
    assert "--force tries it" not in capsys.readouterr().err
