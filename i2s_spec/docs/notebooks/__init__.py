"""Notebooks of the site: run, and written as pages and as files that Jupyter opens."""
