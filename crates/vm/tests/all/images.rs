//! Readers against images of real processes: the words of memory that a reader has looked at, with what it must say of them.
//!
//! They hold the tables of all versions on every machine and in a second, also of those for which no Debian suite has a package.
//! `tests/live/image.rs` makes them, of processes of which the other tests there have confirmed the answers.

#[path = "../image/answers.rs"]
mod answers;
#[allow(dead_code, reason = "images are written by `tests/live`")]
#[path = "../image/image.rs"]
mod image;

use std::path::PathBuf;

use image::Image;
use vm::python::Facts;
use vm::ruby;

fn images() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/image")
}

/// The names of all images.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(images()).expect("the images");
    let files = files.map(|file| file.expect("a file").path());
    let images = files.filter(|path| path.extension().is_some_and(|it| it == "words"));
    let stems = images.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    stems.collect()
}

fn image(name: &str) -> (Image, String) {
    let bytes = std::fs::read(images().join(format!("{name}.words"))).expect("an image");
    let told = std::fs::read_to_string(images().join(format!("{name}.txt"))).expect("its answers");
    (Image::from_bytes(&bytes), told)
}

fn answers_of(name: &str, image: &Image) -> String {
    answers::of(name, image, &|name| image.symbol(name), image.value())
}

#[test]
fn each_image_is_read_as_its_process_was() {
    let names = names();
    for language in ["ruby-", "python-", "perl-", "php-"] {
        let count = names.iter().filter(|name| name.starts_with(language));
        assert!(count.count() >= 4, "{language}: {names:?}");
    }
    for name in names {
        let (image, told) = self::image(&name);
        assert_eq!(answers_of(&name, &image), told, "{name}");
    }
}

/// A reader that takes one of its numbers from another version's table says something else, or that it cannot read.
#[test]
fn another_version_does_not_read_it() {
    for other in [*b"3.3.8\0", *b"3.4.5\0"] {
        let (mut image, told) = image("ruby-4.0");
        let version = image.symbol("ruby_version").expect("its version");
        image.overwrite(version, other);
        let answers = answers_of("ruby-4.0", &image);
        assert_ne!(answers, told);
        assert!(answers.starts_with("cannot be read: "), "{answers}");
    }
}

/// A frame that cannot be read ends the walk, and how many are further out is known.
#[test]
fn a_chain_of_frames_that_breaks_off_is_no_whole_one() {
    let bytes = std::fs::read(images().join("ruby-4.0.words")).expect("an image");
    let image = Image::from_bytes(&bytes);
    let facts = ruby::Facts::find(&image, &|name| image.symbol(name)).expect("facts");
    let known = ruby::Ruby::new(&image, facts).expect("a Ruby");
    let main = known
        .main_thread(known.vm().expect("a VM"))
        .expect("a thread");
    let ec = known.running_ec(main).expect("its context");
    let cfp = known.current_cfp(ec).expect("its frame");
    assert_eq!(known.lies_in_stack(ec, cfp), Ok(true));
    assert_eq!(known.lies_in_stack(ec, cfp + 8), Ok(false));
    assert_eq!(known.lies_in_stack(ec, cfp - (1 << 30)), Ok(false));
    let whole = known.frames(ec, cfp).expect("frames");
    let all: Vec<_> = whole.map(|frame| frame.expect("a frame").cfp).collect();
    assert!(all.len() > 2, "{all:x?}");
    for (number, broken) in all.iter().enumerate() {
        let mut image = Image::from_bytes(&bytes);
        // Where its environment ends.
        image.overwrite(broken + 32, 8_u64.to_le_bytes());
        let ruby = known.over(&image);
        let mut frames = ruby.frames(ec, cfp).expect("frames");
        let read = frames.by_ref().take_while(Result::is_ok).count();
        assert_eq!(read, number);
        assert!(frames.further() as usize + 1 >= all.len() - number);
        assert!(frames.next().is_none());
    }
}

/// Pythons without the GIL: larger headers of objects, and a copy of the instructions for each thread.
const FREE_THREADED: [&str; 3] = ["python-3.13t", "python-3.14t", "python-3.15t"];

#[test]
fn of_python_without_the_gil_nothing_but_stacks_is_read() {
    for name in FREE_THREADED {
        let (image, _) = image(name);
        let refused = Facts::find(&image, &|name| image.symbol(name));
        let refused = refused.expect_err("what is no stack is not read");
        let refused = refused.to_string();
        assert!(refused.contains("free-threaded"), "{name}: {refused}");
    }
}

/// Taken for a build with the GIL it cannot be read.
#[test]
fn a_build_with_the_gil_has_another_layout() {
    for name in FREE_THREADED {
        let (mut image, _) = image(name);
        let runtime = image.symbol("_PyRuntime").expect("the runtime");
        image.overwrite(runtime + 16, [0]);
        let answers = answers_of(name, &image);
        assert!(answers.starts_with("cannot be read: "), "{name}: {answers}");
    }
}
