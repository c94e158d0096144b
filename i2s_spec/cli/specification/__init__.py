"""Verbs about the specification: rules, schema, text, vectors."""
