"""Prints what the parser in Python finds in files: python reader.py FILE... with the parser's folder in PYTHONPATH."""

import math
import struct
import sys

from gguf_i2s import GgufI2s

LAYOUTS = ["interleave_128", "interleave_64", "rows_1x4", "sequential_msb", "sequential_lsb", "row_blocks_4"]
CODE_MAPS = ["offset_1", "zero_first", "twos_complement", "offset_2"]
BLOCKS = ["q2_0", "q2_0_g128", "pq2_0", "ptq1_0", "tq1_0", "tq2_0", "iq1_bn", "iq2_bn", "i2_sr"]
PLAIN = {0: "as_u8", 1: "as_i8", 2: "as_u16", 3: "as_i16", 4: "as_u32", 5: "as_i32", 7: "as_bool"}


def bits(number):
    return "nan" if math.isnan(number) else struct.pack(">d", number).hex()


def mixed(numbers):
    mix = 0
    for number in numbers:
        mix = (mix * 31 + number + 1) % 1000003
    return mix


def text(value):
    if value.kind in PLAIN:
        return str(getattr(value, PLAIN[value.kind]))
    match value.kind:
        case 6:
            return bits(value.as_f32.value)
        case 8:
            return "'" + value.as_str.text.hex()
        case 9:
            return f"[{value.as_arr.kind}{''.join(' ' + text(each) for each in value.as_arr.items)}]"
        case 10:
            return str(value.as_u64.as_u64)
        case 11:
            return str(value.as_i64.as_i64)
        case 12:
            return bits(value.as_f64.as_f64)


def lines(file):
    yield f"file {file.header.version} {file.alignment} {file.data_start}"
    for pair in file.key_values:
        yield f"key {pair.key.text.hex()} {pair.kind} {text(pair.value)}"
    for info in file.tensor_infos:
        yield f"tensor {info.name.text.hex()} {info.kind} {info.offset} {','.join(map(str, info.ne))}"
        if info.i2s:
            yield f"i2s {info.i2s.payload.hex()} {bits(info.i2s.scale.value)} {info.i2s.unused.hex()}"
            for layout in LAYOUTS:
                if (elements := getattr(info.i2s, layout)) is not None:
                    parts = (getattr(each, part) for each in elements for part in ["code", *CODE_MAPS])
                    yield f"{layout.replace('_', '')} {mixed(parts)}"
        for name in BLOCKS:
            if tensor := getattr(info, name):
                blocks = [block for row in tensor.each_row for block in row.blocks]
                held = [part for each in blocks for weight in each.weights for part in (weight.code, weight.weight)]
                if name == "i2_sr":
                    scales = tensor.scales
                else:
                    scales = [each.scale for each in (tensor.each_row if name.startswith("iq") else blocks)]
                yield f"{name.replace('_', '')} {mixed(held)} {','.join(bits(scale.value) for scale in scales)}"


for path in sys.argv[1:]:
    try:
        print(*lines(GgufI2s.from_file(path).file), "end", sep="\n")
    except Exception as error:  # an error of any kind is what a malformed file must end in
        print("error", type(error).__name__)
