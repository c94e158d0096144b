"""Finds the files of other projects: `I2S_SHARED`, or the folder `shared` beside the checkout."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path

# One test process runs on each processor. If NumPy also starts a thread for each processor, these wait for each other,
# and small matrix products take a hundred times as long. NumPy reads this variable at its first import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests start hundreds of processes. Without byte code each of them, and each test process, compiles all its imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Some tests interrupt programs, but child processes inherit ignored signals: SIGINT in the background of a shell,
# SIGHUP under nohup.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import examples  # registers the profiles before a test module is imported
import pytest
from hypothesis import settings

# These change the output, in this process and in child processes; tests about one of them set it.
for name in ("COLUMNS", "LINES", "MANWIDTH", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "SOURCE_DATE_EPOCH"):
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm"

sys.dont_write_bytecode = False
settings.load_profile("quick")  # `--hypothesis-profile` loads another one later

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("I2S_SHARED") or ROOT.parent / "shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-transcripts", action="store_true", help="Write golden transcripts anew (tests/transcripts)."
    )


def pytest_configure(config: pytest.Config) -> None:
    examples.THOROUGH = config.option.markexpr != "not thorough"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and exclude them from it afterwards: thousands, which all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # tests make many objects and few cycles
        gc.enable()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the reference implementations' vectors and other projects' files."""
    if not (SHARED / "vectors" / "manifest.json").is_file():
        pytest.skip(f"no reference files: set I2S_SHARED, or put them into {SHARED.name}/ beside the checkout")
    return SHARED


@pytest.fixture(params=["committed", "shared"])
def vectors(request: pytest.FixtureRequest) -> Path:
    """The vectors of the reference implementations: the few in the repository, then all of them."""
    if request.param == "committed":
        return Path(__file__).resolve().parent / "oracle"
    return Path(request.getfixturevalue("shared")) / "vectors"


@pytest.fixture(scope="session")
def run_by_wine(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """A function that runs a Windows program with arguments and returns the lines that it prints."""
    from windows import caller_of_wine

    return caller_of_wine(tmp_path_factory.mktemp("wine"))
