"""The published text: what of it is written from declarations, what is run, and whether it is current.

The chapters under `spec/` are prose. Tables in them repeat the schema, and tests compare the two; figures, examples and
lists are fences, which the site renders and the tests run. What repeats whole declarations is a page of its own and
never edited:

    derived        all of that: what is written, and whether it is current
    pages          the page of every lint rule, and their index
    before_after   a rule at work: `sound` files, `places` in them, `situations` that no broken copy makes
    runtimes       what is declared of runtimes, producers and releases
    requirements   the numbered requirements: whom each binds, what holds it (`evidence`)
    annexes        pages of the registry, the vectors, and the register: requirements joined with rules, vectors and tests
    fences         what stands in fences: `figures`, `examples`, `reference`, `benchmarks`
    drawings       what is drawn from declarations: layouts, graphs, types, rooflines
    layouts, front, notebooks
                   the page of the layouts, the first page, the tutorial that is run
    checkout       where the chapters are
"""
