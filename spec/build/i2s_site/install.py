"""The page on installation: the README's section, the extras of the package, and where its repository is."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import Final

from i2s_site.checkout import root
from i2s_site.runtimes import table

#: Extras that only work on the package itself needs.
DEVELOPERS: Final = ("training", "oracle", "test", "peers", "test-buckets", "lint")

_PAGE: Final = """\
# Install

{repository}

{section}
## Extras

Some commands need packages that the installation does not bring; each says which one is missing.

{extras}
To remove it, delete the folder of the environment. The package sends no usage data.
"""


def page() -> str:
    """How to install the package."""
    readme = (root() / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Install\n")[2].partition("\n## ")[0]
    section = re.sub(r"^<!--.*-->\n", "", section, flags=re.MULTILINE).strip() + "\n"
    address = repository()
    if address is not None:
        words = f"The repository is [{address.removeprefix('https://')}]({address}). A copy of it:"
        words += f"\n\n```sh\ngit clone {address} && cd {address.rpartition('/')[2].removesuffix('.git')}\n```"
    else:
        words = "This site was built from a copy of the repository that has no public address."
    return _PAGE.format(repository=words, section=section, extras=_extras())


def _extras() -> str:
    with open(root() / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    text = (root() / "pyproject.toml").read_text(encoding="utf-8")
    rows = []
    for name in extras:
        comment = re.search(rf"^{name} = \[.*\] *# (.*?)(\. .*)?$", text, re.MULTILINE)
        if name not in DEVELOPERS:
            rows.append([f"`.[{name}]`", comment[1] if comment else ""])
    return table(["`pip install -e`", "for"], rows)


def repository() -> str | None:
    """Return the public address that this checkout was cloned from; None where it has none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root()), "remote", "get-url", "origin"],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    except OSError:
        return None
    address = re.sub(r"^(?:ssh://)?git@([\w.-]+)[:/]", r"https://\1/", done.stdout.strip())
    return address if re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", address) else None
