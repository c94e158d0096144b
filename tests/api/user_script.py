"""A script as a user of this package might write it; `mypy --strict` must accept it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import i2s_spec as i2s


def largest(path: Path) -> str:
    """The name of the largest ternary tensor of a file."""
    with i2s.open(path) as file:
        ternary = {name: tensor for name, tensor in file.tensors.items() if tensor.kind == "I2_S"}
        norm = file.tensors.get("output_norm.weight")
        values: NDArray[np.float32] = np.zeros(1, np.float32) if norm is None else np.asarray(norm)
        name = max(ternary, key=lambda each: ternary[each].elements)
        trits, scale = ternary[name].trits(), float(ternary[name].scale())
        print(file.metadata.get("general.name", "?"), trits.shape, scale, values.dtype)
    return name


def judge(path: Path) -> int:
    """The exit code of a lint, with its findings on the way."""
    report: i2s.Report = i2s.lint(path, profile="security")
    for finding in report.findings:
        print(finding.code, finding.span.start, finding.message)
    rows: list[str] = [row["code"] for row in report.as_dict()["findings"]]
    assert len(rows) == len(report.findings)
    return report.exit_code()


def run(path: Path, text: str) -> tuple[int, ...]:
    """The shape of the logits of a text."""
    tokens = i2s.load_tokenizer(path).encode(text)
    with i2s.load_model(path) as model:
        result = model.forward(tokens, taps=["l_out"])
        best = int(result.logits[-1].argmax())
        print(best, sorted(result.taps))
        return result.logits.shape


def main() -> int:
    """Make a model, repair what is to repair, and look at it."""
    folder = Path(sys.argv[1])
    path = folder / "model.gguf"
    i2s.new(path, layers=1)
    fixed = i2s.fix(path, folder / "fixed.gguf")
    answer = i2s.identify(path).question("tail").answer
    print(largest(path), run(path, "The weights"), len(fixed.actions), None if answer is None else answer.name)
    data: bytes = i2s.pack(np.ones((1, 128), np.int8), 0.5)
    trits, scale = i2s.unpack(data, (1, 128))
    print(int(trits.sum()), float(np.asarray(scale).max()))
    try:
        i2s.open(b"")
    except i2s.FormatError as error:
        span: i2s.Span = error.span
        print(error.code, span.start)
    return judge(path)


if __name__ == "__main__":
    sys.exit(main())
