"""The README's first commands work as typed: the first makes an environment, and then each of the others works. So does an
installation where there is no C compiler, and a wheel where Python has no headers.

This takes minutes and a package index, so it runs only on request, as in CI: `I2S_INSTALL=1 pytest
tests/test_install.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: pip's messages when it cannot reach an index.
OFFLINE = re.compile(
    r"No matching distribution|Temporary failure|Connection|Could not find a version|timed out|Max retries"
)

pytestmark = [
    pytest.mark.install,
    pytest.mark.skipif(
        not os.environ.get("I2S_INSTALL"), reason="takes minutes and a package index: set I2S_INSTALL=1"
    ),
]

#: What is not part of a checkout, or not needed to install it.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "*.so", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "fuzz", "bench"
)
#: Tests of behaviour that an installation without a compiler passes, too; those of all twins, and of commands.
BEHAVIOUR = [
    "tests/codec/test_native.py", "tests/codec/test_blocks.py", "tests/codec/test_float_passes.py",
    "tests/codec/test_reference_survey_kernels.py", "tests/gguf/test_scanner.py", "tests/gguf/test_strings.py",
    "tests/layout_inference/test_evidence_layout.py", "tests/model/test_bitlinear.py", "tests/model/test_table_lookup.py",
    "tests/cli/test_show_dump.py", "tests/cli/test_golden.py",
]  # fmt: skip
#: Commands of a user, which work without a compiler.
COMMANDS = """
i2s demo
i2s new model.gguf
i2s lint model.gguf
i2s show model.gguf
i2s dump model.gguf blk.0.attn_q.weight --limit 2
i2s identify model.gguf
i2s doctor model.gguf
i2s hash model.gguf
i2s decode model.gguf blk.0.attn_q.weight trits.npy
i2s encode trits.npy payload.bin --scale 1
i2s convert model.gguf other.gguf --to Q2_0
i2s diff model.gguf other.gguf
i2s fix model.gguf --dry-run
i2s golden record model.gguf --tokens 3,51,130 -o golden
i2s golden record model.gguf --tokens 3,51,130 -o again
i2s golden compare golden again --model model.gguf
i2s new trained.gguf --trained
i2s run trained.gguf --prompt 'One day' -n 8
i2s run trained.gguf --prompt 'One day' -n 4 --numerics bitnet-golden-1
"""


def blocks() -> list[list[str]]:
    """The lines of every block of shell commands, without their comments."""
    found = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [[line.partition(" # ")[0].strip() for line in block.splitlines() if line.strip()] for block in found]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout without what was built, with the environment that the README's first command makes."""
    copy = tmp_path_factory.mktemp("install") / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    (first,) = blocks()[0]
    done = subprocess.run(
        ["bash", "-c", first], cwd=copy, capture_output=True, encoding="utf-8", check=False, env=plain()
    )
    if done.returncode != 0 and OFFLINE.search(done.stderr):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert "model.gguf: ok" in done.stdout  # the demo
    return copy


def plain() -> dict[str, str]:
    """The environment without settings of this run, and without this run's own packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("I2S_", "PYTHON", "VIRTUAL_ENV"))}


def test_each_line_works_as_typed(checkout: Path, tmp_path: Path) -> None:
    """In their order, with `.venv/bin` on the PATH."""
    (lines,) = [block for block in blocks() if len(block) > 1]
    assert len(lines) >= 5
    environment = plain() | {"PATH": f"{checkout}/.venv/bin{os.pathsep}{os.environ['PATH']}"}
    said = {}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, env=environment
        )
        assert done.returncode == 0, f"{line}: {done.returncode}: {done.stdout[-500:]}{done.stderr[-1000:]}"
        said[line] = done.stdout
    assert any(line.startswith("i2s run") and len(output) > 100 for line, output in said.items())


def test_the_plain_install_has_none_of_the_extras(checkout: Path) -> None:
    code = "import importlib.util as u; print([n for n in ('tokenizers', 'jinja2', 'gguf', 'hypothesis') if u.find_spec(n)])"
    run = subprocess.run(
        [checkout / ".venv/bin/python", "-c", code],
        cwd="/",
        capture_output=True,
        encoding="utf-8",
        check=True,
        env=plain(),
    )
    assert run.stdout == "[]\n"


#: The variables of the environments that `pip` made, by their folders.
HIDDEN: dict[Path, dict[str, str]] = {}


def hidden(folder: Path) -> dict[str, str]:
    """An environment in which no program is found but those of an environment of Python, and the shell."""
    (folder / "programs").mkdir()
    for name in ("sh", "env"):
        (folder / "programs" / name).symlink_to(str(shutil.which(name)))
    left = {name: value for name, value in plain().items() if name not in ("CC", "CPATH", "C_INCLUDE_PATH", "CFLAGS")}
    return left | {"PATH": f"{folder}/env/bin{os.pathsep}{folder}/programs"}


@cache
def without_headers() -> tuple[str, ...]:
    """What runs a command where the folder of Python's headers is empty; nothing where namespaces are not allowed."""
    programs = [shutil.which(name) for name in ("unshare", "sh", "mount")]
    if None in programs:
        return ()
    unshare, shell, mount = map(str, programs)
    words = (unshare, "-rm", shell, "-c", f'{mount} -t tmpfs none "$0" && exec "$@"', sysconfig.get_path("include"))
    allowed = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if allowed else ()


