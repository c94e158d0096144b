"""Seeded bugs: typical mistakes, put into the package one at a time, to see whether the tests notice them."""
