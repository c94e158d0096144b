"""Rules about vocabularies."""
