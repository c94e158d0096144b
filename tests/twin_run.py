"""Compares two installed versions of the package: runs thousands of commands with both, and lists what differs.

    python tests/twin_run.py BASE_PYTHON NEW_PYTHON --inputs INPUTS [--files DIR]... [--only VERB] [--thorough] -o REPORT

INPUTS is a folder that is filled by BASE_PYTHON at the first call, and used again later: test vectors, malformed files,
models of every architecture, type and dialect, checkpoints, records, and files of I2S_SHARED. --files adds folders of
GGUF files. Compared are standard output, standard error, exit codes, and the bytes of all files written. The exit code
is 1 if anything differs that EXPECTED does not list. Both environments must have the same extras.

One server for each Python imports the package once and forks for each command (`serve`), in a new folder that is called
the same for both. `Maker` lists what is run, `EXPECTED` what may differ, `NOISE` what differs from run to run.
"""

# ruff: noqa: SIM905 - words of command lines are easier to read as one text
from __future__ import annotations

import argparse
import atexit
import gc
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent
SHARED = Path(os.environ.get("I2S_SHARED") or CHECKOUT.parent / "shared")
SIDES = ("base", "next")  # of the same length: paths of both are wrapped alike

#: Seconds of one command.
LIMIT = 120

#: What every command is given; everything else of the caller's environment but PATH is left out.
ENVIRONMENT = {
    "COLUMNS": "120",
    "HF_HUB_OFFLINE": "1",
    "HOME": "/nonexistent",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "1700000000",
    "TERM": "dumb",
    "TZ": "UTC",
}


class Expected(NamedTuple):
    """Differences that are wanted: all lines that differ match `lines`, in commands that match `command`."""

    command: str
    lines: str
    reason: str


EXPECTED = (
    Expected(r"man\b", r".*", "manual pages are removed"),
    Expected(r"(--help|-h|help)?$", r" +man  .*", "manual pages are removed"),
)

#: Texts that differ between runs of the same program, with what stands for them in a comparison.
NOISE = (
    (rb"\b\d+(?:[.,]\d+)*(?:e-?\d+)? ?(?:ns|us|ms|s|seconds?|minutes?)(?=[\s,;:.)<\"]|$)", b"<time>"),
    (rb"\b[\d.,]+ (?:[KMG]i?B|tok|tokens|weights|files)(?: per second|/s)", b"<speed>"),
    (rb"\"(seconds|elapsed|tokens_per_second|duration|speed|time)\": [\d.e-]+", rb'"\1": <time>'),
    (rb"\"tokens_per_second\": \{[^}]*\}", b'"tokens_per_second": <speed>'),
    (rb" time=\"[\d.]+\"", b' time="<time>"'),
    (rb" at 0x[0-9a-f]{6,}", b" at <address>"),
    (rb"i2s-[a-z0-9_]{8}\b|tmp[a-z0-9_]{8}\b", b"<temporary>"),
)


class Case(NamedTuple):
    """Commands that are run one after the other in one folder; `in` there is a link to the inputs."""

    steps: tuple[tuple[str, ...], ...]
    text: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def verb(self) -> str:
        return self.steps[-1][0] if self.steps[-1] else ""

    def script(self, python: str, inputs: Path) -> str:
        """A line for a shell that does the same."""
        words = [f"cd $(mktemp -d) && ln -s {shlex.quote(str(inputs))} in"]
        words += [f"printf %s {shlex.quote(text)} > {shlex.quote(name)}" for name, text in self.files]
        settings = " ".join(f"{key}={shlex.quote(value)} " for key, value in self.environment)
        program = f"env $E {settings}{Path(python).parent / 'i2s'}"
        feed = f" <<< {shlex.quote(self.text.rstrip())}" if self.text else ""
        words += [f"{program} {shlex.join(step)}{feed}" for step in self.steps]
        return "; ".join(words)


# The inputs and the commands

Q = "blk.0.attn_q.weight"
TOKENS = "3,51,130,7,68,72,148,82,175"
ARCHITECTURES = "bitnet-b1.58 bitnet-25 bitnet llama qwen3 qwen3-lm gemma3".split()
TYPES = "Q2_0 Q2_0_G128 PQ2_0 PTQ1_0 TQ1_0 TQ2_0 IQ1_BN IQ2_BN I2_SR F32 F16 BF16".split()
DIALECTS = "interleave-128 interleave-64 rows-1x4 sequential-msb sequential-lsb".split()
NUMERICS = (
    "bitnet-golden-1 bitnetcpp-2025 bitnetcpp-2025-llamafile bitnetcpp-2025-avx512 "
    "bitnetcpp-2026 hf-f32 ik-iq2bn ik-f32 ik-f16 c-article tq2_0 "
    "llamacpp-2026 llamacpp-2026-avx512 llamacpp-cuda webgpu loom bitnet-go fast"
).split()
REPORTS = "concise github html json jsonl junit markdown sarif shields statistics text".split()
PROFILES = "default spec bitnet.cpp llama.cpp security strict".split()
FORMS = "packed F16 F32 BF16".split()

