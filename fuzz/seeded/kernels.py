"""Seeded bugs in the compiled kernels: packing and unpacking in every instruction set, counting, the survey."""

from __future__ import annotations

from typing import Final

from seeded.bug import Bug, seeded

_LAWS = "codec/test_native.py codec/test_recode.py"
_DRIVER = "codec/test_driver.py::test_kernels_of_this_processor"
_NEON = "codec/test_driver.py::test_neon_under_emulation"
_SURVEY = "codec/test_survey_kernels.py inspect/test_survey.py"

# fmt: off
_PORTABLE = [
    *seeded(
        "pyx/kernels_elements_portable.h", f"{_LAWS} {_DRIVER}",
        ("portable-shift", "the third field of a run is shifted by three", "c[j] = I2S_READ(src[j], 2);",
         "c[j] = I2S_READ(src[j], 3);"),
        ("portable-twos", "twos-complement is read without its sign",
         "map == I2S_OFFSET_2 || map == I2S_TWOS_COMPLEMENT ? 2 : 0", "map == I2S_OFFSET_2 ? 2 : 0"),
        ("portable-zero-first", "a quarter of the elements is given its meaning",
         "i2s_zero_first(dst, 4 * blocks * group);", "i2s_zero_first(dst, blocks * group);"),
        ("portable-judged", "the last quarter of the trits is not judged",
         "i2s_unsound(s, s + k, s + 2 * k, s + 3 * k, k, judge, bound)",
         "i2s_unsound(s, s + k, s + 2 * k, s + 2 * k, k, judge, bound)"),
        ("portable-bound", "the largest code is refused", "return worst > bound;", "return worst >= bound;"),
        ("portable-two-for-three", "the first of four codes of zero-first is not changed",
         "packed[j] ^= (packed[j] >> 1) & 0x55;", "packed[j] ^= (packed[j] >> 1) & 0x15;"),
        ("portable-long-group", "the quarters of a long run are put close together",
         "scale, dst + p * group + j);", "scale, dst + p * part + j);"),
    ),
    *seeded(
        "pyx/kernels_recode_portable.h", f"{_LAWS} {_DRIVER}",
        ("portable-remap-both", "the coefficient of both bits is left out",
         "const uint64_t l = c[4] ^ (v & c[6]) ^ (hi & (c[5] ^ (v & c[7])));",
         "const uint64_t l = c[4] ^ (v & c[6]) ^ (hi & c[5]);"),
        ("portable-128-to-64", "the last two fields are exchanged on the way to interleave-64",
         "((x & 3) << 2) | (y & 3));", "((y & 3) << 2) | (x & 3));"),
        ("portable-64-to-128", "a field is shifted too little on the way to interleave-128",
         "((y & 0xC0) >> 4)", "((y & 0xC0) >> 2)"),
        ("portable-transpose", "fields of the last two arrays are exchanged wrongly",
         "z ^= t; w ^= t << 2;", "z ^= t; w ^= t << 4;"),
        ("portable-lsb-rows", "rows come out in the opposite order with lsb",
         "rows[q] = dst + ((step == 1 ? 4 * i : i) + p * step)", "rows[q] = dst + ((step == 1 ? 4 * i : i) + q * step)"),
        ("portable-remap-part", "a quarter of the columns is remapped",
         "i2s_remap_portable(planes, part, remap);", "i2s_remap_portable(planes, part / 4, remap);"),
    ),
    *seeded(
        "pyx/kernels_count_portable.h", f"{_LAWS} {_DRIVER}",
        ("portable-scan-last", "the last byte is not looked at",
         "for (k = 0; k < n; k++)\n        if (((src[k]", "for (k = 0; k + 1 < n; k++)\n        if (((src[k]"),
        ("portable-scan-lane", "the last lane is not looked at",
         "for (q = 0; q < I2S_LANES; q++) any |= seen[q] & even;",
         "for (q = 0; q < I2S_LANES - 1; q++) any |= seen[q] & even;"),
        ("portable-count-overflow", "sums of 16 bits overflow", "i2s_least((n - i) / I2S_STEP, 100)",
         "i2s_least((n - i) / I2S_STEP, 200)"),
    ),
]

_TABLE = seeded(
    "pyx/kernels.h", f"{_LAWS} {_DRIVER}",
    ("avx512-count-threes", "codes 3 are counted as codes 1 too",
     "threes = (uint64_t)_mm512_reduce_add_epi64(boths);\n    count[1] += ones - threes;",
     "threes = (uint64_t)_mm512_reduce_add_epi64(boths);\n    count[1] += ones;"),
    ("meaning-of-three", "code 3 of zero-first is 3, not 0",
     "return (uint8_t)((c & 1) - (c >> 1));", "return (uint8_t)(c == 2 ? -1 : c);"),
)

