"""The published text: what of it is written from declarations, and whether it is current.

The chapters under `spec/` are prose; the tables in them repeat the schema, and a test compares the two. What repeats
whole declarations is a page of its own and never edited:

    pages       the page of every lint rule, and their index
"""
