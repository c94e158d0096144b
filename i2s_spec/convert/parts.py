"""A model as several files, and as one again (clause 2.8), by the conventions of llama.cpp.

The first part has the keys and no tensors, so that an edit of keys is an upload of megabytes; each of the others has
consecutive tensors. Their names are NAME-00001-of-00003.gguf, and split.no, split.count and split.tensors.count are in
each. `split.i2s.id` is the same in all parts of one model, so that parts of two models are told apart.

A part takes its bytes of the data section whole, with padding and with whatever lies between tensors. So joined parts give
the file that was split, byte for byte; `Parts.differs` says why not, where they do not.

Sources: ggml-org/llama.cpp@0c1e570:tools/gguf-split/gguf-split.cpp, src/llama-model-loader.cpp.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple

from i2s_spec.convert.rewrite import (
    Edit,
    EditedSource,
    write_edited,
    write_parts,
    zeros,
)
from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.gguf.encode import encoded
from i2s_spec.gguf.header import TensorInfo
from i2s_spec.gguf.reader import File, takes_file
from i2s_spec.gguf.source import JoinedSource, Origin, Source
from i2s_spec.gguf.split_set import IDENTITY, TYPES, PartName, SplitSet, split_set
from i2s_spec.gguf.writer import Progress
from i2s_spec.schema.faults import ALIGNMENTS, KEY_COUNT_SPAN, MAGIC, TENSOR_COUNT_SPAN, data_start, order_prefix
from i2s_spec.schema.limits import DEFAULT_ALIGNMENT
from i2s_spec.schema.types import ValueType, padded

#: Keys that are about parts, and in no whole model.
_ABOUT: Final = frozenset((*TYPES, IDENTITY))
_ALIGNMENT: Final = b"general.alignment"
#: Most parts: split.count is a u16, and a name has five digits.
MOST_PARTS: Final = 65_535
#: Bytes of each tensor by which models are told apart whose headers are the same.
_SEEN: Final = 64
_DIGITS: Final = 32
_UNITS: Final = {"K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}


class PartSize(NamedTuple):
    """How a model is split: into a number of files, or into files of at most so many bytes."""

    parts: int | None = None
    nbytes: int | None = None


def part_size(text: str) -> PartSize:
    """Parse the argument of `--split`: `3`, or `500M`, `2G`, `4GiB`; K, M, G, T are powers of 1,000, as in llama.cpp.

    :raises ValueError: for other text, and for fewer than two parts

    >>> part_size("3"), part_size("1.5GiB")
    (PartSize(parts=3, nbytes=None), PartSize(parts=None, nbytes=1610612736))
    """
    found = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:([KMGT])(i?)B?)?", text, re.IGNORECASE)
    if found is None or (found[2] and not found[3]):
        raise ValueError(f"{quote(text)} is neither a number of parts, such as 3, nor a size, such as 500M or 2G")
    if found[3] is None:
        if not 2 <= int(found[1]) <= MOST_PARTS:
            raise ValueError(
                f"a model is split into 2 to {counted(MOST_PARTS, 'part')}, the first of which has the keys alone"
            )
        return PartSize(parts=int(found[1]))
    unit = 1024 ** ("KMGT".index(found[3].upper()) + 1) if found[4] else _UNITS[found[3].upper()]
    nbytes = int(float(f"{found[1]}.{found[2] or 0}") * unit)
    if not nbytes:
        raise ValueError(f"{quote(text)}: no part has 0 bytes")
    return PartSize(nbytes=nbytes)


class PartFile(NamedTuple):
    """A file that was written, a part or what parts were joined to: its path, bytes and tensors."""

    path: str
    size: int
    tensors: int


class Parts(NamedTuple):
    """What a model was split into; `differs` says why joining gives other bytes than the file had, if it does."""

    parts: tuple[PartFile, ...]
    differs: str


@takes_file
def split(
    model: Origin,
    name: str | os.PathLike[str],
    into: PartSize,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Parts:
    """Split a model into parts; all of them get their names, or none does.

    :param model: a file, or the first part of a split model, which is split anew
    :param name: what precedes `-00001-of-00003.gguf`; `.gguf` at its end is dropped
    :param force: replace files of these names, but never what is read
    :raises FormatError: for a fault of the header, and tensors that are incomplete
    :raises ValueError: for a file without tensors, more parts than there are tensors, and tensors that share bytes or do
        not lie at multiples of the alignment
    :raises OSError: as `OutputFile` does; then nothing was written
    """
    with _whole(model) as file:
        prefix = os.fspath(name).removesuffix(".gguf")
        if os.path.basename(prefix) in ("", ".", ".."):
            raise ValueError(f"{quote(prefix)} names a folder; parts need a name")
        groups, differs = _groups(file, into)
        if len(groups) >= MOST_PARTS:
            raise ValueError(
                f"it would have {counted(len(groups) + 1, 'part')}, and a model has at most {MOST_PARTS:,}"
            )
        names = PartName(prefix, 0, len(groups) + 1)
        sources = list(_parts(file, groups))
        found = [PartFile(names.of(i), source.size, tensors) for i, (source, tensors) in enumerate(sources)]
        _write_all(file.source, found, [source for source, _ in sources], force, progress)
        return Parts(tuple(found), differs)


def _write_all(
    origin: Source, parts: Sequence[PartFile], sources: Sequence[EditedSource], force: bool, progress: Progress | None
) -> None:
    """Write all parts under names of their own before any gets its name; the first part gets it last."""
    total, done = sum(part.size for part in parts), 0
    inputs = _inputs(origin)
    with ExitStack() as stack:
        outputs: list[OutputFile] = []
        for part, source in zip(parts, sources, strict=True):
            room = total - done  # for what is still to come
            outputs.append(output := OutputFile(part.path, force=force, size=room, inputs=inputs))
            stack.callback(output.discard)
            shown = None if progress is None else _from(progress, done, total)
            write_parts(source, output, shown)
            done += part.size
        named: list[str] = []
        try:
            for output in reversed(outputs):
                output.commit()
                named.append(output.name)
        except BaseException:
            for path in named if not force else ():
                with suppress(OSError):
                    os.unlink(path)
            raise


def _from(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)


def _inputs(source: Source) -> tuple[Source, ...]:
    """Return the sources that a file is read from."""
    origin = source.origin if isinstance(source, EditedSource) else source
    return origin.sources if isinstance(origin, JoinedSource) else (origin,)


class _Group(NamedTuple):
    """The tensors of one part, in the order of the table, and its range of the data section."""

    rows: list[int]
    start: int
    stop: int


def _groups(file: File, into: PartSize) -> tuple[list[_Group], str]:
    """Return which tensors are in which part after the first, and why joining them gives another file, if it does."""
    index, base, alignment = file.index, _data_start(file), file.alignment or DEFAULT_ALIGNMENT
    if not index.tensors:
        raise ValueError("there is nothing to split: the file has no tensors")
    if len(index.tensor_places) < index.tensors:
        raise ValueError("a tensor's name occurs twice in the file; i2s lint says which")
    order = _checked_order(file)
    offsets = [index.tensor(i).offset for i in order]
    ends = [*offsets[1:], file.size - base]
    for i, offset in zip(order, offsets, strict=True):
        if offset % alignment:
            what = f"lies at {offset:,}, which is no multiple of {alignment}"
            raise ValueError(f"tensor {quote(index.tensor(i).name)} {what}; i2s fix may repair that")
    groups: list[_Group] = []
    for first, last in _cuts(file, into, order, offsets, ends):
        start = 0 if first == 0 else offsets[first]
        groups.append(_Group(sorted(order[first:last]), start, ends[last - 1]))
    rows = [row for group in groups for row in group.rows]
    header = _header(file, _records(file), [_info(file, row, 0) for row in rows])
    if any(entry.name in _ABOUT for entry in file.metadata.rows):
        return groups, "it has keys about splitting, which a whole model does not keep"
    if rows != sorted(rows):
        return groups, "its table has the tensors in another order than they lie in the file"
    if header != file.source.read(0, base):
        return groups, "the padding before its tensors is not zero, or not that of its alignment"
    return groups, ""


def _cuts(
    file: File, into: PartSize, order: Sequence[int], offsets: Sequence[int], ends: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the tensors of each part, by first and last place in the order of the file."""
    count = len(order)
    if into.parts is not None:
        groups = into.parts - 1
        if groups > count:
            needed = f"{counted(into.parts, 'part needs', 'parts need')} {counted(groups, 'tensor')}"
            words = f"{needed}, since the first has the keys alone"
            raise ValueError(f"{words}; the file has {count:,}")
        first = 0
        for number in range(1, groups + 1):
            goal, most = ends[-1] * number // groups, count - (groups - number)
            last = first + 1
            while last < most and (number == groups or abs(ends[last] - goal) <= abs(ends[last - 1] - goal)):
                last += 1
            yield first, last
            first = last
        return
    assert into.nbytes is not None
    alignment = file.alignment or DEFAULT_ALIGNMENT
    fixed = len(_header(file, _records(file, later=True) + _about(file, 1, 2, count, "0" * _DIGITS), []))
    first = infos = 0
    for place in range(count):
        infos += len(_info(file, order[place], 0))
        start = 0 if first == 0 else offsets[first]
        if place > first and padded(fixed + infos, alignment) + ends[place] - start > into.nbytes:
            yield first, place
            first, infos = place, len(_info(file, order[place], 0))
    yield first, count


