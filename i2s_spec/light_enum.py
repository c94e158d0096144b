"""This module has enumerations of texts and of numbers as `enum` has them, without the import of it for each start.

`enum` and what it brings cost as much as a quarter of starting Python. Members are texts or numbers; a class gives them by
value and by name, in order. Type checkers read `enum` itself.

    >>> class Colour(StrEnum):
    ...     RED = "red"
    ...     BLUE = "blue"
    >>> Colour("red"), Colour["BLUE"].value, list(Colour), "red" == Colour.RED, f"{Colour.RED}"
    (<Colour.RED: 'red'>, 'blue', [<Colour.RED: 'red'>, <Colour.BLUE: 'blue'>], True, 'red')
"""

from __future__ import annotations

from i2s_spec.light_typing import TYPE_CHECKING

__all__ = ["IntEnum", "StrEnum"]

if TYPE_CHECKING:
    from enum import IntEnum, StrEnum
else:

    class _Enumeration(type):
        """Makes members of what a class statement assigns."""

        def __new__(mcls, name, bases, body):
            kind = str if issubclass(bases[0], str) or str in bases else int
            values = {each: body[each] for each in body if each[:1] != "_" and isinstance(body[each], kind)}
            for each in values:
                del body[each]
            made = super().__new__(mcls, name, bases, body)
            members, by_value = {}, {}
            for each, value in values.items():
                member = kind.__new__(made, value)
                member.name, member.value = each, value
                members[each] = by_value[value] = member
                type.__setattr__(made, each, member)
            made._by_name, made._by_value = members, by_value
            return made

        def __call__(cls, value):
            try:
                return cls._by_value[value]
            except (KeyError, TypeError):
                raise ValueError(f"{value!r} is not a valid {cls.__qualname__}") from None

        def __getitem__(cls, name):
            return cls._by_name[name]

        def __iter__(cls):
            return iter(cls._by_name.values())

        def __reversed__(cls):
            return reversed(cls._by_name.values())

        def __len__(cls):
            return len(cls._by_name)

        def __contains__(cls, value):
            return any(value is each for each in cls._by_name.values()) or (
                type(value) in (str, int) and value in cls._by_value
            )

        def __setattr__(cls, name, value):
            if name in vars(cls).get("_by_name", ()):
                raise AttributeError(f"cannot reassign member {name!r}")
            type.__setattr__(cls, name, value)

        @property
        def __members__(cls):
            return dict(cls._by_name)

    class _Member:
        """What members share."""

        def __repr__(self):
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce_ex__(self, protocol):
            return type(self), (self.value,)

        def __deepcopy__(self, memo):
            return self

        def __copy__(self):
            return self

    class StrEnum(_Member, str, metaclass=_Enumeration):
        """As `enum.StrEnum`, of values that are given."""

        __str__ = str.__str__
        __format__ = str.__format__

    class IntEnum(_Member, int, metaclass=_Enumeration):
        """As `enum.IntEnum`, of values that are given."""

        __str__ = int.__repr__
        __format__ = int.__format__
