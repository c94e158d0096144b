"""What makes the site of `spec/`; a checkout only. `spec/build/hook.py` is what mkdocs calls.

    hook ──► generated ──► requirements, runtimes, annexes, commands, layouts     pages and tables in Markdown
      │          └───────► i2s_spec.cli.rule_pages                  the pages of the rules
      └────► fences ─────► figures, drawings, flows, benchmarks, layouts          pictures, SVG
                 └───────► examples, api_reference                                what runs, what docstrings say

All of them find the text through `checkout`; `i2s spec` calls `generated`, `fences` and `examples` without mkdocs.
"""
