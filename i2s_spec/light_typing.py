"""This module has what a start needs of `typing` and `collections.abc`, without importing them: named tuples, protocols.

`typing` and what it brings (`re`, `enum`, `functools`) cost more instructions than starting Python. A `NamedTuple` of it
compiles each annotation and a function for each class; here the function is compiled when a class is first called, and
annotations stay text. Type checkers read the names of `typing` itself, and follow what they know of these.

    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1)._replace(y=2)
    (Point(x=1, y=0), Point(x=1, y=2))
"""

from __future__ import annotations

# `collections.abc` would import all of `collections`; Python has this module from its start.
from _collections_abc import (
    Callable,
    Collection,
    Container,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
    Set,
)

__all__ = [
    "TYPE_CHECKING", "Any", "BinaryIO", "Callable", "ClassVar", "Collection", "Container", "Final", "Generator", "Iterable",
    "Iterator", "Literal", "Mapping", "MutableSequence", "NamedTuple", "NoReturn", "Protocol", "Sequence", "Set", "TypeVar",
    "cast", "choices_of", "overload", "runtime_checkable",
]  # fmt: skip

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import (
        Any,
        BinaryIO,
        ClassVar,
        Final,
        Literal,
        NamedTuple,
        NoReturn,
        Protocol,
        TypeVar,
        cast,
        overload,
        runtime_checkable,
    )
