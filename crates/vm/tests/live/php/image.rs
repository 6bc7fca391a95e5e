//! Makes the images of PHPs ([`image`](crate::image)).

use super::guest::each_version;
use crate::image::{series, told_alike};
use crate::process::Symbols;

#[test]
fn an_image_answers_as_its_process() {
    each_version(include_str!("image.php"), |version, guest| {
        let symbols = Symbols::find(guest.script.pid(), "/bin/php").expect("php is mapped");
        let name = format!("php-{}", series(&guest.facts.version()));
        let told = told_alike(&name, &guest.memory, &|name| symbols.address(name), 0);
        assert_eq!(told.matches(" deep").count(), 21, "{version}: {told}");
        let functions = ["Job::run", "Job::each", "steps", "array_map"];
        let missing = functions.iter().find(|name| !told.contains(**name));
        assert_eq!(missing, None, "{version}: {told}");
    });
}
