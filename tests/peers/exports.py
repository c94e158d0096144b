"""Which languages and tools read files by the exports, field for field: `python tests/peers exports`, in a checkout.

    python tests/peers exports [NAME...] --runtimes FOLDER --plcli PROGRAM --includes FOLDER

Each export is compiled by its reader's own compiler, and reads sound files, of which every field is compared, and malformed
ones, which must end in an error. FOLDER has Kaitai's runtimes, as checkouts called kaitai_struct_LANGUAGE_runtime; those of
JavaScript and Python come from npm and PyPI. PROGRAM is plcli, the evaluator of ImHex as a program, and its FOLDER the
standard library of ImHex's patterns. A reader whose compiler or runtime is missing keeps its row. The rows are written to
`exports.json`, of which the page on exports makes a table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from peers.implementations import MissingError

#: The results.
EXPORTS_FILE: Final = Path(__file__).with_name("exports.json")

READERS: Final = Path(__file__).with_name("readers")

#: Seconds that one reader may take for all files.
_PATIENCE: Final = 900


class Place(NamedTuple):
    """Where a reader is built, and what it is built of."""

    folder: Path
    runtimes: Path | None
    plcli: Path | None
    includes: Path | None
    source: Path | None = None

    def runtime(self, language: str) -> Path:
        """A checkout of Kaitai's runtime for a language.

        :raises MissingError: if there is none
        """
        name = f"kaitai_struct_{language}_runtime"
        if self.runtimes is None or not (self.runtimes / name).is_dir():
            raise MissingError(f"no {name} in the folder of --runtimes")
        return (self.runtimes / name).resolve()

    def kaitai(self, language: str) -> Path:
        """The folder with the parser that Kaitai's compiler makes of the definition."""
        import npm_packages
        import yaml

        from i2s_spec.exports import export

        home = npm_packages.found()
        if home is None:
            raise MissingError(f"npm's packages are not installed: {npm_packages.COMMAND}")
        definition = self.folder / "definition.json"
        definition.write_text(json.dumps(yaml.safe_load(export("ksy"))))
        command = ["node", READERS / "compile.cjs", definition, self.folder, language]
        _done(command, {"KAITAI_HOME": str(home)})
        return self.folder / language


class Runnable(NamedTuple):
    """How a reader is run: the words before the files, what is added to the environment, and its version.

    :param form: which lines it gives: all, those of `walk.c`, or fields alone; the last two read one file at a time
    """

    command: list[Any]
    version: str
    environment: dict[str, str] = {}  # noqa: RUF012
    form: Literal["all", "walk", "fields"] = "all"


class Reader(NamedTuple):
    """A language or tool that reads files by an export.

    :param in_ci: whether tests that CI runs do the same
    :param made: builds it
    """

    name: str
    export: str
    title: str
    in_ci: bool
    made: Callable[[Place], Runnable]


def _javascript(place: Place) -> Runnable:
    import npm_packages

    parser = place.kaitai("javascript") / "GgufI2s.js"
    modules = str((npm_packages.found() or place.folder) / "node_modules")
    version = f"Node {_version('node', '--version')}, kaitai-struct {npm_packages.PACKAGES['kaitai-struct']}"
    return Runnable(["node", READERS / "reader.cjs"], version, {"PARSER": str(parser), "NODE_PATH": modules})


def _python(place: Place) -> Runnable:
    from importlib.metadata import PackageNotFoundError, version

    try:
        runtime = version("kaitaistruct")
    except PackageNotFoundError:
        raise MissingError("kaitaistruct is not installed") from None
    folder = place.kaitai("python")
    words = f"Python {platform.python_version()}, kaitaistruct {runtime}"
    return Runnable([sys.executable, READERS / "reader.py"], words, {"PYTHONPATH": str(folder)})


