//! Object files, archives of them, and modules of the kernel.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::output::{folder, records, stack, text};

const SOURCE: &str = "
    void use(char *);
    static int shared;
    static void twice(void) { char b[400]; use(b); shared++; }
    void big(void) { char b[5000]; use(b); twice(); }
    __attribute__((section(\".init.text\"))) void early(void) { char b[1000]; use(b); }
    int two(int n) { char b[n]; use(b); return b[0]; }
";

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect(program);
    assert!(output.status.success(), "{output:?}");
}

/// Returns the name, the bytes, the way and the variable of each frame.
fn frames(file: &Path) -> Vec<(String, u64, String, Value)> {
    let output = stack(&["--json", file.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut frames: Vec<_> = records(&output, "function")
        .into_iter()
        .map(|frame| {
            let word = |field: &str| frame[field].as_str().unwrap_or("?").to_owned();
            let bytes = frame["bytes"].as_u64().expect("bytes");
            (word("name"), bytes, word("by"), frame["variable"].clone())
        })
        .filter(|(name, ..)| ["twice", "big", "early", "two"].contains(&name.as_str()))
        .collect();
    frames.sort_by(|one, other| one.0.cmp(&other.0));
    frames
}

/// The linker changes no frame: what the object has, the library has.
#[test]
fn an_object_has_the_frames_of_the_library_that_it_becomes() {
    let folder = folder("objects");
    std::fs::write(folder.join("source.c"), SOURCE).expect("written");
    let ways: [&[&str]; 5] = [
        &["-g"],
        &["-g", "-ffunction-sections", "-fdata-sections"],
        &[
            "-g",
            "-fno-asynchronous-unwind-tables",
            "-fno-unwind-tables",
        ],
        &["-fno-dwarf2-cfi-asm", "-fno-asynchronous-unwind-tables"],
        &["-O0", "-g", "-gz"],
    ];
    for way in ways {
        let mut arguments = vec!["-c", "-fPIC", "-fno-inline", "-O1"];
        arguments.extend(way);
        arguments.extend(["source.c", "-o", "source.o"]);
        run(&folder, "gcc", &arguments);
        run(&folder, "gcc", &["-shared", "source.o", "-o", "library.so"]);
        let (object, library) = (
            frames(&folder.join("source.o")),
            frames(&folder.join("library.so")),
        );
        let sizes = |frames: &[(String, u64, String, Value)]| -> Vec<(String, u64)> {
            let frames = frames.iter();
            frames
                .map(|(name, bytes, ..)| (name.clone(), *bytes))
                .collect()
        };
        assert_eq!(sizes(&object), sizes(&library), "{way:?}");
        assert_eq!(object.len(), 4, "{way:?}");
        if !way.contains(&"-gz") {
            assert_eq!(object, library, "{way:?}");
        }
    }
}

#[test]
fn an_archive_is_all_of_its_objects() {
    let folder = folder("archive");
    std::fs::write(folder.join("source.c"), SOURCE).expect("written");
    let name = "one_with_a_name_that_is_too_long_for_the_header.o";
    run(&folder, "gcc", &["-c", "-O1", "source.c", "-o", name]);
    std::fs::write(folder.join("data.c"), "int only_data = 5;").expect("written");
    run(&folder, "gcc", &["-c", "data.c", "-o", "data.o"]);
    let other = "void use(char *b) { *b = 1; } void last(void) { char b[700]; use(b); }";
    std::fs::write(folder.join("other.c"), other).expect("written");
    run(
        &folder,
        "gcc",
        &["-c", "-O1", "-fno-inline", "other.c", "-o", "other.o"],
    );
    run(&folder, "ar", &["rc", "lib.a", "data.o", name, "other.o"]);
    let archive = folder.join("lib.a");
    let path = archive.to_str().expect("a path");

    let output = stack(&["--json", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let files: Vec<String> = records(&output, "file")
        .iter()
        .map(|file| file["file"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(
        files,
        [format!("{path}({name})"), format!("{path}(other.o)")]
    );
    let said = text(&stack(&["--top", "1", path]));
    assert!(said.contains(&format!("lib.a({name}): big")), "{said}");
    assert_eq!(stack(&["--max", "4000", path]).status.code(), Some(3));

    // Two objects may be compared, an archive with several may not.
    let object = folder.join(name);
    let object = object.to_str().expect("a path");
    let same = text(&stack(&["--diff", object, object]));
    assert!(same.contains(": 0 frames grew, 0 are new"), "{same}");
    assert_eq!(stack(&["--diff", path, object]).status.code(), Some(1));

    run(&folder, "ar", &["rcT", "thin.a", "other.o"]);
    let thin = stack(&[folder.join("thin.a").to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&thin.stderr).into_owned();
    assert!(said.contains("a thin archive; name its members"), "{said}");
    run(&folder, "ar", &["rc", "data.a", "data.o"]);
    let none = stack(&[folder.join("data.a").to_str().expect("a path")]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
}

/// A limit must not hold for an archive of which nobody has looked at a member.
#[test]
fn members_with_code_that_is_not_read_are_refused() {
    let folder = folder("refused");
    let source = "void use(char *); void small(void) { char b[100]; use(b); }";
    std::fs::write(folder.join("source.c"), source).expect("written");
    run(&folder, "gcc", &["-c", "source.c", "-o", "read.o"]);
    let slim = [
        "-c",
        "-flto",
        "-fno-fat-lto-objects",
        "source.c",
        "-o",
        "slim.o",
    ];
    run(&folder, "gcc", &slim);
    std::fs::write(folder.join("bits.o"), b"BC\xc0\xde and more of it").expect("written");
    std::fs::write(folder.join("odd"), "of another system, or a text").expect("written");
    let object = std::fs::read(folder.join("read.o")).expect("read");
    let written = |name: &str, at: usize, value: u8| {
        let mut bytes = object.clone();
        bytes[at..at + 2].copy_from_slice(&[value, 0]);
        std::fs::write(folder.join(name), bytes).expect("written");
    };
    // e_machine is that of AArch64; e_shnum is 0, and the first section would have the number.
    written("other.o", 18, 183);
    written("many.o", 60, 0);
    for (member, why) in [
        ("slim.o", "link-time optimization"),
        ("bits.o", "LLVM bitcode"),
        ("odd", "no ELF file"),
        ("other.o", "no object file for x86-64"),
        ("many.o", "more than 65,279 sections"),
    ] {
        let archive = format!("{member}.a");
        run(&folder, "ar", &["rcS", &archive, "read.o", member]);
        let archive = folder.join(archive);
        let archive = archive.to_str().expect("a path");
        let output = stack(&["--json", "--max", "4000", archive]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let read = String::from_utf8_lossy(&output.stdout);
        assert_eq!(read.matches(r#""record":"file""#).count(), 1, "{read}");
        let said = String::from_utf8_lossy(&output.stderr);
        let named = format!("{archive}({member}): ");
        assert!(said.contains(&named) && said.contains(why), "{said}");
        // A frame that is too large is said first.
        let exceeded = stack(&["--max", "50", archive]);
        assert_eq!(exceeded.status.code(), Some(3), "{exceeded:?}");
        let compared = stack(&["--diff", archive, archive]);
        assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    }
    let slim = stack(&[folder.join("slim.o").to_str().expect("a path")]);
    assert_eq!(slim.status.code(), Some(1), "{slim:?}");
    let said = String::from_utf8_lossy(&slim.stderr);
    assert!(said.contains("link-time optimization"), "{said}");
}

/// glibc's own archive: some 1,700 objects of C and assembly.
#[test]
fn the_c_librarys_archive_is_read_whole() {
    let archive = Path::new("/usr/lib/x86_64-linux-gnu/libc.a");
    if !archive.exists() {
        println!(
            "SKIPPED: {} (libc6-dev) is not installed",
            archive.display()
        );
        return;
    }
    let output = stack(&["--json", "--top", "5", archive.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let members = Command::new("ar")
        .arg("t")
        .arg(archive)
        .output()
        .expect("ar");
    let members = String::from_utf8_lossy(&members.stdout).lines().count();
    let files = records(&output, "file").len();
    // Some hold data only.
    assert!(
        files * 10 > members * 8 && files <= members,
        "{files} of {members}"
    );
    let largest = records(&output, "function")[0]["bytes"]
        .as_u64()
        .expect("bytes");
    assert!((30_000..1_000_000).contains(&largest), "{largest}");
}
