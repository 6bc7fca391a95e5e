//! Frames and lines against `caller`; where C and Perl meet against gdb.

use std::path::Path;
use std::process::{Command, Stdio};

use vm::perl::{Frame, Interpreter, Kind, Perl, Point, Text};

use super::guest::{Guest, each_version};
use crate::process::ProcessMemory;

/// What a reader sees, to be written as a test wants it.
pub struct View<'a> {
    pub perl: Perl<'a, ProcessMemory>,
    pub interpreter: Interpreter,
}

impl View<'_> {
    fn text(&self, text: Text) -> String {
        let mut out = String::new();
        self.perl
            .write_text(text, u64::MAX, &mut out)
            .expect("text");
        out
    }

    fn code(&self, code: u64) -> String {
        let mut out = String::new();
        self.perl.write_code_name(code, &mut out).expect("a name");
        out
    }

    pub fn frames(&self) -> Vec<Frame> {
        let frames = self.perl.frames(&self.interpreter).expect("a stack");
        frames.map(|frame| frame.expect("a frame")).collect()
    }

    /// `package file line`, as the first three of `caller`.
    pub fn point(&self, point: Point) -> String {
        let (file, line) = self.perl.position(point).expect("a position");
        let package = self
            .perl
            .package(&self.interpreter, point)
            .expect("a package");
        let package = package.map(|name| self.text(name)).unwrap_or_default();
        format!("{package}\t{}\t{line}", self.text(file))
    }

    /// The fourth of `caller`.
    pub fn name(&self, kind: Kind) -> String {
        match kind {
            Kind::Sub { code } => self.code(code),
            Kind::Format { code } => {
                assert_eq!(self.code(code), "main::NOWHERE");
                "(format)".to_owned()
            }
            _ => "(eval)".to_owned(),
        }
    }

    /// What `caller` would say, frame by frame.
    pub fn caller(&self) -> Vec<String> {
        let frames = self.frames();
        frames
            .iter()
            .zip(&frames[1..])
            .filter(|(frame, _)| is_in_caller(frame.kind))
            .map(|(frame, outside)| {
                let point = outside.point.expect("a point");
                format!("frame\t{}\t{}", self.point(point), self.name(frame.kind))
            })
            .collect()
    }
}

/// Whether `caller` shows a frame of this kind. `eval` and files it calls `(eval)`.
fn is_in_caller(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Sub { .. }
            | Kind::Format { .. }
            | Kind::Eval
            | Kind::EvalText { .. }
            | Kind::File { .. }
    )
}

#[test]
fn frames_are_those_of_caller_and_loops_those_of_gdb() {
    each_version(include_str!("frames.pl"), |version, guest| {
        let (mut stops, mut compared) = (0, 0);
        while guest.next() {
            let lines = guest.script.lines.clone();
            let told: Vec<&str> = lines
                .iter()
                .map(String::as_str)
                .filter(|line| line.starts_with("frame\t"))
                .collect();
            let say = |key: &str| {
                let found = lines.iter().find_map(|line| line.strip_prefix(key));
                found.unwrap_or_else(|| panic!("no {key:?} in {lines:#?}"))
            };
            let label = say("label\t");
            let view = View {
                perl: guest.perl(),
                interpreter: guest.interpreter(),
            };
            assert_eq!(view.caller(), told, "{version}: {label}");

            let frames = view.frames();
            let here = frames[0].point.expect("a point");
            assert_eq!(Ok(Some(here)), view.perl.here(&view.interpreter));
            let line: u32 = say("here\t").parse().expect("a line");
            assert_eq!(view.perl.line(here), Ok(line), "{version}: {label}");
            let begins = view.perl.statement_line(here).expect("a line");
            assert!(
                begins < line,
                "{version}: {label}: the statement begins on {begins}"
            );
            assert_eq!(frames.last().map(|frame| frame.kind), Some(Kind::Main));

            let entered = frames.iter().filter(|frame| frame.enters).count();
            // Asking gdb takes long. One Perl shows each kind of call; of the others a few are enough.
            let sample = if guest.root == Path::new("/") { 1 } else { 4 };
            if entered > 1 && stops % sample == 0 || stops == 0 {
                match loops(guest) {
                    Some(found) => assert_eq!(entered, found, "{version}: {label}: {frames:#?}"),
                    None => {
                        println!("SKIPPED: {version}: loops of C are not compared: there is no gdb")
                    }
                }
                compared += entered;
            }
            stops += 1;
        }
        println!("{version}: {stops} stops, {compared} loops");
        assert!(stops >= 55, "{version}: {stops}");
    });
}

/// How many frames of the C stack are loops of Perl's; `None` without gdb. A program in its beginning
/// (`perl_parse`) or its end (`perl_destruct`) has none for itself; it is counted all the same.
fn loops(guest: &Guest) -> Option<usize> {
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-iex", "set auto-load off", "-iex"])
        .arg(format!("set sysroot {}", guest.root.display()))
        // By its path here: gdb would look for what the process calls it below the root.
        .arg(std::fs::read_link(format!("/proc/{}/exe", guest.script.pid())).expect("a program"))
        .args(["-iex", "set debuginfod enabled off", "-p"])
        .arg(guest.script.pid().to_string())
        .args(["-ex", "backtrace"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = |name: &str| text.lines().filter(|line| line.contains(name)).count();
    assert_eq!(count(" main "), 1, "gdb found no way out: {text}");
    Some(count(" Perl_runops_standard ") + usize::from(count(" perl_run ") == 0))
}
