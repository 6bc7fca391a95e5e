//! Builds the C libraries as `capi/build` lays them out and runs the C and C++ tests against both,
//! through pkg-config as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::page;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program is installed");
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Where the libraries are; built once.
fn installed() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        run(Command::new(format!("{CRATE}/capi/build"))
            .arg(tmp.join("installed"))
            .env("CARGO_TARGET_DIR", target()));
        tmp.join("installed")
    })
}

/// Where cargo builds them.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi")
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let output = run(Command::new("pkg-config")
        .args(arguments)
        .arg("lancet-switch")
        .env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig")));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program of `tests/c`, or at an absolute path, against the shared or the static library.
fn compile(source: &str, flags: &[&str], shared: bool) -> PathBuf {
    let compiler = if source.ends_with(".c") { "gcc" } else { "g++" };
    // Tests run at once: no two may write one program.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let source = Path::new(CRATE).join("tests/c").join(source);
    let name = source.file_name().expect("a file").display();
    let program = installed().join(format!("{name}-{number}"));
    let mut command = Command::new(compiler);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-O2"])
        .args(pkg_config(&["--cflags"]))
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program);
    if shared {
        command
            .args(pkg_config(&["--libs"]))
            .arg(format!("-Wl,-rpath,{}/lib", installed().display()));
    } else {
        command.arg(installed().join("lib/liblancet_switch.a"));
    }
    run(command.args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]));
    program
}

fn says_ok(program: &Path) {
    let output = run(&mut Command::new(program));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
}

#[test]
fn the_c_interface_does_what_the_header_says() {
    for shared in [true, false] {
        says_ok(&compile("basic.c", &["-fexceptions"], shared));
    }
}

#[test]
fn exceptions_are_stopped_carried_and_forced() {
    for shared in [true, false] {
        says_ok(&compile("exceptions.cpp", &[], shared));
    }
}

#[test]
fn an_exception_that_nobody_catches_ends_the_process_with_a_line() {
    let output = Command::new(compile("exceptions.cpp", &[], true))
        .arg("uncaught")
        .output()
        .expect("compiled");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("nobody catches the exception that came out of a fiber"),
        "{text}"
    );
    assert!(!output.status.success());
}

#[test]
fn overflows_of_c_code_are_reported_with_the_function() {
    // As code that was not compiled by this line, whose frames are not touched page by page.
    let unprobed = [
        "-O0",
        "-fno-stack-clash-protection",
        "-Wno-frame-larger-than",
    ];
    let program = compile("overflow.c", &unprobed, true);
    let rounds = if std::env::var_os("LANCET_SOAK").is_some() {
        100
    } else {
        1
    };
    for (kind, function, guard) in [
        ("recursion", "dig", "68k"),
        ("giant", "one_giant_frame", "68k"),
        ("alloca", "takes_alloca", "68k"),
        ("larger", "one_larger_frame", "128k"),
    ] {
        for thread in ["main", "thread"].repeat(rounds) {
            let output = Command::new(&program)
                .args([kind, thread])
                .env("LANCET_GUARD_SIZE", guard)
                .output()
                .expect("compiled");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = text
                .lines()
                .find(|line| line.contains("at fault"))
                .unwrap_or("");
            assert!(
                line.contains(&format!("  {function}+")),
                "{kind} {thread}: {text}"
            );
            assert!(text.contains("\"deep one\""), "{kind} {thread}: {text}");
        }
    }
}

/// The line that pkg-config gives warns of a frame that is nearly as large as a guard, and has each page of a frame touched, so that
/// one that would jump the guard is reported at the default size.
#[test]
fn the_build_line_warns_of_large_frames_and_has_them_touched() {
    let source = Path::new(CRATE).join("tests/c/overflow.c");
    let said = run(Command::new("gcc")
        .args(["-O0", "-S", "-o", "/dev/null"])
        .args(pkg_config(&["--cflags"]))
        .arg(source));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("larger than 65536 bytes"), "{said}");
    let program = compile("overflow.c", &["-O0", "-Wno-frame-larger-than"], true);
    let output = Command::new(&program)
        .args(["larger", "main"])
        .output()
        .expect("compiled");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("\"deep one\""), "{text}");
    assert!(text.contains("one_larger_frame+"), "{text}");
    assert!(!text.contains("past the guard"), "{text}");
}

