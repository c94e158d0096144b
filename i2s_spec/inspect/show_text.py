"""What `describe` tells of a file as one page of text: header, keys, tensors, totals; and `plots` of its tensors."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from i2s_spec.draw.terminal import (
    ASCII,
    BLOCKS,
    SHARE_ASCII,
    SHARE_BLOCKS,
    Column,
    Line,
    Piece,
    shares,
    sparkline,
    table,
)
from i2s_spec.draw.text import count_words, exact_size_words, float32_words, size_words, visible, width
from i2s_spec.errors import counted
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.survey import Reading, Survey
from i2s_spec.inspect.survey_reader import survey
from i2s_spec.schema import faults

#: Columns that a value may take.
VALUE_WIDTH: Final = 60

#: What is wrong with a tensor, in as few words as a table has room for.
_PROBLEMS: Final = {
    faults.TYPE_UNKNOWN.code: "type of unknown size",
    faults.MEANING_UNDECIDED.code: "one of several types",
    faults.BLOCK_SPLIT.code: "rows are not whole blocks",
    faults.TENSOR_PAST_END.code: "cut off by the end of the file",
    faults.OFFSET_PAST_END.code: "starts beyond the end of the file",
}


def page(about: dict[str, Any], available: int | None = None) -> Iterator[Line]:
    """Yield the lines of the page.

    :param about: what `describe` gave
    :param available: columns of the terminal, if the page has to fit
    """
    if about["header"] is None or about["header"]["version"] is None:
        return  # it is not a GGUF file: the fault is the whole description
    yield from _header(about)
    keys, tensors = about["keys"], about["tensors"]
    if keys:
        columns = (Column("key", gives=True, style="cyan"), Column("type"), Column("value", gives=True))
        yield from _titled("Keys", about["header"]["key_count"], keys[-1]["index"] + 1)
        yield from table(_numbered(columns), _rows(keys, "keys", _key_cells), available)
    if tensors:
        yield from _titled("Tensors", about["header"]["tensor_count"], tensors[-1]["index"] + 1)
        yield from _tensors(tensors, available)
    split = about.get("split") or {"parts": [], "totals": None}
    for part in split["parts"]:
        if part["tensors"]:
            title = f"Tensors of part {part['number']:,}, {visible(_bytes(part['path']), 4096, bare=True)}"
            yield from _titled(title, part["tensor_count"], part["tensors"][-1]["index"] + 1)
            yield from _tensors(part["tensors"], available)
    totals = split["totals"] or about["totals"]
    if totals["tensors"]:
        yield from _totals(totals, available)
    if "memory" in about:
        yield from _memory(about["memory"], available)


def _header(about: dict[str, Any]) -> Iterator[Line]:
    header = about["header"]
    order = f", {header['byte_order']}-endian" if header["byte_order"] else ""
    yield [
        Piece(visible(_bytes(about["path"]), 4096, bare=True), "bold"),
        Piece(f"  GGUF version {header['version']}{order}"),
    ]
    facts = [("file", exact_size_words(about["size"]))]
    counts = f"{counted(header['key_count'], 'key')}, {counted(header['tensor_count'], 'tensor')}"
    if header["header_bytes"] is None:
        facts.append(("header", f"{counts} promised"))
    else:
        facts.append(("header", f"{exact_size_words(header['header_bytes'])}, {counts}"))
    if header["data_start"] is not None:
        source = "general.alignment" if header["alignment_declared"] else "the default"
        where = f" from 0x{header['data_start']:x}, aligned to {header['alignment']:,} ({source})"
        facts.append(("data", exact_size_words(header["data_bytes"]) + where if header["data_bytes"] else "none"))
    split = about.get("split")
    if split is not None:
        words = f"part {split['part']:,} of {split['of']:,} of a split model"
        more = "; the others are beside it, and totals are of all parts" if split["complete"] else ", shown alone"
        facts.append(("split", words + more))
    for name, fact in facts:
        yield [Piece(f"  {name:<8}", "dim"), Piece(fact)]


def _titled(title: str, promised: int, shown: int) -> Iterator[Line]:
    yield []
    count = f"{promised:,}" if shown == promised else f"{shown:,} of the {promised:,} promised"
    yield [Piece(title, "bold"), Piece(f" ({count})")]


def _numbered(columns: Sequence[Column]) -> tuple[Column, ...]:
    return (Column("#", right=True, style="dim"), *columns)


def _rows(items: list[dict[str, Any]], what: str, cells: Any) -> Iterator[Sequence[str]]:
    """Yield a row for each item, and a remark where items were left out."""
    expected = 0
    for item in items:
        if item["index"] != expected:
            yield (f"… {item['index'] - expected:,} {what} are not shown; --all shows them",)
        expected = item["index"] + 1
        yield (str(item["index"]), *cells(item))


def _key_cells(key: dict[str, Any]) -> tuple[str, ...]:
    words = value_words(key)
    if key["key"] == "general.file_type" and isinstance(key["value"], int):
        from i2s_spec.schema.type_registry import file_type_words

        words += f" ({file_type_words(key['value']).removesuffix(' to all')})"
    return visible(_bytes(key["key"]), bare=True), key["type"], words


def value_words(key: dict[str, Any]) -> str:
    """Return the value of a key, as `describe` gives it, in a few words."""
    value, count = key["value"], key["count"]
    if key["type"].startswith("arr"):
        return f"[{counted(count, 'item')}] " + _elements(value, key["type"], key["whole"]) if count else "[0 items]"
    if key["type"] != "str":
        return _scalar(value, key["type"])
    text = _bytes(value)
    first, newline, _ = text.partition(b"\n")
    if key["whole"] and len(text) <= VALUE_WIDTH and not newline:
        return visible(text)
    # a long text, such as a chat template: its first line, and how much there is
    lines = f", {counted(text.count(10) + 1, 'line')}" if newline and key["whole"] else ""
    size = f"… ({counted(count, 'byte')}{lines})"
    start = visible(first[: 4 * VALUE_WIDTH], 10**9, bare=False)
    room = VALUE_WIDTH - len(size)
    return (start if len(start) <= room else start[: room - 1] + "'") + size


def _elements(values: list[Any], kind: str, whole: bool) -> str:
    """Return the first elements of an array, as many as there is room for."""
    shown: list[str] = []
    room = VALUE_WIDTH - 16
    for value in values:
        if isinstance(value, list):
            word = "[" + _elements(value, kind, whole) + "]"
        else:
            word = visible(_bytes(value), 24) if isinstance(value, str | dict) else _scalar(value, kind)
        if shown and sum(len(known) + 2 for known in shown) + len(word) > room:
            return ", ".join(shown) + ", …"
        shown.append(word)
    return ", ".join(shown) + ("" if whole else ", …" if shown else "…")


def _scalar(value: Any, kind: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return float32_words(value) if "f32" in kind else repr(value)
    return str(value)


#: Columns that a tensor's name is given on a narrow terminal: `blk.29.attn_sub_norm.weight` is 27 long.
_NAME_WIDTH: Final = 28


def _tensors(tensors: list[dict[str, Any]], available: int | None) -> Iterator[Line]:
    unread = sum("scale_unread" in tensor for tensor in tensors)
    scales = any(tensor["scale"] is not None for tensor in tensors)
    problems = any(tensor["problem"] is not None for tensor in tensors)
    columns = [
        Column("name", gives=True, style="cyan"),
        Column("type"),
        Column("rows x cols", right=True),
        Column("offset", right=True),
        Column("bytes", right=True),
    ]
    if scales:
        columns.append(Column("scale", right=True))
    if problems:
        columns.append(Column("", style="red"))

    def cells(tensor: dict[str, Any]) -> tuple[str, ...]:
        start = tensor["start"]
        row = [
            visible(_bytes(tensor["name"]), 64, bare=True),
            _type(tensor),
            " x ".join(map(str, tensor["shape"])) or "scalar",
            f"0x{start:x}" if start is not None else f"+0x{tensor['offset']:x}",
            "?" if tensor["bytes"] is None else f"{tensor['bytes']:,}",
        ]
        if scales:
            absent = "not read" if "scale_unread" in tensor else ""
            row.append(absent if tensor["scale"] is None else f"{tensor['scale']:.6g}")
        if problems:
            problem = tensor["problem"]
            row.append("" if problem is None else _PROBLEMS[problem["code"]])
        return tuple(row)

    yield from table(*_fitting(_numbered(columns), list(_rows(tensors, "tensors", cells)), available), available)
    if unread:
        more = "each would be a request of its own; --remote-limit sample=N reads more"
        yield [Piece(f"  {counted(unread, 'scale was', 'scales were')} not read: {more}", "dim")]


def _fitting(
    columns: Sequence[Column], rows: list[Sequence[str]], available: int | None
) -> tuple[list[Column], list[Sequence[str]]]:
    """Return the table without offsets, and without bytes, where a terminal is too narrow for them and the names."""
    retained = list(columns)
    for title in ("offset", "bytes"):
        cells = [row for row in rows if len(row) > 1]
        widths = [max([len(column.title), *(width(row[i]) for row in cells)]) for i, column in enumerate(retained)]
        needed = 2 * len(widths) + sum(
            min(each, _NAME_WIDTH) if column.gives else each for each, column in zip(widths, retained, strict=True)
        )
        if available is None or needed <= available:
            break
        at = [column.title for column in retained].index(title)
        del retained[at]
        rows = [row if len(row) == 1 else (*row[:at], *row[at + 1 :]) for row in rows]
    return retained, rows


def _type(of: dict[str, Any]) -> str:
    return of["type"] or f"type {of['type_number']}"


def _totals(totals: dict[str, Any], available: int | None) -> Iterator[Line]:
    yield []
    yield [Piece("Totals", "bold")]
    columns = (
        Column("type"),
        Column("tensors", right=True),
        Column("elements", right=True),
        Column("bytes", right=True),
        Column("bits per element", right=True),
    )
    rows = [(_type(total), *_sums(total)) for total in totals["by_type"]]
    yield from table(columns, [*rows, ("all", *_sums(totals))], available)
    yield [Piece(f"  {counted(totals['elements'], 'parameter')}"), Piece(_rounded(totals["elements"]), "dim")]


def _memory(memory: dict[str, Any], available: int | None) -> Iterator[Line]:
    yield []
    yield [
        Piece("Memory", "bold"),
        Piece(f"  one sequence of {counted(memory['context'], 'token')}, as llama.cpp lays it out"),
    ]

    def size(number: int | None) -> str:
        return "?" if number is None else f"{number:,}"

    rows = [("weights", size(memory["weights"]), "every tensor once")]
    for part in memory["cache"] or ():
        layers = counted(part["layers"], "layer")
        if part["name"] == "recurrent state":
            rows.append((part["name"], size(part["bytes"]), f"{layers}, in F32"))
        else:
            where = f"{layers}, {counted(part['cells'], 'token')}, in {memory['cache_type'].upper()}"
            rows.append((part["name"], size(part["bytes"]), where))
    if memory["cache"] is None:
        rows.append(("cache", "not known", memory["unknown"]))
    elif not memory["cache"]:
        rows.append(("cache", "none", "all tokens are computed together"))
    elif memory["weights"] is not None:
        both = memory["weights"] + memory["cache_bytes"]
        rows.append(("together", size(both), size_words(both) if both >= 1024 else ""))
    yield from table((Column(""), Column("bytes", right=True), Column("", gives=True)), rows, available)
    notes = ["buffers of intermediate results come on top; they depend on device, batch and program"]
    if (cuda := memory["cuda"]) is not None:
        notes.append(
            f"with CUDA, all layers offloaded: {size_words(cuda['device'])} of weights on the GPU, "
            f"{size_words(cuda['host'])} in host memory: {cuda['words']} ({cuda['source']})"
        )
    for note in notes:
        for line in textwrap.wrap(note, (available or WIDTH) - 2, subsequent_indent="  "):
            yield [Piece(f"  {line}", "dim")]


def _sums(total: dict[str, Any]) -> tuple[str, ...]:
    size, bits = total["bytes"], total["bits_per_element"]
    return (
        f"{total['tensors']:,}",
        f"{total['elements']:,}",
        "?" if size is None else f"{size:,}",
        "" if bits is None else f"{bits:.2f}",
    )


def _rounded(count: int) -> str:
    return f" ({count_words(count)})" if count >= 1000 else ""


def _bytes(text: Any) -> bytes:
    """Return the bytes of a string as `describe` gives it."""
    return bytes.fromhex(text["hex"]) if isinstance(text, dict) else text.encode("utf-8", "surrogatepass")


# --- show plot -------------------------------------------------------------------------------------------------------
# Scales by layer and shares of codes of a file's I2_S tensors, as text for a terminal.

#: Kinds of tensors and layers that are drawn.
KINDS: Final = 64
LAYERS: Final = 4096

#: Columns of a strip of shares, and of a page of unknown width.
STRIP: Final = 32
WIDTH: Final = 100

_BLOCK: Final = re.compile(rb"^blk\.(\d{1,4})\.")


class TensorKind(NamedTuple):
    """Tensors of one kind: their scales by layer, those in no layer first, and their codes together."""

    name: str
    scales: dict[int, float]
    counts: list[int]


def plots(file: File, available: int | None = None, *, blocks: bool = True) -> Iterator[Line]:
    """Yield the plots as lines; a sentence where no I2_S tensor could be read.

    :param available: columns of the terminal
    :param blocks: whether the stream can say block characters; otherwise the plots are ASCII
    :raises FormatError: where the file goes away meanwhile
    """
    seen = survey(file, Reading("sample"))
    kinds = [] if seen is None else _kinds(file, seen)
    if not kinds:
        yield [Piece("There is no I2_S tensor whose payload can be read.")]
        return
    width = max(len(kind.name) for kind in kinds)
    yield from _scales(kinds, width, (available or WIDTH) - width - 34, blocks)
    yield []
    signs = SHARE_BLOCKS if blocks else SHARE_ASCII
    part = "" if seen is None or all(row.complete for row in seen) else "a sample of "
    yield [
        Piece("Codes", "bold"),
        Piece(f"  {signs[0]} -1  {signs[1]} 0  {signs[2]} +1, shares of {part}all weights of a kind"),
    ]
    for kind in kinds:
        whole = max(1, sum(kind.counts))
        words = " ".join(f"{count / whole:6.1%}" for count in kind.counts[:3])
        odd = f"  {counted(kind.counts[3], 'time')} code 3" if kind.counts[3] else ""
        strip = shares(kind.counts, STRIP, blocks=blocks)
        yield [Piece(f"  {kind.name:<{width}}  ", "cyan"), Piece(f"{strip}  {words}"), Piece(odd, "red")]


def _kinds(file: File, seen: Survey) -> list[TensorKind]:
    found: dict[str, TensorKind] = {}
    tensors = list(file.tensors.values())
    for row in seen:
        tensor = tensors[row.row]
        name = file.index.tensor(row.row).name
        layer = int(met[1]) if (met := _BLOCK.match(name)) else -1
        word = visible(_BLOCK.sub(b"", name).removesuffix(b".weight"), 24, bare=True)
        if word not in found and len(found) == KINDS:
            continue
        kind = found.setdefault(word, TensorKind(word, {}, [0, 0, 0, 0]))
        if layer < LAYERS:
            kind.scales.setdefault(layer, float(tensor.scale()))
        kind.counts[:] = [a + b for a, b in zip(kind.counts, row.counts, strict=True)]
    return list(found.values())


def _scales(kinds: Sequence[TensorKind], width: int, room: int, blocks: bool) -> Iterator[Line]:
    layers = 1 + max(layer for kind in kinds for layer in kind.scales)
    signs = BLOCKS if blocks else ASCII
    step = max(1, -(-layers // max(8, room)))
    several = f", {counted(step, 'layer')} to a character" if step > 1 else ""
    yield [
        Piece("Scales", "bold"),
        Piece(f"  layers 0 to {layers - 1}{several}; {signs[0]} smallest, {signs[-1]} largest of each kind")
        if layers > 0 else Piece("  of tensors in no layer"),
    ]  # fmt: skip
    for kind in kinds:
        plain = [value for value in kind.scales.values() if math.isfinite(value)]
        low, high = min(plain, default=0.0), max(plain, default=0.0)
        line = sparkline(list(_by_step(kind, layers, step)), low, high, blocks=blocks)
        ends = float32_words(low) if low == high else f"{float32_words(low)} to {float32_words(high)}"
        ends = ends if plain else "none is finite"
        odd = len(kind.scales) - len(plain)
        left = f"  {odd} not finite" if odd and plain else ""
        yield [Piece(f"  {kind.name:<{width}}  ", "cyan"), Piece(f"{line}  {ends}"), Piece(left, "red")]


def _by_step(kind: TensorKind, layers: int, step: int) -> Iterator[float | None]:
    """Yield the scales by layer, of several layers to a character the largest; what is not finite is never left out."""
    if layers <= 0:
        yield from kind.scales.values()
        return
    for first in range(0, layers, step):
        some = [kind.scales[layer] for layer in range(first, first + step) if layer in kind.scales]
        odd = [value for value in some if not math.isfinite(value)]
        yield odd[0] if odd else max(some, default=None)
