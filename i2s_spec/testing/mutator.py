"""Change files at random, field by field: a mutator for fuzzers that takes its fields from the schema.

`mutate` makes another file from some bytes; the same bytes and the same seed give the same file on every machine. Bytes
that are not a file get a header first, so no seed file is needed. `edits` makes all systematic changes: each number at
each edge value, each lie, the end of the file at each field boundary. The changes themselves are in `mutations`.

For libFuzzer and Atheris: `atheris.Setup(sys.argv, one_input, custom_mutator=custom_mutator,
custom_crossover=custom_crossover)`. For Hypothesis: `i2s_spec.testing.strategies.mutated`.

    >>> from i2s_spec.testing.sample import Draft
    >>> sound = Draft().data
    >>> mutate(sound, 7) == mutate(sound, 7) != sound
    True
    >>> next(edits(sound)).path
    'header.version'
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from i2s_spec.errors import FormatError
from i2s_spec.testing import mutations
from i2s_spec.testing.anatomy import OPERATORS, Anatomy, Mutation, Operator, dissect, edges, floats, lies

__all__ = [
    "Mutation",
    "crossover",
    "custom_crossover",
    "custom_mutator",
    "dictionary",
    "edits",
    "mutate",
    "mutation",
    "truncations",
]

_FUNCTIONS: Final = tuple(function for function, _ in OPERATORS)
_WEIGHTS: Final = tuple(weight for _, weight in OPERATORS)

#: Most changes that are made at once.
_MOST_STEPS: Final = 5
#: How many operators are tried if they do not apply.
_TRIES: Final = 24


def mutate(data: bytes, seed: int | str, max_size: int | None = None) -> bytes:
    """Return another file, with one to five random changes.

    :param data: any bytes; if they are not a GGUF file, they sometimes become one
    :param seed: the same one gives the same file
    :param max_size: longest result in bytes
    """
    return mutation(data, Random(seed), max_size).data


def mutation(data: bytes, chance: Random, max_size: int | None = None) -> Mutation:
    """Return the same with a random generator, and a description: the sentences of all changes, the path of the
    last.
    """
    done: list[str] = []
    path = ""
    steps = 1
    while steps < _MOST_STEPS and chance.random() < 0.35:
        steps += 1
    before = data
    while steps > 0 or data == before:  # a change may undo earlier ones
        steps -= 1
        edit = _once(data, chance, max_size)
        data, path = edit.data, edit.path or path
        done.append(f"{edit.path}: {edit.what}" if edit.path else edit.what)
    return Mutation(data, "; ".join(done), path)


def _once(data: bytes, chance: Random, max_size: int | None) -> Mutation:
    """Make one change that applies and keeps the size limit."""
    if not data.startswith(b"GGUF") and chance.random() < 0.5:
        order = "little" if chance.random() < 0.8 else "big"
        start = mutations.begun(order)
        if max_size is None or len(start) <= max_size:
            return Mutation(start, "begun with a header")
    anatomy = dissect(data)
    for function in chance.choices(_FUNCTIONS, _WEIGHTS, k=_TRIES):
        edit = applied(function, anatomy, chance)
        if edit is not None and edit.data != data and (max_size is None or len(edit.data) <= max_size):
            return edit
    flipped = bytes((data[0] ^ 1,)) + data[1:] if data else b"G"
    return Mutation(flipped[:max_size], "the first byte changed")


def applied(function: Operator, anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Return the result of an operator; None if the file ends too early for it."""
    try:
        return function(anatomy, chance)
    except FormatError:
        return None  # the header could be indexed, but something after it is missing


def crossover(first: bytes, second: bytes, seed: int | str, max_size: int | None = None) -> bytes:
    """Return a file made from two: a record of the second in the first, or the head of one with the rest of the other.

    :param max_size: longest result in bytes
    """
    chance = Random(seed)
    ours, theirs = dissect(first), dissect(second)
    made = mutations.splice(ours, theirs, chance) if chance.random() < 0.75 else None
    if made is None:
        at, other = chance.choice(ours.boundaries or (0,)), chance.choice(theirs.boundaries or (0,))
        made = Mutation(first[:at] + second[other:], "two files joined")
    return made.data if max_size is None else made.data[:max_size]


def custom_mutator(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate as libFuzzer and Atheris ask for it."""
    return mutate(bytes(data), seed, max_size)


def custom_crossover(first: bytes, second: bytes, max_size: int, seed: int) -> bytes:
    """Cross two files as libFuzzer and Atheris ask for it."""
    return crossover(bytes(first), bytes(second), seed, max_size)


def truncations(data: bytes) -> Iterator[Mutation]:
    """Yield the file cut at every position where a field begins or ends, and one byte before."""
    for end in sorted({at - back for at in dissect(data).boundaries for back in (0, 1)}):
        if 0 <= end < len(data):
            yield Mutation(data[:end], f"cut at byte {end}")


def edits(data: bytes) -> Iterator[Mutation]:
    """Yield every change of one number to an edge value or a lie, in the order of the file, then every truncation."""
    anatomy = dissect(data)
    for leaf in anatomy.numbers:
        width, seen = leaf.stop - leaf.start, {data[leaf.start : leaf.stop]}
        values = [(anatomy.packed(value, width), what) for value, what in lies(anatomy, leaf)]
        if isinstance(leaf.value, float):
            values += [(raw, f"set to the float {raw.hex()}") for raw in floats(width, anatomy.order)]
        else:
            values += [(anatomy.packed(value, width), f"set to {value:,}") for value in edges(width)]
        for raw, what in values:
            if raw not in seen:
                seen.add(raw)
                yield Mutation(data[: leaf.start] + raw + data[leaf.stop :], what, leaf.path)
    yield from truncations(data)


def dictionary() -> tuple[bytes, ...]:
    """Return words for a fuzzer's dictionary: names of keys, tensors and architectures, and hostile texts."""
    return mutations.dictionary()
