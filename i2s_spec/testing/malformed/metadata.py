"""This module breaks keys and values that an architecture needs."""
