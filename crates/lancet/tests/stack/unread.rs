//! Answers that are not whole: each cause has a line of its own, and the exit status is 4 for it and for nothing else.

use std::process::Command;

use super::conclusions::compiled;
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
        lancet: process PID: its script lines cannot be read: Ruby 4.1.0 is newer than the newest Ruby known here (4.0), and it cannot be read as the newest known Ruby (classes, fibers, locks and names of threads are not read so): this Ruby does not export rb_cObject
        ",
    );
    assert!(guest.ends_well());
}

/// How an answer can be incomplete. What cannot be brought about at will has its words in `frames` and in the command: a list of objects
/// that changes in each of its readings, and memory that a command that was killed has left behind and that cannot be put back.
#[test]
fn each_cause_of_an_incomplete_answer_is_said() {
    let without = Guest::asleep(&mut Command::new(compiled("no_caller.c")));
    let well = Guest::asleep(Command::new("sh").args(["-c", "echo ready; exec cat"]));
    let mut ended = Command::new("true").spawn().expect("it is there");
    let gone = ended.id().to_string();
    ended.wait().expect("our child");
    let [cut, well_id] = [&without, &well].map(|guest| guest.pid.to_string());
    let outer = format!("process {cut}: the outer frames of 1 stack could not be found");
    let elsewhere = format!("{outer}: --native shows where they end");
    let no_process = format!("process {gone}");
    // A round of looks at so many processes takes longer than the shortest interval.
    let many: Vec<Guest> = (0..30)
        .map(|_| Guest::asleep(Command::new("sh").args(["-c", "echo ready; exec cat"])))
        .collect();
    let ids: Vec<String> = many.iter().map(|guest| guest.pid.to_string()).collect();
    let of_many = ids.iter().flat_map(|id| ["-p", id]);
    let hurried: Vec<&str> = of_many
        .chain(["--for", "100ms", "--every", "1ms"])
        .collect();
    let cases: [(&[&str], &str, &str); 6] = [
        (&["-p", &cut], &elsewhere, ""),
        // Said where the stack ends, and in the last record.
        (
            &["-p", &cut, "--native"],
            "",
            " could not be found; the rest is not known",
        ),
        (
            &["-p", &cut, "--native", "--bytes"],
            "",
            " could not be found; the rest is not known",
        ),
        (&["-p", &cut, "--json"], "", &outer),
        (&["-p", &well_id, "-p", &gone], &no_process, ""),
        (&hurried, " did not take place, ", ""),
    ];
    for (options, complaint, answer) in cases {
        let output = stack(options);
        assert_eq!(output.status.code(), Some(4), "{options:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(complaint), "{options:?}: {output:?}");
        // Nothing is said twice, and what is said elsewhere not here. Many looks have a line with their number, too.
        let lines = usize::from(!complaint.is_empty()) + usize::from(options.contains(&"--for"));
        assert_eq!(said.lines().count(), lines, "{options:?}: {said}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(answer), "{options:?}: {output:?}");
    }
    let whole = stack(&["-p", &well_id]);
    assert_eq!(
        (whole.status.code(), whole.stderr.is_empty()),
        (Some(0), true),
        "{whole:?}"
    );
    assert!(without.ends_well() && well.ends_well());
    assert!(many.into_iter().all(Guest::ends_well));
}
