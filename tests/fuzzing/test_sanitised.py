"""The harness of the sanitizers detects faults; fuzz/sanitised itself takes minutes and runs in CI."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "fuzz" / "sanitised"
sys.path.insert(0, str(HERE))

import canaries  # noqa: E402
import extensions  # noqa: E402
import memcheck  # noqa: E402
import passes  # noqa: E402
import tight  # noqa: E402

sys.path.remove(str(HERE))

#: Branches on an uninitialized byte.
UNWRITTEN = """
#include <stdlib.h>
int decides(int unwritten) {
    unsigned char *made = malloc(8);
    int found;
    if (made == NULL) return 0;
    if (!unwritten) made[7] = 1;
    found = made[7] > 100 ? 2 : 1;
    free(made);
    return found;
}
"""


@pytest.fixture(scope="module")
def sanitizers() -> None:
    try:
        extensions.libraries()
    except (extensions.BuildError, OSError) as error:
        pytest.skip(f"no sanitizers here: {error}")


@pytest.mark.thorough
@pytest.mark.usefixtures("sanitizers")
def test_injected_faults_are_noticed(tmp_path: Path) -> None:
    """Beyond the heap's and the stack's blocks, freed memory, shifts, sums, casts and addresses: each ends the process."""
    assert canaries.unnoticed(tmp_path, tmp_path) == []


@pytest.mark.thorough
@pytest.mark.usefixtures("sanitizers")
def test_a_fault_that_is_not_noticed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "FLAGS", ("-g", "-O1"))
    monkeypatch.setattr(canaries, "FAULTS", {name: canaries.FAULTS[name] for name in ("sound", "shifts_too_far")})
    (told,) = canaries.unnoticed(tmp_path, tmp_path)
    assert told.startswith("shifts_too_far: status 0")


@pytest.mark.thorough
@pytest.mark.usefixtures("sanitizers")
def test_a_pass_says_in_which_test_a_sanitizer_ended_it(tmp_path: Path) -> None:
    library = extensions.compile_library(HERE / "canary.c", tmp_path)
    (tmp_path / "test_broken_kernel.py").write_text(
        "import ctypes\nimport numpy as np\nfrom tight import tight\n"
        f"kernel = ctypes.CDLL({str(library)!r})\n"
        "kernel.reads_beyond.argtypes = [ctypes.c_void_p, ctypes.c_int64]\n"
        "def test_whole_words(): assert kernel.reads_beyond(np.ones(8, dtype=np.uint8).ctypes.data, 8) == 4\n"
        "def test_the_rest():\n    part = tight(np.ones(64, dtype=np.uint8)[3:10])\n"
        "    kernel.reads_beyond(part.ctypes.data, part.size)\n"
    )
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").write_text("[tool.setuptools]\next-modules = []\n")
    each = passes.Pass("broken", "portable", (), (str(tmp_path / "test_broken_kernel.py"),))
    outcome = passes.run(each, tmp_path / "project", tmp_path, more=False)
    assert not outcome.passed
    assert outcome.summary.startswith("a sanitizer ended ")
    assert outcome.summary.endswith("::test_the_rest")
    assert "ERROR: AddressSanitizer" in outcome.details
    assert "canary.c" in outcome.details


def test_sets_share_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that names no set has the best one; the best of the others reads whole files; the last has the models."""
    from i2s_spec.codec import isa

    table = tuple(isa.KernelSet(row, name, True) for row, name in enumerate(["portable", "avx2", "avx512"]))
    monkeypatch.setattr(isa, "kernel_sets", lambda: table)
    for last, whole in (("avx512", "avx2"), ("amx", "avx512")):  # a set that other tables provide is better still
        have = [*(each.name for each in table[:-1]), "avx512", *([last] if last == "amx" else [])]
        monkeypatch.setattr(isa, "names", lambda have=have: tuple((name, True) for name in have))
        files, *sets = passes.planned(["portable", "avx2", "avx512"], more=False)
        assert (files.isa, files.sets, files.tests) == ("", (), passes.FILES)
        assert all(set(passes.KERNELS) <= set(each.tests) for each in sets)
        assert [each.name for each in sets if set(passes.WHOLE_FILES) & set(each.tests)] == [whole]
        assert [each.name for each in sets if set(passes.BEST) & set(each.tests)] == ["avx512"]
        assert {test for each in sets for test in each.tests} == {*passes.KERNELS, *passes.WHOLE_FILES, *passes.BEST}
        _, only = passes.planned(["avx512"], more=False)  # all that is asked for
        assert set(only.tests) == {*passes.KERNELS, *passes.WHOLE_FILES, *passes.BEST}


#: Counts calls of the extensions in a test, and makes the test fail.
COUNTING = """
import pytest
from importlib import import_module

calls = []

def counted(name, function):
    def called(*args, **options):
        calls.append(name)
        return function(*args, **options)
    return called

def counting(name, kind):
    class Counting(kind):
        def __new__(cls, *args, **options):
            calls.append(name)
            return super().__new__(cls, *args, **options)
    return Counting

def pytest_configure(config):
    for name in NAMES:
        module = import_module(name)
        for each, value in vars(module).copy().items():
            if each.startswith("_") or each == "kernel_sets" or not callable(value):
                continue
            if not isinstance(value, type):
                setattr(module, each, counted(f"{name}.{each}", value))
            elif value.__module__ == name and value.__flags__ & 1 << 10:  # it can be a base
                setattr(module, each, counting(f"{name}.{each}", value))

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    calls.clear()
    yield
    assert not calls, f"compiled code was called: {calls[0]}"
"""


