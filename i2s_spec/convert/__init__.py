"""Conversion and creation of files: copies with changes, other byte orders, new models."""
