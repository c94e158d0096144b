// rlx-gguf: its reader of files, its decoders and its quantizers.
use rlx_gguf::{dequant_typed, quantize, GgmlType, GgufFile};

pub const ABOUT: &str = r#"{"version":1,"implementation":{"name":"rlx-gguf","version":"VERSION","language":"rust",
"source":"crates.io rlx-gguf VERSION"},"ops":["decode","dequant","quantize","container"],
"features":["type.i2_s","layout.x86-128","type.tq1_0","type.tq2_0","type.q2_0.g128","type.pq2_0","type.ptq1_0",
"quantize.ggml","gguf.v2","subnormals","codes.plus-two"]}"#;

pub fn answer(op: &str, kind: &str, data: &[u8], count: usize) -> Result<Option<Vec<u8>>, String> {
    if op == "container" {
        return GgufFile::from_bytes(data.to_vec()).map(|_| None).map_err(|fault| fault.to_string());
    }
    let kind_of = match kind {
        "tq1_0" => GgmlType::TQ1_0,
        "tq2_0" => GgmlType::TQ2_0,
        "q2_0.g128" => GgmlType::Q2_0,
        "pq2_0" => GgmlType::PQ2_0,
        "ptq1_0" => GgmlType::PTQ1_0,
        _ => GgmlType::I2_S,
    };
    if op == "quantize" {
        return quantize(&crate::floats(data), kind_of).map(Some).map_err(|fault| fault.to_string());
    }
    let given = if op == "decode" { crate::unit_scales(kind, data, count) } else { data.to_vec() };
    let weights = dequant_typed(kind_of, &given, count, "t").map_err(|fault| fault.to_string())?;
    Ok(Some(if op == "decode" { crate::codes(&weights) } else { crate::bytes(&weights) }))
}
