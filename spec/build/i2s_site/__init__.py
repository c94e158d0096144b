"""What makes the site of `spec/`; a checkout only. `spec/build/hook.py` is what mkdocs calls.

    hook ──► generated ──► requirements, runtimes, annexes, commands, layouts     pages and tables in Markdown
      │          └───────► i2s_spec.cli.rule_pages                  the pages of the rules
      └────► fences ─────► figures, drawings, flows, benchmarks, layouts          pictures, SVG
                 └───────► examples, api_reference                                what runs, what docstrings say

What follows from declarations is not in git: pages of rules, requirements, runtimes, decoders, type numbers, commands
and test vectors, and the tables that a fence `i2s-table` names. `i2s spec build` makes them with the site, `serve`
shows it while you write, `write` writes them to `build/spec`, and `test` runs all examples. What every new rule or
layout changes in an output (`cli/replay.py`) is not compared.

All of them find the text through `checkout`; `i2s spec` calls `generated`, `fences` and `examples` without mkdocs.
"""
