"""Programs that are wrong in one way each, which prove that the vectors find bugs.

plain_decoder, plain_numbers, plain_container
                correct programs, as plain as possible, written from the text alone: a second way to every answer
mutant          what a mutant is
wrong_payloads, wrong_groups, wrong_numbers, wrong_containers, wrong_models
                the mutants
answers         how a mutant is asked, and how its answer is compared
kill            every mutant against the suite
"""
