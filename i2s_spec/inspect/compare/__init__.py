"""Identities of files and weights, and differences between two files."""
