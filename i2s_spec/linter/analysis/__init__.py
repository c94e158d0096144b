"""Analyses of a file that several rules share; each is computed once."""
