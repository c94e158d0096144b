"""What llama.cpp's loader of projectors asks of each type, read from its sources: makes `i2s_spec/schema/projectors.json`.

    python -m peers.projector_table SOURCES [COMMIT]     prints the table (run in `tests`)

SOURCES is the folder of llama.cpp, as the source package of llama-cpp-python has it in `vendor/llama.cpp`. The loader
(`tools/mtmd/clip.cpp`) is regular: one `switch` for keys, one for tensors, and one for the width of the result. Every
call in them is read with the loops and conditions around it; what is not understood is an error, never left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

#: The types that the loader's functions compare strictly.
KINDS: Final = {
    "get_u32": "u32", "get_i32": "i32", "get_f32": "f32", "get_bool": "bool", "get_string": "str",
    "get_arr_int": "arr[i32]", "get_arr_f32": "arr[f32]",
}  # fmt: skip

#: Counts of loops that the metadata give, as keys; those that the loader sets itself, as numbers.
COUNTS: Final[dict[str, Any]] = {
    "hparams.n_layer": "{m}.block_count",
    "model.n_sam_layers": "clip.vision.sam.block_count",
    "hparams.audio_local_n_layer": "clip.audio.local_block_count",
    "projector_count": "#clip.vision.feature_layer",
}

#: Names that stand for a prefix of tensors.
PREFIXES: Final = {"prefix": "{p}", "p": "a.gen.wav.tfm"}

#: Types that the loader replaces, for each kind of encoder.
REPLACED: Final = {"QWEN25O": {"vision": "QWEN25VL", "audio": "QWEN2A"}}

#: What the loader asks in another way than by a call: it tests a value or a pointer that it read as optional.
MORE: Final[dict[str, Any]] = {
    "mimo_audio": {
        "keys": {"clip.audio.rvq.num_quantizers": "u32", "clip.audio.rvq.codebook_size": "arr[i32]"},
        "tensors": ["a.rvq.codebook.weight", "mm.a.code_embd.weight"],
    },
    "parakeet": {"tensors": ["a.mel_filters", "a.window"]},
    "yasa2": {"tensors": ["v.patch_embd.weight"]},
}

#: Loops over tensors that exist, in which the loader stops at the first that is missing.
OPEN: Final = re.compile(r"int \w+ = 0; ; \+\+\w+|int \w+ = 0; ; \w+\+\+")


class Scope(NamedTuple):
    """A block of braces: what repeats it (variable, values or key), for which types it runs, and whether it is optional."""

    variable: str = ""
    values: Any = None
    types: frozenset[str] | None = None
    optional: bool = False


class UnreadError(ValueError):
    """A part of the sources that is not understood."""


def table(sources: Path, commit: str) -> dict[str, Any]:
    """The table of all types.

    :raises UnreadError: for a part of the sources that is not understood
    """
    folder = sources / "tools" / "mtmd"
    header = (folder / "clip-impl.h").read_text(encoding="utf-8")
    code = re.sub(r"//[^\n]*", "", (folder / "clip.cpp").read_text(encoding="utf-8"))
    code = re.sub(
        r"auto get_merger_tensor = .*?\n +\};", "", code, flags=re.DOTALL
    )  # is known here: it adds a condition
    constants = dict(re.findall(r'^#define\s+(\w+)\s+"([^"]*)"', header, re.MULTILINE))
    names = dict(re.findall(r"\{ *PROJECTOR_TYPE_(\w+), *\"([^\"]+)\" *\}", header))
    keys = _region(code, "switch (model.proj_type)", 0)
    tensors = _region(code, "switch (model.proj_type)", 1)
    width = _region(code, "int clip_n_mmproj_embd(const struct clip_ctx * ctx)", 0)
    found: dict[str, Any] = {
        name: {"keys": {}, "optional": {}, "tensors": [], "members": {}} for name in (*names, "MLP_NORM")
    }
    numbers = {f"hparams.{name}": int(value) for name, value in re.findall(r"hparams\.(wav_\w+) += (\d+);", keys)}
    numbers |= {"n_proj_layers": 2, "hparams.seanet_n_stage": 3, "flow.time.size()": 2}
    for types, body in _cases(keys):
        for name, key, kind, needed in _keys(body, constants, types):
            found[name]["keys" if needed else "optional"].setdefault(key, kind)
    for types, body in _cases(tensors):
        for name in types:
            _tensors(found[name], body, constants, numbers)
    for types, body in _cases(width):
        for name in types:
            found[name]["width"] = _width(body, found[name]["members"])
    other = re.findall(r"!= PROJECTOR_TYPE_(\w+)", code[code.index("has_standard_layers = (") :].partition(";")[0])
    loaded = {name for types, _ in _cases(tensors) for name in types}
    made: dict[str, Any] = {}
    for each, name in names.items():
        about = found[each]
        if each in REPLACED:
            made[name] = {"replaced": {side: names[taken] for side, taken in REPLACED[each].items()}}
            continue
        if each not in loaded:  # the loader knows the name, and then stops
            made[name] = {"refused": True}
            continue
        more = MORE.get(name, {})
        row = {"keys": about["keys"] | more.get("keys", {}), "optional": about["optional"]}
        row = {part: value for part, value in row.items() if value}
        row["tensors"] = _grouped([*about["tensors"], *({"name": tensor} for tensor in more.get("tensors", ()))])
        row |= {"width": about["width"]} if about.get("width") else {}
        row |= {"blocks": False} if each in other else {}
        made[name] = row
    return {"source": f"ggml-org/llama.cpp@{commit}:tools/mtmd/clip.cpp", "types": dict(sorted(made.items()))}


def _region(code: str, start: str, which: int) -> str:
    """The text in the braces after the occurrence of a beginning."""
    at = -1
    for _ in range(which + 1):
        at = code.index(start, at + 1)
    return _braces(code, code.index("{", at))


def _braces(code: str, at: int) -> str:
    depth = 0
    for i in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return code[at + 1 : i]
    raise UnreadError("braces that do not end")


def _cases(body: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each group of labels of a switch with its statements."""
    if body.lstrip().startswith("switch"):
        body = _braces(body, body.index("{"))
    pieces = re.split(r"((?:\s*case PROJECTOR_TYPE_\w+:)+|\s*default:)", body)
    for labels, text in zip(pieces[1::2], pieces[2::2], strict=True):
        types = tuple(re.findall(r"PROJECTOR_TYPE_(\w+)", labels))
        if types:
            yield types, text


