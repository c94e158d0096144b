"""A page for each architecture that llama.cpp loads: what its loader asks of a file and what it refuses; and an index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from i2s_site.runtimes import table
from i2s_spec.convert.smallest import ChosenSizes, plan
from i2s_spec.errors import counted
from i2s_spec.schema import llama_cpp
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.expressions import Expression, ExpressionScope, UnknownValue
from i2s_spec.schema.llama_cpp import KeyRow, LoaderArchitecture, Loop, TensorRow, in_words

_TABLE: Final = llama_cpp.table()

#: Two questions of loaders whose answer is the same in every file, as conditions hold them, and a third that follows.
_SETTLED: Final = (
    (re.compile(r"\(\(n_layer_nextn>0 and not has\(f'[^']*'\)\)\|4\)&4"), "1"),
    (re.compile(r"\(n_layer_nextn>0 and not has\('[^']*'\)\)&4"), "0"),
    (re.compile(r"1 if i(?:>=|<)n_layer else 0|0 if i(?:>=|<)n_layer else 1"), "i>=n_layer"),
    (re.compile(r" and (?:not 0|1)\b|^(?:not 0|1)$"), ""),
)
_NEVER: Final = re.compile(r"(?:.* and )?(?:0|not 1)")

#: Sections that the search leaves out: it finds the pages by their titles.
_UNSEARCHED: Final = "{ data-search-exclude }"

_LAYERS: Final = {0: "in the first layer", 1: "in later layers", 2: "in next-token layers"}


class _CompleteFile(ExpressionScope):
    """A file with two layers and one that predicts the token after the next, in which no tensor is missing."""

    def name(self, name: str) -> int:
        return {"n_layer": 2, "n_layer_nextn": 1}[name]

    def function(self, name: str) -> Callable[..., Any]:
        return {"has": lambda tensor: 1}[name]


def pages() -> dict[str, str]:
    """Return the pages by their paths."""
    names = sorted(_TABLE.names)
    return {"architectures/index.md": _index(names), **{f"architectures/{name}.md": _page(name) for name in names}}


def _index(names: list[str]) -> str:
    """Return the page that lists them: how many rows each has, and how the table was made and tried."""
    head = ["architecture", "source", "keys", "tensors", "required", "conditions", "not resolved"]
    rows, not_resolved = [], 0
    for name in names:
        found = _architecture(name)
        asked = list(_asked(found))
        required = {row.name for row in asked if _need(row.flags, bool(row.loops)).startswith("required")}
        left = sum(map(_is_open, found.rows))
        not_resolved += left
        rows.append([
            f"[`{name}`]({name}.md)", found.file, str(len({key.name for key in found.keys})),
            str(len({row.name for row in asked})), str(len(required)), str(len(found.conditions)), str(left or ""),
        ])  # fmt: skip
    everything = sum(len(_architecture(name).rows) for name in names)
    named = ", ".join(f"`{name}`" for name in sorted(_TABLE.named_only))
    return f"""# Architectures that llama.cpp loads

{len(names)} values of `general.architecture`, each with a page: the keys and tensors that llama.cpp's loader requires or
takes, with types and shapes, and the conditions under which it refuses a file. `i2s lint` checks every file against them
([M001](../rules/M001.md) to [M023](../rules/M023.md), [M101](../rules/M101.md) to [M106](../rules/M106.md)), and
`i2s new --arch NAME` writes the smallest file that has what is asked. What is declared in more detail, of ternary models,
is in [chapter 4](../04-inventories.md), and is laid over the table. The loader knows {named} by name too, and loads
no model of it.

## How the table was made

A script read it from the sources of {_TABLE.source} at commit `{_TABLE.commit[:12]}` of {_TABLE.date}
(`tests/peers/arch_tables`): it runs the functions that load hyperparameters and tensors, with symbols in place of numbers.
{not_resolved} of {everything:,} rows of tensors have something that it could not resolve; nothing is said about them,
neither here nor by `i2s lint`. Loaders change: findings become warnings once the table is older than a year.

The judge was libllama itself. Files that the table finds sound were loaded and computed, among them the smallest of each
architecture (`tests/convert/test_smallest.py`), and copies of them with a tensor, a key or a number changed were loaded
(`tests/peers`). Not in the table is what only the graph needs, what a vocabulary holds, and what other programs ask, such
as those of projectors.

