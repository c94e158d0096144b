"""Fuzzing anyone's decoder from outside: a command that gets a file and says whether it accepts it.

The decoder may be written in any language. It is a program that is started once for each file, under bounds of time and
memory; all that is looked at is how it ends. What it should have said is known from the linter.

child        one run of the command under bounds
oracle       what a decoder must accept, what it must reject, and why
inputs       which files come in which order: sound ones, the malformed catalogue, edges, changes by chance
verdict      what is wrong with how a run ended
minimise     the smallest file that still shows it
folder       the corpus on the disk, from which a campaign goes on
settings     how a campaign is run, and what a find is
campaign     the loop
report       the result as text, JSON or JUnit
"""
