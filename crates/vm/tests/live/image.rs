//! Makes the images that `tests/all` reads, where `LANCET_IMAGES` names a folder for them; the answers are always compared with those
//! that the readers give of the process itself. Used by `perl::image`, `php::image` and `python::image`.

use std::path::PathBuf;

use vm::Memory;

use crate::answers::{self, Symbol};
use crate::guest::{each_version, hex};
use crate::image_file::{Image, Recorder};
use crate::process::Symbols;

/// Returns what the reader says of a process, of which the image has this name, after the image was held against it.
pub fn told_alike(name: &str, memory: &dyn Memory, symbol: Symbol, value: u64) -> String {
    let recorder = Recorder::new(memory, value);
    let noted = |name: &str| recorder.symbol(name, symbol(name));
    let told = answers::of(name, &recorder, &noted, value);
    assert!(!told.contains("cannot be read"), "{name}: {told}");
    let bytes = recorder.to_bytes();
    let image = Image::from_bytes(&bytes);
    let again = answers::of(name, &image, &|name| image.symbol(name), image.value());
    assert_eq!(told, again, "{name}");
    println!("{name}: {} bytes", bytes.len());
    if let Some(folder) = std::env::var_os("LANCET_IMAGES").map(PathBuf::from) {
        let write = |extension: &str, bytes: &[u8]| {
            let path = folder.join(format!("{name}.{extension}"));
            std::fs::write(path, bytes).expect("the image is written");
        };
        write("words", &bytes);
        write("txt", told.as_bytes());
    }
    told
}

/// Major and minor version.
pub fn series(version: &dyn std::fmt::Display) -> String {
    let version = version.to_string();
    let mut parts = version.splitn(3, '.');
    let [major, minor] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
    format!("{major}.{minor}")
}

#[test]
fn an_image_answers_as_its_process() {
    each_version(include_str!("image.rb"), |version, guest| {
        let libruby = Symbols::find(guest.pid(), "/libruby").expect("libruby is mapped");
        let symbol = |name: &str| libruby.address(name);
        let value = hex(&guest.lines[0]);
        let told = told_alike(&format!("ruby-{version}"), &guest.memory, &symbol, value);
        assert!(
            told.contains(", holds 2, wants false,"),
            "{version}: {told}"
        );
    });
}
