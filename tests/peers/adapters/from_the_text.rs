// An adapter in Rust written from the specification, with the standard library alone: decode and dequant of I2_S.
// rustc -O -o adapter tests/peers/adapters/from_the_text.rs && i2s conform run -- ./adapter
use std::io::{self, BufRead, Write};

/// The position after "key":; the runner's requests have no blanks there.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let head = format!("\"{key}\":");
    line.find(&head).map(|at| &line[at + head.len()..])
}

/// A quoted text; names of the runner's files need no escapes.
fn text(value: &str) -> String {
    value.chars().skip(1).take_while(|&letter| letter != '"').collect()
}

/// Clause 5.5: the byte of element k, and the shift of its code there.
fn place(layout: &str, k: usize, cols: usize) -> (usize, usize) {
    match layout {
        "arm-64" => (k / 64 * 16 + k % 16, 6 - k % 64 / 16 * 2),
        "rows-1x4" => (k / cols / 4 * cols + k % cols, 6 - k / cols % 4 * 2),
        "sequential-msb" => (k / 4, 6 - k % 4 * 2),
        "sequential-lsb" => (k / 4, k % 4 * 2),
        _ => (k / 128 * 32 + k % 32, 6 - k % 128 / 32 * 2),
    }
}

/// The bytes of the answer, or the phase in which the input is refused.
fn decode(line: &str) -> Result<Vec<u8>, &'static str> {
    let path = text(value(value(line, "input").unwrap_or(""), "path").ok_or("header")?);
    let data = std::fs::read(path).map_err(|_| "header")?;
    let shape = value(line, "shape").and_then(|at| at[1..].split(']').next()).ok_or("header")?;
    let sizes: Vec<usize> = shape.split(',').filter_map(|each| each.parse().ok()).collect();
    let (cols, count) = (sizes[0], sizes.iter().product::<usize>());
    let layout = text(value(line, "layout").unwrap_or("\"x86-128\""));
    if data.len() != count / 4 + 32 {
        return Err("extent");
    }
    let (codes, tail) = data.split_at(count / 4);
    let mut trits = vec![0i8; count];
    for (k, trit) in trits.iter_mut().enumerate() {
        let (byte, shift) = place(&layout, k, cols);
        match codes.get(byte).map(|byte| byte >> shift & 3) {
            Some(3) => return Err("payload"),
            Some(code) => *trit = code as i8 - 1,
            None => {} // elements outside of whole blocks are 0
        }
    }
    let scale = f32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]); // clause 6.1
    match text(value(line, "op").unwrap_or("")).as_str() {
        "dequant" => Ok(trits.iter().flat_map(|&trit| (f32::from(trit) * scale).to_le_bytes()).collect()),
        _ => Ok(trits.iter().map(|&trit| trit as u8).collect()),
    }
}

fn main() {
    let about = r#"{"version":1,"implementation":{"name":"Rust, from the text","version":"1","language":"rust"},"ops":["decode","dequant"],
        "features":["type.i2_s","subnormals","layout.x86-128","layout.arm-64","layout.rows-1x4","layout.sequential-msb","layout.sequential-lsb",
        "tail.replicated-8","strict.codes","strict.extent"]}"#.replace('\n', "");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let cmd = text(value(&line, "cmd").unwrap_or(""));
        let seq = value(&line, "seq").and_then(|at| at.split(',').next()).unwrap_or("0").to_string();
        let answer = match cmd.as_str() {
            "stop" => break,
            "start" => about.clone(),
            "dialect" => r#"{"ok":true}"#.to_string(),
            _ => match decode(&line) {
                Err(phase) => format!(r#"{{"seq":{seq},"rejected":true,"phase":"{phase}"}}"#),
                Ok(data) => {
                    let output = text(value(value(&line, "output").unwrap_or(""), "path").unwrap_or(""));
                    std::fs::write(output, data).expect("the answer can be written");
                    format!(r#"{{"seq":{seq},"output":true}}"#) // the runner computes the digest of the file
                }
            },
        };
        println!("{answer}");
        io::stdout().flush().expect("the runner reads");
    }
}
