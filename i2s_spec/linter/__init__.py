"""The linter: it checks a file and returns a report; it also repairs and cleans files.

A *rule* is a declaration (code, slug, sentence, severity, clause, provenance, fix) and, unless the reader itself raises
it, a short function that examines a `LintContext` and yields findings. The *engine* opens the file, turns an error of the
reader into a finding, runs every rule over what could be read, and returns a `Report`. *Report formats* render it.

    lint_run          a run of `i2s lint`: baseline, suppressions and totals over the reports of many files
      paths           arguments to files, and files to reports, in this process or in a process_pool
      cluster/        the same on Dask, with results that are kept between runs, and counts over them
        engine        lint: one file to one Report
          rules/      the rules by subject; each examines a file as analysis.context gives it
            analysis/ a file as the rules see it (`LintContext`), and analyses that several rules share, computed once
            runtimes/ which programs load a file and compute with it, and why not
      baseline        findings that are known already
      report/         report formats, which render report_data
    options           Options and RunOptions: all settings, declared once; the configuration files that set them
    selection         which rules are active, and with what severity: profiles, prefixes, suppressions
    rule              Rule, Finding, Severity, the registry and the decorators that fill it
    report_data       Report and Totals, as plain data and as tables; what to type next
    explain           rules in words
    repair/           repairs of findings, by what they change; the plan of a repair, and what is offered for a finding
    key_edits         keys to set, rename and delete, as actions of a plan
    fix               a new file in which findings are repaired, with the proof
    sanitize          a new file from those parts of a file that are understood

What compares a file with another one whose weights are known is in `i2s_spec.compare.known_weights`.
"""
