"""Writes `figures.json` and the table of `request.md`: logits of llama.cpp's library before and after the patch.

    python contrib/llama.cpp/make.py [--whole] [--check] [--folder FOLDER]

`runs/llama_tools.py` builds the patched library from the sources that npm's node-llama-cpp contains, with git and g++:
only the file that the patch changes, or with `--whole` all of libllama in about ten minutes. `--check` compares, and
writes nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import i2s_spec as i2s
from i2s_spec.convert.tensors.convert_file import convert_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
FIGURES, REQUEST = HERE / "figures.json", HERE / "request.md"

TOKENS = (5, 6, 7, 8, 100, 200, 31, 44)
#: The value of the key; without the key, the file is as `i2s new` makes it.
KEYS = (None, "silu", "relu2")
ACTIVATIONS = ("silu", "relu2")
MODEL = "i2s new none.gguf --arch bitnet --type Q2_0 --embd 256 --ff 512 --layers 1"
#: Significant digits of the stored logits, those of the last token.
DIGITS = 6


def model(key: str | None, folder: Path) -> Path:
    """The model with this value of the key, in a folder."""
    plain, path = folder / "none.gguf", folder / f"{key or 'none'}.gguf"
    if not plain.exists():
        i2s.new(plain, "bitnet", type="Q2_0", embd=256, ff=512, layers=1)
    if key is not None and not path.exists():
        with i2s.open(plain) as file:
            convert_file(file, path, hidden_activation=key)
    return path


def ours(path: Path, activation: str) -> Any:
    """Logits of the reference forward pass with llama.cpp's numerics: float32 [tokens, vocabulary]."""
    loaded = i2s.load_model(path, "llamacpp-2026", threads=1, activation=activation)
    return loaded.forward(TOKENS).logits


def agreement(theirs: Any, expected: Any) -> tuple[float, float]:
    """Pearson's correlation of two arrays of logits, and the norm of their difference relative to the expected one."""
    correlation = np.corrcoef(theirs.ravel(), expected.ravel())[0, 1]
    return float(correlation), float(np.linalg.norm(theirs - expected) / np.linalg.norm(expected))


def measured(*, whole: bool = False, build_folder: Path | None = None) -> dict[str, Any]:
    """Build the library, run it and the released one, and compare both with the reference.

    :param build_folder: a folder for the build; earlier results there are reused
    :raises RuntimeError: if the build fails, or the library does not load a file
    """
    from runs.llama_tools import dump, patched

    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = {"before": None, "after": patched(HERE / "change.patch", build_folder or folder, whole=whole)}
        for key in KEYS:
            path = model(key, folder)
            expected = {activation: ours(path, activation) for activation in ACTIVATIONS}
            for library, package in packages.items():
                values = folder / f"{key}-{library}"
                values.mkdir()
                with np.load(dump(path, TOKENS, values, package).values) as stored:
                    logits = stored["result_output"]
                found = {activation: agreement(logits, expected[activation]) for activation in ACTIVATIONS}
                cases.append({
                    "hidden_activation": key, "library": library,
                    "correlation": {each: round(value, 6) for each, (value, _) in found.items()},
                    "error": {each: float(f"{value:.2g}") for each, (_, value) in found.items()},
                    "logits": [float(f"{value:.{DIGITS}g}") for value in logits[-1]],
                })  # fmt: skip
    return {
        "command": "python contrib/llama.cpp/make.py" + " --whole" * whole,
        "models": [MODEL, "i2s convert none.gguf KEY.gguf --hidden-activation KEY"],
        "tokens": list(TOKENS), "cases": cases,
    }  # fmt: skip


def table(figures: dict[str, Any]) -> str:
    """The rows of the request."""
    rows = []
    for case in figures["cases"]:
        key, correlation = case["hidden_activation"], case["correlation"]
        silu, relu2 = (f"{correlation[each]:.4f}" for each in ACTIVATIONS)
        rows.append(f"| {f'`{key}`' if key else 'missing'} | {case['library']} | {silu} | {relu2} "
                    f"| {min(case['error'].values()):.1e} |\n")  # fmt: skip
    return "".join(rows)


def request(figures: dict[str, Any]) -> str:
    """The text of the request, with the rows of these figures."""
    head, rule, rest = re.split(r"(\|(?:---\|)+\n)", REQUEST.read_text(encoding="utf-8"), maxsplit=1)
    return head + rule + table(figures) + rest[rest.index("\n`figures.json`") :]


def differences(figures: dict[str, Any], committed: dict[str, Any]) -> list[str]:
    """Differences from the committed figures: a correlation by more than 1e-4, logits by more than 1e-3 of their
    norm."""
    lines = []
    for case, former in zip(figures["cases"], committed["cases"], strict=True):
        what = f"hidden_activation {case['hidden_activation']}, {case['library']}"
        for activation, value in case["correlation"].items():
            if abs(value - former["correlation"][activation]) > 1e-4:
                lines.append(f"{what}: correlation with {activation} {value}, was {former['correlation'][activation]}")
        _, error = agreement(np.array(case["logits"]), np.array(former["logits"]))
        if error > 1e-3:
            lines.append(f"{what}: the logits differ by {error:.1e} of their norm")
    return lines


def main() -> int:
    """Run the command line; the exit status is 1 where figures differ from what is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="compile all of libllama")
    parser.add_argument("--check", action="store_true", help="compare with what is kept, write nothing")
    parser.add_argument("--folder", type=Path, help="build there, and keep what was compiled")
    options = parser.parse_args()
    figures = measured(whole=options.whole, build_folder=options.folder)
    sys.stdout.write(table(figures))
    if options.check:
        lines = differences(figures, json.loads(FIGURES.read_text(encoding="utf-8")))
        sys.stdout.write("".join(f"{line}\n" for line in lines) or "as kept\n")
        return int(bool(lines))
    FIGURES.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    REQUEST.write_text(request(figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
