from typing import Any

def kernel_sets() -> list[tuple[str, bool]]: ...
def kernel_needs() -> list[int]: ...
def kinds() -> list[tuple[int, int, int]]: ...
def unpack(
    row: int,
    kind: int,
    src: Any,
    rows: int,
    blocks: int,
    front: int,
    dst: Any,
    stream: bool,
    swap: bool,
    scales: Any,
) -> bool: ...
def pack(
    row: int,
    kind: int,
    src: Any,
    rows: int,
    blocks: int,
    front: int,
    scales: Any,
    each: int,
    most: int,
    dst: Any,
    stream: bool,
) -> bool: ...
def floats(
    row: int, kind: int, src: Any, rows: int, blocks: int, front: int, swap: bool, dst: Any, stream: bool
) -> bool: ...
def count(row: int, kind: int, src: Any, rows: int, blocks: int, front: int) -> tuple[int, int, int]: ...
def scales(kind: int, src: Any, blocks: int, swap: bool, dst: Any) -> None: ...
