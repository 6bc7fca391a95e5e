//! One small program, linked in every way, deleted and replaced while it runs.

use std::path::Path;
use std::process::Command;

use process::elf::{self, Architecture};
use process::modules::Origin;
use process::symbols::{Kind, Symbols};

use crate::guests::{self, Guest, TempDir, compile, nm};

/// What every symbol test looks at.
pub const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
int exported_number = 42;
__thread int thread_local_number = 7;
static int hidden_function(int x) { return x * 3 + exported_number; }
int exported_function(int x) { return hidden_function(x) + thread_local_number; }
int main(void) { puts("ready"); fflush(stdout); volatile int y = exported_function(1); (void)y; pause(); }
"#;

/// Checks the program above, wherever its symbols must come from.
pub fn check_program(guest: &Guest, expect_hidden: bool) -> Symbols {
    let modules = guest.modules();
    let main = modules
        .iter()
        .find(|module| module.main)
        .expect("a main module");
    let memory = guest.memory();
    let symbols = Symbols::open(&guest.files, main, &memory).unwrap();
    let number = symbols
        .symbol("exported_number")
        .expect("exported_number")
        .address;
    assert_eq!(vm::Memory::u32(&memory, number).unwrap(), 42);
    assert!(symbols.symbol("thread_local_number").is_none());
    let hidden = symbols.symbol("hidden_function");
    assert_eq!(hidden.is_some(), expect_hidden, "hidden_function");
    if let Some(hidden) = hidden {
        assert_eq!(hidden.kind, Kind::Function);
        assert_eq!(
            symbols.name_at(hidden.address + 1),
            Some(("hidden_function".into(), 1))
        );
    }
    symbols
}

#[test]
fn every_way_to_link_a_program() {
    let folder = TempDir::new();
    for (name, options) in [
        ("pie", &["-pie", "-rdynamic"][..]),
        ("no-pie", &["-no-pie", "-rdynamic"]),
        ("static", &["-static"]),
        ("static-pie", &["-static-pie"]),
        ("sysv-hash", &["-rdynamic", "-Wl,--hash-style=sysv"]),
        ("one-segment", &["-rdynamic", "-Wl,-z,noseparate-code"]),
        ("no-build-id", &["-rdynamic", "-Wl,--build-id=none"]),
    ] {
        let program = folder.path().join(name);
        compile(PROGRAM, options, &program);
        let guest = Guest::start_ready(Command::new(&program));
        assert_eq!(elf::architecture(guest.pid).unwrap(), Architecture::X86_64);
        elf::require_x86_64(guest.pid).unwrap();
        let symbols = check_program(&guest, true);
        assert_eq!(
            symbols.origin(),
            &Origin::File(guest.files.path_for_us(&program)),
            "{name}"
        );
        let main = guest
            .modules()
            .into_iter()
            .find(|module| module.main)
            .unwrap();
        assert_eq!(
            main.bias == 0,
            matches!(name, "no-pie" | "static"),
            "{name}"
        );
        assert_eq!(
            main.build_id(&guest.memory()).is_none(),
            name == "no-build-id"
        );
        for (address, kind, found) in nm(&[], &program) {
            if matches!(kind, 'T' | 'R') && !found.contains('@') {
                let symbol = symbols
                    .symbol(&found)
                    .unwrap_or_else(|| panic!("{name}: {found}"));
                assert_eq!(symbol.address, address + main.bias, "{name}: {found}");
            }
        }
    }
}

