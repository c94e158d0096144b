"""This module makes programs for the writer."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

from random import Random

from candidates_build import Candidates

from i2s_spec.schema.types import BY_NAME

BEGUN = bytes((0, 0, 0, 1, 0))  # version 3, little-endian, to a stream, no alignment


def programs(name: str, calls: list[bytes]) -> Candidates:
    """Programs of so many calls as are small enough."""
    held = BEGUN
    for number, call in enumerate(calls):
        if len(held) + len(call) > 900:
            yield f"{name}-{number}", held
            held = BEGUN
        held += call
    yield f"{name}-all", held


def call_of_add(number: int, value: bytes, kind: int, element: int | None = None) -> bytes:
    """A call of `add` with one of the plain keys."""
    return (
        bytes((0, (0, 1, 11, 12, 13)[number % 5]))
        + value
        + bytes((kind, 3, element) if element is not None else (kind, 0))
    )


def every_call() -> Candidates:
    """Every sort of value under every type, every sort of data under many tensor types."""
    kinds = range(1, 14)  # labels, behind None
    for flag in (0, 1):
        calls = [call_of_add(d, bytes((6, d, 16)) + content + bytes((flag,)), kind) for d in range(15) for kind in (0, *kinds)
                 for content in (bytes((1, 0)) * 8, b"\xff\x7f\xff\x7f" * 4, b"\0\0\0\0\0\0\xe0\x7e" * 2)]  # fmt: skip
        yield from programs(f"numpy-{flag}", calls)
    yield from programs(
        "numbers", [call_of_add(n, bytes((0, 0, n)), kind) for n in range(20) for kind in (0, 1, 5, 6, 7, 8, 11, 12)]
    )
    yield from programs(
        "floats", [call_of_add(n, bytes((1, 0, n)), kind) for n in range(7) for kind in (0, 7, 13, 1, 9)]
    )
    yield from programs("texts", [call_of_add(n, bytes((2, 0, n)), kind) for n in range(9) for kind in (0, 9, 10, 1)])
    yield from programs("booleans", [call_of_add(n, bytes((3, 0, n)), kind) for n in range(5) for kind in (0, 8, 1, 7)])
    yield from programs(
        "raw",
        [
            call_of_add(n, bytes((4, n)) + b"\1" * n + bytes((0,)), kind, element)
            for n in (0, 1, 2, 4, 7, 8, 16)
            for kind in (8, 5, 10)
            for element in (None, 5, 8)
        ],
    )
    lists = [
        bytes((7, sort, count, *picks))
        for sort in range(4)
        for count in range(5)
        for picks in [[(3 * i + sort) % 20 for i in range(count)]]
    ]
    yield from programs(
        "lists",
        [
            call_of_add(n, value, kind, element)
            for n, value in enumerate(lists)
            for kind, element in ((0, None), (10, None), (10, 5), (10, 9), (10, 8), (0, 7), (1, 2))
        ],
    )
    nested = [bytes((5, 2)) + one + two for one in lists[::6] for two in lists[::5]]
    deep = bytes((5, 1)) * 18 + bytes((5, 0))
    yield from programs(
        "nested",
        [
            call_of_add(n, value, kind, element)
            for n, value in enumerate([*nested, deep])
            for kind, element in ((0, None), (10, None), (10, 10))
        ],
    )
    yield from programs(
        "odd",
        [
            call_of_add(n, bytes((8, n)), kind, element)
            for n in range(11)
            for kind, element in ((0, None), (10, None), (9, None), (10, 5))
        ],
    )
    yield from programs(
        "kinds",
        [call_of_add(n, bytes((0, 0, 1)), kind, element) for n, kind in enumerate(range(51)) for element in (None, 3)],
    )
    yield from programs(
        "keys",
        [
            bytes((0, key)) + bytes((0, 0, value)) + bytes((kind, 0))
            for key in range(14)
            for value, kind in ((8, 5), (9, 5), (10, 5), (8, 9), (0, 0))
        ],
    )
    yield from programs(
        "records",
        [bytes((7, record, how, *([4, 1, 2, 3, 4] if how == 4 else []))) for record in range(8) for how in range(5)],
    )
    types = list(BY_NAME)
    for sort in range(9):
        for sub in range(0, 15, 2):
            calls = []
            for number, kind in enumerate(("F32", "F16", "BF16", "I2_S", "Q8_0", "I8", "F64")):
                name = (0, 1, 6, 8, 9, 10, 11)[number]
                calls.append(bytes((4, name, 2, 5, 4, types.index(kind), sort, 3, 1, 2, 3, sub, 0)))
            yield from programs(f"data-{sort}-{sub}", calls)
    shapes = [(), (6,), (9,), (10,), (9, 9), (9, 9, 9), (1, 1, 1, 1), (1, 1, 1, 1, 1), (5,), (0, 0)]
    yield from programs(
        "shapes",
        [
            bytes((4, (0, 1, 6, 8)[n % 4], len(dims), *dims, types.index(kind), 1, 0, 0, 0, size))
            for n, dims in enumerate(shapes)
            for kind in ("F32", "I2_S")
            for size in range(4)
        ],
    )
    yield from programs(
        "types", [bytes((4, n % 12, 1, 4, n, 1, 0, size)) for n in range(len(types) + 5) for size in (0, 3)]
    )
    for more in range(7):
        yield (
            f"ended-{more}",
            BEGUN + bytes((4, 0, 1, 1, types.index("F32"), 0, 0, 0)) + bytes((7, 0, 0)) * 3 + bytes(more),
        )
    yield "aligned-twice", bytes((0, 0, 0, 1, 4)) + bytes((0, 2, 0, 0, 8, 5, 0))
    for sub in range(6):
        yield f"chunks-{sub}", BEGUN + bytes((4, 0, 1, 1, types.index("F32"), 5, 1, 7, sub, 0))
        yield (
            f"chunks-{sub}-to-a-path",
            bytes((0, 0, 2, 1, 0)) + bytes((4, 0, 1, 1, types.index("F32"), 5, 1, 7, sub, 0)),
        )
    yield "twice", BEGUN + bytes((4, 0, 1, 1, types.index("F32"), 0, 0, 0)) * 2 + bytes((0,))
    for first in range(12):
        yield (
            f"begun-{first}",
            bytes((first % 5, first % 4, first % 7, first % 4, first))
            + bytes((4, 0, 1, 1, types.index("F32"), 0, 0, 0))
            + bytes((4,)),
        )


def writer_calls() -> Candidates:
    yield from every_call()
    chance = Random("writer")
    for i in range(1500):
        yield (
            f"calls-{i}",
            bytes(
                (
                    chance.choice((0, 0, 0, 2, 3, 4)),
                    chance.choice((0, 0, 1, 3)),
                    chance.choice((0, 0, 0, 2, 3, 4, 5, 6)),
                    chance.randrange(4),
                    chance.choice((0, 0, chance.randrange(12))),
                )
            )
            + chance.randbytes(chance.choice((3, 6, 12, 30))),
        )
