"""The linter: a GGUF file in, a report out.

A *rule* is a declaration (code, slug, sentence, severity, clause, provenance, fix) and, unless the reader itself raises
it, a short function that looks at a `Subject` and yields findings. The *engine* opens the file, turns whatever stopped
the reader into a finding, runs every rule over what could be read, and returns a `Report`. *Report formats* render it.

    rule        Rule, Finding, Severity, the registry and the decorators that fill it
    subject     a file as the rules see it, with the analyses that several of them share
    rules/      the rules by subject; importing the package fills the registry
    engine      lint: one file to one Report
    report/     text, json, jsonl
"""
