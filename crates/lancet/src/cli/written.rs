//! Files in TOML that a person has written: what is wrong with one is said in a line, with its place. Used by
//! `commands::agent::config` and `commands::patch::plan_file`.

use std::fmt;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use process::modules::open_regular;
use serde::de::DeserializeOwned;
use strsim::osa_distance;

/// Bytes of such a file that are read, at most.
const LARGEST: u64 = 1 << 20;

/// What is wrong with the text.
#[derive(Debug, PartialEq, Eq)]
pub struct Flaw {
    /// In which line, from 1; `None`: in none of them.
    pub line: Option<usize>,
    /// What it is.
    pub what: String,
}

impl Flaw {
    /// One at a byte of the text.
    pub fn at(text: &str, byte: usize, what: String) -> Self {
        let before = text.bytes().take(byte).filter(|byte| *byte == b'\n');
        Flaw {
            line: Some(before.count() + 1),
            what,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Flaw {}

/// Reads the text of a regular file, which is to be a `what`.
///
/// # Errors
/// It cannot be read, or is larger than such a file is.
pub fn text(path: &Path, what: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = open_regular(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    read.with_context(|| format!("{} cannot be read", path.display()))?;
    // The beginning of a longer one may be such a file too, with less in it.
    if text.len() as u64 > LARGEST {
        bail!(
            "{} is no {what}: it is larger than {} KiB",
            path.display(),
            LARGEST >> 10
        );
    }
    Ok(text)
}

/// Takes a text apart.
///
/// # Errors
/// It is no TOML, or has not what is wanted. Of a key that is not known, the nearest is named.
pub fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Flaw> {
    toml::from_str(text).map_err(|error| {
        let mut what = error.message().replace('\n', "; ");
        if let Some(meant) = meant(&what) {
            what += &format!(": `{meant}` was meant?");
        }
        match error.span() {
            Some(span) => Flaw::at(text, span.start, what),
            None => Flaw { line: None, what },
        }
    })
}

/// The known key that is nearest to one that is not, by the sentence that serde says of it: `unknown field `fiel`, expected one of `file`, `new``.
fn meant(sentence: &str) -> Option<&str> {
    let rest = sentence.strip_prefix("unknown field `")?;
    let (wrong, known) = rest.split_once('`')?;
    let known = known.split('`').skip(1).step_by(2);
    let near = known.map(|name| (osa_distance(wrong, name), name));
    let (distance, name) = near.min()?;
    // A third of it may be wrong: farther ones are other words.
    (distance <= wrong.chars().count().div_ceil(3)).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        #[allow(dead_code, reason = "it is only parsed")]
        file: String,
        #[serde(default)]
        #[allow(dead_code, reason = "it is only parsed")]
        size: u8,
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_the_nearest_key() {
        for (text, said) in [
            (
                "file = 'a'\nsiez = 3",
                "line 2: unknown field `siez`, expected `file` or `size`: `size` was meant?",
            ),
            (
                "file = 'a'\ncolour = 3",
                "line 2: unknown field `colour`, expected `file` or `size`",
            ),
            ("\n\nfile = 'a", "line 3: "),
            ("file = 'a'\nsize = 300", "line 2: "),
            ("", "missing field `file`"),
        ] {
            let flaw = parsed::<Written>(text).expect_err(text).to_string();
            assert!(
                flaw.contains(said) && !flaw.contains('\n'),
                "{text}: {flaw}"
            );
        }
        assert_eq!(parsed::<Written>("file = 'a'").expect("whole").size, 0);
    }
}
