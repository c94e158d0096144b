"""The structure of each module: lengths, names, knowledge about other modules, and exceptions."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import MODULES, NAMES, PACKAGE, ROOT, TESTS, TOOLS, forget_trees, identifiers, nodes_of, room_of, tree_of

from i2s_spec.schema.architectures import ARCHITECTURES


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    yield
    forget_trees()


# --- lengths ---

#: Maximum lines of a module; most have 50 to 250.
MODULE_LINES = 400
#: Test modules may be longer, as lists of cases.
TEST_LINES = 700
#: Modules that are longer, and why.
LONG_MODULES: dict[str, str] = {}
#: Maximum lines of a function, without its signature and docstring.
FUNCTION_LINES = 60
LONG_FUNCTIONS: dict[str, str] = {}


def lines_of(module: Path) -> int:
    return module.read_text(encoding="utf-8").count("\n")


def test_modules_are_short() -> None:
    long = {
        module.relative_to(ROOT).as_posix()
        for modules, most in ((MODULES + TOOLS, MODULE_LINES), (TESTS, TEST_LINES))
        for module in modules
        if lines_of(module) > most
    }
    assert long == LONG_MODULES.keys()


def body_lines(function: ast.FunctionDef) -> int:
    """Lines of what a function does."""
    first = function.body[1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0]
    return (function.end_lineno or 0) - first.lineno + 1


def test_functions_are_short() -> None:
    long = {
        f"{module.relative_to(ROOT).as_posix()}:{node.name}"
        for module in MODULES + TOOLS + TESTS
        for node in nodes_of(module)
        if isinstance(node, ast.FunctionDef) and body_lines(node) > FUNCTION_LINES
    }
    assert long == LONG_FUNCTIONS.keys()


# --- names ---

#: Public classes that share a name, and why.
SHARED_CLASSES = {
    "Draft": "of a sample file, and of a vector of the suite",
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


#: Vague words for things that have a technical term.
BANNED = {"judged", "brain", "told", "kept", "said", "settle", "ado", "judgement"}


def test_identifiers_are_words_of_the_field() -> None:
    for module in MODULES + TOOLS:
        for found in identifiers(module):
            where = f"{module.relative_to(ROOT)}: {found}"
            assert not BANNED & set(found.lower().split("_")), where
            assert "quantis" not in found.lower(), where


# --- private members ---

#: Private members of others that a module may use: what Python offers under no other name, and what construct's classes
#: call of each other, since the schema's classes derive from them.
OTHERS_PRIVATE = {"os._exit", "sys._getframe"}
OF_CONSTRUCT = {"_parsereport", "_params"}
#: Of named tuples: public in spite of the underscore.
PUBLIC_WITH_UNDERSCORE = {"_replace", "_asdict", "_fields", "_make", "_field_defaults"}


def test_private_members_stay_in_their_module() -> None:
    """A module reads `_x` of objects only where it defines `_x`."""
    for name, module in NAMES.items():
        nodes = nodes_of(module)
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        own = {each.attr for each in attributes if isinstance(each.ctx, ast.Store) or ast.unparse(each.value) == "self"}
        own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        own |= {
            node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        for node in attributes:
            if node.attr.startswith("_") and not node.attr.startswith("__"):
                text = ast.unparse(node)
                allowed = own | PUBLIC_WITH_UNDERSCORE | (OF_CONSTRUCT if room_of(module) == "schema" else set())
                assert node.attr in allowed or text in OTHERS_PRIVATE, f"{name} reads {text}"


def test_private_names_are_not_imported() -> None:
    """Extensions, and modules themselves, may begin with an underscore; what is in a module with one is its own."""
    extensions = {module.stem for module in PACKAGE.rglob("*.pyi")}
    for name, module in NAMES.items():
        for node in nodes_of(module):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("i2s_spec"):
                taken = {each.name for each in node.names if re.match("_[^_]", each.name)} - extensions
                assert not taken, f"{name} imports {taken} from {node.module}"


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
    "linter/rules/checkpoint.py": "bitnet is a method of quantization in config.json there",
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
    "schema/type_registry.py", "testing/common_faults.py",
}  # fmt: skip


def test_rules_are_named_in_their_own_modules() -> None:
    """A code stands as a text in its rule, in what repairs it, and in its cases; other modules ask the rule."""
    named = {
        module.relative_to(PACKAGE).as_posix()
        for module in MODULES
        if module.parts[-3:-1] != ("repair", "actions")
        and module.relative_to(PACKAGE).parts[:2] not in {("linter", "rules"), ("testing", "malformed")}
        for node in nodes_of(module)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[GIBMTSPH]\d{3}", node.value) is not None
    }
    assert named == NAMING_RULES
