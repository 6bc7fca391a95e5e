//! A `sampled` profile for speedscope: <https://www.speedscope.app/file-format-schema.json>.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use super::format::Format;
use super::stacks::Stacks;

/// A profile for speedscope.app.
pub static FORMAT: Format = Format {
    name: "speedscope",
    about: "For speedscope.app",
    has_records: false,
    write,
};

/// Writes the file. A sample is a list of numbers of frames, outermost first; its weight is how often it was seen.
pub fn write(stacks: &Stacks, out: &mut dyn Write, name: &str) -> io::Result<()> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut samples = Vec::new();
    for stack in stacks.counts.keys() {
        let sample: Vec<usize> = stack
            .iter()
            .map(|frame| {
                *numbers.entry(frame).or_insert_with(|| {
                    frames.push(json!({ "name": frame }));
                    frames.len() - 1
                })
            })
            .collect();
        samples.push(sample);
    }
    let weights: Vec<u64> = stacks.counts.values().copied().collect();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": "lancet",
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": name,
            "unit": "none",
            "startValue": 0,
            "endValue": stacks.total(),
            "samples": samples,
            "weights": weights,
        }],
    });
    crate::json::line(out, &file)
}

#[cfg(test)]
mod tests {
    use super::super::stacks::tests::{seen, written};
    use super::*;

    #[test]
    fn samples_name_frames_by_number() {
        let file: serde_json::Value =
            serde_json::from_str(&written(|out| write(&seen(), out, "p"))).unwrap();
        assert_eq!(file["profiles"][0]["weights"], json!([2, 1]));
        assert_eq!(file["profiles"][0]["samples"], json!([[0, 1, 2], [0, 3]]));
        assert_eq!(file["shared"]["frames"][2]["name"], "a<b>");
        assert_eq!(file["profiles"][0]["endValue"], 3);
    }
}
