"""The pytest plug-in of a pass: it loads the extensions of the built copy, one set of kernels, and tight buffers.

Its settings come from the environment, because it is loaded before anything else; `passes` sets them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tight
from extensions import extensions
from hypothesis import settings

#: The folder of the copy, the kernel sets that count as available, and the file with the name of the running test.
PROJECT, SETS, RUNNING = "I2S_SANITISED_PROJECT", "I2S_SANITISED_SETS", "I2S_SANITISED_RUNNING"


def _only(kernel_sets: Callable[[], Any], names: list[str]) -> Callable[[], Any]:
    """A table of kernels on a processor without other sets, which tests use."""
    return lambda: [(name, available and name in names) for name, available in kernel_sets()]


def pytest_configure(config: pytest.Config) -> None:
    project = Path(os.environ[PROJECT])
    modules: dict[str, Any] = {}
    for name, path in extensions(project).items():
        module = import_module(name)
        assert Path(str(module.__file__)).samefile(path), f"{name} is {module.__file__}"
        modules[name.removeprefix("i2s_spec.")] = module
    names = os.environ[SETS].split()
    if names:
        for module in modules.values():
            if hasattr(module, "kernel_sets"):
                module.kernel_sets = _only(module.kernel_sets, names)
    if modules:
        tight.fit(modules)
    # Slow tests are expected here. A pass of one kernel set is one of several with the same examples.
    settings.register_profile("sanitised", max_examples=50 if names else 100, deadline=None)
    settings.load_profile("sanitised")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests of the definition alone, which run no compiled code."""
    calls = [getattr(item, "callspec", None) for item in items]
    gone = {item for item, each in zip(items, calls, strict=True) if each and each.params.get("codec") == "reference"}
    if gone:
        config.hook.pytest_deselected(items=[item for item in items if item in gone])
        items[:] = [item for item in items if item not in gone]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Record the test that starts, because a process that a sanitizer ends cannot report it."""
    Path(os.environ[RUNNING]).write_text(nodeid, encoding="utf-8")
