"""From a difference to its cause: known mistakes, patterns, re-runs."""
