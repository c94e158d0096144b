"""This module names what is seen in a part of a payload: the form in which the survey and its slow twin say it."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Bytes that are looked at together, and by which a fingerprint takes the payload apart.
BLOCK: Final = 4096
#: The shortest run of one byte that counts as one.
LEAST_RUN: Final = 256


class PayloadObservation(NamedTuple):
    """What is in a stretch of a payload; positions count from the start of the payload, -1 is nowhere.

    `run` bytes of one value from `run_at` on are the longest run, if it has `LEAST_RUN` bytes; `last` is where the run
    begins that ends the stretch. Counts are of codes, whatever the type.
    """

    seen: int
    counts: tuple[int, int, int, int]
    first_unused: int
    run_at: int
    run: int
    run_value: int
    last: int
    last_value: int
    digest: int
    non_finite: int
    first_non_finite: int


#: Scales are sorted by their octaves where a tensor has so many: fewer say nothing, and a file may have many such tensors.
GROUPS_FROM: Final = 64
#: Scales are sorted into so many octaves: by the exponent of a float16.
OCTAVES: Final = 32


class Groups(NamedTuple):
    """What is in a stretch of a payload with a scale for each group; -1 is nowhere.

    `odd` counts codes 3 where two bits are a code, and bytes that no packer writes where digits are; `first_odd` is a byte
    of the payload. The other places are numbers of groups. Of scales, which only whole groups have, `infinite` counts those
    that are infinite or NaN, `negative` finite ones below 0, `lost` zeros in groups with weights that are not 0. `largest`
    has the bits of the largest magnitude that is finite, 0 where there is none. `octaves` counts finite scales that are not
    0 by the exponent of a float16, those of float32 likewise, with what is out of range at either end; it is empty where
    that was not asked for.
    """

    odd: int
    first_odd: int
    scales: int
    infinite: int
    first_infinite: int
    negative: int
    first_negative: int
    lost: int
    first_lost: int
    largest: int
    first_largest: int
    octaves: tuple[int, ...]
