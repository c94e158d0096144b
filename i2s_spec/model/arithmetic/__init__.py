"""Sums, elementary functions and transforms whose rounding is defined."""