#: What the base makes with its own verbs; `;` separates commands.
MADE = f"""
vectors export suite -q; vectors export --malformed mal -q; vectors export --malformed mal-f32 --no-i2s -q
demo --keep demo; new new/trained.gguf --trained -q; new new/trained-llama.gguf --trained --arch llama -q
new new/aligned.gguf --alignment 4096 --layers 3 -q
{";".join(f"new new/{name}.gguf --arch {name} --seed 3 -q" for name in ARCHITECTURES)}
{";".join(f"new new/{name}.big.gguf --arch {name} --endian big --as-published -q" for name in ARCHITECTURES)}
{";".join(f"new new/llama.{name}.gguf --arch llama --type {name} --embd 256 --ff 256 -q" for name in TYPES)}
{";".join(f"new new/rotated.{name}.gguf --arch qwen3-lm --type {name} --rotated --head untied -q" for name in TYPES)}
{";".join(f"new new/trained.{name}.gguf --trained --type {name} -q" for name in TYPES)}
{";".join(f"new new/trained.{name}.gguf --trained --dialect {name} -q" for name in DIALECTS)}
decode new/bitnet-b1.58.gguf {Q} npy/trits.npy -q; decode new/bitnet-b1.58.gguf {Q} npy/floats.npy --as float32 -q
{";".join(f"export new/trained.gguf -o checkpoint.{form} --form {form} -q" for form in FORMS)}
import checkpoint.packed -o files/imported.gguf --receipt receipt.json -q
import checkpoint.packed -o files/inside.gguf --receipt inside.json --receipt-in-file -q
convert new/trained.gguf files/packed.safetensors -q
{";".join(f"golden record new/trained.gguf --tokens {TOKENS} --numerics {n} -o golden/{n} -q" for n in NUMERICS)}
golden record new/trained-llama.gguf --tokens {TOKENS} -o golden/llama --npz -q
golden record new/trained.gguf --tokens {TOKENS} -o golden/light --light -q
"""


def made(work: Path, python: str) -> None:
    """Fill the folder of inputs by the base's own verbs and the makers of I2S_SHARED."""
    environment = {**ENVIRONMENT, "PATH": f"{Path(python).parent}:{os.environ['PATH']}", "I2S_SHARED": str(SHARED)}
    for folder in ("new", "npy", "golden", "cases", "files"):
        (work / folder).mkdir(parents=True)
    for line in re.split(r"[;\n]", MADE.strip()):
        words = [Path(python).parent / "i2s", *line.split()]
        done = subprocess.run(words, cwd=work, env=environment, capture_output=True, check=False)
        if done.returncode not in (0, 1):
            print("not made:", line, done.stderr.decode()[-200:], file=sys.stderr)
    sentences = "One day a small dog ran to the park. He saw a big red ball. "
    made_here = {"text1.txt": sentences, "text2.txt": sentences * 2, "empty.gguf": "", "no.gguf": "no model " * 9}
    for name, content in made_here.items():
        (work / name).write_text(content)
    for path in CHECKOUT.rglob("adapters/speak.py"):
        shutil.copytree(path.parent, work / "adapters", dirs_exist_ok=True)
    if not SHARED.is_dir():
        return
    for name in ("real", "vectors/gguf", "vectors/hf"):
        shutil.copytree(SHARED / name, work / name)
    subprocess.run(["tar", "xf", SHARED / "cases/golden/dumps.tar.xz"], cwd=work / "golden", check=False)
    for name in ("all-kinds/make_inputs.py", "side-files/side_files.py", "weights-place/weights.py", "attacks/make.py"):
        place = work / "cases" / name.split("/")[0]
        place.mkdir()
        words = [python, SHARED / "cases" / name, *([place] if "attacks" not in name else [])]
        subprocess.run(words, cwd=place, env=environment, capture_output=True, check=False, timeout=600)


def one(command: str, text: str = "", **files: str) -> Case:
    """A case of one command, or of several after `;`."""
    steps = tuple(tuple(shlex.split(step)) for step in command.split(";"))
    return Case(steps, text, (), tuple((name.replace("_", "."), content) for name, content in files.items()))


