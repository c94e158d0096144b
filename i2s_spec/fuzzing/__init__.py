"""Fuzzing anyone's decoder from outside: a command that gets a file and says whether it accepts it.

The decoder may be written in any language. It is a program that is started once for each file, under bounds of time and
memory; all that is looked at is how it ends. What it should have said is known from the linter.

    report               the result as text, JSON or JUnit
      campaign           the loop; its settings, its finds made small, and its folder on the disk
        inputs           which files come in which order: sound ones, the malformed catalogue, edges, random changes
        expectations     what a decoder must accept or reject, and what is wrong with how a run ended
        bounded_process  one run of the command under bounds

A line calls those that are indented below it.
"""
