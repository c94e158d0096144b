"""`light_enum` behaves like `enum`, for the modules that start without it."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from typing import Any

import pytest

from i2s_spec import light_enum
from i2s_spec.linter.rule import Severity
from i2s_spec.schema.types import ValueType


class HeavyWord(enum.StrEnum):
    """A word."""

    ONE = "one"
    TWO = "two"

    @property
    def length(self) -> int:
        return len(self.value)


class LightWord(light_enum.StrEnum):
    """A word."""

    ONE = "one"
    TWO = "two"

    @property
    def length(self) -> int:
        return len(self.value)


class HeavyNumber(enum.IntEnum):
    """A number."""

    ZERO = 0
    ONE = 1


class LightNumber(light_enum.IntEnum):
    """A number."""

    ZERO = 0
    ONE = 1


#: Operations to compare on both implementations.
QUESTIONS: dict[str, Any] = {
    "members": lambda kind: [(each.name, each.value) for each in kind],
    "backwards": lambda kind: [each.name for each in reversed(kind)],
    "length": len,
    "by name": lambda kind: kind["ONE"].value,
    "no name": lambda kind: kind["NINE"],
    "by value": lambda kind: kind(kind.ONE.value).name,
    "by member": lambda kind: kind(kind.ONE) is kind.ONE,
    "no value": lambda kind: kind(9),
    "no value of such a kind": lambda kind: kind([]),
    "names": lambda kind: list(kind.__members__),
    "in": lambda kind: (kind.ONE in kind, kind.ONE.value in dict.fromkeys(kind)),
    "texts": lambda kind: (str(kind.ONE), f"{kind.ONE}", f"{kind.ONE:>5}", f"{kind.ONE!s}", f"{kind.ONE.value!r}"),
    "repr": lambda kind: repr(kind.ONE).replace(kind.__name__, ""),
    "equal": lambda kind: (kind.ONE.value == kind.ONE, hash(kind.ONE) == hash(kind.ONE.value), kind.ONE is kind["ONE"]),
    "order": lambda kind: [each.value for each in sorted(kind, reverse=True)],
    "json": lambda kind: json.dumps({"a": kind.ONE}),
    "copy": lambda kind: copy.copy(kind.ONE) is kind.ONE and copy.deepcopy([kind.ONE])[0] is kind.ONE,
    "pickle": lambda kind: pickle.loads(pickle.dumps(kind.ONE)) is kind.ONE,
    "reassign": lambda kind: setattr(kind, "ONE", 5),
    "kind": lambda kind: (type(kind.ONE) is kind, isinstance(kind.ONE, (str, int)), kind.__doc__),
}


@pytest.mark.parametrize("kinds", [(HeavyWord, LightWord), (HeavyNumber, LightNumber)], ids=["text", "number"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_both_enums_behave_alike(question: str, kinds: tuple[Any, Any]) -> None:
    answers = []
    for kind in kinds:
        try:
            answers.append(QUESTIONS[question](kind))
        except (KeyError, ValueError, AttributeError) as error:
            answers.append((type(error), str(error).replace(kind.__name__, "")))
    assert answers[0] == answers[1]


def test_properties_and_messages_of_ours() -> None:
    assert LightWord.TWO.length == 3
    assert ValueType(8) is ValueType.STRING
    assert ValueType.STRING.label == "str"
    assert isinstance(Severity("error"), str)
    with pytest.raises(ValueError, match="'worse' is not a valid Severity"):
        Severity("worse")
