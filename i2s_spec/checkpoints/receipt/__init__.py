"""Receipts: the recorded checks of an imported file, which can be repeated."""
