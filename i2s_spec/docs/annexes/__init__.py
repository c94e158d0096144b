"""Annexes that repeat whole declarations: `registry_page`, every meaning of every number."""
