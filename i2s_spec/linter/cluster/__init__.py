"""Runs over hundreds of thousands of files: a manifest, results that are kept, and workers that may die.

manifest       the files to check: address, identity, size
check_entry    checks one entry and returns one record, as plain data: the function that every engine maps
origin_facts   facts that the census counts by: architecture, producer, layout
options_key    the key of the rules and options of a record
results_log    records as JSON Lines, appended during a run, repaired after one was killed
same_content   files of equal bytes, which are checked once
host_rates     limits of requests to a host
coordinator    decides which batch is next, and handles batches that succeeded or failed
dask_engine    runs the coordinator's batches on Dask
parquet        the records as one table
"""