def _parts(file: File, groups: Sequence[_Group]) -> Iterator[tuple[EditedSource, int]]:
    """Yield every part as an edited source, with the number of its tensors."""
    source = file.source if isinstance(file.source, EditedSource) else EditedSource(file.source)
    base, count, tensors = _data_start(file), len(groups) + 1, file.index.tensors
    identity = _identity(file)
    head = _header(file, _records(file) + _about(file, 0, count, tensors, identity), [])
    yield source.edited([Edit(Span(0, file.size, "header"), head)]), 0
    later = _records(file, later=True)
    for number, (rows, start, stop) in enumerate(groups, 1):
        infos = [_info(file, row, -start) for row in rows]
        head = _header(file, later + _about(file, number, count, tensors, identity), infos)
        yield (
            source.edited(
                [
                    Edit(Span(0, base + start, "header"), head),
                    *([Edit(Span(base + stop, file.size, "data"), b"")] if base + stop < file.size else []),
                ]
            ),
            len(rows),
        )


def _header(file: File, records: Sequence[bytes], infos: Sequence[bytes]) -> bytes:
    """Return the bytes up to the data section, with its padding."""
    counts = struct.pack(order_prefix(file.byte_order) + "IQQ", file.version, len(infos), len(records))
    head = b"".join((MAGIC, counts, *records, *infos))
    return head + bytes(data_start(len(head), file.alignment or DEFAULT_ALIGNMENT) - len(head))


