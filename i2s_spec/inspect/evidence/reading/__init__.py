"""How evidence is read: one pass over all payloads, by several threads, that counts and compares.

comparison_plan  what is counted and which profiles are compared, as tables that compiled code follows
evidence_pass    the threads: counts, comparisons of profiles and of all-zero channels, Grams of a few layers
"""
