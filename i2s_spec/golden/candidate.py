"""The two sides of a comparison: a record, whose digests are checked, and a candidate in its names and shapes.

A `Record` reads what `recording` wrote. A `Candidate` is a dump of another runtime: it finds each value under the name
that the runtime gives it (`tap_names`), brings it into the record's shape, and recognizes logits that are written as
log-probabilities (clause 10.4).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.shape import is_shape
from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.golden.dumps import UNNAMED, Dump, read_dump
from i2s_spec.golden.metrics import is_bfloat16, relative
from i2s_spec.golden.store import Tap, digest, read_header
from i2s_spec.golden.tap_names import (
    DumpedNode,
    Wanted,
    matched,
    matched_by_operation,
    named_by_runtimes,
    other_names,
    parts,
    repeated,
)
from i2s_spec.model.graph import base

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes of values that are cached.
CACHED_BYTES: Final = 256 << 20

#: Most elements of a tap of a record.
MOST_ELEMENTS: Final = 1 << 31

#: How near, relative, a value is to the one that it is taken for; and it is twice as far from any other.
ALIKE: Final = 0.3

#: What logits and embeddings are called.
WHOLE: Final = ("result_output", "embedding")

#: What records of version 0.1.0 call operations that have another name now.
RENAMED_OPS: Final = {"gain": "norm_weight", "mix": "weighted_values", "choose": "select_rows", "keep": "store_kv"}


class Record:
    """A record.

    :param header: what it says of itself
    :param shapes: of all its taps, in the order of computation
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.header = read_header(folder)
        self.tokens = np.array(self.header["token_ids"], dtype=np.int64)
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name, about in self.header["taps"].items():
            shape = about.get("shape") if isinstance(about, dict) else None
            if not isinstance(shape, list) or not is_shape(shape) or type(about.get("dtype", "")) is not str:
                raise SettingError(f"the record says no shape of the tap {quote(name)}")
            if prod(shape) > MOST_ELEMENTS:
                raise SettingError(
                    f"the record says that the tap {quote(name)} has the shape {shape[:8]}: it is damaged"
                )
            self.shapes[name] = tuple(shape)
        self._at = {name: at for at, name in enumerate(self.shapes)}
        stored = any(about.get("stored") for about in self.header["taps"].values())
        self.dump = read_dump(folder) if stored else None
        for name, each in self.dump.stored.items() if self.dump is not None else ():
            if each.shape != self.shapes.get(name):
                raise SettingError(
                    f"the tap {quote(name)} of the record is not what its header says: the record is damaged"
                )

    def value(self, name: str) -> NDArray[Any] | None:
        """Return a tap that is stored, its digest checked.

        :raises SettingError: where the digest is not that of the header
        """
        if self.dump is None or name not in self.dump:
            return None
        value = self.dump[name].value
        about = self.header["taps"].get(name, {})
        if value.shape != self.shapes.get(name) or digest(value) != about.get("sha256"):
            raise SettingError(
                f"the tap {quote(name)} of the record is not what its header says: the record is damaged"
            )
        return value

    def layer(self, name: str) -> int | None:
        """Return the layer of a tap."""
        layer = self.header["taps"].get(name, {}).get("layer")
        if isinstance(layer, int):
            return layer
        word = parts(name)[1]
        if word.startswith("-") and word[1:].isdecimal():
            return int(word[1:])
        blocks = name.split(".")
        return int(blocks[1]) if blocks[0] == "blk" and len(blocks) > 1 and blocks[1].isdecimal() else None

    def inputs(self, name: str) -> tuple[str, ...]:
        """Return the names of the earlier taps that enter the operation of a tap; () where the record does not have them."""
        return tuple(
            each for each in self._words(name, "inputs") if self._at.get(each, self._at[name]) < self._at[name]
        )

    def weights(self, name: str) -> tuple[str, ...]:
        """Return the tensors of the file that go into the operation of a tap."""
        return self._words(name, "weights")

    def type(self, name: str) -> str:
        """Return the type of the first of these tensors; empty where the record does not have it."""
        found = self.header["taps"].get(name, {}).get("type")
        return found if isinstance(found, str) else ""

    def _words(self, name: str, key: str) -> tuple[str, ...]:
        found = self.header["taps"].get(name, {}).get(key)
        return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()

    def op(self, name: str) -> str:
        """Return the operation of a tap."""
        op = str(self.header["taps"].get(name, {}).get("op", base(name)))
        return RENAMED_OPS.get(op, op)


