"""The implementations of the codec; every property and every vector is tested with each of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(scope="session", params=["reference", "native"])
def codec(request: pytest.FixtureRequest) -> Any:
    return import_module(f"i2s_spec.codec.{request.param}")