def pip(folder: Path, *words: str, headers: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
    """pip in an environment of its own, where no compiler is found, nor, unless asked for, Python's headers."""
    if not (folder / "env").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        HIDDEN[folder] = hidden(folder)
    done = subprocess.run(
        [*(() if headers else without_headers()), str(folder / "env/bin/python"), "-m", "pip", *words],
        cwd=folder, capture_output=True, encoding="utf-8", check=False, env=HIDDEN[folder] | more,
    )  # fmt: skip
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    return done


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installation from a checkout, where no compiler was found."""
    folder = tmp_path_factory.mktemp("uncompiled")
    shutil.copytree(ROOT, folder / "checkout", ignore=LEFT_OUT)
    done = pip(folder, "install", "-v", str(folder / "checkout"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "nothing was compiled, since there is no C compiler" in done.stdout + done.stderr
    assert "py3-none-any.whl" in done.stdout
    return folder


def test_without_a_compiler_definitions_are_used(uncompiled: Path) -> None:
    (package,) = (uncompiled / "env").glob("lib/python*/site-packages/i2s_spec")
    assert not list(package.rglob("*.so"))
    for line in ("i2s info", *COMMANDS.strip().splitlines()):
        done = subprocess.run(
            ["sh", "-c", line], cwd=uncompiled, capture_output=True, encoding="utf-8", check=False, timeout=120,
            env=HIDDEN[uncompiled],
        )  # fmt: skip
        assert done.returncode in ((0, 1) if line.startswith("i2s diff") else (0,)), (
            f"{line}: {done.stdout[-500:]}{done.stderr}"
        )
        if line == "i2s info":
            assert "Kernels:           none compiled" in done.stdout


def test_without_a_compiler_the_behaviour_is_the_same(uncompiled: Path) -> None:
    """Tests of this checkout, with what this run has installed, of the other package."""
    (packages,) = (uncompiled / "env").glob("lib/python*/site-packages")
    shutil.copytree(packages / "i2s_spec", uncompiled / "package" / "i2s_spec")
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *BEHAVIOUR]
    environment = plain() | {"PYTHONPATH": str(uncompiled / "package")}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_a_compiler_that_fails_is_an_error(uncompiled: Path) -> None:
    failing = uncompiled / "cc"
    failing.write_text("#!/bin/sh\necho no compiler today >&2\nexit 1\n", encoding="utf-8")
    failing.chmod(0o755)
    done = pip(uncompiled, "wheel", "--no-deps", "-w", "none", "./checkout", headers=True, CC=str(failing))
    assert done.returncode != 0
    assert not (uncompiled / "none").exists() or not list((uncompiled / "none").iterdir())
    assert "no compiler today" in done.stdout + done.stderr


def test_a_wheel_needs_neither_compiler_nor_headers(tmp_path: Path) -> None:
    """The wheel of this checkout is built as usual, and installed where Python.h is nowhere."""
    shutil.copytree(ROOT, tmp_path / "checkout", ignore=LEFT_OUT)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "tools")], check=True)
    words = [
        str(tmp_path / "tools/bin/pip"),
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(tmp_path),
        str(tmp_path / "checkout"),
    ]
    built = subprocess.run(words, capture_output=True, encoding="utf-8", check=False, env=plain())
    if built.returncode and OFFLINE.search(built.stderr):
        pytest.skip(f"no package index: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr[-3000:]
    (wheel,) = tmp_path.glob("*.whl")
    assert "none-any" not in wheel.name
    done = pip(tmp_path, "install", "-q", "--only-binary", ":all:", str(wheel))
    assert done.returncode == 0, done.stderr
    for line, wanted in (("i2s demo", "model.gguf: ok"), ("i2s info", "Kernels, codec:")):
        ran = subprocess.run(
            [*without_headers(), "sh", "-c", line],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            check=False,
            env=HIDDEN[tmp_path],
        )
        assert (ran.returncode, wanted in ran.stdout) == (0, True), ran.stdout[-500:] + ran.stderr