else:
    import sys
    from _collections import _tuplegetter

    class _Named:
        """Stands for a form of `typing` that a start only has in annotations, or in names of other types."""

        def __init__(self, name):
            self._name = name

        def __repr__(self):
            return f"typing.{self._name}"

        def __getitem__(self, parameters):
            return self

        def __or__(self, other):
            return object

        __ror__ = __or__

    class Any:
        """As `typing.Any`: of any type."""

    class BinaryIO:
        """As `typing.BinaryIO`, in annotations."""

    ClassVar, Final, NoReturn = _Named("ClassVar"), _Named("Final"), _Named("NoReturn")

    class _Choices(_Named):
        """A `Literal` with its choices, which `choices_of` gives."""

        def __init__(self, choices=()):
            super().__init__("Literal")
            self.__args__ = choices

        def __getitem__(self, parameters):
            return _Choices(parameters if isinstance(parameters, tuple) else (parameters,))

    Literal = _Choices()

    def TypeVar(name, *constraints, **kinds):  # noqa: N802 - as `typing` names it
        """As `typing.TypeVar`: only annotations have it."""
        return _Named(name)

    def cast(kind, value):
        """As `typing.cast`: the value as it is."""
        return value

    def overload(function):
        """As `typing.overload`: only type checkers read the function."""
        return function

    def runtime_checkable(protocol):
        """As `typing.runtime_checkable`, which every `Protocol` here is."""
        return protocol

    # --- protocols --------------------------------------------------------------------------------------------------

    class _Structural(type):
        """Of protocols: what has all their members is an instance of them."""

        def __instancecheck__(cls, instance):
            if type.__instancecheck__(cls, instance):
                return True
            members = vars(cls).get("_members")
            return members is not None and all(hasattr(instance, name) for name in members)

    class Protocol(metaclass=_Structural):
        """As `typing.Protocol`, runtime-checkable; a class that inherits from a protocol is an ordinary one."""

        def __init_subclass__(cls):
            if Protocol in cls.__bases__:
                declared = (*vars(cls).get("__annotations__", ()), *vars(cls))
                cls._members = frozenset(name for name in declared if not name.startswith("_"))

    # --- named tuples -----------------------------------------------------------------------------------------------

    _new = tuple.__new__
    #: What constructs a tuple of one field, of two, and so on: a class takes the code, with the names of its fields. To
    #: compile one takes longer than to make the class. Beyond twelve there are those of the classes that all lints need.
    _CONSTRUCTORS = (
        lambda _cls, a: _new(_cls, (a,)),
        lambda _cls, a, b: _new(_cls, (a, b)),
        lambda _cls, a, b, c: _new(_cls, (a, b, c)),
        lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
        lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
        lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
        lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
        lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
        lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j: _new(_cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
    )

    _LONGER = {
        15: lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p: _new(
            _cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p)
        ),
        16: lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q: _new(
            _cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q)
        ),
        18: lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s: _new(
            _cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s)
        ),
    }

    class _Signature:
        """Gives `inspect` the real signature: it asks a class for `__signature__` before it looks at `__new__`."""

        def __get__(self, instance, owner):
            _compiled(owner)
            raise AttributeError("__signature__")

    def _compiled(cls):
        """The constructor of a class of named tuples, which is compiled now; its subclasses use it too."""
        owner = next(each for each in cls.__mro__ if "_fields" in each.__dict__)
        made = owner.__dict__["__new__"]
        if made is not _FIRST:
            return made.__func__
        fields, names = owner._fields, ", ".join(owner._fields)
        space = {"_new": _new, "__builtins__": {}, "__name__": f"namedtuple_{owner.__name__}"}
        known = _CONSTRUCTORS[len(fields) - 1] if 0 < len(fields) <= len(_CONSTRUCTORS) else _LONGER.get(len(fields))
        if known is not None:
            found = type(_compiled)(known.__code__.replace(co_varnames=("_cls", *fields)), space)
        else:
            found = eval(f"lambda _cls, {names}: _new(_cls, ({names}{',' if names else ''}))", space)
        found.__defaults__ = tuple(owner._field_defaults.values()) or None
        found.__name__, found.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
        found.__doc__ = f"Create new instance of {owner.__name__}({names})"
        found.__annotations__ = dict(vars(owner).get("__annotations__", {}))
        owner.__new__ = staticmethod(found)
        return found

    def _first_new(cls, /, *values, **named):
        return _compiled(cls)(cls, *values, **named)

    _FIRST = staticmethod(_first_new)

    class _Record(tuple):
        """What all named tuples share."""

        __slots__ = ()
        _fields = ()
        _field_defaults = {}  # noqa: RUF012
        __signature__ = _Signature()

        @classmethod
        def _make(cls, values):
            """Make a new object from a sequence or iterable."""
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            """Return a new object replacing specified fields with new values."""
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                kind = TypeError if sys.version_info >= (3, 13) else ValueError
                raise kind(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self):
            """Return a new dict which maps field names to their values."""
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{self.__class__.__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    #: What gives a field by its place, for all classes.
    _GETTERS = []

    class _Declared(type):
        """Makes a class of named tuples of a class statement."""

        def __new__(mcls, name, bases, body):
            annotations = body.get("__annotations__", {})
            if "__annotate_func__" in body or "__annotate__" in body:
                raise TypeError(f"{name}: named tuples need `from __future__ import annotations` in their module")
            fields = tuple(annotations)
            defaults = {}
            for place, field in enumerate(fields):
                if field in body:
                    defaults[field] = body[field]
                elif defaults:
                    raise TypeError(f"{name}: field {field} without a default follows one that has one")
                if place == len(_GETTERS):
                    _GETTERS.append(_tuplegetter(place, f"Alias for field number {place}"))
                body[field] = _GETTERS[place]
            body.setdefault("__doc__", f"{name}({', '.join(fields)})")
            body.setdefault("__slots__", ())
            body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__new__": _FIRST}
            return type(name, (_Record,), body)

    class _Statement:
        """The base that a class statement names."""

        def __mro_entries__(self, bases):
            if len(bases) > 1:
                raise TypeError("Multiple inheritance with NamedTuple is not supported")
            return (_BASE,)

    _BASE = type.__new__(_Declared, "NamedTuple", (), {})
    NamedTuple = _Statement()


def choices_of(literal: Any) -> tuple[Any, ...]:
    """The values that a `Literal` allows, as `typing.get_args` gives them.

    >>> choices_of(Literal["full", "none"])
    ('full', 'none')
    """
    values: tuple[Any, ...] = literal.__args__
    return values
