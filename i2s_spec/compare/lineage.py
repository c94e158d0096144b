"""How two files of one family differ: which of their trits training changed, and which channels are off.

A fine-tune changes some trits of every layer, and keeps the all-zero rows of its base: a channel that training switched
off stays off. So the share of changed trits tells whether a fine-tune survived its conversion (0.0 %: it was lost), and
the sets of all-zero rows are a fingerprint of the family. Both are counted while a tensor is compared, a window at a
time. The sets of one file can be kept (`i2s hash --lineage --json`), and another file compared with them without the
first.

    >>> rows = ZeroRows(3, 8)
    >>> rows.add(bytes([0x55, 0x55, 0x55]))
    >>> rows.add(bytes([0x54, 0x55, 0x55]))
    >>> rows.found().tolist()
    [True, False, True]

`lineage_lines`, `lineage_data` and `lineage_page` present the result.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.draw.chart import HeatCell, heat_map
from i2s_spec.draw.terminal import Column, plain, table
from i2s_spec.draw.text import json_string, report_footer, visible
from i2s_spec.errors import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Four zeros, in the form that tensors are compared in.
ZEROS: Final = 0x55

#: Trits of a byte.
_PACKED: Final = 4

_NAME: Final = re.compile(rb"blk\.(0|[1-9][0-9]{0,3})\.(.{1,64}?)(?:\.weight)?", re.ASCII | re.DOTALL)


class ZeroRows:
    """Which rows of a ternary tensor are all zero, from its codes as they come.

    :param rows: of the tensor
    :param cols: elements of a row; rows of no whole bytes are never called zero
    """

    def __init__(self, rows: int, cols: int) -> None:
        self._whole = cols % _PACKED == 0
        self._width = max(1, cols // _PACKED)
        self._odd: NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        self._at = 0

    def add(self, codes: bytes) -> None:
        """Take the next codes, four to a byte."""
        start, self._at = self._at, self._at + len(codes)
        if not self._whole or not codes:
            return
        first, last = start // self._width, (self._at - 1) // self._width
        bounds = np.maximum(np.arange(first, last + 1) * self._width - start, 0)
        odd = np.frombuffer(codes, dtype=np.uint8) != ZEROS
        self._odd[first : last + 1] |= np.logical_or.reduceat(odd, bounds)

    def found(self) -> NDArray[np.bool_]:
        """Whether each row is all zero, once all codes were added."""
        return ~self._odd if self._whole else np.zeros_like(self._odd)


#: The all-zero rows of the ternary tensors of a file, by name: for each row, whether it is all zero.
Fingerprint = dict[bytes, "NDArray[np.bool_]"]


def digest(zero_rows: Fingerprint) -> str:
    """Return the SHA-256 of the all-zero rows of a file, hexadecimal.

    Of "i2s-zero-rows-1\\n", then for each tensor with such a row, sorted by the bytes of their names: u64 length of the
    name, the name, u64 number of all-zero rows, and u64 each of their indices; all little-endian. Tensors without one do
    not count.

    >>> digest({}) == digest({b"a": np.zeros(3, dtype=np.bool_)})
    True
    """
    whole = hashlib.sha256(b"i2s-zero-rows-1\n")
    for name in sorted(zero_rows):
        rows = np.flatnonzero(zero_rows[name]).astype("<u8")
        if rows.size:
            whole.update(len(name).to_bytes(8, "little") + name + rows.size.to_bytes(8, "little") + rows.tobytes())
    return whole.hexdigest()


def kinship(base: Fingerprint, other: Fingerprint) -> Total:
    """Return how many all-zero rows two files share, over the tensors that both have with as many rows; nothing of trits."""
    pairs = [(base[name], other[name]) for name in base if name in other and base[name].size == other[name].size]
    return Total(
        tensors=len(pairs),
        rows=sum(ours.size for ours, _ in pairs),
        trits=0,
        changed=0,
        zero_a=sum(int(ours.sum()) for ours, _ in pairs),
        zero_b=sum(int(theirs.sum()) for _, theirs in pairs),
        zero_both=sum(int((ours & theirs).sum()) for ours, theirs in pairs),
    )


def runs(zero_rows: NDArray[np.bool_]) -> list[list[int]]:
    """Return the all-zero rows as runs: the first of each, and the first behind it.

    >>> runs(np.array([True, True, False, True]))
    [[0, 2], [3, 4]]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], zero_rows, [False]]).astype(np.int8)))
    found: list[list[int]] = edges.reshape(-1, 2).tolist()
    return found


