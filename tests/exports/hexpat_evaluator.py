"""A small evaluator of ImHex's pattern language, for the part of the language that our exporter writes.

ImHex's own evaluator is in no package registry. This one is stricter: it is an error to use an undeclared type or name,
a word that is not in the language, or a function whose library is not imported, to leave a bracket open, to read beyond
the file, and to exceed a limit that the pattern sets. It counts patterns as ImHex does: a variable is one, also a local
one; an array of numbers is two, itself and its item; any other array is one beside its items.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

NUMBERS = {
    "u8": "B", "s8": "b", "u16": "H", "s16": "h", "u32": "I", "s32": "i", "u64": "Q", "s64": "q", "float": "f",
    "double": "d", "char": "c", "bool": "?", "u128": "", "auto": "",
}  # fmt: skip

#: The functions of each library that patterns may call, as ImHex-Patterns' includes/std declares them.
LIBRARIES = {
    "std.core": {"std::core::set_endian", "std::core::array_index"},
    "std.mem": {"std::mem::read_unsigned", "std::mem::size", "std::mem::Endian::Little", "std::mem::Endian::Big"},
    "std.io": {"std::error"},
}

_TOKEN = re.compile(
    r'(?P<skip>\s+|//[^\n]*|#pragma [^\n]*)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>0x[0-9A-Fa-f]+|\d+(?:\.\d+)?)'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>::|\[\[|\]\]|==|!=|<=|>=|>>|&&|\|\||[-+*/%<>=!?:;,.(){}\[\]@$&])"
)
_BINDS = [["||"], ["&&"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], [">>"], ["+", "-"], ["*", "/", "%"]]
_SUMS = 6  # the level of + and -
_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "+": lambda a, b: a + b, "-": lambda a, b: a - b,
    "*": lambda a, b: a * b, "%": lambda a, b: a % b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b,
    "/": lambda a, b: a / b if isinstance(a, float) or isinstance(b, float) else a // b,
}  # fmt: skip

Expression = Callable[[dict[str, Any]], Any]
Statement = Callable[[dict[str, Any]], Any]


class PatternError(Exception):
    """The pattern is not of the language, or cannot be laid over the file."""


class Returned(Exception):  # noqa: N818
    """A function has come to its result."""


class Struct(dict[str, Any]):
    """A struct in the file: its members, where it begins and how many bytes it has; local variables are in it too."""

    start: int
    size: int


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        met = _TOKEN.match(text, at)
        if met is None:
            raise PatternError(f"no word of the language: {text[at : at + 20]!r}")
        if met.lastgroup != "skip":
            found.append(met[0])
        at = met.end()
    return [*found, ""]


class Pattern:
    """A pattern laid over a file: `main` holds what it places and its variables, `functions` what can be called.

    :param inputs: values of input variables, which are otherwise 0
    :ivar count: how many patterns there are
    """

    def __init__(self, text: str, data: bytes, **inputs: int) -> None:
        self.inputs, self.count = inputs, 0
        limits = dict(re.findall(r"#pragma (pattern_limit|array_limit) (\d+)", text))
        self.pattern_limit, self.array_limit = int(limits["pattern_limit"]), int(limits["array_limit"])
        self.data, self.mark, self.at = data, "<", 0
        self.index, self.heap = 0, False
        self.types: dict[str, Callable[[dict[str, Any], list[int]], Any]] = {}
        self.templates: dict[str, list[str]] = {}
        self.enums: dict[str, dict[str, int]] = {}
        self.functions: dict[str, Callable[..., Any]] = {}
        self.formats: list[str] = []
        self.allowed: set[str] = set()
        self.main: dict[str, Any] = {"__up": None}
        self._words, self._next = _tokens(text), 0
        while self._peek():
            self._declaration()(self.main)
        missing = set(self.formats) - self.functions.keys()
        if missing:
            raise PatternError(f"no function formats by the name of {missing}")

    # --- lexer

    def _peek(self, ahead: int = 0) -> str:
        return self._words[min(self._next + ahead, len(self._words) - 1)]

    def _take(self, wanted: str = "") -> str:
        word = self._peek()
        if not word or (wanted and word != wanted):
            raise PatternError(f"{wanted or 'something'} is wanted where {word!r} stands")
        self._next += 1
        return word

    def _if(self, wanted: str) -> bool:
        found = self._peek() == wanted
        self._next += found
        return found

    # --- declarations

    def _declaration(self) -> Statement:
        word = self._peek()
        if word == "import":
            self._take()
            name = self._take()
            while self._if("."):
                name += f".{self._take()}"
            self._take(";")
            self.allowed |= LIBRARIES[name]
            return lambda scope: None
        if word in ("struct", "enum", "bitfield", "fn"):
            self._take()
            {"struct": self._struct, "enum": self._enum, "bitfield": self._bitfield, "fn": self._function}[word]()
            self._take(";")
            return lambda scope: None
        return self._statement()

    def _enum(self) -> None:
        name = self._take()
        self._take(":")
        base = self._take()
        values: dict[str, int] = {}
        self._take("{")
        while not self._if("}"):
            label = self._take()
            self._take("=")
            values[label] = int(self._take(), 0)
            self._take(",")
        self.enums[name] = values
        self.types[name] = self._number(base)

    def _bitfield(self) -> None:
        name = self._take()
        widths: dict[str, int] = {}
        self._take("{")
        while not self._if("}"):
            field = self._take()
            self._take(":")
            widths[field] = int(self._take())
            self._attributes()
            self._take(";")
        size = sum(widths.values())
        assert size % 8 == 0

        def read(scope: dict[str, Any], arguments: list[int]) -> dict[str, int]:
            value = int.from_bytes(self._bytes(size // 8), "little")
            self._counted(len(widths))
            fields, shift = {}, 0
            for field, width in widths.items():  # from the lowest bit up
                fields[field] = value >> shift & (1 << width) - 1
                shift += width
            return fields

        self.types[name] = read

    def _struct(self) -> None:
        name, parameters = self._take(), list[str]()
        if self._if("<"):
            while not parameters or self._if(","):
                self._take("auto")
                parameters.append(self._take())
            self._take(">")
            self.templates[name] = parameters
        members: list[Statement] = []

        def read(scope: dict[str, Any], arguments: list[int]) -> Struct:
            made = Struct({"__up": self.main})
            made.update(zip(parameters, arguments, strict=True))
            made.start = self.at
            for member in members:
                member(made)
            made.size = self.at - made.start
            return made

        self.types[name] = read  # so that the type can refer to itself
        members += self._block()
        self._attributes()

    def _function(self) -> None:
        name, parameters = self._take(), []
        self._take("(")
        while not self._if(")"):
            self._if("ref")
            kind = self._take()
            if kind not in NUMBERS and kind not in self.types:
                raise PatternError(f"{kind} is used before it is declared")
            parameters.append(self._take())
            if self._peek() != ")":
                self._take(",")
        statements = self._block()

        def call(*arguments: Any) -> Any:
            if len(arguments) != len(parameters):
                raise PatternError(f"{name} takes {len(parameters)} arguments")
            scope = {"__up": self.main, **dict(zip(parameters, arguments, strict=True))}
            try:
                for statement in statements:
                    statement(scope)
            except Returned as result:
                return result.args[0]
            return None

        self.functions[name] = call

    def _block(self) -> list[Statement]:
        if not self._if("{"):
            return [self._statement()]
        found = []
        while not self._if("}"):
            found.append(self._statement())
        return found

    def _attributes(self) -> None:
        if self._if("[["):
            name = self._take()
            assert name in ("comment", "format"), name
            self._take("(")
            value = self._take()[1:-1]
            self._take(")")
            self._take("]]")
            if name == "format":
                self.formats.append(value)

    # --- statements

    def _statement(self) -> Statement:
        word, after = self._peek(), self._peek(1)
        if word == "match":
            return self._match()
        if word == "if":
            return self._condition()
        if word == "for":
            return self._loop()
        if word == "return":
            self._take()
            value = self._expression()
            self._take(";")

            def come(scope: dict[str, Any]) -> None:
                raise Returned(value(scope))

            return come
        if (word in NUMBERS or word in self.types) and (after.isidentifier() or after == "<"):
            return self._variable()
        if after == "=":
            self._take()
            self._take("=")
            value = self._expression()
            self._take(";")
            return lambda scope: self._holder(scope, word).__setitem__(word, value(scope))
        value = self._expression()
        self._take(";")
        return value

    def _variable(self) -> Statement:
        kind, arguments = self._take(), list[Expression]()
        if kind in self.templates:
            self._take("<")
            while not arguments or self._if(","):
                arguments.append(self._expression(_SUMS))  # no comparison inside the brackets
            self._take(">")
        name = self._take()
        if self._if("="):
            start = self._expression()
            self._take(";")
            cast = float if kind in ("float", "double") else lambda value: value

            def assign(scope: dict[str, Any]) -> None:
                self._counted(isinstance(scope, Struct))
                scope[name] = cast(start(scope))

            return assign
        if self._if("in"):
            self._take(";")
            return lambda scope: scope.__setitem__(name, self.inputs.get(name, 0))
        count: Expression | None = None
        if self._if("["):
            count = self._expression()
            self._take("]")
        place = self._expression() if self._if("@") else None
        self._attributes()
        self._take(";")
        reader = self.types.get(kind) or self._number(kind)

        def lay(scope: dict[str, Any]) -> None:
            given = [argument(scope) for argument in arguments]
            before = self.at
            if place is not None:
                self._place(name, place(scope), scope)
            self._counted(1)
            if count is None:
                scope[name] = reader(scope, given)
            elif kind == "char":
                scope[name] = self._bytes(count(scope)).decode("latin-1")
            elif kind in NUMBERS:
                scope[name] = self._numbers(kind, count(scope))
            else:
                scope[name] = self._items(count(scope), lambda: reader(scope, given))
            if place is not None and scope is not self.main:
                self.at = before  # a placed variable does not move the position in the enclosing struct

        return lay

    def _place(self, name: str, at: int, scope: dict[str, Any]) -> None:
        if self.heap and scope is self.main:
            raise PatternError(f"{name} cannot be placed in a condition")
        if not 0 <= at <= len(self.data):
            raise PatternError(f"{name} would be placed at {at}, which is not in the file")
        self.at = at

    def _numbers(self, kind: str, length: int) -> list[Any]:
        self._counted(1)
        held = self._bytes(length * struct.calcsize("=" + NUMBERS[kind]))
        return list(struct.unpack(f"{self.mark}{length}{NUMBERS[kind]}", held))

    def _items(self, length: int, read: Callable[[], Any]) -> list[Any]:
        if length > self.array_limit:
            raise PatternError(f"an array has more than {self.array_limit} items")
        self._counted(length)
        items, outer = [], self.index
        for self.index in range(length):
            items.append(read())
        self.index = outer
        return items

    def _match(self) -> Statement:
        self._take()
        self._take("(")
        value = self._expression()
        self._take(")")
        self._take("{")
        cases: dict[int | None, list[Statement]] = {}
        while not self._if("}"):
            self._take("(")
            label = self._take()
            self._take(")")
            self._take(":")
            cases[None if label == "_" else int(label)] = self._block()

        def choose(scope: dict[str, Any]) -> None:
            for statement in cases.get(value(scope), cases.get(None, [])):
                statement(scope)

        return choose

    def _loop(self) -> Statement:
        """`for (u64 j = 0, j < n, j = j + 1)`: parts are divided by commas."""
        self._take()
        self._take("(")
        kind, counter = self._take(), self._take()
        if kind not in NUMBERS:
            raise PatternError(f"{kind} does not count")
        self._take("=")
        start = self._expression()
        self._take(",")
        goes_on = self._expression()
        self._take(",")
        self._take(counter)
        self._take("=")
        step = self._expression()
        self._take(")")
        body = self._block()

        def repeat(scope: dict[str, Any]) -> None:
            scope[counter] = start(scope)
            while goes_on(scope):
                for statement in body:
                    statement(scope)
                scope[counter] = step(scope)

        return repeat

    def _condition(self) -> Statement:
        self._take()
        self._take("(")
        holds = self._expression()
        self._take(")")
        yes = self._block()
        no = self._block() if self._if("else") else []

        def choose(scope: dict[str, Any]) -> None:
            self.heap = scope is self.main  # ImHex places nothing in the file from a condition outside of a struct
            for statement in yes if holds(scope) else no:
                statement(scope)
            self.heap = False

        return choose

    # --- expressions

    def _expression(self, level: int = -1) -> Expression:
        if level == -1:
            condition = self._expression(0)
            if not self._if("?"):
                return condition
            yes = self._expression()
            self._take(":")
            no = self._expression()
            return lambda scope: yes(scope) if condition(scope) else no(scope)
        if level == len(_BINDS):
            return self._operand()
        left = self._expression(level + 1)
        while self._peek() in _BINDS[level]:
            left = _binary(self._take(), left, self._expression(level + 1))
        return left

    def _operand(self) -> Expression:
        word = self._take()
        if word == "!":
            inner = self._operand()
            return lambda scope: not inner(scope)
        if word == "(":
            inner = self._expression()
            self._take(")")
            return inner
        if word == "$":
            return lambda scope: self.at
        if word[0] == '"':
            return lambda scope: word[1:-1]
        if word[0].isdigit():
            return lambda scope: float(word) if "." in word else int(word, 0)
        if word in ("true", "false"):
            return lambda scope: word == "true"
        if not word.isidentifier():
            raise PatternError(f"no operand: {word}")
        while self._if("::"):
            word += f"::{self._take()}"
        if self._if("("):
            return self._call(word)
        value = self._name(word)
        while self._peek() in (".", "["):
            value = self._inside(value)
        return value

    def _inside(self, value: Expression) -> Expression:
        if self._if("."):
            member = self._take()
            return lambda scope: value(scope)[member]
        self._take("[")
        at = self._expression()
        self._take("]")
        return lambda scope: value(scope)[at(scope)]

    def _name(self, word: str) -> Expression:
        head, _, label = word.partition("::")
        if head in self.enums:
            number = self.enums[head][label]
            return lambda scope: number
        if label:
            self._provided(word)
            return lambda scope: word
        return lambda scope: self._holder(scope, word)[word]

    def _call(self, name: str) -> Expression:
        arguments = []
        while not self._if(")"):
            arguments.append(self._expression())
            if self._peek() != ")":
                self._take(",")
        if "::" in name:
            self._provided(name)
        elif name not in self.functions:
            raise PatternError(f"{name} is called before it is declared")
        function = getattr(self, "_" + name.replace("::", "_")) if "::" in name else self.functions[name]
        return lambda scope: function(*(argument(scope) for argument in arguments))

    def _provided(self, name: str) -> None:
        if name not in self.allowed:
            raise PatternError(f"no library that is imported has {name}")

    def _holder(self, scope: dict[str, Any] | None, name: str) -> dict[str, Any]:
        while scope is not None:
            if name in scope:
                return scope
            scope = scope["__up"]
        raise PatternError(f"{name} is not declared")

    # --- the file and the library

    def _counted(self, patterns: int) -> None:
        self.count += patterns
        if self.count > self.pattern_limit:
            raise PatternError(f"there are more than {self.pattern_limit} patterns")

    def _bytes(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise PatternError(f"{count} bytes at {self.at} are not in the file")
        self.at += count
        return self.data[self.at - count : self.at]

    def _number(self, kind: str) -> Callable[[dict[str, Any], list[int]], Any]:
        if not NUMBERS.get(kind):
            raise PatternError(f"{kind} is used before it is declared")
        size = struct.calcsize("=" + NUMBERS[kind])
        return lambda scope, given: struct.unpack(self.mark + NUMBERS[kind], self._bytes(size))[0]

    def _std_core_set_endian(self, order: str) -> None:
        self.mark = {"std::mem::Endian::Little": "<", "std::mem::Endian::Big": ">"}[order]

    def _std_core_array_index(self) -> int:
        return self.index

    def _std_mem_read_unsigned(self, at: int, size: int, order: str = "Little") -> int:
        if at + size > len(self.data):
            raise PatternError(f"{size} bytes at {at} are not in the file")
        return int.from_bytes(self.data[at : at + size], "little" if order.endswith("Little") else "big")

    def _std_mem_size(self) -> int:
        return len(self.data)

    def _std_error(self, words: str) -> None:
        raise PatternError(words)


def _binary(sign: str, left: Expression, right: Expression) -> Expression:
    if sign == "&&":
        return lambda scope: left(scope) and right(scope)
    if sign == "||":
        return lambda scope: left(scope) or right(scope)
    return lambda scope: _APPLY[sign](left(scope), right(scope))
