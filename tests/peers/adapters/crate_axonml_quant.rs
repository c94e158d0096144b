// axonml-quant: blocks of I2_S; the scale, which its caller reads, is the float behind the codes.
use axonml_quant::bitnet::{dequantize_i2s, I2sBlock};

pub const ABOUT: &str = r#"{"version":1,"implementation":{"name":"axonml-quant","version":"VERSION","language":"rust",
"source":"crates.io axonml-quant VERSION"},"ops":["decode","dequant"],"features":["type.i2_s","layout.x86-128","subnormals"]}"#;

pub fn answer(op: &str, _kind: &str, data: &[u8], count: usize) -> Result<Option<Vec<u8>>, String> {
    let (codes, tail) = data.split_at_checked(count / 4).ok_or("the data ends in the codes")?;
    if op == "decode" {
        let blocks = codes.chunks(32).map(|part| I2sBlock::from_bytes(part).ok_or("half a block"));
        let trits: Vec<[i8; 128]> = blocks.map(|block| block.map(|it| it.unpack())).collect::<Result<_, _>>()?;
        return Ok(Some(trits.concat().iter().take(count).map(|&trit| trit as u8).collect()));
    }
    let scale = *crate::floats(tail).first().ok_or("no scale")?;
    let mut weights = vec![0f32; count];
    dequantize_i2s(codes, scale, &mut weights);
    Ok(Some(crate::bytes(&weights)))
}
