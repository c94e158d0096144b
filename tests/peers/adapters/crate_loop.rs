// The loop of i2s-cp/1 around a crate, with the standard library alone. The module `decoder` is one of `crate_NAME.rs`: what it
// says of itself, and `answer`, which gives bytes, nothing for a file that is read, or why the input is refused.
mod decoder;

use std::io::{self, BufRead, Write};

/// The position after "key":; requests have no blanks there.
fn after<'a>(line: &'a str, key: &str) -> &'a str {
    let head = format!("\"{key}\":");
    line.find(&head).map_or("", |at| &line[at + head.len()..])
}

/// A quoted text; names of the runner's files need no escapes.
fn text(value: &str) -> &str {
    value.split('"').nth(1).unwrap_or("")
}

/// The data of a tensor with the scale 1 in every block: what decoders that give weights alone make codes of.
pub fn unit_scales(kind: &str, data: &[u8], count: usize) -> Vec<u8> {
    let mut data = data.to_vec();
    let (block, at) = match kind {
        "tq1_0" => (54, 52),
        "tq2_0" => (66, 64),
        "q2_0" => (18, 0),
        "q2_0.g128" | "pq2_0" => (34, 0),
        "ptq1_0" => (28, 26),
        _ => {
            if let Some(scale) = data.get_mut(count / 4..count / 4 + 4) {
                scale.copy_from_slice(&1f32.to_le_bytes());
            }
            return data;
        }
    };
    data.chunks_exact_mut(block).for_each(|each| each[at..at + 2].copy_from_slice(&[0, 0x3c]));
    data
}

pub fn bytes(weights: &[f32]) -> Vec<u8> {
    weights.iter().flat_map(|weight| weight.to_le_bytes()).collect()
}

pub fn codes(weights: &[f32]) -> Vec<u8> {
    weights.iter().map(|&weight| weight as i8 as u8).collect()
}

pub fn floats(data: &[u8]) -> Vec<f32> {
    data.chunks_exact(4).map(|each| f32::from_le_bytes([each[0], each[1], each[2], each[3]])).collect()
}

fn main() {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let seq = after(&line, "seq").split(',').next().unwrap_or("0").to_string();
        let reply = match text(after(&line, "cmd")) {
            "stop" => break,
            "start" => decoder::ABOUT.replace('\n', ""),
            "dialect" => format!(r#"{{"ok":{}}}"#, text(after(&line, "dialect")) == "x86-128"),
            _ => {
                let data = std::fs::read(text(after(after(&line, "input"), "path"))).expect("the input can be read");
                let shape = after(&line, "shape").trim_start_matches('[').split(']').next().unwrap_or("");
                let count = shape.split(',').filter_map(|size| size.parse::<usize>().ok()).product();
                match decoder::answer(text(after(&line, "op")), text(after(after(&line, "args"), "type")), &data, count) {
                    Ok(Some(found)) => {
                        std::fs::write(text(after(after(&line, "output"), "path")), found).expect("a file can be written");
                        format!(r#"{{"seq":{seq},"output":true}}"#)
                    }
                    Ok(None) => format!(r#"{{"seq":{seq},"verdict":"valid"}}"#),
                    Err(why) => format!(r#"{{"seq":{seq},"rejected":true,"message":{why:?}}}"#),
                }
            }
        };
        println!("{reply}");
        io::stdout().flush().expect("somebody reads");
    }
}
