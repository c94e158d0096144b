"""This module holds the two sides of a comparison: a record, whose digests are checked, and a candidate in its shapes."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.errors import SettingError, quote
from i2s_spec.golden.dumps import UNNAMED, Dump, read_dump
from i2s_spec.golden.measures import is_brain, relative
from i2s_spec.golden.names import matched, parts
from i2s_spec.golden.shaping import Shaped, could_fit, readings
from i2s_spec.golden.store import read_header
from i2s_spec.golden.tap import Tap, digest
from i2s_spec.model.taps import base

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes of values that are kept to be used again.
KEPT_BYTES: Final = 256 << 20

#: Most elements of a tap of a record.
MOST_ELEMENTS: Final = 1 << 31

#: What logits and embeddings are called.
WHOLE: Final = ("result_output", "embedding")


class Golden:
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
            if not isinstance(shape, list) or any(type(side) is not int or side < 0 for side in shape):
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

        :raises SettingError: where the bytes are others than the header says
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
        return str(self.header["taps"].get(name, {}).get("op", base(name)))


class Candidate(Mapping[str, "NDArray[Any]"]):
    """A dump under the names and in the shapes of a record.

    :param names: of the record's taps, those of the dump
    :param extra: names of the dump that are nobody's
    :param shapes_off: of names that the dump has in a shape that cannot be the record's: that shape
    :param unclear: names that the dump has another number of, so that nobody knows which is which
    """

    def __init__(self, dump: Dump, golden: Golden) -> None:
        self.dump, self.golden = dump, golden
        self.notes: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self._kept: OrderedDict[str, NDArray[Any]] = OrderedDict()
        self._kept_bytes = 0
        self.names = self._matched()
        self.shapes_off = {
            name: shape
            for name, other in self.names.items()
            if (shape := dump.stored[other].shape) is not None and not self._fits(name, other)
        }
        self.unclear = self._unclear()
        taken = set(self.names.values())
        self.extra = [name for name in dump if name not in taken]
        self.brain = False

    def _matched(self) -> dict[str, str]:
        whole = [name for name in WHOLE if name in self.golden.shapes]
        found = matched(list(self.golden.shapes), self.dump, self._fits)
        if UNNAMED in self.dump and whole and whole[0] not in found:
            found[whole[0]] = UNNAMED
        return found

    def _fits(self, name: str, other: str) -> bool:
        shape, want = self.dump.stored[other].shape, self.golden.shapes[name]
        if shape is None:
            return True
        if self.dump.kind == "text":
            plain = tuple(side for side in shape if side != 1)
            wanted = tuple(side for side in want if side != 1)
            return plain == wanted or (len(shape) <= len(want) and could_fit(shape, want) and prod(shape) != prod(want))
        return could_fit(shape, want)

    def _unclear(self) -> frozenset[str]:
        """Unweighted norms where the dump has another number of them in a layer: they are told apart by number alone."""
        ours: dict[str, list[str]] = {}
        for name in self.golden.shapes:
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
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        shaped = self._shaped(name, self.dump[self.names[name]].value)
        if shaped is None:
            self.shapes_off[name] = self.dump.stored[self.names[name]].shape or ()
            raise KeyError(name)
        self._kept[name] = shaped.value
        self._kept_bytes += shaped.value.nbytes
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes
        return shaped.value

    def _shaped(self, name: str, value: NDArray[Any]) -> Shaped | None:
        integers = self.golden.header["taps"][name].get("dtype", "").startswith("int")
        if integers and value.dtype.kind == "f" and np.isfinite(value).all() and np.array_equal(value, np.rint(value)):
            with np.errstate(all="ignore"):
                value = value.astype(np.int64)
        elif not integers and value.dtype.kind != "f":
            value = value.astype(np.float32)
        found = list(readings(value, self.golden.shapes[name]))
        if not found:
            return None
        best = found[0]
        if len(found) > 1:
            want = self.golden.value(name)
            if want is not None:
                best = min(found, key=lambda each: relative(each.value, want))
        if best.how:
            self.notes[name] = best.how
        if best.rows is not None:
            self.rows[name] = best.rows
        if best.value.dtype.kind == "f":
            return best._replace(value=np.ascontiguousarray(best.value, dtype=np.float32))
        return best

    def corner(self, name: str) -> Tap | None:
        """What a text shows of a value."""
        return self.dump[self.names[name]] if self.dump.kind == "text" and name in self else None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find_brain(self) -> bool:
        """Whether the dump's values are bfloat16: those of the first few projections and sums."""
        seen = [name for name in self if self.golden.op(name) in ("linear", "add", "gain")][:6]
        self.brain = bool(seen) and self.dump.kind != "text" and all(is_brain(self[name]) for name in seen)
        return self.brain


def only_known(value: Any, rows: int | None) -> Any:
    """The rows of a value that are known; a limit may be a number."""
    return value if rows is None or not np.ndim(value) else value[len(value) - rows :]
