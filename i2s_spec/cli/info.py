"""`i2s info`: what is installed and what this machine can do."""

from __future__ import annotations
