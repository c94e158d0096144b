"""The part of C++ in which llama.cpp's loader functions are written: from text to trees.

`functions` finds the function definitions of a source file, `Function.body` parses one. A statement that the parser
cannot read becomes `Unread` and the next one is read, so that the yield can be counted.

    >>> functions("int f(int n) { return n + 1; }")["f"].body()
    Block(statements=(Return(line=1, value=Binary(operator='+', left=Name(name='n'), right=Number(value=1))),))
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

# Expressions. `values` uses those that say something about a file as well.


@dataclass(frozen=True, slots=True)
class Expression:
    """What has a value."""


@dataclass(frozen=True, slots=True)
class Number(Expression):
    """An integer or a float; `true` is 1."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Text(Expression):
    """A string or a character."""

    value: str


@dataclass(frozen=True, slots=True)
class Null(Expression):
    """`nullptr`."""


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A variable, a constant or a function, with its `::`."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """`-x`, `!x`, `*x`, `&x`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """`x + y`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional(Expression):
    """`condition ? then : otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Member(Expression):
    """`owner.name` and `owner->name`."""

    owner: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    """`owner[index]`."""

    owner: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """`function(arguments)`."""

    function: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Assignment(Expression):
    """`target = value`, also with an operator: `+=`."""

    operator: str
    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Braces(Expression):
    """`{x, y}`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Lambda(Expression):
    """`[&](parameters) { body }`."""

    parameters: tuple[str, ...]
    body: Block


# Statements.


@dataclass(frozen=True, slots=True)
class Statement:
    """What is executed; `line` is its line in the file."""

    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """Statements between braces, the scope of what they declare."""

    statements: tuple[Statement | Block, ...]


@dataclass(frozen=True, slots=True)
class Unread(Statement):
    """A statement that is not understood."""

    text: str


@dataclass(frozen=True, slots=True)
class Declaration(Statement):
    """`type name = value, name = value`; a value may be missing."""

    type: str
    reference: bool
    variables: tuple[tuple[str, Expression | None], ...]


@dataclass(frozen=True, slots=True)
class Evaluation(Statement):
    """An expression as a statement."""

    value: Expression


@dataclass(frozen=True, slots=True)
class If(Statement):
    """`if (declared; condition) then else otherwise`; without a condition the variable declared is it."""

    declared: Declaration | None
    condition: Expression | None
    then: Statement | Block
    otherwise: Statement | Block | None


@dataclass(frozen=True, slots=True)
class For(Statement):
    """`for (declared; condition; step) body`."""

    declared: Statement
    condition: Expression | None
    body: Statement | Block


@dataclass(frozen=True, slots=True)
class ForEach(Statement):
    """`for (auto x : range) body`."""

    range: Expression
    body: Statement | Block


@dataclass(frozen=True, slots=True)
class While(Statement):
    """`while (condition) body`."""

    condition: Expression
    body: Statement | Block


@dataclass(frozen=True, slots=True)
class Switch(Statement):
    """`switch (value)`: for each label (None: default) the statements before the next label."""

    value: Expression
    cases: tuple[tuple[Expression | None, tuple[Statement | Block, ...]], ...]


@dataclass(frozen=True, slots=True)
class Try(Statement):
    """`try body catch (...) handler`."""

    body: Block
    handler: Block


@dataclass(frozen=True, slots=True)
class Return(Statement):
    """`return value`."""

    value: Expression | None


@dataclass(frozen=True, slots=True)
class Throw(Statement):
    """`throw ...`."""


@dataclass(frozen=True, slots=True)
class Break(Statement):
    """`break`."""


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    """`continue`."""


@dataclass(frozen=True, slots=True)
class Empty(Statement):
    """`;`."""


# Tokens.


class Token(NamedTuple):
    """A word of the text: `string`, `character`, `number`, `name` or `operator`."""

    kind: str
    text: str
    line: int


_TOKEN: Final = re.compile(
    r"""\s+
    |(?P<string>"(?:\\.|[^"\\])*")
    |(?P<character>'(?:\\.|[^'\\])')
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)
    |(?P<name>[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*)
    |(?P<operator>->|\+\+|--|<<=|>>=|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|\|=|&=|<<|>>|::|[-+*/%=<>!&|^~?:;,.(){}\[\]])""",
    re.VERBOSE,
)

_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINE_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*')
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)


def stripped(text: str) -> str:
    """A text without comments and preprocessor directives; block comments keep their lines."""
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    text = _LINE_COMMENT.sub(lambda found: found[1] or "", text)
    return _DIRECTIVE.sub("", text)


def tokens(text: str) -> list[Token]:
    """The tokens of a stripped text.

    :raises SyntaxError: for a character that starts none
    """
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SyntaxError(f"line {line}: {text[at : at + 30]!r} is no token")
        if match.lastgroup:
            found.append(Token(match.lastgroup, match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return found


# The parser.

_OPENING: Final = frozenset("({[")
_CLOSING: Final = frozenset(")}]")

#: Words that start no type.
_NO_TYPE: Final = frozenset(
    [
        "return",
        "throw",
        "if",
        "for",
        "else",
        "case",
        "new",
        "delete",
        "switch",
        "while",
        "continue",
        "break",
        "goto",
        "default",
        "nullptr",
        "true",
        "false",
        "NULL",
    ]
)
_QUALIFIERS: Final = frozenset(["const", "static", "constexpr", "struct", "enum", "typename"])
_TYPES: Final = frozenset(
    [
        "int",
        "int32_t",
        "int64_t",
        "uint32_t",
        "uint64_t",
        "size_t",
        "bool",
        "float",
        "double",
        "char",
        "auto",
        "unsigned",
        "long",
        "void",
        "uint8_t",
        "int8_t",
        "llama_token",
        "int16_t",
        "uint16_t",
    ]
)

_PRECEDENCE: Final = {
    operator: level
    for level, operators in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1)
    for operator in operators.split()
}

_ASSIGNMENTS: Final = frozenset(["=", "+=", "-=", "*=", "/=", "|=", "&=", "%="])
_PREFIXES: Final = frozenset(["!", "-", "+", "*", "&", "~", "++", "--"])

#: Function templates whose argument list is dropped: `static_cast<int>(x)`.
_TEMPLATES: Final = re.compile(r"static_cast|std::|dynamic_cast|reinterpret_cast")

#: Macros that stand inside a string: "%" PRId64.
_FORMATS: Final = ("PRId64", "PRIu64")


class ParseError(Exception):
    """The text is not of the part of C++ that is read."""


class Parser:
    """Reads tokens as statements and expressions."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    # Looking at tokens.

    def _text(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place].text if place < len(self._tokens) else ""

    def _kind(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place].kind if place < len(self._tokens) else ""

    def _line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)].line

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text

    def _take(self, text: str) -> bool:
        """Whether the next token is this one; then it is consumed."""
        if self._text() != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise ParseError(f"line {self._line()}: {text} expected, not {self._text()}")

    def _skip(self, opening: str, closing: str) -> None:
        """Skip a pair of brackets and what is between."""
        depth = 0
        while True:
            text = self._next()
            depth += (text == opening) - (text == closing)
            if text == closing and depth == 0:
                return

    def _after_template(self, at: int) -> int | None:
        """The place after `<...>` at a place, or None if there is none."""
        depth = 0
        while at < len(self._tokens):
            text = self._tokens[at].text
            depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
            if text in ";{}()":
                return None
            at += 1
            if depth <= 0:
                return at
        return None

    def _after_type(self, at: int) -> int | None:
        """The place after a type at a place, or None if there is none."""
        found = self._tokens
        while found[at].text in _QUALIFIERS:
            at += 1
        if found[at].kind != "name" or found[at].text in _NO_TYPE:
            return None
        at += 1
        while found[at - 1].text in ("unsigned", "long") and found[at].text in ("int", "long"):
            at += 1
        if found[at].text == "<":
            after = self._after_template(at)
            if after is None:
                return None
            at = after
        while found[at].text in ("&", "*", "const", "&&"):
            at += 1
        return at

    # Statements.

    def block(self) -> Block:
        """A block."""
        self._expect("{")
        found = []
        while self._text() != "}":
            found.append(self._statement())
        self._expect("}")
        return Block(tuple(found))

    def _statement(self) -> Statement | Block:
        start, line = self._at, self._line()
        if self._text() == "{":
            return self.block()
        try:
            return self._known_statement(line)
        except (ParseError, IndexError):
            self._at = start
            return Unread(line, self._skipped_statement())

    def _skipped_statement(self) -> str:
        """Skip a statement; returns its text."""
        words: list[str] = []
        depth = 0
        while self._at < len(self._tokens):
            text = self._next()
            words.append(text)
            depth += (text in _OPENING) - (text in _CLOSING)
            if depth < 0:
                self._at -= 1
                break
            if depth == 0 and text in (";", "}"):
                break
        return " ".join(words)[:160]

    def _known_statement(self, line: int) -> Statement:
        keywords: dict[str, Callable[[int], Statement]] = {
            "if": self._if, "for": self._for, "while": self._while, "try": self._try, "switch": self._switch,
            "return": self._return, "throw": self._throw,
        }  # fmt: skip
        word = self._text()
        if word in keywords:
            self._at += 1
            return keywords[word](line)
        if self._take(";"):
            return Empty(line)
        if word in ("break", "continue"):
            self._at += 1
            self._expect(";")
            return Break(line) if word == "break" else Continue(line)
        found = self._declaration_or_evaluation()
        self._expect(";")
        return found

    def _if(self, line: int) -> If:
        self._take("constexpr")
        self._expect("(")
        head = self._declaration_or_evaluation()
        declared = head if isinstance(head, Declaration) else None
        condition = head.value if isinstance(head, Evaluation) else None
        if self._take(";"):
            condition = self.expression()
        self._expect(")")
        then = self._statement()
        return If(line, declared, condition, then, self._statement() if self._take("else") else None)

    def _for(self, line: int) -> For | ForEach:
        self._expect("(")
        after = self._after_type(self._at)
        if after and self._tokens[after].kind == "name" and self._tokens[after + 1].text == ":":
            self._at = after + 1
            return self._for_each(line)
        if after and self._tokens[after].text == "[":
            self._at = after
            self._skip("[", "]")
            return self._for_each(line)
        declared = self._declaration_or_evaluation()
        self._expect(";")
        condition = self.expression() if self._text() != ";" else None
        self._expect(";")
        if self._text() != ")":
            self.expression()
        self._expect(")")
        return For(line, declared, condition, self._statement())

    def _for_each(self, line: int) -> ForEach:
        self._expect(":")
        over = self.expression()
        self._expect(")")
        return ForEach(line, over, self._statement())

    def _while(self, line: int) -> While:
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        return While(line, condition, self._statement())

    def _try(self, line: int) -> Try:
        body = self.block()
        self._expect("catch")
        self._skip("(", ")")
        return Try(line, body, self.block())

    def _switch(self, line: int) -> Switch:
        self._expect("(")
        value = self.expression()
        self._expect(")")
        self._expect("{")
        cases: list[tuple[Expression | None, list[Statement | Block]]] = []
        while not self._take("}"):
            if self._take("case"):
                cases.append((self.expression(), []))
                self._expect(":")
            elif self._take("default"):
                cases.append((None, []))
                self._expect(":")
            else:
                cases[-1][1].append(self._statement())
        return Switch(line, value, tuple((label, tuple(body)) for label, body in cases))

    def _return(self, line: int) -> Return:
        value = None if self._text() == ";" else self.expression()
        self._expect(";")
        return Return(line, value)

    def _throw(self, line: int) -> Throw:
        if self._text() != ";":
            self.expression()
        self._expect(";")
        return Throw(line)

    def _declaration_or_evaluation(self) -> Declaration | Evaluation:
        line = self._line()
        after = self._after_type(self._at)
        if after is not None and self._declares(after):
            return self._declaration(line, after)
        if after and self._tokens[after].text == "[" and self._text() in ("const", "auto"):
            raise ParseError(f"line {line}: names that are bound to parts of a value")
        return Evaluation(line, self.expression())

    def _declares(self, after: int) -> bool:
        """Whether the type before a place is that of a declaration: `a * b` alone is no statement, `a && b` may be."""
        found = self._tokens
        return (
            after < len(found)
            and found[after].kind == "name"
            and found[after + 1].text in ("=", ";", "{", "(", ",")
            and found[after - 1].text != "&&"
        )

    def _declaration(self, line: int, after: int) -> Declaration:
        words = [token.text for token in self._tokens[self._at : after]]
        self._at = after
        variables: list[tuple[str, Expression | None]] = []
        while True:
            self._take("*")
            name = self._next()
            variables.append((name, self._initial_value()))
            if not self._take(","):
                return Declaration(line, " ".join(words), "&" in words, tuple(variables))

    def _initial_value(self) -> Expression | None:
        if self._take("="):
            return self.expression()
        if self._text() == "{":
            return self._primary()
        if self._take("("):
            given = self._arguments(")")
            return given[0] if len(given) == 1 else Call(Name("constructor"), given)
        if self._text() == "[":
            self._skip("[", "]")
        return None

    # Expressions.

    def _arguments(self, closing: str) -> tuple[Expression, ...]:
        found = []
        while self._text() != closing:
            found.append(self.expression())
            self._take(",")
        self._expect(closing)
        return tuple(found)

    def expression(self) -> Expression:
        """An expression."""
        target = self._conditional()
        if self._text() in _ASSIGNMENTS:
            return Assignment(self._next(), target, self.expression())
        return target

    def _conditional(self) -> Expression:
        condition = self._binary(1)
        if not self._take("?"):
            return condition
        then = self.expression()
        self._expect(":")
        return Conditional(condition, then, self.expression())

    def _binary(self, level: int) -> Expression:
        left = self._unary()
        while self._kind() == "operator" and _PRECEDENCE.get(self._text(), 0) >= level:
            operator = self._next()
            left = Binary(operator, left, self._binary(_PRECEDENCE[operator] + 1))
        return left

    def _unary(self) -> Expression:
        if self._kind() == "operator" and self._text() in _PREFIXES:
            return Unary(self._next(), self._unary())
        if self._text() == "(":
            after = self._after_type(self._at + 1)
            if after is not None and self._tokens[after].text == ")" and self._casts(after):
                self._at = after + 1
                return self._unary()
        return self._suffixed(self._primary())

    def _casts(self, closing: int) -> bool:
        """Whether `(type)` up to a place is a cast, not a variable between parentheses."""
        first, last, after = self._tokens[self._at + 1], self._tokens[closing - 1], self._tokens[closing + 1]
        like_type = first.text in _TYPES or first.text in ("const", "enum", "struct") or last.text in ("*", "&")
        starts_operand = after.kind in ("name", "number", "string") or after.text in ("(", "-", "!", "&", "*")
        return starts_operand and (like_type or after.kind in ("name", "number"))

    def _suffixed(self, found: Expression) -> Expression:
        while True:
            text = self._text()
            if text in (".", "->") and self._kind() == "operator":
                self._at += 1
                found = Member(found, self._next())
            elif self._take("["):
                found = Subscript(found, self.expression())
                self._expect("]")
            elif self._take("("):
                found = Call(found, self._arguments(")"))
            elif text in ("++", "--"):
                self._at += 1
                found = Assignment(f"{text[0]}=", found, Number(1))
            elif text == "{" and isinstance(found, Name) and ("std::" in found.name or found.name.endswith(">")):
                found = Call(found, (self._primary(),))
            else:
                return found

    def _primary(self) -> Expression:
        kind, text = self._kind(), self._text()
        if kind == "number":
            self._at += 1
            return Number(_number(text))
        if kind == "string":
            return Text(self._strings())
        if kind == "character":
            self._at += 1
            return Text(text[1:-1])
        if self._take("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._take("{"):
            return Braces(self._arguments("}"))
        if text == "[":
            return self._lambda()
        if kind == "name":
            return self._name()
        raise ParseError(f"line {self._line()}: {text} starts no expression")

    def _strings(self) -> str:
        """Strings one after another, which are one."""
        parts = []
        while self._kind() == "string" or self._text() in _FORMATS:
            text = self._next()
            parts.append(text[1:-1] if text[0] == '"' else "")
        return "".join(parts)

    def _lambda(self) -> Lambda:
        self._skip("[", "]")
        parameters = []
        if self._take("("):
            depth = 0
            words: list[str] = []
            while True:
                text = self._next()
                if text == ")" and depth == 0:
                    break
                depth += (text in ("(", "<")) - (text in (")", ">"))
                if text == "," and depth == 0:
                    parameters.append(words[-1])
                    words = []
                else:
                    words.append(text)
            parameters += words[-1:]
        while self._text() != "{":
            self._at += 1
        return Lambda(tuple(parameters), self.block())

    def _name(self) -> Expression:
        name = self._next()
        if name in ("true", "false"):
            return Number(int(name == "true"))
        if name in ("nullptr", "NULL"):
            return Null()
        if self._text() == "<" and _TEMPLATES.match(name):
            after = self._after_template(self._at)
            if after is not None and after < len(self._tokens) and self._tokens[after].text in ("(", "{"):
                self._at = after
        return Name(name)


def _number(text: str) -> int | float:
    if text[:2].lower() == "0x":
        return int(text.rstrip("uUlL"), 16)
    digits = text.rstrip("uUlLfF")
    return float(digits) if re.search("[.eE]", digits) or text[-1] in "fF" else int(digits)


def parsed_expression(text: str) -> Expression:
    """The expression of a text.

    :raises ParseError: if the text is none
    """
    return Parser(tokens(f"{text} ;")).expression()


# Functions.


@dataclass
class Function:
    """A function's definition.

    :param parameters: their names, :param file: the name of the file that it is in
    """

    parameters: tuple[str, ...]
    tokens: list[Token]
    file: str = ""

    @cached_property
    def _block(self) -> Block:
        return Parser(self.tokens).block()

    def body(self) -> Block:
        """What it executes, parsed on first use."""
        return self._block


def functions(text: str, file: str = "") -> dict[str, Function]:
    """The definitions at the top level of a source file, by name: `llama_model_base::load_hparams`."""
    found: dict[str, Function] = {}
    words = tokens(stripped(text))
    at = 0
    while at < len(words):
        if words[at].text == "{":
            at = _closed(words, at, "{", "}")
        elif words[at].kind == "name" and at + 1 < len(words) and words[at + 1].text == "(":
            after = _closed(words, at + 1, "(", ")")
            body = _body_start(words, after, "::" in words[at].text)
            if body is None:
                at += 1
                continue
            end = _closed(words, body, "{", "}")
            found[words[at].text] = Function(_parameters(words[at + 2 : after - 1]), words[body:end], file)
            at = end
        else:
            at += 1
    return found


def _closed(words: list[Token], at: int, opening: str, closing: str) -> int:
    """The place after the pair of brackets that starts at a place."""
    depth = 0
    while at < len(words):
        depth += (words[at].text == opening) - (words[at].text == closing)
        at += 1
        if depth == 0:
            break
    return at


def _body_start(words: list[Token], at: int, may_construct: bool) -> int | None:
    """Where the body starts after a list of parameters; None for what is no definition."""
    if at < len(words) and words[at].text == "const":
        at += 1
    if at < len(words) and words[at].text == ":" and may_construct:  # members that a constructor sets
        depth = 0
        while at < len(words) and not (depth == 0 and words[at].text == "{"):
            depth += (words[at].text == "(") - (words[at].text == ")")
            at += 1
    return at if at < len(words) and words[at].text == "{" else None


def _parameters(words: list[Token]) -> tuple[str, ...]:
    """The names in a list of parameters."""
    groups: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word.text in ("<", "(")) - (word.text in (">", ")"))
        if word.text == "," and depth == 0:
            groups.append([])
        else:
            groups[-1].append(word.text)
    return tuple(group[: group.index("=")][-1] if "=" in group else group[-1] for group in groups if group)
