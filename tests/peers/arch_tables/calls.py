"""The functions that a loader calls, by name: those that ask something of a file, those that ask nothing, and those of the
sources, which are executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from peers.arch_tables.syntax import (
    Braces,
    Call,
    Expression,
    Lambda,
    Member,
    Name,
    Null,
    Number,
    Text,
)
from peers.arch_tables.values import (
    INDEX,
    ONE,
    ZERO,
    Element,
    Greatest,
    HasKey,
    IsArray,
    Joined,
    Key,
    KeyId,
    Length,
    Reference,
    Strings,
    Tensor,
    TensorId,
    TensorNamer,
    Unknown,
    both,
    conditional,
    negation,
    operation,
    truth,
)

if TYPE_CHECKING:
    from peers.arch_tables.loader import Loader

#: What hyperparameters are members of.
HYPER: Final = "hparams."

#: Functions that ask nothing of a file.
_SILENT: Final = ("llama_model_rope_type", "llm_ffn_op_type_from_string", "GGML_UNUSED", "format", "printf")
_CONTAINER: Final = ("resize", "insert", "emplace_back", "push_back", "reserve", "clear", "emplace")

#: Functions whose result is their argument.
_CONVERSIONS: Final = (
    "static_cast", "const_cast", "int", "int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "bool", "float", "double",
    "std::string", "(std::string)", "std::to_string", "llm_kv",
)  # fmt: skip

#: Files whose functions are called only by names that `Calls` knows.
_OTHER_FILES: Final = ("llama-model.cpp", "llama-arch.cpp")

#: Types of C++ as the table has them; "?" is any other.
_KEY_TYPES: Final = {
    "uint32_t": "u32", "int32_t": "i32", "int": "i32", "float": "f32", "bool": "bool", "string": "str", "uint64_t": "u64",
    "llama_token": "i32",
}  # fmt: skip


class NotUnderstoodError(Exception):
    """A statement or expression that the run does not know."""


class Calls:
    """The functions that a loader calls, by name; those of the sources are executed."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def value(self, function: Expression, arguments: tuple[Expression, ...]) -> Expression:
        """The value of a call."""
        owner = function.owner if isinstance(function, Member) else None
        name = function.name if isinstance(function, Name | Member) else "?"
        if name.startswith("LLAMA_LOG") or name in _SILENT or name in _CONTAINER:
            return ZERO
        if owner is not None:
            found = self._method(owner, name, arguments)
            if found is not None:
                return found
        found = self._function(name, arguments)
        if found is not None:
            return found
        known = self._loader.variable(name) if isinstance(function, Name) else None
        if isinstance(known, TensorNamer):
            return self._tensor_name(arguments)
        if isinstance(known, Lambda):
            given = [self._argument(each) for each in arguments]
            return self._loader.execute(f"lambda {name}", known.parameters, known.body, given)
        return self._of_the_sources(name, arguments, isinstance(function, Name))

    def _evaluated(self, arguments: Iterable[Expression]) -> list[Expression]:
        return [self._loader.evaluate(each) for each in arguments]

    def _argument(self, argument: Expression) -> Expression:
        """An argument; a reference is passed as such."""
        known = self._loader.variable(argument.name) if isinstance(argument, Name) else None
        return known if isinstance(known, Reference) else self._loader.evaluate(argument)

    def _method(self, owner: Expression, name: str, arguments: tuple[Expression, ...]) -> Expression | None:
        """The value of a method that is known, else None."""
        match name:
            case "get_key" | "get_key_or_arr" | "get_arr" | "get_arr_n":
                return self._key(name, arguments)
            case "get_weight" | "get_tensor_meta" | "require_tensor_meta":
                given = self._loader.evaluate(arguments[0])
                given = Joined((given.value,)) if isinstance(given, Text) else given
                return Tensor(given) if isinstance(given, Joined) else Unknown(name)
            case "str" | "c_str" | "name":
                return self._loader.evaluate(owner)
            case "empty" | "size":
                strings = self._loader.evaluate(owner)
                if isinstance(strings, Strings):
                    return negation(HasKey(strings.key)) if name == "empty" else Length(strings.key)
        return None

    def _function(self, name: str, arguments: tuple[Expression, ...]) -> Expression | None:
        """The value of a function or method that is known by its name alone, else None."""
        loader = self._loader
        match name:
            case "GGML_ASSERT" | "assert":
                loader.refuse(truth(loader.evaluate(arguments[0])), "assert")
                return ZERO
            case "GGML_ABORT":
                loader.refuse(ZERO, "abort")
                return ZERO
            case "get_arch":
                return loader.evaluate(Name("arch"))
            case "n_tokens":
                return Name("n_vocab")
            case "n_token_types":
                return Name("n_token_types")
            case "tn":
                return self._tensor_name(arguments)
            case "create_tensor":
                return self._tensor(arguments)
            case "std::max" | "std::min":
                return self._limit(name.removeprefix("std::"), *self._evaluated(arguments[:2]))
            case "std::fill":
                return self._fill(arguments)
            case "llama_rope_scaling_type_from_string":
                return self._rope_scaling(loader.evaluate(arguments[0]))
            case "n_expert_used_max":
                return self._greatest("hparams.n_expert_used_arr[]")
            case "is_swa_any":
                return self._greatest("hparams.is_swa_impl[]")
        if name in _CONVERSIONS:
            return loader.evaluate(arguments[0]) if arguments else Text("")
        return None

    def _of_the_sources(self, name: str, arguments: tuple[Expression, ...], plain: bool) -> Expression:
        """The value of a function that is executed; of others nothing is known."""
        if name == "load_arch_hparams":
            return self._loader.call_function(self._loader.hyperparameters, [ZERO])
        functions = self._loader.sources.functions
        for full in (f"llama_hparams::{name}", f"llama_model_base::{name}", name):
            function = functions.get(full)
            if function is None:
                continue
            own = plain and "::" not in name and function.file not in _OTHER_FILES
            if full == name and not (name.startswith(("llm_arch", "load_swa")) or own):
                continue
            given = [
                self._passed(parameter, argument, full == name)
                for parameter, argument in zip(function.parameters, arguments, strict=False)
            ]
            return self._loader.call_function(full, given)
        self._evaluated(arguments)
        return Unknown(f"call {name}")

    def _passed(self, parameter: str, argument: Expression, free: bool) -> Expression:
        """An argument of a function; hyperparameters are passed to free functions by reference."""
        if parameter in ("ml", "tn"):
            return ZERO
        if free and isinstance(argument, Member):
            try:
                place, index = self._loader.place(argument)
            except NotUnderstoodError:
                pass
            else:
                if place.startswith(HYPER):
                    return Reference(place, index)
        return self._argument(argument)

    # The functions.

    @staticmethod
    def _limit(name: str, left: Expression, right: Expression) -> Expression:
        if isinstance(left, Number) and isinstance(right, Number):
            return Number((max if name == "max" else min)(left.value, right.value))
        return Call(Name(name), (left, right))

    def _fill(self, arguments: tuple[Expression, ...]) -> Expression:
        """`std::fill(array.begin(), array.end(), value)`."""
        match arguments:
            case (Call(Member(array, _)), _, value):
                place, _ = self._loader.place(array)
                self._loader.write_array(place, self._loader.evaluate(value))
                return ZERO
        return Unknown("fill")

    def _rope_scaling(self, text: Expression) -> Expression:
        sources = self._loader.sources
        found: Expression = Number(sources.constants.get("LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED", -1))
        for constant, name in reversed(sources.rope_scalings):
            found = conditional(operation("==", text, Text(name)), Number(sources.constants[constant]), found)
        return found

    def _greatest(self, place: str) -> Expression:
        """The greatest element of an array with an element for each layer."""
        each = self._loader.read(place, INDEX) if self._loader.is_set(place) else Unknown(place)
        if isinstance(each, Number):
            return each
        return Greatest(each, self._loader.read("hparams.n_layer_all", None))

    def _tensor_name(self, arguments: tuple[Expression, ...]) -> Expression:
        """`tn(TENSOR, suffix, layer)`: a pattern with layers in the place of its `%d`."""
        tensor, *rest = self._evaluated(arguments)
        pattern = self._loader.sources.tensors.get(tensor.name) if isinstance(tensor, TensorId) else None
        if pattern is None:
            return Unknown("tn")
        suffix = ""
        match rest:
            case [Text(text), *rest]:
                suffix = f".{text}"
            case [Null(), *rest]:
                pass
        found: list[str | Expression] = []
        for i, part in enumerate(pattern.split("%d")):
            if i:
                found.append(rest[i - 1] if i <= len(rest) else Unknown("layer"))
            found += [part] if part else []
        return Joined((*found, suffix) if suffix else tuple(found))

    def _tensor(self, arguments: tuple[Expression, ...]) -> Expression:
        """`create_tensor(name, shape, flags)`, also with a buffer type before."""
        if len(arguments) == 4:
            arguments = arguments[1:]
        name, shape, *rest = self._evaluated(arguments)
        flags = rest[0] if rest else ZERO
        if isinstance(name, Text):
            name = Joined((name.value,))
        if not isinstance(name, Joined):
            self._loader.note("tensor name not resolved")
            return Unknown("tensor")
        lengths = list(shape.items) if isinstance(shape, Braces) else [Unknown("shape")]
        while len(lengths) > 1 and lengths[-1] == ONE:
            lengths.pop()
        self._loader.ask_tensor(name, tuple(lengths), flags)
        skip = self._loader.sources.constants.get("TENSOR_SKIP", 0)
        return Null() if isinstance(flags, Number) and int(flags.value) & skip else Tensor(name)

    def _key(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        """`get_key(KEY, variable, required)` and its like: the value is whether the key is there."""
        key = self._key_name(self._loader.evaluate(arguments[0]))
        if key is None:
            self._loader.note("key name not resolved")
            return Unknown("key")
        place, index = self._loader.place(arguments[1])
        type, array = _key_type(self._loader.type_of(place))
        rest = list(arguments[2:])
        length = None
        if name == "get_key_or_arr" and array:
            length = self._loader.evaluate(rest.pop(0)) if rest else None
        required = truth(self._loader.evaluate(rest[0])) if rest else ONE
        scalar_or_array = name == "get_key_or_arr"
        kind = {"get_key": "v", "get_arr": "a", "get_arr_n": "n"}.get(name, "va" if array else "v?")
        self._loader.ask_key(key, type, kind, required, length)
        if name == "get_arr" or (scalar_or_array and array):
            return self._array(key, place, required, scalar_or_array)
        there: Expression
        found: Expression
        if name == "get_key":
            there, found = HasKey(key), Key(key)
            if required == ONE:
                self._loader.write(place, index, found)
                return there
        elif name == "get_arr_n":
            there, found = IsArray(key), Length(key)
        else:
            there, found = both(HasKey(key), negation(IsArray(key))), Key(key)
        self._loader.write(place, index, conditional(there, found, self._loader.read(place, index)))
        return there

    def _array(self, key: str, place: str, required: Expression, or_scalar: bool) -> Expression:
        """Set an array by a key; returns whether the key is there."""
        there = HasKey(key) if or_scalar else IsArray(key)
        if not or_scalar and "vector" in self._loader.type_of(place):
            self._loader.write(place, None, Strings(key))
            return there
        element = Element(key, INDEX, array_only=not or_scalar)
        old = self._loader.array_element(place)
        always = or_scalar and required == ONE
        self._loader.write_array(place, element if always else conditional(there, element, old))
        return there

    def _key_name(self, value: Expression) -> str | None:
        if isinstance(value, KeyId):
            return self._loader.sources.keys.get(value.name, value.name)
        return value.value if isinstance(value, Text) else None


def _key_type(declared: str) -> tuple[str, bool]:
    """The type of a variable as a type of keys, and whether it is an array."""
    array = "array" in declared or "vector" in declared
    bare = re.sub(r".*<\s*(?:std::)?([\w:]+)\s*[,>].*", r"\1", declared) if array else declared
    bare = re.sub(r"\b(?:const|std::)\s*|[ &*]|std::", "", bare)
    return _KEY_TYPES.get(bare, "u32" if "pooling" in bare or "enum" in bare else "?"), array