def _records(file: File, later: bool = False) -> list[bytes]:
    """Return the key-values of a whole model, or those of a later part: what readers need to find its tensors."""
    return [
        file.source.read(entry.span.start, entry.span.stop - entry.span.start)
        for entry in file.metadata.rows
        if entry.name not in _ABOUT and (not later or entry.name == _ALIGNMENT)
    ]


def _about(file: File, number: int, count: int, tensors: int, identity: str) -> list[bytes]:
    """Return the key-values that are about parts."""
    prefix = order_prefix(file.byte_order)
    values: dict[bytes, tuple[ValueType, Any]] = dict(
        zip(TYPES, zip(TYPES.values(), (number, count, tensors), strict=True), strict=True)
    )
    values[IDENTITY] = (ValueType.STRING, identity)
    return [
        struct.pack(prefix + "Q", len(key)) + key + struct.pack(prefix + "I", kind) + encoded(value, (kind,), prefix)
        for key, (kind, value) in values.items()
    ]


def _identity(file: File) -> str:
    """Return the same for the same model: 32 hexadecimal digits of its keys, its table, and the first bytes of each
    tensor.
    """
    digest = sha256(b"".join(_records(file)))
    for i in range(file.index.tensors):
        digest.update(_info(file, i, 0))
        start = _data_start(file) + file.index.tensor(i).offset
        digest.update(file.source.read(start, max(0, min(_SEEN, file.size - start))))
    return digest.hexdigest()[:_DIGITS]


def _info(file: File, row: int, moved: int) -> bytes:
    """Return a tensor info with its offset moved."""
    info: TensorInfo = file.index.tensor(row)
    data = file.source.read(info.span.start, info.span.stop - info.span.start)
    return data[:-8] + (info.offset + moved).to_bytes(8, file.byte_order)


# --- parts as one file -----------------------------------------------------------------------------------------------


def merge(
    first: File,
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress | None = None,
    check: Callable[[EditedSource], object] | None = None,
) -> tuple[PartFile, int]:
    """Join the parts of a model into one file.

    :param first: the first part, whose companions lie beside it
    :param check: called with the result before it gets its name, which it does not get if this raises
    :returns: what was written, and the number of parts
    :raises FormatError: for a part that cannot be read
    :raises ValueError: for parts that are not those of one model, each once, and that differ in byte order or version
    :raises OSError: as `OutputFile` does, also where the target is a part
    """
    with _whole(first) as file:
        source = file.source
        if not isinstance(source, EditedSource):
            raise ValueError("it is no part of a split model: it has no split.count above 1")
        write_edited(source, target, force, progress, None if check is None else lambda: check(source))
        return PartFile(os.fspath(target), source.size, file.index.tensors), len(_inputs(source))


