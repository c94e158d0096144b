"""The table of what loaders ask: made from a tree of sources, written with one row a line, compared with another.

Its parts, and the functions that its expressions use, are described where it is read (`i2s_spec.schema`). Each of the lists
`rows`, `keys`, `asserts`, `guards` and `loops` holds what architectures share once; the parts of `arch` are indices into
them, and what all architectures have is in `common`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from peers.arch_tables.loader import Condition, KeyRow, Loader, Loop, TensorRow
from peers.arch_tables.sources import Sources
from peers.arch_tables.syntax import Expression, Number
from peers.arch_tables.values import ZERO, Array, shown, shown_name

Table = dict[str, Any]

#: The version of the table's form.
FORMAT: Final = 1

#: Values are nested as deeply as conditions of the sources.
_RECURSION: Final = 20_000

#: Notes that the table keeps of an architecture; the counts in `n` are of all.
_NOTES: Final = 8

#: Architectures that are named beside a difference.
_NAMED: Final = 3

#: Most that may stay unresolved, of rows and of statements, and how much larger than before a table may be.
ROWS_UNRESOLVED: Final = 0.005
STATEMENTS_UNREAD: Final = 0.001
GROWTH: Final = 1.2

#: What is not resolved, in an expression.
_UNRESOLVED: Final = re.compile(r"\bU\b")


class _Pool:
    """Rows that are kept once; `place` returns the index of one."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, row: Any) -> int:
        """The index of a row, which is added unless it is there."""
        return self._places.setdefault(json.dumps(row), len(self._places))

    def rows(self) -> list[Any]:
        """All rows."""
        return [json.loads(text) for text in self._places]


class _Read:
    """An architecture whose loader was run."""

    def __init__(
        self, sources: Sources, architecture: str, tensors: str, loader: Loader, notes: list[list[str]]
    ) -> None:
        self.name = sources.architectures[architecture]
        self.file = sources.functions[tensors].file
        self.tensors, self.understood = loader.tensors, loader.understood
        self.shared, self.on_keys, self.on_tensors = notes
        self.definitions = {}
        for name in sorted(loader.used):
            value = loader.fields[f"hparams.{name}"]
            self.definitions[name] = shown(value.element if isinstance(value, Array) else value)
        self.keys = list(dict.fromkeys(map(_key_row, loader.keys)))
        self.conditions = list(dict.fromkeys(map(_condition_row, loader.conditions)))


