from typing import Any

def kernel_sets() -> list[tuple[str, bool]]: ...
def unpack(row: int, src: Any, blocks: int, group: int, lsb: bool, map: int, dst: Any, stream: bool) -> None: ...
def pack(row: int, src: Any, blocks: int, group: int, lsb: bool, map: int, dst: Any, stream: bool) -> bool: ...
def floats(
    row: int, src: Any, blocks: int, group: int, lsb: bool, map: int, scale: float, dst: Any, stream: bool
) -> None: ...
def blocks(row: int, src: Any, count: int, source: int, target: int, remap: Any, dst: Any, stream: bool) -> None: ...
def to_rows(
    row: int,
    src: Any,
    first: int,
    last: int,
    cols: int,
    step: int,
    lsb: bool,
    target: int,
    remap: Any,
    dst: Any,
    stream: bool,
) -> None: ...
def of_rows(
    row: int,
    src: Any,
    first: int,
    last: int,
    cols: int,
    step: int,
    lsb: bool,
    source: int,
    remap: Any,
    dst: Any,
    stream: bool,
) -> None: ...
def scan(row: int, src: Any, code: int) -> bool: ...
def histogram(row: int, src: Any) -> tuple[int, int, int, int]: ...
def read(row: int, src: Any) -> int: ...
def fresh_bytes(n: int) -> tuple[bytes, memoryview]: ...
def address(data: Any) -> int: ...
