"""This script copies trained models into the package: python publish.py OUT, the output folder of train.py.

Files and cards go into `i2s_spec/convert/`, data for tests goes beside the tests, logs and loss curves stay
here.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from shutil import copyfile
from typing import Final

from curve import drawn

HERE: Final = Path(__file__).resolve().parent
PACKAGE: Final = HERE.parent / "i2s_spec" / "convert" / "trained"
TESTS: Final = HERE.parent / "tests" / "convert" / "trained"


def publish(folder: Path, name: str) -> None:
    """Copy one model into the package."""
    TESTS.mkdir(exist_ok=True)
    (PACKAGE / f"{name}.gguf.xz").write_bytes(
        lzma.compress((folder / f"{name}.gguf").read_bytes(), preset=9 | lzma.PRESET_EXTREME)
    )
    copyfile(folder / f"{name}.card.json", PACKAGE / f"{name}.json")
    copyfile(folder / f"{name}.logits.json", TESTS / f"{name}.logits.json")
    copyfile(folder / f"{name}.log.jsonl", HERE / f"{name}.log.jsonl")
    records = [json.loads(line) for line in (folder / f"{name}.log.jsonl").read_text().splitlines()]
    vocab = json.loads((folder / f"{name}.card.json").read_text())["sizes"]["vocab"]
    (HERE / f"{name}.svg").write_text(drawn(records, name, vocab), encoding="utf-8")


if __name__ == "__main__":
    for card in sorted(Path(sys.argv[1]).glob("*.card.json")):
        publish(card.parent, card.name.removesuffix(".card.json"))
