"""Sound files as real writers make them, and what `i2s lint` says of them: `python tests/peers sound`.

    python tests/peers sound FOLDER --tree LLAMA_CPP --python VENV/bin/python

Tiny random checkpoints of transformers are converted by llama.cpp's convert_hf_to_gguf.py, and quantised by its library.
That takes half an hour, transformers and PyTorch (`--python`), and llama.cpp's tree (`--tree`), for example that of
llama-cpp-python's source distribution; so it is no part of CI. The files stay in FOLDER, with `verdicts.json`; those that
are there are not made again. The counts are written to `sound.json`, of which the site makes a table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

#: The results.
SOUND_FILE: Final = Path(__file__).with_name("sound.json")

_CHILDREN: Final = Path(__file__).parent / "children"


class Checkpoint(NamedTuple):
    """A checkpoint: `model` is transformers' name of its sort, `config` what differs from small sizes (`SMALL` of
    `children/convert_checkpoints.py`), `task` what is loaded.
    """

    name: str
    model: str
    tokenizer: Literal["bpe", "spm", "wordpiece"] = "bpe"
    task: Literal["text", "encoder", "seq2seq"] = "text"
    config: tuple[tuple[str, Any], ...] = ()


_SIZES_OF_K: Final = (
    ("hidden_size", 256),
    ("intermediate_size", 512),
    ("moe_intermediate_size", 256),
    ("head_dim", 64),
)
_T5: Final = (("decoder_start_token_id", 0),)
_MAMBA2: Final = (("num_heads", 8), ("head_dim", 16), ("n_groups", 1))

#: Checkpoints whose names are those of transformers, by what each needs beside small sizes.
_PLAIN: Final = (
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "bloom", "starcoder2", "olmo2", "olmo3",
    "stablelm", "glm", "glm4", "glm4_moe", "granite", "granitemoe", "granitemoehybrid", "mamba", "falcon_mamba", "gpt_oss",
    "lfm2", "smollm3", "exaone4", "nemotron_h", "arcee", "apertus", "seed_oss", "hunyuan_v1_dense", "llama4_text",
    "ministral3", "afmoe", "jais2", "exaone_moe", "laguna", "hy_v3", "mellum", "hrm_text", "granite_swa",
)  # fmt: skip
_OF_PIECES: Final = ("gemma", "gemma2", "gemma3_text", "phi3", "jamba", "nemotron", "ernie4_5", "ernie4_5_moe")
_WITH_ALL_HEADS: Final = ("dots1", "olmo", "olmoe", "deepseek_v2", "deepseek_v3", "youtu", "glm4_moe_lite")

CHECKPOINTS: Final = (
    *(Checkpoint(name, name) for name in _PLAIN),
    *(Checkpoint(name, name, "spm") for name in _OF_PIECES),
    *(Checkpoint(name, name, config=(("num_key_value_heads", 4),)) for name in _WITH_ALL_HEADS),
    Checkpoint("cohere", "cohere", config=(("tie_word_embeddings", True),)),
    Checkpoint("llama-spm", "llama", "spm"),
    Checkpoint("llama-tied", "llama", config=(("tie_word_embeddings", True),)),
    *(Checkpoint(f"{name}-256", name, config=_SIZES_OF_K) for name in ("llama", "mixtral", "qwen3_moe")),
    Checkpoint("phi", "phi", config=(("num_key_value_heads", 4), ("intermediate_size", 256))),
    Checkpoint("gpt2", "gpt2", config=(("n_ctx", 128), ("n_inner", 256))),
    Checkpoint("falcon", "falcon", config=(("num_kv_heads", 1), ("ffn_hidden_size", 256))),
    Checkpoint("gpt_bigcode", "gpt_bigcode", config=(("n_inner", 256),)),
    Checkpoint("mamba2", "mamba2", config=_MAMBA2),
    Checkpoint("bert", "bert", "wordpiece", "encoder"),
    *(Checkpoint(name, name, task="encoder") for name in ("roberta", "modernbert")),
    Checkpoint("eurobert", "eurobert", task="encoder", config=(("classifier_pooling", "mean"),)),
    Checkpoint("t5", "t5", "spm", "seq2seq", _T5),
    Checkpoint("t5-gated", "t5", "spm", "seq2seq", (*_T5, ("feed_forward_proj", "gated-gelu"))),
)

#: Types of the converter's output beside f16, and checkpoints that are converted to them.
_OUTPUTS: Final = ("f32", "bf16", "q8_0", "tq1_0", "tq2_0")
_IN_ALL_OUTPUTS: Final = (
    "llama-256", "llama-spm", "mixtral-256", "qwen2", "qwen3_moe-256", "gemma2", "gpt2", "mamba", "granite",
)  # fmt: skip

#: Options that change what a file consists of, and the checkpoints that are converted with them.
_OPTIONS: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    "vocabulary": (("--vocab-only",), ("llama", "llama-spm", "gemma", "bert", "t5")),
    "parts": (("--split-max-tensors", "8"), ("llama", "qwen3", "mixtral")),
    "parts, the first without tensors": (
        ("--split-max-tensors", "8", "--no-tensor-first-split"),
        ("llama", "gemma3_text"),
    ),
    "q, k and v in one": (("--fuse-qkv",), ("llama", "qwen3", "gemma3_text", "mistral")),
    "q, k and v in one, ternary": (("--fuse-qkv", "--outtype", "tq2_0"), ("llama-256", "qwen3_moe-256")),
    "gate and up in one": (("--fuse-gate-up-exps",), ("granite_swa",)),
}

#: llama.cpp's numbers of file types, and the checkpoints of which files are quantised to each. Types below three bits
#: need statistics of activations that a random model does not have.
_FILE_TYPES: Final = {
    "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14,
    "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "Q2_K": 10, "IQ4_NL": 25, "IQ4_XS": 30, "IQ3_S": 26, "IQ3_M": 27,
    "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38, "Q1_0": 40, "Q2_0": 41,
}  # fmt: skip
_QUANTISED: Final = ("llama-256", "mixtral-256")


class File(NamedTuple):
    """A file that was made: `kind` is what made it, `path` for a set its first part."""

    kind: str
    path: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for the files and checkpoints")
    parser.add_argument("--tree", type=Path, required=True, help="a checkout of llama.cpp")
    parser.add_argument("--python", default=sys.executable, help="the interpreter with transformers and PyTorch")
    parser.add_argument("-o", "--output", type=Path, default=SOUND_FILE, metavar="OUT", help="the results' file")


def run(options: argparse.Namespace) -> int:
    """Make the files and judge them; the result is the exit status."""
    from peers.judge import missing

    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = [*_converted(folder, options.tree.resolve(), options.python), *_quantised(folder)]
    files += [File("vocabulary of llama.cpp", path) for path in sorted((options.tree / "models").glob("*.gguf"))]
    found = _judged(files, folder)
    options.output.write_text(as_text(found), encoding="utf-8")
    sound = [each for each in found if each["verdict"] == "load"]
    errors, warnings = (sum(bool(each[name]) for each in sound) for name in ("errors", "warnings"))
    print(
        f"{len(sound)} of {len(found)} files are sound; lint finds errors in {errors} of them, warnings in {warnings}"
    )
    return 0


# Making.


def _converted(folder: Path, tree: Path, python: str) -> list[File]:
    """Files of the converter; those that it cannot make are named on the error output."""
    jobs = list(_jobs(folder))
    wanted = [(file, job) for file, job in jobs if not _first_part(file.path).is_file()]
    words = [python, str(_CHILDREN / "convert_checkpoints.py"), str(tree), str(folder / "checkpoints")]
    with subprocess.Popen(
        words, encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for file, job in wanted:
            child.stdin.write(json.dumps(job) + "\n")
            child.stdin.flush()
            reason = json.loads(child.stdout.readline())
            if reason is not None:
                print(f"{file.path.name}: {reason}", file=sys.stderr)
        child.stdin.close()
    return [File(file.kind, _first_part(file.path)) for file, _ in jobs if _first_part(file.path).is_file()]


def _jobs(folder: Path) -> Iterator[tuple[File, dict[str, Any]]]:
    """Each file of the converter, and the job that makes it."""
    by_name = {each.name: each for each in CHECKPOINTS}
    for each in CHECKPOINTS:
        yield _job(folder, each, "f16", ("--outtype", "f16"))
    for output in _OUTPUTS:
        for name in _IN_ALL_OUTPUTS:
            yield _job(folder, by_name[name], output, ("--outtype", output))
    for kind, (options, names) in _OPTIONS.items():
        for name in names:
            yield _job(folder, by_name[name], kind, ("--outtype", "f16", *options))


def _job(folder: Path, each: Checkpoint, kind: str, options: Sequence[str]) -> tuple[File, dict[str, Any]]:
    path = folder / f"{each.name}--{kind.replace(', ', '-').replace(' ', '-')}.gguf"
    job = {
        "checkpoint": each.name, "model": each.model, "config": dict(each.config), "tokenizer": each.tokenizer,
        "task": each.task, "file": str(path), "options": list(options),
    }  # fmt: skip
    return File(f"converter: {kind}", path), job


def _first_part(path: Path) -> Path:
    """The first part of a set that was written by a path's name, or the path if there is none."""
    return next(iter(sorted(path.parent.glob(f"{path.stem}-00001-of-*.gguf"))), path)


