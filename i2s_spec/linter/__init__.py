"""The linter checks a GGUF file and returns a report.

A *rule* is a declaration (code, slug, sentence, severity, clause, provenance, fix) and, unless the reader itself raises
it, a short function that examines a `Subject` and yields findings. The *engine* opens the file, turns an error of the
reader into a finding, runs every rule over what could be read, and returns a `Report`. *Report formats* render it.

    rule         Rule, Finding, Severity, the registry and the decorators that fill it
    options      Options: all settings of a run, validated once; config reads them from i2s.toml
    analysis/    a file as the rules see it (`Subject`), and analyses that several rules share, computed once
    rules/       the rules by subject; a module is imported when one of its rules is needed
    reference/   comparison with another file whose weights are known
    runtimes/    which programs load a file and compute with it, and why not
    selection/   profiles, baselines, suppressions
    engine       lint: one file to one Report
    report_data  Report and Totals; report/ renders them, excerpt gives the bytes that they show
    batch/       many files, in one process or several
    cluster/     the same on Dask, with results that are kept between runs
    census/      counts over many files
    repair/      repairs of findings
    sanitize/    a new file from those parts of a file that are understood
"""
