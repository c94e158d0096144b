"""A user's script runs, and `mypy --strict` accepts it with only the installed package available."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("user_script.py")


def test_the_script_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["128 0.5", "G001 0"]


def _example_of_the_readme() -> str:
    """The Python of the README; `mypy` knows a bare expression for what it is."""
    text = (SCRIPT.parents[2] / "README.md").read_text(encoding="utf-8")
    return text.partition("```python\n")[2].partition("```")[0]


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("mypy") is None, reason="no mypy: pip install -e '.[lint]'")
@pytest.mark.parametrize(
    "text", [SCRIPT.read_text(encoding="utf-8"), _example_of_the_readme()], ids=["script", "README"]
)
def test_scripts_pass_strict_type_checks(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", script]

    def errors() -> list[str]:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=300)
        return [line for line in done.stdout.splitlines() if "error:" in line]

    assert errors() == []
    script.write_text(text + "\nwrong: int = i2s.lint('a').exit_code(1)\n", encoding="utf-8")
    assert len(errors()) == 1
