//! Faults of the agent's own, and modules and VMs that are unloaded while they are watched.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use process::functions::Functions;
use process::guest;
use vm::php::{Facts, Requests};

use super::{exactly, functions, phps};
use crate::support::fastcgi::{asked, fpm};
use crate::support::{Guest, LIMIT, Spoilt, TempDir, Watch, fixtures, installed, mem, run, skip};

/// A panic where a request begins or ends: the heap begins anew all the same, and the session ends.
#[test]
fn a_panic_at_the_end_of_a_request_leaves_the_next_one_a_new_heap() {
    let folder = TempDir::new("panics-php");
    let Some((_guest, socket, workers)) = fpm(&folder, 1) else {
        return skip("panics", "there is no php-fpm8.2");
    };
    let script = fixtures().join("php/births/request.php");
    let (ask, pid) = (|| asked(&socket, &script, 5_000), workers[0]);
    ask();
    let (first, own) = (ask(), functions(pid));
    for function in ["request_ends", "request_begins", "request_closes"] {
        let watch = Watch::open(mem(pid));
        let spoilt = Spoilt::make(pid, function);
        for _ in 0..3 {
            assert_eq!(ask(), first, "{function}");
        }
        let output = watch.interrupt();
        let said = output.stderr.contains("it found a fault of its own");
        assert!(said, "{function}: {}", output.stderr);
        assert_eq!(functions(pid), own, "{function}");
        spoilt.mend();
    }
    let watch = Watch::open(mem(pid));
    assert_eq!(ask(), first);
    watch.report();
}

/// A request of the command's is broken off by a fault: the guest goes on, the agent leaves at its next block, and the next command counts.
#[test]
fn a_request_that_is_broken_off_gives_its_right_back() {
    for php in phps("broken off") {
        let mut guest = super::guest(&php, "births", &[]);
        let own = functions(guest.pid);
        let watch = Watch::open(mem(guest.pid));
        let spoilt = Spoilt::fault(guest.pid, "php6births8counting5count");
        let output = watch.interrupt();
        assert_ne!(output.code(), 0, "{php}: {output:?}");
        spoilt.mend();
        guest.tell("10");
        guest.find("made ");
        assert_eq!(functions(guest.pid), own, "{php}: {output:?}");
        exactly(&php, &mut guest, "after a fault");
        guest.ends_with("answer 0");
    }
}

/// Words of a module that a script has loaded are left alone: it is unloaded at the end of its request.
#[test]
fn modules_that_a_script_has_loaded_are_left_alone() {
    for php in phps("dl") {
        let mut command = php.command();
        command.arg("-n").arg(fixtures().join("php/births/dl.php"));
        let mut guest = Guest::start(&format!("{php} dl"), command);
        guest.expect("ready");
        let (_, memory, maps) = guest::reach(guest.pid).expect("it can be read");
        let symbols = Functions::read(guest.pid, &memory, &maps).expect("its symbols");
        let memory = &*memory;
        let symbol = |name: &str| symbols.symbol(name);
        let facts = Facts::find(&memory, &symbol).expect("a PHP");
        let registries = ["module_registry", "sapi_module"].map(|name| symbol(name).expect(name));
        let words = Requests::find(&memory, registries, facts.version()).expect("modules");
        let is_its = |path: &Option<Arc<Path>>| format!("{path:?}").contains("sockets.so");
        let loaded = maps.iter().any(|area| is_its(&area.path));
        assert!(loaded, "{php}: it has loaded no module");
        for word in [words.first, words.last] {
            let area = maps.find(word).expect("a mapping");
            assert!(!is_its(&area.path), "{php}: {area:?}");
        }
        let watch = Watch::open(mem(guest.pid));
        watch.kill();
        guest.tell("");
        guest.ends_with("answer 1001");
    }
}

/// A process whose VM has ended is not entered any more: its heap is unmapped.
#[test]
fn a_vm_that_has_ended_is_not_entered() {
    let folder = TempDir::new("over-php");
    let library = folder.join("over.so");
    if !installed("gcc") {
        return skip("over", "no gcc");
    }
    let compiled = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(fixtures().join("php/births/over.c"))
        .status();
    assert!(compiled.expect("gcc runs").success());
    for php in phps("over").iter().filter(|php| php.is_system()) {
        let mut command = php.command();
        command
            .arg(fixtures().join("php/births/births.php"))
            .env("LD_PRELOAD", &library);
        let mut guest = Guest::start(&format!("{php} over"), command);
        guest.expect("ready");
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        guest.expect("answer 0");
        guest.expect("over");
        let output = watch.interrupt();
        let said = output.stderr.matches("its PHP has ended").count();
        assert_eq!(said, 1, "{output:?}");
        assert_eq!(output.code(), 4, "{php}: {output:?}");
        // Nor does a new one find what it could count.
        let mut command = mem(guest.pid);
        command.args(["--for", "10ms"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 1, "{php}: {output:?}");
        guest.tell("x");
        assert!(guest.ends_well(), "{php}");
    }
}
