"""Test data, for this and other projects: sound files, files with one fault each, and files changed at random.

    sample           small sound files that can be changed field by field: Draft, Model, CheckpointSample
    companions       small sound files that are no models, which are changed in the same way
    writer_files     models in the forms of single writers, made by code of their own
    malformed/       one broken copy of them for each rule, each with the code it must get
    common_faults    mistakes that happen to models in practice
    strategies       Hypothesis strategies for files, tensors, dialects, models (the extra `testing`)
      mutator        mutate, edits, crossover: files changed field by field
        mutations    the operators that change fields, records and data
          anatomy    the fields and records of any bytes, by the schema; edge values of numbers, and lies
    differential     fast paths compared with their definitions; a file that vanishes while it is read

A line calls those that are indented below it.
"""
