"""Benchmarks of kernels, readers, the linter and the model, each against a peer or a limit in the same run.

__main__       the command line, `python tests/bench`; `--check` fails if anything is slower than `results/` says
  codec, container, checkpoint, lint, matmul, model
               the parts: each lists its benchmarks; `headers` makes the input of `container`
  measure      rounds in which all contenders take turns, ratios within a round, claims with a goal
  processes    the time of a whole command, the memory of a job in a fresh interpreter
  report       text, JSON, and the comparison with the results of the same kind of processor
    machine    the kind of processor, and where a run was made
"""
