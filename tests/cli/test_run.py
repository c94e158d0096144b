"""`i2s run`, `i2s perplexity` and `i2s embed` on the command line."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from one_process import i2s as i2s_run
from one_process import i2s_bytes
from transcripts_runner import check, run, transcripts, workshop

import i2s_spec as i2s
from i2s_spec.cli.run import ModelText, harmless
from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer

I2S = [sys.executable, "-m", "i2s_spec"]
GOLDEN = ("--numerics", "bitnet-golden-1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = workshop(tmp_path_factory.mktemp("models"))
    for name in ("bitnet-b1.58", "bitnet", "llama", "qwen3", "gemma3"):
        i2s.new(folder / f"{name}.gguf", name)
    i2s.new(folder / "long.gguf", "llama", context=2048)
    (folder / "text.txt").write_text("The weights are ternary, and the scale is one number. " * 30)
    (folder / "latin1.txt").write_bytes("größer".encode("latin-1"))
    return folder


@pytest.mark.parametrize("transcript", transcripts("run-", "perplexity-", "embed-"), ids=lambda path: path.stem)
def test_transcript(transcript: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    check(transcript, folder, write=request.config.getoption("--write-transcripts", default=False))


@pytest.mark.parametrize("verb", ["run", "perplexity", "embed"])
def test_help_has_an_example(verb: str, folder: Path) -> None:
    text = run(f"i2s {verb} --help", folder)
    assert f"&& i2s {verb} tiny.gguf" in text


@pytest.mark.parametrize("name", ["bitnet-b1.58", "bitnet", "llama"])
def test_a_synthetic_model_generates_tokens(name: str, folder: Path) -> None:
    result = i2s_run(folder, "run", f"{name}.gguf", "--prompt", "The weights are", "-n", "8", "--ids")
    assert result.returncode == 0
    ids = [int(word) for word in result.stdout.split(",")]
    assert 1 <= len(ids) <= 8
    assert "tok/s" in result.stderr
    with open_file(folder / f"{name}.gguf") as file:
        assert max(ids) < len(file.metadata["tokenizer.ggml.tokens"])


def test_ids_and_text_are_the_same_prompt(folder: Path) -> None:
    by_text = json.loads(
        i2s_run(folder, "run", "llama.gguf", "-p", "ab", "-n", "4", "--format", "json", *GOLDEN).stdout
    )
    ids = ",".join(map(str, by_text["prompt_tokens"]))
    by_ids = json.loads(
        i2s_run(folder, "run", "llama.gguf", "--tokens", ids, "-n", "4", "--format", "json", *GOLDEN).stdout
    )
    assert by_text["schema_version"] == 1
    assert by_text["tokens"] == by_ids["tokens"]
    assert by_text["reason"] in ("limit", "end")
    (folder / "prompt.txt").write_text("ab")
    from_file = i2s_run(folder, "run", "llama.gguf", "-f", "prompt.txt", "-n", "4", "--ids", "-q", *GOLDEN)
    from_stdin = i2s_run(folder, "run", "llama.gguf", "-f", "-", "-n", "4", "--ids", "-q", *GOLDEN, text="ab")
    assert from_file.stdout == from_stdin.stdout == ",".join(map(str, by_text["tokens"])) + "\n"
    assert from_file.stderr == ""


def test_several_prompts_give_each_what_it_gives_alone(folder: Path) -> None:
    prompts, settings = ("ab", "The weights are ternary", "x"), ("-n", "7", "--temperature", "9", "-q")
    words = [word for prompt in prompts for word in ("-p", prompt)]
    alone = [
        json.loads(i2s_run(folder, "run", "llama.gguf", "-p", each, *settings, "--json").stdout) for each in prompts
    ]
    together = json.loads(i2s_run(folder, "run", "llama.gguf", *words, *settings, "--json").stdout)
    members = ("prompt_tokens", "tokens", "text", "reason")
    assert together["generations"] == [{name: each[name] for name in members} for each in alone]
    ids = i2s_run(folder, "run", "llama.gguf", *words, *settings, "--ids").stdout
    assert ids == "".join(",".join(map(str, each["tokens"])) + "\n" for each in alone)
    given = [word for each in alone for word in ("--tokens", ",".join(map(str, each["prompt_tokens"])))]
    assert i2s_run(folder, "run", "llama.gguf", *given, *settings, "--ids").stdout == ids
    mixed = i2s_run(folder, "run", "llama.gguf", "-p", "a", "--tokens", "1", *settings)
    assert (mixed.returncode, mixed.stdout) == (2, "")


def test_seeds(folder: Path) -> None:
    drawn = [
        i2s_run(
            folder, "run", "llama.gguf", "-p", "a", "-q", "--ids", "--temperature", "30", "--seed", seed, *GOLDEN
        ).stdout
        for seed in ("1", "1", "2")
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_chat_answers_every_line(folder: Path) -> None:
    result = i2s_run(folder, "run", "bitnet-b1.58.gguf", "--chat", "-n", "3", *GOLDEN, text="Hello\n\nWho are you?\n")
    assert result.returncode == 0
    assert result.stderr.count("tok") >= 2
    assert "chat format: bitnet" in result.stderr
    again = i2s_run(folder, "run", "bitnet-b1.58.gguf", "--chat", "-n", "3", *GOLDEN, text="Hello\n\nWho are you?\n")
    assert again.stdout == result.stdout != ""


def test_a_chat_renders_the_template_only_if_asked(folder: Path) -> None:
    pytest.importorskip("jinja2", reason="the extra [chat] is not installed")
    args = ("run", "bitnet-b1.58.gguf", "--chat", "-n", "3", "-q", *GOLDEN)
    declared = i2s_run(folder, *args, text="Hello\n")
    rendered = i2s_run(folder, *args, "--chat-format", "file", text="Hello\n")
    assert rendered.returncode == 0
    assert rendered.stdout == declared.stdout


def test_a_chat_ends_where_the_context_does(folder: Path) -> None:
    result = i2s_run(
        folder,
        "run",
        "bitnet-b1.58.gguf",
        "--chat",
        "-n",
        "3",
        "--context",
        "80",
        text="Hello\n" + "many words " * 50 + "\nx\n",
    )
    assert result.returncode == 0
    assert "the conversation ends here" in result.stderr


def hostile_model(folder: Path) -> str:
    """A model whose every token is an escape sequence, and which repeats the last one."""
    path, repeats = folder / "hostile.gguf", folder / "repeats.gguf"
    new(repeats, "bitnet", unit_tables=True, force=True)
    with open_file(repeats) as file, Writer(path, force=True) as writer:
        for entry in file.metadata.rows:
            value = file.metadata.decode(entry)
            if entry.key == "tokenizer.ggml.tokens":
                value = [*value[:259], *(f"\x1b]0;{i}\x07\u202e" for i in range(259, len(value)))]
            if entry.key == "tokenizer.ggml.token_type":
                value = [3] * 3 + [1] * 256 + [1] * (len(value) - 259)
            writer.add(entry.key, value, entry.label)
        for tensor in file.tensors.values():
            assert tensor.type is not None
            writer.add_tensor(tensor.name, tensor.shape, tensor.type.name, tensor.read())
    return path.name


def on_a_terminal(folder: Path, *args: str, errors: bool = False) -> bytes:
    """What a command writes to a terminal; stdout, or the errors, while the other goes into a file."""
    parent, child = pty.openpty()
    with (
        open(folder / "other.txt", "wb") as other,
        subprocess.Popen(
            [*I2S, *args], cwd=folder, stdout=other if errors else child, stderr=child if errors else other
        ) as process,
    ):
        os.close(child)
        shown = b""
        while True:
            try:
                data = os.read(parent, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        process.wait()
    os.close(parent)
    return shown


def test_text_of_a_model_does_not_act_on_a_terminal(folder: Path) -> None:
    args = ("run", hostile_model(folder), "--tokens", "1,300", "-n", "4", "-q", "--force", *GOLDEN)
    piped = i2s_run(folder, *args).stdout
    assert "\x1b]0;" in piped  # escape sequences are passed through to a pipe
    shown = on_a_terminal(folder, *args)
    assert b"\x1b" not in shown
    assert "\u202e".encode() not in shown
    assert b"\\x1b]0;" in shown
    assert b"\x1b]0;" in on_a_terminal(folder, *args, "--raw")
    assert "\x1b" not in i2s_run(folder, *args, "--escape").stdout


@pytest.mark.parametrize(
    "args",
    [
        ("perplexity", "llama.gguf", "-f", "text.txt", "--context", "32", "--chunks", "8", *GOLDEN),
        ("embed", "qwen3.gguf", "-t", "a", "-t", "b", *GOLDEN),
        pytest.param(
            ("run", "long.gguf", "-f", "text.txt", "--context", "1300", "-n", "2", "--ids", *GOLDEN),
            marks=pytest.mark.thorough,
        ),
    ],
    ids=lambda args: args[0],
)
def test_progress_bars_do_not_change_the_result(args: tuple[str, ...], folder: Path) -> None:
    shown = on_a_terminal(folder, *args, errors=True)
    result = (folder / "other.txt").read_text()
    assert b"\x1b[" in shown  # a progress bar was shown
    assert result == i2s_run(folder, *args).stdout != ""
    assert b"\x1b[" not in on_a_terminal(folder, *args, "-q", errors=True)


def test_control_characters_in_text_of_a_model_are_escaped() -> None:
    assert harmless("a\tb\nc é 你 👩‍👩‍👧 ‌") == "a\tb\nc é 你 👩‍👩‍👧 ‌"
    assert (
        harmless("\r\x08\x7f\x9b\u2066\ufeff\U000e0041\ud800") == "\\x0d\\x08\\x7f\\x9b\\u2066\\ufeff\\U000e0041\\ud800"
    )
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    ModelText(stream).write("é")
    stream.seek(0)
    assert stream.read() == "\\xe9"


def test_a_closed_pipe_is_not_an_error(folder: Path) -> None:
    command = f"{' '.join(I2S)} run llama.gguf -p a -n 400 -q --ids --ignore-end | head -c 3"
    result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert (len(result.stdout), result.stderr) == (3, "")


@pytest.mark.parametrize("chat", [False, True])
def test_ctrl_c(chat: bool, folder: Path) -> None:
    args = ["--chat"] if chat else ["-p", "a", "-n", "500", "--ignore-end", *GOLDEN]
    with subprocess.Popen(
        [*I2S, "run", "bitnet-b1.58.gguf", *args], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        stream = process.stderr if chat else process.stdout
        assert select.select([stream], [], [], 60)[0]
        os.read(stream.fileno(), 1)
        time.sleep(0.2 if chat else 0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
        assert process.returncode == 130
        assert b"interrupted" in err
        assert b"Traceback" not in err


def test_without_the_extra_text_and_ids_work(folder: Path) -> None:
    blocked = "import sys; sys.modules['tokenizers'] = None; from i2s_spec.cli import main; main()"
    command = [sys.executable, "-c", blocked, "run", "llama.gguf", "-n", "3", *GOLDEN]
    text = subprocess.run([*command, "-p", "a"], cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert text.returncode == 0, text.stderr
    assert text.stdout == i2s_run(folder, "run", "llama.gguf", "-n", "3", *GOLDEN, "-p", "a").stdout
    works = subprocess.run(
        [*command, "--tokens", "1,2"], cwd=folder, capture_output=True, encoding="utf-8", check=False
    )
    assert works.returncode == 0
    assert works.stdout != ""


def test_embeddings(folder: Path) -> None:
    args = ("embed", "qwen3.gguf", "-t", "ternary weights", "-t", "bread", *GOLDEN)
    text = i2s_run(folder, *args).stdout
    rows = np.array([[float(word) for word in line.split()] for line in text.splitlines()], np.float32)
    assert rows.shape == (2, 128)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    document = json.loads(i2s_run(folder, *args, "--format", "json").stdout)
    assert np.array_equal(np.float32(document["embeddings"]), rows)
    assert document["tokens"][0][-1] == 318  # the last token that the file asks for
    npy = i2s_bytes(folder, *args, "--format", "npy").stdout
    assert np.array_equal(np.load(io.BytesIO(npy)), rows)
    assert i2s_run(folder, *args, "--format", "npy", "-o", "out.npy").returncode == 0
    assert np.array_equal(np.load(folder / "out.npy"), rows)
    refused = i2s_run(folder, *args, "--format", "npy", "-o", "out.npy")
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert i2s_run(folder, *args, "--format", "npy", "-o", "out.npy", "--overwrite").returncode == 0
    similar = i2s_run(folder, *args, "--similarity").stdout.split()
    assert [similar[0], similar[3]] == pytest.approx(["1.0", "1.0"]) or float(similar[0]) == pytest.approx(1, abs=1e-6)
    assert similar[1] == similar[2]


def test_perplexity_as_json(folder: Path) -> None:
    args = ("perplexity", "bitnet-b1.58.gguf", "-f", "text.txt", "--context", "32", "--chunks", "2", *GOLDEN)
    document = json.loads(i2s_run(folder, *args, "--format", "json").stdout)
    assert document["convention"] == "llama-perplexity"
    assert (document["chunks"], document["context"], document["scored_tokens"]) == (2, 32, 2 * 15)
    assert document["bos"] == 381
    assert document["pre"] == "llama-bpe"
    assert document["perplexity"] == pytest.approx(np.exp(document["mean_negative_log_likelihood"]))
    without = json.loads(i2s_run(folder, *args, "--no-bos", "--format", "json").stdout)
    assert without["bos"] is None
    assert without["perplexity"] != document["perplexity"]


# --- reading and mapping ---------------------------------------------------------------------------------------------

#: Runs `i2s` with its arguments and prints the peak of this process in KiB on stderr.
PEAK = """
import sys
from i2s_spec.cli import main
try:
    main(sys.argv[1:])
