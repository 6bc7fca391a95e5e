//! A `sampled` profile for speedscope: <https://www.speedscope.app/file-format-schema.json>. Used by `stacks`.

use std::io::{self, Write};

use indexmap::IndexSet;
use serde_json::{Value, json};

use super::form::{StackForm, Stacks, Unit, each_text};

/// A profile for speedscope.app.
pub(super) static FORM: StackForm = StackForm {
    name: "speedscope",
    about: "For speedscope.app",
    is_text: true,
    repeats: false,
    write,
};

/// Writes the file. A sample is a list of numbers of frames, outermost first; its weight is that of the stack.
fn write(stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
    let about = stacks.about();
    let mut names: IndexSet<String> = IndexSet::new();
    let mut samples: Vec<Vec<usize>> = Vec::new();
    let mut weights: Vec<u64> = Vec::new();
    each_text(stacks, &mut |texts, weight, _| {
        let sample = texts.iter().map(|text| {
            let known = names.get_index_of(&**text);
            known.unwrap_or_else(|| names.insert_full(text.to_string()).0)
        });
        samples.push(sample.collect());
        weights.push(weight);
        Ok(())
    })?;
    let unit = match about.kinds[about.one].unit {
        Unit::Count => "none",
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "nanoseconds",
    };
    let frames = names.iter().map(|name| json!({ "name": name }));
    let frames: Vec<Value> = frames.collect();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": about.title,
        "exporter": "lancet",
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": about.title,
            "unit": unit,
            "startValue": 0,
            "endValue": weights.iter().fold(0u64, |sum, weight| sum.saturating_add(*weight)),
            "samples": samples,
            "weights": weights,
        }],
    });
    crate::json::line(out, &file)
}

#[cfg(test)]
mod tests {
    use super::super::form::tests::{BYTES, Seen, seen, shown, stack};
    use super::*;

    #[test]
    fn samples_name_frames_by_number() {
        let file: Value = serde_json::from_str(&shown(&FORM, &seen())).unwrap();
        assert_eq!(file["profiles"][0]["weights"], json!([2, 1]));
        assert_eq!(file["profiles"][0]["samples"], json!([[0, 1, 2], [0, 3]]));
        assert_eq!(file["shared"]["frames"][2]["name"], "a<b>");
        assert_eq!(file["profiles"][0]["endValue"], 3);
        assert_eq!(file["profiles"][0]["unit"], "none");
    }

    #[test]
    fn bytes_are_no_sightings() {
        let stacks = Seen::new(BYTES, vec![stack("a", &[1 << 20]), stack("b", &[0])]);
        let file: Value = serde_json::from_str(&shown(&FORM, &stacks)).unwrap();
        assert_eq!(file["profiles"][0]["unit"], "bytes");
        assert_eq!(file["profiles"][0]["weights"], json!([1 << 20]));
    }
}
