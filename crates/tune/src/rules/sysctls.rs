//! Settings in sysctl.d that no kernel has any more. Used by `owners` and `rules`.

use super::rule::{NOTHING, Risk, Rule};
use crate::machine::Machine;
use crate::setting::sysctl_path;
use crate::tree::{Cannot, Tree};
use crate::verdict::{Outcome, several};

pub(super) const DEAD: Rule = Rule {
    id: "T35",
    title: "dead sysctls",
    of_2009: false,
    reads: "/etc/sysctl.conf and sysctl.d in /etc, /run, /usr/local/lib, /usr/lib, /lib (with -p those of the process's \
            mount namespace), against /proc/sys",
    why: "A line the kernel does not know is refused at boot and read by nobody; whoever wrote it believes it works. \
          Some are copied from list to list for years after their feature went.",
    source: "sysctl.d(5); kubeasz#714, deepops#354, magento/devdocs#7391",
    dated: "each with the version it went with: tcp_tw_recycle 4.12 (2017), sched_* 5.13 (2021)",
    change: "delete the line",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/sched/debug.c", "base_slice_ns"),
        ("net/ipv4/sysctl_net_ipv4.c", "tcp_tw_reuse"),
    ],
    check: dead,
};

/// Directories in the order of sysctl.d(5); a file of an earlier one hides its namesakes in later ones.
const DIRECTORIES: [&str; 5] = [
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];

/// Keys that were removed, with the reason.
const GONE: [(&str, &str); 9] = [
    ("net.ipv4.tcp_tw_recycle", "gone since 4.12"),
    ("net.ipv4.tcp_dma_copybreak", "gone since 3.18"),
    (
        "kernel.sched_min_granularity_ns",
        "in debugfs since 5.13, gone since 6.6",
    ),
    (
        "kernel.sched_wakeup_granularity_ns",
        "in debugfs since 5.13, gone since 6.6",
    ),
    ("kernel.sched_migration_cost_ns", "in debugfs since 5.13"),
    (
        "kernel.sched_latency_ns",
        "in debugfs since 5.13, gone since 6.6",
    ),
    ("kernel.sched_nr_migrate", "in debugfs since 5.13"),
    (
        "net.ipv4.ip_conntrack_max",
        "net.netfilter.nf_conntrack_max since 2.6.20",
    ),
    (
        "net.ipv4.netfilter.ip_conntrack_max",
        "net.netfilter.nf_conntrack_max since 2.6.20",
    ),
];

/// Keys that come and go with a module or a device: their absence proves nothing.
const LOADED: [&str; 5] = [
    "net/netfilter/",
    "net/nf_conntrack_max",
    "net/bridge/",
    "net/ipv6/",
    "dev/",
];

/// One line of a sysctl.d file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Where it was read: `/etc/sysctl.d/10.conf:3`.
    pub place: String,
    /// The key as it is written.
    pub key: String,
    /// The value as it is written.
    pub value: String,
    /// Whether it has a leading dash: a failure is not to be reported.
    pub optional: bool,
}

/// Returns all lines of all files; of two with the same key the later one wins.
pub(crate) fn lines(tree: &Tree) -> Vec<Line> {
    let mut files: Vec<(String, String)> = Vec::new();
    for directory in DIRECTORIES {
        for name in tree.list(directory).unwrap_or_default() {
            if name.ends_with(".conf") && !files.iter().any(|(known, _)| *known == name) {
                files.push((name.clone(), format!("{directory}/{name}")));
            }
        }
    }
    files.sort();
    let mut paths: Vec<String> = files.into_iter().map(|(_, path)| path).collect();
    let linked = paths.iter().any(|path| path.ends_with("/99-sysctl.conf"));
    if !linked {
        paths.push("/etc/sysctl.conf".into());
    }
    let read = |path: &String| Some((path.clone(), tree.read(path).ok()?));
    paths
        .iter()
        .filter_map(read)
        .flat_map(|(path, text)| parse(&path, &text))
        .collect()
}

fn parse(path: &str, text: &str) -> Vec<Line> {
    let numbered = text.lines().enumerate();
    numbered
        .filter_map(|(at, line)| {
            let line = line.trim();
            if line.starts_with(['#', ';']) {
                return None;
            }
            let (key, value) = line.split_once('=')?;
            let key = key.trim();
            Some(Line {
                place: format!("{path}:{}", at + 1),
                key: key.trim_start_matches('-').into(),
                value: value.trim().into(),
                optional: key.starts_with('-'),
            })
        })
        .collect()
}

fn dead(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    tree.list("/proc/sys")?;
    let files = machine.files()?;
    let all = lines(files);
    let is_dead = |line: &&Line| {
        let path = sysctl_path(&line.key);
        let rest = path.trim_start_matches("/proc/sys/");
        // Another network namespace shows only a part of /proc/sys/net.
        let elsewhere = machine.entered.is_some() && rest.starts_with("net/");
        let comes_and_goes = LOADED.iter().any(|start| rest.starts_with(start))
            || elsewhere && !GONE.iter().any(|(key, _)| *key == line.key)
            || rest.contains("/conf/")
            || rest.contains("/neigh/")
            || rest.contains(['*', '?'])
            || line.optional;
        !tree.exists(&path) && !comes_and_goes
    };
    let dead: Vec<&Line> = all.iter().filter(is_dead).collect();
    let outcome = match dead.as_slice() {
        [] => Outcome::good(format!(
            "{} in sysctl.d, all known to the kernel",
            several(all.len(), "line")
        )),
        [one] => Outcome::obsolete(format!("{} is unknown to this kernel", one.key)),
        [one, more @ ..] => Outcome::obsolete(format!(
            "{} and {} more are unknown to this kernel",
            one.key,
            more.len()
        )),
    };
    let whose = match files.root().filter(|_| tree.is_live()) {
        Some(root) => format!("sysctl.d and sysctl.conf below {}", root.display()),
        None => "sysctl.d and sysctl.conf".into(),
    };
    let outcome = outcome.saw(whose, several(all.len(), "line"));
    Ok(dead.into_iter().fold(outcome, |outcome, line| {
        let end = GONE.iter().find(|(key, _)| *key == line.key);
        let end = end.map_or("not in /proc/sys", |(_, end)| end);
        outcome.saw(&line.place, format!("{} = {}: {end}", line.key, line.value))
    }))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_read_as_sysctl_does() {
        let text = "# a = b\n; c = d\n\n net.core.somaxconn = 1000 \n-kernel.x=1\nnonsense\n";
        let lines = parse("/etc/x.conf", text);
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (lines[0].key.as_str(), lines[0].value.as_str()),
            ("net.core.somaxconn", "1000")
        );
        assert_eq!(lines[0].place, "/etc/x.conf:4");
        assert!(lines[1].optional && lines[1].key == "kernel.x");
    }
}
