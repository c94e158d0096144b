"""Files by the hundred thousand: a manifest, results that are kept, and a run on machines that may die.

manifest       what is to be checked: address, identity, size
check_entry    one entry in, one record out, plain data: the function that every engine maps; what servers call files
origin_facts   what the census counts by: architecture, producer, layout
options_key    which rules and options a record belongs to
results_log    records as JSON Lines, appended while a run goes on, repaired where one was killed
same_content   files of equal bytes, which are checked once
host_rates     how many requests go to a host in a time
coordinator    which batch is next, and what becomes of one that came back, or did not
dask_engine    the coordinator's batches on Dask
parquet        the records as one table
"""
