//! Makes the images that `tests/image` reads, where `LANCET_IMAGES` names a folder for them; the answers are always compared with those
//! that the readers give of the process itself.

use std::path::PathBuf;

use crate::answers;
use crate::guest::{each_version, hex};
use crate::image_file::{Image, Recorder};
use crate::process::Symbols;

#[test]
fn an_image_answers_as_its_process() {
    let folder = std::env::var_os("LANCET_IMAGES").map(PathBuf::from);
    each_version(include_str!("image.rb"), |version, guest| {
        let libruby = Symbols::find(guest.pid(), "/libruby").expect("libruby is mapped");
        let value = hex(&guest.lines[0]);
        let recorder = Recorder::new(&guest.memory, value);
        let symbol = |name: &str| recorder.symbol(name, libruby.address(name));
        let answers = answers::ruby(&recorder, &symbol, value);
        assert!(!answers.contains("cannot be read"), "{version}: {answers}");
        assert!(
            answers.contains(", holds 2, wants false,"),
            "{version}: {answers}"
        );
        let bytes = recorder.to_bytes();
        let image = Image::from_bytes(&bytes);
        let again = answers::ruby(&image, &|name| image.symbol(name), image.value());
        assert_eq!(answers, again, "{version}");
        println!("ruby {version}: {} bytes", bytes.len());
        if let Some(folder) = &folder {
            let write = |extension: &str, bytes: &[u8]| {
                let path = folder.join(format!("ruby-{version}.{extension}"));
                std::fs::write(path, bytes).expect("the image is written");
            };
            write("words", &bytes);
            write("txt", answers.as_bytes());
        }
    });
}
