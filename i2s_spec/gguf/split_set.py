"""A model that is split into several files, as one: its parts, by their names and keys, and the tensors of all of them.

The first part (`split.no` 0) has the keys of the model: architecture, sizes, tokenizer. It may have no tensors. The
others need only the keys of `TYPES`, of which loaders read `split.no` alone (clause 2.8). llama.cpp opens the first
part, derives the names of the others from its name, and takes the tensors of all; so the set is judged with its first
part, and of a later part only the names of its companions are looked up.

    >>> part_name("models/m-00002-of-00003.gguf")
    PartName(prefix='models/m', number=1, parts=3)
    >>> _.of(0)
    'models/m-00001-of-00003.gguf'

Only names that derive from the file's own name are looked up, beside it, and at most `MOST_MISSING` that do not exist.
Headers are read only if every part is there, one after another, and nothing else of the other parts is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FetchingSource, open_below, source_of
from i2s_spec.schema import faults, limits
from i2s_spec.schema.types import ValueType

#: The keys about splitting, and their types; llama.cpp refuses others (llama-model-loader.cpp, `get_key`).
TYPES: Final[Mapping[bytes, ValueType]] = {
    b"split.no": ValueType.UINT16,
    b"split.count": ValueType.UINT16,
    b"split.tensors.count": ValueType.INT32,
}

#: Keys that tell parts of different models apart, where they have them.
ARCHITECTURE: Final = b"general.architecture"
NAME: Final = b"general.name"

#: A text that `i2s convert --split` writes into all parts of one model, and into no other; no loader looks for it.
IDENTITY: Final = b"split.i2s.id"

#: Most names that are looked up without success, and most headers that are fetched from a server.
MOST_MISSING: Final = 1024
MOST_FETCHED: Final = 256

_NAME: Final = r"(?s)(?P<prefix>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf"
#: Longest value that tells models apart.
_LONGEST: Final = 512


class PartName(NamedTuple):
    """The name of a part, as loaders form it: what precedes the numbers, the part's number from 0, the number of parts."""

    prefix: str
    number: int
    parts: int

    def of(self, number: int) -> str:
        """Return the name of another part of the same model."""
        return f"{self.prefix}-{number + 1:05d}-of-{self.parts:05d}.gguf"


def part_name(name: str) -> PartName | None:
    """Return a path or an address as the name of a part; None if it does not have that form."""
    found = re.fullmatch(_NAME, name)
    if found is None or int(found["number"]) < 1:
        return None
    return PartName(found["prefix"], int(found["number"]) - 1, int(found["count"]))


class PartKeys(NamedTuple):
    """The keys about splitting that have the right type; None for the others.

    `number` counts from 0, `parts` is the value of `split.count`, and `tensors` is the number of tensors in all parts.
    """

    number: int | None
    parts: int | None
    tensors: int | None

    @property
    def is_part(self) -> bool:
        """Whether the file says that the model has more than one part; with a count of 1 loaders ask for no other key."""
        return self.parts is not None and self.parts > 1


def part_keys(file: File) -> PartKeys:
    """Return the keys about splitting of a file; of one that occurs twice, the first."""
    found: dict[bytes, int | None] = {}
    for i in file.index.keys_named(TYPES):
        entry = file.index.key(i)
        fits = entry.type == TYPES[entry.name]
        found.setdefault(entry.name, int(file.metadata.decode(entry)) if fits else None)
    return PartKeys(*map(found.get, TYPES))


class PartTensor(NamedTuple):
    """A tensor of a split model.

    `part` counts from 0, `ne` are its lengths in ggml's order; `type` is the name of its type as its own file shows it,
    empty if `number` means none.
    """

    part: int
    name: str
    ne: tuple[int, ...]
    type: str
    number: int


class PartHeader(NamedTuple):
    """The header of one part.

    :param number: its place in the set, from 0
    :param name: its path or address
    :param identity: its values of `ARCHITECTURE`, `NAME` and `IDENTITY`
    :param problem: why its header cannot be used, in words; empty if it can
    """

    number: int
    name: str
    size: int = 0
    keys: PartKeys = PartKeys(None, None, None)
    identity: Mapping[bytes, str] = {}
    tensors: tuple[PartTensor, ...] = ()
    problem: str = ""