#[test]
fn a_deleted_or_replaced_file_is_still_read() {
    let folder = TempDir::new();
    let program = folder.path().join("program");
    compile(PROGRAM, &["-rdynamic"], &program);
    let guest = Guest::start_ready(Command::new(&program));
    // Installed again, the same build: another inode, the same build ID.
    let copy = folder.path().join("copy");
    std::fs::copy(&program, &copy).unwrap();
    std::fs::rename(&copy, &program).unwrap();
    let symbols = check_program(&guest, true);
    let path = guest.files.path_for_us(&program);
    assert_eq!(symbols.origin(), &Origin::File(path));
    // Replaced, as a package upgrade does it: another file under the old name.
    let other = folder.path().join("other");
    compile(
        &PROGRAM.replace("42", "43"),
        &["-rdynamic", "-Wl,-Ttext-segment=0x10000"],
        &other,
    );
    std::fs::rename(&other, &program).unwrap();
    let main = guest
        .modules()
        .into_iter()
        .find(|module| module.main)
        .unwrap();
    assert!(main.deleted);
    let symbols = check_program(&guest, guests::is_root());
    if guests::is_root() {
        assert!(matches!(symbols.origin(), Origin::File(path) if path.starts_with("/proc")));
    } else {
        assert_eq!(symbols.origin(), &Origin::Memory);
    }
    std::fs::remove_file(&program).unwrap();
    check_program(&guest, guests::is_root());
    // What is left to an ordinary user.
    let symbols = Symbols::from_memory(&guest.files, &main, &guest.memory()).unwrap();
    let number = symbols.symbol("exported_number").unwrap().address;
    assert_eq!(vm::Memory::u32(&guest.memory(), number).unwrap(), 42);
    let function = symbols.symbol("exported_function").unwrap().address;
    assert_eq!(
        symbols.name_at(function + 2),
        Some(("exported_function".into(), 2))
    );
    assert!(symbols.symbol("hidden_function").is_none());
}

#[test]
fn a_library_replaced_under_a_running_process_is_read_from_memory() {
    let folder = TempDir::new();
    let (program, library) = (
        folder.path().join("program"),
        folder.path().join("libupgraded.so"),
    );
    let source = |first: &str, second: &str| {
        format!(
            "int number = 42; int {first}(void) {{ return 1; }} int {second}(void) {{ return number; }}"
        )
    };
    for hash in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
        compile(
            &source("early", "late"),
            &["-shared", "-fPIC", hash],
            &library,
        );
        let user = PROGRAM
            .replace("pause();", "return late() + pause();")
            .replace("int main", "int late(void); int main");
        let run_path = format!("-Wl,-rpath,{}", folder.path().display());
        compile(&user, &[library.to_str().unwrap(), &run_path], &program);
        let guest = Guest::start_ready(Command::new(&program));
        let old = folder.path().join("old.so");
        std::fs::rename(&library, &old).unwrap();
        compile(
            &source("another", "early"),
            &["-shared", "-fPIC", hash],
            &library,
        );
        std::fs::remove_file(&old).unwrap();
        let module = guest
            .modules()
            .into_iter()
            .find(|module| module.path.ends_with("old.so"))
            .unwrap();
        assert!(module.deleted);
        let memory = guest.memory();
        for symbols in [
            Symbols::open(&guest.files, &module, &memory).unwrap(),
            Symbols::from_memory(&guest.files, &module, &memory).unwrap(),
        ] {
            let number = symbols.exported("number").unwrap().address;
            assert_eq!(vm::Memory::u32(&memory, number).unwrap(), 42);
            let late = symbols.exported("late").unwrap();
            assert!(module.code().any(|code| code.contains(&late.address)));
            assert_eq!(symbols.name_at(late.address + 1), Some(("late".into(), 1)));
            assert!(symbols.exported("another").is_none());
        }
    }
}

#[test]
fn other_machines_are_named() {
    let mut header = *b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0";
    assert_eq!(elf::architecture_of(&header), Some(Architecture::X86));
    header[18] = 62;
    assert_eq!(elf::architecture_of(&header), Some(Architecture::X32));
    header[4] = 2;
    assert_eq!(elf::architecture_of(&header), Some(Architecture::X86_64));
    header[18] = 183;
    assert_eq!(
        elf::architecture_of(&header).unwrap().to_string(),
        "64-bit ARM"
    );
    assert_eq!(elf::architecture_of(&[0; 20]), None);
    let kernel_thread = elf::architecture(2);
    if guests::is_root() && Path::new("/proc/2/comm").exists() {
        println!("{}", kernel_thread.unwrap_err());
    }
}
