"""Seeded bugs in checks: the schema and its walk, the linter's engine and spans, the comparison with a record."""

from __future__ import annotations

from typing import Final

from seeded.bug import Bug, seeded

# fmt: off
_SCHEMA = [
    *seeded(
        "i2s_spec/schema/faults.py", "gguf/test_scanner.py schema/test_limits.py",
        ("order-by-size", "a little-endian version beyond 65,535 makes a file big-endian",
         "if version & 0xFFFF == 0:", "if version > 0xFFFF:"),
        ("count-fills-file", "keys that fill a file exactly are refused",
         "if keys > (most := room // limits.SMALLEST_KEY_VALUE):",
         "if keys >= (most := room // limits.SMALLEST_KEY_VALUE):"),
        ("alignment-of-24", "an alignment that is not a power of two passes", "if value & (value - 1):", "if value % 8:"),
        ("alignment-largest", "the largest alignment is refused",
         "if value > limits.MAX_ALIGNMENT:", "if value >= limits.MAX_ALIGNMENT:"),
    ),
    *seeded(
        "i2s_spec/schema/types.py", "schema/test_sizes.py gguf/test_reader_tensors.py gguf/test_writer.py",
        ("size-rounds-up", "a remainder of codes takes a byte",
         "return prod(ne) // 4 + TAIL_BYTES", "return -(-prod(ne) // 4) + TAIL_BYTES"),
        ("tl2-divides-once", "sizes of TL2 are divided once",
         "* rows // 3 * 5 // 8", "* rows * 5 // 24"),
        ("padded-whole", "what is aligned already is padded",
         "return -(-size // alignment) * alignment", "return (size // alignment + 1) * alignment"),
        ("reading-first", "of types that share a number the first is always meant",
         "room in (size := kind.nbytes(ne), padded(size, alignment))", "room == kind.nbytes(ne)"),
    ),
    *seeded(
        "i2s_spec/schema/container.py", "gguf/test_scanner.py",
        ("schema-depth", "arrays may nest one level deeper",
         "state.depth >= limits.MAX_ARRAY_DEPTH:", "state.depth > limits.MAX_ARRAY_DEPTH:"),
        ("schema-deep-siblings", "arrays behind a nested one count as nested in it", "        state.depth -= 1\n", ""),
    ),
    *seeded(
        "i2s_spec/schema/container.py",
        "schema/test_scope.py schema/test_walk.py inspect/test_file_nodes.py",
        ("walk-covers-before", "a field that ends where the scope begins is in it",
         "(stop > self.start or start == stop == self.start)", "(stop >= self.start or start == stop == self.start)"),
        ("walk-last-element", "an element that the scope cuts is left out",
         "-(-(self.stop - start) // width)", "(self.stop - start) // width"),
        ("walk-elided", "elements that are shown are counted as left out",
         'Elided(count - last, "elements")', 'Elided(count - first, "elements")'),
        ("walk-limit-skipped", "elements that were stepped over count against the limit",
         "i - skipped >= scope.limit", "i >= scope.limit"),
        ("walk-past-array", "a string may go on behind its array", "            if end > stop:\n",
         "            if end > stop + 8:\n"),
    ),
]

