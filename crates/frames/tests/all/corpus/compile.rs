//! The corpus, compiled once for all tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use object::{Object, ObjectSymbol};

/// What `-fstack-usage` calls a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Static,
    /// Pushed arguments come on top; counted at their most.
    Bounded,
    Dynamic,
}

/// One line of a `.su` file.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub bytes: u64,
    pub kind: Kind,
}

/// One way of compiling.
pub struct Library {
    pub flags: String,
    pub whole: PathBuf,
    pub stripped: PathBuf,
    pub without_cfi: PathBuf,
    pub bare: PathBuf,
    pub usages: BTreeMap<String, Usage>,
    pub addresses: BTreeMap<String, u64>,
    /// In `bare`, which was linked anew.
    pub bare_addresses: BTreeMap<String, u64>,
}

/// All ways.
pub struct Corpus {
    pub libraries: Vec<Library>,
}

impl Corpus {
    /// Compiles it, or waits for whoever does.
    pub fn compile() -> &'static Corpus {
        static CORPUS: OnceLock<Corpus> = OnceLock::new();
        CORPUS.get_or_init(|| {
            let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("corpus");
            fs::create_dir_all(&folder).expect("a folder for the corpus");
            let mut libraries = Vec::new();
            for level in ["-O0", "-O1", "-O2", "-O3"] {
                for clash in ["-fno-stack-clash-protection", "-fstack-clash-protection"] {
                    for pointer in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
                        libraries.push(library(&folder, &[level, clash, pointer]));
                    }
                }
            }
            Corpus { libraries }
        })
    }
}

fn library(folder: &Path, flags: &[&str]) -> Library {
    let name = flags.concat().replace('-', "");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/c/frames");
    let at = |ending: &str| folder.join(format!("{name}{ending}"));
    let mut usages = BTreeMap::new();
    let mut assembly = Vec::new();
    for (compiler, source) in [("gcc", "shapes.c"), ("g++", "shapes.cpp")] {
        let written = at(&format!(".{source}.s"));
        let source = fixtures.join(source);
        run(Command::new(compiler)
            .args(["-S", "-w", "-fPIC", "-fstack-usage"])
            .args(flags)
            .arg(source)
            .arg("-o")
            .arg(&written));
        usages.extend(told(&written));
        assembly.push(written);
    }
    let whole = at(".so");
    run(Command::new("g++")
        .args(["-shared", "-nostdlib", "-Wl,-z,undefs"])
        .args(&assembly)
        .arg("-o")
        .arg(&whole));
    let made = |ending: &str, tool: &str, from: &Path, options: &[&str]| {
        let path = at(ending);
        run(Command::new(tool)
            .args(options)
            .arg(from)
            .arg("-o")
            .arg(&path));
        path
    };
    let stripped = made(".stripped.so", "strip", &whole, &["--strip-all"]);
    let without_cfi = at(".nocfi.so");
    let remove = [
        "--remove-section",
        ".eh_frame",
        "--remove-section",
        ".eh_frame_hdr",
    ];
    run(Command::new("objcopy")
        .args(remove)
        .arg(&whole)
        .arg(&without_cfi));
    // The dynamic symbols go too: their table is emptied of names by hiding everything at link time.
    let hidden = at(".hidden.so");
    let script = at(".map");
    fs::write(&script, "{ local: *; };\n").expect("a version script");
    run(Command::new("g++")
        .args(["-shared", "-nostdlib", "-Wl,-z,undefs"])
        .arg(format!("-Wl,--version-script={}", script.display()))
        .args(&assembly)
        .arg("-o")
        .arg(&hidden));
    let bare = at(".bare.so");
    run(Command::new("objcopy")
        .args(remove)
        .arg("--strip-all")
        .arg(&hidden)
        .arg(&bare));
    let bare_addresses = addresses(&hidden, &usages);
    let addresses = addresses(&whole, &usages);
    Library {
        bare_addresses,
        flags: flags.join(" "),
        whole,
        stripped,
        without_cfi,
        bare,
        usages,
        addresses,
    }
}

/// The figures beside the names in the assembly: the nth line belongs to the nth function.
fn told(assembly: &Path) -> BTreeMap<String, Usage> {
    let text = fs::read_to_string(assembly).expect("assembly");
    let functions: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".size\t"))
        .filter_map(|line| line.split_once(", .-"))
        .map(|(name, _)| name)
        .filter(|name| !name.ends_with(".cold"))
        .collect();
    let figures = fs::read_to_string(assembly.with_extension("su")).expect("a .su file");
    let figures: Vec<Usage> = figures.lines().map(usage).collect();
    assert_eq!(functions.len(), figures.len(), "{}", assembly.display());
    functions
        .into_iter()
        .map(str::to_owned)
        .zip(figures)
        .collect()
}

fn usage(line: &str) -> Usage {
    let mut fields = line.rsplit('\t');
    let kind = match fields.next() {
        Some("static") => Kind::Static,
        Some("dynamic,bounded") => Kind::Bounded,
        Some("dynamic") => Kind::Dynamic,
        other => panic!("{other:?} in {line}"),
    };
    let bytes = fields.next().expect("a figure").parse().expect("a number");
    Usage { bytes, kind }
}

fn addresses(library: &Path, usages: &BTreeMap<String, Usage>) -> BTreeMap<String, u64> {
    let bytes = fs::read(library).expect("the library");
    let file = object::File::parse(&*bytes).expect("ELF");
    let all: BTreeMap<&str, u64> = file
        .symbols()
        .filter_map(|symbol| Some((symbol.name().ok()?, symbol.address())))
        .collect();
    usages
        .keys()
        .map(|name| (name.clone(), all[name.as_str()]))
        .collect()
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
