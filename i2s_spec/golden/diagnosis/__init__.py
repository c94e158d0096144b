"""From a difference to its cause: which known mistake, pattern or other place explains a wrong value (clause 10.5).

    diagnose                Diagnoser: everything that may explain one value; by_running: a whole run with each mistake
      mistakes              the mistakes of `schema.mistakes` as changes of a model: of graph, inputs, weights, numbers
        operation_mistakes  operations and projections that compute wrongly
      patterns              what wrong values look like; values of other places
      solving               numbers that a wrong value gives away: scales, sums, angles, weights, an epsilon

A line calls those that are indented below it.
"""
