//! `--new`: writes a source file with the prototype of a function of the process. Used by `run`.

use std::fs::File;
use std::io::Write;

use anyhow::Context;
use calls::signatures::Signatures;
use patch::{Guest, Request};
use report::patch::{Language, Subject, template};

use super::explained::explained;

/// Writes `FUNCTION.c` or `FUNCTION.rs` into this folder; a file of that name is left alone.
pub fn new(guest: &Guest, asked: &str, language: Language) -> anyhow::Result<String> {
    let function = patch::function(guest, &Request::of(asked)).map_err(explained)?;
    let signatures = Signatures::read(&[], false)?;
    signatures.read_debug_info(guest.functions(), std::slice::from_ref(&function));
    let (module, name) = (&*function.module, function.name.as_str());
    let prototype = signatures.of(module, name);
    let known = prototype.is_some();
    let prototype = prototype.unwrap_or_else(|| signatures.unknown().clone());
    let subject = Subject {
        function: name,
        module,
        pid: guest.pid(),
    };
    let text = template(language, subject, &prototype).with_context(|| {
        format!("{name} has an argument or a result of a type that cannot be written here: try without --rust, or write it by hand")
    })?;
    let ending = if language == Language::C { "c" } else { "rs" };
    let stem: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect();
    let path = format!("{stem}.{ending}");
    let file = File::create_new(&path);
    let mut file = file.with_context(|| format!("{path} is not written"))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("writing {path}"))?;
    if !known {
        tell!(
            "nobody describes {name} (no debug information, no prototype): it is written with four words, which may be wrong"
        );
    }
    Ok(path)
}