def _java(place: Place) -> Runnable:
    runtime, folder = place.runtime("java"), place.kaitai("java")
    sources = [*(runtime / "src" / "main").rglob("*.java"), folder / "GgufI2s.java", READERS / "Reader.java"]
    _done([_program("javac"), "-nowarn", "-d", folder / "classes", *sources])
    version = f"Java {_version('javac', '-version')}, runtime {_commit(runtime)}"
    return Runnable(["java", "-cp", folder / "classes", "Reader"], version)


#: Where Debian's packages of Go have their sources.
_GO_SOURCES: Final = Path("/usr/share/gocode")


def _go(place: Place) -> Runnable:
    runtime, folder = place.runtime("go"), place.kaitai("go")
    home = folder / "src" / "reader"
    home.mkdir(parents=True)
    (home / "gguf_i2s.go").write_text("package main\n" + (folder / "gguf_i2s.go").read_text())
    shutil.copy(READERS / "reader.go", home)
    (folder / "src" / "github.com" / "kaitai-io").mkdir(parents=True)
    (folder / "src" / "github.com" / "kaitai-io" / "kaitai_struct_go_runtime").symlink_to(runtime)
    environment = {"GO111MODULE": "off", "GOPATH": f"{folder}:{_GO_SOURCES}"}
    _done([_program("go"), "build", "-o", folder / "reader", "."], environment, home)
    return Runnable([folder / "reader"], f"Go {_version('go', 'version')}, runtime {_commit(runtime)}")


def _rust(place: Place) -> Runnable:
    runtime, folder = place.runtime("rust"), place.kaitai("rust")
    (folder / "src").mkdir()
    shutil.copy(READERS / "reader.rs", folder / "src" / "main.rs")
    shutil.move(folder / "gguf_i2s.rs", folder / "src")
    package = '[package]\nname = "reader"\nversion = "0.0.0"\nedition = "2021"\n'
    (folder / "Cargo.toml").write_text(f'{package}[dependencies]\nkaitai = {{ path = "{runtime}" }}\n')
    _done([_program("cargo"), "build", "--quiet"], {"RUSTFLAGS": "-Awarnings"}, folder)
    version = f"Rust {_version('rustc', '--version')}, runtime {_commit(runtime)}"
    return Runnable([folder / "target" / "debug" / "reader"], version)


def _cpp(place: Place) -> Runnable:
    runtime, folder = place.runtime("cpp_stl"), place.kaitai("cpp_stl")
    sources = [READERS / "reader.cpp", folder / "gguf_i2s.cpp", runtime / "kaitai" / "kaitaistream.cpp"]
    flags = ["-std=c++11", "-O1", "-w", "-DKS_STR_ENCODING_NONE", "-I", runtime, "-I", folder]
    _done([_program("g++"), *flags, *sources, "-o", folder / "reader"])
    return Runnable([folder / "reader"], f"g++ {_version('g++', '-dumpfullversion')}, runtime {_commit(runtime)}")


def _ruby(place: Place) -> Runnable:
    runtime, folder = place.runtime("ruby"), place.kaitai("ruby")
    version = f"Ruby {_version('ruby', '--version')}, runtime {_commit(runtime)}"
    return Runnable([_program("ruby"), "-I", runtime / "lib", "-I", folder, READERS / "reader.rb"], version)


def _lua(place: Place) -> Runnable:
    runtime, folder = place.runtime("lua"), place.kaitai("lua")
    version = f"Lua {_version('lua5.3', '-v')}, runtime {_commit(runtime)}"
    path = {"LUA_PATH": f"{runtime}/?.lua;{folder}/?.lua"}
    return Runnable([_program("lua5.3"), READERS / "reader.lua"], version, path)


def _php(place: Place) -> Runnable:
    runtime, folder = place.runtime("php"), place.kaitai("php")
    version = f"PHP {_version('php', '--version')}, runtime {_commit(runtime)}"
    paths = {"RUNTIME": str(runtime / "lib"), "PARSER": str(folder / "GgufI2s.php")}
    return Runnable([_program("php"), READERS / "reader.php"], version, paths)


