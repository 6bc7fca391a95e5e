//! A C extension's own size function is called in a count. It may raise: the count is made all the same,
//! and the guest goes on.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Guest, LIMIT, TempDir, Watch, born, fixtures, live, mem, rubies, run, skip};

/// `fixtures/ruby/live/sizes.c` as an extension; `None` = there is no compiler.
fn extension(folder: &TempDir) -> Option<PathBuf> {
    let program = folder.join("sizes.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O1", "-nostdlib", "-o"]);
    gcc.arg(&program).arg(fixtures().join("ruby/live/sizes.c"));
    if !crate::support::installed("gcc") {
        return None;
    }
    let output = run(&mut gcc, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    Some(program)
}

#[test]
fn objects_that_do_not_tell_their_size_are_counted() {
    let folder = TempDir::new("sizes");
    let Some(extension) = extension(&folder) else {
        return skip("sizes", "no gcc");
    };
    for ruby in rubies("sizes") {
        let path = extension.to_string_lossy();
        let mut guest = Guest::script(&ruby, "live/sizes.rb", &[&path]);
        guest.expect("ready");
        // Twice: a count that fails may leave the agent busy, and a second lancet out.
        for round in 1..=2u64 {
            let watch = Watch::open(mem(guest.pid));
            guest.tell(if round == 1 { "" } else { "more" });
            guest.expect("made");
            let output = watch.interrupt();
            assert_eq!(output.code(), 4, "{ruby}: {output:?}");
            let report = crate::support::Report::parse(&output.stdout);
            let rows = report.of(guest.pid);
            if round == 1 {
                assert_eq!(live(rows, "sizes.rb:12:Sizes"), 300, "{ruby}: {rows:#?}");
                assert_eq!(live(rows, "sizes.rb:15:Sizes"), 3, "{ruby}: {rows:#?}");
            } else {
                assert_eq!(born(rows, "sizes.rb:19:String"), 1, "{ruby}: {rows:#?}");
            }
            let said = report.losses.join("\n");
            assert!(said.contains("303 objects"), "{ruby}: {said}");
            let last = crate::support::losses(&output.stdout);
            let sizes = ("sizes".to_owned(), Some(303));
            assert!(last.contains(&sizes), "{ruby}: {last:?}");
        }
        guest.tell("no more");
        guest.ends_with("answer 304 ArgumentError the guest's own");
    }
}
