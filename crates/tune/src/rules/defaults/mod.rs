//! Values that are far from the kernel's own: one rule over a table of keys. Used by `rules`.
//!
//! A key of the table has the kernel's default and the range in which nobody need ask why it is another. What lies outside is shown
//! with what it costs. What is in /proc/sys and no check has read is listed by name, so that silence about a key never means that
//! it was found good.

mod table;

use std::collections::BTreeMap;

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::setting::Setting;
use crate::tree::{Cannot, Tree};
use crate::verdict::Outcome;

pub(super) const FAR: Rule = Rule {
    id: "T55",
    title: "far from the kernel's default",
    of_2009: false,
    reads: "some 190 keys of /proc/sys/net, vm, fs and kernel, of /sys/kernel/mm (huge pages of every size, khugepaged, lru_gen) and of \
            /sys/block/*/queue; the names of all others in /proc/sys",
    why: "A value far from the default is there because somebody wanted it, or because a list said so, on another kernel, for another \
          machine. Each is shown with what it costs. What no check has read is listed as not looked at: nothing is said about it.",
    source: "Documentation/networking/ip-sysctl.rst, Documentation/admin-guide/sysctl/net.rst, vm.rst, fs.rst, kernel.rst; \
             Documentation/admin-guide/mm/transhuge.rst, multigen_lru.rst; Documentation/ABI/stable/sysfs-block",
    dated: "defaults of Linux 4.19 to 6.18, as of 2026",
    change: "each to the kernel's default, where that does not depend on the machine",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        (
            "Documentation/networking/ip-sysctl.rst",
            "tcp_keepalive_time",
        ),
        (
            "Documentation/networking/ip-sysctl.rst",
            "tcp_notsent_lowat",
        ),
        (
            "Documentation/admin-guide/sysctl/vm.rst",
            "zone_reclaim_mode",
        ),
        ("Documentation/admin-guide/sysctl/vm.rst", "min_free_kbytes"),
        (
            "Documentation/admin-guide/mm/multigen_lru.rst",
            "min_ttl_ms",
        ),
        (
            "Documentation/admin-guide/mm/transhuge.rst",
            "hugepages-<size>kB",
        ),
        ("Documentation/ABI/stable/sysfs-block", "read_ahead_kb"),
    ],
    check: far,
};

fn memory_of(tree: &Tree) -> Option<u64> {
    let text = tree.read("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = line?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn far(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let memory = memory_of(tree);
    let mut looked_at = 0;
    let mut found = Vec::new();
    let keys = table::keys();
    for key in &keys {
        for path in key.files(tree) {
            let Ok(text) = tree.word(&path) else {
                continue;
            };
            looked_at += 1;
            if key.is_far(&text, memory) {
                found.push((key, path, text));
            }
        }
    }
    if looked_at == 0 {
        tree.list("/proc/sys")?;
        return Err(Cannot::Missing("every key of the table".into()));
    }
    let outcome = match found.as_slice() {
        [] => Outcome::good(format!("{looked_at} keys, none far from the default")),
        [(key, path, text), rest @ ..] => {
            let name = match path.strip_prefix("/proc/sys/") {
                Some(key) => key.replace('/', "."),
                None => path.clone(),
            };
            let more = match rest.len() {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let says = format!("{name} {}: {}{more}", key.beside(text), key.costs);
            Outcome::consider(says)
        }
    };
    // Two numbers of one file are restored by one write.
    let mut restored: BTreeMap<&str, String> = BTreeMap::new();
    let outcome = found.iter().fold(outcome, |outcome, (key, path, text)| {
        let known = restored.get(path.as_str()).unwrap_or(text);
        if let Some(value) = key.restored(known) {
            restored.insert(path, value);
        }
        let shown = format!("{}: {}", key.beside(text), key.costs);
        outcome.saw(path, shown)
    });
    let outcome = restored
        .into_iter()
        .fold(outcome, |outcome, (path, value)| {
            outcome.change(Setting::file(path), value)
        });
    let outcome = outcome.saw("keys of the table that are here", looked_at);
    Ok(not_looked_at(tree, outcome))
}

/// Adds the names of all keys of /proc/sys that no check has read, a line for each folder. Those of network devices are named once.
fn not_looked_at(tree: &Tree, outcome: Outcome) -> Outcome {
    let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left = vec!["/proc/sys".to_owned()];
    let mut count = 0;
    while let Some(folder) = left.pop() {
        for name in tree.list(&folder).unwrap_or_default() {
            let path = format!("{folder}/{name}");
            let of_devices = folder.ends_with("/conf") || folder.ends_with("/neigh");
            if of_devices && !matches!(name.as_str(), "all" | "default") {
                continue;
            }
            if tree.is_folder(&path) {
                left.push(path);
            } else if !tree.has_read(&path) {
                count += 1;
                folders.entry(folder.clone()).or_default().push(name);
            }
        }
    }
    let outcome = outcome.saw("keys of /proc/sys not looked at by the checks made", count);
    folders
        .into_iter()
        .fold(outcome, |outcome, (folder, names)| {
            outcome.saw(format!("not looked at in {folder}"), names.join(" "))
        })
}
