"""Lists everything that a user can call, one line per thing: `python tests/surface.py > tests/surface.txt`.

Verbs with their options, exit codes, environment variables, keys of `i2s.toml`, rules, vectors, dialects, schemas of
JSON, the Python API and every import that the specification shows. Nearly all of it is found from outside: by click, by
the output of verbs and by importing. What is imported from an inner module is imported here at the top.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import i2s_spec
from i2s_spec import errors
from i2s_spec.cli import VERBS, cli, main

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = Path(i2s_spec.__file__).parent

#: Packages for other projects; all their public names are listed.
PUBLIC_MODULES = (
    "i2s_spec.golden",
    "i2s_spec.testing",
    "i2s_spec.testing.malformed",
    "i2s_spec.testing.sample",
    "i2s_spec.testing.strategies",
    "i2s_spec.testing",
    "i2s_spec.errors",
)

#: Names of environment variables in the source, and those that only reading shows to be one.
VARIABLE = re.compile(r"(?:I2S|HF|XDG|AWS|GITHUB|GITEA|FORGEJO|TF|NO|SOURCE|HTTPS?|ALL)_[A-Z][A-Z_]*[A-Z]")
READ = re.compile(r"environ(?:\.get|\.pop|\.setdefault)?[(\[]\s*\"([A-Z][A-Z0-9_]+)\"|getenv\(\"([A-Z0-9_]+)\"")

#: Names of that form that are something else: a macro, and variables of this project's own tests.
NOT_READ = {"I2S_BLOCK_TYPES", "I2S_INSTALL", "I2S_SHARED"}


def answer(*args: str) -> str:
    """Run a command line in this process; what it prints on both streams."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(out):
        try:
            main(list(args))
        except SystemExit:
            out.flush()
    return out.buffer.getvalue().decode()


def digest(data: bytes) -> str:
    """The beginning of the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def commands(command: click.Command, name: str) -> Iterator[str]:
    """A verb, its parameters, and its subverbs."""
    context = click.Context(command, info_name=name)
    yield f"verb {name}: {command.get_short_help_str(200)}"
    for parameter in command.get_params(context):
        yield f"verb {name} {words_of(parameter)}"
    if isinstance(command, click.Group):
        names = VERBS if command is cli else command.list_commands(context)
        for each in names:
            inner = command.get_command(context, each)
            assert inner is not None, each
            yield from commands(inner, f"{name} {each}")


def words_of(parameter: click.Parameter) -> str:
    """A parameter: spellings, type, default, environment variable and number of values."""
    facts = [type_words(parameter.type)]
    if parameter.required:
        facts.append("required")
    if parameter.nargs != 1:
        facts.append(f"values={parameter.nargs}")
    if isinstance(parameter, click.Option):
        facts += [each for each in ("is_flag", "multiple", "count", "hidden") if getattr(parameter, each)]
    default = parameter.default
    if default is not None and "UNSET" not in repr(default) and not callable(default):
        facts.append(f"default={default!r}")
    if parameter.envvar:
        facts.append(f"variable={parameter.envvar}")
    kind = "argument" if isinstance(parameter, click.Argument) else "option"
    spellings = " ".join([*sorted(parameter.opts), *sorted(parameter.secondary_opts)])
    return f"{kind} {spellings} {parameter.metavar or ''}: {', '.join(facts)}".replace(" :", ":")


def type_words(kind: click.ParamType[Any]) -> str:
    """The type of a parameter, with its choices or bounds."""
    if isinstance(kind, click.Choice):
        return f"choice [{'|'.join(map(str, kind.choices))}]"
    if isinstance(kind, click.IntRange | click.FloatRange):
        return f"{kind.name} {kind.min}..{kind.max}"
    if isinstance(kind, click.Path):
        return f"{kind.name} exists={kind.exists} file={kind.file_okay} dir={kind.dir_okay}"
    return kind.name


def environment() -> Iterator[str]:
    """Every environment variable that the package names."""
    found: set[str] = set()
    for path in [*PACKAGE.rglob("*.py"), *(CHECKOUT / "pyx").glob("*.[hp]*")]:
        source = path.read_text("utf-8")
        found |= {one or other for one, other in READ.findall(source)}
        if path.suffix == ".py":
            texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
            found |= {text for text in texts if isinstance(text, str) and VARIABLE.fullmatch(text)}
    yield from (f"variable {name}" for name in sorted(found - NOT_READ))


def config_keys() -> Iterator[str]:
    """The keys of `i2s.toml`, by the messages about a key that does not exist and about values that are not allowed."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("one.gguf").write_bytes(b"GGUF")

        def message(config: str) -> str:
            Path("i2s.toml").write_text(config, "utf-8")
            return answer("lint", "one.gguf").strip()

        listed = message("no-such-key = 1")
        yield f"config: {listed}"
        for key in listed.partition("there are: ")[2].split(", "):
            yield f"config {key}: {message(f'{key} = 1979-05-27')}"
        yield f"config ignore: {message('ignore = [{no-such-key = 1}]')}"
        yield f"config limits: {message('limits = {no-such-key = 1}')}"
        wrong_level = "severity = {G101 = 'no-such-level'}"
        yield f"config severity: {message(wrong_level)}"


