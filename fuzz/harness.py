"""What the harnesses share: where their inputs are, and how a search with Atheris begins.

Each `fuzz_*.py` has `one_input(data)`, which says what must hold for any bytes. Under pytest it is called with everything
in `corpus/` and `regressions/`; run as a program, it searches. Where the bytes are a GGUF file, the mutator of
`i2s_spec.testing` makes new ones.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import pytest

from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.mutator import custom_crossover, custom_mutator, mutate
from i2s_spec.testing.sample import Draft

HERE = Path(__file__).resolve().parent

Target = Callable[[bytes], None]


def inputs(name: str) -> list[Path]:
    """The kept inputs of a harness: its corpus and its regressions."""
    folders = (HERE / "corpus" / name, HERE / "regressions" / name)
    return sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.name != "README")


def replayed(*names: str) -> pytest.MarkDecorator:
    """Parametrise a test by the kept inputs of harnesses, as `path`."""
    kept = [path for name in names for path in inputs(name)]
    ids = [path.name for path in kept]
    return pytest.mark.parametrize("path", kept, ids=ids)


def broken(most: int = 20_000, every: int = 1) -> list[bytes]:
    """The malformed files up to a size, or every so many of them."""
    return [case.data for case in malformed() if len(case.data) <= most][::every]


def changed(count: int, seed: int = 0) -> list[bytes]:
    """Files that the mutator makes of sound ones: the same each time."""
    bases = [Draft().data, Draft("big").data, Draft(last="f32").data, b""]
    made: list[bytes] = []
    for i in range(count):
        base = bases[i % 4] if i % 3 else (made or bases)[-1]
        made.append(mutate(base, f"{seed}/{i}", 1 << 14))
    return made


def search(one_input: Target, gguf: bool = True) -> None:
    """Search with Atheris until it finds something, with the arguments of libFuzzer.

    :param gguf: whether the bytes are a GGUF file, so that its fields can be changed
    """
    import atheris

    given = {"custom_mutator": _mixed, "custom_crossover": custom_crossover} if gguf else {}
    for function in [each for each in gc.get_objects() if isinstance(each, FunctionType)]:
        if str(function.__module__).startswith("i2s_spec"):  # all of Python would take minutes
            atheris.instrument_func(function)
    atheris.Setup(sys.argv, one_input, **given)
    atheris.Fuzz()


def _mixed(data: bytes, max_size: int, seed: int) -> bytes:
    """Fields most of the time, libFuzzer's own changes of bytes now and then."""
    import atheris

    if seed % 10 == 0:
        changed: bytes = atheris.Mutate(data, max_size)
        return changed
    return custom_mutator(data, max_size, seed)