_LINTER = [
    *seeded(
        "i2s_spec/linter/engine.py", "linter/test_engine.py linter/test_spans.py",
        ("findings-by-code", "findings are in the order of their codes",
         "key=lambda f: (f.span.start, f.span.stop, f.code)", "key=lambda f: (f.code, f.span.start)"),
        ("findings-one-less", "one finding less is kept than the limit says",
         "if count <= self._most_per_rule:", "if count < self._most_per_rule:"),
        ("findings-elided", "findings that are listed are counted as left out",
         "n - self._most_per_rule for code", "n for code"),
    ),
    *seeded(
        "i2s_spec/linter/analysis/context.py", "linter/test_spans.py linter/test_rules.py",
        ("span-past-file", "a span goes on behind the file",
         "min(base + stop, size), path)", "base + stop, path)"),
    ),
    *seeded(
        "i2s_spec/inspect/show.py", "linter/test_spans.py linter/test_rules.py",
        ("room-to-file-end", "the room of the last tensor ends with the file, not with the data section",
         "(data_size if after is None else offsets[after])", "(file.size if after is None else offsets[after])"),
    ),
    *seeded(
        "i2s_spec/linter/engine.py", "linter/test_spans.py linter/test_engine.py",
        ("excerpt-at-end", "nothing is shown where a file ends too early",
         "start = min(span.start, max(source.size - 1, 0)) // ROW * ROW", "start = span.start // ROW * ROW"),
        ("excerpt-rows", "an excerpt has a row too many", "start + ROW * ROWS)", "start + ROW * ROWS + 1)"),
    ),
    *seeded(
        "i2s_spec/linter/report_data.py", "linter/test_spans.py linter/test_engine.py",
        ("fail-on-above", "findings at the level itself do not count",
         "if severity.rank >= fail_on.rank)", "if severity.rank > fail_on.rank)"),
    ),
    *seeded(
        "i2s_spec/linter/analysis/extents.py", "linter/test_spans.py linter/test_rules.py",
        ("room-no-tail", "a tensor without any tail is not recognized",
         "if payload <= room < size:", "if payload < room < size:"),
    ),
    *seeded(
        "i2s_spec/linter/rules/placement.py", "linter/test_spans.py linter/test_rules.py",
        ("overlap-neighbours", "neighbors overlap",
         "if reach is not None and placement.offset < end:",
         "if reach is not None and placement.offset <= end:"),
        ("overlap-inside", "what lies in a large tensor behind a small one is not seen",
         "if reach is None or placement.offset + placement.size > end:", "if reach is None or placement.size >= 0:"),
    ),
    *seeded(
        "i2s_spec/linter/rules/i2s_extent.py", "linter/test_spans.py linter/test_rules.py",
        ("tail-cut-whole", "a file that ends with its last payload has no tail missing",
         "payload_end <= subject.data_size < last.end", "payload_end < subject.data_size < last.end"),
        ("scale-half", "half of the scales in the other order make a finding",
         "if wrong and 2 * len(wrong) > seen:", "if wrong and 2 * len(wrong) >= seen:"),
    ),
]

_GOLDEN = [
    *seeded(
        "i2s_spec/golden/metrics.py", "golden/test_measures.py golden/test_divergence.py",
        ("limit-exclusive", "a value at its limit is off", "within = np.abs(a - b) <= limit",
         "within = np.abs(a - b) < limit"),
        ("nan-passes", "a NaN is within every limit",
         "found: Mask = ~(within | (a == b) | (np.isnan(a) & np.isnan(b)))",
         "found: Mask = ~(within | (a == b) | np.isnan(a))"),
        ("ulps-across-zero", "negative numbers are far from positive ones",
         "np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)", "bits"),
        ("relative-strange", "an infinity in place of a number is passed over", "if strange.any():",
         "if strange.all():"),
        ("divergence-reversed", "the divergence is that of the record from the candidate",
         "(np.exp(p) * (p - q))", "(np.exp(q) * (q - p))"),
    ),
    *seeded(
        "i2s_spec/golden/llama_cpp.py", "golden/test_divergence.py",
        ("scored-rows", "the last token of a chunk is scored too",
         "return n_ctx - 1 - n_ctx // 2", "return n_ctx - n_ctx // 2"),
        ("log-rounded-down", "log-probabilities are rounded down", "codes = np.rint((", "codes = np.floor(("),
        ("row-of-odd-words", "a row of an odd vocabulary has an odd number of words",
         "row = np.zeros(2 * ((vocab + 1) // 2) + 4,", "row = np.zeros(vocab + 4,"),
    ),
    *seeded(
        "i2s_spec/golden/op_replay.py", "golden/test_comparison.py",
        ("last-wrong", "the last wrong tap is said to be the first",
         'if tap.status == "wrong" and result.first is None:', 'if tap.status == "wrong":'),
    ),
    *seeded(
        "i2s_spec/golden/tolerance.py", "golden/test_reach.py",
        ("reach-of-a-layer", "what lies behind two layers is held to the limits of one",
         '"layer" if len(behind) == 1 else "model"', '"layer" if len(behind) <= 2 else "model"'),
    ),
]

BUGS: Final[list[Bug]] = [*_SCHEMA, *_LINTER, *_GOLDEN]
