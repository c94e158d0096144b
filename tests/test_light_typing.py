"""`light_typing` behaves like `typing`, for the modules that start without it."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from pathlib import Path
from typing import Any, Literal

import pytest

from i2s_spec import light_typing
from i2s_spec.errors import Fault, Span
from i2s_spec.gguf.source import BufferSource, Source


class Heavy(typing.NamedTuple):
    """A record."""

    x: int
    y: str = "y"
    z: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.x


class Light(light_typing.NamedTuple):
    """A record."""

    x: int
    y: str = "y"
    z: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.x


#: Operations to compare on a named tuple of each implementation.
QUESTIONS: dict[str, Any] = {
    "positions": lambda kind: kind(1, "a", (2,)),
    "names": lambda kind: kind(z=(2,), x=1),
    "defaults": lambda kind: kind(1),
    "too few": lambda kind: kind(),
    "too many": lambda kind: kind(1, 2, 3, 4),
    "unknown": lambda kind: kind(1, w=3),
    "repr": lambda kind: repr(kind(1)).removeprefix(kind.__name__),
    "property": lambda kind: kind(4).double,
    "field": lambda kind: (kind(1).y, kind(1)[1], [*kind(1)], len(kind(1)), kind(1) == (1, "y", ()), hash(kind(1))),
    "assign": lambda kind: setattr(kind(1), "x", 2),
    "no other attribute": lambda kind: setattr(kind(1), "w", 2),
    "replace": lambda kind: kind(1)._replace(y="b"),
    "replace unknown": lambda kind: kind(1)._replace(w="b"),
    "make": lambda kind: kind._make([1, 2, 3]),
    "make too few": lambda kind: kind._make([1]),
    "asdict": lambda kind: kind(1)._asdict(),
    "fields": lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__),
    "pickle": lambda kind: pickle.loads(pickle.dumps(kind(1))),
    "copy": lambda kind: copy.deepcopy(kind(1, "a", (3,))),
    "signature": lambda kind: [(each.name, each.default) for each in inspect.signature(kind).parameters.values()],
    "hints": typing.get_type_hints,
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_named_tuples_are_those_of_typing(name: str) -> None:
    """The answer is the same, or the error of the same type."""
    answers = []
    for kind in (Heavy, Light):
        try:
            answers.append(QUESTIONS[name](kind))
        except (TypeError, ValueError, AttributeError) as error:
            answers.append(type(error))
    assert answers[0] == answers[1]


def test_a_match_statement_takes_fields() -> None:
    match Light(1):
        case Light(x, y):
            assert (x, y) == (1, "y")


def test_a_signature_is_known_before_the_first_call() -> None:
    class Fresh(light_typing.NamedTuple):
        a: int
        b: int = 2

    assert list(inspect.signature(Fresh).parameters) == ["a", "b"]
    assert Fresh(1) == (1, 2)


def test_a_subclass_is_made_by_the_same_function() -> None:
    class More(Light):
        pass

    assert type(More(1)) is More
    assert More(1)._replace(x=2).x == 2


def test_defaults_come_last() -> None:
    with pytest.raises(TypeError, match="without a default"):

        class Wrong(light_typing.NamedTuple):
            a: int = 1
            b: int  # type: ignore[misc]


def test_records_of_the_package_pickle() -> None:
    assert pickle.loads(pickle.dumps((Span(1, 2), Fault("G1", "a", "b")))) == (Span(1, 2), Fault("G1", "a", "b"))


def test_a_protocol_is_what_has_its_members() -> None:
    assert isinstance(BufferSource(b"x", "x"), Source)
    assert not isinstance(object(), Source)
    assert not isinstance(Path(), Source)


def test_choices_are_those_of_typing() -> None:
    choices = light_typing.choices_of(light_typing.Literal["a", "b"])
    assert choices == typing.get_args(Literal["a", "b"]) == ("a", "b")
