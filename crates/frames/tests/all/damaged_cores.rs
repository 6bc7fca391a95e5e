//! Cores that lie: damaged anywhere, cut anywhere. An answer or an error, never a panic.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use frames::live::core::Core;
use proptest::prelude::*;

/// A core of a small program that dies by its own hand; `None` where there is no gdb to write one.
fn sound() -> Option<&'static [u8]> {
    static BYTES: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let make = || {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cores");
        std::fs::create_dir_all(&folder).ok()?;
        let (source, program, core) = (
            folder.join("dies.c"),
            folder.join("dies"),
            folder.join("core"),
        );
        let text = "#include <stdlib.h>\n#include <string.h>\n\
            __attribute__((noinline)) int f(int n) { volatile char b[20000]; b[n] = 1; if (!n) abort(); return f(n - 1) + b[n]; }\n\
            int main(int argc, char **argv) { return f(argc + 4); }\n";
        std::fs::write(&source, text).ok()?;
        let built = Command::new("gcc")
            .args(["-O1", "-w", "-o"])
            .arg(&program)
            .arg(&source)
            .status();
        assert!(built.expect("gcc").success());
        let commands = [
            "run".to_owned(),
            format!("generate-core-file {}", core.display()),
            "kill".to_owned(),
        ];
        let commands = commands
            .iter()
            .flat_map(|command| ["-ex".to_owned(), command.clone()]);
        let ran = Command::new("gdb")
            .args(["-nx", "-batch"])
            .args(commands)
            .arg(&program)
            .output();
        ran.is_ok_and(|ran| ran.status.success()).then_some(())?;
        std::fs::read(&core).ok()
    };
    let bytes = BYTES.get_or_init(make);
    if bytes.is_none() {
        println!("SKIPPED: gdb, which writes the core, is not installed");
    }
    bytes.as_deref()
}

fn ask(bytes: &[u8]) -> Option<usize> {
    let name = format!(
        "lancet-core-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).expect("written");
    let _ = Core::is_one(&path);
    let core = Core::open(&path);
    std::fs::remove_file(&path).expect("removed");
    let mut core = core.ok()?;
    let modules = core.modules();
    let (look, _) = core.look(&modules, true);
    look.stacks.iter().map(|stack| stack.lines.len()).max()
}

#[test]
fn the_sound_one_is_read() {
    let Some(bytes) = sound() else { return };
    // Five rounds of f, its caller, and what abort and the C library put around them.
    let frames = ask(bytes);
    assert!(frames >= Some(10), "{frames:?}");
}

#[test]
fn cut_anywhere() {
    let Some(bytes) = sound() else { return };
    for part in 0..60 {
        ask(&bytes[..bytes.len() * part / 60]);
        ask(&bytes[..part * 16]);
    }
}

/// Sizes that no file has, in several headers at once: what is lacking adds up to more than 64 bits hold.
#[test]
fn impossible_sizes() {
    let Some(bytes) = sound() else { return };
    const FILE_SIZE: usize = 32;
    const MEMORY_SIZE: usize = 40;
    for field in [FILE_SIZE, MEMORY_SIZE] {
        let mut bytes = bytes.to_vec();
        for header in headers(&bytes, LOAD) {
            bytes[header + field..header + field + 8].fill(0xff);
        }
        ask(&bytes);
    }
}

/// Headers that all name the same bytes would make a small file a large memory.
#[test]
fn segments_of_the_same_bytes_are_refused() {
    let Some(bytes) = sound() else { return };
    const OFFSET: usize = 8;
    let mut bytes = bytes.to_vec();
    let loads = headers(&bytes, LOAD);
    let first = loads[0];
    let offset: [u8; 8] = bytes[first + OFFSET..][..8].try_into().expect("eight");
    for header in loads {
        bytes[header + OFFSET..][..8].copy_from_slice(&offset);
    }
    assert_eq!(ask(&bytes), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn damage_in_headers_and_notes(changes in prop::collection::vec((0usize..0x3000, any::<u8>()), 1..30)) {
        if let Some(bytes) = sound() {
            let mut bytes = bytes.to_vec();
            let notes = notes(&bytes);
            for (at, byte) in changes {
                // Half of them in the headers, half in the notes.
                let at = if at % 2 == 0 { at % 0x800 } else { notes.start + at % notes.len() };
                bytes[at] = byte;
            }
            ask(&bytes);
        }
    }

    #[test]
    fn damage_on_the_stack(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..2000)) {
        if let Some(bytes) = sound() {
            let mut bytes = bytes.to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            ask(&bytes);
        }
    }
}

const LOAD: u8 = 1;
const NOTE: u8 = 4;

/// Where the program headers of one type lie.
fn headers(bytes: &[u8], of: u8) -> Vec<usize> {
    let count = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let all = (0..count).map(|number| word(bytes, 32) + number * 56);
    all.filter(|&at| bytes[at..at + 4] == [of, 0, 0, 0])
        .collect()
}

fn notes(bytes: &[u8]) -> std::ops::Range<usize> {
    let header = headers(bytes, NOTE)[0];
    let start = word(bytes, header + 8);
    start..start + word(bytes, header + 32)
}

fn word(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) as usize
}