@pytest.mark.thorough
def test_what_is_left_out_as_not_compiled_calls_nothing_compiled(tmp_path: Path) -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        names = [each["name"] for each in tomllib.load(file)["tool"]["setuptools"]["ext-modules"]]
    (tmp_path / "counting.py").write_text(
        COUNTING.replace("NAMES", repr([name for name in names if "_cpu" not in name]))
    )
    compiled = ["tests/codec/test_vectors.py::test_code_3", "tests/inspect/test_survey.py::test_runs_and_code_3"]
    words = ["-n0", "-p", "counting", "-p", "no:cacheprovider", "-rf", *passes.NOT_COMPILED, *compiled]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    failed = {line.split()[1].partition("[")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == set(compiled), done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("offset", [0, 1, 15, 16, 33, 63])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_tight_copies(offset: int, dtype: Any) -> None:
    """The same content at a like address, in memory that ends with it."""
    raw = np.random.default_rng(offset).integers(0, 256, 640 + 64, dtype=np.uint8)
    given = raw[offset : offset + 640].view(dtype)[:21]
    made = tight.tight(given)
    assert made.tobytes() == given.tobytes()
    assert made.dtype == given.dtype
    assert not np.shares_memory(made, given)
    assert (made.ctypes.data - given.ctypes.data) % tight.LEAST == 0
    owner = made
    while owner.base is not None:
        owner = owner.base
    assert owner.ctypes.data + owner.nbytes == made.ctypes.data + made.nbytes


def test_tight_copies_of_other_objects_than_arrays() -> None:
    assert tight.tight(b"") == b""
    text = tight.tight(b"abc")
    assert text.tobytes() == b"abc"
    assert not text.flags.writeable
    assert tight.tight(memoryview(bytearray(b"abc"))[1:]).tolist() == [98, 99]


def test_what_is_written_into_a_tight_copy_comes_back() -> None:
    def doubled(source: Any, target: Any) -> str:
        np.multiply(source, 2, out=target)
        return "done"

    source, target = np.arange(8, dtype=np.uint8), np.zeros(16, dtype=np.uint8)
    assert tight.fitted(doubled, (0, 1))(source[:4], target[4:8]) == "done"
    assert target.tolist() == [0] * 4 + [0, 2, 4, 6] + [0] * 8
    assert source.tolist() == list(range(8))


def test_functions_with_tight_arguments_exist() -> None:
    """A function that is renamed is renamed there as well."""
    from importlib import import_module

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["ext-modules"]
    names = {each["name"].removeprefix("i2s_spec.") for each in declared}
    assert set(tight.ARGUMENTS) <= names
    for name, functions in tight.ARGUMENTS.items():
        assert all(callable(getattr(import_module(f"i2s_spec.{name}"), function)) for function in functions)


def test_everything_that_is_run_exists() -> None:
    chosen = [*passes.FILES, *passes.WHOLE_FILES, *passes.KERNELS, *passes.BEST, *passes.LEFT_OUT]
    chosen += [*passes.MORE_FILES, *passes.MORE_KERNELS]
    assert [path for path in chosen if not (ROOT / path.partition("::")[0]).exists()] == []
    slow = [test.partition("[")[0].partition("::") for test in passes.SLOW]
    assert all(f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") for path, _, name in slow)


def test_a_pass_for_each_set_and_what_is_built_upon_it() -> None:
    made = {each.name: each for each in passes.planned(["portable", "avx2", "avx512"], more=False)}
    assert list(made) == ["files", "portable", "avx2", "avx512"]
    assert made["avx2"].sets == ("avx2", "avxvnni", "avx512vl")
    assert made["avx512"].sets in (("avx512",), ("avx512", "amx"))  # not every compiler knows AMX
    assert made["files"].sets == ()


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="no valgrind, or no gcc")
def test_valgrind_sees_what_was_never_written(tmp_path: Path) -> None:
    (tmp_path / "unwritten.c").write_text(UNWRITTEN)
    library = tmp_path / "unwritten.so"
    subprocess.run(["gcc", "-g", "-O0", "-shared", "-fPIC", "unwritten.c", "-o", library], cwd=tmp_path, check=True)
    assert ctypes.CDLL(str(library)).decides(0) == 1
    script = (
        "import ctypes, sys; kernel = ctypes.CDLL(sys.argv[1]); kernel.decides(0); kernel.decides(int(sys.argv[2]))"
    )
    words = [sys.executable, "-I", "-S", "-c", script, str(library)]
    (error,) = memcheck.watched([*words, "1"], "unwritten.so", tmp_path)
    assert "uninitialised" in error
    assert "decides unwritten.c:" in error


def test_help_and_an_unknown_set(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "I2S_ISA"}
        command = [sys.executable, str(HERE), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)

    assert run("--help").returncode == 0
    unknown = run("--isa", "mmx")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("sanitised: there is no set mmx; there are portable")


def test_positions_beyond_every_file_are_refused() -> None:
    """Sums of them would wrap, so that a part seemed to lie in a buffer."""
    from i2s_spec.codec._survey import Parts

    for at, pos, size in [(2**63 - 64, 0, 64), (0, 2**63 - 4096, 64), (64, 0, 2**63 - 64), (2**61, 0, 0)]:
        with pytest.raises(ValueError, match="no such part"):
            Parts("portable").add(at, pos, size, 32)
    parts = Parts("portable")
    parts.add(2**61 - 1, 2**61 - 4096, 2**61 - 1, 32)
    with pytest.raises(ValueError, match="outside the buffer"):
        parts.of_memory(b"x" * 100)
