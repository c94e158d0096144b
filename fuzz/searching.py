"""This module searches with Atheris in all code that a harness calls, including modules that are imported late.

It works around two bugs of Atheris 3.0.0: Atheris keeps the result of a traced comparison unless it is a bool, so that
comparing arrays fills the memory; and a busy process can end before libFuzzer has written the input of a failure.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import verb_runs

from i2s_spec.testing.mutator import custom_crossover, custom_mutator

Target = Callable[[bytes], None]

#: In the order of Python's numbers for them.
_OPERATORS: Final = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)

#: Comparisons that Atheris traces without error.
_PLAIN: Final = (int, str, bytes)


def search(one_input: Target, gguf: bool = True, behind: bytes | None = None) -> None:
    """Search with Atheris until a failure, with the arguments of libFuzzer.

    :param gguf: whether the bytes are a GGUF file, whose fields can be changed
    :param behind: the text that precedes the file; bytes before the file are changed as bytes
    """
    import atheris

    verb_runs.EVERY = verb_runs.EVERY_FOUND
    gc.unfreeze()  # the command line freezes its imports, and the collector would skip them
    # Use `type`, since `isinstance` asks an object for its class, and objects of some packages warn about that.
    for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
        if str(function.__module__).startswith("i2s_spec"):  # all of Python would take minutes
            atheris.instrument_func(function)
    atheris.instrument_imports(include=["i2s_spec"]).__enter__()  # permanently: the linter imports its rules late
    with suppress(Exception):  # libFuzzer tries the empty input as well; time counts from then on
        one_input(b"")

    given: dict[str, Any] = {}
    if gguf:
        mutator = _mixed if behind is None else _behind(behind)
        given = {"custom_mutator": mutator} | ({"custom_crossover": custom_crossover} if behind is None else {})
    atheris.Setup(sys.argv, _guarded(one_input, atheris), **given)
    atheris.Fuzz()


def _guarded(one_input: Target, atheris: Any) -> Target:
    """The target, with workarounds for Atheris."""
    places = [word.removeprefix("-artifact_prefix=") for word in sys.argv if word.startswith("-artifact_prefix=")]
    ours = None

    def target(data: bytes) -> None:
        nonlocal ours
        if ours is None:  # not earlier, because `Fuzz` installs its own
            ours = atheris._trace_cmp = _compared(atheris._trace_cmp)
        try:
            one_input(data)
        except BaseException:
            Path(f"{places[-1] if places else './'}crash-{sha1(data).hexdigest()}").write_bytes(
                data
            )  # as libFuzzer does
            raise

    return target


def _compared(traced: Callable[..., Any]) -> Callable[..., Any]:
    """A traced comparison, passed to Atheris only if Atheris does not keep the result."""

    def compared(left: Any, right: Any, number: int, counter: int, constant: bool) -> Any:
        if type(left) in _PLAIN and type(right) in _PLAIN:
            return traced(left, right, number, counter, constant)
        return _OPERATORS[number](left, right)

    return compared


def _mixed(data: bytes, max_size: int, seed: int) -> bytes:
    """A change of fields most of the time, otherwise libFuzzer's changes of bytes."""
    return _as_bytes(data, max_size) if seed % 10 == 0 else custom_mutator(data, max_size, seed)


def _behind(mark: bytes) -> Callable[[bytes, int, int], bytes]:
    """A mutator that changes the file after a marker by fields, or the part before it as bytes."""

    def changed(data: bytes, max_size: int, seed: int) -> bytes:
        head, _, file = data.partition(mark)
        room = max_size - len(mark)
        if seed & 1:
            head = _as_bytes(head, min(len(head) + 64, room)).replace(mark, b"")
        else:
            file = _mixed(file, max(room - len(head), 0), seed >> 1)
        return (head + mark + file)[:max_size]

    return changed


def _as_bytes(data: bytes, max_size: int) -> bytes:
    import atheris

    return bytes(atheris.Mutate(bytes(data), max_size))
