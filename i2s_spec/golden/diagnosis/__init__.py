"""From a difference to its cause: which known mistake, pattern or other place explains a wrong value.

rerun                 a whole run to one value, with each mistake in place
  diagnose            everything that may explain one value
    mistakes          the mistakes of `schema.mistakes` as changes of a model
      graph_mistakes, input_mistakes, model_mistakes
                      changes of the graph, of what enters it, of weights and numbers
      linear_mistakes, partial_sum_mistakes, operation_mistakes
                      operations that compute wrongly
    patterns          what wrong values look like: `localised`, `permutations`, `observation`
    other_places      weights, keys or values of another place
    fitted_epsilon    the epsilon that explains a norm
"""
