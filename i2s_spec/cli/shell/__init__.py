"""Verbs for shells and terminals: completion and manual pages, both made from the commands themselves."""
