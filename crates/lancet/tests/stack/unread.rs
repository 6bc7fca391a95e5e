//! VMs whose script lines cannot be read.

use std::process::Command;

use super::output::{folder, stack};
use super::support::{Guest, assert_shown};

/// A Ruby of a version without a table, as far as its variables show it: a line says which version it is, and the exit code that something
/// is missing. The native frames are shown.
#[test]
fn a_version_without_a_table_is_named() {
    let folder = folder("unread");
    let (source, program) = (folder.join("ruby.c"), folder.join("ruby"));
    let text = "#include <stdio.h>\nconst char ruby_version[] = \"4.1.0\";\n\
        int main(void) { puts(\"ready\"); fflush(stdout); return getchar() != EOF; }\n";
    std::fs::write(&source, text).expect("written");
    let built = Command::new("gcc")
        .args(["-rdynamic", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(built.expect("gcc").success());
    let guest = Guest::asleep(&mut Command::new(&program));
    let pid = guest.pid.to_string();
    let output = stack(&["-p", &pid]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("libc.so"), "{shown}");
    assert_shown(
        &String::from_utf8_lossy(&output.stderr),
        &[(&pid, "PID")],
        r"
        lancet: process PID: its script lines cannot be read: Ruby 4.1.0 is newer than the newest Ruby known here (4.0)
        ",
    );
    assert!(guest.ends_well());
}
