"""This module holds the two sides of a comparison: a record, whose digests are checked, and a candidate in its shapes."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.shape import is_shape
from i2s_spec.errors import SettingError, quote
from i2s_spec.golden.candidates.by_operation import DumpedNode, Wanted, matched_by_operation
from i2s_spec.golden.candidates.dumps import UNNAMED, Dump, read_dump
from i2s_spec.golden.candidates.log_probabilities import are_log_probabilities, shifted
from i2s_spec.golden.candidates.repeated_names import repeated
from i2s_spec.golden.candidates.reshape import Shaped, could_fit, readings
from i2s_spec.golden.candidates.shared_names import named_by_runtimes
from i2s_spec.golden.candidates.tap_names import matched, parts
from i2s_spec.golden.metrics import is_bfloat16, relative
from i2s_spec.golden.records.store import read_header
from i2s_spec.golden.records.tap import Tap, digest
from i2s_spec.model.graph.taps import base

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
        stored = any(about.get("stored") for about in self.header["taps"].values())
        self.dump = read_dump(folder) if stored else None
        for name, each in self.dump.stored.items() if self.dump is not None else ():
            if each.shape != self.shapes.get(name):
                raise SettingError(
                    f"the tap {quote(name)} of the record is not what its header says: the record is damaged"
                )

    def value(self, name: str) -> NDArray[Any] | None:
        """A tap that is stored, its digest checked.

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
        """The layer of a tap."""
        layer = self.header["taps"].get(name, {}).get("layer")
        if isinstance(layer, int):
            return layer
        word = parts(name)[1]
        if word.startswith("-") and word[1:].isdecimal():
            return int(word[1:])
        blocks = name.split(".")
        return int(blocks[1]) if blocks[0] == "blk" and len(blocks) > 1 and blocks[1].isdecimal() else None

    def op(self, name: str) -> str:
        """The operation of a tap."""
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
            found = self._repeated(found)
            for first, last in self._last_of(found).items():
                found[last] = found.pop(first)
        if UNNAMED in self.dump and whole and whole[0] not in found:
            found[whole[0]] = UNNAMED
        return found

    def _wanted(self, name: str) -> Wanted:
        tensors = self.record.header["taps"].get(name, {}).get("weights", ())
        plain = tuple(each for each in tensors if isinstance(each, str)) if isinstance(tensors, list) else ()
        return Wanted(name, self.record.op(name), plain)

    def _repeated(self, found: dict[str, str]) -> dict[str, str]:
        """The matches, with those of names that the dump gives to several values by what has values of its own."""
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
        """For names that runtimes give to several values, of which a dump has one: which of them it is.

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
        far: dict[str, float] = {}
        for name in names:
            want = self.record.value(name)
            shaped = next(readings(self.dump[given].value, want.shape), None) if want is not None else None
            if want is not None and shaped is not None:
                far[name] = relative(only_known(shaped.value, shaped.rows), only_known(want, shaped.rows))
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
        """Unweighted norms where the dump has another number of them in a layer: only their order distinguishes them."""
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
        """A value in the record's shape: float32, or integers. Rows that are not known are NaN, or 0.

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
        """What a text shows of a value."""
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
    """The rows of a value that are known; a limit may be a number."""
    return value if rows is None or not np.ndim(value) else value[len(value) - rows :]
