//! Makes the images of free-threaded Pythons that `tests/image` reads, where `LANCET_IMAGES` names a folder for them; the answers are always
//! compared with those that the reader gives of the process itself.

use std::path::PathBuf;

use super::guest::each_build;
use crate::answers;
use crate::image_file::{Image, Recorder};

#[test]
fn an_image_answers_as_its_process() {
    let folder = std::env::var_os("LANCET_IMAGES").map(PathBuf::from);
    each_build(include_str!("image.py"), |version, guest| {
        let symbols = guest.symbols();
        let recorder = Recorder::new(&guest.memory, 0);
        let symbol = |name: &str| recorder.symbol(name, symbols.address(name));
        let answers = answers::python(&recorder, &symbol);
        // Code objects have a qualified name since 3.11.
        let is_told = ["Job.end", "end"].iter().any(|name| {
            let frames = format!("holds 2\n  script.py:25 wait\n  script.py:12 {name}\n");
            answers.contains(&format!("thread runs: {frames}"))
        });
        assert!(is_told, "{version}: {answers}");
        assert_eq!(
            answers.matches(" deep\n").count(),
            21,
            "{version}: {answers}"
        );
        let bytes = recorder.to_bytes();
        let image = Image::from_bytes(&bytes);
        let again = answers::python(&image, &|name| image.symbol(name));
        assert_eq!(answers, again, "{version}");
        println!("python {version}: {} bytes", bytes.len());
        let folder = folder.as_ref().filter(|_| guest.facts.is_free_threaded());
        if let Some(folder) = folder {
            let name = guest.facts.version();
            let write = |extension: &str, bytes: &[u8]| {
                let name = format!("python-{}.{}t.{extension}", name.major, name.minor);
                std::fs::write(folder.join(name), bytes).expect("the image is written");
            };
            write("words", &bytes);
            write("txt", answers.as_bytes());
        }
    });
}
