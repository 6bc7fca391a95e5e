//! Forms of stacks, opened by what reads them: programs of others, which `.ci/rival` installs. `fixtures/readers` has how each is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{LIMIT, TempDir, fixtures, lancet, rival, run};
use super::{answer, scenario};

/// Stacks with their weights.
type Stacks = BTreeMap<String, u64>;

/// What a reader says of a file.
fn said(program: &Path, script: &str, words: &[&Path]) -> String {
    let mut command = Command::new(program);
    command.arg(fixtures().join("readers").join(script));
    let output = run(command.args(words), LIMIT);
    assert_eq!(output.code(), 0, "{script}: {output:?}");
    output.stdout
}

/// The stacks of lines that begin with this.
fn stacks(lines: &str, begin: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for line in lines.lines().filter_map(|line| line.strip_prefix(begin)) {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        *stacks.entry(stack.to_owned()).or_default() += weight.parse::<u64>().expect("a number");
    }
    stacks
}

/// The same by the names of the functions alone.
fn by_name(stacks: &Stacks) -> Stacks {
    let mut named = Stacks::new();
    for (stack, weight) in stacks {
        let frames = stack.split(';');
        let names = frames.map(|frame| frame.rsplit_once(" (").map_or(frame, |(name, _)| name));
        *named
            .entry(names.collect::<Vec<_>>().join(";"))
            .or_default() += weight;
    }
    named
}

/// A profile that was saved, of which each form shows the same.
struct Saved {
    folder: TempDir,
    file: PathBuf,
}

impl Saved {
    /// One of a program that is busy.
    fn new() -> Option<Self> {
        let guest = scenario("busy.rb", &[])?;
        let folder = TempDir::new("readers");
        let file = folder.join("saved");
        let line = format!("lancet profile -p PID --for 1s --save {}", file.display());
        let output = answer(&guest, &line);
        assert!(matches!(output.code(), 0 | 4), "{output:?}");
        assert!(guest.ends_well());
        Some(Saved { folder, file })
    }

    /// A file of this form.
    fn shown(&self, form: &str) -> PathBuf {
        let path = self.folder.join(form);
        let mut command = lancet();
        command
            .arg("profile")
            .arg(&self.file)
            .args(["--format", form]);
        let output = run(command.arg("-o").arg(&path), LIMIT);
        assert!(matches!(output.code(), 0 | 4), "{form}: {output:?}");
        path
    }

    /// Its stacks.
    fn stacks(&self) -> Stacks {
        let text = std::fs::read_to_string(self.shown("folded")).expect("text");
        let stacks = stacks(&text, "");
        assert!(
            stacks.keys().any(|stack| stack.contains("busy.rb")),
            "{stacks:?}"
        );
        stacks
    }
}

/// What is a weight in the heap profile that `mem` writes in this form, as its reader says it: the words before each stack, `count` of them.
fn weights_of_mem(form: &str, count: usize, read: impl Fn(&Path) -> String) -> BTreeSet<String> {
    let Some(guest) = scenario("leak.rb", &[]) else {
        return BTreeSet::new();
    };
    let folder = TempDir::new("readers");
    let path = folder.join(form);
    let line = format!(
        "lancet mem -p PID --for 1s --stacks 8 --format {form} -o {}",
        path.display()
    );
    let output = answer(&guest, &line);
    assert!(matches!(output.code(), 0 | 4), "{form}: {output:?}");
    assert!(guest.ends_well());
    let text = read(&path);
    assert!(text.contains("String"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with("service "));
    let begin = |line: &str| {
        line.splitn(count + 1, ' ')
            .take(count)
            .collect::<Vec<_>>()
            .join(" ")
    };
    lines.map(begin).collect()
}

/// The kinds of weights of a heap profile, as Go's have them.
const KINDS: [&str; 4] = [
    "alloc_objects",
    "alloc_space",
    "inuse_objects",
    "inuse_space",
];

#[test]
fn opentelemetry_reads_otlp() {
    let Some(python) = rival("readers", "opentelemetry-proto") else {
        return;
    };
    let read = |path: &Path| said(&python, "otlp.py", &[path]);
    let Some(saved) = Saved::new() else {
        return;
    };
    let text = read(&saved.shown("otlp"));
    assert!(text.starts_with("service unknown_service:ruby\n"), "{text}");
    assert_eq!(stacks(&text, "samples count "), saved.stacks());
    let expected = ["count", "bytes", "count", "bytes"];
    let expected = KINDS
        .iter()
        .zip(expected)
        .map(|(kind, unit)| format!("{kind} {unit}"));
    assert_eq!(weights_of_mem("otlp", 2, read), expected.collect());
}

#[test]
fn the_firefox_profiler_reads_its_format() {
    let Some(program) = rival("readers", "profiler-cli") else {
        return;
    };
    let read = |path: &Path| said(Path::new("python3"), "firefox.py", &[&program, path]);
    let Some(saved) = Saved::new() else {
        return;
    };
    let text = read(&saved.shown("firefox"));
    assert_eq!(stacks(&text, "samples "), by_name(&saved.stacks()));
    let expected = KINDS.map(str::to_owned).into_iter().collect();
    assert_eq!(weights_of_mem("firefox", 1, read), expected);
}