def _walker(compiler: str, standard: str, place: Place) -> Runnable:
    from i2s_spec.exports import export

    (place.folder / "i2s.h").write_text(export("c"))
    source = READERS.parents[1] / "exports" / "walk.c"
    words = ["-x", "c++"] if compiler == "g++" else []
    program = place.folder / "walk"
    command = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-I", place.folder, source]
    _done([_program(compiler), *words, *command, "-o", program])
    return Runnable([program], f"{compiler} {_version(compiler, '-dumpfullversion')}", form="walk")


def _library(place: Place) -> Runnable:
    from i2s_spec.exports import export

    (place.folder / "i2s.h").write_text(export("c"))
    (place.folder / "library.c").write_text('#define I2S_API\n#include "i2s.h"\n')
    library = place.folder / "library.so"
    _done([_program("gcc"), "-std=c99", "-O1", "-shared", "-fPIC", place.folder / "library.c", "-o", library])
    version = f"gcc {_version('gcc', '-dumpfullversion')}, Python {platform.python_version()}"
    return Runnable([sys.executable, READERS / "walk.py", library], version, form="walk")


def _imhex(place: Place) -> Runnable:
    from i2s_spec.exports import export

    if place.plcli is None or place.includes is None:
        raise MissingError("needs --plcli and --includes")
    pattern = place.folder / "gguf_i2s.hexpat"
    pattern.write_text(export("hexpat"))
    version = "plcli " + place.plcli.resolve().parents[1].name if False else "PatternLanguage"
    return Runnable(
        [place.plcli.resolve(), "format", "-p", pattern, "-I", place.includes.resolve()], version, form="fields"
    )


ALL: Final = (
    Reader("javascript", "Kaitai", "JavaScript", True, _javascript),
    Reader("python", "Kaitai", "Python", True, _python),
    Reader("java", "Kaitai", "Java", False, _java),
    Reader("go", "Kaitai", "Go", False, _go),
    Reader("rust", "Kaitai", "Rust", False, _rust),
    Reader("cpp", "Kaitai", "C++", False, _cpp),
    Reader("ruby", "Kaitai", "Ruby", False, _ruby),
    Reader("lua", "Kaitai", "Lua", False, _lua),
    Reader("php", "Kaitai", "PHP", False, _php),
    Reader("imhex", "ImHex pattern", "ImHex's evaluator", False, _imhex),
    Reader("c99", "C header", "C99", True, partial(_walker, "gcc", "c99")),
    Reader("c++17", "C header", "C++17", True, partial(_walker, "g++", "c++17")),
    Reader("ctypes", "C header", "Python's ctypes, a shared library", True, _library),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(each.name for each in ALL)}; or all")
    parser.add_argument("--runtimes", type=Path, metavar="FOLDER", help="Kaitai's runtimes")
    parser.add_argument("--plcli", type=Path, metavar="PROGRAM", help="ImHex's evaluator")
    parser.add_argument("--includes", type=Path, metavar="FOLDER", help="the standard library of ImHex's patterns")
    parser.add_argument("--source", type=Path, metavar="FOLDER", help="the checkout that PROGRAM was built from")
    parser.add_argument("-o", "--output", type=Path, default=EXPORTS_FILE, metavar="OUT", help="the results' file")


