//! Exceptions pass through hooked functions of libraries that bring an unwinder of their own, without a name by which it could be
//! found: libgcc's and LLVM's linked into a stripped C++ library, and Rust's panics.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::program;
use crate::support::{Guest, Snapshot, TempDir, fixtures, installed, skip};
use crate::watch::{calls, hooked, left, text_holds};

/// LLVM's unwinder as a static library: package `libunwind-14-dev`.
const LLVM: &str = "/usr/lib/llvm-14/lib/libunwind.a";

const ROUNDS: &str = "2000";

/// A library that does what `own_unwinder.cpp` does, in Rust.
const RUST: &str = r#"
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn u_throws(n: i64) -> i64 {
    if n % 3 == 0 {
        std::panic::resume_unwind(Box::new(n));
    }
    n
}
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn u_between(n: i64) -> i64 {
    u_throws(std::hint::black_box(n)) + 1
}
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn u_catches(n: i64) -> i64 {
    match std::panic::catch_unwind(|| u_between(std::hint::black_box(n))) {
        Ok(value) => value,
        Err(thrown) => *thrown.downcast::<i64>().unwrap() * 2,
    }
}
"#;

fn compiled(compiler: &str, arguments: &[&str], source: &Path, folder: &TempDir) -> PathBuf {
    let library = folder.join("library.so");
    let output = Command::new(compiler)
        .arg(source)
        .args(arguments)
        .arg("-o")
        .arg(&library)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {arguments:?}: {said}");
    library
}

/// It computes the same bare, hooked and counted, and after we have left.
fn computes_the_same(library: &Path, what: &str) {
    let Some(path) = program("own_unwinder.cpp") else {
        return;
    };
    let mut command = Command::new(path);
    command.arg(library);
    let mut guest = Guest::ready(&mut command);
    guest.tell(ROUNDS);
    let truth = guest.find("answer ");
    let before = Snapshot::take(guest.pid);
    for show in ["-T", "-c"] {
        let asked = ["-x", "u_*", show, "-o", "/dev/null", "--max-wait", "30s"];
        let watch = hooked(calls(guest.pid, &asked));
        guest.tell(ROUNDS);
        assert_eq!(guest.find("answer "), truth, "{what} {show}");
        let output = left(watch, what);
        let all = output.stderr.contains(" 3 of 3 functions hooked");
        assert!(all, "{what}: {}", output.stderr);
        text_holds(&before, guest.pid, what, &output);
    }
    guest.tell(ROUNDS);
    assert_eq!(guest.find("answer "), truth, "{what}, left");
    guest.ends_with_nothing(what);
}

/// How a stripped library is linked, with nothing of others' archives shown.
const ALONE: [&str; 7] = [
    "-O2",
    "-shared",
    "-fPIC",
    "-DLIBRARY",
    "-fvisibility=hidden",
    "-Wl,--exclude-libs,ALL",
    "-s",
];

#[test]
fn exceptions_of_a_library_with_libgcc_in_it() {
    if !installed("g++") {
        return skip("calls: own unwinder", "no g++");
    }
    let folder = TempDir::new("own-libgcc");
    let mut arguments = ALONE.to_vec();
    arguments.extend(["-static-libgcc", "-static-libstdc++"]);
    let source = fixtures().join("c/own_unwinder.cpp");
    let library = compiled("g++", &arguments, &source, &folder);
    computes_the_same(&library, "libgcc");
}

#[test]
fn exceptions_of_a_library_with_llvms_unwinder_in_it() {
    if !installed("g++") || !Path::new(LLVM).exists() {
        return skip("calls: LLVM's unwinder", "no g++, or no libunwind-14-dev");
    }
    let folder = TempDir::new("own-llvm");
    let mut arguments = ALONE.to_vec();
    arguments.extend(["-nodefaultlibs", "-Wl,-Bstatic", "-lstdc++", LLVM]);
    arguments.extend(["-Wl,-Bdynamic", "-lm", "-lc"]);
    let source = fixtures().join("c/own_unwinder.cpp");
    let library = compiled("g++", &arguments, &source, &folder);
    computes_the_same(&library, "LLVM");
}

#[test]
fn panics_of_a_rust_library() {
    if !installed("rustc") {
        return skip("calls: a Rust library", "no rustc");
    }
    let folder = TempDir::new("own-rust");
    let source = folder.join("library.rs");
    std::fs::write(&source, RUST).expect("a file");
    let arguments = [
        "--edition=2024",
        "--crate-type=cdylib",
        "-O",
        "-C",
        "strip=symbols",
    ];
    let library = compiled("rustc", &arguments, &source, &folder);
    computes_the_same(&library, "Rust");
}