def rules() -> Iterator[str]:
    """Every rule by its code, the profiles, and the rules and severities of each profile as a digest."""
    for rule in json.loads(answer("rules", "--json"))["rules"]:
        facts = {key: rule[key] for key in ("slug", "severity", "clause", "families", "fix", "cwe", "payload", "when")}
        yield f"rule {rule['code']}: {json.dumps(facts, ensure_ascii=False)}"
    for line in answer("rules", "--profiles").splitlines():
        yield f"profile {line}"
        if re.match(r"\S", line):
            name = line.split()[0]
            yield f"profile {name}: {digest(answer('rules', '--json', '--profile', name).encode())}"


def data() -> Iterator[str]:
    """The vectors, the dialects and types, the exports of the schema, and the JSON Schemas in the package."""
    for line in answer("vectors", "list").splitlines():
        yield f"vector {' '.join(line.split()[:3])}"
    schema = json.loads(answer("schema"))
    yield from (f"schema {key}: {digest(json.dumps(schema[key]).encode())}" for key in sorted(schema))
    for path in sorted(PACKAGE.rglob("*.schema.json"), key=lambda each: each.name):
        yield f"json-schema {path.name}: {digest(path.read_bytes())}"


def signature(value: object) -> str:
    """The signature of a function, without the modules that the names of types come from."""
    try:
        text = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"ForwardRef\((.*?)\)(?=[,) ])", r"\1", text)
    text = re.sub(r"['\"]", "", text)
    return re.sub(r"\b(?:i2s_spec|typing|collections|pathlib|numpy|np)(?:\.\w+)*\.(?=\w)| at 0x\w+", "", text)


def api(name: str, value: object) -> Iterator[str]:
    """A public name; for a class its public methods and properties as well."""
    kind = "class" if inspect.isclass(value) else "module" if isinstance(value, ModuleType) else type(value).__name__
    yield f"api {name}: {kind} {signature(value) if callable(value) else ''}".rstrip()
    if inspect.isclass(value):
        ours = [base for base in value.__mro__ if base.__module__.startswith("i2s_spec")]
        names = {each for base in ours for each in [*vars(base), *inspect.get_annotations(base)]}
        for each in sorted(names):
            if not each.startswith("_"):
                member = getattr(value, each, None)
                yield f"api {name}.{each} {signature(member) if callable(member) else ''}".rstrip()


def public_names() -> Iterator[str]:
    """The names of `i2s_spec` and of the packages for other projects."""
    for name in sorted(i2s_spec.__all__):
        yield from api(f"i2s_spec.{name}", getattr(i2s_spec, name))
    for where in PUBLIC_MODULES:
        module = importlib.import_module(where)
        listed = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == where
        ]
        for name in sorted(listed):
            if not isinstance(getattr(module, name), ModuleType):
                yield from api(f"{where}.{name}", getattr(module, name))
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        i2s_spec.new("tiny.gguf")
        file = i2s_spec.open("tiny.gguf")
        for thing in (file, next(iter(file.tensors.values())), i2s_spec.lint("tiny.gguf")):
            for name in dir(thing):
                if not name.startswith("_") and not hasattr(type(thing), name):
                    yield f"api {type(thing).__name__} object has {name}"


def shown_imports() -> Iterator[str]:
    """Every import and dotted name that the pages, the README and the help show, and whether it can be imported."""
    pages = [*(CHECKOUT / "spec").rglob("*.md"), *CHECKOUT.glob("*.md"), *(CHECKOUT / "spec").rglob("*.py")]
    texts = [page.read_text("utf-8") for page in pages if page.name not in ("CONTRIBUTING.md", "CHANGELOG.md")]
    texts += [help_of(command) for command in all_commands(cli)]
    names: set[str] = set()
    for text in texts:
        for module, listed in re.findall(r"from (i2s_spec[\w.]*) import ([\w, ]+)", text):
            names |= {f"{module}.{each.split()[0]}" for each in listed.split(",") if each.strip()}
        names |= {name for name in re.findall(r"\bi2s_spec(?:\.\w+)+", text) if ".docs." not in name}
    for name in sorted(names):
        yield f"shown {name}: {'found' if resolves(name) else 'MISSING'}"


def all_commands(command: click.Command) -> Iterator[click.Command]:
    """A command and all below it."""
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context := click.Context(command)):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from all_commands(inner)


def help_of(command: click.Command) -> str:
    """The text about a command."""
    return f"{command.help} {command.epilog}"


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute that a module has."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
            for part in parts[count:]:
                found = getattr(found, part)
            return True
        except (ImportError, AttributeError):
            continue
    return False


def surface() -> Iterator[str]:
    """Every line, in the order of the kinds."""
    for entry in distribution("i2s-spec").entry_points:
        entry.load()
        yield f"entry-point {entry.group} {entry.name}"
    for name in sorted(vars(errors)):
        if name.startswith("EXIT_"):
            yield f"exit-code {name} = {getattr(errors, name)}"
    yield from commands(cli, "i2s")
    yield from environment()
    yield from config_keys()
    yield from rules()
    yield from data()
    yield from public_names()
    yield from shown_imports()


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print("\n".join(surface()))