@contextmanager
def _whole(file: File) -> Iterator[File]:
    """Provide the model that a file is the first part of; the file itself if it is none."""
    unusable = (error for error in file.passed if error.fault in ALIGNMENTS)  # which loaders refuse
    if (fault := file.fault or next(unusable, None)) is not None:
        raise fault
    whole = split_set(file)
    if whole is None:
        yield file
        return
    if not whole.is_first:
        raise ValueError(f"this is part {(whole.number or 0) + 1:,} of {whole.count:,}; name the first part")
    if whole.incomplete:
        raise ValueError(f"the parts are not one model: {whole.incomplete}")
    if not whole.is_whole or next(whole.differing(IDENTITY), None) is not None:
        raise ValueError("the parts are not one model; i2s lint says why")
    with ExitStack() as stack:
        files = [file, *(stack.enter_context(_opened(whole, number)) for number in range(1, whole.count))]
        for each in files:
            _checked_order(each)
        yield File(_joined(files))
        for each in files:
            each.require_unchanged()


@contextmanager
def _opened(whole: SplitSet, number: int) -> Iterator[File]:
    file = whole.open(number)
    try:
        if file.fault is not None:
            raise file.fault
        yield file
    finally:
        file.close()


def _checked_order(file: File) -> list[int]:
    """Return the tensors in the order in which they lie, by the offsets of the table.

    :raises FormatError: for one that is incomplete
    :raises ValueError: for tensors that share bytes, as far as the sizes of their types are known
    """
    index, base = file.index, _data_start(file)
    order = sorted(range(index.tensors), key=lambda i: index.tensor(i).offset)
    for i, after in zip(order, [*order, None][1:], strict=True):
        tensor = file.tensors.by_index(i)
        size = 1 if tensor.type is None else tensor.nbytes
        if after is not None and tensor.offset + size > index.tensor(after).offset:
            names = f"{quote(tensor.raw_name)} and {quote(index.tensor(after).name)}"
            raise ValueError(f"tensors {names} share bytes")
        tensor.require(Span(base + tensor.offset, base + tensor.offset + size, f"data[{i}]"))
    return order


def _joined(files: Sequence[File]) -> EditedSource:
    """Return the parts as one file: the keys of the first, the tables one after another, then the data sections."""
    first = files[0]
    alignment = first.alignment or DEFAULT_ALIGNMENT
    joined = JoinedSource([file.source for file in files])
    edits: list[Edit] = []
    entries = [entry for entry in first.metadata.rows if entry.name in _ABOUT]
    edits += [Edit(entry.span, b"") for entry in entries]
    infos: list[bytes] = []
    reached = 0  # in the data section
    for number, file in enumerate(files):
        if (file.byte_order, file.version) != (first.byte_order, first.version):
            raise ValueError(f"part {number + 1:,} has another byte order or version than the first")
        begin = joined.starts[number]
        start = _data_start(file)
        if number:
            edits.append(Edit(Span(begin, begin + start, "header"), b""))
        if not file.index.tensors:
            continue
        if reached % alignment:
            fill = -reached % alignment
            edits.append(Edit(Span(begin + start, begin + start, "padding"), zeros(fill)))
            reached += fill
        for i in range(file.index.tensors):
            if (file.index.tensor(i).offset + reached) % alignment:
                name = quote(file.index.tensor(i).name)
                raise ValueError(f"tensor {name} of part {number + 1:,} does not lie at a multiple of {alignment}")
            infos.append(_info(file, i, reached))
        reached += file.size - start
    assert first.infos_end is not None
    start = first.index.tensor(0).span.start if first.index.tensors else first.infos_end
    grown = len(b"".join(infos)) - (first.infos_end - start)
    end = first.infos_end + grown - sum(entry.span.stop - entry.span.start for entry in entries)
    table = b"".join(infos) + bytes(data_start(end, alignment) - end)
    edits.append(Edit(Span(start, _data_start(first), "tensor_infos"), table))
    for span, count in ((TENSOR_COUNT_SPAN, len(infos)), (KEY_COUNT_SPAN, first.index.keys - len(entries))):
        edits.append(Edit(span, count.to_bytes(8, first.byte_order)))
    return EditedSource(joined).edited(edits)


def _data_start(file: File) -> int:
    """Return where the data begin, by the header; a part without tensors has none, only padding."""
    assert file.infos_end is not None
    start = data_start(file.infos_end, file.alignment or DEFAULT_ALIGNMENT)
    return min(start, file.size) if file.index.tensors else file.size
