//! Scopes in programs that cannot unwind: `panic = "abort"`, and the crate without `std`. The crate and the programs are
//! compiled here, by rustc itself: cargo builds every test with `panic = "unwind"`.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Suspends its coroutine once, and resumes it as often as its first argument says.
const PROGRAM: &str = r#"
use lancet_switch::{Builder, RawStack};

fn main() {
    let none = std::env::args().nth(1).map(|text| text.parse::<u32>());
    let resumes = none.expect("an argument").expect("a number");
    let mut memory = vec![0u128; 8192];
    // SAFETY: the memory outlives the scope and is used for nothing else.
    let stack = unsafe { RawStack::new(memory.as_mut_ptr().cast(), 8192 * 16) };
    let local = String::from("local");
    let made = Builder::new().scope_on(
        stack.expect("a stack"),
        |suspender, ()| suspender.suspend(local.len()),
        |mut handle| {
            for _ in 0..resumes {
                handle.resume(());
            }
        },
    );
    made.expect("a coroutine");
    eprintln!("what was borrowed has ended");
}
"#;

fn rustc(arguments: &[&str], output: &Path) {
    let built = Command::new("rustc")
        .args(["--edition", "2024", "--cap-lints", "allow", "-o"])
        .arg(output)
        .args(arguments)
        .output()
        .expect("rustc");
    let text = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{arguments:?}: {text}");
}

/// Builds the crate with these flags, and the program.
fn build(name: &str, flags: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).expect("a directory");
    let library = directory.join("liblancet_switch.rlib");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs");
    let crate_ = [
        "--crate-name",
        "lancet_switch",
        "--crate-type",
        "rlib",
        source,
    ];
    rustc(&[&crate_, flags].concat(), &library);
    let source = directory.join("program.rs");
    std::fs::write(&source, PROGRAM).expect("a file");
    let library = format!("lancet_switch={}", library.display());
    let source = source.display().to_string();
    // Without the option it would unwind: that says which of the two this program does.
    let panic = flags
        .iter()
        .find(|flag| flag.starts_with("-Cpanic"))
        .unwrap_or(&"-Cpanic=unwind");
    rustc(
        &["--extern", &library, &source, panic],
        &directory.join("program"),
    );
    directory.join("program")
}

/// Runs the program with so many resumes: the signal that it died of, and what it said.
fn run(program: &Path, resumes: &str) -> (Option<i32>, String) {
    // No core file: both signals write one.
    let output = Command::new("sh")
        .args(["-c", "ulimit -c 0; exec \"$0\" \"$1\""])
        .arg(program)
        .arg(resumes)
        .output()
        .expect("the program");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.signal(), text)
}

/// One that was never resumed or has returned is ended without an unwinder.
fn ends_by_itself(program: &Path) {
    for resumes in ["0", "2"] {
        let ended = (None, "what was borrowed has ended\n".to_owned());
        assert_eq!(run(program, resumes), ended, "{resumes} resumes");
    }
}

#[test]
fn with_panic_abort_a_suspended_one_ends_the_process_and_says_why() {
    let program = build("abort", &["--cfg", "feature=\"std\"", "-Cpanic=abort"]);
    ends_by_itself(&program);
    let line = "lancet-switch: coroutine 1 cannot be ended with its scope: it is suspended, and this program was built \
                without unwinding (panic = \"abort\"). The process is aborted, because what the coroutine borrows ends \
                with the scope\n";
    assert_eq!(run(&program, "1"), (Some(libc::SIGABRT), line.to_owned()));
}

#[test]
fn without_std_a_suspended_one_ends_the_process_by_a_trap() {
    let program = build("no-std", &[]);
    ends_by_itself(&program);
    assert_eq!(run(&program, "1"), (Some(libc::SIGILL), String::new()));
}
