"""What mkdocs calls: it adds the fences, the generated pages and the tables.

mkdocs has this folder on the path while it loads the hook, so that `i2s_site` is found.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from mkdocs.structure.files import File

from i2s_site import annexes, checkout, fences, generated
from i2s_spec.cli.rules import require_version


def on_config(config: Any) -> Any:
    """Declare the fences to the Markdown extension that calls them.

    :raises SettingError: if the installed package has another version than this checkout
    """
    require_version(checkout.root())
    ours = [{"name": kind, "class": kind, "format": fences.fence} for kind in fences.KINDS]
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = ours
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is generated; `mkdocs serve` makes the pages of the rules only once."""
    for name, text in (generated.pages() | _rules()).items():
        files.append(File.generated(config, name, content=text))
    return files


_rules = cache(generated.rules)


def on_page_markdown(markdown: str, **about: Any) -> str:
    """Put tables in the place of their fences, and anchors beside the numbers of statements."""
    return annexes.with_anchors(generated.with_tables(markdown))
