from typing import Any

import numpy as np
from numpy.typing import NDArray

def kernel_sets() -> list[tuple[str, bool]]: ...
def panels_from(row: int) -> int | None: ...
def force_panels(row: int, tokens: int) -> None: ...
def kernel_needs() -> list[int]: ...
def product(
    row: int,
    payload: NDArray[np.uint8],
    rows: int,
    codes: NDArray[np.int8],
    out: NDArray[np.int32],
    threads: int,
    scales: NDArray[np.float32] | None = ...,
    sums: NDArray[np.int32] | None = ...,
    weight_scale: float = ...,
    repeats: int = ...,
    trits: bool = ...,
    look: bool = ...,
) -> bool: ...
def linear(
    row: int,
    payload: NDArray[np.uint8],
    rows: int,
    x: NDArray[np.float32],
    out: NDArray[np.float32],
    threads: int,
    weight_scale: float,
    look: bool = ...,
) -> bool: ...
def quantize(
    row: int,
    x: NDArray[np.float32],
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    sums: NDArray[np.int32],
    threads: int,
) -> None: ...
def probe_multiplications(row: int, rounds: int, threads: int, tokens: int = 0) -> int: ...
def probe_reading(
    data: NDArray[np.uint8], repeats: int, threads: int, ahead: int = 4096, second: bool = False
) -> None: ...
def lookup_sets() -> list[tuple[str, bool]]: ...
def lookup_arrange(payload: NDArray[np.uint8], rows: int, row_bytes: int, arranged: NDArray[np.uint8]) -> None: ...
def lookup_tables(codes: NDArray[np.int8], tables: NDArray[np.uint8]) -> None: ...
def lookup_product(
    row: int, arranged: NDArray[np.uint8], tables: NDArray[np.uint8], out: NDArray[np.int32], repeats: int = ...
) -> None: ...
def address(data: Any) -> int: ...

interface: Any
