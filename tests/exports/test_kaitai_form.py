"""The Kaitai definition has none of the constructs that the compiler accepts and a target then reads wrongly, or not at all.

These constructs were found by running parsers in nine languages; the module of the export says what each did.
`python tests/peers exports` runs them again where compiler and runtime are at hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from i2s_spec.exports import export
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.types import I2_S

yaml = pytest.importorskip("yaml")

#: Words that are reserved in C++, Go, Java, JavaScript, Lua, PHP, Python, Ruby or Rust, or that their generated code uses.
_WORDS = """
abstract alignas alignof and array as asm assert async auto await begin bool boolean box break byte callable case
catch chan char class clone const constexpr continue crate debugger declare decltype def default defer del delete die
do double dyn echo elif else elseif empty end endif endwhile ensure enum eval except exit explicit export extends
extern fallthrough false final finally float fn fnmatch for foreach from func function global go goto hash if impl
implements import in include inline instanceof int interface is isset lambda let list local long loop map match method
mod module move mut mutable namespace native new next nil noexcept none nonlocal not null nullptr object operator or
override package pass print private protected pub public raise range redo ref register repeat rescue resource retry
return select self send short signed size sizeof static strictfp string struct super switch template then this throw
throws trait transient true try type typedef typeof undef union unless unset unsigned unsized until use using var
virtual void volatile when where while with xor yield
"""
RESERVED = frozenset(_WORDS.split())

#: Types that need an order of bytes.
WIDE = re.compile(r"[us][248]|f[48]")
_ARITHMETIC = re.compile(r"[-+*/&|^]|<<|>>")


class Definition:
    """The parsed definition: its types with their attributes."""

    def __init__(self, text: str) -> None:
        self.root = yaml.safe_load(text)
        self.types: dict[str, dict[str, Any]] = self.root["types"]

    def attributes(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Type, section and declaration of everything with a name; an instance's has it as `id`."""
        for name, each in [("", self.root), *self.types.items()]:
            for section in ("params", "seq"):
                for attribute in each.get(section, []):
                    yield name, section, attribute
            for instance, attribute in each.get("instances", {}).items():
                yield name, "instances", {"id": instance, **attribute}


def faults(text: str) -> list[str]:
    """Every forbidden construct of a definition, with the place."""
    definition = Definition(text)
    found = []
    if definition.root["meta"]["endian"] not in ("le", "be"):
        found.append("the outermost type decides its own order")
    found += [f"reserved: {name}" for name in definition.types if name in RESERVED]
    for name, section, each in definition.attributes():
        place = f"{name}.{each['id']}"
        found += [f"{fault}: {place}" for fault in _attribute_faults(definition, name, section, each)]
    return found


def _attribute_faults(definition: Definition, name: str, section: str, each: dict[str, Any]) -> Iterator[str]:
    kind, inside = each.get("type"), definition.types.get(name, {})
    if each["id"] in RESERVED:
        yield "reserved"
    if isinstance(kind, dict):
        yield "a type chosen by switch-on"
    elif kind in ("f4", "f8") or (
        section != "params" and name and WIDE.fullmatch(kind or "") and not _own_order(inside)
    ):
        yield "a number without an order of its own"
    elif section != "params" and WIDE.fullmatch(kind or "") and name and not inside.get("seq"):
        yield "an order without a sequence"
    if "enum" in each:
        yield "an enum on a field"
    if "value" in each and "if" in each:
        yield "a value with a condition"
    if kind in ("u8", "s8") and section == "seq" and each.get("valid", {}).get("min") != 0:
        yield "64 bits without a least value"
    yield from _expression_faults(section, each)
    if section == "seq" and "size" in each:
        yield from _length_faults(definition, name, str(each["size"]))
    if "repeat-expr" in each:
        yield from _length_faults(definition, name, str(each["repeat-expr"]))


