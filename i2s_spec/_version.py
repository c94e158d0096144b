"""This module holds the version of the package, and what reports say of the program that made them."""

__version__ = "0.2.0"

#: Address of the site of the specification, with a slash at its end; empty as long as it has none. Reports refer to it.
SITE = ""


def tool() -> dict[str, str]:
    """Return the program that made a report."""
    return {"name": "i2s-spec", "version": __version__}
