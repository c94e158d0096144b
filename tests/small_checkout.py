"""A checkout with one page of its own: what the site's generated pages read, and no chapter."""

from __future__ import annotations

import shutil
from pathlib import Path

from i2s_site import checkout


def small_checkout(folder: Path, page: str) -> Path:
    """Write ``page`` as the only chapter of a new checkout in ``folder``; its package holds the version alone."""
    root = checkout.root()
    for part in ("spec/build", "spec/tutorials", "tests/peers"):
        shutil.copytree(root / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.md", "*.pyx"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(root / name, folder)
    (folder / "conformance" / "results").mkdir(parents=True)
    (folder / "i2s_spec").mkdir()
    shutil.copy(root / "i2s_spec" / "_version.py", folder / "i2s_spec")
    (folder / "spec" / "index.md").write_text(page, encoding="utf-8")
    settings = ("site_name: x", "docs_dir: spec", "use_directory_urls: false", "hooks: [spec/build/hook.py]",
                "markdown_extensions: [pymdownx.superfences]", "exclude_docs: build/")  # fmt: skip
    (folder / "mkdocs.yml").write_text("\n".join((*settings, "")), encoding="utf-8")
    return folder