## All of them

Tensors are counted by their names, in which `{{i}}` is the number of a layer.

{table(head, rows)}"""


def _page(name: str) -> str:
    """Return the page of an architecture."""
    found = _architecture(name)
    path = f"src/models/{found.file}"
    source = f"[`{path}`](https://github.com/{_TABLE.source}/blob/{_TABLE.commit}/{path})"
    declared = ""
    if name in ARCHITECTURES:
        declared = " What forks and converters of ternary models add is in [chapter 4](../04-inventories.md)."
    parts = [
        f"# {name}",
        "",
        f"What llama.cpp's loader asks of a file with `general.architecture` = `{name}`, read by a script from",
        f"{source} at commit `{_TABLE.commit[:7]}` of {_TABLE.date} ([how](index.md#how-the-table-was-made)).{declared}",
        _smallest(name),
        "",
        "Expressions have the form of Python. Keys without `{arch}.` stand for their values, in arrays for the layer's;",
        "`exists` and `is missing` are said of keys and tensors. Shapes are in ggml's order, the fastest dimension first.",
        "",
        f"## Keys {_UNSEARCHED}",
        "",
        table(["key", "type", "need", "when"], [_key_row(name, key) for key in found.keys]),
        f"## Tensors {_UNSEARCHED}",
        "",
        table(["tensor", "ne", "need", "when", "used by"], [_tensor_row(row) for row in _asked(found)]),
        "The operation of ggml that uses a weight limits its type: MUL, ADD, ROPE, SSM_CONV and SCALE take F32; MUL_MAT,",
        "MUL_MAT_ID and GET_ROWS take floats and quantized types, but not F64, I8, I16, I64, Q8_1 or Q8_K.",
        "",
        *_sizes(found),
        f"## Conditions {_UNSEARCHED}",
        "",
        "The file is refused unless all of these hold; what is marked is looked at when the first token is computed.",
        "",
        *_conditions(found),
        "",
        *_open(found),
    ]
    return "\n".join(parts)


@cache
def _architecture(name: str) -> LoaderArchitecture:
    found = _TABLE.architecture(name)
    assert found is not None, name
    return found


def _smallest(name: str) -> str:
    """How to get a file, as a sentence."""
    if name not in ARCHITECTURES:
        try:
            plan(name, ChosenSizes())
        except ValueError as error:
            return f"`i2s new` writes no such file: {error}."
    return f"`i2s new model.gguf --arch {name}` writes a small one."


# --- rows ------------------------------------------------------------------------------------------------------------


def _code(words: str) -> str:
    return f"`{words}`" if words else ""


def _when(expression: Expression) -> str:
    """Return a condition, empty if it always holds."""
    text = expression.text
    for settled, instead in _SETTLED:
        text = settled.sub(instead, text)
    return _code(in_words(text)) if text != "U" else "not resolved"


def _asked(found: LoaderArchitecture) -> Iterator[TensorRow]:
    """Yield the rows of tensors without those that no file meets."""
    for row in found.rows:
        text = row.guard.text
        for settled, instead in _SETTLED[:3]:
            text = settled.sub(instead, text)
        if not _NEVER.fullmatch(text):
            yield row


def _key_row(name: str, key: KeyRow) -> list[str]:
    forms = {"scalar": "{0}", "array": "array of {0}", "either": "{0}, or array of {0}", "length": "array",
             "scalar-or-ignored": "{0}; arrays are ignored"}  # fmt: skip
    kind = forms[key.form].format(key.type or "any type")
    if key.length is not None:
        kind += f" with {_code(in_words(key.length.text))} elements"
    required = key.required.text
    need = {"0": "optional", "1": "required"}.get(required, f"required where {_code(in_words(required))}")
    return [_code(key.name.replace(f"{name}.", "{arch}.", 1)), kind, need, _when(key.guard)]


def _tensor_row(row: TensorRow) -> list[str]:
    shapes = " or ".join(_code(_shape(each)) for each in (row.shapes, *row.others))
    operation = _TABLE.operation(row.name.replace("{i}", "0")) or ""
    loops = "; ".join(map(_loop, row.loops if _unusual(row.loops) else ()))
    when = "; ".join(filter(None, (loops, _when(row.guard))))
    return [_code(row.name), shapes, _need(row.flags, bool(row.loops)), when, operation]


def _shape(shape: Expression) -> str:
    inner = shape.text.strip()[1:-1].rstrip(",")
    return "not resolved" if "U" in shape.names else ", ".join(_split(inner))


def _split(text: str) -> Iterator[str]:
    """Yield the parts of a text between the commas that are in no brackets."""
    depth, part = 0, ""
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and not depth:
            yield in_words(part)
            part = ""
        else:
            part += char
    yield in_words(part)


def _unusual(loops: tuple[Loop, ...]) -> bool:
    """Whether loops are other than one over all layers."""
    return [(loop.first.text, loop.end.text) for loop in loops] not in ([], [("0", "n_layer")], [("0", "n_layer_all")])


def _loop(loop: Loop) -> str:
    if (loop.first.text, loop.end.text) == ("n_layer", "n_layer_all"):
        return _LAYERS[2]
    return f"`{loop.variable}` from `{in_words(loop.first.text)}` to below `{in_words(loop.end.text)}`"


def _need(flags: Expression, in_layers: bool) -> str:
    """Describe what the loader does with a tensor of a complete file."""
    scope = _CompleteFile()
    found: dict[int, str] = {}
    for layer in _LAYERS if in_layers else (0,):
        scope.variables = {"i": layer}
        try:
            found[layer] = _need_of(int(flags(scope)))
        except UnknownValue:
            return "not resolved" if flags.text == "U" else f"depends on `{in_words(flags.text)}`"
    if len(set(found.values())) == 1 or "i" not in flags.names:
        return found[0]
    if found[0] == found[1]:
        return f"{found[0]}; {_LAYERS[2]} {found[2]}"
    return "; ".join(f"{_LAYERS[layer]} {need}" for layer, need in found.items() if layer < 2 or need != found[1])


def _need_of(flags: int) -> str:
    if flags & llama_cpp.AGAIN:
        return "stored once, used again"
    parts = ["optional" if flags & llama_cpp.OPTIONAL else "required"]
    if flags & llama_cpp.SKIPPED:
        parts.append("not loaded by default")
    if flags & llama_cpp.ELEMENTS_ONLY:
        parts.append("any shape of as many elements")
    return ", ".join(parts)


# --- below the tables ------------------------------------------------------------------------------------------------


def _sizes(found: LoaderArchitecture) -> list[str]:
    """Return the meanings of the names in the expressions."""
    texts = [row.shapes.text + row.guard.text + row.flags.text for row in found.rows]
    texts += [each.holds.text + each.guard.text for each in found.conditions]
    todo, rows, seen = list(texts), [], set[str]()
    while todo:
        for name in set(re.findall(r"[a-z_]\w*(?:\.\w+)?", todo.pop())) - seen:
            seen.add(name)
            for definition in (name, f"{name}[]"):
                text = found.definitions.get(definition)
                if text is not None:
                    todo.append(text)
                    words = "not resolved" if re.search(r"\bU\b", text) else _code(in_words(text, defaults=True))
                    rows.append([_code(definition.replace("[]", "[i]")), words])
    return [f"## Names in the expressions {_UNSEARCHED}", "", table(["name", "what it stands for"], sorted(rows))]


def _conditions(found: LoaderArchitecture) -> Iterable[str]:
    words: dict[str, None] = {}
    for each in found.conditions:
        if "U" in each.holds.names | each.guard.names:
            continue
        guard = _when(each.guard)
        mark = " (at the first token)" if each.at_first_token else ""
        words[f"- {_code(in_words(each.holds.text))}{f', where {guard}' if guard else ''}{mark}"] = None
    return words


def _is_open(row: TensorRow) -> bool:
    return any("U" in each.names for each in (row.shapes, *row.others, row.flags, row.guard))


def _open(found: LoaderArchitecture) -> list[str]:
    """Return the parts that the script did not resolve."""
    rows = dict.fromkeys(row.name for row in found.rows if _is_open(row))
    conditions = sum("U" in each.holds.names | each.guard.names for each in found.conditions)
    if not rows and not conditions:
        return []
    listed = ", ".join(map(_code, rows))
    parts = [f"tensors {listed}"] if rows else []
    parts += [counted(conditions, "condition")] if conditions else []
    return [
        f"## Not resolved {_UNSEARCHED}",
        "",
        f"The script did not resolve {' and '.join(parts)}; nothing is checked there.",
        "",
    ]
