"""Programs that are wrong in one way each, which prove that the vectors find bugs.

plain_decoder, plain_numbers, plain_container
                the plainest programs that are right, from the text alone: a second way to every answer
mutant          what a mutant is
wrong_payloads, wrong_groups, wrong_numbers, wrong_containers, wrong_models
                the mutants
answers         how one is asked, and its answer compared
kill            every mutant against the suite
"""