def make_table(root: Path, commit: str, date: str) -> Table:
    """The table of a tree of llama.cpp.

    :param root: the folder with `src`, :param commit: of the tree, :param date: of the commit
    :raises FileNotFoundError: if a file that is read is not there
    :raises ValueError: if the sources are not in a form that can be read
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    sources = Sources(root)
    found: list[_Read] = []
    without: dict[str, str] = {}
    for architecture, name in sources.architectures.items():
        read = _read(sources, architecture)
        if isinstance(read, str):
            without[name] = read
        else:
            found.append(read)
    if not found:
        raise ValueError("no loader of these sources could be read")
    shared_definitions = _shared_definitions(found)
    shared_keys = _in_all([each.keys for each in found])
    shared_conditions = _in_all([each.conditions for each in found])
    guards, loops, rows, keys, conditions = _Pool(), _Pool(), _Pool(), _Pool(), _Pool()
    architectures = {}
    for each in found:
        places, unresolved = _tensor_rows(each.tensors, rows, guards, loops)
        notes = each.on_keys + each.on_tensors
        architectures[each.name] = {
            "f": each.file,
            "d": {name: text for name, text in each.definitions.items() if shared_definitions.get(name) != text},
            "k": [keys.place(row) for row in each.keys if row not in shared_keys],
            "a": [conditions.place(_unpacked(row)) for row in each.conditions if row not in shared_conditions],
            "t": places,
            "n": [len(places), unresolved, each.understood, len(each.on_keys), len(each.on_tensors)],
            **({"notes": notes[:_NOTES]} if notes else {}),
        }
    return {
        "vocab": sources.vocabulary(), "source": "ggml-org/llama.cpp", "commit": commit, "date": date, "format": FORMAT,
        "common": {
            "d": shared_definitions, "k": [list(row) for row in shared_keys], "a": list(map(_unpacked, shared_conditions)),
            "scales": sources.scales(), "ops": sources.operations, "notes": found[0].shared,
        },
        "guards": guards.rows(), "loops": loops.rows(), "rows": rows.rows(), "keys": keys.rows(),
        "asserts": conditions.rows(), "arch": architectures, "none": without,
    }  # fmt: skip


def _read(sources: Sources, architecture: str) -> _Read | str:
    """An architecture's loader, or why there is none."""
    owner = sources.classes.get(architecture)
    if owner is None:
        return "no class"
    hyperparameters, tensors = sources.method(owner, "load_arch_hparams"), sources.method(owner, "load_arch_tensors")
    if hyperparameters is None or tensors is None:
        return "no loader function"
    loader = Loader(sources, architecture)
    try:
        notes = loader.run(hyperparameters, tensors, sources.method(owner, "graph::graph"))
    except (RecursionError, KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        return f"stopped: {error!r}"[:90]
    if not loader.tensors and "hparams.n_embd" not in loader.fields:
        return "loads no tensors here"
    return _Read(sources, architecture, tensors, loader, list(notes))


# Rows.

_KeyRow = tuple[str, str, str, str, str, str]
_ConditionRow = tuple[str, str, str, str]


def _key_row(row: KeyRow) -> _KeyRow:
    length = "" if row.length is None else shown(row.length)
    return row.key, row.type, row.kind, shown(row.required), shown(row.guard), length


def _condition_row(row: Condition) -> _ConditionRow:
    return shown(row.holds), shown(row.guard), json.dumps(_loops(row.loops)), row.kind


def _unpacked(row: _ConditionRow) -> list[Any]:
    holds, guard, loops, kind = row
    return [holds, guard, json.loads(loops), kind]


def _loops(loops: Iterable[Loop]) -> list[list[str]]:
    return [[loop.variable, shown(loop.first), shown(loop.end)] for loop in loops]


def _tensor_rows(tensors: Iterable[TensorRow], rows: _Pool, guards: _Pool, loops: _Pool) -> tuple[list[int], int]:
    """The indices of an architecture's rows, and how many of them have something unresolved."""
    places: list[int] = []
    unresolved = 0
    for row in tensors:
        if row.guard == ZERO:
            continue
        shape = "|".join(",".join(map(shown, lengths)) for lengths in row.shapes)
        name, flags, guard = shown_name(row.name), _flags(row.flags), shown(row.guard)
        own_loops = _loops(row.loops)
        place = rows.place([name, shape, flags, guards.place(guard), loops.place(own_loops)])
        if place not in places:
            places.append(place)
            unresolved += bool(_UNRESOLVED.search(json.dumps([name, shape, flags, guard, own_loops])))
    return places, unresolved


def _flags(flags: Expression) -> int | float | str:
    return flags.value if isinstance(flags, Number) else shown(flags)


def _shared_definitions(found: Iterable[_Read]) -> dict[str, str]:
    """For each hyperparameter the commonest of its definitions, where two architectures have it."""
    counts = Counter(definition for each in found for definition in each.definitions.items())
    most: dict[str, int] = {}
    for (name, _), count in counts.items():
        most[name] = max(count, most.get(name, 2))
    commonest = {name: text for (name, text), count in counts.items() if count == most[name]}
    return {"n_layer": "n_layer_all-n_layer_nextn"} | commonest


def _in_all(lists: list[list[Any]]) -> list[Any]:
    """The rows that are in all lists."""
    counts = Counter(row for rows in lists for row in rows)
    return [row for row, count in counts.items() if count == len(lists)]


# As text.

_ROW_LISTS: Final = ("guards", "loops", "rows", "keys", "asserts")
_ROW_OBJECTS: Final = ("arch", "common")


def as_text(table: Table) -> str:
    """The table with one row a line; equal tables give equal bytes."""

    def dumped(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def part(name: str, value: Any) -> str:
        if name in _ROW_LISTS:
            return "[\n" + ",\n".join(map(dumped, value)) + "]"
        if name in _ROW_OBJECTS:
            return "{\n" + ",\n".join(f"{dumped(key)}:{dumped(each)}" for key, each in value.items()) + "}"
        return dumped(value)

    return "{" + ",\n".join(f"{dumped(name)}:{part(name, value)}" for name, value in table.items()) + "}\n"


# Yield.


def counts(table: Table) -> dict[str, int]:
    """How much of the sources was read."""
    numbers = [each["n"] for each in table["arch"].values()]
    rows, unresolved, understood, on_keys, on_tensors = (sum(column) for column in zip(*numbers, strict=True))
    return {
        "architectures": len(numbers), "without a loader": len(table["none"]), "rows": rows, "rows unresolved": unresolved,
        "statements": understood + on_keys + on_tensors, "statements unread": on_keys + on_tensors,
        "bytes": len(as_text(table).encode()),
    }  # fmt: skip


def faults(table: Table, shipped: Table | None) -> list[str]:
    """Why a table may not replace the shipped one; empty if it may."""
    count = counts(table)
    found = []
    if count["rows unresolved"] > ROWS_UNRESOLVED * count["rows"]:
        found.append(
            f"{count['rows unresolved']} of {count['rows']} rows are unresolved; at most {ROWS_UNRESOLVED:.1%} may be"
        )
    if count["statements unread"] > STATEMENTS_UNREAD * count["statements"]:
        unread = f"{count['statements unread']} of {count['statements']} statements were not understood"
        found.append(f"{unread}; at most {STATEMENTS_UNREAD:.1%} may be")
    if shipped is not None:
        lost = [name for name in shipped["arch"] if name not in table["arch"]]
        found += [f"the architecture {name} is lost: {table['none'].get(name, 'it has no name')}" for name in lost]
        before = counts(shipped)["bytes"]
        if count["bytes"] > GROWTH * before:
            found.append(
                f"the table has {count['bytes']} bytes, more than {GROWTH} times the {before} of the shipped one"
            )
    return found


# Comparison.


def lines(table: Table, architecture: str) -> Iterator[str]:
    """What an architecture's loader asks, a line for each tensor, key and condition, without indices."""
    found, common = table["arch"][architecture], table["common"]
    for name, text in (common["d"] | found["d"]).items():
        if name in found["d"] or _used(name, table, found):
            yield f"where {name} is {text}"
    for key, type, kind, required, guard, length in [*common["k"], *(table["keys"][place] for place in found["k"])]:
        yield f"key {key}: {type} {kind}, required {required}, if {guard}{f', length {length}' if length else ''}"
    for holds, guard, loops, kind in [*common["a"], *(table["asserts"][place] for place in found["a"])]:
        yield f"{kind} {holds}, if {guard}{_for(loops)}"
    for place in found["t"]:
        name, shape, flags, guard, loops = table["rows"][place]
        yield f"tensor {name}: {shape}, flags {flags}, if {table['guards'][guard]}{_for(table['loops'][loops])}"


def _used(name: str, table: Table, found: dict[str, Any]) -> bool:
    """Whether an architecture's rows mention a hyperparameter."""
    word = re.compile(rf"\b{re.escape(name.removesuffix('[]'))}\b")
    for place in found["t"]:
        _, shape, _, guard, loops = table["rows"][place]
        if word.search(f"{shape} {table['guards'][guard]} {table['loops'][loops]}"):
            return True
    return False


def _for(loops: list[list[str]]) -> str:
    return "".join(f", for {variable} from {first} below {end}" for variable, first, end in loops)


def differences(old: Table, new: Table) -> Iterator[str]:
    """What differs between two tables: lines that begin with `+` or `-`, each with the architectures that it is of."""
    changed: dict[str, list[str]] = {}
    for name in dict.fromkeys((*old["arch"], *new["arch"])):
        before = set(lines(old, name)) if name in old["arch"] else set()
        after = set(lines(new, name)) if name in new["arch"] else set()
        if before and after:
            for line in [
                *(f"- {line}" for line in sorted(before - after)),
                *(f"+ {line}" for line in sorted(after - before)),
            ]:
                changed.setdefault(line, []).append(name)
        else:
            yield f"{'+' if after else '-'} architecture {name}"
    for line, names in changed.items():
        others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{line} ({', '.join(names[:_NAMED])}{others})"
    for part in ("vocab", "none"):
        if old[part] != new[part]:
            yield from _changed_names(part, old[part], new[part])


def _changed_names(part: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, []), new.get(name, [])
        if isinstance(before, list) and isinstance(after, list):
            yield from (f"- {part} {name}: {each}" for each in before if each not in after)
            yield from (f"+ {part} {name}: {each}" for each in after if each not in before)
        elif before != after:
            yield f"{'+' if after else '-'} {part} {name}: {after or before}"
