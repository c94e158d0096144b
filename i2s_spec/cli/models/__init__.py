"""Verbs that compute with a model."""