def run(options: argparse.Namespace) -> int:
    """Run the readers; the exit status is 1 if one read a file otherwise, or could not be run."""
    from peers.exported_files import expected, expected_fields, expected_walk, malformed_files, sound_files, write

    if unknown := set(options.names) - {each.name for each in ALL}:
        print(f"no reader is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    lines_of = {"all": expected, "walk": expected_walk, "fields": expected_fields}
    sound, malformed = sound_files(), malformed_files()
    before = json.loads(options.output.read_text(encoding="utf-8")) if options.output.is_file() else {"rows": []}
    rows = {row["name"]: row for row in before["rows"]}
    failed = False
    with tempfile.TemporaryDirectory(prefix="i2s-exports-") as scratch:
        files = Path(scratch) / "files"
        files.mkdir()
        paths = write(files, {**sound, **malformed})
        for each in ALL:
            if options.names and each.name not in options.names:
                continue
            folder = Path(scratch) / each.name
            folder.mkdir()
            try:
                made = each.made(Place(folder, options.runtimes, options.plcli, options.includes, options.source))
            except MissingError as reason:
                failed = True
                print(f"{each.name}: kept from before: {reason}")
                continue
            found = read(made, paths)
            wanted = [[*lines_of[made.form](data), "end"] for data in sound.values()]
            equal = [lines for lines, right in zip(found, wanted, strict=False) if lines == right]
            ended = sum(lines[-1] != "end" for lines in found[len(sound) :])
            failed |= (len(equal), ended) != (len(sound), len(malformed))
            print(f"{each.name}: {len(equal)} of {len(sound)} sound files, {ended} of {len(malformed)} malformed ones")
            rows[each.name] = {
                "name": each.name, "export": each.export, "title": each.title, "version": made.version,
                "sound": [len(equal), len(sound)], "malformed": [ended, len(malformed)], "in_ci": each.in_ci,
                "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            }  # fmt: skip
    about = {"rows": [rows[each.name] for each in ALL if each.name in rows]}
    options.output.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(failed)


def read(made: Runnable, paths: Sequence[Path]) -> list[list[str]]:
    """What a reader prints of each file; the last line is `end`, or begins with `error`."""
    if made.form == "walk":
        return [_walked(made.command, path) for path in paths]
    if made.form == "fields":
        return [_fields(made.command, path) for path in paths]
    text = _done([*made.command, *paths], made.environment)
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        found[-1].append(line)
        if line == "end" or line.startswith("error "):
            found.append([])
    return found[:-1]


def _walked(command: Sequence[Any], path: Path) -> list[str]:
    done = subprocess.run(
        [*command, path], capture_output=True, encoding="utf-8", timeout=_PATIENCE, check=False, errors="replace"
    )
    sound = done.returncode == 0 and " status " not in done.stdout
    return [*done.stdout.splitlines(), "end" if sound else f"error {done.returncode}"]


def _fields(command: Sequence[Any], path: Path) -> list[str]:
    """The fields that ImHex's evaluator writes as JSON, in which infinities and NaN have names of their own."""
    from peers.exported_files import fields_of

    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "found.json"
        words = [*command, "-i", path, "-f", "json", "-o", written]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=_PATIENCE, check=False)
        if done.returncode or not written.is_file():
            return ["error of ImHex"]
        text = written.read_text(encoding="utf-8")
    for name, standard in (("inf", "Infinity"), ("nan", "NaN")):
        text = re.sub(rf'(?m)^(\s*(?:"\w+": )?-?){name}(,?)$', rf"\1{standard}\2", text)
    return [*fields_of(json.loads(text.replace("-NaN", "NaN"), parse_int=_integer, object_hook=_numbered)), "end"]


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _numbered(found: dict[str, Any]) -> dict[str, Any]:
    """An object whose type of a tensor is a number, where ImHex writes the name of the pattern's enumeration."""
    from i2s_spec.schema.types import READINGS

    name = found.get("type")
    if isinstance(name, str):
        label = name.removeprefix("TensorType::")
        found["type"] = next(number for number, kinds in READINGS.items() if kinds[0].name == label)
    return found


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"no {name} on the path")
    return found


def _version(program: str, *options: str) -> str:
    """The first word with a digit and a point that a program says of its version."""
    words = _done([_program(program), *options]).replace("go1", "1").split()
    return next((word.lstrip("v") for word in words if word.lstrip("v")[:1].isdigit() and "." in word), "")


def _commit(folder: Path) -> str:
    return _done(["git", "-C", folder, "rev-parse", "--short=7", "HEAD"]).strip()


def _done(command: Sequence[Any], environment: dict[str, str] | None = None, folder: Path | None = None) -> str:
    """What a program prints, on both streams if it fails.

    :raises MissingError: if it fails: it cannot be built here
    """
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, encoding="utf-8", timeout=_PATIENCE, check=False, cwd=folder,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode:
        raise MissingError(f"{Path(str(command[0])).name}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout or done.stderr
