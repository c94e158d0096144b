"""What llama.cpp's loader asks of a file of each architecture: keys, tensors, shapes, conditions.

`table` reads `llama_cpp.json.gz`, which a script made from the loader's C++ sources (`tests/peers/arch_tables`): names of
tensors with shapes as expressions of the hyperparameters, what is required and when, the types of keys, and what makes the
loader refuse a file. `Demands` evaluates the rows of one architecture for one file. What the script could not resolve stays
unknown, and no claim is made about it.

    >>> llama = table().architecture("llama")
    >>> llama.rows[0].name, llama.rows[0].shapes.text
    ('token_embd.weight', '(n_embd,n_vocab,)')

Source: ggml-org/llama.cpp, `src/llama-model.cpp`, `src/llama-vocab.cpp` and `src/models/*.cpp`, at the commit that the table
names. The judge of the table was libllama itself: see `tests/peers`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple, Protocol

from i2s_spec.schema.expressions import Expression, ExpressionScope, UnknownValue, compiled
from i2s_spec.schema.keys import MAX_LAYERS, MERGES, TOKENIZER_MODEL, TOKENS

_FILE: Final = "llama_cpp.json.gz"
_GZIP: Final = 31  # zlib's word for its form

#: What the loader does with a tensor, as bits of `flags`: it may be missing; it is used a second time, and stored once; it
#: is skipped, but has to fit; only its number of elements counts.
OPTIONAL, AGAIN, SKIPPED, ELEMENTS_ONLY = 1, 2, 4, 16

_ONE: Final = compiled("1")

#: Most passes of nested loops: layers, or cycles of layers.
_MOST_PASSES: Final = 4096

#: The tensor with the queries of a layer.
_QUERY: Final = re.compile(r"blk\.(\d{1,4})\.attn_q\.weight")

#: Types whose elements the loader takes for each other in arrays.
_LIKE: Final = {"u32": ("u32", "i32", "bool"), "i32": ("i32", "u32", "bool")}


class Loop(NamedTuple):
    """A loop around rows: its variable, and from where to where (exclusive) it counts."""

    variable: str
    first: Expression
    end: Expression


class TensorRow(NamedTuple):
    """A tensor, or one for each pass of the loops around it.

    :param parts: the name, in which each second part is an expression
    :param shapes: the shapes that the loader takes, in ggml's order; an expression for each
    :param flags: what the loader does with it (`OPTIONAL` and so on)
    :param guard: when the loader asks for it
    """

    parts: tuple[str, ...]
    shapes: Expression
    others: tuple[Expression, ...]
    flags: Expression
    guard: Expression
    loops: tuple[Loop, ...]

    @property
    def name(self) -> str:
        """The name, with expressions in braces."""
        return "".join(part if place % 2 == 0 else f"{{{part}}}" for place, part in enumerate(self.parts))

    @property
    def pattern(self) -> str:
        """A regular expression for the names that it can make."""
        return "".join(re.escape(part) if place % 2 == 0 else r"\d+" for place, part in enumerate(self.parts))


class KeyRow(NamedTuple):
    """A key that the loader reads.

    :param name: with the architecture's prefix
    :param type: of the value, or of the elements of an array; empty if the table does not know
    :param form: `scalar`, `array`, `either`, `length` (only how long an array is) or `scalar-or-ignored`
    :param required: whether the file is refused without it
    :param guard: when the loader reads it
    :param length: of an array, where it is fixed
    """

    name: str
    type: str
    form: str
    required: Expression
    guard: Expression
    length: Expression | None


class LoaderCondition(NamedTuple):
    """What has to hold, or the file is refused: at once, or (`at_first_token`) when a graph is built."""

    holds: Expression
    guard: Expression
    loops: tuple[Loop, ...]
    at_first_token: bool


#: The forms of keys, by their short names in the table.
_FORMS: Final = {"v": "scalar", "a": "array", "va": "either", "n": "length", "v?": "scalar-or-ignored"}


class LoaderArchitecture:
    """The rows of one architecture."""

    def __init__(
        self,
        name: str,
        file: str,
        unresolved: int,
        rows: Sequence[TensorRow],
        keys: Sequence[KeyRow],
        conditions: Sequence[LoaderCondition],
        definitions: Mapping[str, str],
    ) -> None:
        self.name = name
        #: Its source file in `src/models`.
        self.file = file
        #: How many of its rows have something that could not be read from the sources.
        self.unresolved = unresolved
        self.rows = rows
        self.keys = keys
        self.conditions = conditions
        #: Hyperparameters by name, as expressions; those of arrays end in `[]`.
        self.definitions = definitions

    def __repr__(self) -> str:
        return f"<LoaderArchitecture {self.name!r}>"


class Table:
    """The table of all architectures; rows are read when they are asked for."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.source: str = data["source"]
        self.commit: str = data["commit"]
        #: The day of the commit, as `YYYY-MM-DD`.
        self.date: str = data["date"]
        #: The values of `general.architecture` that the loader knows, and those that it knows by name and loads no model of.
        self.names = frozenset(data["arch"])
        self.named_only = frozenset(name for name in data["none"] if not name.startswith("("))
        vocabulary = data["vocab"]
        #: The values of `tokenizer.ggml.model`; those that need no tokens; those that need merges; those of
        #: `tokenizer.ggml.pre`, and those of them that need no merges.
        self.tokenizers = tuple(vocabulary["models"])
        self.without_tokens = frozenset(vocabulary["none"])
        self.with_merges = frozenset(vocabulary["merges"])
        self.pre_tokenizers = frozenset(vocabulary["pre"])
        self.pre_without_merges = frozenset(vocabulary["no_merges"])
        self._architectures: dict[str, LoaderArchitecture] = {}

    @property
    def version(self) -> str:
        """The loader in words: the commit, and its day."""
        return f"llama.cpp at {self.commit[:7]} ({self.date})"

    @property
    def loader(self) -> str:
        """The loader in a few words: the commit alone."""
        return f"llama.cpp at {self.commit[:7]}"

    def vocabulary_keys(self, tokenizer: str, pre_tokenizer: object) -> tuple[str, ...]:
        """Return the keys without which the loader refuses a vocabulary.

        :param tokenizer: the value of `tokenizer.ggml.model`; `pre_tokenizer` that of `tokenizer.ggml.pre`
        """
        if tokenizer in self.without_tokens:
            return (TOKENIZER_MODEL,)
        merged = tokenizer in self.with_merges and pre_tokenizer not in self.pre_without_merges
        return (TOKENIZER_MODEL, TOKENS, MERGES) if merged else (TOKENIZER_MODEL, TOKENS)

    def architecture(self, name: str) -> LoaderArchitecture | None:
        """Return the rows of an architecture; None if the loader loads no such model."""
        entry = self._data["arch"].get(name)
        if entry is None:
            return None
        if name not in self._architectures:
            data, common = self._data, self._data["common"]
            self._architectures[name] = LoaderArchitecture(
                name,
                entry["f"],
                entry["n"][1],
                [self._row(data["rows"][i]) for i in entry["t"]],
                [_key(name, row) for row in (*common["k"], *(data["keys"][i] for i in entry["k"]))],
                [_condition(row) for row in (*common["a"], *(data["asserts"][i] for i in entry["a"]))],
                {**common["d"], **entry["d"]},
            )
        return self._architectures[name]

    def _row(self, row: Sequence[Any]) -> TensorRow:
        name, shapes, flags, guard, loops = row
        first, *others = (compiled(f"({shape},)") if shape else compiled("(1,)") for shape in shapes.split("|"))
        return TensorRow(
            tuple(re.split(r"\{([^}]*)\}", name)), first, tuple(others), compiled(str(flags)),
            compiled(self._data["guards"][guard]), _loops(self._data["loops"][loops]),
        )  # fmt: skip

    @cached_property
    def _scales(self) -> tuple[re.Pattern[str], Mapping[str, str]]:
        """A pattern for the names of scale tensors, and for each weight how many elements its scale has."""
        rows = self._data["common"]["scales"]
        elements = {_numbered(name): count for name, _, count in rows}
        suffixes = "|".join(sorted({suffix for _, suffix, _ in rows}))
        return re.compile(rf"(?s)(.*)\.({suffixes})"), elements

    def scale_of(self, name: str) -> tuple[str, str] | None:
        """Return the weight that a scale tensor belongs to, without `.weight`, and how many elements it has, as an
        expression.

        >>> table().scale_of("blk.1.ffn_up.scale"), table().scale_of("blk.1.attn_norm.scale")
        (('blk.1.ffn_up', '1'), None)
        """
        pattern, elements = self._scales
        found = pattern.fullmatch(name)
        count = elements.get(_numbered(found[1])) if found else None
        return (found[1], count) if found and count is not None else None

    def operation(self, name: str) -> str | None:
        """ggml's operation that uses a tensor, such as `MUL_MAT`; None if the table does not say.

        >>> table().operation("blk.3.attn_norm.weight"), table().operation("blk.3.attn_q.bias")
        ('MUL', 'ADD')
        """
        stem, _, kind = name.rpartition(".")
        if kind not in ("weight", "bias"):
            stem = name
        used: str | None = self._data["common"]["ops"].get(_numbered(stem).replace("{i}", "%d"))
        return "ADD" if kind == "bias" and used is not None else used

    @cached_property
    def _everywhere(self) -> frozenset[str]:
        return frozenset(_numbered(re.sub(r"\{[^}]*\}", "0", row[0])) for row in self._data["rows"])

    def knows_tensor(self, name: str) -> bool:
        """Whether any architecture has a tensor of this name, whatever the number of the layer."""
        return _numbered(name) in self._everywhere


