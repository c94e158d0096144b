"""This module declares what holds the requirements that no rule of the linter can check, since they bind programs.

Each has the tests that hold this package to it, or the reason why there is none. A test sees that no MUST is without,
that each test is there, and that nothing here belongs to a requirement that is gone.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Proof(NamedTuple):
    """A test of this package: its file and its function."""

    path: str
    name: str


class Reason(NamedTuple):
    """Why no rule and no test holds a requirement."""

    text: str


def _tests(path: str, *names: str) -> tuple[Proof, ...]:
    return tuple(Proof(f"tests/{path}", name) for name in names)


EVIDENCE: Final[dict[str, tuple[Proof | Reason, ...]]] = {
    "R1.2-1": _tests("gguf/test_scanner.py", "test_twins_agree_on_malformed_files"),
    "R1.2-2": _tests("linter/test_repair.py", "test_broken_copies"),
    "R2.1-1": _tests("inspect/test_file_nodes.py", "test_every_byte_of_a_sound_file_is_in_one_leaf"),
    "R2.1-2": _tests("model/test_forward.py", "test_byte_order_does_not_matter"),
    "R2.1-3": _tests("gguf/test_scanner.py", "test_twins_agree_on_every_prefix")
    + _tests("docs/exports/test_c_header.py", "test_every_shorter_file"),
    "R2.8-4": _tests("linter/test_engine.py", "test_split_names_in_metadata_are_never_opened"),
    "R5.4-2": _tests("codec/test_native.py", "test_all_bytes_at_all_places"),
    "R5.5-1": _tests("model/test_oracle_runtimes.py", "test_the_same_model_in_another_layout_is_the_same_model"),
    "R5.5-3": _tests("codec/test_recode.py", "test_a_histogram_does_not_depend_on_the_layout"),
    "R6.1-3": _tests("codec/test_tail.py", "test_everything_else_is_stale_and_read_all_the_same"),
    "R6.1-4": _tests("codec/test_recode.py", "test_what_means_nothing_in_a_tail_becomes_zero"),
    "R6.1-5": _tests("codec/test_tail.py", "test_every_bit_of_a_scale_survives_at_any_address"),
    "R6.2-3": _tests("model/test_bitlinear.py", "test_scales_of_weights_are_followed"),
    "R7.1-1": _tests("inspect/test_identify.py", "test_more_evidence_never_turns_against_itself"),
    "R7.1-2": _tests("inspect/test_identify.py", "test_more_evidence_never_turns_against_itself"),
    "R7.4-1": _tests("docs/test_dialects_chapter.py", "test_numbers_of_the_decision"),
    "R8.1-1": _tests(
        "convert/test_conversion.py", "test_what_is_not_ternary_is_refused_by_name_and_nothing_is_written"
    ),
    "R8.1-2": _tests("codec/test_quantise.py", "test_rules_one_weight_at_a_time"),
    "R8.3-1": _tests("codec/test_quantise.py", "test_quantize_is_ternarise_and_pack"),
    "R8.3-2": _tests("codec/test_quantise.py", "test_absmax"),
    "R8.4-1": _tests("convert/test_packed.py", "test_scales"),
    "R8.5-1": _tests("convert/test_weights.py", "test_rows_that_begin_inside_a_block_are_refused"),
    "R8.5-2": _tests("codec/test_quantise.py", "test_ternary_weights_shrink_by_their_zeros"),
    "R9.1-1": _tests("golden/test_recording.py", "test_the_header_says_what_was_computed"),
    "R9.2-1": _tests("model/test_oracle_runtimes.py", "test_official_runtime"),
    "R9.2-2": _tests("model/test_oracle_runtimes.py", "test_official_runtime"),
    "R9.2-3": _tests("model/test_oracle_runtimes.py", "test_official_runtime"),
    "R9.3-1": _tests("model/test_rope.py", "test_permuted_rows_with_neighbours_are_halves"),
    "R9.4-1": _tests("model/test_forward.py", "test_poolings"),
    "R9.5-1": _tests("model/test_rope.py", "test_pairs_turn_by_their_angle"),
    "R9.6-1": _tests("model/test_profiles.py", "test_which_rule_decides_the_activation"),
    "R9.7-1": _tests("model/test_profiles.py", "test_normative_bits_are_the_same_on_every_machine"),
    "R9.8-1": _tests("model/test_bitlinear.py", "test_sums_as_large_as_they_get"),
    "R9.8-2": _tests("model/test_bitlinear.py", "test_products_of_the_reference_are_exact_or_explained"),
    "R9.8-3": _tests("model/test_bitlinear.py", "test_edges_of_activations"),
    "R9.11-1": _tests("model/test_forward.py", "test_tokens_are_whole_numbers"),
    "R9.11-2": _tests("model/test_forward.py", "test_missing_and_misshapen_tensors_are_refused_whatever_is_forced"),
    "R9.11-3": _tests("model/test_fast.py", "test_other_byte_order_and_dialect"),
    "R10.1-1": _tests("golden/test_recording.py", "test_stock_libraries_read_it"),
    "R10.2-1": _tests("golden/test_recording.py", "test_the_header_says_what_was_computed"),
    "R10.2-2": _tests("golden/test_recording.py", "test_a_light_record_has_digests_of_sums"),
    "R10.2-3": _tests("golden/test_recording.py", "test_an_interrupted_record_leaves_nothing"),
    "R10.3-1": _tests("golden/test_comparison.py", "test_correct_runtimes_are_clean"),
    "R10.3-2": _tests("golden/test_comparison.py", "test_correct_runtimes_are_clean"),
    "R11.1-1": (Reason("a claim is made by people; what it rests on are the requirements that it names"),),
    "R11.1-2": (Reason("a claim is made by people; what it rests on are the requirements that it names"),),
    "R12.1-1": _tests("linter/test_rules.py", "test_row_of_the_catalogue_has_a_rule"),
    "R12.2-1": _tests("test_hostile.py", "test_verdict_is_bounded"),
    "R12.2-4": _tests("test_hostile.py", "test_verdict_is_bounded"),
    "R12.2-5": _tests("codec/test_shape.py", "test_sizes_beyond_64_bits_are_exact"),
    "R12.3-2": _tests("inspect/test_file_nodes.py", "test_every_byte_of_a_damaged_file_is_in_one_leaf"),
    "R12.3-3": _tests("inspect/test_difference.py", "test_of_two_values_of_a_key_the_first_counts"),
    "R12.5-1": _tests("model/test_template.py", "test_a_template_is_text"),
    "R12.5-2": _tests("linter/report/test_hostile_text.py", "test_every_character_is_one_that_shows"),
}