def _quantised(folder: Path) -> list[File]:
    """Files that the library quantised."""
    from peers.judge import LIBRARY

    jobs = [
        (
            File("quantised", folder / f"{name}--{word}.gguf"),
            {"source": f"{folder / name}--f32.gguf", "file_type": number},
        )
        for name in _QUANTISED
        for word, number in _FILE_TYPES.items()
        if (folder / f"{name}--f32.gguf").is_file()
    ]
    lines = [
        json.dumps({**job, "target": str(file.path)}) + "\n" for file, job in jobs if not file.path.is_file()
    ]  # fmt: skip
    words = [
        sys.executable,
        str(_CHILDREN / "quantize_llama_cpp.py"),
        str(LIBRARY.folder / "node_modules" / LIBRARY.name),
    ]
    subprocess.run(words, input="".join(lines), encoding="utf-8", capture_output=True, check=True)
    return [file for file, _ in jobs if file.path.is_file()]


# Judging.


def _judged(files: Sequence[File], folder: Path) -> list[dict[str, Any]]:
    """Each file's kind, verdict, and what lint finds."""
    import i2s_spec as i2s
    from peers.judge import VOCABULARY, Verdict, judge

    only = ["vocabulary" in file.kind for file in files]
    verdicts: dict[Path, Verdict] = {}
    for vocabulary in (True, False):
        paths = [file.path for file, each in zip(files, only, strict=True) if each == vocabulary]
        verdicts |= dict(zip(paths, judge(paths, VOCABULARY) if vocabulary else judge(paths), strict=True))
    words = {str(path): each.word for path, each in verdicts.items()}
    (folder / "verdicts.json").write_text(json.dumps(words, indent=0), encoding="utf-8")
    found = []
    for file in files:
        findings = i2s.lint(file.path).findings
        codes = {
            severity: sorted({each.code for each in findings if each.severity == severity.removesuffix("s")})
            for severity in ("errors", "warnings")
        }
        verdict = verdicts[file.path]
        found.append({"kind": file.kind, "file": file.path.name, "verdict": verdict.word, **codes})
    return found


def as_text(found: Iterable[dict[str, Any]]) -> str:
    """The results for the repository: a line for each kind, and for each sound file in which lint finds something."""
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in found:
        kinds[each["kind"]].append(each)
    rows, alarms = [], []
    for kind, files in kinds.items():
        sound = [each for each in files if each["verdict"] == "load"]
        counts = [sum(bool(each[name]) for each in sound) for name in ("errors", "warnings")]
        rows.append([kind, len(files), len(sound), *counts])
        alarms += [
            [each["file"], each["errors"], each["warnings"]] for each in sound if each["errors"] or each["warnings"]
        ]

    def lines(values: Iterable[Any]) -> str:
        return ",\n".join(json.dumps(each, ensure_ascii=False) for each in values)

    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f'{{\n"date": "{date}",\n"kinds": [\n{lines(rows)}\n],\n"found": [\n{lines(alarms)}\n]\n}}\n'
