//! Every dynamic symbol of real interpreters and their libraries.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use process::gadgets;
use process::maps::Maps;
use process::modules::{Module, Origin};
use process::symbols::{Kind, Symbols};

use crate::guests::{self, Guest, nm, skip};

/// The thread-local names of a file: `nm` writes them as data.
fn thread_local(file: &Path) -> Vec<String> {
    let output = Command::new("readelf")
        .args(["-sW"])
        .arg(file)
        .output()
        .expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tls = text.lines().filter(|line| line.contains(" TLS "));
    tls.filter_map(|line| {
        Some(
            line.split_whitespace()
                .nth(7)?
                .split('@')
                .next()?
                .to_owned(),
        )
    })
    .collect()
}

/// Holds every dynamic symbol of a module against `nm -D`, and both ways of reading against each other.
fn compare_with_nm(guest: &Guest, module: &Module) -> usize {
    let memory = guest.memory();
    let file = guest.files.path_for_us(&module.path);
    let from_file = Symbols::open(&guest.files, module, &memory).unwrap();
    let from_memory = Symbols::from_memory(&guest.files, module, &memory).unwrap();
    assert!(
        matches!(from_file.origin(), Origin::File(_)),
        "{:?}",
        module.path
    );
    assert_eq!(from_memory.origin(), &Origin::Memory);
    let tls = thread_local(&file);
    let mut names: HashMap<String, Vec<(bool, u64)>> = HashMap::new();
    for (address, kind, name) in nm(&["-D"], &file) {
        let (name, default) = match name.split_once('@') {
            Some((name, version)) => (name, version.starts_with('@')),
            None => (name.as_str(), true),
        };
        if !matches!(kind, 'A' | 'a' | 'U') && !tls.iter().any(|tls| tls == name) {
            names
                .entry(name.to_owned())
                .or_default()
                .push((default, address + module.bias));
        }
    }
    for (name, versions) in &names {
        let wanted = versions.iter().find(|(default, _)| *default);
        for symbols in [&from_file, &from_memory] {
            let found = symbols
                .exported(name)
                .unwrap_or_else(|| panic!("{name} is missing"))
                .address;
            match wanted {
                Some((_, address)) => assert_eq!(found, *address, "{name}"),
                None => assert!(
                    versions.iter().any(|(_, address)| *address == found),
                    "{name}"
                ),
            }
        }
    }
    for name in tls {
        assert!(
            from_file
                .exported(&name)
                .is_none_or(|_| names.contains_key(&name)),
            "{name}"
        );
    }
    assert!(from_file.exported("no_such_symbol_anywhere").is_none());
    let listed = |symbols: &Symbols| {
        symbols
            .exports()
            .map(|named| named.symbol.address)
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&from_file), listed(&from_memory));
    names.len()
}

#[test]
fn every_dynamic_symbol_is_where_nm_says() {
    let mut guests = vec![("cat", Guest::start(Command::new("/bin/cat")))];
    for (name, script) in [
        ("ruby", "$stdout.sync = true; puts :ready; sleep"),
        (
            "python3",
            "import time; print('ready', flush=True); time.sleep(1e6)",
        ),
    ] {
        let mut command = Command::new(name);
        command
            .arg(if name == "ruby" { "-e" } else { "-c" })
            .arg(script);
        if guests::installed(name) {
            guests.push((name, Guest::start_ready(command)));
        } else {
            skip(
                "every_dynamic_symbol_is_where_nm_says",
                &format!("no {name}"),
            );
        }
    }
    for (name, guest) in &guests {
        let modules = guest.modules();
        assert_eq!(modules.iter().filter(|module| module.main).count(), 1);
        assert!(
            modules
                .iter()
                .any(|module| module.name().starts_with("libc.so"))
        );
        let compared: usize = modules
            .iter()
            .map(|module| compare_with_nm(guest, module))
            .sum();
        println!("{name}: {} modules, {compared} names", modules.len());
        assert!(compared > 2000);
    }
}

#[test]
fn kinds_are_told_apart() {
    let guest = Guest::start(Command::new("/bin/cat"));
    let modules = guest.modules();
    let libc = modules
        .iter()
        .find(|module| module.name().starts_with("libc.so"))
        .unwrap();
    let symbols = Symbols::open(&guest.files, libc, &guest.memory()).unwrap();
    assert_eq!(symbols.exported("memcpy").unwrap().kind, Kind::Indirect);
    assert_eq!(symbols.exported("malloc").unwrap().kind, Kind::Function);
    assert_eq!(symbols.exported("environ").unwrap().kind, Kind::Data);
    assert!(
        symbols.exported("errno").is_none(),
        "thread-local, has no address"
    );
    let malloc = symbols.exported("malloc").unwrap();
    assert_eq!(
        symbols.name_at(malloc.address + 3),
        Some(("malloc".into(), 3))
    );
    assert_eq!(symbols.name_at(libc.range().end + 1), None);
    let versions = symbols.exports().filter(|named| named.name == "memcpy");
    let mut defaults: Vec<bool> = versions.map(|named| named.default).collect();
    defaults.sort_unstable();
    assert_eq!(defaults, [false, true]);
    // The two pieces of code that a remote call needs.
    let (maps, memory) = (Maps::read(guest.pid).unwrap(), guest.memory());
    for bytes in [gadgets::SYSCALL_RETURN, gadgets::RESTORE_RT] {
        let at = gadgets::find(&memory, &maps, bytes)
            .next()
            .expect("in libc");
        let mut there = vec![0; bytes.len()];
        vm::Memory::read(&memory, at, &mut there).unwrap();
        assert_eq!(there, bytes);
        assert!(maps.find(at).unwrap().permissions.execute);
    }
}

/// What `readelf` says of the slots that calls go through, and of the name; from the file and from memory.
#[test]
fn imports_and_sonames_are_those_of_readelf() {
    let guest = Guest::start(Command::new("/bin/cat"));
    let memory = guest.memory();
    let mut seen = 0;
    for module in guest.modules() {
        let file = guest.files.path_for_us(&module.path);
        let said = |what: &str| {
            let mut readelf = Command::new("readelf");
            let run = readelf.args(["-W", what]).arg(&file).output();
            let run = run.expect("readelf runs");
            String::from_utf8_lossy(&run.stdout).into_owned()
        };
        let (dynamic, relocations) = (said("-d"), said("-r"));
        let name = dynamic
            .split_once("soname: [")
            .and_then(|(_, rest)| rest.split(']').next());
        for symbols in [
            Symbols::open(&guest.files, &module, &memory),
            Symbols::from_memory(&guest.files, &module, &memory),
        ] {
            // The vdso has no file.
            let Ok(symbols) = symbols else { continue };
            assert_eq!(symbols.soname().as_deref(), name, "{}", file.display());
            for line in relocations.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [_, _, "R_X86_64_JUMP_SLOT", _, name, ..] = words[..] else {
                    continue;
                };
                let name = name.split('@').next().expect("a part");
                assert!(symbols.imports(name), "{name} in {}", file.display());
                seen += 1;
            }
            assert!(!symbols.imports("no_such_function"));
        }
    }
    assert!(seen > 40, "{seen} slots");
}
