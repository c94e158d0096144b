"""The laws of the house that neither ruff nor mypy checks: who imports whom, names, messages, and where facts stand.

import-linter checks the layers and that there is no circle, by the contracts in pyproject.toml.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import MODULES, NAMES, PACKAGE, PYX, ROOT, TOOLS, forget_trees, identifiers, nodes_of, room_of, tree_of

from i2s_spec.schema.architectures import ARCHITECTURES


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    yield
    forget_trees()


# --- folders and imports ---


def test_contracts_of_imports() -> None:
    """No arrow up and no circle on any level, imports for type checkers included; the contracts name every room."""
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_the_drawing_of_the_layers_is_current() -> None:
    """CONTRIBUTING.md draws every room once, no room above one that imports it."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (rooms,) = (each for each in declared["tool"]["importlinter"]["contracts"] if each["id"] == "rooms")
    floors = {room.strip("()"): floor for floor, layer in enumerate(rooms["layers"]) for room in layer.split(" | ")}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawing = text.partition("**Layers.**")[2].split("```")[1].strip("\n").splitlines()
    drawn = [room for line in drawing for room in line[:40].split()]
    assert sorted(drawn) == sorted(room for room in floors if f"i2s_spec.{room}" in NAMES)
    assert [floors[room] for room in drawn] == sorted(floors.values())


def test_folders_say_what_is_in_them() -> None:
    """The docstring of each folder's `__init__` names every module and folder in it; that of the package names what is
    public."""
    offenders = {}
    for name, module in NAMES.items():
        if module.name == "__init__.py" and name != "i2s_spec":
            words = set(re.findall(r"\w+", ast.get_docstring(tree_of(module)) or ""))
            there = {other.removeprefix(f"{name}.") for other in NAMES if other.rpartition(".")[0] == name}
            if not there <= words:
                offenders[name] = sorted(there - words)
    assert offenders == {}


#: A line of a package's list: names of modules and folders, then their purpose, there or on the next line.
LISTED = re.compile(r"(?m)^ {0,4}((?:[a-z_0-9]+/?, )*[a-z_0-9]+/?)(?: {2,}\S.*|\n {12,}\S.*)$")


def test_packages_list_what_they_hold() -> None:
    """The names in a package's list are those of modules and folders in it; the first page of all lists public names."""
    for name, module in NAMES.items():
        if module.name == "__init__.py" and name != "i2s_spec":
            there = {path.name.partition(".")[0] for path in module.parent.iterdir()}
            listed = {each.rstrip("/") for found in LISTED.findall(ast.get_docstring(tree_of(module)) or "")
                      for each in found.split(", ")}  # fmt: skip
            assert listed <= there, f"{name} lists {listed - there}"
    assert LISTED.findall("    a, b_c/  what\n    d\n            more\nand prose\n") == ["a, b_c/", "d"]


def test_no_module_has_a_vague_name() -> None:
    names = {part for module in MODULES for part in module.with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def test_private_names_are_not_imported() -> None:
    """Extensions, and modules themselves, may begin with an underscore; what is in a module with one is its own."""
    extensions = {source.stem for source in PYX.glob("*.pyx")}
    for name, module in NAMES.items():
        for node in nodes_of(module):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("i2s_spec"):
                taken = {each.name for each in node.names if re.match("_[^_]", each.name)} - extensions
                assert not taken, f"{name} imports {taken} from {node.module}"


# --- names ---

#: Public classes that share a name, and why.
SHARED_CLASSES = {
    "Draft": "of a sample file, and of a vector of the suite",
    "Parts": "of payloads that are surveyed, and of a model that is split",
    "Model": "what is run, and the sample file of one",
    "Tensor": "of a file, and of the sample model",
}


def test_public_classes_have_names_of_their_own() -> None:
    homes = defaultdict(list)
    for name, module in NAMES.items():
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name for name, where in homes.items() if len(where) > 1} == SHARED_CLASSES.keys()


#: Vague words for things that have a technical term.
BANNED = {"judged", "brain", "told", "kept", "said", "settle", "ado", "judgement"}


def test_identifiers_are_words_of_the_field() -> None:
    for module in MODULES + TOOLS:
        for found in identifiers(module):
            where = f"{module.relative_to(ROOT)}: {found}"
            assert not BANNED & set(found.lower().split("_")), where
            assert "quantis" not in found.lower(), where


# --- messages ---


