// Prints what the parser in Rust finds in files: cargo run -- FILE..., with the parser beside this file.
#[path = "gguf_i2s.rs"]
mod gguf_i2s;
use gguf_i2s::*;
use kaitai::*;
use std::fmt::Write;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|each| format!("{each:02x}")).collect()
}

fn bits(number: f64) -> String {
    if number.is_nan() { "nan".to_string() } else { format!("{:016x}", number.to_bits()) }
}

fn mix(before: i64, number: i64) -> i64 {
    (before * 31 + number + 1) % 1000003
}

fn text(value: &GgufI2s_Value) -> KResult<String> {
    Ok(match *value.kind() {
        0 => value.as_u8().to_string(),
        1 => value.as_i8().to_string(),
        2 => value.as_u16().to_string(),
        3 => value.as_i16().to_string(),
        4 => value.as_u32().to_string(),
        5 => value.as_i32().to_string(),
        6 => bits(*value.as_f32().value()?),
        7 => value.as_bool().to_string(),
        8 => format!("'{}", hex(&value.as_str().text())),
        9 => {
            let mut out = format!("[{}", value.as_arr().kind());
            for each in value.as_arr().items().iter() {
                write!(out, " {}", text(each)?).unwrap();
            }
            out + "]"
        }
        10 => value.as_u64().as_u64()?.to_string(),
        11 => value.as_i64().as_i64()?.to_string(),
        _ => bits(*value.as_f64().as_f64()?),
    })
}

macro_rules! layout {
    ($out:ident, $name:literal, $elements:expr) => {
        let mut sum = 0;
        let elements = $elements;
        for each in elements.iter() {
            sum = mix(mix(sum, *each.code()? as i64), *each.offset_1()? as i64);
            sum = mix(mix(sum, *each.zero_first()? as i64), *each.twos_complement()? as i64);
            sum = mix(sum, *each.offset_2()? as i64);
        }
        if !elements.is_empty() {
            writeln!($out, "{} {sum}", $name).unwrap();
        }
    };
}

// The scales of a type are in the blocks, in front of the rows, or behind all of them.
macro_rules! block_type {
    ($out:ident, $name:literal, $present:expr, $tensor:expr, $where:ident) => {
        if $present {
            let (mut sum, mut scales) = (0, Vec::new());
            let tensor = $tensor;
            for row in tensor.each_row().iter() {
                scale!(rows, $where, scales, row);
                for block in row.blocks().iter() {
                    scale!(blocks, $where, scales, block);
                    for each in block.weights()?.iter() {
                        sum = mix(mix(sum, *each.code()? as i64), *each.weight()? as i64);
                    }
                }
            }
            scale!(apart, $where, scales, tensor);
            writeln!($out, "{} {sum} {}", $name, scales.join(",")).unwrap();
        }
    };
}

macro_rules! scale {
    (rows, rows, $scales:ident, $row:ident) => { $scales.push(bits(*$row.scale().value()?)) };
    (blocks, blocks, $scales:ident, $block:ident) => { $scales.push(bits(*$block.scale().value()?)) };
    (apart, apart, $scales:ident, $tensor:ident) => {
        for each in $tensor.scales().iter() {
            $scales.push(bits(*each.value()?));
        }
    };
    ($here:ident, $where:ident, $scales:ident, $of:ident) => {};
}

fn lines(path: &str) -> KResult<String> {
    let data = std::fs::read(path).unwrap();
    let root: OptRc<GgufI2s> = GgufI2s::read_into(&BytesReader::from(data), None, None)?;
    let file = root.file();
    let mut out = String::new();
    writeln!(out, "file {} {} {}", file.header().version(), file.alignment()?, file.data_start()?).unwrap();
    for pair in file.key_values().iter() {
        writeln!(out, "key {} {} {}", hex(&pair.key().text()), pair.kind(), text(&pair.value())?).unwrap();
    }
    for info in file.tensor_infos().iter() {
        let ne: Vec<String> = info.ne().iter().map(|each| each.to_string()).collect();
        writeln!(out, "tensor {} {} {} {}", hex(&info.name().text()), info.kind(), info.offset(), ne.join(",")).unwrap();
        let kind = *info.kind();
        if kind == 36 {
            let tensor = info.i2s()?;
            let scale = bits(*tensor.scale().value()?);
            writeln!(out, "i2s {} {} {}", hex(&tensor.payload()), scale, hex(&tensor.unused())).unwrap();
            layout!(out, "interleave128", tensor.interleave_128()?);
            layout!(out, "interleave64", tensor.interleave_64()?);
            layout!(out, "rows1x4", tensor.rows_1x4()?);
            layout!(out, "sequentialmsb", tensor.sequential_msb()?);
            layout!(out, "sequentiallsb", tensor.sequential_lsb()?);
            layout!(out, "rowblocks4", tensor.row_blocks_4()?);
        }
        let whole = |block: u64| info.cols().map(|cols| *cols > 0 && *cols % block == 0);
        block_type!(out, "q20", kind == 42 && whole(64)?, info.q2_0()?, blocks);
        block_type!(out, "q20g128", kind == 42 && whole(128)?, info.q2_0_g128()?, blocks);
        block_type!(out, "pq20", kind == 142, info.pq2_0()?, blocks);
        block_type!(out, "ptq10", kind == 143, info.ptq1_0()?, blocks);
        block_type!(out, "tq10", kind == 34, info.tq1_0()?, blocks);
        block_type!(out, "tq20", kind == 35, info.tq2_0()?, blocks);
        block_type!(out, "iq1bn", kind == 134, info.iq1_bn()?, rows);
        block_type!(out, "iq2bn", kind == 135, info.iq2_bn()?, rows);
        block_type!(out, "i2sr", kind == 40, info.i2_sr()?, apart);
    }
    Ok(out + "end")
}

fn main() {
    std::panic::set_hook(Box::new(|_| {})); // an overflow is an error like others
    for path in std::env::args().skip(1) {
        match std::panic::catch_unwind(|| lines(&path)) {
            Ok(Ok(out)) => println!("{out}"),
            _ => println!("error of Rust"),
        }
    }
}
