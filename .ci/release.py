"""Makes what a tag publishes, in `dist/`: sdist, wheel, site, test vectors, bill of materials (CycloneDX), SHA256SUMS.

    python .ci/release.py           make them, from the last commit
    python .ci/release.py --check   only check that a release can be made

The version must be no development version, and that of CHANGELOG.md and CITATION.cff; nothing may be uncommitted, and no
`dist/` be there. Dates in archives are that of the commit. It needs git, GNU tar and a package index.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*words: str | Path, folder: Path = ROOT) -> str:
    """Run a command and return its output; a failure ends the program."""
    return subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def problems() -> list[str]:
    """Return why no release can be made."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    found = [] if re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?", version) else [f"{version} is a development version"]
    for name, pattern in (("CHANGELOG.md", r"(?m)^## (\S+)"), ("CITATION.cff", r"(?m)^version: (\S+)")):
        named = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"))[:1]
        found += [] if named == [version] else [f"{name} is of version {' '.join(named)}, pyproject.toml of {version}"]
    found += ["dist is there already"] if (ROOT / "dist").exists() else []
    return found + [f"not committed: {line[3:]}" for line in run("git", "status", "--porcelain").splitlines()]


def make(out: Path, work: Path) -> None:
    """Write all artefacts to the folder `out`; `work` is an empty folder."""
    os.environ["SOURCE_DATE_EPOCH"] = date = run("git", "log", "-1", "--format=%ct").strip()
    stable = ("--sort=name", f"--mtime=@{date}", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+rw")
    tools, env, source = (work / name for name in ("tools/bin", "env/bin", "source"))
    source.mkdir()
    run("git", "archive", "-o", work / "source.tar", "HEAD")
    run("tar", "-xf", work / "source.tar", "-C", source)
    venv.create(tools.parent, with_pip=True)
    venv.create(env.parent)  # without pip, which would be in the bill of materials
    pip = (tools / "python", "-m", "pip", "--python", env / "python")
    run(tools / "pip", "install", "-q", "build", "cyclonedx-bom")
    run(tools / "python", "-m", "build", "--sdist", "--outdir", work / "sdist", source)
    (sdist,) = (work / "sdist").glob("*.tar.gz")
    name = sdist.name.removesuffix(".tar.gz")
    run("tar", "-xzf", sdist, "-C", work)
    run(*pip, "wheel", "-q", "--no-deps", "-w", out, work / name)
    (wheel,) = out.glob("*.whl")
    run(*pip, "install", "-q", wheel)
    bill = ("environment", env / "python", "--pyproject", source / "pyproject.toml", "--output-reproducible")
    run(tools / "cyclonedx-py", *bill, "-o", out / f"{name}.cdx.json")
    run(env / "i2s", "vectors", "export", "-q", work / f"{name}-vectors")
    run(*pip, "install", "-q", f"{wheel}[docs]")
    run(env / "python", "-m", "mkdocs", "build", "-q", "-d", work / f"{name}-site", folder=source)
    for folder in (name, f"{name}-vectors", f"{name}-site"):
        run("tar", *stable, "--use-compress-program=gzip -n", "-cf", out / f"{folder}.tar.gz", "-C", work, folder)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


if __name__ == "__main__":
    if found := problems():
        sys.exit("\n".join(found))
    if sys.argv[1:] != ["--check"]:
        (ROOT / "dist").mkdir()
        with tempfile.TemporaryDirectory() as place:
            make(ROOT / "dist", Path(place))
