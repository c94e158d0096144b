"""Programs that are wrong in one way each, which prove that the test vectors find bugs: `i2s vectors mutants`.

kill            every mutant against the suite
  answers       how a mutant is asked, and how its answer is compared
  wrong_payloads, wrong_groups, wrong_numbers, wrong_containers, wrong_models
                the mutants; each has the name of its mistake in `i2s_spec.schema.mistakes` as flag
    mutant      what a mutant is
  plain_decoder, plain_numbers, plain_container
                correct programs, as plain as possible, written from the text alone: a second way to every answer
"""
