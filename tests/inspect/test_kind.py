"""The kind of a file: recognised, named first by every command, and judged by its own rules alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from i2s_spec.checkup import doctor
from i2s_spec.cli import main
from i2s_spec.gguf.reader import open_file
from i2s_spec.inspect.identify import identify, page
from i2s_spec.inspect.kind import kind_of
from i2s_spec.linter.analysis.conditions import every_file  # noqa: F401
from i2s_spec.linter.engine import lint
from i2s_spec.schema import kinds
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.companions import Companion
from i2s_spec.testing.sample import Draft, Model

OTHERS = [name for name in kinds.KINDS if name != kinds.MODEL]