def _text(expression: str, constants: dict[str, str], values: dict[str, str]) -> str:
    """A name or key: a constant, a text, or string_format of them."""
    expression = expression.strip()
    if not expression.startswith("string_format"):
        return constants[expression]
    first, *rest = _arguments(expression[len("string_format(") : -1])
    made = constants[first] if first in constants else values[first]
    for each in rest:
        word = each.replace("(int)", "").strip()
        value = word.strip('"') if word.startswith('"') else word if word.isdigit() else values[word]
        made = value.join(re.split(r"%[sd]", made, maxsplit=1))
    if "%" in made:
        raise UnreadError(f"{expression}: {made}")
    return made


def _arguments(text: str) -> list[str]:
    parts, depth, last = [], 0, 0
    for i, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    return [*parts, text[last:].strip()]


def _calls(body: str) -> list[tuple[str, str, list[str]]]:
    """Of each call that reads a key or a tensor: the target, the function, its arguments."""
    found = []
    for match in re.finditer(r"(?:([\w.\[\]]+)\s*=\s*)?\b(get_\w+|load_seanet)\(", body):
        at = match.end()
        depth = 1
        stop = at
        while depth:
            depth += {"(": 1, ")": -1}.get(body[stop], 0)
            stop += 1
        found.append((match[1] or "", match[2], _arguments(body[at : stop - 1])))
    return found


def _scoped(body: str) -> Iterator[tuple[tuple[Scope, ...], str]]:
    """Statements with the loops and conditions around them."""
    stack: list[Scope | None] = []
    at = 0
    head = ""
    while at < len(body):
        stop = min((i for i in (body.find(c, at) for c in ";{}") if i >= 0), default=len(body))
        opened = body.count("(", at, stop) - body.count(")", at, stop)
        while stop < len(body) and opened > 0:  # a semicolon or a brace inside parentheses
            more = min((i for i in (body.find(c, stop + 1) for c in ";{}") if i >= 0), default=len(body))
            opened += body.count("(", stop, more) - body.count(")", stop, more)
            stop = more
        head = body[at:stop].strip()
        letter = body[stop] if stop < len(body) else ""
        if letter == "{":
            stack.append(_scope(head))
        elif head:
            yield tuple(each for each in stack if each is not None), head
        if letter == "}" and stack:
            stack.pop()
        at = stop + 1


def _scope(head: str) -> Scope | None:
    """The meaning of what stands before a brace."""
    if not head or head.startswith("else"):
        return Scope(optional=True) if head else None
    inside = head[head.index("(") + 1 : head.rindex(")")] if "(" in head else ""
    if head.startswith("if"):
        types = frozenset(re.findall(r"model\.proj_type == PROJECTOR_TYPE_(\w+)", inside))
        return Scope(types=types) if types else Scope(optional=True)
    if not head.startswith("for"):
        return Scope(optional=True) if "[&]" in head else None
    if OPEN.fullmatch(inside.strip()) or (":" in inside and "{" not in inside):
        return Scope(optional=True)
    listed = re.fullmatch(r"int (\w+) : \{([\d, ]+)\}", inside)
    if listed:
        return Scope(listed[1], [int(each) for each in listed[2].split(",")])
    counted = re.fullmatch(r"(?:int|size_t) (\w+) = 0; \w+ < ([\w.()]+); (?:\+\+\w+|\w+\+\+)", inside.strip())
    if counted is None:
        raise UnreadError(head)
    return Scope(counted[1], counted[2])