#: Counts bits if VPOPCNTDQ is missing, as on this machine too.
_CARRIES = seeded(
    "pyx/kernels.h", "cli/test_kernels.py::test_histograms_are_right_without_bit_counting_instructions",
    ("carries-eights", "what is left in the adders of eights is not counted",
     "_mm512_add_epi8(i2s_bytes_of(c->fours), _mm512_add_epi8(eight, eight))", "i2s_bytes_of(c->fours)"),
    ("carries-overflow", "sums of bytes overflow", "n - i > 31 * 2048 ? i + 31 * 2048 : n",
     "n - i > 33 * 2048 ? i + 33 * 2048 : n"),
    ("carries-threes", "codes 3 are counted among the codes of one bit",
     "both[q] = _mm512_and_si512(low[q], high[q]);", "both[q] = _mm512_and_si512(low[q], low[q]);"),
)

_COUNTED = seeded(
    "pyx/kernels_count_avx2.h", f"{_LAWS} {_DRIVER}",
    ("avx2-count-overflow", "sums of bytes overflow", "n - i > 31 * 1024 ? i + 31 * 1024 : n",
     "n - i > 33 * 1024 ? i + 33 * 1024 : n"),
    ("avx2-count-left", "what is left in the adders of codes 3 is not counted", "i2s_left_avx2(&boths, both);\n", "\n"),
)

_BODY = [
    *seeded(
        "pyx/kernels_vectors_body.h", f"{_LAWS} {_DRIVER}",
        ("body-stream-half", "a streamed vector is its lower half twice",
         "_mm256_extracti128_si256((__m256i)v, 1));\n    } else {",
         "_mm256_extracti128_si256((__m256i)v, 0));\n    } else {"),
    ),
    *seeded(
        "pyx/kernels_elements_body.h", f"{_LAWS} {_DRIVER}",
        ("body-odd-columns", "elements behind the last whole vector are read from the other end of the byte",
         "i2s_meaning((src[j] >> (6 - 2 * p)) & 3, map);", "i2s_meaning((src[j] >> (2 * p)) & 3, map);"),
        ("body-unpack-64", "two fields of interleave-64 are read twice",
         "first = (v32)((v4q)twice >> (v4q){6, 6, 4, 4}) & 3", "first = (v32)((v4q)twice >> (v4q){6, 6, 2, 2}) & 3"),
        ("body-lsb", "nibbles of sequential-lsb are read in the order of msb",
         "first = lsb ? low : high, second = lsb ? high : low;", "first = high, second = low;"),
        ("body-judge-scalar", "+2 passes behind the last whole vector", "(uint8_t)(t + 1) > 2;",
         "(uint8_t)(t + 1) > 3;"),
        ("body-judge-lane", "the last lane is not judged",
         "for (p = 0; p < 32; p++) bad |= how.worst[p]", "for (p = 0; p < 31; p++) bad |= how.worst[p]"),
        ("body-pack-64", "two fields of interleave-64 are exchanged",
         "first = (v32)(((v4q)x[0] << (v4q){6, 6, 4, 4}) | ((v4q)x[1] << (v4q){2, 2, 0, 0}));",
         "first = (v32)(((v4q)x[0] << (v4q){6, 6, 4, 4}) | ((v4q)x[1] << (v4q){0, 0, 2, 2}));"),
        ("body-pack-lsb", "pairs of sequential-lsb are joined in the order of msb",
         "_mm256_set1_epi16(lsb ? 0x0401 : 0x0104)", "_mm256_set1_epi16(0x0104)"),
        ("body-floats-done", "floats behind the last whole vector go to the wrong place",
         "(src + done * group, blocks - done, group, lsb, table, dst + 4 * done * group, way);",
         "(src + done * group, blocks - done, group, lsb, table, dst + done * group, way);"),
        ("body-strip", "of long rows the strips behind the first are left out",
         "for (from = 0; from < whole; from += I2S_STRIP) {", "for (from = 0; from < whole; from += whole) {"),
        ("body-owned", "half of a line that was asked for is not stored",
         "I2S_NAME(store)(row + i + 32, I2S_NAME(meaning)",
         "if (way != I2S_OWNED) I2S_NAME(store)(row + i + 32, I2S_NAME(meaning)"),
    ),
    *seeded(
        "pyx/kernels_recode_body.h", f"{_LAWS} {_DRIVER}",
        ("body-last-block", "one block behind the last four is forgotten", "    if (b < blocks) {",
         "    if (b + 1 < blocks) {"),
        ("body-to-64", "a field is not moved on the way to interleave-64",
         "I2S_NAME(right)((a & 0x30) | (b & 0xC0), 2) | I2S_NAME(right)(b & 0x30, 4)",
         "I2S_NAME(right)((a & 0x30) | (b & 0xC0), 2) | I2S_NAME(right)(b & 0x30, 2)"),
        ("body-wide-rows", "columns from 8,192 on are written over the first ones",
         "rows[p] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4;",
         "rows[p] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4);"),
    ),
    *seeded(
        "pyx/kernels_count_body.h", f"{_LAWS} {_DRIVER}",
        ("body-scan-rest", "what is behind the last vectors is not looked at",
         "return i2s_scan_portable(src + i, n - i, code);",
         "return n - i > 64 && i2s_scan_portable(src + i, n - i, code);"),
    ),
]

