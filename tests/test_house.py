"""The structure of the package: allowed imports, the imports of a quick start, and the form of docstrings and messages."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import product, takewhile
from operator import eq
from pathlib import Path

import pytest
from examples import share
from house import MODULES, NAMES, PACKAGE, PYX, forget_trees, nodes_of, room_of, tree_of
from pace import unit


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    yield
    forget_trees()


def test_contracts_of_imports() -> None:
    """The layers that pyproject.toml declares, imports for type checkers included; it also names every room."""
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(PACKAGE.parent / "pyproject.toml"), no_cache=True) == 0


def test_the_drawing_of_the_layers_is_current() -> None:
    """CONTRIBUTING.md draws every room once, no room above one that imports it."""
    declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    (rooms,) = (each for each in declared["tool"]["importlinter"]["contracts"] if each["id"] == "rooms")
    floors = {room: floor for floor, layer in enumerate(rooms["layers"]) for room in layer.split(" | ")}
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawing = text.partition("**Layers.**")[2].split("```")[1].strip("\n").splitlines()
    drawn = [room for line in drawing for room in line[:40].split()]
    assert sorted(drawn) == sorted(floors)
    assert [floors[room] for room in drawn] == sorted(floors.values())


def test_modules_introduce_themselves() -> None:
    for name, module in NAMES.items():
        docstring = ast.get_docstring(tree_of(module))
        assert docstring, f"{name} needs a docstring"
        assert docstring.partition("\n")[0].rstrip().endswith((".", ":")) or "\n" in docstring, name


def test_no_module_has_a_vague_name() -> None:
    names = {part for module in MODULES for part in module.with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


LIGHT = """
import sys
sys.argv = {argv!r}
from i2s_spec.cli import main
try:
    main()
except SystemExit as stop:
    status = stop.code
print(sorted({{"numpy", "construct", "rich"}} & set(sys.modules)), status, file=sys.stderr)
"""


def loaded(*argv: str) -> str:
    """Which of the heavy libraries a command loads, and its exit code."""
    code = LIGHT.format(argv=["i2s", *argv])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stderr.splitlines()[-1]


def test_version_is_light() -> None:
    assert loaded("--version") == "[] 0"


@pytest.mark.parametrize(
    ("options", "form"),
    share(
        product(
            [[], ["--header-only"], ["--sample"]], ["text", "json", "jsonl", "sarif", "junit", "github", "markdown"]
        )
    ),
)
def test_lint_is_light(tmp_path: Path, form: str, options: list[str]) -> None:
    from i2s_spec.testing.sample import Draft

    path = tmp_path / "sample.gguf"
    path.write_bytes(Draft().data)
    assert loaded("lint", *options, "--format", form, str(path)) == "[] 0"


def test_package_imports_nothing() -> None:
    code = "import sys, i2s_spec; print(sorted(name for name in sys.modules if name.startswith('i2s_spec')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['i2s_spec']"


@pytest.mark.thorough
def test_all_tests_are_collected_quickly() -> None:
    """Each process of a run collects them: 5 s of a processor of 2024, on which a unit takes 8 ms."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n0", "-p", "no:cacheprovider"]
    took = []
    for _ in range(3):  # a slow call is slow every time; one slowed by other processes is not
        before, start = unit(), os.times()
        subprocess.run(command, cwd=PACKAGE.parent, check=True, capture_output=True)
        end = os.times()
        used = end.children_user + end.children_system - start.children_user - start.children_system
        took.append(used / max(before, unit()))
        if took[-1] < 625:
            break
    assert min(took) < 625, took


def test_ci_runs_what_the_site_needs() -> None:
    """Tests of the extra [docs] are skipped by the README's command, so that a step of their own names them."""
    script = (PACKAGE.parent / ".ci" / "run").read_text(encoding="utf-8")
    for path in (PACKAGE.parent / "tests" / "docs").rglob("test_*.py"):
        if re.search(r'find_spec\("material"\)|importorskip\("pymdownx', path.read_text(encoding="utf-8")):
            assert path.relative_to(PACKAGE.parent).as_posix() in script, path.name


def test_help_names_what_is_public() -> None:
    """It groups names by purpose; the alphabetical list is that of pydoc."""
    import i2s_spec

    groups = str(i2s_spec.__doc__).partition("explains one of them:")[2]
    named = re.findall(r"\w+", re.sub(r"(?m)^    [a-z]+(?: [a-z]+)?  |, the limits .*", " ", groups))
    assert sorted(named) == i2s_spec.__all__