class Maker:
    """Makes the cases from the inputs; with `thorough` it leaves none out."""

    def __init__(self, inputs: Path, more: Sequence[Path], thorough: bool) -> None:
        self.inputs, self.thorough = inputs, thorough
        self.files = [*self.found("**/*.gguf"), *(str(path) for each in more for path in sorted(each.rglob("*.gguf")))]
        self.models = self.found("new/*.gguf")
        self.runnable = [path for path in self.models if not re.search(r"\.big\.|qwen3\.|gemma3", path)]

    def found(self, pattern: str) -> list[str]:
        """Files of the inputs."""
        return [f"in/{path.relative_to(self.inputs)}" for path in sorted(self.inputs.glob(pattern))]

    def every(self, items: Sequence[str], stride: int, start: int = 0) -> Sequence[str]:
        """One in `stride` of the items."""
        return items if self.thorough else items[start % stride :: stride]

    def cases(self) -> Iterator[Case]:
        """Every case, a command line each."""
        yield from self.wrong_calls()
        yield from self.settings()
        for lines in (self.one_file(), self.many_files(), self.writers(), self.models_run(), self.comparisons(),
                      self.checkpoints(), self.specification()):  # fmt: skip
            yield from map(one, lines)

    def wrong_calls(self) -> Iterator[Case]:
        """Help, and calls that are wrong: every verb and option of `surface.txt`."""
        yield Case(((),))
        for words in "-h/--help/--version/help/lnt/chat/in/new/in//--nothing/version/validate -h/check in".split("/"):
            yield one(words)
        verb = ""
        for line in (TESTS / "surface.txt").read_text("utf-8").splitlines():
            if found := re.match(r"verb i2s ([a-z ]+):", line):
                verb = found[1]
                yield one(f"{verb} --help")
                if verb not in ("demo", "run", "fuzz", "vectors mutants", "vectors register") and "spec" not in verb:
                    yield one(verb)
                yield one(f"{verb} --no-such-option")
            elif (found := re.match(r"verb i2s [a-z ]+ option (-\S+)", line)) and "is_flag" not in line:
                yield one(f"{verb} {found[1]} '~' in/new/llama.gguf")

    def one_file(self) -> Iterator[str]:
        """Verbs that look at one file: each at one file of so many."""
        strides = """1 lint; 2 show; 3 show --json; 4 lint --json --runtimes; 3 dump; 5 dump --json; 5 identify
            6 identify --json -v; 4 hash --tensors; 6 hash --json --lineage; 4 fix --dry-run; 6 fix --dry-run --unsafe --json
            5 sanitize --dry-run; 6 sanitize --dry-run --json --keep-unknown
            9 doctor --threads 1; 12 doctor --json --threads 1
            6 lint --header-only --format concise; 6 lint --sample --profile strict --format markdown --runtimes
            9 lint --format html --runtimes; 9 lint --format sarif; 9 show --plot --all"""
        for line in re.split(r"[;\n]", strides):
            stride, verb = line.strip().split(" ", 1)
            yield from (f"{verb} {path}" for path in self.every(self.files, int(stride), len(verb)))
            yield from (f"{verb} in/{name}" for name in ("no.gguf", "empty.gguf", "none", "new"))
        for path in self.every(self.models, 3):
            for part in f"header {Q} 0x0..0x40 0x1000+64 general.architecture data[0] key_values[3].value none".split():
                yield f"dump {path} {part}"
            yield f"dump {path} {Q} --limit 5 --line-bytes 8"
            yield from (f"identify {path} {words}" for words in ("--full --sha256 --threads 1", "--header-only -q"))

    def many_files(self) -> Iterator[str]:
        """Reports over many files in every form, profile and reading."""
        folders = "in/mal in/mal-f32 in/new in/demo in/cases in/real in/vectors"
        for form in REPORTS:
            yield f"lint {folders} --format {form}"
            yield f"lint in/mal/malformed in/demo --format {form} --runtimes --profile strict -o out"
        for profile in PROFILES:
            yield f"lint {folders} --profile {profile} --format jsonl --header-only"
            yield f"lint in/demo in/new in/cases --profile {profile} --payload sample --fail-on warning"
            yield f"rules --profile {profile}"
        yield "lint in/demo " + " ".join(f"--report {form}=report.{form}" for form in REPORTS)
        yield "lint in/mal/malformed --jobs 2 -q"
        yield "lint 'in/mal/**/*[0-9].gguf' --select G,I1 --severity I104=note --limit keys=20"
        yield f"hash {' '.join(self.models)} --json"
        yield f"hash {' '.join(self.every(self.files, 20))}"
        for dialect in DIALECTS:
            trained = f"in/new/trained.{dialect}.gguf"
            yield f"lint {trained} --expect {dialect}"
            yield f"lint in/new/trained.gguf --reference {trained} --reference-dialect {dialect}"
            yield f"lint {trained} --reference in/new/trained.F32.gguf --json"
            yield f"lint {trained} --reference in/checkpoint.packed"
            yield f"identify {trained} --reference in/new/trained.F16.gguf --threads 1"
        yield f"identify in/new/bitnet-b1.58.gguf --reference in/npy/trits.npy --tensor {Q}"
        for path in [*(f"in/checkpoint.{form}" for form in FORMS), "in/vectors/hf", "in/cases/attacks"]:
            yield f"lint {path}"
            yield f"lint {path} --json"
        for address in "hf://a/b https://example.org/a.gguf s3://a/b.gguf http://127.0.0.1:9/a.gguf hf://a".split():
            yield from (f"{verb} {address}" for verb in "lint show dump hash identify".split())
            yield f"lint {address} --allow-private --remote-limit seconds=1 --json"

    def settings(self) -> Iterator[Case]:
        """Configuration files, baselines, variables."""
        files = "in/demo/no-tail.gguf in/demo/lfs-pointer.gguf"
        for config in """profile = "strict"\nformat = "json"|select = ["I"]\nfail-on = "never"|ignore = ["I104"]
            |[severity]\nI104 = "note"|[limits]\nkeys = 3|payload = "none"|threads = 0|x = 1|x =|format = "y"
            |baseline = "b.json"
            |[[ignore]]\nfiles = "in/demo/*"\ncodes = ["I104"]\nreason = "known"|ignore = [{files = "*", codes = []}]
            |skip-lfs = true|jobs = 2|runtimes = true""".split("|"):
            yield one(f"lint {files}", i2s_toml=config)
            yield one(f"lint {files} --config c.toml --json", c_toml=config)
        yield one(f"lint {files}", pyproject_toml='[tool.i2s]\nprofile = "strict"\n')
        yield one(f"lint {files} --no-config", i2s_toml='ignore = ["I"]\n')
        yield one("lint @- --format concise", "in/demo/no-tail.gguf\nin/none.gguf\n")
        base = "lint in/demo --baseline b.json"
        yield one(f"{base} --write-baseline;{base};{base} --profile strict --json;{base} in/new/llama.gguf")
        for (
            given
        ) in """PROFILE=security FORMAT=json SELECT=G IGNORE=I104 SEVERITY=I104=note LIMIT=keys=3 PAYLOAD=none THREADS=2
            JOBS=2 RUNTIMES=1 FAIL_ON=never SKIP_LFS=1 CONFIG=no ISA=portable HIDE=avx2 BASELINE=b.json DEBUG=1 NOTHING=1
            ALLOW_PRIVATE=1""".split():
            name, _, value = given.partition("=")
            for each in (value, "~"):
                yield one(f"lint {files}")._replace(environment=((f"I2S_{name}", each),))
        yield one("info;info --json")._replace(environment=(("I2S_ISA", "portable"),))
        yield one(f"lint {files}")._replace(environment=(("GITHUB_ACTIONS", "true"),))
        yield one("run in/new/trained.gguf -n 9 -q")._replace(environment=(("GITHUB_ACTIONS", "true"),))
        record = '{"url": "a.gguf", "ok": true, "findings": []}\n'
        yield one("census r.jsonl;census r.jsonl --json;census r.jsonl --format html", r_jsonl=record)
        for form in "bitnet llama3 falcon3 chatml inst plain file none".split():
            yield one(f"run in/new/trained.gguf --chat --chat-format {form} -n 4 --threads 1", "Hello\n")

    def writers(self) -> Iterator[str]:
        """Verbs that write files."""
        for path in self.every(self.files, 5):
            yield f"fix {path} -o fixed.gguf"
            yield f"fix {path} -o fixed.gguf --unsafe --scrub-tail --json"
        yield from (f"sanitize {path} -o clean.gguf" for path in self.every(self.files, 6))
        for path in self.every(self.models, 2):
            for kind in self.every([*TYPES, *DIALECTS], 6, len(path)):
                yield f"convert {path} out.gguf --to {kind} --fallback F16 -v --threads 1"
            yield f"convert {path} out.safetensors"
            yield f"decode {path} {Q} q.npy"
            yield f"decode {path} {Q} q.npy --as float32 --dialect interleave-64"
            yield f"convert {path} out.gguf --endian big --json"
            yield f"sanitize {path} -o clean.gguf --drop-template --json"
        sound = "in/new/bitnet-b1.58.gguf"
        yield f"convert {sound} out.gguf --to TQ2_0 --arch bitnet --hidden-activation relu2"
        yield "convert in/files/packed.safetensors out.gguf --into in/new/trained.gguf --to I2_S"
        yield "convert in/checkpoint.packed out.gguf --into in/new/trained.gguf --weight-scale divide"
        for dialect in (*DIALECTS, "row-blocks-4", "canonical", "none"):
            yield f"encode in/npy/trits.npy out.bin --scale 0.5 --dialect {dialect} --endian big"
            yield f"fix in/new/trained.gguf -o f.gguf --unsafe --dialect {dialect}"
        for rule in "absmax hf-first embedding-mean given convert-ms c-article loom".split():
            yield f"encode in/npy/floats.npy out.bin --rule {rule}"
            yield f"encode in/npy/floats.npy o.gguf --rule {rule} --into {sound} --tensor {Q} --scale 2"
        for kind in "I2_S TQ1_0 TQ2_0 Q2_0 I2_SR interleave-64".split():
            yield f"quantize in/new/trained.F16.gguf -o o.gguf --to {kind} --threads 1 -q"
            yield f"quantize in/new/llama.F32.gguf -o o.gguf --to {kind} --rule absmax --json -q"
        yield "quantize in/new/trained.F32.gguf -o o.gguf --text in/text2.txt -c 32 --chunks 1 --keep 'blk.0.*' --threads 1"
        for name in ARCHITECTURES:
            yield f"new a.gguf --arch {name}"
            yield f"new a.gguf --arch {name} --layers 3 --seed 7 --vocab 300 --unit-tables"
            yield f"new a.gguf --arch {name} --heads 3 --head-dim 64 --trained"
            for kind in self.every(TYPES, 3, len(name)):
                yield f"new a.gguf --arch {name} --type {kind} --embd 256 --ff 512 --rotated"
        yield "new a.gguf;new a.gguf;new a.gguf --force -q"
        yield from ("demo", "demo --keep kept")

    def models_run(self) -> Iterator[str]:
        """Verbs that run a model."""
        for path in self.every(self.runnable, 2):
            yield f"run {path} -p 'One day' -n 6 --threads 1"
            yield f"run {path} --tokens 1,2,3 -n 4 --json --temperature 0.8 --top-k 9 --threads 1"
            yield f"perplexity {path} --tokens 1,5,9,20,33,64,100,200 --context 4 --threads 1"
        for name in NUMERICS:
            model = f"in/new/trained.gguf --threads 1 --numerics {name}"
            yield f"run {model} -p 'One day' -n 3 --ids"
            yield f"golden record {model} --tokens 1,2,3 -o g"
            yield f"perplexity {model} --file in/text1.txt -c 8 --json"
        for pre in "bitnet.cpp llama.cpp ik_llama.cpp hf gpt-2 none".split():
            yield f"run in/new/trained.gguf -p \"It's 100 dogs' day!\" --pre {pre} -n 2 --ids --threads 1"
        for name in "qwen3 gemma3 llama".split():
            words = f"embed in/new/{name}.gguf -t 'ternary weights' -t bread --threads 1"
            yield from (f"{words} --format {form} -o out" for form in ("text", "json", "npy"))
            yield f"{words} --similarity"
        yield from ("run -n 9 --threads 1", "run in/new/trained.gguf --show-template")
        yield "identify in/new/trained.gguf --likelihood in/text1.txt --threads 1"
        record = "golden record in/new/trained-llama.gguf -o g --threads 1"
        yield f"{record} --text 'One day' --light --npz --kl-divergence-base"
        yield f"{record} --tokens 5,6 --callback-text shown --activation silu"

    def comparisons(self) -> Iterator[str]:
        """`diff` and `golden compare`."""
        for path, other in zip(self.every(self.models, 2), self.every(self.models, 2, 1), strict=False):
            yield f"diff {path} {other} --threads 1"
            yield f"diff {path} in/new/trained.gguf --format json --all --lineage"
        yield from (f"diff in/new/llama.gguf {path}" for path in self.every(self.files, 10))
        yield "diff in/new/trained.gguf in/new/trained.interleave-64.gguf --dialect-b interleave-64"
        yield "diff in/new/trained.gguf in/new/trained-llama.gguf --format html -o d.html"
        compare, model = "golden compare -q --threads 1 in/golden", "--model in/new/trained.gguf"
        for name in NUMERICS:
            yield f"{compare}/bitnet-golden-1 in/golden/{name}"
            for mode in "op-replay layer-forced free-running".split():
                yield f"{compare}/bitnet-golden-1 in/golden/{name} {model} --mode {mode} --json"
        for form in "text json markdown html".split():
            yield f"{compare}/bitnet-golden-1 in/golden/llama --format {form} -o out"
            yield f"{compare}/bitnet-golden-1 in/golden/webgpu {model} --format {form} -o out"
        yield f"{compare}/light in/golden/webgpu {model}"
        for dump in self.every(self.found("golden/*/*trained*.txt"), 2):
            golden, file = ("llama", "trained-llama") if "trained-llama" in dump else ("bitnet-golden-1", "trained")
            yield f"{compare}/{golden} {dump} --model in/new/{file}.gguf"
            yield f"{compare}/{golden} {dump} --json --no-diagnosis"

    def checkpoints(self) -> Iterator[str]:
        """`import`, `export`, `verify`."""
        for form in FORMS:
            words = f"import in/checkpoint.{form} -o o.gguf --threads 1"
            yield words
            yield f"{words} --to TQ2_0 --embedding F32 --fallback F16 --json"
            yield f"{words} --receipt r.json --receipt-in-file;verify o.gguf;lint o.gguf"
            yield f"{words} --to F16 --rule ternary --name x --source a/b"
        for path in self.found("vectors/hf/*/config.json") + self.found("cases/attacks/*/config.json"):
            yield f"import {path.rpartition('/')[0]} -o o.gguf --threads 1 --receipt r.json"
        for path in self.every(self.models, 2):
            yield f"export {path} -o out"
            yield f"export {path} -o out --form BF16 --json"
        yield "export in/new/trained.gguf -o out --mode online"
        verify = "verify in/files/imported.gguf --receipt in/receipt.json"
        yield from (f"{verify} {words}" for words in ("", "--json", "-q", "--against in/checkpoint.packed"))
        yield f"{verify} --against in/checkpoint.F16 --json"
        yield from ("verify in/new/trained.gguf --receipt in/receipt.json", "verify in/files/inside.gguf")
        for name in "code3 inside stair types".split():
            yield f"verify in/cases/attacks/{name}.gguf --receipt in/cases/attacks/r.json"
            yield f"export in/cases/attacks/{name}.gguf -o out"

    def specification(self) -> Iterator[str]:
        """Rules, schemas, vectors, decoders of other programs, and what describes this program itself."""
        codes = re.findall(r"^rule (\w+):", (TESTS / "surface.txt").read_text("utf-8"), re.M)
        for form in "text json markdown".split():
            yield f"explain {' '.join(codes)} --format {form}"
        yield from (f"explain {code}" for code in [*self.every(codes, 10), "tail-missing", "X999", "i"])
        yield from (f"explain {code} --example" for code in self.every(codes, 20))
        yield "rules --write pages;rules --check pages"
        yield from (f"rules {words}" for words in "/--json/G/I1/H/X/none/--profiles".split("/"))
        for form in "json ksy hexpat c wgsl cuda registry registry-tsv".split():
            yield f"schema --format {form}"
            yield f"schema --format {form} -o out"
        yield from (f"vectors export {words}" for words in ("suite", "--malformed mal", "--malformed mal --no-i2s -q"))
        yield from (f"vectors list {words}" for words in ("", "--op dequant", "--flag scale-as-f16"))
        yield from (f"vectors package out --for {kind}" for kind in self.every("tar pypi npm go cargo".split(), 2))
        yield from ("info", "info --json")
        yield from (f"completion {shell}" for shell in "bash zsh fish no".split())
        decoder = "-q -- grep -q GGUF {}"
        for seed in "01":
            for words in "--runs 60/--runs 40 --json --reads model/--runs 40 --format junit".split("/"):
                yield f"fuzz {words} --seed {seed} --effort 20 {decoder}"
        yield from ("fuzz --list-duties", f"fuzz --replay in/demo {decoder}")
        yield f"fuzz --runs 30 --corpus c {decoder};fuzz --runs 30 --corpus c {decoder}"
        adapter = "-- python3 in/adapters/numpy_from_the_text.py"
        yield f"conform smoke {adapter}"
        forms = "text ndjson markdown junit html shields".split()
        reports = ";".join(f"conform report --format {form} a.ndjson" for form in forms)
        yield f"conform run -q --report ndjson=a.ndjson --only decode {adapter};{reports}"
        yield f"conform run -q --known k.txt --fix {adapter}"