_ARM = seeded(
    "pyx/kernels_elements_neon.h", _NEON,
    ("neon-lsb", "the last two fields are exchanged with lsb",
     "x[lsb ? 1 : 2] = vqtbl1q_u8(how->upper, low);\n    x[lsb ? 0 : 3]",
     "x[lsb ? 0 : 2] = vqtbl1q_u8(how->upper, low);\n    x[lsb ? 1 : 3]"),
    ("neon-judge", "the fourth trit is not judged",
     "vmaxq_u8(vmaxq_u8(x[0], x[1]), vmaxq_u8(x[2], x[3]))", "vmaxq_u8(vmaxq_u8(x[0], x[1]), x[2])"),
)

_CALLS = seeded(
    "pyx/_codec.pyx", _LAWS,
    ("call-pack-verdict", "no trit is wrong", "    return bool(bad)\n", "    return False\n"),
    ("call-sets", "the portable kernels are not listed, and others are called by the wrong row",
     "bool(i2s_kernels[i].available())) for i in range(I2S_KERNEL_SETS)]",
     "bool(i2s_kernels[i].available())) for i in range(1, I2S_KERNEL_SETS)]"),
)

_SURVEYS = [
    *seeded(
        "pyx/survey.h", _SURVEY,
        ("survey-head", "the first run is as long as its last part", "part->head += i;", "part->head = i;"),
        ("survey-least", "a run of 256 bytes is none", "length >= I2S_LEAST_RUN &&", "length > I2S_LEAST_RUN &&"),
        ("survey-tie", "of equal runs the last counts", "&& length > part->run)", "&& length >= part->run)"),
        ("survey-run-start", "a run begins at a multiple of 32",
         "        while (from > i && p[from - 1] == value) from--;\n", ""),
        ("survey-joined-run", "a part that is all one run ends it",
         "if (next->head < next->size) part->last = next->last;", "part->last = next->last;"),
        ("survey-top-field", "code 3 in the top bits is not counted", "+ (both >> 6));", "+ (both >> 7));"),
        ("survey-rest-place", "the words behind the last block count from 0",
         "number = place * (I2S_BLOCK / 8) + 1;", "number = place * (I2S_BLOCK / 8);"),
        ("survey-last-float", "the last float is not looked at", "i + width <= n; i += width",
         "i + width < n; i += width"),
        ("survey-tail-cut", "of a tail that two reads share the second overwrites the first",
         "memcpy(part->tail + (at + codes - part->size), p + codes", "memcpy(part->tail, p + codes"),
        ("survey-hole", "a part that begins with a hole is one", "(int64_t)data >= at + size;", "(int64_t)data > at;"),
        ("survey-hole-tail", "the tail behind a hole is not read", "at = part->size;  /*", "at = all;  /*"),
    ),
    *seeded(
        "pyx/survey_kernels.h", _SURVEY,
        ("survey-portable-lane", "code 3 in the last lane is not seen",
         "both[0] | both[1] | both[2] | both[3] ?", "both[0] | both[1] | both[2] ?"),
        ("survey-avx2-second", "code 3 in every second vector is not seen",
         "_mm256_and_si256(w, _mm256_srli_epi64(w, 1))", "_mm256_and_si256(v, _mm256_srli_epi64(v, 1))"),
        ("survey-carry-sixteens", "sixteens count eight times", "_mm256_slli_epi64(_mm256_sad_epu8(high, zero), 4)",
     "_mm256_slli_epi64(_mm256_sad_epu8(high, zero), 3)"),
    ("survey-avx512-half", "the upper half of the lanes is not added",
         "_mm256_add_epi64(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1))", "_mm512_castsi512_si256(v)"),
        ("survey-largest", "of floats only the last is looked at", "most = v > most ? v : most;", "most = v;"),
        ("survey-avx2-floats", "floats in every second vector are not looked at",
         "_mm256_max_epu##bits(more, _mm256_and_si256(w, m));", "_mm256_max_epu##bits(more, _mm256_and_si256(v, m));"),
    ),
    *seeded(
        "pyx/_survey.pyx", _SURVEY,
        ("survey-outside", "a tail may lie outside the buffer",
         ".size + self.list.parts[i].tail_bytes > held.size:", ".size > held.size:"),
        ("survey-zeros", "codes 3 are taken from codes 0 twice",
         "(4 * p.seen - p.lows - p.highs + p.boths, p.lows", "(4 * p.seen - p.lows - p.highs, p.lows"),
    ),
]

BUGS: Final[list[Bug]] = [*_PORTABLE, *_TABLE, *_CARRIES, *_COUNTED, *_BODY, *_ARM, *_CALLS, *_SURVEYS]
