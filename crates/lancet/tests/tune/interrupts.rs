//! Interrupts of this machine, spread over its CPUs and put back by the tool.
//!
//! No test machine has a card with many queues. So a card is made of files, and its queues are interrupts that are really
//! there: the quietest of this machine. `/proc` below the root is the live one (a bind mount, for the tool alone), so what is
//! written goes to the kernel's own files.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

use tune::interrupts::{self, affinity_file};
use tune::tree::Tree;

use crate::harness::{Scratch, checks, text, verdict};
use crate::support::tool;

/// Interrupts that were moved; they go back to where they were.
struct Moved(BTreeMap<u32, String>);

impl Drop for Moved {
    fn drop(&mut self) {
        for (number, before) in &self.0 {
            let _ = Tree::live().write(&affinity_file(*number), before);
        }
    }
}

/// The four quietest that can be moved, all of them now on CPU 0.
fn on_one_cpu() -> Moved {
    let tree = Tree::live();
    let mut all: Vec<(u64, u32)> = interrupts::read(&tree)
        .unwrap()
        .into_iter()
        // Those are taken for what carries no packets.
        .filter(|(_, interrupt)| !interrupt.name.contains("config"))
        .map(|(number, interrupt)| (interrupt.count, number))
        .collect();
    all.sort_unstable();
    let mut moved = Moved(BTreeMap::new());
    for (_, number) in all {
        let Ok(before) = tree.read(&affinity_file(number)) else {
            continue;
        };
        if moved.0.len() < 4 && tree.write(&affinity_file(number), "0").is_ok() {
            moved.0.insert(number, before);
        }
    }
    moved
}

#[test]
fn interrupts_are_spread_and_put_back() {
    const TEST: &str = "interrupts_are_spread_and_put_back";
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED {TEST}: needs root to move an interrupt");
        return;
    }
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus = tune::cpus::list(&online).unwrap();
    let moved = on_one_cpu();
    if moved.0.len() < 3 || cpus.len() < 2 {
        println!("SKIPPED {TEST}: needs two CPUs and three interrupts that can be moved");
        return;
    }
    let machine = Scratch::new();
    machine.put("sys/devices/system/cpu/online", &online);
    machine.put("sys/class/net/eth9/flags", "0x1003\n");
    for number in moved.0.keys() {
        machine.put(
            &format!("sys/class/net/eth9/device/msi_irqs/{number}"),
            "msix\n",
        );
    }
    machine.put("proc/empty", "");
    let tune = |args: &[&str]| -> Output {
        let script = "mount --bind /proc \"$1/proc\" && shift && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", machine.arg()]);
        command.arg(tool()).args(["tune", "--root", machine.arg()]);
        command.args(args).output().unwrap()
    };
    let now = || -> Vec<String> {
        let read = |number: &u32| fs::read_to_string(affinity_file(*number)).unwrap();
        moved
            .0
            .keys()
            .map(|number| read(number).trim().to_owned())
            .collect()
    };
    let before = checks(&tune(&["--json"]));
    assert_eq!(verdict(&before, "T10"), "bad", "{}", before["T10"]);
    let says = before["T10"]["says"].as_str().unwrap();
    assert_eq!(
        says,
        format!("eth9: all {} interrupts on CPU 0", moved.0.len())
    );

    // irqbalance may run here and own them.
    let applied = tune(&["--apply", "T10", "--force"]);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied));
    let spread: Vec<String> = cpus
        .iter()
        .cycle()
        .map(usize::to_string)
        .take(moved.0.len())
        .collect();
    assert_eq!(now(), spread);
    // The kernel moves an interrupt when it comes next, and these come hardly ever: what counts is where it may go.
    let after = checks(&tune(&["--json"]));
    assert_eq!(verdict(&after, "T10"), "good", "{}", after["T10"]);

    let undone = tune(&["--undo"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert_eq!(now(), vec!["0"; moved.0.len()]);
}