finally:
    with open("/proc/self/status", encoding="latin-1") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def heavy(folder: Path) -> Path:
    """A model of 52 MB: a copy of its weights would show."""
    path = folder / "heavy.gguf"
    i2s.new(path, layers=2, embd=2560, ff=6912, heads=20, heads_kv=5, vocab=4096)
    return path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("trusted", [[], ["--trusted"]], ids=["read", "mapped"])
def test_the_first_token_takes_the_memory_of_the_file(heavy: Path, trusted: list[str]) -> None:
    words = ["run", os.fspath(heavy), "--tokens", "1,2,3", "-n", "1", "-q", *trusted]
    command = [sys.executable, "-c", PEAK, *words, "--ids"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=heavy.parent)
    assert int(done.stderr) * 1024 - heavy.stat().st_size < 60 << 20


def test_a_mapped_file_gives_the_same_tokens(heavy: Path, folder: Path) -> None:
    for model, numerics in ((heavy, ()), (folder / "llama.gguf", GOLDEN)):
        words = ("run", os.fspath(model), "--tokens", "5,6,7", "-n", "6", "--ids", "-q", *numerics)
        read, mapped = i2s_run(folder, *words), i2s_run(folder, *words, "--trusted")
        assert (read.returncode, read.stderr) == (0, "")
        assert (mapped.returncode, mapped.stdout, mapped.stderr) == (0, read.stdout, "")


@pytest.mark.parametrize("left", [0, 20, 3000, 100_000, -1])
def test_a_truncated_file_is_refused_read_or_mapped(folder: Path, tmp_path: Path, left: int) -> None:
    data = (folder / "llama.gguf").read_bytes()
    (tmp_path / "short.gguf").write_bytes(data[:left])
    for verb in (("run", "--tokens", "1,2,3", "-n", "1"), ("perplexity", "--tokens", "1,2,3,4", "-c", "4")):
        read, mapped = (i2s_run(tmp_path, verb[0], "short.gguf", *verb[1:], *how) for how in ((), ("--trusted",)))
        assert read.returncode in (1, 3)
        assert (mapped.returncode, mapped.stdout, mapped.stderr) == (read.returncode, "", read.stderr)
        forced = [i2s_run(tmp_path, verb[0], "short.gguf", *verb[1:], "--force", *how) for how in ((), ("--trusted",))]
        assert {each.returncode for each in forced} <= {1, 3}
