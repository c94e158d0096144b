"""Files and questions for other people's test suites, each with its expected result, and the runs that ask them.

    report             a run as text, Markdown, JUnit, HTML, badge, or NDJSON
      runner           asks an implementation case after case, and compares; smoke: three checks without vectors
        score          whether an answer agrees with a vector, and where not; known failures
        explanations   the known mistakes that explain a wrong answer
        protocol       the protocol `i2s-cp/1`: messages, cases, the process of an adapter
          protocol_terms   its words: operations, verdicts, phases, classes of comparison
    pytest_plugin      a test of every vector
    packages           the suite of vectors as packages for PyPI, npm, Go and crates
      vectors/         questions to decoders in any language, with their answers
    malformed_suite    a folder of malformed files with a manifest, and the phase in which each fault can be known

A line calls those that are indented below it; `pytest_plugin` uses the `runner` and the `vectors`.
"""
