"""Round trips: a rebuilt file is unchanged, a tensor recoded there and back is too, and a second repair changes nothing.

Inputs are files, or differences from a valid model (see `overlay`), with the settings `dialect`, `select`, `ignore` and
`scrub_tail` of repairs, `keep_unknown` and `drop_template` of `sanitize`, and `name`, which puts the file on disk.
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

import overlay
from harness import SIXTHS, broken, changed, replayed
from searching import search
from verb_runs import require_answers

from i2s_spec.codec import native
from i2s_spec.convert.rewrite import convert_endian
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.repair.fix import fix
from i2s_spec.linter.sanitize import sanitize
from i2s_spec.schema import container
from i2s_spec.schema.dialect import LAYOUTS
from i2s_spec.schema.types import I2_S


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    data, settings = overlay.read(data)
    try:
        parsed = container.parse(data)
    except FormatError:
        parsed = None
    if parsed is not None:
        assert container.build(parsed) == data
        _tensors(data)
        _turned(data)
    _fixed(data, settings)
    _sanitised(data, settings)
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


def _fixed(data: bytes, settings: dict[str, Any]) -> None:
    """Repairing a repaired file changes nothing."""
    options: dict[str, Any] = {name: list(settings[name]) for name in ("select", "ignore") if name in settings}
    options["scrub_tail"] = settings.get("scrub_tail") is True
    options["dialect"] = settings.get("dialect")
    for unsafe in (False, True):
        once, twice = io.BytesIO(), io.BytesIO()
        try:
            first = fix(data, once, unsafe=unsafe, **options)
        except FormatError:
            return
        except (ValueError, TypeError, AttributeError):
            if not {"select", "ignore", "dialect"} & set(settings):  # these settings may be invalid
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
    if "name" in settings:
        _on_disk(data)


def _sanitised(data: bytes, settings: dict[str, Any]) -> None:
    """A sanitized file has the same weights, and sanitizing it again removes nothing."""
    keep, drop = settings.get("keep_unknown") is True, settings.get("drop_template") is True
    once, twice = io.BytesIO(), io.BytesIO()
    try:
        first = sanitize(data, once, keep_unknown=keep, drop_template=drop)
    except FormatError:
        return
    except ValueError:
        assert not keep  # an architecture whose keys are unknown
        return
    second = sanitize(once.getvalue(), twice, keep_unknown=keep, drop_template=drop)
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
        try:
            write(data, stream)
            write(source, target, force=True)
        except FormatError:
            continue
        assert target.read_bytes() == stream.getvalue()
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
