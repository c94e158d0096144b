"""This module has what every verb does before it works, however its command line was read."""

from __future__ import annotations

import gc
import os


def check_kernels() -> None:
    """Refuse settings of kernels that cannot be followed, whatever the verb."""
    if os.environ.get("I2S_ISA") or os.environ.get("I2S_HIDE"):
        from i2s_spec.codec import isa

        isa.check()


def ready() -> None:
    """What was imported stays. Garbage is collected from now on; seldom, as what is made of a file's records stays too."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    gc.enable()
