"""The passes of a run: their tests, kernel sets, environments and results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import sanitised_plugin as plugin
from extensions import ROOT, libraries

HERE = Path(__file__).resolve().parent

#: Tests that read files, mostly headers. They run once, with the best set, and each Python object has memory of its own.
FILES: Final = (
    "fuzz/fuzz_container.py", "fuzz/fuzz_command_line.py", "tests/gguf/test_scanner.py", "tests/gguf/test_strings.py",
)  # fmt: skip

#: Tests that read whole files. They run with one set that is not the best, because the best set has most other tests.
WHOLE_FILES: Final = ("fuzz/fuzz_lint.py", "fuzz/fuzz_round_trips.py")

#: Tests that run with each set of kernels.
KERNELS: Final = (
    "fuzz/fuzz_payload.py", "tests/codec/test_recode.py", "tests/codec/test_vectors.py",
    "tests/codec/test_survey_kernels.py", "tests/inspect/test_survey.py", "tests/fuzzing/test_addresses.py",
)  # fmt: skip

#: Tests that run with the last set only: programs in C (`LEFT_OUT`) call the kernels of all sets with sanitizers, and
#: what Python calls around the kernels is the same for all sets.
BEST: Final = (
    "tests/codec/test_native.py", "tests/model/test_matmul.py", "tests/model/test_panels.py",
    "tests/model/test_fast.py", "tests/model/test_profiles.py",
)  # fmt: skip

#: Beyond what CI has time for.
MORE_FILES: Final = ("tests/gguf", "tests/testing", "tests/linter")
MORE_KERNELS: Final = (
    "fuzz", "tests/codec", "tests/inspect", "tests/convert", "tests/model", "tests/golden",
    "tests/fuzzing/test_addresses.py",
)  # fmt: skip

#: What is left out of every pass, with the reason.
LEFT_OUT: Final = {
    "fuzz/fuzz_differential.py": "the readers of others are not built with sanitizers",
    "tests/codec/test_driver.py": "a program of its own, with sanitizers of its own",
    "tests/model/test_matmul_driver.py": "a program of its own, with sanitizers of its own",
    "tests/model/test_fast_driver.py": "a program of its own, with sanitizers of its own",
    "tests/model/test_oracle_hf.py": "PyTorch is not built with sanitizers",
}

#: Tests that fork while threads may be starting: a lock of AddressSanitizer that is held at that moment is never released
#: in the child, which then waits forever, once in many runs.
FORKS: Final = ("tests/model/test_matmul.py::test_a_child_process_has_threads_of_its_own",)

#: Tests that call no compiled code, so that sanitizers have nothing to check; tests/fuzzing/test_sanitised.py verifies it.
NOT_COMPILED: Final = (
    "tests/model/test_bitlinear.py", "tests/inspect/test_survey.py::test_windows",
    *(
        f"tests/codec/test_vectors.py::{name}"
        for name in (
            "test_committed_files_are_what_their_manifest_says", "test_shared_files_are_what_their_manifest_says",
            "test_elements_that_quantize_i2_s_drops", "test_weight_quant", "test_transform_to_i2",
            "test_preprocessing_of_checkpoints",
        )
    ),
)  # fmt: skip

#: Tests that CI leaves out: slow ones that run no additional line of C, or tests that need kernels that a pass lacks.
SLOW: Final = (
    # Programs of their own, compiled without sanitizers.
    "tests/codec/test_survey_kernels.py::test_blocks_without_python",
    "tests/gguf/test_scanner.py::test_twins_agree_on_files_of_other_projects",
    # These choose among all sets of kernels, and a pass has one.
    "tests/codec/test_native.py::test_kernels_are_numbered_from_the_portable_ones",
    "fuzz/fuzz_payload.py::test_corpus[large-2-19-16]", "fuzz/fuzz_payload.py::test_random_payloads",
)  # fmt: skip

ADDRESS: Final = {
    "detect_leaks": 0,  # Python keeps much to its end
    "allocator_may_return_null": 1,  # too much memory is an answer: MemoryError
    "detect_stack_use_after_return": 0,  # otherwise GCC before 14 misaligns vectors of 64 bytes: its bug 110027
    "malloc_context_size": 4,  # frames of each allocation in a report; more cost a tenth of the time
}
UNDEFINED: Final = {"print_stacktrace": 1, "halt_on_error": 1}

#: How what they report begins.
REPORT: Final = re.compile(r"^.*(?:AddressSanitizer|runtime error:)", re.MULTILINE)


class Pass(NamedTuple):
    """A run of pytest in a process of its own."""

    name: str
    isa: str  # what I2S_ISA is set to, or nothing
    sets: tuple[str, ...]  # names of kernel sets that count as available; none: all that are
    tests: tuple[str, ...]


class Outcome(NamedTuple):
    name: str
    passed: bool
    summary: str
    seconds: float
    details: str  # what is to be shown of a pass that failed


def planned(isas: list[str], more: bool) -> Iterator[Pass]:
    """The passes for the sets that were asked for; each with the sets that only other tables have, up to the next.

    The files are read with the best set, when no set is named. Tests of whole files run with the best one of the others.
    """
    from i2s_spec.codec.isa import kernel_sets, names

    own = {each.name for each in kernel_sets()}
    order = [name for name, _ in names()]
    above = {name: list(takewhile(lambda each: each not in own, order[order.index(name) + 1 :])) for name in isas}

    best = [name for name, runs in names() if runs][-1]
    whole_files = ([name for name in isas if name != best] or isas)[-1]

    yield Pass("files", "", (), FILES + (MORE_FILES if more else ()))
    for isa in isas:
        tests = KERNELS + (WHOLE_FILES if isa == whole_files else ()) + (BEST if isa == isas[-1] else ())
        yield Pass(isa, isa, (isa, *above[isa]), MORE_KERNELS if more else tests)


def environment(project: Path) -> dict[str, str]:
    """What a process needs so that its extensions are those of the copy; what the sanitizers report goes to stderr.

    :raises BuildError: where gcc's sanitizers are not installed
    """

    def joined(options: dict[str, int]) -> str:
        return ":".join(f"{name}={value}" for name, value in options.items())

    return {name: value for name, value in os.environ.items() if name not in ("I2S_ISA", "PYTHONHOME")} | {
        "LD_PRELOAD": libraries(),
        "ASAN_OPTIONS": joined(ADDRESS),
        "UBSAN_OPTIONS": joined(UNDEFINED),
        "PYTHONPATH": os.pathsep.join([str(project), str(HERE)]),
        "PYTHONSAFEPATH": "1",  # the package that lies in the current folder is another one
        "PYTHONMALLOC": "malloc",  # one allocation for each object, not parts of an arena
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # CI installs packages with plugins meanwhile
    }


def run(each: Pass, project: Path, folder: Path, more: bool) -> Outcome:
    """Run a pass; its log stays in the folder."""
    log, running = folder / f"{each.name}.log", folder / f"{each.name}.running"
    running.write_text("nothing: it had not begun", encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-p", "sanitised_plugin", "-p", "no:cacheprovider", "-m", ""]
    # A sanitizer writes past Python, and then nobody is left to tell what was captured.
    words += ["--capture=sys", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    words += [f"--ignore={ROOT / path}" for path in LEFT_OUT]
    words += [f"--deselect={test}" for test in (*NOT_COMPILED, *FORKS, *([] if more else SLOW))]
    words += [str(ROOT / path) for path in each.tests]
    settings = environment(project) | {
        plugin.PROJECT: str(project), plugin.SETS: " ".join(each.sets), plugin.RUNNING: str(running),
    }  # fmt: skip
    if each.isa:
        settings["I2S_ISA"] = each.isa
        del settings["PYTHONMALLOC"]  # kernels get arrays, and tight copies of them

    began = time.monotonic()
    with log.open("wb") as out:
        done = subprocess.run(words, cwd=ROOT, env=settings, stdout=out, stderr=subprocess.STDOUT, check=False)
    seconds = time.monotonic() - began
    log_text = log.read_text(encoding="utf-8", errors="replace")
    report = REPORT.search(log_text)
    if done.returncode == 0 and report is None:
        return Outcome(each.name, True, log_text.rstrip().rpartition("\n")[2].strip("= "), seconds, "")
    if report is None:
        return Outcome(each.name, False, f"pytest gave {done.returncode}", seconds, log_text[-6000:])
    where = running.read_text(encoding="utf-8")
    return Outcome(each.name, False, f"a sanitizer ended {where}", seconds, log_text[report.start() :][:6000])


def run_all(passes: list[Pass], project: Path, folder: Path, more: bool) -> Iterator[Outcome]:
    """Run passes, as many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda each: run(each, project, folder, more), passes)
