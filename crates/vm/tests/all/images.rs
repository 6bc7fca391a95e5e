//! Readers against images of real processes: the words of memory that a reader has looked at, with what it must say of them.
//!
//! They hold the tables of versions for which no Debian suite has a package, on every machine and in a second. `tests/live/image.rs` makes an
//! image, of a Ruby whose answers its own script has confirmed.

#[path = "../image/answers.rs"]
mod answers;
#[allow(dead_code, reason = "images are written by `tests/live`")]
#[path = "../image/image.rs"]
mod image;

use std::path::PathBuf;

use image::Image;
use vm::python::Facts;

fn images() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/image")
}

#[test]
fn ruby_4_0() {
    let bytes = std::fs::read(images().join("ruby-4.0.words")).expect("an image");
    let told = std::fs::read_to_string(images().join("ruby-4.0.txt")).expect("its answers");
    let image = Image::from_bytes(&bytes);
    let answers = answers::ruby(&image, &|name| image.symbol(name), image.value());
    assert_eq!(answers, told);
}

/// A reader that takes one of its numbers from another version's table says something else, or that it cannot read.
#[test]
fn another_version_does_not_read_it() {
    let bytes = std::fs::read(images().join("ruby-4.0.words")).expect("an image");
    let told = std::fs::read_to_string(images().join("ruby-4.0.txt")).expect("its answers");
    for other in [*b"3.3.8\0", *b"3.4.5\0"] {
        let mut image = Image::from_bytes(&bytes);
        let version = image.symbol("ruby_version").expect("its version");
        image.overwrite(version, other);
        let answers = answers::ruby(&image, &|name| image.symbol(name), image.value());
        assert_ne!(answers, told);
        assert!(answers.starts_with("cannot be read: "), "{answers}");
    }
}

/// Pythons without the GIL: larger headers of objects, and a copy of the instructions for each thread.
const FREE_THREADED: [&str; 3] = ["python-3.13t", "python-3.14t", "python-3.15t"];

fn python(name: &str) -> (Image, String) {
    let bytes = std::fs::read(images().join(format!("{name}.words"))).expect("an image");
    let told = std::fs::read_to_string(images().join(format!("{name}.txt"))).expect("its answers");
    (Image::from_bytes(&bytes), told)
}

#[test]
fn python_without_the_gil() {
    for name in FREE_THREADED {
        let (image, told) = python(name);
        let symbol = |name: &str| image.symbol(name);
        assert_eq!(answers::python(&image, &symbol), told, "{name}");
        let refused = Facts::find(&image, &symbol).expect_err("what is no stack is not read");
        let refused = refused.to_string();
        assert!(refused.contains("free-threaded"), "{name}: {refused}");
    }
}

/// Taken for a build with the GIL it cannot be read.
#[test]
fn a_build_with_the_gil_has_another_layout() {
    for name in FREE_THREADED {
        let (mut image, _) = python(name);
        let runtime = image.symbol("_PyRuntime").expect("the runtime");
        image.overwrite(runtime + 16, [0]);
        let answers = answers::python(&image, &|name| image.symbol(name));
        assert!(answers.starts_with("cannot be read: "), "{name}: {answers}");
    }
}
