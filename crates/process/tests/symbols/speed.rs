//! How long it takes to open a library of some megabytes.

use std::process::Command;
use std::sync::Arc;

use process::gadgets;
use process::maps::Maps;
use process::modules::{GuestFiles, Module, modules};
use process::symbols::Symbols;

use crate::guests::{self, Guest, skip};

#[test]
fn a_large_library_is_opened_fast() {
    if !guests::installed("ruby") {
        return skip("a_large_library_is_opened_fast", "no ruby");
    }
    let mut command = Command::new("ruby");
    command.args(["-e", "$stdout.sync = true; puts :ready; sleep"]);
    let guest = Guest::start_ready(command);
    let memory = guest.memory();
    let mut took: Vec<Vec<std::time::Duration>> = Vec::new();
    for _ in 0..9 {
        let start = std::time::Instant::now();
        let files = Arc::new(GuestFiles::of(guest.pid));
        let maps = Maps::read(guest.pid).unwrap();
        let read = start.elapsed();
        let all = modules(&files, &maps, &memory).unwrap();
        let listed = start.elapsed();
        let exports = |module: &&Module| module.name().starts_with("libruby");
        let module = all
            .iter()
            .find(exports)
            .or(all.iter().find(|module| module.main))
            .unwrap();
        let opening = std::time::Instant::now();
        let symbols = Symbols::open(&files, module, &memory).unwrap();
        let opened = opening.elapsed();
        let names: Vec<String> = symbols
            .exports()
            .map(|named| named.name.into_owned())
            .step_by(50)
            .take(40)
            .collect();
        let resolving = std::time::Instant::now();
        assert!(names.iter().all(|name| symbols.exported(name).is_some()));
        let resolved = resolving.elapsed();
        let naming = std::time::Instant::now();
        assert!(
            symbols
                .name_at(symbols.exported(&names[3]).unwrap().address)
                .is_some()
        );
        let named = naming.elapsed();
        let from_memory = std::time::Instant::now();
        Symbols::from_memory(&files, module, &memory).unwrap();
        let mem = from_memory.elapsed();
        let search = std::time::Instant::now();
        gadgets::find(&memory, &maps, gadgets::RESTORE_RT)
            .next()
            .unwrap();
        took.push(vec![
            read,
            listed - read,
            opened,
            resolved,
            named,
            mem,
            search.elapsed(),
        ]);
    }
    for (at, name) in [
        "maps",
        "modules",
        "open file",
        "40 names",
        "first name_at",
        "open memory",
        "gadget",
    ]
    .iter()
    .enumerate()
    {
        let mut times: Vec<_> = took.iter().map(|run| run[at]).collect();
        times.sort_unstable();
        println!("{name}: median {:?}, worst {:?}", times[4], times[8]);
        // The bound is 3 ms; machines that run tests are busy and the build is not optimised. What else
        // runs only adds, so it is the best of the nine that is held against it.
        assert!(times[0].as_millis() < 100);
    }
}
