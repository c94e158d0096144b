"""Record comparison: an untrusted dump is compared, or refused with a message; none of its text reaches a terminal.

A first byte below 128 chooses the file's name, and thus its possible types; the rest is the file. From 128 on the rest
is a small program (see `dumped`): the model, its mistake, unusual properties of the taps, the form of the dump, the mode
of the comparison, and the damage of the record.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import dumped
from harness import Program, inputs, replayed
from searching import search
from verb_runs import require_answers

from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden import compare, record
from i2s_spec.golden.dumps import read_dump
from i2s_spec.golden.llama_cpp import MAGIC, BaseWriter, read_base
from i2s_spec.golden.recording import described
from i2s_spec.golden.report import FORMATS, report
from i2s_spec.golden.report_text import styled
from i2s_spec.golden.result import Comparison
from i2s_spec.golden.store import HEADER, refuse_taken
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
    """Check the properties for any bytes; every exception is a failure."""
    require_answers(
        data, *(f"golden compare {_golden()}/golden {name}" for name in NAMES[:4]),
        **{name.replace(".", "__"): data[1:] for name in NAMES[:4]},
    )  # fmt: skip
    holder = _golden() / "dump"
    shutil.rmtree(holder, ignore_errors=True)
    holder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if data[:1] >= b"\x80":
            _of_a_program(Program(data[1:]), holder)
        else:
            _of_a_file(data[0] if data else 0, data[1:], holder)


def _of_a_file(kind: int, content: bytes, holder: Path) -> None:
    path = holder / NAMES[kind % len(NAMES)]
    path.write_bytes(content)
    candidate = holder if path.suffix == ".bin" else path
    try:
        dump = read_dump(candidate)
        for name in list(dump)[:8]:
            with_shape = dump.stored[name].shape
            assert with_shape is None or all(side >= 0 for side in with_shape)
            with suppress(FormatError, SettingError):
                assert with_shape in (None, dump[name].shape)
        result = compare(_golden() / "golden", candidate)
    except (FormatError, SettingError) as error:
        message = str(error)
    else:
        message = result.verdict
    assert message.isprintable(), message
    with suppress(SettingError):
        base = read_base(content)
        again = io.BytesIO()
        with suppress(SettingError, ValueError):
            writer = BaseWriter(again, base.tokens.tolist(), base.log_probabilities.shape[-1])
            assert again.getvalue()[:8] == MAGIC
            for rows in base.log_probabilities:
                writer.add(rows)
            writer.add(base.log_probabilities[0])


def _of_a_program(program: Program, holder: Path) -> None:
    given = dumped.dump(program, holder)
    if given is None:
        return
    empty = holder.with_name("empty")
    empty.mkdir(exist_ok=True)
    for place in (given.golden, given.candidate, holder, empty, empty / "new", empty / "no" / "where"):
        for force in (False, True):
            with suppress(FileExistsError, FileNotFoundError):
                refuse_taken(place, force)
    messages: list[str] = []
    try:
        result = compare(given.golden, given.candidate, **given.options)
    except (FormatError, SettingError) as error:
        messages.append(str(error))
    except FileNotFoundError:
        if given.options.get("model") != "missing.gguf":
            raise
    else:
        if not given.damaged:
            messages.append(described(json.loads((given.golden / HEADER).read_text())))
        _reported(result)
    assert all(text.isprintable() for text in messages), messages


def _reported(result: Comparison) -> None:
    """Every format of the report; none contains a control character."""
    with suppress(SettingError):
        report(result, "odd")
    for form in FORMATS:
        text = "".join(report(result, form))
        assert not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 for char in text)
    for _ in islice(styled(result, 80), 10_000):
        pass
    document: Any = json.loads("".join(report(result, "json")))
    assert document["ok"] is result.ok
    assert result.ok is (result.first is None) or result.mode == "free-running" or not result.ok
    with suppress(KeyError):
        assert result["Qcur-0"].name == "Qcur-0"
    with suppress(KeyError):
        raise AssertionError(result["nobody"])


@replayed("golden_compare")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_truncated_and_changed_dumps() -> None:
    """The corpus again, truncated at some places and with some bytes changed."""
    from random import Random

    for path in inputs("golden_compare"):
        data, chance = path.read_bytes(), Random(path.name)
        if data[:1] >= b"\x80":
            continue
        for _ in range(12):
            at = chance.randrange(1, len(data) + 1)
            one_input(data[:at])
            one_input(data[: at - 1] + bytes((chance.randrange(256),)) + data[at:])


if __name__ == "__main__":
    search(one_input, gguf=False)
