from typing import Any

def kernel_sets() -> list[tuple[str, bool]]: ...
def kernel_needs() -> list[int]: ...
def planes_size(width: int, segment: int) -> int: ...
def add_bit_sums(
    row: int,
    data: Any,
    width: int,
    segment: int,
    either: bool,
    columns: Any,
    segments: Any,
    first: int,
    planes: Any,
    held: int,
    last: bool,
) -> int: ...
def count_file(
    row: int,
    descriptor: int,
    start: int,
    height: int,
    buffer: Any,
    step: int,
    either: bool,
    others: bool,
    columns: Any,
    rows: Any,
) -> bool: ...
def ranks(counts: Any, found: Any) -> int: ...
def count_score(one: Any, other: Any, values: int) -> float | None: ...
def has_zero(counts: Any) -> bool: ...
def zeros_alike(
    gate: Any, up: Any, base: Any, places: Any, first: int, stop: int
) -> tuple[int, int, int, list[int]]: ...
def unwritten(kind: str, *shape: int) -> memoryview[Any]: ...
def line_offset(data: Any) -> int: ...
def add_products(one: Any, other: Any, found: Any) -> None: ...
def float_ranks(values: Any, found: Any) -> int: ...
def score_sets() -> list[tuple[str, bool]]: ...
def column_scores(
    row: int, bases: Any, places: Any, split: int, others: Any, share: int, width: int, values: int, found: Any
) -> bool: ...
def totals(pairs: Any, stretches: Any, height: int, others: bool, columns: Any, rows: Any) -> None: ...
def gram_scores(
    row: int,
    one: Any,
    first: Any,
    second: Any,
    places: Any,
    starts: Any,
    firsts: Any,
    numbers: Any,
    values: int,
    found: Any,
) -> None: ...
def squares(found: Any, grams: Any, in_rows: Any, squared: Any) -> None: ...
def sums_of_squares(squared: Any, numbers: Any, sides: Any, hypotheses: int) -> list[float]: ...
def gram_sets() -> list[tuple[str, bool]]: ...
def shared_gram(products: Any, places: Any, width: int, share: int, found: Any) -> None: ...
def shared_scores(
    row: int,
    gram_row: int,
    products: Any,
    first: Any,
    second: Any,
    places: Any,
    starts: Any,
    firsts: Any,
    numbers: Any,
    width: int,
    share: int,
    values: int,
    found: Any,
) -> None: ...
def gram(
    row: int, data: Any, stride: int, n: int, down: bool, mixed: bool, table: Any, found: Any, correlated: bool = False
) -> None: ...
def correlations(row: int, products: Any, found: Any) -> None: ...

class Pass:
    room: int
    step: int

    def __init__(
        self,
        sums: int,
        scores: int,
        either: bool,
        others: bool,
        values: int,
        matrices: Any,
        profiles: Any,
        profile_ends: Any,
        asked: Any,
        asked_ends: Any,
        uses: Any,
        numbers: Any,
        places: Any,
        counts: Any,
        gains: Any,
        found: Any,
        made: Any,
        left: Any,
    ) -> None: ...
    def work(self, descriptor: int, buffer: Any, scratch: Any, most: int) -> int: ...
    def take(self) -> int: ...
    def counted(self, matrix: int, scratch: Any) -> None: ...