# The servers

#: What ends a child; a command that is to tell its modules ends by an exception instead.
END = os._exit

#: Commands that together import most modules.
WARM_UP = """lint in/new/trained.gguf --runtimes;show in/new/trained.gguf;identify in/new/trained.gguf
run in/new/trained.gguf -n 1;diff in/new/llama.gguf in/new/trained.gguf;golden compare in/golden/webgpu in/golden/fast
fix in/new/trained.gguf --dry-run;rules;dump in/new/trained.gguf header;hash in/new/trained.gguf
sanitize in/new/trained.gguf --dry-run"""


def serve(folder: Path, inputs: Path) -> None:
    """Run the cases that are named on the standard input, one a line, and answer with their exit codes."""
    from importlib.metadata import distribution

    program = next(each for each in distribution("i2s-spec").entry_points if each.group == "console_scripts").load()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    (folder / "in").symlink_to(inputs)
    modules = folder / "modules"
    for line in re.split(r"[;\n]", WARM_UP):  # imports what these need; the names are imported here
        forked(program, folder, line.split(), one(line), 0, modules)
        for name in modules.read_text().split():
            with suppress(Exception):
                __import__(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        number, *fields = json.loads(line)
        case, begun = Case(*fields), time.monotonic()
        place = folder / f"{number:06}"
        place.mkdir()
        (place / "in").symlink_to(inputs)
        for name, content in case.files:
            (place / name).write_text(content, "utf-8")
        codes = [forked(program, place, step, case, at) for at, step in enumerate(case.steps)]
        print(json.dumps([number, codes, time.monotonic() - begun]), file=answers, flush=True)


def forked(program: Any, place: Path, args: Sequence[str], case: Case, step: int, modules: Path | None = None) -> int:
    """Run a command in a child of this process; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(place)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.alarm(LIMIT)
        Path("stdin").write_text(case.text, "utf-8")
        os.dup2(os.open("stdin", os.O_RDONLY), 0)
        Path("stdin").unlink()
        for stream, name in ((1, "stdout"), (2, "stderr")):
            path = f"{name}.{step}" if modules is None else os.devnull
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
        os.environ.update(case.environment)
        sys.argv = ["i2s", *args]
        if modules is not None:
            vars(os)["_exit"] = sys.exit
        status: object = 0
        try:
            program()
        except SystemExit as stop:
            status = stop.code
        except BaseException:
            import traceback

            traceback.print_exc()
            status = 1
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        code = status if isinstance(status, int) else int(status is not None)
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
        END(code)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what a killed command leaves running
    return os.waitstatus_to_exitcode(status)


class Side:
    """One of the two programs, with its servers."""

    def __init__(self, name: str, python: str, work: Path, inputs: Path) -> None:
        self.python, self.folder, self.inputs = python, work / name, inputs
        self.folder.mkdir()
        self.codes: dict[int, list[int]] = {}
        self.seconds: dict[int, float] = {}
        self.prefix = os.fsencode(Path(python).parent.parent)
        asked = [python, "-c", "import i2s_spec; print(i2s_spec.__path__[0])"]
        self.package = subprocess.run(asked, capture_output=True, check=True, cwd=self.folder).stdout.strip()

    def run(self, cases: Sequence[Case], first: int, step: int, done: threading.Semaphore) -> None:
        """Run every `step`th case from `first`, in order."""
        environment = {**ENVIRONMENT, "PATH": os.environ["PATH"]}
        folder = self.folder / f"server{first}"
        folder.mkdir()
        words = [self.python, __file__, "--serve", str(folder), str(self.inputs)]
        with subprocess.Popen(words, stdin=-1, stdout=-1, env=environment, encoding="utf-8", cwd=self.folder) as server:
            assert server.stdin is not None and server.stdout is not None  # noqa: PT018
            for number in range(first, len(cases), step):
                print(json.dumps([number, *cases[number]]), file=server.stdin, flush=True)
                answer = server.stdout.readline()
                _, self.codes[number], self.seconds[number] = json.loads(answer or "[0, [-99], 0]")
                done.release()
            server.stdin.close()

    def result(self, number: int, servers: int) -> dict[str, bytes]:
        """What a case printed and wrote, by name; the folder is removed."""
        place = self.folder / f"server{number % servers}" / f"{number:06}"
        found = {"exit codes": str(self.codes[number]).encode()}
        for path in sorted(place.rglob("*")):
            other = b"<link>" if path.is_symlink() else b"" if path.is_file() else b"<folder>"
            found[str(path.relative_to(place))] = other or path.read_bytes()
        shutil.rmtree(place, ignore_errors=True)
        return found

    def normal(self, data: bytes) -> bytes:
        """Data without what differs from run to run."""
        for path, name in ((self.package, b"<package>"), (self.prefix, b"<environment>")):
            data = data.replace(path, name)
        data = re.sub(re.escape(os.fsencode(self.folder)) + rb"/server\d+/\d+", b"<folder>", data)
        for pattern, name in NOISE:
            data = re.sub(pattern, name, data)
        return data


# The comparison


class Difference(NamedTuple):
    """A thing that a case gave, which is not the same on both sides."""

    case: Case
    name: str
    lines: tuple[str, ...]

    @property
    def kind(self) -> tuple[str, ...]:
        """Equal for differences that have one cause: the first lines that differ, without numbers."""
        return tuple(re.sub(r"\d+", "0", line)[:90] for line in self.lines[:2])

    @property
    def reason(self) -> str | None:
        """Why the difference is expected, if it is."""
        command = " ".join(self.case.steps[-1])
        for each in EXPECTED:
            if re.match(each.command, command) and all(re.fullmatch(each.lines, line[1:]) for line in self.lines):
                return each.reason
        return None


def differences(case: Case, sides: Sequence[Side], results: Sequence[dict[str, bytes]]) -> Iterator[Difference]:
    """What differs in a case."""
    one, other = results
    for name in sorted(one.keys() | other.keys()):
        if name not in one or name not in other:
            yield Difference(case, name, (f"{'-+'[name in other]}the file is written",))
        elif one[name] != other[name]:
            normal = [side.normal(data) for side, data in zip(sides, (one[name], other[name]), strict=True)]
            if normal[0] != normal[1]:
                yield Difference(case, name, tuple(changed_lines(*normal)))


def changed_lines(one: bytes, other: bytes) -> list[str]:
    """The lines that differ, after - and +; of other data the first byte that differs."""
    try:
        texts = [data.decode().splitlines() for data in (one, other)]
    except UnicodeDecodeError:
        place = next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        return [f"-{len(one)} bytes, from {place}: {one[place : place + 8].hex()}",
                f"+{len(other)} bytes, from {place}: {other[place : place + 8].hex()}"]  # fmt: skip
    if max(map(len, texts)) > 3000:  # the library's comparison takes quadratic time
        start = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        texts = [lines[start : start + 40] for lines in texts]
    found = [
        line
        for line in unified_diff(texts[0], texts[1], lineterm="", n=0)
        if line[:3] not in ("---", "+++") and line[0] in "-+"
    ]
    return found or ["-only line ends differ"]


def report(found: Sequence[Difference], sides: Sequence[Side], cases: Sequence[Case]) -> tuple[str, int]:
    """The report as Markdown, and how many differences nobody expected."""
    groups: dict[tuple[Any, ...], list[Difference]] = defaultdict(list)
    for each in found:
        groups[each.reason or "", each.kind].append(each)
    unexpected = sum(each.reason is None for each in found)
    lines = [f"# {len(cases)} cases: {unexpected} differences, and {len(found) - unexpected} that are expected", ""]
    codes = Counter(code for each in sides[0].codes.values() for code in each)
    lines += [f"Exit codes of the base: {', '.join(f'{count} × {code}' for code, count in codes.most_common())}", ""]
    lines += [f"    E='{' '.join(f'{key}={value}' for key, value in ENVIRONMENT.items())}'", ""]
    for (reason, _), members in sorted(groups.items(), key=lambda item: (bool(item[0][0]), -len(item[1]))):
        verbs = ", ".join(sorted({each.case.verb for each in members}))
        lines += [f"## {len(members)} × {verbs}: {members[0].name}{f' (expected: {reason})' if reason else ''}", ""]
        lines += ["```diff", *(line[:400] for line in members[0].lines[:12]), "```", ""]
        lines += [f"    {members[0].case.script(side.python, side.inputs)}" for side in sides]
        lines += [f"    {each.case.script(sides[1].python, sides[1].inputs)}" for each in members[1:3]]
        lines.append("")
    seconds, verbs_seconds = sides[0].seconds, defaultdict[str, list[float]](list)
    for number, case in enumerate(cases):
        verbs_seconds[case.verb].append(seconds[number])
    lines += ["## Time of the base", ""]
    for verb, spent in sorted(verbs_seconds.items(), key=lambda item: -sum(item[1])):
        lines.append(f"    {sum(spent):7.1f} s {len(spent):5} × {verb}")
    for number in sorted(seconds, key=lambda number: -seconds[number])[:20]:
        lines.append(f"    {seconds[number]:7.1f} s {shlex.join(cases[number].steps[-1])[:150]}")
    return "\n".join([*lines, ""]), unexpected


def main() -> int:
    """Read the command line, run all cases, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs=2, help="the Python of each environment")
    parser.add_argument("--inputs", type=Path, help="folder of the inputs; made if it does not exist")
    parser.add_argument("--files", type=Path, action="append", default=[], help="more GGUF files")
    parser.add_argument("--only", action="append", default=[], help="only cases of this verb")
    parser.add_argument("--thorough", action="store_true", help="every file with every verb")
    parser.add_argument("--servers", type=int, default=1, help="servers of each Python; each uses one processor")
    parser.add_argument("-o", "--output", type=Path, help="file of the report")
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="twin") as temporary:
        inputs = (given.inputs or Path(temporary) / "inputs").absolute()
        if not inputs.exists():
            made(inputs, given.python[0])
            print(f"inputs: {time.monotonic() - begun:.0f} s", file=sys.stderr)
            begun = time.monotonic()
        maker = Maker(inputs, [each.absolute() for each in given.files], given.thorough)
        cases = [case for case in dict.fromkeys(maker.cases()) if not given.only or case.verb in given.only]
        sides = [Side(name, python, Path(temporary), inputs) for name, python in zip(SIDES, given.python, strict=True)]
        done = {side: [threading.Semaphore(0) for _ in range(given.servers)] for side in sides}
        runs: list[threading.Thread] = []
        for side, at in product(sides, range(given.servers)):
            given_to = (cases, at, given.servers, done[side][at])
            runs.append(threading.Thread(target=side.run, args=given_to, daemon=True))
            runs[-1].start()
        found: list[Difference] = []
        for number, case in enumerate(cases):
            for side in sides:
                done[side][number % given.servers].acquire()
            results = [side.result(number, given.servers) for side in sides]
            found += differences(case, sides, results)
            if number % 200 == 199:
                print(f"{number + 1} of {len(cases)} cases, {len(found)} differences", file=sys.stderr)
        for run in runs:
            run.join()
        text, unexpected = report(found, sides, cases)
    if given.output:
        given.output.write_text(text, "utf-8")
    print(text.splitlines()[0] if given.output else text, f"{time.monotonic() - begun:.0f} s", sep="\n")
    return int(unexpected > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main())
