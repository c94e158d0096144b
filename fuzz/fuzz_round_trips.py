"""Round trips: a rebuilt file is unchanged, a tensor recoded there and back is too, and a second repair changes nothing.

Inputs are files, or choices: a changed model (see `models`) with `dialect`, `select`, `ignore` and `scrub_tail` of repairs,
and `keep_unknown` and `drop_template` of `sanitize`.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from harness import SIXTHS, broken, changed, replayed, require_answers, search
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import MARK, by_choices, changed_models

from i2s_spec.codec import native
from i2s_spec.convert.rewrite import convert_endian
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.fix import fix
from i2s_spec.linter.sanitize import sanitize
from i2s_spec.schema import container
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.types import I2_S


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    if data[:1] == MARK:
        by_choices(test_changed_models, data[1:])
    else:
        _check(data, {}, len(data) % 4 == 0, len(data) % 8 == 0)


#: Options of repairs; some are invalid.
OPTIONS: tuple[tuple[str, Any], ...] = (
    ("select", ["G"]), ("select", ["M117"]), ("select", ["M118"]), ("select", ["odd"]), ("ignore", ["G", "M"]),
    ("dialect", "interleave-64"), ("dialect", "odd"), ("scrub_tail", True),
)  # fmt: skip


@settings(max_examples=12, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_models(data: Any) -> None:
    model, options = data.draw(changed_models()), {}
    while data.draw(st.booleans()):
        name, value = data.draw(st.sampled_from(OPTIONS))
        options[name] = value
    _check(model.data, options, data.draw(st.booleans()), data.draw(st.booleans()))
    if data.draw(st.booleans()):
        _on_disk(model.data)


def _check(data: bytes, options: dict[str, Any], keep_unknown: bool, drop_template: bool) -> None:
    try:
        parsed = container.parse(data)
    except FormatError:
        parsed = None
    if parsed is not None:
        assert container.build(parsed) == data
        _tensors(data)
        _turned(data)
    _fixed(data, options)
    _sanitised(data, keep_unknown, drop_template)
    require_answers(
        data, "fix in.gguf -o a.gguf --unsafe --scrub-tail", "sanitize in.gguf -o b.gguf", "diff in.gguf a.gguf",
        "convert in.gguf -o c.gguf --to Q2_0", "convert in.gguf -o d.gguf --endian big", in__gguf=data,
    )  # fmt: skip


def _tensors(data: bytes) -> None:
    """Every whole I2_S tensor is recoded to every layout that can hold it, and back."""
    file = File(BufferSource(data))
    for tensor in list(file.tensors.rows)[:6]:
        start = (file.data_start or 0) + tensor.offset
        if tensor.number != I2_S.number or len(tensor.ne) != 2 or min(tensor.ne) < 1 or tensor.ne[0] % 128:
            continue
        if start >= file.size:
            continue
        if tensor.nbytes > min(1 << 16, file.size - start):
            continue
        there = data[start : start + tensor.nbytes]
        for layout in LAYOUTS:
            try:
                other = native.transcode(there, tensor.shape, "canonical", layout, byte_order=file.byte_order)
            except ValueError:
                continue  # a shape that the layout cannot hold
            back = native.transcode(other, tensor.shape, layout, "canonical", byte_order=file.byte_order)
            codes = tensor.nbytes - 32
            assert bytes(back)[: codes + 4] == there[: codes + 4]


def _turned(data: bytes) -> None:
    """Converting the byte order there and back keeps the contents of a file."""
    file = File(BufferSource(data))
    other = "big" if file.byte_order == "little" else "little"
    once, twice = io.BytesIO(), io.BytesIO()
    try:
        convert_endian(file, once, other)
        convert_endian(File(BufferSource(once.getvalue())), twice, file.byte_order)
    except (FormatError, ValueError):
        return  # a file that cannot be converted
    again = File(BufferSource(twice.getvalue()))
    assert again.fault is None
    assert [(t.name, t.ne, t.number) for t in again.tensors.rows] == [
        (t.name, t.ne, t.number) for t in file.tensors.rows
    ]
    for before, after in zip(file.metadata.rows, again.metadata.rows, strict=True):
        if before.type not in (6, 9, 12):  # NaN is not equal to itself
            assert file.metadata.decode(before) == again.metadata.decode(after)


def _fixed(data: bytes, options: dict[str, Any]) -> None:
    """Repairing a repaired file changes nothing."""
    for unsafe in (False, True):
        once, twice = io.BytesIO(), io.BytesIO()
        try:
            first = fix(data, once, unsafe=unsafe, **options)
        except FormatError:
            return
        except ValueError:
            if not options:  # they may be invalid
                raise
            continue
        if not first.written:
            continue
        for change in first.changes:
            assert all(line.isprintable() for line in change.lines())
            json.dumps(change.as_dict())
        second = fix(once.getvalue(), twice, unsafe=unsafe, **{**options, "dialect": None})
        assert second.actions == ()
        assert twice.getvalue() == once.getvalue()


def _sanitised(data: bytes, keep_unknown: bool, drop_template: bool) -> None:
    """A sanitized file has the same weights, and sanitizing it again removes nothing."""
    once, twice = io.BytesIO(), io.BytesIO()
    try:
        first = sanitize(data, once, keep_unknown=keep_unknown, drop_template=drop_template)
    except FormatError:
        return
    except ValueError:
        assert not keep_unknown  # an architecture whose keys are unknown
        return
    second = sanitize(once.getvalue(), twice, keep_unknown=keep_unknown, drop_template=drop_template)
    assert second.left_out == ()
    assert second.weights == first.weights or first.renamed
    assert twice.getvalue() == once.getvalue()


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-round-trips-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _on_disk(data: bytes) -> None:
    """From file to file gives the same bytes as from buffer to buffer, and the input is unchanged."""
    source, target = _folder() / "in.gguf", _folder() / "out.gguf"
    source.write_bytes(data)
    for write in (fix, lambda *given, **more: sanitize(*given, keep_unknown=True, **more)):
        stream = io.BytesIO()
        target.unlink(missing_ok=True)
        try:
            write(data, stream)
            write(source, target)
        except FormatError:
            continue
        assert (target.read_bytes() if target.exists() else b"") == stream.getvalue()
    assert source.read_bytes() == data


@replayed("container", "round_trips")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


@SIXTHS
def test_malformed_files(sixth: int) -> None:
    for data in broken(2_000, every=3)[sixth::6]:
        one_input(data)


@SIXTHS
def test_changed_files(sixth: int) -> None:
    for data in changed(60, seed=2)[sixth::6]:
        one_input(data)


if __name__ == "__main__":
    search(one_input)