def rows_of_runs(rows: int, found: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return the rows of which `runs` was made."""
    zero = np.zeros(rows, dtype=np.bool_)
    for start, stop in found:
        zero[start:stop] = True
    return zero


class TensorLineage(NamedTuple):
    """One tensor that is ternary in both files: its trits, how many of them changed, the all-zero rows of A, B and both."""

    name: bytes
    rows: int
    trits: int
    changed: int
    zero_a: int
    zero_b: int
    zero_both: int

    @property
    def place(self) -> tuple[int | None, str]:
        """Layer and role by its name; None and the whole name outside of layers."""
        found = _NAME.fullmatch(self.name)
        if found is None:
            return None, self.name.decode("utf-8", "surrogateescape")
        return int(found[1]), found[2].decode("utf-8", "surrogateescape")


class Total(NamedTuple):
    """The sums over tensors."""

    tensors: int
    rows: int
    trits: int
    changed: int
    zero_a: int
    zero_b: int
    zero_both: int

    @property
    def share(self) -> float:
        """Of the trits, those that changed, 0 to 1."""
        return self.changed / self.trits if self.trits else 0.0


def total(tensors: Iterable[TensorLineage]) -> Total:
    """Return the sums over tensors."""
    numbers = [each[1:] for each in tensors]
    sums = [sum(column) for column in zip(*numbers, strict=True)] if numbers else [0] * 6
    return Total(len(numbers), *sums)


def by_layer(tensors: Iterable[TensorLineage]) -> Iterator[tuple[int | None, list[TensorLineage]]]:
    """Yield the tensors of each layer, by its number; those outside of layers come last, as None."""
    found: dict[int | None, list[TensorLineage]] = {}
    for each in tensors:
        found.setdefault(each.place[0], []).append(each)
    for layer in sorted(found, key=lambda layer: (layer is None, layer or 0)):
        yield layer, found[layer]


# --- lineage text ----------------------------------------------------------------------------------------------------
# What became of the trits of a model: lines for a person, plain data, and a page.

#: Layers and kinds of tensors that a page draws, and characters of a kind.
LAYERS: Final = 512
KINDS: Final = 12
NAME: Final = 14

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem;"
    "background:#fff;color:#1b2128}"
    "svg{display:block;width:100%;min-width:34rem;font:12px ui-monospace,monospace;fill:#1b2128}"
    ".scroll{overflow-x:auto}.heat{fill:#e65100}.side{fill:#57616e}td,th{padding:.1rem .8rem .1rem 0;text-align:right}"
    "pre{font-size:.85rem}.differences{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".differences span{display:block;padding-left:2ch;text-indent:-2ch}"
    "footer{margin-top:2rem;color:#57616e;font-size:.85rem;overflow-wrap:anywhere}"
    "@media (prefers-color-scheme:dark){body{background:#10151b;color:#e5e9ee}svg{fill:#e5e9ee}.side{fill:#a0abb8}"
    "footer{color:#a0abb8}}@media print{.scroll{overflow:visible}svg{min-width:0}}"
)


def percent(share: float) -> str:
    """Return a share in percent, with more places where it is small; 0.0 only for none.

    >>> percent(0), percent(0.1234), percent(0.00012), percent(1e-9)
    ('0.0 %', '12.3 %', '0.012 %', 'under 0.001 %')
    """
    if share == 0 or share >= 0.001:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.3f} %" if share >= 0.00001 else "under 0.001 %"


def sentence(found: Total) -> str:
    """Return how many trits changed, in a few words."""
    return f"{found.changed:,} of {counted(found.trits, 'trit')} changed, {percent(found.share)}"


def lineage_lines(tensors: Sequence[TensorLineage]) -> Iterator[str]:
    """Yield a table of layers, the sums, and what they mean."""
    whole = total(tensors)
    if not tensors:
        yield "no tensor is ternary in both files"
        return
    rows = []
    for layer, inside in by_layer(tensors):
        each = total(inside)
        most = max(inside, key=lambda one: one.changed / one.trits if one.trits else 0)
        rows.append(
            [
                "other" if layer is None else str(layer),
                f"{each.trits:,}",
                f"{each.changed:,}",
                percent(each.share),
                f"{visible(most.place[1], NAME, bare=True)} {percent(total([most]).share)}" if each.changed else "",
                f"{each.zero_a:,}",
                f"{each.zero_b:,}",
                f"{each.zero_both:,}",
            ]
        )
    names = ("layer", "trits", "changed", "share", "most in", "zero rows A", "B", "both")
    yield from (plain(line) for line in table([Column(name, name != "most in") for name in names], rows))
    yield f"{sentence(whole)}, in {sum(each.changed > 0 for each in tensors):,} of {counted(whole.tensors, 'tensor')}"
    if whole.changed == 0:
        yield "no trit changed: if B is meant to be a fine-tune of A, it was lost"
    yield from family_lines(whole)


def family_lines(whole: Total, a: str = "A", b: str = "B") -> Iterator[str]:
    """Yield how many all-zero rows of A are all zero in B, and how many would be by chance; nothing where A has none.

    :param a: what the files are called, and `b`
    """
    if whole.zero_a:
        share = percent(whole.zero_both / whole.zero_a)
        chance = whole.zero_a * whole.zero_b / whole.rows
        yield (
            f"{whole.zero_both:,} of the {counted(whole.zero_a, 'all-zero row')} of {a} are all "
            f"zero in {b} ({share}; chance alone "
            f"gives about {chance:,.0f})"
        )


def lineage_data(tensors: Sequence[TensorLineage]) -> dict[str, Any]:
    """Return everything as plain data, as diff.schema.json describes it."""
    return {
        **_sums(total(tensors)),
        "layers": [{"layer": layer, **_sums(total(inside))} for layer, inside in by_layer(tensors)],
        "tensors": [{"name": json_string(each.name), **_sums(total([each]))} for each in tensors],
    }


def _sums(found: Total) -> dict[str, Any]:
    return {
        "trits": found.trits,
        "changed": found.changed,
        "share": found.share,
        "rows": found.rows,
        "zero_rows": {"a": found.zero_a, "b": found.zero_b, "both": found.zero_both},
    }


def lineage_page(tensors: Sequence[TensorLineage], lines: Sequence[str], a: str, b: str, command: str = "") -> str:
    """Return the changed trits by layer and kind of tensor as one HTML page that needs nothing else.

    The table is as wide as it is; what differs is wrapped, however narrow the page.

    :param lines: what differs in words
    :param a: what the files are called, and `b`
    :param command: that asked for the page, as it was typed
    """
    drawn = picture(tensors)
    heading = f"{visible(a, bare=True)} → {visible(b, bare=True)}"
    shares = escape("\n".join(lineage_lines(tensors)))
    words = "".join(f"<span>{escape(line)}</span>" for line in lines)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>i2s diff</title><style>{_STYLE}</style></head>\n<body><h1>Changed trits</h1><p>{escape(heading)}</p>\n"
        f'<div class="scroll">{drawn}</div>\n<div class="scroll"><pre>{shares}</pre></div>\n'
        f'<pre class="differences">{words}</pre>\n<footer>{report_footer(command)}</footer></body></html>\n'
    )


def picture(tensors: Sequence[TensorLineage]) -> str:
    """Return the share of changed trits by layer and kind of tensor, SVG; empty where no layer has ternary tensors."""
    shares: dict[int, dict[str, Total]] = {}
    for each in tensors:
        layer, kind = each.place
        if layer is not None:
            shares.setdefault(layer, {})[kind] = total([each])
    kinds = list(dict.fromkeys(kind for layer in shares.values() for kind in layer))[:KINDS]
    layers = sorted(shares)[:LAYERS]
    if not layers:
        return ""
    cells = [[_cell(layer, kind, shares[layer].get(kind)) for kind in kinds] for layer in layers]
    whole = total(tensors)
    return heat_map(
        [f"layer {layer}" for layer in layers], [visible(kind, NAME, bare=True) for kind in kinds], cells,
        "Changed trits by layer and tensor", f"{sentence(whole)}.", across="tensor", down="layer", deepest=10_000.0,
    )  # fmt: skip


def _cell(layer: int, kind: str, found: Total | None) -> HeatCell:
    if found is None:
        return HeatCell(0.0, "")
    return HeatCell(
        10_000 * found.share, percent(found.share), says=f"blk.{layer}.{visible(kind, bare=True)}: {sentence(found)}"
    )
