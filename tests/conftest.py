"""Finds the files of other projects: `I2S_SHARED`, or the folder `shared` beside the checkout."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

# Tests run as one process for each processor. NumPy's matrix products of small matrices take a hundred times as long where
# its threads, as many as there are processors in each process, wait for each other. Read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests start hundreds of processes; without byte code each of them, and each process of tests, compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Some tests interrupt programs, and children inherit what is ignored: SIGINT by what runs in the background of a shell,
# SIGHUP under nohup.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import examples  # the profiles, before a test module is imported
import pytest
from hypothesis import settings

# What is printed depends on these, in this process and in those that tests start; a test that is about one sets it.
for name in ("COLUMNS", "LINES", "MANWIDTH", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "SOURCE_DATE_EPOCH"):
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm"

sys.dont_write_bytecode = False
settings.load_profile("quick")  # pytest loads another one where --hypothesis-profile names it

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `runs`; last, so that a package built elsewhere is the one that is tested
SHARED = Path(os.environ.get("I2S_SHARED") or ROOT.parent / "shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-transcripts", action="store_true", help="Write golden transcripts anew (tests/transcripts)."
    )


def pytest_configure(config: pytest.Config) -> None:
    examples.THOROUGH = config.option.markexpr != "not thorough"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """`--dist loadscope` begins with the modules that take longest."""
    if config.getoption("dist") != "loadscope":
        return None
    from longest_first import LongestFirst

    return LongestFirst(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it pass by what was collected: thousands of tests that all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the reference implementations' vectors and other projects' files."""
    if not (SHARED / "vectors" / "manifest.json").is_file():
        pytest.skip(f"no reference files: set I2S_SHARED, or put them into {SHARED.name}/ beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def run_by_wine(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Calls a program of Windows with words and gives the lines that it prints."""
    from windows import caller_of_wine

    return caller_of_wine(tmp_path_factory.mktemp("wine"))