def _keys(body: str, constants: dict[str, str], types: tuple[str, ...]) -> Iterator[tuple[str, str, str, bool]]:
    """Type, key, kind and need of every key that the statements of a case read."""
    flags = {name: frozenset(re.findall(r"PROJECTOR_TYPE_(\w+)", text))
             for name, text in re.findall(r"bool (\w+) = ([^;]+);", body)}  # fmt: skip
    for scopes, statement in _scoped(body):
        for _, function, arguments in _calls(statement):
            if function not in KINDS:
                raise UnreadError(statement)
            key = _text(arguments[0], constants, {})
            word = arguments[2] if len(arguments) > 2 else "true"
            for name in types:
                if any(scope.types is not None and name not in scope.types for scope in scopes):
                    continue
                if word in ("true", "false"):
                    needed = word == "true"
                else:
                    needed = name in (flags.get(word) or frozenset(re.findall(r"PROJECTOR_TYPE_(\w+)", word)))
                yield name, key, KINDS[function], needed and not any(scope.optional for scope in scopes)


def _tensors(about: dict[str, Any], body: str, constants: dict[str, str], numbers: dict[str, int]) -> None:
    """The tensors that the statements of a case require, with the loops around them."""
    for scopes, statement in _scoped(body):
        for target, function, arguments in _calls(statement):
            if function in ("get_scalar", "get_vector"):
                continue
            loops = [scope for scope in scopes if scope.variable]
            optional = any(scope.optional for scope in scopes) or "false" in arguments[1:]
            if function == "load_seanet":
                _seanet(about, arguments[1] == "true", constants)
                continue
            if function not in ("get_tensor", "get_merger_tensor"):
                raise UnreadError(statement)
            values = dict(PREFIXES) | {"il": "{i}", "bid": "{i}", "i": "{i}", "xid": "{j}", "ir": "{j}", "bi": "{j}",
                                       "s": "{i}", "stage": "{i}", "blk_idx": "{j}"}  # fmt: skip
            first = re.search(r"int bid = il \+ 1", body)
            name = _text(arguments[0], constants, values)
            about["members"][target.partition(".")[2] or target] = name
            if optional:
                continue
            counts: dict[str, Any] = {}
            for scope, letter in zip(loops, "ij", strict=False):
                count = scope.values
                if isinstance(count, str):
                    count = numbers[count] if count in numbers else COUNTS.get(count, count)
                    count = int(count) if isinstance(count, str) and count.isdigit() else count
                if isinstance(count, list):
                    counts[letter] = count
                elif isinstance(count, int):
                    counts[letter] = list(range(count))
                else:
                    counts[letter] = f"{count}+1" if first and letter == "i" else count
            row: dict[str, Any] = {"name": name}
            if counts:
                row["for"] = counts
            if function == "get_merger_tensor":
                row["if"] = ["clip.vision.projector.scale_factor", 4]
            if row not in about["tensors"]:
                about["tensors"].append(row)


def _grouped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tensors with those of the same loops and condition together, as one text of names."""
    groups: dict[str, dict[str, Any]] = {}
    for row in rows:
        rest = {name: value for name, value in row.items() if name != "name"}
        group = groups.setdefault(json.dumps(rest), {"names": "", **rest})
        group["names"] = f"{group['names']} {row['name']}".strip()
    return list(groups.values())


def _seanet(about: dict[str, Any], decoder: bool, constants: dict[str, str]) -> None:
    """The tensors that `load_seanet` reads: the same layout with two prefixes, three stages."""
    stem = "A_GEN_WAV_SEANET" if decoder else "A_SEANET"
    for part in ("CONV_IN", "CONV_OUT", "RES_CONV1", "RES_CONV2", "SCALE_CONV"):
        for what in ("weight", "bias"):
            text = constants[f"TN_{stem}_{part}"]
            name = text.replace("%d", "{i}").replace("%s", what)
            about["tensors"].append({"name": name} | ({"for": {"i": [0, 1, 2]}} if "%d" in text else {}))


def _width(body: str, members: dict[str, str]) -> list[Any] | None:
    """The tensor whose dimension is the width of the result, and which; None where it is not one dimension."""
    # Of qwen3vl the first factor: the other counts layers.
    body = re.sub(r" \* \(1 \+ ctx->model\.n_deepstack_layers\)", "", body)
    found = re.fullmatch(r"\s*return ctx->model\.(\w+(?:\[0\]\.\w+)?)->ne\[(\d)\];\s*", body)
    if found is None:
        return None
    member = found[1].replace("qf_proj_blocks[0].", "")
    return [members[member] if member in members else {"position_embeddings": "{p}.position_embd.weight"}[member],
            int(found[2])]  # fmt: skip


def main() -> None:
    """Print the table, as the file in the package has it."""
    made = table(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0c1e57098")
    print(text(made), end="")


def text(made: dict[str, Any]) -> str:
    """The table as JSON, a line for each type."""
    lines = [f'  "{name}": {json.dumps(row, separators=(",", ":"))}' for name, row in made["types"].items()]
    return '{\n "source": ' + json.dumps(made["source"]) + ',\n "types": {\n' + ",\n".join(lines) + "\n }\n}\n"


if __name__ == "__main__":
    main()
