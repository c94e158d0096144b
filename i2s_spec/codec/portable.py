"""What the modules share that stand for extensions which are not compiled (`_cpu`): their only set of kernels."""


def portable_sets() -> list[tuple[str, bool]]:
    """Return the sets of kernels, and whether this processor can run each."""
    return [("portable", True)]


def portable_needs() -> list[int]:
    """Return the processor features that each set needs: none."""
    return [0]
