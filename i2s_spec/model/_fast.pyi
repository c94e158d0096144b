from typing import Any

import numpy as np
from numpy.typing import NDArray

OPS: dict[str, int]
TYPES: dict[str, int]
ACTIVATIONS: dict[str, int]
MOST_MATRICES: int
WIDEST: int
ROOM: int
SPLIT: int
HEAD_COLUMNS: int

class Program:
    count: int
    def add(self, op: int, **fields: Any) -> None: ...
    def matrix(self, weights: int, rows: int, out: int, scale: float) -> int: ...
    def tables(self, step: int, cosine: int, sine: int) -> None: ...
    def run(
        self,
        fast: int,
        ternary: int,
        threads: int,
        layers: int,
        sequences: NDArray[np.int64],
        rows: NDArray[np.int64],
        positions: NDArray[np.int64],
        caches: NDArray[np.uintp],
        values: NDArray[np.float32],
        result: NDArray[np.float32],
        room: NDArray[np.float32],
        partial: NDArray[np.float32],
        codes: NDArray[np.int8],
        arranged: NDArray[np.int8],
        scales: NDArray[np.float32],
        sums: NDArray[np.int32],
        whole: bool = True,
    ) -> None: ...

def kernel_sets() -> list[tuple[str, bool]]: ...
def kernel_needs() -> list[int]: ...
def dots(
    fast: int, kind: int, w: int, rows: int, pitch: int, x: NDArray[np.float32], out: NDArray[np.float32]
) -> None: ...
def activate(fast: int, kind: int, x: NDArray[np.float32], out: NDArray[np.float32]) -> None: ...
def norm(fast: int, x: NDArray[np.float32], eps: float, out: NDArray[np.float32]) -> None: ...
def halve(fast: int, x: NDArray[np.float32], out: NDArray[np.uint16]) -> None: ...

class HeadRows:
    def __init__(self, head: int, fast: int, threads: int, weights: int, rows: int, columns: int) -> None: ...
    def room(self, codes: NDArray[np.uint8], bounds: NDArray[np.float32]) -> None: ...
    def make(self, first: int, last: int) -> None: ...
    def scan(
        self,
        x: NDArray[np.float32],
        codes: NDArray[np.int16],
        high: NDArray[np.int8],
        low: NDArray[np.int8],
        total: int,
        step: float,
        over: float,
        within: float,
        rest: float,
        scored: int,
        estimate: NDArray[np.float32],
        upper: NDArray[np.float32],
    ) -> None: ...
    def whole(self, x: NDArray[np.float32], out: NDArray[np.float32]) -> None: ...
    def read(self, x: NDArray[np.float32], ids: NDArray[np.int64], out: NDArray[np.float32]) -> None: ...

def head_sets() -> list[tuple[str, bool]]: ...
