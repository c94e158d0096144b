"""This module breaks vocabularies."""