def _own_order(each: dict[str, Any]) -> bool:
    order = each.get("meta", {}).get("endian")
    return isinstance(order, dict) and order["switch-on"] == "_root.order_mark"


def _expression_faults(section: str, each: dict[str, Any]) -> Iterator[str]:
    for key in ("value", "size", "pos", "repeat-expr", "if", "type"):
        text = str(each.get(key, ""))
        if any(int(number) >= 1 << 31 for number in re.findall(r"\b\d+\b", text)):
            yield "a literal from 2^31 on"
        if re.search(r"\]\s*\[", text):
            yield "an index of a literal list"
        if "%" in text:
            yield "a remainder"
        if section == "instances" and "_io.pos" in text:
            yield "a position in an instance"
        if "_io.pos" in text and "_io.pos.as<" not in text:
            yield "a position without a cast"
        if re.search(r"_index(?!\.as<)", text):
            yield "an index without a cast"
        if key in ("size", "pos", "repeat-expr") and _ARITHMETIC.search(text) and not re.search(r"\.as<u\d>$", text):
            yield "an operator without a cast"
        if key == "type" and any(
            _ARITHMETIC.search(part) and ".as<" not in part for part in re.findall(r"\((.*)\)", text)
        ):
            yield "an operator without a cast in an argument"
    value = str(each.get("value", ""))
    if re.search(r"[-+*/] ", value.replace("1.0 *", "")) and not re.search(r"\.as<\w+>|[<>=]=?|\d\.0|magnitude", value):
        yield "an operator without a cast"


def _length_faults(definition: Definition, name: str, length: str) -> Iterator[str]:
    """A length is a literal, a checked field, or made of the shape of a tensor that fits, or of what the file has."""
    if length.isdigit() or "_root.beyond" in length or re.search(r"\b(rows|cols)\b", length):
        return
    *path, field = length.split(".")
    owner = definition.types[path[0] if path else name]
    bounds = next((each.get("valid", {}) for each in owner["seq"] if each["id"] == field), {})
    if bounds.get("max") not in ("_root.file_size", 4):
        yield "a length without a bound"


def test_no_forbidden_construct() -> None:
    assert faults(export("ksy")) == []


def test_every_type_with_codes_is_a_tensor_that_the_file_bounds() -> None:
    info = Definition(export("ksy")).types["tensor_info"]["instances"]
    for name in (I2_S.name.replace("_", ""), *GROUP_LAYOUTS):
        assert info[name.lower()]["size"].startswith("(fits ? ")
        assert info[name.lower()]["pos"] == "start"


@pytest.mark.parametrize(
    ("sound", "broken", "fault"),
    [
        ("endian: le #", "endian: {switch-on: order_mark, cases: {0: be, _: le}} #", "the outermost type"),
        ("- id: kind\n        type: s4", "- id: type\n        type: s4", "reserved"),
        ("type: f4le", "type: f4", "a number without an order"),
        (
            "        valid:\n          min: 0\n          max: _root.file_size\n      - id: text",
            "      - id: text",
            "least",
        ),
        ("type: s4\n", "type: s4\n        enum: tensor_type\n", "an enum on a field"),
        ("_index.as<u8>", "_index", "an index without a cast"),
        ("type: position(_io.pos.as<u8>)", "type: position(_io.pos)", "a position without a cast"),
        ("value: _io.size.as<u8>", "value: _io.pos.as<u8>", "a position in an instance"),
        ("/ 4).as<u8>", "/ 4)", "an operator without a cast"),
        ("33554432.0", "4294967296", "a literal from 2^31 on"),
        ("(held >> place) & 3", "(held >> place) % 4", "a remainder"),
        ("repeat-expr: count", "repeat-expr: kind", "a length without a bound"),
    ],
)
def test_a_forbidden_construct_is_found(sound: str, broken: str, fault: str) -> None:
    text = export("ksy")
    assert sound in text
    found = faults(text.replace(sound, broken))
    assert any(fault in each for each in found), found
