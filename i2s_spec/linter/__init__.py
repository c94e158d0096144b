"""The linter: a GGUF file in, a report out.

A *rule* is a declaration (code, slug, sentence, severity, clause, provenance, fix) and, unless the reader itself raises
it, a short function that looks at a `Subject` and yields findings. The *engine* opens the file, turns whatever stopped
the reader into a finding, runs every rule over what could be read, and returns a `Report`. *Report formats* render it.

    rule         Rule, Finding, Severity, the registry and the decorators that fill it
    options      Options: all that a run can be asked for, checked once
    analysis/    a file as the rules see it (`Subject`), and what several rules need of it, computed once
    rules/       the rules by subject; a module is imported when a rule of it is asked for
    reference/   the weights that a file is compared with
    runtimes/    which programs load a file and compute with it, and why not
    selection/   profiles, configuration, baselines, suppressions
    engine       lint: one file to one Report
    report_data  Report and Totals; report/ renders them, excerpt gives the bytes that they show
    batch/       many files, in one process or several
    cluster/     the same on Dask, with results that outlive a run
    census/      counts over many files
    repair/      what changes a file so that a finding goes away
    sanitize/    a file rebuilt from what is understood of it
"""