def texts_for_users(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Texts of a module with their lines: all but docstrings, and the docstrings of rules, which are their pages."""
    internal = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr):
            called = [each.func for each in getattr(node, "decorator_list", ()) if isinstance(each, ast.Call)]
            if not any(isinstance(function, ast.Name) and function.id == "rule" for function in called):
                internal.add(id(node.body[0].value))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in internal:
            yield node.lineno, node.value


def test_messages_do_not_say_is_none() -> None:
    """'its shape is none' is no English: a message says what a thing is not, or that it is invalid."""
    found = [
        f"{name}:{line}: {text}"
        for name, module in NAMES.items()
        for line, text in texts_for_users(nodes_of(module))
        if re.search(r"\b(?:is|are)\s+none\b", text, re.IGNORECASE)
    ]
    assert found == []
    page = '@rule("G205")\ndef f():\n    """It is none."""\ndef g():\n    """Where there is none."""'
    assert sorted(text for _, text in texts_for_users(list(ast.walk(ast.parse(page))))) == ["G205", "It is none."]


#: Nouns whose plural would be wrong after 1.
PLURAL = (
    "bytes|elements|tensors|tokens|rows|columns|files|scales|weights|threads|keys|layers|findings|dimensions|characters|"
    "vectors|trits|matrices|merges|taps|chunks|heads|lines|pieces|digits|slices|rules|comparisons|levels|key-values|"
    "repairs|parts|experts|entries"
)


def test_a_noun_follows_its_number() -> None:
    """'1 chunks' is no English: `counted` forms the noun, in a message's template `{got:chunk}`."""
    fixed = re.compile(rf"(?<!x )\{{(?![A-Z_0-9.]+:)[^{{}}]+:,\}} (?:more |other |zero )?(?:{PLURAL})\b")
    in_code = [
        f"{name}: {found[0]}" for name, module in NAMES.items()
        if room_of(module) != "exports" and not name.endswith("chat_template_worker")  # standalone
        for found in fixed.finditer(module.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert in_code == []
    from i2s_spec.linter.rules import all_rules

    several = re.compile(rf"(?<!of )(?<!all )\{{(?!size|tensors|of|total|rows)\w+\}} (?:zero )?(?:{PLURAL})\b")
    assert [rule.code for rule in all_rules() if several.search(rule.fault.message)] == []
    assert fixed.search('f"{count:,} chunks"')
    assert several.search("the file has {got} tensors")


# --- facts ---


def compared(module: Path) -> set[str]:
    """Attributes that a module compares or tests by `startswith`: `runtime.name`, `reason.text`."""
    found = set()
    for node in nodes_of(module):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            sides = [node.func.value]
        for side in sides:
            if isinstance(side, ast.Attribute) and isinstance(side.value, ast.Name):
                found.add(f"{side.value.id}.{side.attr}")
    return found


def test_facts_about_runtimes_stand_in_the_schema() -> None:
    """No module asks a runtime for its name, or a reason for its words, to know how it behaves."""
    asking = {
        str(module.relative_to(PACKAGE)): names & {"runtime.name", "reason.text"}
        for module in MODULES
        if room_of(module) != "schema" and (names := compared(module)) & {"runtime.name", "reason.text"}
    }
    assert asking == {}


#: Modules that compare with the name of an architecture, and why. `llama` is also a kind of vocabulary and is not
#: searched.
NAMING_ARCHITECTURES = {
    "checkpoints/families.py": "bitnet is a method of quantization in config.json there",
    "safetensors/packed.py": "bitnet is a method of quantization in config.json there",
    "linter/rules/inventory.py": "bitnet alone has scales beside weights that have one in their tail",
    "linter/runtimes/loader_checks.py": "forks load scales beside weights in bitnet alone",
    "model/architectures.py": "which vocabularies make the activation doubtful is known of one architecture only",
}


def names_compared(module: Path) -> set[str]:
    """Texts that a module compares with, alone or in a list, or asks whether something begins with them."""
    sides: list[ast.expr] = []
    for node in nodes_of(module):
        if isinstance(node, ast.Compare):
            sides += [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            sides += node.args
    sides += [each for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set) for each in side.elts]
    return {side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)}


def test_facts_about_architectures_stand_in_the_schema() -> None:
    """No module asks for an architecture's name to know what it is like: `ARCHITECTURES` says that."""
    sought = ARCHITECTURES.keys() - {"llama"}
    asking = {
        module.relative_to(PACKAGE).as_posix()
        for module in MODULES
        if room_of(module) != "schema" and names_compared(module) & sought
    }
    assert asking == NAMING_ARCHITECTURES.keys()


#: Modules that may name a rule by its code, besides its own and its repair: declarations of faults, malformed files and
#: vectors (cases of rules), examples on pages and in docstrings.
NAMING_RULES = {
    "conformance/vectors/payloads.py", "exports/javascript.py", "schema/keys.py", "schema/faults.py",
    "schema/type_registry.py", "testing/common_faults.py", "testing/sample.py",
}  # fmt: skip


def test_rules_are_named_in_their_own_modules() -> None:
    """A code stands as a text in its rule, in what repairs it, and in its cases; other modules ask the rule."""
    named = {
        module.relative_to(PACKAGE).as_posix()
        for module in MODULES
        if module.relative_to(PACKAGE).parts[:2]
        not in {("linter", "rules"), ("linter", "repair"), ("testing", "malformed")}
        for node in nodes_of(module)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[GIBMTSPH]\d{3}", node.value) is not None
    }
    assert named == NAMING_RULES
