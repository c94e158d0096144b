"""The implementations of the codec, each of which every law and every vector is held against."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(scope="session", params=["reference", "native"])
def codec(request: pytest.FixtureRequest) -> Any:
    return import_module(f"i2s_spec.codec.{request.param}")
