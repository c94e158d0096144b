"""`light_contexts` gives what `contextlib` gives, to the modules that start without it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest
from examples import examples
from hypothesis import example, given
from hypothesis import strategies as st

from i2s_spec import light_contexts


class Context:
    """A context that records the error, and then does nothing, suppresses it (`take`), or raises another (`raise`)."""

    def __init__(self, name: int, does: str, notes: list[Any]) -> None:
        self.name, self.does, self.notes = name, does, notes

    def __enter__(self) -> int:
        if self.does == "refuse":
            raise KeyError(self.name)
        return self.name

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        assert (kind is None) == (error is None)
        self.notes.append((self.name, repr(error)))
        if self.does == "raise":
            raise ValueError(self.name)
        return self.does == "take"


def stacked(tasks: list[str], fails: bool, notes: list[Any]) -> None:
    with light_contexts.ExitStack() as stack:
        for number, does in enumerate(tasks):
            notes.append(stack.enter_context(Context(number, does, notes)))
        if fails:
            raise TypeError("body")
        notes.append("done")


def nested(tasks: list[str], fails: bool, notes: list[Any], number: int = 0) -> None:
    """The same by `with` statements."""
    if number < len(tasks):
        with Context(number, tasks[number], notes) as entered:
            notes.append(entered)
            nested(tasks, fails, notes, number + 1)
    elif fails:
        raise TypeError("body")
    else:
        notes.append("done")


def outcome(run: Callable[[list[str], bool, list[Any]], None], tasks: list[str], fails: bool) -> tuple[list[Any], str]:
    """What contexts meet, and how it ends."""
    notes: list[Any] = []
    try:
        run(tasks, fails, notes)
    except Exception as error:
        return notes, repr(error)
    return notes, "ended"


@example(["take", "raise", "nothing", "raise"], True)
@given(st.lists(st.sampled_from(["nothing", "take", "raise", "refuse"]), max_size=5), st.booleans())
@examples(300)
def test_contexts_of_a_stack_end_as_those_of_nested_statements(tasks: list[str], fails: bool) -> None:
    assert outcome(stacked, tasks, fails) == outcome(nested, tasks, fails)


@pytest.mark.parametrize("kind", [contextlib, light_contexts])
def test_errors_of_some_kinds_are_suppressed(kind: Any) -> None:
    with kind.suppress(KeyError, OSError):
        raise FileNotFoundError
    with pytest.raises(ValueError, match="other"), kind.suppress(KeyError):
        raise ValueError("other")
    with kind.suppress(KeyError):
        pass


@pytest.mark.parametrize("kind", [contextlib, light_contexts])
def test_closing_and_nullcontext(kind: Any) -> None:
    class Thing:
        closed = False

        def close(self) -> None:
            self.closed = True

    thing = Thing()
    with kind.suppress(KeyError), kind.closing(thing) as same:
        assert same is thing
        raise KeyError
    assert thing.closed
    with kind.nullcontext(3) as value:
        assert value == 3
    with kind.nullcontext() as value:
        assert value is None