class Candidate(Mapping[str, "NDArray[Any]"]):
    """A dump under the names and in the shapes of a record.

    :param names: of the record's taps, those of the dump
    :param extra: names of the dump that match no tap of the record
    :param shapes_off: of names that the dump has in a shape that cannot be the record's: that shape
    :param unclear: names of which the dump has another number of values, so that they cannot be matched
    :param shifted: names whose rows are known but for a constant: logits that were dumped as log-probabilities
    """

    def __init__(self, dump: Dump, record: Record) -> None:
        self.dump, self.record = dump, record
        self.notes: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self.shifted: set[str] = set()
        self._cached: OrderedDict[str, NDArray[Any]] = OrderedDict()
        self._cached_bytes = 0
        self.names = self._matched()
        self.shapes_off = {
            name: shape
            for name, other in self.names.items()
            if (shape := dump.stored[other].shape) is not None and not self._fits(name, other)
        }
        self.unclear = self._unclear()
        taken = set(self.names.values())
        self.extra = [name for name in dump if name not in taken]
        self.bfloat16 = False

    def _matched(self) -> dict[str, str]:
        whole = [name for name in WHOLE if name in self.record.shapes]
        nodes = [DumpedNode(name, each.op, each.sources) for name, each in self.dump.stored.items() if each.op]
        if nodes:
            found = matched_by_operation([self._wanted(name) for name in self.record.shapes], nodes, self._fits)
        else:
            found = matched(list(self.record.shapes), self.dump, self._fits)
            if self.dump.kind != "record":
                found = named_by_runtimes(
                    self.record.shapes, self.record.op, self.dump, found, self._fits, self._is_other, self._same
                )
                found = self._by_value(found)
            found = self._repeated(found)
            for first, last in self._last_of(found).items():
                found[last] = found.pop(first)
        if UNNAMED in self.dump and whole and whole[0] not in found:
            found[whole[0]] = UNNAMED
        return found

    def _wanted(self, name: str) -> Wanted:
        return Wanted(name, self.record.op(name), self.record.weights(name))

    def _by_value(self, found: dict[str, str]) -> dict[str, str]:
        """Return the matches; where a value is another one of our name's, and one without a name of ours is ours,
        that one.

        In the last layer ik_llama.cpp calls the output of attn_output `kqv_out`, and ours `kqv_merged_cont`.
        """
        taken = set(found.values())
        for name, own in found.items():
            others = [each for each in other_names(name) if each in self.dump and each not in taken]
            other = next((each for each in others if self._fits(name, each)), None)
            want = self.record.value(name) if other is not None else None
            if other is None or want is None or want.dtype.kind != "f":
                continue
            far = [self._far(each, want) for each in (own, other)]
            if far[1] <= ALIKE and 2 * far[1] <= far[0]:
                found[name] = other
                taken.add(other)
        return found

    def _far(self, given: str, want: NDArray[Any]) -> float:
        """How far, relative, a value of the dump is from another one, read as one of its shape; infinite if it cannot be."""
        shaped = next(readings(self.dump[given].value, want.shape), None)
        return (
            np.inf if shaped is None else relative(only_known(shaped.value, shaped.rows), only_known(want, shaped.rows))
        )

    def _repeated(self, found: dict[str, str]) -> dict[str, str]:
        """Return the matches, with those of names that the dump gives to several values by what has values of its
        own.
        """
        if self.dump.kind in ("record", "text"):
            return found
        for first, names in repeated(
            self.record.shapes, self.dump, lambda name: self.record.op(name) == "heads", self._same
        ).items():
            if names and all(self._fits(ours, theirs) for ours, theirs in names.items()):
                others = {name: other for name, other in found.items() if name.partition("#")[0] != first}
                found = {**others, **names}
        return found

    def _same(self, one: str, other: str) -> bool:
        """Whether two values of the dump have the same numbers in the same order."""
        shapes = self.dump.stored[one].shape, self.dump.stored[other].shape
        if None in shapes or prod(shapes[0] or ()) != prod(shapes[1] or ()):
            return False
        return np.array_equal(self.dump[one].value.reshape(-1), self.dump[other].value.reshape(-1), equal_nan=True)

    def _last_of(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return, for names that stand for several values of which a dump has one, the value that it is.

        A file for each name is written over each time, so that it is the last, unless values or dimensions are another's.
        """
        times: dict[str, list[str]] = {}
        for name in self.record.shapes:
            times.setdefault(name.partition("#")[0], []).append(name)
        last_of: dict[str, str] = {}
        for first, names in times.items():
            if len(names) < 2 or parts(first)[0] == "norm" or self.dump.kind == "record":
                continue
            if found.get(first) != first or any(name in found for name in names[1:]):
                continue
            fitting = [name for name in names if self._fits(name, first)]
            shape = self.dump.stored[first].shape
            alike = [name for name in fitting if shape == self.record.shapes[name]] or fitting
            value = (self._nearest(first, fitting) or alike[-1]) if fitting else first
            if value != first:
                last_of[first] = value
                self.notes[value] = "the last value of its name"
        return last_of

    def _nearest(self, given: str, names: list[str]) -> str | None:
        """Which of some taps a value is beyond doubt; None where the record cannot tell."""
        wanted = {name: want for name in names if (want := self.record.value(name)) is not None}
        far = {name: at for name, want in wanted.items() if np.isfinite(at := self._far(given, want))}
        best = min(far, key=lambda name: far[name], default=None)
        rest = [far[name] for name in far if name != best]
        return best if best is not None and rest and far[best] <= ALIKE and 2 * far[best] <= min(rest) else None

    def _is_other(self, name: str, other: str) -> bool:
        """Whether what the dump gives the name of one value of the record is another one."""
        return not self._fits(name, name) or self._nearest(name, [name, other]) == other

    def _fits(self, name: str, other: str) -> bool:
        shape, want = self.dump.stored[other].shape, self.record.shapes[name]
        if shape is None:
            return True
        if self.dump.kind == "text":
            plain = tuple(side for side in shape if side != 1)
            wanted = tuple(side for side in want if side != 1)
            return plain == wanted or (len(shape) <= len(want) and could_fit(shape, want) and prod(shape) != prod(want))
        return could_fit(shape, want)

    def _unclear(self) -> frozenset[str]:
        """Return the unweighted norms of which the dump has another number in a layer: only their order distinguishes
        them."""
        ours: dict[str, list[str]] = {}
        for name in self.record.shapes:
            word, layer, _ = parts(name)
            if word == "norm":
                ours.setdefault(layer, []).append(name)
        found: set[str] = set()
        for layer, names in ours.items():
            theirs = [name for name in self.dump if parts(name)[:2] == ("norm", layer)]
            if len(theirs) != len(names):
                found.update(names)
        return frozenset(found)

    def __contains__(self, name: object) -> bool:
        return name in self.names and name not in self.shapes_off and name not in self.unclear

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a value in the record's shape: float32, or integers. Rows that are not known are NaN, or 0.

        :raises KeyError: for what the dump does not have, or has a corner of
        """
        if name not in self or self.dump.kind == "text":
            raise KeyError(name)
        if name in self._cached:
            self._cached.move_to_end(name)
            return self._cached[name]
        shaped = self._shaped(name, self.dump[self.names[name]].value)
        if shaped is None:
            self.shapes_off[name] = self.dump.stored[self.names[name]].shape or ()
            raise KeyError(name)
        self._cached[name] = shaped.value
        self._cached_bytes += shaped.value.nbytes
        while self._cached_bytes > CACHED_BYTES and len(self._cached) > 1:
            self._cached_bytes -= self._cached.popitem(last=False)[1].nbytes
        return shaped.value

    def _shaped(self, name: str, value: NDArray[Any]) -> Shaped | None:
        integers = self.record.header["taps"][name].get("dtype", "").startswith("int")
        if integers and value.dtype.kind == "f" and np.isfinite(value).all() and np.array_equal(value, np.rint(value)):
            with np.errstate(all="ignore"):
                value = value.astype(np.int64)
        elif not integers and value.dtype.kind != "f":
            value = value.astype(np.float32)
        found = list(readings(value, self.record.shapes[name]))
        if not found:
            return None
        best = found[0]
        if len(found) > 1:
            want = self.record.value(name)
            if want is not None:
                best = min(found, key=lambda each: relative(each.value, want))
        if best.how:
            self.notes[name] = best.how
        if best.rows is not None:
            self.rows[name] = best.rows
        if best.value.dtype.kind != "f":
            return best
        floats = np.ascontiguousarray(best.value, dtype=np.float32)
        if name == WHOLE[0] and are_log_probabilities(only_known(floats, best.rows)):
            self.shifted.add(name)
            self.notes[name] = "; ".join(filter(None, (best.how, "log-probabilities, each row shifted")))
            wanted = self.record.value(name)
            floats = floats if wanted is None else shifted(floats, wanted)
        return best._replace(value=floats)

    def corner(self, name: str) -> Tap | None:
        """Return the part of a value that a text shows; None for other dumps."""
        return self.dump[self.names[name]] if self.dump.kind == "text" and name in self else None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def detect_bfloat16(self) -> bool:
        """Whether the dump's values are bfloat16: those of the first few projections and sums."""
        seen = [name for name in self if self.record.op(name) in ("linear", "add", "norm_weight")][:6]
        self.bfloat16 = bool(seen) and self.dump.kind != "text" and all(is_bfloat16(self[name]) for name in seen)
        return self.bfloat16


def only_known(value: Any, rows: int | None) -> Any:
    """Return the rows of a value that are known; a limit may be a number."""
    return value if rows is None or not np.ndim(value) else value[len(value) - rows :]


# --- reshape ---------------------------------------------------------------------------------------------------------
# Runtimes lay the same numbers out in different ways: with ggml's order of dimensions, heads first, all in one row,
# with columns that are only there to fill a block, or with the rows of the last tokens only. Each reading says what was
# done.

#: Columns that a runtime may add to scores to fill a block.
MOST_PADDING: Final = 256


class Shaped(NamedTuple):
    """A value in the shape of the record.

    :param value: rows that are not known are NaN, or 0 where the value holds integers
    :param rows: how many of the last rows are known; None for all
    :param how: what was done to it, for people; empty where nothing was
    """

    value: NDArray[Any]
    rows: int | None = None
    how: str = ""


def could_fit(shape: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Whether a value of one shape can be brought into another: decided before its bytes are read."""
    size, wanted = prod(shape), prod(want)
    if size == wanted:
        return True
    if not wanted or not size:
        return False
    width = wanted // want[0] if want else 1
    if (
        size < wanted
        and len(want) > 1
        and (prod(_plain(shape)[1:]) == width or (size % width == 0 and len(_plain(shape)) < 2))
    ):
        return True
    return _padding(_plain(shape), want) is not None


def readings(value: NDArray[Any], want: tuple[int, ...]) -> Iterator[Shaped]:
    """Yield every way to read a value as one of the wanted shape, the likeliest first."""
    shape = _plain(value.shape)
    plain = _plain(want)
    value = value.reshape(shape)
    if shape == plain:
        yield Shaped(value.reshape(want))
        return
    if value.size == prod(want):
        if len(shape) > 1 and shape == plain[::-1]:
            yield Shaped(value.T.reshape(want), how="transposed")
            yield Shaped(value.reshape(want), how="dimensions in ggml's order")
        elif len(shape) == 3 and shape[1] == want[0] and shape[0] != want[0]:
            yield Shaped(value.transpose(1, 0, 2).reshape(want), how="heads first")
        elif len(plain) == 2 and shape == plain[::-1]:
            yield Shaped(value.T.reshape(want), how="transposed")
        else:
            if len(shape) == 3 and len(want) == 2 and (shape[2] * shape[1], shape[0]) != want and shape[-1] == want[0]:
                yield Shaped(value.reshape(-1, want[0]).T.reshape(want), how="transposed")
            yield Shaped(value.reshape(want), how="" if len(shape) != 1 or len(plain) == 1 else "flat")
        return
    width = prod(want) // want[0] if want and want[0] else 0
    if len(want) > 1 and width and value.size < prod(want) and value.size % width == 0 and could_fit(shape, want):
        rows = value.size // width
        last = np.zeros(want, dtype=value.dtype) if value.dtype.kind in "iu" else np.full(want, np.nan, value.dtype)
        last[want[0] - rows :] = value.reshape(rows, *want[1:])
        yield Shaped(last, rows, f"the last {counted(rows, 'row')} only" if rows > 1 else "the last row only")
        return
    order = _padding(shape, want)
    if order is not None:
        turned = value.transpose(order)
        yield Shaped(np.ascontiguousarray(turned[..., : want[-1]]), how="padded columns cut")


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without dimensions of one."""
    return tuple(side for side in shape if side != 1)


def _padding(shape: tuple[int, ...], want: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the order of axes in which a value has the wanted shape and some columns more; None if there is no such
    order.
    """
    if len(want) != 3 or len(shape) != 3:
        return None
    for order in ((0, 1, 2), (2, 1, 0)):
        turned = tuple(shape[axis] for axis in order)
        if turned[:2] == want[:2] and want[2] < turned[2] <= max(want[2] + MOST_PADDING, 2 * want[2]):
            return order
    return None


# --- log-probabilities -----------------------------------------------------------------------------------------------
# Servers give the logarithm of each token's probability, not its logit. The two differ by one number for each row,
# which no choice of a token depends on; so rows are compared after a shift to the mean of the wanted row.

#: How far from 1 the probabilities of a row may sum up, as a logarithm: servers print few digits.
ROOM: Final = 1e-3


def are_log_probabilities(value: NDArray[Any]) -> bool:
    """Whether each row is that of a logarithm of probabilities: finite, none above 0, the probabilities add up to 1."""
    if value.ndim < 2 or value.shape[-1] < 2 or not value.size or value.dtype.kind != "f":
        return False
    if not np.isfinite(value).all() or (value > ROOM).any():
        return False
    sums = np.exp(value.astype(np.float64)).sum(axis=-1)
    return bool((np.abs(np.log(sums, where=sums > 0, out=np.full_like(sums, np.inf))) <= ROOM).all())


def shifted(value: NDArray[Any], want: NDArray[Any]) -> NDArray[Any]:
    """Return a value with a number added to each row, so that its mean is that of the wanted row; rows without a
    mean stay.
    """
    with np.errstate(all="ignore"):
        by = want.mean(axis=-1, keepdims=True, dtype=np.float64) - value.mean(axis=-1, keepdims=True, dtype=np.float64)
    found: NDArray[Any] = (value + np.where(np.isfinite(by), by, 0.0)).astype(value.dtype)
    return found
