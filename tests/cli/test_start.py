"""Imports of each command before it works: a limit on the number of modules, and libraries that must not be imported.

Most of the time of a short run is spent on imports. A command that needs one more library, or many more modules, must be
changed here first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from i2s_spec.cli.verbs import VERBS
from i2s_spec.convert.synthetic.new import new
from i2s_spec.testing.sample import Draft

ASK = """
import sys
bare = set(sys.modules)
sys.argv = {argv!r}
from i2s_spec.cli import main
try:
    main()
except SystemExit as stop:
    status = stop.code
new = set(sys.modules) - bare
print(status, sum(name.startswith("i2s_spec") for name in new), *sorted(new), file=sys.stderr)
"""

#: The most expensive imports: libraries, and standard modules that load many others.
HEAVY = {"numpy", "construct", "rich", "click", "typing", "re", "inspect", "dataclasses", "pathlib", "json", "tempfile",
         "functools", "contextlib", "enum", "threading", "subprocess", "importlib.metadata", "concurrent.futures",
         "multiprocessing", "collections", "math", "struct", "array", "i2s_spec._cyutility"}  # fmt: skip
#: Not counted: standard modules that CPython 3.14 split off, or no longer loads at start.
SINCE_314 = {"io", "abc", "_abc", "errno", "annotationlib", "_types", "_py_warnings", "_zstd", "compression"}
CLICK = {"functools", "contextlib", "click", "typing", "re", "enum", "inspect", "threading", "collections", "math"}
#: Of what compares weights, for their layout.
EVIDENCE = {"i2s_spec._cyutility", "collections", "math", "struct"}
#: Not counted either: standard modules that CPython 3.12 or 3.15 split off.
OTHERS_SPLIT_OFF = {"_tokenize", "math.integer", "_math_integer"}


class Start(NamedTuple):
    """A command line, how many modules it may import of this package and in all, and which heavy ones it needs.

    FILE has three tensors and no declared architecture; MODEL is like real files, with a template to cut.
    """

    words: list[str]
    ours: int
    all: int
    needs: set[str]


STARTS = {
    "version": Start(["--version"], 3, 10, set()),
    "lint": Start(["lint", "FILE"], 82, 95, set()),
    "header": Start(["lint", "--header-only", "MODEL"], 91, 104, set()),
    "model": Start(["lint", "MODEL"], 126, 150, EVIDENCE),
    "security": Start(["lint", "--profile", "security", "-q", "MODEL"], 88, 101, set()),
    "json": Start(["lint", "--json", "FILE"], 80, 113, {"json", "re", "enum", "functools", "collections"}),
    "rules": Start(["rules", "--format", "json"], 101, 202, CLICK | {"json", "pathlib", "struct", "array"}),
    "identify": Start(["identify", "MODEL"], 93, 180, CLICK | EVIDENCE),
    "help": Start(["lint", "--help"], 61, 144, CLICK),
}


#: How many modules of this package, and in all, a verb imports for its help: most of them, and those that take more.
HELP = (34, 130)
MORE_HELP = {
    "census": (72, 185),
    "demo": (78, 185),
    "info": (16, 165),
    "lint": (66, 150),
    "show": (44, 130),
    "validate": (66, 150),
}
#: No verb needs these to describe itself.
NOT_FOR_HELP = {"numpy", "construct", "rich", "gguf", "tokenizers", "dask", "multiprocessing", "concurrent.futures"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small complete model, whose names and architecture are those of real files."""
    path = tmp_path_factory.mktemp("start") / "tiny.gguf"
    new(path)
    return path


@pytest.mark.parametrize("name", STARTS)
def test_a_command_imports_only_what_it_needs(name: str, model: Path, tmp_path: Path) -> None:
    start = STARTS[name]
    path = tmp_path / "sample.gguf"
    path.write_bytes(Draft().data)
    paths = {"FILE": str(path), "MODEL": str(model)}
    ours, modules = imported([paths.get(word, word) for word in start.words], tmp_path)
    assert HEAVY & set(modules) <= start.needs
    assert ours <= start.ours, f"{name} imports {ours} modules of the package"
    assert len(modules) <= start.all, f"{name} imports {len(modules)} modules"


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_describes_itself_with_few_imports(verb: str, tmp_path: Path) -> None:
    ours, modules = imported([verb, "--help"], tmp_path)
    most, most_in_all = MORE_HELP.get(verb, HELP)
    assert not NOT_FOR_HELP & set(modules)
    assert ours <= most, f"{verb} --help imports {ours} modules of the package"
    assert len(modules) <= most_in_all, f"{verb} --help imports {len(modules)} modules"


def imported(words: list[str], folder: Path) -> tuple[int, list[str]]:
    """What a command imports beyond Python itself: how many modules of the package, and all that are counted."""
    run = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n" + ASK.format(argv=["i2s", *words])],
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    status, ours, *modules = run.stderr.splitlines()[-1].split(" ")
    assert status == "0"
    uncounted = SINCE_314 | OTHERS_SPLIT_OFF
    return int(ours), [module for module in modules if not {module, module.partition(".")[0]} & uncounted]
