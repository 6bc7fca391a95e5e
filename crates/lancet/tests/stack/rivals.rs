//! py-spy and rbspy as oracles: script frames of the same process while it waits. They are installed by `.ci/rival`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::languages::{DEEP, Frame, Language, PYTHON, RUBY, own, seen, start};
use crate::support::{Guest, rival};

fn said(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// A guest of this machine's own interpreter.
fn guest(language: &Language) -> Option<Guest> {
    Some(start(language, &own(language)?, DEEP))
}

#[test]
fn py_spy_sees_the_same_frames() {
    let (Some(program), Some(guest)) = (rival("stack", "py-spy"), guest(&PYTHON)) else {
        return;
    };
    let theirs = said(
        &program,
        &["dump", "--json", "--pid", &guest.pid.to_string()],
    );
    let theirs: Vec<Value> = serde_json::from_str(&theirs).expect("JSON");
    let ours = seen(&PYTHON, &guest, "beside py-spy");
    assert_eq!(ours.len(), theirs.len());
    for (tid, ours) in ours {
        let thread = theirs.iter().find(|thread| thread["os_thread_id"] == tid);
        let frames = thread.expect("the thread")["frames"]
            .as_array()
            .expect("frames");
        let theirs: Vec<Frame> = frames
            .iter()
            .map(|frame| {
                let field = |field: &str| frame[field].as_str().expect("text").to_owned();
                (
                    field("name"),
                    field("filename"),
                    frame["line"].as_u64().expect("a line"),
                )
            })
            .collect();
        println!("thread {tid}: {} frames", theirs.len());
        assert_eq!(ours, theirs);
    }
    assert!(guest.ends_well());
}

/// It has other lines than Ruby itself has in methods with several branches, so names are compared.
#[test]
fn rbspy_sees_the_same_frames() {
    let (Some(program), Some(guest)) = (rival("stack", "rbspy"), guest(&RUBY)) else {
        return;
    };
    let theirs = said(&program, &["snapshot", "--pid", &guest.pid.to_string()]);
    let theirs = theirs
        .lines()
        .rev()
        .filter_map(|line| line.split_once(" - "));
    let theirs: Vec<&str> = theirs
        .map(|(name, _)| name)
        .filter(|name| !name.ends_with("[c function]"))
        .collect();
    let (_, ours) = seen(&RUBY, &guest, "beside rbspy").remove(0);
    println!("{} frames", theirs.len());
    assert!(theirs.len() > 200);
    let ours: Vec<&str> = ours.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(ours, theirs);
    assert!(guest.ends_well());
}