def test_public_names_resolve() -> None:
    import i2s_spec

    for name in i2s_spec.__all__:
        assert getattr(i2s_spec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        i2s_spec.nothing  # noqa: B018


def test_a_checkout_that_was_not_built_says_so(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(PACKAGE, tmp_path / "i2s_spec", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for code in (
        "import i2s_spec; i2s_spec.open",
        "import i2s_spec; i2s_spec.pack",
        "from i2s_spec.cli import main; main(['info'])",
    ):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=env
        )
        assert run.returncode in (1, 4)
        assert "pip install -e ." in run.stderr


#: Names that several modules share, besides those of verbs, which match their function: formats of reports, parts of
#: formats, and modules that each layer needs.
SHARED_NAMES = {
    "file_types", "hyperparameters", "inputs", "limits", "markdown", "metadata", "numbers", "observation", "page",
    "payload", "plot", "reader", "recode", "reference", "replay", "result", "settings", "structured", "table",
    "text", "tokenizer", "vocabulary", "weights", "faults", "inventory", "rotation", "mistakes",
}  # fmt: skip


def imported_modules(module: Path) -> set[str]:
    """Modules of the package that a module imports, wherever in it; a package where a name of its own is taken."""
    found = set()
    for node in nodes_of(module):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.relative_to(PACKAGE)} imports by a relative name"
            taken = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= taken & NAMES.keys() or {str(node.module)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & NAMES.keys()


def test_no_modules_import_each_other() -> None:
    """Packages count where a name of their own is taken from them; a module may import its package's other modules."""
    graph = {name: imported_modules(module) - {name} for name, module in NAMES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the cycle


def test_folders_and_modules_in_one_folder_form_no_cycle() -> None:
    """On any level; imports for type checkers count, re-exports by the `__init__` of the folder do not."""
    graphs: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, module in NAMES.items():
        for other in imported_modules(module):
            ours, theirs = name.split("."), other.split(".")
            shared = sum(takewhile(bool, map(eq, ours, theirs)))
            if shared < min(len(ours), len(theirs)):  # a folder's __init__ lies above what is in the folder
                graphs[".".join(ours[:shared])][ours[shared]].add(theirs[shared])
    assert graphs["i2s_spec"]["cli"] >= {"linter", "errors"}
    for folder, graph in graphs.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"in {folder}: {' imports '.join(reversed(error.args[1]))}")


def test_folders_are_small() -> None:
    """No folder has too many modules to look through."""
    for folder in {module.parent for module in MODULES}:
        modules = [each.name for each in folder.glob("*.py") if each.name != "__init__.py"]
        assert len(modules) <= 15, f"{folder.relative_to(PACKAGE)} has {len(modules)} modules"


def test_kernel_sources_are_short() -> None:
    """No header and no Cython source is too long to read at a sitting: each set of kernels has a file of its own."""
    sources = [each for each in PYX.iterdir() if each.suffix in (".h", ".pyx", ".pxi")]
    long = {each.name: lines for each in sources if (lines := each.read_text(encoding="utf-8").count("\n")) > 400}
    assert sources
    assert long == {}


def test_builds_know_their_headers() -> None:
    """An extension is rebuilt when a file changes that its source includes, directly or indirectly."""
    declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    for extension in declared["tool"]["setuptools"]["ext-modules"]:
        waiting, taken = [Path(source).name for source in extension["sources"]], set[str]()
        while waiting:
            text = (PYX / waiting.pop()).read_text(encoding="utf-8")
            named = set(re.findall(r'(?m)^\s*(?:#\s*include|include|cdef extern from) "([^"]+)"', text)) - taken
            waiting += named
            taken |= named
        assert {Path(each).name for each in extension.get("depends", ())} == taken, extension["name"]


def test_modules_have_names_of_their_own() -> None:
    from i2s_spec.cli import VERBS

    count = Counter(module.stem for module in MODULES if module.name != "__init__.py")
    shared = {name for name, times in count.items() if times > 1} - VERBS.keys()
    assert shared == SHARED_NAMES


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


# --- records of the header ---


def _is_record_call(node: ast.AST) -> bool:
    """Whether a node is `index.key(...)` or `index.tensor(...)`, under whatever name the index goes."""
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("key", "tensor")
    ):
        return False
    owner = node.func.value
    return (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")) in ("index", "notes")


def test_records_have_named_fields() -> None:
    """No record of a header's index is subscripted or unpacked."""
    for name, module in NAMES.items():
        for node in nodes_of(module):
            assert not (isinstance(node, ast.Subscript) and _is_record_call(node.value)), f"{name}: {ast.unparse(node)}"
            if isinstance(node, ast.Assign) and _is_record_call(node.value):
                unpacked = any(isinstance(target, ast.Tuple) for target in node.targets)
                assert not unpacked, f"{name}: {ast.unparse(node)}"
