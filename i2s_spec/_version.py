"""This module holds the version of the package, and what reports say of the program that made them."""

__version__ = "0.2.0.dev0"


def tool() -> dict[str, str]:
    """The program that made a report."""
    return {"name": "i2s-spec", "version": __version__}
