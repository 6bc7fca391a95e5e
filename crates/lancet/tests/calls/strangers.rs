//! Children that a guest makes and that are not its own: what the kernel gives us of them is taken in, and nobody waits for ever.

use crate::machine::program;
use crate::support::{LIMIT, lancet, run};

#[test]
fn children_that_become_ours_are_taken_in() {
    let Some(path) = program("strangers.c") else {
        return;
    };
    let path = path.to_str().expect("plain");
    for (mode, answer) in [("parent", "answer gone\n"), ("traced", "answer 42\n")] {
        for options in [
            &["syscalls", "-o", "/dev/null"][..],
            &["syscalls", "--no-modify", "-o", "/dev/null"],
            &["syscalls", "--no-modify", "-f", "-o", "/dev/null"],
            &["calls", "-x", "malloc", "-o", "/dev/null"],
        ] {
            let mut command = lancet();
            command.args(options).args(["--", path, mode]);
            let output = run(&mut command, LIMIT);
            assert_eq!(output.stdout, answer, "{mode} {options:?}: {output:?}");
            assert_eq!(output.code(), 0, "{mode} {options:?}: {output:?}");
        }
    }
}
