"""This module writes the dictionaries for libFuzzer, from what the schema, the records and the command line declare.

python fuzz/dictionary/make.py            # writes them anew
python fuzz/dictionary/make.py --check    # says whether they are current

gguf.dict            the words of a GGUF file: magic, versions, numbers of types, keys and names with their lengths
golden_compare.dict  the words of a dump: names of taps and of their types, starts of files
command_line.dict    the words of a command: verbs, options, names of dialects, profiles and rules
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: The longest word that libFuzzer accepts.
LONGEST = 64

#: A word with the name of its group.
Word = tuple[str, bytes]


def gguf() -> Iterable[Word]:
    """The words of a GGUF file: numbers in both byte orders, texts with their length prefix."""
    from i2s_spec.schema import limits
    from i2s_spec.schema.magic import MAGIC
    from i2s_spec.schema.types import READINGS, ValueType
    from i2s_spec.testing.mutator import dictionary

    yield "magic", MAGIC
    for order in "<>":
        for version in limits.VERSIONS:
            yield "version", struct.pack(f"{order}I", version)
        for value in ValueType:
            yield f"value_{value.name}", struct.pack(f"{order}I", value)
        for number, readings in READINGS.items():
            yield f"type_{readings[0].name}", struct.pack(f"{order}I", number)
        yield "alignment", struct.pack(f"{order}I", limits.DEFAULT_ALIGNMENT)
    for text in dictionary():
        yield "text", text
        yield "text_with_length", struct.pack("<Q", len(text)) + text


def golden_compare() -> Iterable[Word]:
    """The words of a dump."""
    import numpy as np

    from i2s_spec.golden import dumps, llama_cpp, tap_names

    yield "magic", llama_cpp.MAGIC
    yield "magic", np.lib.format.magic(1, 0)
    yield "magic", np.lib.format.magic(2, 0)
    yield from (("zip", start) for start in (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"))
    yield from (("npy", f"'{key}': ".encode()) for key in ("descr", "fortran_order", "shape"))
    kinds = ("f4", ">f4", "f2", "f8", "i1", "u1", "i4", "i8", "O")
    yield from (("npy", f"'{np.dtype(kind).str}'".encode()) for kind in kinds)
    yield from (("safetensors", f'"{key}": '.encode()) for key in ("dtype", "shape", "data_offsets", "__metadata__"))
    yield from (("safetensors", f'"{kind}"'.encode()) for kind in (*dumps._TYPES, "BF16", "BOOL"))
    yield from (
        ("ggml", operation.encode())
        for operation in sorted({operation.name for operation in llama_cpp.GGML_OPS.values()})
    )
    known = {*tap_names.ALIASES, *(alias for each in tap_names.ALIASES.values() for alias in each)}
    yield from (("tap", f"{name}-0".encode()) for name in sorted(known))
    modules = sorted({module for each in tap_names.MODULES.values() for module in each})
    yield from (("module", module.replace("{i}", "0").encode()) for module in modules)
    texts = (b"sum = ", b" = (f32) ", b"}) = {", b"...", b"[", b"],", b"nan", b"inf", b"1e39")
    yield from (("eval_callback", text) for text in texts)


def command_line() -> Iterable[Word]:
    """The words of a command."""
    import click

    from i2s_spec.cli import VERBS, cli
    from i2s_spec.linter.rules import all_rules
    from i2s_spec.linter.selection import PROFILES
    from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS

    context = click.Context(cli)
    options, choices = set[str](), set[str]()
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                options |= {*parameter.opts, *parameter.secondary_opts}
            if isinstance(parameter.type, click.Choice):
                choices |= {str(choice) for choice in parameter.type.choices}
    yield from (("verb", verb.encode()) for verb in sorted(VERBS))
    yield from (("option", f" {option} ".encode()) for option in sorted(options))
    yield from (("choice", choice.encode()) for choice in sorted(choices))
    yield from (("profile", profile.encode()) for profile in sorted(PROFILES))
    yield from (("dialect", part.encode()) for part in (*LAYOUTS, *CODE_MAPS, *TAILS))
    yield from (("rule", rule.code.encode()) for rule in sorted(all_rules(), key=lambda rule: rule.code))
    yield "file", b" @ "


DICTIONARIES: dict[str, Callable[[], Iterable[Word]]] = {
    "gguf": gguf,
    "golden_compare": golden_compare,
    "command_line": command_line,
}


def text_of(name: str) -> str:
    """A dictionary in libFuzzer's form: a name and a quoted word on each line, each word once."""
    lines, seen = [f"# Written by fuzz/dictionary/make.py: {DICTIONARIES[name].__doc__}"], set[bytes]()
    for group, word in DICTIONARIES[name]():
        if word and len(word) <= LONGEST and word not in seen:
            seen.add(word)
            lines.append(f'{group}="{_escaped(word)}"')
    return "\n".join(lines) + "\n"


def _escaped(word: bytes) -> str:
    return "".join(
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in word
    )


def main() -> int:
    """Write the dictionaries, or list those that are out of date."""
    parser = argparse.ArgumentParser(description="Write the dictionaries for libFuzzer.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where one is not current")
    check = parser.parse_args().check
    stale = 0
    for name in DICTIONARIES:
        path, text = HERE / f"{name}.dict", text_of(name)
        if not path.is_file() or path.read_text("ascii") != text:
            stale += 1
            if not check:
                path.write_text(text, "ascii")
            print(f"{path.name} {'is not current' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
