"""The source distribution is complete: a wheel can be built from it outside the checkout, and its tests run with that.

Building takes minutes and a package index, so it runs only on request, as in `test_install.py`: `I2S_INSTALL=1 pytest
tests/test_sdist.py`. A separate test checks by reading that `MANIFEST.in` names each file of the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Tests that need the compiled extensions, the package's data, and files beside the package.
TESTS = [
    "tests/codec/test_reference.py",
    "tests/gguf/test_sources.py",
    "tests/linter/test_engine.py",
    "tests/linter/test_records_run.py",
    "tests/model/test_matmul.py",
]

#: Prints the folder of an environment's packages.
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"

asked = pytest.mark.skipif(
    not os.environ.get("I2S_INSTALL"), reason="takes minutes and a package index: set I2S_INSTALL=1"
)


def tracked() -> set[str]:
    """The files that git knows; none are known outside a checkout."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        pytest.skip("no git")
    names = {name for name in done.stdout.split("\0") if name}
    if done.returncode or "setup.py" not in names:
        pytest.skip("not a checkout")
    return names


def test_the_manifest_names_all_files() -> None:
    """Whole folders, or files by name; the package itself, and what setuptools adds, need no line."""
    words = [line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()]
    folders = {word for first, *rest in words if first == "graft" for word in rest} | {"i2s_spec"}
    files = {word for first, *rest in words if first == "include" for word in rest} | {"pyproject.toml"}
    left = sorted(name for name in tracked() if name.partition("/")[0] not in folders and name not in files)
    assert left == []
    assert all((ROOT / name).exists() for name in folders | files)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what an sdist of the tracked files holds, and an environment in it."""
    names, place = sorted(tracked()), tmp_path_factory.mktemp("sdist")
    copy = place / "checkout"
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    run([sys.executable, "-m", "venv", str(place / "tools")], place)
    run([str(place / "tools/bin/pip"), "install", "-q", "build", "twine", "auditwheel"], place)
    run([str(place / "tools/bin/python"), "-m", "build", "--sdist", "--outdir", str(place), "."], copy)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(place / "unpacked", filter="data")
    (folder,) = (place / "unpacked").iterdir()
    missing = [name for name in names if not (folder / name).is_file()]
    assert missing == []
    run([str(place / "tools/bin/pip"), "wheel", "-q", "--no-deps", "-w", str(place), str(archive)], place)
    (wheel,) = place.glob("*.whl")
    run([sys.executable, "-m", "venv", ".venv"], folder)
    run([".venv/bin/pip", "install", "-q", "--no-deps", str(wheel)], folder)
    # What the package and its tests need is installed for this run; the file comes behind what is installed here.
    own, here = (Path(run([python, "-c", SITE], folder).strip()) for python in (".venv/bin/python", sys.executable))
    (own / "here.pth").write_text(f"{here}\n", encoding="utf-8")
    return folder


def run(words: list[str], folder: Path) -> str:
    """What a command prints; without settings of this run.

    The working folder holds the package's sources, which no `python -c` is to import in place of what was installed.
    """
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("I2S_", "PYTHON", "VIRTUAL_ENV"))
    }
    plain["PYTHONSAFEPATH"] = "1"
    done = subprocess.run(words, cwd=folder, capture_output=True, encoding="utf-8", check=False, env=plain)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@asked
@pytest.mark.install
def test_an_index_would_take_them(outside: Path) -> None:
    """Their descriptions render, and the wheel needs no library but those of every Linux."""
    place = outside.parent.parent
    archives = [str(path) for path in (*place.glob("*.tar.gz"), *place.glob("*.whl"))]
    assert len(archives) == 2
    assert run([str(place / "tools/bin/twine"), "check", "--strict", *archives], place).count("PASSED") == 2
    if sys.platform == "linux":
        shown = run([str(place / "tools/bin/auditwheel"), "show", archives[1]], place)
        assert 'platform tag: "manylinux' in " ".join(shown.split())


@asked
@pytest.mark.install
def test_it_builds_and_its_tests_run_outside_the_checkout(outside: Path) -> None:
    assert "model.gguf: ok" in run([".venv/bin/i2s", "demo"], outside)
    where = run([".venv/bin/python", "-P", "-c", "import i2s_spec; print(i2s_spec.__file__)"], outside)
    assert Path(where.strip()).is_relative_to(outside / ".venv")
    assert " passed" in run([".venv/bin/python", "-m", "pytest", "-n0", "-p", "no:cacheprovider", *TESTS], outside)