/// Each command of the page is run as it stands there, with its C example as `prog.c`, and each program says what it should.
#[test]
fn the_commands_of_the_page_build_its_example() {
    let folder = installed().join("page");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("prog.c"), page::block("c")).expect("a file");
    // Not where the other tests' libraries are: they link with those meanwhile.
    let to = folder.join("built").display().to_string();
    let commands = page::block("sh")
        .replace("crates/switch", CRATE)
        .replace("DIR", &to);
    assert!(commands.contains("capi/build"), "{commands}");
    run(Command::new("sh")
        .args(["-e", "-u", "-c", &commands])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", target()));
    for program in ["shared", "cxx", "archive", "static"] {
        let output = run(&mut Command::new(folder.join(format!("prog-{program}"))));
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "9\n16\nzero\n", "{program}");
    }
}

/// A program of Rust depends on the crate as the page says, and its Rust example is that program.
#[test]
fn the_dependency_of_the_page_builds_its_example() {
    let folder = installed().join("page-rust");
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    let dependency = page::block("toml").replace("../lancet/crates/switch", CRATE);
    assert!(dependency.contains(CRATE), "{dependency}");
    let package =
        "[package]\nname = \"page\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n";
    std::fs::write(folder.join("Cargo.toml"), format!("{package}{dependency}")).expect("a file");
    let program = format!("fn main() {{\n{}}}\n", page::block("rust"));
    std::fs::write(folder.join("src/main.rs"), program).expect("a file");
    run(Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", target()));
}

/// gdb follows the unwind tables, and the program itself the frame pointers.
#[test]
fn backtraces_lead_from_a_fiber_into_its_resumer() {
    let program = compile("backtrace.c", &["-O1", "-fno-omit-frame-pointer"], true);
    let frames = run(Command::new(&program).arg("walk"));
    assert_eq!(String::from_utf8_lossy(&frames.stdout), "ok\n");
    let output = run(Command::new("gdb")
        .args([
            "-q", "-batch", "-ex", "run", "-ex", "bt", "-ex", "continue", "-ex", "bt",
        ])
        .arg(&program));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = [
        "innermost_in_fiber",
        "body_of_fiber",
        "resumer_of_fiber",
        "run",
    ];
    for (thread, outermost) in text
        .split("SIGTRAP")
        .skip(1)
        .zip([" main ", "start_thread"])
    {
        let mut rest = thread;
        for name in names.iter().chain([&outermost]) {
            let at = rest.find(name);
            assert!(at.is_some(), "no {name} in its place: {text}");
            rest = &rest[at.unwrap_or(0)..];
        }
    }
    assert_eq!(text.matches("SIGTRAP").count(), 2, "{text}");
}

/// The one instruction is between the exchange of the link and that of the stacks, in a suspend.
#[test]
fn backtraces_are_right_at_every_instruction_but_one() {
    let program = compile("step.c", &["-fexceptions"], false);
    let output = run(Command::new("gdb")
        .args(["-q", "-batch", "-x"])
        .arg(format!("{CRATE}/tests/c/step.py"))
        .arg(&program));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let results: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("steps at"))
        .collect();
    assert_eq!(results.len(), 2, "{text}");
    for result in results {
        assert!(result.ends_with(", lost at 1"), "{text}");
    }
}

/// Every declaration of the header is exported and nothing else is.
#[test]
fn the_library_exports_what_the_header_declares() {
    let output = run(Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(installed().join("lib/liblancet_switch.so")));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut exported: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    exported.sort_unstable();
    let header =
        std::fs::read_to_string(format!("{CRATE}/include/lancet_switch.h")).expect("the header");
    let mut declared: Vec<_> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("lancet_"))
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}
