//! Forms of stacks, opened by what reads them: programs of others, which `.ci/rival` installs. `fixtures/readers` has how each is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{LIMIT, TempDir, fixtures, lancet, rival, run, soak};
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

/// A reader; the soak run does not go without.
fn reader(name: &str) -> Option<PathBuf> {
    let found = rival("readers", name);
    assert!(found.is_some() || !soak(), "there is no {name}");
    found
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

    /// For how many nanoseconds was looked, as its record says.
    fn took(&self) -> u64 {
        let text = std::fs::read_to_string(self.shown("json")).expect("text");
        let took = text.split("\"took_ns\":").nth(1).expect("a time");
        let digits = took.split(|one: char| !one.is_ascii_digit()).next();
        digits.unwrap_or("").parse().expect("a number")
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
    let about = ["service ", "attributes ", "times ", "range "];
    let lines = text
        .lines()
        .filter(|line| !about.iter().any(|word| line.starts_with(word)));
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
    let Some(python) = reader("opentelemetry-proto") else {
        return;
    };
    let read = |path: &Path| said(&python, "otlp.py", &[path]);
    let Some(saved) = Saved::new() else {
        return;
    };
    let text = read(&saved.shown("otlp"));
    assert!(text.starts_with("service unknown_service:ruby\n"), "{text}");
    assert_eq!(stacks(&text, "samples count "), saved.stacks());
    let keys = "\nattributes process.executable.name process.pid service.name\n";
    assert!(text.contains(keys), "{text}");
    let times = text.lines().find_map(|line| line.strip_prefix("times "));
    let times = times.expect("times").split(' ');
    let times: Vec<u64> = times.map(|time| time.parse().unwrap()).collect();
    assert_eq!(times[1], saved.took());
    assert!(times.iter().all(|time| *time != 0), "{times:?}");
    let expected = ["count", "bytes", "count", "bytes"];
    let expected = KINDS
        .iter()
        .zip(expected)
        .map(|(kind, unit)| format!("{kind} {unit}"));
    assert_eq!(weights_of_mem("otlp", 2, read), expected.collect());
}

#[test]
fn the_firefox_profiler_reads_its_format() {
    let Some(program) = reader("profiler-cli") else {
        return;
    };
    let read = |path: &Path| said(Path::new("python3"), "firefox.py", &[&program, path]);
    let Some(saved) = Saved::new() else {
        return;
    };
    let text = read(&saved.shown("firefox"));
    assert_eq!(stacks(&text, "samples samples "), saved.stacks());
    let range = text.lines().find_map(|line| line.strip_prefix("range 0 "));
    let end: f64 = range.expect("a range").parse().expect("a number");
    let took = saved.took() as f64 / 1e6;
    assert!((end - took).abs() < 0.001, "{end} {took}");
    let expected = ["samples", "bytes", "samples", "bytes"];
    let expected = KINDS
        .iter()
        .zip(expected)
        .map(|(kind, unit)| format!("{kind} {unit}"));
    assert_eq!(weights_of_mem("firefox", 2, read), expected.collect());
}