def _numbered(name: str) -> str:
    """Return a tensor's name with `{i}` for the number of a layer."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "{i}", name, count=1)


def _loops(loops: Sequence[Sequence[str]]) -> tuple[Loop, ...]:
    return tuple(Loop(variable, compiled(first), compiled(end)) for variable, first, end in loops)


def _key(architecture: str, row: Sequence[str]) -> KeyRow:
    name, kind, form, required, guard, length = row
    if name.startswith("~"):
        name = f"{architecture}.{name[1:]}"
    known, needed = "" if kind == "?" else kind, compiled(length) if length else None
    return KeyRow(name, known, _FORMS[form], compiled(required), compiled(guard), needed)


def _condition(row: Sequence[Any]) -> LoaderCondition:
    holds, guard, loops, kind = row
    if holds == "0":  # it only says when the file is refused
        return LoaderCondition(compiled(f"not ({guard})"), _ONE, _loops(loops), kind == "graph")
    return LoaderCondition(compiled(holds), compiled(guard), _loops(loops), kind == "graph")


@cache
def table() -> Table:
    """Return the table, read once."""
    import json
    import zlib

    with open(os.path.join(os.path.dirname(__file__), _FILE), "rb") as stream:
        return Table(json.loads(zlib.decompress(stream.read(), _GZIP)))


# --- one file --------------------------------------------------------------------------------------------------------


class KeyContents(NamedTuple):
    """A key's value: the type in the usual notation, such as `u32` or `arr[u32]`; how many elements an array has; and the
    value itself, None if it is not examined."""

    label: str
    length: int
    value: Any


class Contents(Protocol):
    """What a file holds: `tokens` is how many tokens it lists, None if it lists none."""

    tokens: int | None

    def value(self, key: str) -> KeyContents | None:
        """Return a key's value; None if there is none."""

    def ne(self, tensor: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor in ggml's order; None if there is none."""


class Demand(NamedTuple):
    """A tensor that the loader asks for.

    :param certain: whether it does; otherwise that is not known, and only the name is meant
    :param row: where it is declared
    :param layer: the value of the first loop's variable, None outside loops
    """

    name: str
    certain: bool
    row: TensorRow
    layer: int | None


class Demands(ExpressionScope):
    """What the loader asks of one file of an architecture.

    Whatever a file's numbers are, nested loops have a few thousand passes at most.
    """

    lazy = frozenset({"D", "DA", "DR"})

    def __init__(self, architecture: LoaderArchitecture, contents: Contents, tokenizer: str | None = None) -> None:
        super().__init__()
        self.architecture = architecture
        self._contents = contents
        self._prefix = f"{architecture.name}."
        #: Keys whose values the loader cannot use, so that nothing follows from them.
        self.unusable: set[str] = set()
        self._names: dict[str, Any] = {}
        self._elements: dict[tuple[str, int], Any] = {}
        self._constant: dict[Expression, Any] = {}
        vocabulary = contents.tokens
        if vocabulary is None and tokenizer in table().without_tokens:
            size = contents.value(f"{self._prefix}vocab_size")
            vocabulary = size.value if size is not None and isinstance(size.value, int) else None
        if vocabulary is not None:
            self._names["n_vocab"] = vocabulary
        kinds = contents.value("tokenizer.ggml.token_type_count")
        self._names["n_token_types"] = kinds.value if kinds is not None and isinstance(kinds.value, int) else 0
        self._functions: Mapping[str, Callable[..., Any]] = {
            "K": self._scalar, "KA": self._element, "hask": self._has_key, "isarr": self._is_array, "klen": self._length,
            "D": lambda key, default: self._scalar(key) if self._has_key(key) else default(),
            "DA": lambda key, i, default: self._element(key, i) if self._has_key(key) else default(),
            "DR": lambda key, i, default: self._element(key, i) if self._is_array(key) else default(),
            "has": lambda name: int(contents.ne(name) is not None), "ne": self._dimension,
            "amax": lambda call, count: max(map(call, range(min(count, MAX_LAYERS))), default=0), "max": max, "min": min,
        }  # fmt: skip

    # --- the scope of expressions ---

    def name(self, name: str) -> Any:
        if name not in self._names:
            text = self.architecture.definitions.get(name)
            if text is None:
                raise UnknownValue(name)
            self._names[name] = UnknownValue  # a definition that leads back to itself has no value
            self._names[name] = self._without_variables(text)
        value = self._names[name]
        if value is UnknownValue:
            raise UnknownValue(name)
        return value

    def _without_variables(self, text: str, **variables: int) -> Any:
        outside, self.variables = self.variables, variables
        try:
            return compiled(text)(self)
        except UnknownValue:
            return UnknownValue
        finally:
            self.variables = outside

    def element(self, name: str, index: int) -> Any:
        at = name, index
        if at not in self._elements:
            text = self.architecture.definitions.get(f"{name}[]")
            if text is None or not 0 <= index < 2 * MAX_LAYERS:
                raise UnknownValue(name)
            self._elements[at] = UnknownValue
            self._elements[at] = self._without_variables(text, i=index)
        value = self._elements[at]
        if value is UnknownValue:
            raise UnknownValue(name)
        return value

    def function(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            raise UnknownValue(name)
        return self._functions[name]

    def _full(self, key: str) -> str:
        return key.replace("~", self._prefix, 1) if key.startswith("~") else key

    def _value(self, key: str) -> KeyContents:
        name = self._full(key)
        found = self._contents.value(name)
        if found is None or name in self.unusable:
            raise UnknownValue(name)
        return found

    def _scalar(self, key: str) -> Any:
        found = self._value(key)
        if found.label.startswith("arr") or found.value is None:
            raise UnknownValue(key)
        return found.value

    def _element(self, key: str, index: int) -> Any:
        found = self._value(key)
        if found.value is None:
            raise UnknownValue(key)
        if isinstance(found.value, tuple | list):
            return found.value[index] if index < len(found.value) else 0
        return found.value

    def _has_key(self, key: str) -> bool:
        return self._contents.value(self._full(key)) is not None

    def _is_array(self, key: str) -> bool:
        found = self._contents.value(self._full(key))
        return found is not None and found.label.startswith("arr")

    def _length(self, key: str) -> int:
        return self._value(key).length

    def _dimension(self, name: str, axis: int) -> int:
        ne = self._contents.ne(name)
        if ne is None:
            raise UnknownValue(name)
        return ne[axis] if axis < len(ne) else 1

    # --- what is asked ---

    def evaluate(self, expression: Expression, loops: Iterable[Loop] = ()) -> Any:
        """Return the value of an expression inside loops, `UnknownValue` (the class) if it is not known.

        An expression without the variable of a loop is evaluated once.
        """
        varying = any(loop.variable in expression.names for loop in loops)
        if not varying and expression in self._constant:
            return self._constant[expression]
        try:
            value = expression(self)
        except UnknownValue:
            value = UnknownValue
        if not varying:
            self._constant[expression] = value
        return value

    def passes(self, loops: Sequence[Loop]) -> Iterator[int | None]:
        """Yield the passes of loops, while whose variables are set; each gives the value of the first variable.

        :raises UnknownValue: if it is not known how many there are, or there are more than any model has
        """
        if not loops:
            yield None
            return
        ranges = [range(max(0, int(first(self))), min(int(end(self)), 2 * MAX_LAYERS)) for _, first, end in loops]
        if prod(map(len, ranges)) > _MOST_PASSES:
            raise UnknownValue
        names = [loop.variable for loop in loops]
        for values in product(*ranges):
            self.variables.update(zip(names, values, strict=True))
            yield values[0]
        for name in names:
            self.variables.pop(name, None)

    def tensors(self) -> Iterator[Demand]:
        """Yield the tensors that the loader asks for, or takes if they are there, in its order.

        While the caller has one, `flags` and `shapes` of it can be asked.
        """
        for row in self.architecture.rows:
            try:
                for layer in self.passes(row.loops):
                    certain = self.evaluate(row.guard, row.loops)
                    if certain is UnknownValue or certain:
                        yield Demand(self._named(row), certain is not UnknownValue, row, layer)
            except UnknownValue:
                self.variables.clear()

    def _named(self, row: TensorRow) -> str:
        parts = row.parts
        return "".join(part if place % 2 == 0 else str(compiled(part)(self)) for place, part in enumerate(parts))

    @property
    def uncertain_names(self) -> list[re.Pattern[str]]:
        """Patterns of names that rows may make whose loops or names are not known."""
        found = []
        for row in self.architecture.rows:
            try:
                for _ in self.passes(row.loops):
                    self._named(row)
            except UnknownValue:
                self.variables.clear()
                found.append(re.compile(row.pattern))
        return found

    def flags(self, demand: Demand) -> int | None:
        """Return the flags with which the loader treats a tensor; None if that is not known."""
        value = self.evaluate(demand.row.flags, demand.row.loops)
        return None if value is UnknownValue else int(value)

    def shapes(self, demand: Demand) -> list[tuple[int, ...]]:
        """Return the shapes that the loader takes, in ggml's order; none if they are not known."""
        row, shapes = demand.row, []
        for expression in (row.shapes, *row.others):
            value = self.evaluate(expression, row.loops)
            if value is UnknownValue:
                return []
            shapes.append(tuple(map(int, value)))
        return shapes

    def keys_read(self) -> Iterator[KeyRow]:
        """Yield the keys that the loader reads in this file."""
        for key in self.architecture.keys:
            guard = self.evaluate(key.guard)
            if guard is not UnknownValue and guard:
                yield key

    def broken(self) -> Iterator[LoaderCondition]:
        """Yield the conditions that do not hold; each once. A number of layers beyond the most that any loader
        supports is one.
        """
        for condition in self.architecture.conditions:
            try:
                for _ in self.passes(condition.loops):
                    asked = self.evaluate(condition.guard, condition.loops)
                    if asked is UnknownValue or not asked:
                        continue
                    holds = self.evaluate(condition.holds, condition.loops)
                    if holds is not UnknownValue and not holds:
                        yield condition
                        break
            except UnknownValue:
                pass
            self.variables.clear()

    def broken_in_graph(self, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[str]:
        """Yield the conditions of the model's graph that are violated, in words: rotated dimensions come in pairs and are at
        most as many as a head has; attn_q has the rows of all heads, or, with a gate, twice as many.

        :param shapes: names and shapes, in ggml's order, of tensors
        """
        for rotated, width in (("n_rot_full", "n_embd_head_k_full"), ("n_rot_swa", "n_embd_head_k_swa")):
            odd = self.evaluate(compiled(f"{rotated}%2!=0 or {rotated}>{width}"))
            if odd is not UnknownValue and odd:
                yield "the number of rotated dimensions is even and at most the width of a head"
                return
        if any(key.name == f"{self._prefix}attention.kv_lora_rank" for key in self.architecture.keys):
            return  # latent attention: what is cached has another width than the heads of attn_q
        for name, ne in shapes:
            found = _QUERY.fullmatch(name)
            if found is None or len(ne) != 2 or (layer := int(found[1])) >= 2 * MAX_LAYERS:
                continue
            width = f"n_head_arr[{layer}]*(n_embd_head_k_swa if is_swa_impl[{layer}] else n_embd_head_k_full)"
            rows = self.evaluate(compiled(width))
            if rows is not UnknownValue and rows and ne[1] not in (rows, 2 * rows):
                yield f"{name} has the rows of all heads, {rows:,},"
                return


def takes(key: KeyRow, value: KeyContents) -> bool:
    """Whether the loader takes a value of this type for a key."""
    if not key.type or key.form == "length":
        return True
    array, element = value.label.startswith("arr["), value.label.removeprefix("arr[").removesuffix("]")
    if array:
        if key.form == "scalar":
            return False
        return key.form == "scalar-or-ignored" or element in _LIKE.get(key.type, (key.type,))
    return key.form not in ("array",) and value.label == key.type


def types_taken(key: KeyRow) -> tuple[str, ...]:
    """Return the types that the loader takes for a key, in the usual notation, the plain one first."""
    scalar = () if key.form == "array" else (key.type,)
    elements = _LIKE.get(key.type, (key.type,))[:2] if key.form in ("array", "either") else ()
    return (*scalar, *(f"arr[{element}]" for element in elements))


#: Calls that look a key up: their name, and the key.
_LOOKED_UP: Final = re.compile(r"\b(?:DA|DR|D|KA|K)\('~?([\w.]+)'")
#: How the rest of an expression reads aloud: functions by what they compute, in this order.
_READ: Final = (
    (r"amax\(lambda \w+:\s*(.*?),\s*block_count\)", r"the greatest \1"),
    (r"\(?([\w.]+)==('\w+') if hask\('~\1'\) else [01]\)?", r"\1 is \2"),
    (r"\(?([\w.]+)([=!<>]=?[\d.]+) if hask\('~\1'\) else 1\)?", r"\1\2 where it exists"),
    (r"\(?([\w.]+)([=!<>]=?[\d.]+) if hask\('~\1'\) else 0\)?", r"\1\2"),
    (r"\bnot hask\('~?([\w.]+)'\)", r"\1 is missing"),
    (r"hask\('~?([\w.]+)'\)", r"\1 exists"),
    (r"isarr\('~?([\w.]+)'\)", r"\1 is an array"),
    (r"klen\('~?([\w.]+)'\)", r"the length of \1"),
    (r"\bnot has\(f?['\"]([^'\"]+)['\"]\)", r"\1 is missing"),
    (r"\bhas\(f?['\"]([^'\"]+)['\"]\)", r"\1 exists"),
    (r"\bne\(f?'([^']+)',\s*(\d)\)", r"dimension \2 of \1"),
    (r"\A1 if (.*) else ([^()]* is '\w+')\Z", r"\1 or \2"),
    (r"\s*(==|<=|>=|!=|//|[<>%])\s*", r" \1 "),
    (r"\Anot \(([\w.*+]+) == ([\w.*+]+)\)\Z", r"\1 != \2"),
    (r"\Anot \(([\w.*+]+) != ([\w.*+]+)\)\Z", r"\1 == \2"),
    (r"\Anot \(([\w.*+]+) <= ([\w.*+]+)\)\Z", r"\1 > \2"),
    (r"\Anot \(([\w.*+]+) >= ([\w.*+]+)\)\Z", r"\1 < \2"),
    (r"\Anot \(([\w.*+]+) < ([\w.*+]+)\)\Z", r"\1 >= \2"),
    (r"\Anot \(([\w.*+]+) > ([\w.*+]+)\)\Z", r"\1 <= \2"),
)


def in_words(text: str, defaults: bool = False) -> str:
    """Return an expression with the names of keys in place of the calls that look them up.

    :param defaults: say what counts where a key is missing, unless it is a number

    >>> in_words("D('~expert_group_count',0)<D('~expert_count',0)")
    'expert_group_count < expert_count'
    >>> in_words("amax(lambda i:DA('~expert_used_count',i,0),K('~block_count'))<=D('~expert_count',0)")
    'the greatest expert_used_count <= expert_count'
    >>> in_words("D('~attention.key_length',K('~embedding_length')//DA('~attention.head_count',0,0))", defaults=True)
    '(attention.key_length, or else embedding_length // attention.head_count)'
    """
    text = _with_keys(text, defaults)
    for pattern, instead in _READ:
        text = re.sub(pattern, instead, text)
    return text


def _with_keys(text: str, defaults: bool) -> str:
    """Return a text with keys in place of the calls that look them up, whatever is nested in these."""
    while found := _LOOKED_UP.search(text):
        first = last = found.end()
        depth = 1
        for end in range(found.end(), len(text)):
            depth += (text[end] in "([") - (text[end] in ")]")
            if depth == 1 and text[end] == ",":
                last = end + 1
            if depth == 0:
                break
        default = text[last:end].strip() if last > first else ""
        calls = found[0].startswith("D") and defaults and not re.fullmatch(r"[\d.]*|U", default)
        key = f"({found[1]}, or else {_with_keys(default, defaults)})" if calls else found[1]
        text = text[: found.start()] + key + text[end + 1 :]
    return text
