// boostr: its kernels for processors of five types with a scale for each block.
use boostr::quant::cpu::kernels::dequant;

pub const ABOUT: &str = r#"{"version":1,"implementation":{"name":"boostr","version":"VERSION","language":"rust",
"source":"crates.io boostr VERSION"},"ops":["decode","dequant"],
"features":["type.tq1_0","type.tq2_0","type.q2_0","type.pq2_0","type.ptq1_0","subnormals","codes.plus-two"]}"#;

pub fn answer(op: &str, kind: &str, data: &[u8], count: usize) -> Result<Option<Vec<u8>>, String> {
    let given = if op == "decode" { crate::unit_scales(kind, data, count) } else { data.to_vec() };
    let mut weights = vec![0f32; count];
    match kind {
        "tq1_0" => dequant::dequant_tq1_0(&given, &mut weights),
        "tq2_0" => dequant::dequant_tq2_0(&given, &mut weights),
        "q2_0" => dequant::dequant_q2_0(&given, &mut weights),
        "pq2_0" => dequant::dequant_pq2_0(&given, &mut weights),
        _ => dequant::dequant_ptq1_0(&given, &mut weights),
    }
    Ok(Some(if op == "decode" { crate::codes(&weights) } else { crate::bytes(&weights) }))
}
