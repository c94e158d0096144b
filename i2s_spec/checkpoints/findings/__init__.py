"""Findings of the linter on a checkpoint's folder."""
