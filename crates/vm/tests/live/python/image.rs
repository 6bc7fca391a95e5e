//! Makes the images of Pythons ([`image`](crate::image)).

use super::guest::each_build;
use crate::image::{series, told_alike};

#[test]
fn an_image_answers_as_its_process() {
    each_build(include_str!("image.py"), |version, guest| {
        let symbols = guest.symbols();
        let build = match guest.facts.is_free_threaded() {
            true => "t",
            false => "",
        };
        let name = format!("python-{}{build}", series(&guest.facts.version()));
        let told = told_alike(&name, &guest.memory, &|name| symbols.address(name), 0);
        // Code objects have a qualified name since 3.11.
        let is_told = ["Job.end", "end"].iter().any(|name| {
            let frames = format!("holds 2\n  script.py:25 wait\n  script.py:12 {name}\n");
            told.contains(&format!("thread runs: {frames}"))
        });
        assert!(is_told, "{version}: {told}");
        assert_eq!(told.matches(" deep\n").count(), 21, "{version}: {told}");
    });
}
