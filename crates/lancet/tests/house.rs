//! The rules of the house that a machine can keep: which crate may know which, what the agent may
//! not be, and how files are kept.
//!
//! ARCHITECTURE.md says why each rule is there. A rule is changed here and there together.

#[path = "house/arrows.rs"]
mod arrows;
#[path = "house/circles.rs"]
mod circles;
#[path = "house/dereferences.rs"]
mod dereferences;
#[path = "house/doors.rs"]
mod doors;
#[path = "house/examples.rs"]
mod examples;
#[path = "house/matrix.rs"]
mod matrix;
#[path = "house/naming.rs"]
mod naming;
#[path = "house/proc_files.rs"]
mod proc_files;
#[path = "house/quick.rs"]
mod quick;
#[path = "house/renamed.rs"]
mod renamed;
#[path = "house/used_by.rs"]
mod used_by;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrows::ARROWS;
use object::LittleEndian;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol};
use serde_json::Value;

/// The binary may know all of them but this one, which its build script builds and embeds as bytes.
const EMBEDDED: &str = "agent";

/// Safe code only.
const NO_UNSAFE: [&str; 14] = [
    "varint",
    "wire",
    "vm",
    "capture",
    "prototypes",
    "frames",
    "recording",
    "heap",
    "dump",
    "enter",
    "languages",
    "births",
    "rss",
    "report",
];
/// No standard library: they run inside guests.
const NO_STD: [&str; 6] = ["wire", "routine", "trampoline", "vm", "capture", "agent"];
/// Longer files are split by meaning.
const LONGEST: usize = 500;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "misc", "common", "helper", "helpers"];

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates/lancet has a workspace")
        .to_owned()
}

/// Each of our crates with those of ours that it names, and as what kind of dependency.
fn arrows() -> BTreeMap<String, BTreeSet<(String, String)>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |value: &Value| text(value).trim_start_matches("lancet-").to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            let ours = list(&package["dependencies"])
                .iter()
                .filter(|dependency| dependency["path"].is_string())
                .map(|dependency| (name(&dependency["name"]), text(&dependency["kind"])))
                .collect();
            (name(&package["name"]), ours)
        })
        .collect()
}

#[test]
fn arrows_between_crates_go_down_only() {
    let found = arrows();
    let mut wrong = Vec::new();
    for (from, known) in &found {
        let all = ARROWS.iter().map(|(name, _)| *name);
        let may: Vec<&str> = match (from.as_str(), ARROWS.iter().find(|(name, _)| name == from)) {
            ("lancet", _) => all.filter(|name| *name != EMBEDDED).collect(),
            (_, Some((_, may))) => may.to_vec(),
            _ => {
                wrong.push(format!("{from} has no place in the list of arrows"));
                continue;
            }
        };
        let forbidden = known.iter().filter(|(to, _)| !may.contains(&to.as_str()));
        wrong.extend(forbidden.map(|(to, kind)| format!("{from} must not know {to} {kind}")));
    }
    refuse(wrong);
    // A test that sees no arrows holds nothing.
    let export = &found["report"];
    assert!(export.iter().any(|(to, _)| to == "births"), "{export:?}");
}

#[test]
fn the_agent_needs_no_loader_and_has_no_thread_local_data() {
    let bytes = fs::read(env!("LANCET_AGENT")).expect("the agent, built by build.rs");
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).expect("an ELF file");
    let end = LittleEndian;
    let header = file.elf_header();
    assert_eq!(header.e_type(end), elf::ET_DYN, "position-independent");
    assert_eq!(header.e_machine(end), elf::EM_X86_64);

    let kinds: Vec<_> = file
        .elf_program_headers()
        .iter()
        .map(|segment| segment.p_type(end))
        .collect();
    assert!(!kinds.contains(&elf::PT_TLS), "thread-local data");
    assert!(!kinds.contains(&elf::PT_INTERP), "a loader");

    let dynamic = file
        .elf_program_headers()
        .iter()
        .find_map(|segment| segment.dynamic(end, &*bytes).expect("a dynamic segment"))
        .unwrap_or_default();
    for (tag, what) in [
        (elf::DT_NEEDED, "a library"),
        (elf::DT_JMPREL, "a procedure linkage table"),
        (
            elf::DT_RELR,
            "packed relocations, which our loader does not know",
        ),
        (elf::DT_INIT, "an initialiser, which nobody calls"),
        (elf::DT_INIT_ARRAY, "initialisers, which nobody calls"),
    ] {
        let there = dynamic.iter().any(|entry| entry.d_tag(end) == tag);
        assert!(!there, "the agent needs {what}");
    }

    let imports: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined())
        .map(|symbol| symbol.name().unwrap_or("?").to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(imports.is_empty(), "the agent imports {imports:?}");

    let value = |tag| {
        let entry = dynamic.iter().find(|entry| entry.d_tag(end) == tag);
        entry.map_or(0, |entry| entry.d_val(end))
    };
    let (at, size) = (value(elf::DT_RELA), value(elf::DT_RELASZ));
    let relocations = file
        .elf_program_headers()
        .iter()
        .find_map(|segment| {
            segment
                .data_range(end, &*bytes, at, size)
                .expect("readable")
        })
        .unwrap_or_default();
    let relocations: &[elf::Rela64<LittleEndian>] =
        object::pod::slice_from_all_bytes(relocations).expect("whole records");
    assert!(
        !relocations.is_empty(),
        "the agent has addresses in its data"
    );
    for relocation in relocations {
        let kind = relocation.r_type(end, false);
        assert_eq!(kind, elf::R_X86_64_RELATIVE, "a relocation by symbol");
    }
}