class SplitSet:
    """The model that a file is a part of.

    :param file: a part; `split_set` makes the set of a file that is one
    :param path: where it is or will be, if that is not where it was read from
    """

    def __init__(self, file: File, keys: PartKeys, path: str | None) -> None:
        assert keys.parts is not None
        self.file, self.keys, self.count = file, keys, keys.parts
        #: The number of the file itself, from 0; None if it does not say.
        self.number = keys.number
        self._remote = file.source if isinstance(file.source, FetchingSource) else None
        self.path = path if self._remote is None else getattr(self._remote, "address", self._remote.name)
        self.name = None if self.path is None else part_name(self.path)
        #: Requests and bytes that the headers of other parts took from a server.
        self.requests = self.bytes = 0

    @property
    def is_first(self) -> bool:
        """Whether the file is the first part, which has the keys of the model and with which the set is judged."""
        return self.number == 0

    @cached_property
    def incomplete(self) -> str:
        """Why not all parts are there, in their order, in words; empty if they are.

        Of a later part only the names of its companions are looked up.

        :raises FormatError: if a server does not answer
        """
        if self.path is None:
            return "the other parts were not given"
        if self.name is None:
            return "its name is not of the form NAME-00001-of-00003.gguf by which loaders find the others"
        if (self.name.number, self.name.parts) != (self.number, self.count):
            return f"its name says part {self.name.number + 1:,} of {self.name.parts:,}"
        missing, more = self._missing(self.name)
        if missing is None:
            return "its server was not asked for the other parts"
        if missing:
            words = counted(missing, *(f"of the other parts {be} not in its folder" for be in ("is", "are")))
            return f"at least {words}" if more else words
        if not self.is_first or self.file.fault is not None:
            return ""
        return next((part.problem for part in self.parts if part.problem), "")

    def _missing(self, name: PartName) -> tuple[int | None, bool]:
        """How many of the other parts are not there, and whether there may be more; None if a server does not say."""
        others = (name.of(number) for number in range(self.count) if number != name.number)
        if self._remote is not None:
            asked = getattr(self._remote, "neighbours_missing", None)
            some = [os.path.basename(each) for each in islice(others, MOST_MISSING)]
            missing = None if asked is None else asked(some)
            return missing, bool(missing) and len(some) < self.count - 1
        missing = 0
        for other in others:
            missing += not os.path.isfile(other)
            if missing == MOST_MISSING:
                return missing, missing < self.count - 1
        return missing, False

    @property
    def complete(self) -> bool:
        """Whether the file is the first part, every other is there in its place, and all headers were read."""
        return self.is_first and self.file.fault is None and not self.incomplete

    @property
    def unread(self) -> str:
        """Which part of the other files was not examined, in words for a verdict."""
        if not self.is_first:
            return "the set, which is checked with its first part"
        if not self.complete:
            return ""
        return f"the contents of the other {counted(self.count - 1, 'part')}, of which only headers were read"

    # --- headers ------------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> list[PartHeader]:
        """The header of every part, in order, the file's own included; ends with a part that has a `problem`.

        Only for the first part, and only if all are there by name.

        :raises FormatError: if a server does not give a part
        """
        found: list[PartHeader] = []
        tensors = 0
        for number in range(self.count):
            if self._remote is not None and number > MOST_FETCHED:
                name = self._name(number)
                found.append(
                    PartHeader(number, name, problem=f"only the headers of {MOST_FETCHED:,} other parts are fetched")
                )
                return found
            found.append(self._read(number))
            tensors += len(found[-1].tensors)
            if tensors > limits.MANY_TENSORS:
                words = f"its parts have more than {counted(limits.MANY_TENSORS, 'tensor')}, too many to compare"
                found[-1] = found[-1]._replace(problem=found[-1].problem or words)
            if found[-1].problem:
                break
        return found

    def _name(self, number: int) -> str:
        assert self.name is not None
        return self.name.of(number)

    def _read(self, number: int) -> PartHeader:
        name = self._name(number)
        if number == self.number:
            return _part(self.file, number, name)
        shown = f"part {number + 1:,} ({quote(os.path.basename(name), 80)})"
        try:
            with self.open(number) as file:
                unusable = (error for error in file.passed if error.fault in faults.ALIGNMENTS)  # which loaders refuse
                fault = file.fault or next(unusable, None)
                part = _part(file, number, name) if fault is None else PartHeader(number, name)
        except FormatError as error:
            if error.code in faults.REMOTE:
                raise
            fault, part = error, PartHeader(number, name)
        if fault is not None:
            return part._replace(problem=f"{shown} cannot be read: {fault.code} {fault.fault.slug}")
        if part.keys.number is None:
            return part._replace(problem=f"{shown} does not say which part it is: it has no split.no of type u16")
        if part.keys.number != number:
            return part._replace(problem=f"{shown} says that it is part {part.keys.number + 1:,}")
        return part

    def open(self, number: int) -> File:
        """Open another part, which the caller closes; it may have a fault.

        :param number: from 0
        :raises FormatError: if it cannot be opened
        """
        folder, name = os.path.split(self._name(number))
        if self._remote is not None:
            address: Any = getattr(self._remote, "address_beside", lambda other: other)
            file = File(source_of(address(name)))
        else:  # links may lead to where the file itself lies, too
            own = os.path.dirname(os.path.realpath(self.file.source.name))
            file = File(open_below(folder or os.curdir, name, own))
        usage = getattr(file.source, "usage", None)
        if usage is not None:
            self.requests += usage.requests
            self.bytes += usage.bytes
        return file

    def files(self) -> Iterator[File]:
        """Every part, opened one after another, from the first on; each is closed when the next one is asked for.

        :raises FormatError: if one cannot be opened, or has a fault
        """
        for number in range(self.count):
            if number == self.number:
                yield self.file
                continue
            with self.open(number) as file:
                if file.fault is not None:
                    raise file.fault
                yield file

    @property
    def tensors(self) -> Iterator[PartTensor]:
        """The tensors of all parts, in order; those of the file alone if the set is not `complete`."""
        if self.complete:
            for part in self.parts:
                yield from part.tensors
        else:
            yield from _tensors(self.file, self.number or 0)

    # --- what the headers say together --------------------------------------------------------------------------------

    def repeated(self) -> Iterator[tuple[str, int, int]]:
        """Names of tensors that are in two parts, each with the numbers of both; none if the set is not `complete`."""
        met: dict[str, int] = {}
        for tensor in self.tensors if self.complete else ():
            first = met.setdefault(tensor.name, tensor.part)
            if first != tensor.part:
                yield tensor.name, first, tensor.part

    @property
    def is_whole(self) -> bool:
        """Whether the set is `complete`, and its parts have the tensors that the first part announces, each once."""
        if not self.complete:
            return False
        names = [tensor.name for tensor in self.tensors]
        return len(set(names)) == len(names) == self.keys.tensors

    def differing(self, key: bytes) -> Iterator[tuple[int, str, str]]:
        """Parts with another value of a key than the first part: number, its value, that of the first part.

        :param key: `ARCHITECTURE`, `NAME` or `IDENTITY`
        """
        parts = self.parts if self.complete else []
        for part in parts[1:]:
            ours = parts[0].identity.get(key)
            theirs = part.identity.get(key, ours)
            if ours is not None and theirs is not None and theirs != ours:
                yield part.number, theirs, ours


def split_set(file: File, path: str | None = None) -> SplitSet | None:
    """Return the model that a file is a part of; None for a file that does not say that it is one of several.

    :param path: where the file is or will be, if that is not where it was read from
    """
    keys = part_keys(file)
    if not keys.is_part:
        return None
    return SplitSet(file, keys, path if path is not None else getattr(file.source, "path", None))


def _part(file: File, number: int, name: str) -> PartHeader:
    identity: dict[bytes, str] = {}
    for i in file.index.keys_named(frozenset((ARCHITECTURE, NAME, IDENTITY))):
        entry = file.index.key(i)
        if entry.type == ValueType.STRING and entry.count <= _LONGEST:
            identity.setdefault(entry.name, str(file.metadata.decode(entry)))
    tensors: Iterable[PartTensor] = _tensors(file, number)
    return PartHeader(
        number, name, file.size, part_keys(file), identity, tuple(islice(tensors, limits.MANY_TENSORS + 1))
    )


def _tensors(file: File, number: int) -> Iterator[PartTensor]:
    for tensor in file.tensors.rows:
        kind = "" if tensor.type is None else tensor.type.name
        yield PartTensor(number, tensor.name, tensor.ne, kind, tensor.number)
