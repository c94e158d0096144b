"""mkdocs calls this first, so that the package uses the text of this checkout, however it was installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from i2s_spec.docs import checkout


def on_config(config: Any) -> Any:
    """Name the folder of `mkdocs.yml` as the checkout.

    :raises SettingError: if the installed package has another version
    """
    checkout.use(Path(config.config_file_path).parent)
    return config
