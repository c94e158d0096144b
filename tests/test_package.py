"""The package as a whole: what it imports when it starts, what it offers, and what it says if it was not built."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from examples import share

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "i2s_spec"

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
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
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
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == "['i2s_spec']"


def test_ci_runs_what_the_site_needs() -> None:
    """Tests of the extra [docs] are skipped by the README's command, so that a step of their own names them."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for path in (ROOT / "tests" / "docs").rglob("test_*.py"):
        if re.search(r'find_spec\("material"\)|importorskip\("pymdownx', path.read_text(encoding="utf-8")):
            assert path.relative_to(ROOT).as_posix() in script, path.name


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
