"""The differences between two files, told as lines for a person, and as data for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any, Final

from i2s_spec.compare.diff import Difference, TensorChange
from i2s_spec.compare.lineage import lineage_data, sentence, total
from i2s_spec.draw.text import float32_words, json_string, visible
from i2s_spec.errors import counted
from i2s_spec.inspect.dump_codes import unraveled

SCHEMA_VERSION: Final = 1

#: How many tensors that only one file has, and how many ways to differ, a person is told of; a program is told of all.
SHOWN: Final = 40

#: Tensors that differ alike: how many a person is told, and how many more there must be for these to be counted instead.
FIRST: Final = 5
LEFT: Final = 3

_NAME: Final = 200


def lines(found: Difference, everything: bool = False) -> Iterator[str]:
    """Yield the differences, one to a line: `-` is A's, `+` is B's, `~` differs, `=` makes no difference.

    :param everything: list all tensors; otherwise of many that differ alike the first ones, and how many more there are
    """
    for change in found.keys:
        key = visible(change.key, _NAME, bare=True)
        if change.after is None:
            yield f"- key {key} {change.type_before} {_value(change.before)}"
        elif change.before is None:
            yield f"+ key {key} {change.type_after} {_value(change.after)}"
        else:
            before = f"{change.type_before} {_value(change.before)}"
            after = f"{change.type_after} {_value(change.after)}"
            later = f" (first at byte {change.data[1]:,} of type and value)" if change.data and before == after else ""
            yield f"~ key {key}: {before} -> {after}{later}"
    for mark, names in (("-", found.only_a), ("+", found.only_b)):
        shown = len(names) if everything or len(names) < SHOWN + LEFT else SHOWN
        for name in names[:shown]:
            yield f"{mark} tensor {visible(name, _NAME, bare=True)}"
        if len(names) > shown:
            yield f"{mark} {counted(len(names) - shown, 'more tensor')} (--all lists them)"
    yield from _changed_tensors(found.tensors, everything)
    for what, ours, theirs in found.container:
        yield f"{'~' if what == 'data' else '='} {what}: {_plain(ours)} -> {_plain(theirs)}"
    if found.tails:
        first = found.tails[0]
        kinds = {f"{tail.before} -> {tail.after}" for tail in found.tails}
        yield (
            f"= tails: the bytes after the scale, which mean nothing, differ in {counted(len(found.tails), 'tensor')} "
            f"({', '.join(sorted(kinds))}); {visible(first.name, _NAME, bare=True)} is the first"
        )
    trits = total(found.lineage)
    if found.same:
        yield f"A and B mean the same: all keys, {counted(found.compared, 'tensor')}"
    else:
        parts = (
            (len(found.keys), "key", ""),
            (len(found.only_a) + len(found.only_b), "tensor", " in one file only"),
            (len(found.tensors), "common tensor", ""),
        )
        what = ", ".join(
            (
                *(f"{counted(count, noun)}{more}" for count, noun, more in parts if count),
                *(["where all tensors lie"] if found.displaced else []),
            )
        )
        changed = f"; {sentence(trits)}" if trits.trits else ""
        yield f"A and B differ: {what} ({counted(found.compared, 'tensor')} compared{changed})"


def _changed_tensors(changes: Sequence[TensorChange], everything: bool) -> Iterator[str]:
    """Yield a line for each tensor; of many that differ alike a line for each of the first, and one for all others."""
    kinds: dict[tuple[Any, ...], list[TensorChange]] = {}
    for change in changes:
        kinds.setdefault(() if everything else _kind(change), []).append(change)
    groups = list(kinds.values())
    for alike in groups[:SHOWN]:
        shown = len(alike) if everything or len(alike) < FIRST + LEFT else FIRST
        for change in alike[:shown]:
            yield f"~ tensor {visible(change.name, _NAME, bare=True)}: {'; '.join(_tensor_words(change))}"
        if left := alike[shown:]:
            yield f"~ {counted(len(left), 'more tensor')}: {'; '.join(_kind_words(left))} (--all lists them)"
    if rest := sum(map(len, groups[SHOWN:])):
        yield f"~ {counted(rest, 'more tensor')} (--all lists them)"


def _kind(change: TensorChange) -> tuple[Any, ...]:
    """Return the kind of a difference, apart from its amount."""
    differs = (change.shape, change.trits, change.scale, change.data, change.weights)
    return change.what, change.type, change.how, *(part is not None for part in differs)


def _kind_words(alike: Sequence[TensorChange]) -> Iterator[str]:
    """Describe the differences of tensors of one kind, with the sums."""
    first = alike[0]
    if first.shape is not None:
        yield "other shapes"
    yield from _type_words(first)
    if first.trits is not None:
        yield _differ(sum(change.trits[0] for change in alike if change.trits), "trit")
    if first.scale is not None:
        yield "scales differ"
    if first.data is not None:
        yield _differ(sum(change.data[0] for change in alike if change.data), "byte", " of data")
    if first.weights is not None:
        yield _weights_differ(sum(change.weights[0] for change in alike if change.weights), first)
    if first.how is not None:
        yield first.how


def _type_words(change: TensorChange) -> Iterator[str]:
    if change.type is not None:
        how = {
            "trits": "trits equal", "weights": "trits equal", "values": "weights equal", "nothing": "data not compared",
        }.get(change.what, "")  # fmt: skip
        equal = change.trits is None and not (change.what == "values" and change.weights)
        same = f" ({how})" if how and equal and change.shape is None else ""
        yield f"type {change.type[0]} -> {change.type[1]}{same}"


def _tensor_words(change: TensorChange) -> Iterator[str]:
    if change.shape is not None:
        yield f"shape {list(change.shape[0])} -> {list(change.shape[1])}"
    yield from _type_words(change)
    if change.trits is not None:
        count, first = change.trits
        at = ", ".join(f"{index:,}" for index in unraveled(first, change.compared_shape))
        yield f"{_differ(count, 'trit')}, first at element {first:,} ({at})"
    if change.scale is not None:
        one, other = change.scale
        ratio = f" (factor {other / one:.6g})" if one and other and not isnan(one + other) else ""
        yield f"scale {float32_words(one)} -> {float32_words(other)}{ratio}"
    if change.data is not None:
        count, first = change.data
        yield f"{_differ(count, 'byte', ' of data')}, first at byte {first:,}"
    if change.weights is not None:
        count, first = change.weights
        at = ", ".join(f"{index:,}" for index in unraveled(first, change.compared_shape))
        yield f"{_weights_differ(count, change)}, first at element {first:,} ({at})"
    if change.how is not None:
        yield change.how


def _differ(count: int, noun: str, more: str = "") -> str:
    return f"{counted(count, noun)}{more} differ{'s' * (count == 1)}"


def _weights_differ(count: int, change: TensorChange) -> str:
    return _differ(count, "weight") + (" by the scale" if change.what == "weights" and change.trits is None else "")


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return visible(value)
    if isinstance(value, list):
        return "[" + ", ".join("…" if item is ... else _value(item) for item in value) + "]"
    return str(value)


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def document(found: Difference, a: str, b: str) -> dict[str, Any]:
    """Return all differences as plain data for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "a": json_string(a),
        "b": json_string(b),
        "same": found.same,
        "compared": found.compared,
        "keys": [
            {
                "key": json_string(change.key),
                "a": None
                if change.type_before is None
                else {"type": change.type_before, "value": _json(change.before)},
                "b": None if change.type_after is None else {"type": change.type_after, "value": _json(change.after)},
            }
            for change in found.keys
        ],
        "only_a": [json_string(name) for name in found.only_a],
        "only_b": [json_string(name) for name in found.only_b],
        "tensors": [
            {
                "name": json_string(change.name),
                "compared": change.what,
                "shape": change.shape,
                "type": change.type,
                "trits": None if change.trits is None else {"count": change.trits[0], "first": change.trits[1]},
                "scale": change.scale,
                "data": None if change.data is None else {"count": change.data[0], "first": change.data[1]},
                "weights": None if change.weights is None else {"count": change.weights[0], "first": change.weights[1]},
                "how": change.how,
            }
            for change in found.tensors
        ],
        "lineage": lineage_data(found.lineage),
        "tails": [{"name": json_string(tail.name), "a": tail.before, "b": tail.after} for tail in found.tails],
        "container": [{"name": name, "a": ours, "b": theirs} for name, ours, theirs in found.container],
    }


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return json_string(value)
    if isinstance(value, list):
        return [{"more": True} if item is ... else _json(item) for item in value]
    return value
