//! Makes the images of Perls ([`image`](crate::image)).

use super::guest::each_version;
use crate::image::{series, told_alike};
use crate::process::Symbols;

#[test]
fn an_image_answers_as_its_process() {
    each_version(include_str!("image.pl"), |version, guest| {
        assert!(guest.next(), "{version}: it has ended");
        let pid = guest.script.pid();
        let perl = Symbols::find(pid, "/perl").expect("perl is mapped");
        let libc = Symbols::find(pid, "/libc").expect("libc is mapped");
        let symbol = |name: &str| perl.address(name).or_else(|| libc.address(name));
        let name = format!("perl-{}", series(&guest.facts.version()));
        let told = told_alike(&name, &guest.memory, &symbol, 0);
        assert_eq!(told.matches("main::deep").count(), 21, "{version}: {told}");
        let subs = ["Job::end", "Job::run", "main::sorted"];
        let missing = subs.iter().find(|name| !told.contains(**name));
        assert_eq!(missing, None, "{version}: {told}");
    });
}
