"""Runs over hundreds of thousands of files: a manifest, results that a later run continues, workers that may die.

lint_manifest   a whole run, from the entries of a manifest to their records
  manifest      the files to check: address, identity, size; facts about their origin that a census counts by
  run           decides which batch is next, runs the batches on Dask, limits requests to a host
    local       a Dask cluster of this machine that only its own process can use
    check       checks one entry and returns one record, as plain data: the function that every engine maps
  results       records as JSON Lines, appended during a run, repaired after one was killed; the same as one table;
                counts over them, and their page
"""
