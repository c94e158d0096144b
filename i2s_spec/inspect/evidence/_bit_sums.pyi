from typing import Any

def kernel_sets() -> list[tuple[str, bool]]: ...
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
def add_bit_sums_of_file(
    row: int,
    descriptor: int,
    start: int,
    size: int,
    buffer: Any,
    step: int,
    width: int,
    segment: int,
    either: bool,
    columns: Any,
    segments: Any,
    planes: Any,
) -> bool: ...
def ranks(counts: Any, found: Any) -> int: ...
def float_ranks(values: Any, found: Any) -> int: ...
def score_sets() -> list[tuple[str, bool]]: ...
def column_scores(
    row: int, bases: Any, places: Any, split: int, others: Any, share: int, width: int, values: int, found: Any
) -> bool: ...
def totals(pairs: Any, stretches: Any, height: int, others: bool, columns: Any, rows: Any) -> None: ...
def gram_products(
    row: int, one: Any, other: Any, places: Any, first: int, squares: bool
) -> tuple[float, float, float]: ...
def gram_sets() -> list[tuple[str, bool]]: ...
def gram(row: int, data: Any, stride: int, n: int, down: bool, mixed: bool, table: Any, found: Any) -> None: ...
def correlations(row: int, products: Any, found: Any) -> None: ...