/// Our files below a folder whose names end so.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries.map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            files(&entry, ending, found);
        } else if entry.to_string_lossy().ends_with(ending) {
            found.push(entry);
        }
    }
}

/// Every Rust file, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let crates = workspace().join("crates");
    let mut found = Vec::new();
    files(&crates, ".rs", &mut found);
    assert!(found.len() > 50, "these are not all: {found:?}");
    found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("text");
            (
                path.strip_prefix(&crates).expect("below crates").to_owned(),
                text,
            )
        })
        .collect()
}

fn refuse(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_are_short_and_say_first_what_they_are() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > LONGEST {
            wrong.push(format!(
                "{}: {lines} lines, at most {LONGEST}",
                path.display()
            ));
        }
        if !text.starts_with("//!") {
            wrong.push(format!(
                "{}: no text on the module at its top",
                path.display()
            ));
        }
    }
    refuse(wrong);
}

/// Crates that print: the formats, the binary, and `switch`, which stands alone.
const PRINTS: [&str; 3] = ["report", "lancet", "switch"];

/// A core file of a guest, or a recording, that `git add` has taken along: it stays in every clone for ever.
#[test]
fn nothing_large_is_in_the_repository() {
    const MOST: u64 = 512 << 10;
    let mut git = std::process::Command::new("git");
    let listed = git
        .args(["ls-files", "-z"])
        .current_dir(workspace())
        .output();
    let listed = listed.map(|listed| listed.stdout).unwrap_or_default();
    // A copy without the repository has nothing to list.
    let names = listed.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let size = |name: &str| std::fs::metadata(workspace().join(name)).map_or(0, |file| file.len());
    let large = names.filter(|name| !name.is_empty() && size(name) > MOST);
    refuse(
        large
            .map(|name| format!("{name} has {} bytes", size(&name)))
            .collect(),
    );
}

#[test]
fn only_what_formats_and_what_is_run_prints() {
    let may = |path: &Path| {
        let mut parts = path.iter().map(|part| part.to_string_lossy());
        let name = parts.next().unwrap_or_default();
        // Build scripts talk to Cargo, tests and examples to whoever runs them.
        PRINTS.contains(&&*name) || parts.next().is_none_or(|folder| folder != "src")
    };
    let prints = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let macros = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
        // A name that ends so is another macro: `debug_print!`.
        macros.iter().any(|name| {
            code.match_indices(name).any(|(at, _)| {
                let before = code[..at].chars().next_back();
                before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
            })
        })
    };
    assert!(
        prints("    eprintln!(\"lancet: no\");") && !prints("    writeln!(out)?; // not print!")
    );
    let mut wrong = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !may(path)) {
        // Unit tests stand at the end of a file, or in a file of their own.
        let tests = path.file_name().is_some_and(|name| name == "tests.rs");
        let code = text
            .lines()
            .take_while(|line| !tests && *line != "#[cfg(test)]");
        let lines = code.enumerate().filter(|(_, line)| prints(line));
        wrong.extend(
            lines.map(|(number, line)| format!("{}:{}: {line}", path.display(), number + 1)),
        );
    }
    refuse(wrong);
}

#[test]
fn modules_are_named_after_what_they_hold() {
    let says_nothing = |part: &std::ffi::OsStr| {
        let part = part.to_string_lossy();
        EMPTY_NAMES.contains(&part.trim_end_matches(".rs"))
    };
    let wrong = sources()
        .iter()
        .filter(|(path, _)| path.iter().any(says_nothing))
        .map(|(path, _)| path.display().to_string())
        .collect();
    refuse(wrong);
}

#[test]
fn what_runs_in_guests_and_what_computes_answers_is_bound_by_its_first_lines() {
    let sources = sources();
    let root = |name: &str| {
        sources
            .iter()
            .find(|(path, _)| {
                path == &Path::new(name).join("src/lib.rs")
                    || path == &Path::new(name).join("src/main.rs")
            })
            .map(|(_, text)| text.as_str())
            .unwrap_or_else(|| panic!("crate {name} has no root"))
    };
    let lacks = |names: &[&str], line: &str| -> Vec<String> {
        names
            .iter()
            .filter(|name| !root(name).lines().any(|found| found == line))
            .map(|name| format!("{name} lacks {line}"))
            .collect()
    };
    refuse(lacks(&NO_UNSAFE, "#![forbid(unsafe_code)]"));
    refuse(lacks(&NO_STD, "#![no_std]"));
}

#[test]
fn every_crate_obeys_the_lints_and_says_what_it_is() {
    let mut manifests = Vec::new();
    files(&workspace().join("crates"), "Cargo.toml", &mut manifests);
    let mut wrong = Vec::new();
    for path in manifests {
        let text = fs::read_to_string(&path).expect("a manifest");
        if !text.contains("[lints]\nworkspace = true\n") {
            wrong.push(format!("{}: no `[lints] workspace = true`", path.display()));
        }
        if !text.contains("\ndescription = ") {
            wrong.push(format!("{}: no description", path.display()));
        }
    }
    refuse(wrong);
}
