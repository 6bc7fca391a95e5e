//! Other programs that set the same settings. Used by `apply`, and by the crates `lancet` and `report`.
//!
//! A value that another program owns comes back: at once (tuned, irqbalance), when a pod starts
//! (Kubernetes), or at the next boot (sysctl.d). And whoever takes it back later may break what that
//! program relies on: tuned#816 broke Kubernetes that way. So such a change is refused, by the owner's
//! name, unless it is forced.

use crate::machine::Machine;
use crate::rules::sysctl_lines;
use crate::setting::{Setting, sysctl_path};

/// A program that sets the same setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The program, in words.
    pub who: String,
    /// Where its value is to be changed instead.
    pub instead: String,
}

/// Returns the owner of a setting, if there is one that sets another value than this.
pub fn of(machine: &Machine, setting: &Setting, wanted: &str) -> Option<Owner> {
    let owner = |who: String, instead: &str| {
        Some(Owner {
            who,
            instead: instead.into(),
        })
    };
    let path = match setting {
        Setting::File { path } => path.as_str(),
        _ => "",
    };
    if path.starts_with("/proc/irq/")
        && let Some((pid, _)) = machine.process_named(&["irqbalance"])
    {
        let instead = "set IRQBALANCE_BANNED_CPULIST in its configuration";
        return owner(format!("irqbalance (PID {pid})"), instead);
    }
    let of_process = matches!(
        setting,
        Setting::Descriptors { .. } | Setting::Affinity { .. }
    );
    if !of_process && let Some((pid, _)) = machine.process_named(&["tuned"]) {
        let profile = machine
            .tree
            .word("/etc/tuned/active_profile")
            .unwrap_or_default();
        let instead = "put it into a profile of its own that includes the active one";
        return owner(format!("tuned (PID {pid}, profile `{profile}`)"), instead);
    }
    if path.starts_with("/proc/sys/")
        && let Some((pid, comm)) = machine.process_named(&["kubelet", "k3s-server", "k3s-agent"])
    {
        let instead = "set it in the node's or the pod's configuration";
        return owner(format!("Kubernetes ({comm}, PID {pid})"), instead);
    }
    // The machine's files are about the machine's network; a container that has a network of its own sets it from its
    // own files.
    let files = if path.starts_with("/proc/sys/net/") && machine.entered.is_some() {
        machine.files().ok()?
    } else {
        &machine.tree
    };
    // The last line that names the key wins at boot.
    let lines = sysctl_lines(files);
    let line = lines
        .iter()
        .rev()
        .find(|line| sysctl_path(&line.key) == path)?;
    if setting.same(&line.value, wanted) {
        None
    } else {
        owner(
            format!("systemd-sysctl ({} sets it to {})", line.place, line.value),
            "change that line as well",
        )
    }
}
