from typing import Any

class Walk:
    index: int
    position: int
    empty: int
    first_empty: int
    longest: int
    longest_at: int
    odd_pairs: int
    first_odd_pair: int
    numbered: int
    first_numbered: int
    is_utf8: bool
    markers: int
    byte_forms: list[int]
    marked: dict[bytes, int]
    needles: list[int]
    def __init__(
        self,
        start: int,
        count: int,
        big: bool,
        seed: tuple[int, int],
        limit: int,
        texts: list[bytes],
        kept_forms: int,
        kept_marked: int = 0,
    ) -> None: ...
    def feed(self, part: Any, most: int) -> list[tuple[int, int]]: ...

class Merges:
    index: int
    position: int
    results: int
    made: int
    def __init__(self, start: int, count: int, big: bool, seed: tuple[int, int]) -> None: ...
    def feed(self, part: Any, most: int) -> None: ...
    def first_unmade(self) -> int: ...

def count_equal(data: Any, big: bool, wanted: int) -> int: ...
def first_outside(data: Any, big: bool, least: int, most: int) -> int: ...
