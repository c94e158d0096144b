"""Golden comparison: a stranger's dump is compared, or refused with a sentence; nothing of it reaches a terminal.

The first byte of an input chooses the file's name, and with it what it may be taken for; the rest is the file.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

from harness import inputs, replayed, search

from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden import compare, record
from i2s_spec.golden.divergence import read_base
from i2s_spec.golden.dumps import read_dump
from i2s_spec.model.load import load_model

NAMES = ("theirs.npz", "theirs.safetensors", "theirs.npy", "theirs.txt", "Qcur-0.bin")


@cache
def _golden() -> Path:
    """A record of a small model."""
    folder = Path(tempfile.mkdtemp(prefix="i2s-golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "model.gguf"
    new(str(path), "llama", layers=1, vocab=272)
    with load_model(path) as model:
        record(model, [1, 2, 3], folder / "golden")
    return folder


def one_input(data: bytes) -> None:
    """What must hold for any bytes; whatever is raised here is a find."""
    folder = _golden()
    kind, content = (data[0] if data else 0), data[1:]
    holder = folder / "dump"
    shutil.rmtree(holder, ignore_errors=True)
    holder.mkdir()
    path = holder / NAMES[kind % len(NAMES)]
    path.write_bytes(content)
    candidate = holder if path.suffix == ".bin" else path
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            dump = read_dump(candidate)
            for name in list(dump)[:8]:
                with_shape = dump.stored[name].shape
                assert with_shape is None or all(side >= 0 for side in with_shape)
            result = compare(folder / "golden", candidate)
        except (FormatError, SettingError) as error:
            said = str(error)
        else:
            said = result.verdict
        assert said.isprintable(), said
        with suppress(SettingError):
            read_base(content)


@replayed("golden_compare")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_cut_and_flipped() -> None:
    """The corpus once more, cut at some places and with some bytes changed."""
    from random import Random

    for path in inputs("golden_compare"):
        data, chance = path.read_bytes(), Random(path.name)
        for _ in range(12):
            at = chance.randrange(1, len(data) + 1)
            one_input(data[:at])
            one_input(data[: at - 1] + bytes((chance.randrange(256),)) + data[at:])


if __name__ == "__main__":
    search(one_input, gguf=False)
