//! What the language of the process is told by its environment, and what it has switched on: as far as that is seen from
//! outside, in `maps` and `environ`. Used by `rules`.

use super::rule::{NOTHING, Risk, Rule};
use crate::guest::Guest;
use crate::machine::Machine;
use crate::tree::{Cannot, Tree};
use crate::verdict::Outcome;
use vm::Language;

pub(super) const YJIT: Rule = Rule {
    id: "T47",
    title: "Ruby: YJIT and its collector",
    reads: "with -p /proc/PID/maps (version, YJIT's block of code) and environ (RUBY_GC_*, RUBY_HEAP_*, RUBY_FREE_MIN)",
    why: "YJIT is no longer experimental since Ruby 3.2, and Rails 7.2 switches it on from 3.3; a Ruby built \
          without it cannot. RUBY_GC_HEAP_INIT_SLOTS is read no more from 3.3 on, RUBY_FREE_MIN and RUBY_HEAP_MIN_SLOTS \
          since 2.1 have other names: who set them for large heaps has the defaults again.",
    source: "NEWS of Ruby 3.3.0; gc.c and yjit/src/options.rs of 3.3.8 (48 MiB of code); get_envparam_size in gc.c of 2.1 to 3.3",
    dated: "Ruby 3.3 (2023); stands in 2026",
    change: "start with --yjit or RUBY_YJIT_ENABLE=1, if ruby --yjit -v says +YJIT; RUBY_GC_HEAP_0_INIT_SLOTS to _4_ in the place of the old name",
    of_2009: false,
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[],
    check: ruby,
};

/// Returns the major and minor version of the Ruby that is mapped: `libruby-3.1.so.3.1.7`, `libruby.so.3.3.8`.
fn version(maps: &str) -> Option<(u32, u32)> {
    let line = maps.lines().find(|line| line.contains("/libruby"))?;
    let (_, version) = line.rsplit_once(".so.")?;
    let mut numbers = version.split('.');
    Some((
        numbers.next()?.parse().ok()?,
        numbers.next()?.trim().parse().ok()?,
    ))
}

/// Returns whether YJIT has its block of code: anonymous, executable at its beginning, kept free behind it, and
/// together of 16 MiB at least.
fn has_yjit(maps: &str) -> bool {
    const LEAST: u64 = 16 << 20;
    let mut block: Option<(u64, u64)> = None;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((Some(from), Some(to))) = range.map(|(from, to)| (hex(from), hex(to))) else {
            continue;
        };
        let rights = words.next().unwrap_or_default();
        let anonymous = words.nth(3).is_none();
        block = match block {
            _ if !anonymous => None,
            Some((start, end)) if end == from => Some((start, to)),
            _ if rights.contains('x') => Some((from, to)),
            _ => None,
        };
        if block.is_some_and(|(start, end)| end.saturating_sub(start) >= LEAST) {
            return true;
        }
    }
    false
}

/// Returns the process that was named, if it runs the language of a rule; `not` says of others that it does not.
fn that_runs<'a>(
    machine: &'a Machine,
    not: &'static str,
    runs: impl Fn(&Guest) -> Result<bool, Cannot>,
) -> Result<&'a Guest, Cannot> {
    let guest = machine.one_process()?;
    match runs(guest)? {
        true => Ok(guest),
        false => Err(Cannot::Elsewhere(not)),
    }
}

/// Returns those of these variables that the process was started with, as `NAME=value`.
fn given(guest: &Guest, tree: &Tree, is_it: impl Fn(&str) -> bool) -> Result<Vec<String>, Cannot> {
    let all = tree.read(&guest.file("environ"))?;
    let named = |entry: &&str| entry.split_once('=').is_some_and(|(name, _)| is_it(name));
    Ok(all.split('\0').filter(named).map(str::to_owned).collect())
}

fn ruby(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let guest = that_runs(machine, "no Ruby", |guest| {
        Ok(guest.runs(tree, Language::Ruby))
    })?;
    let maps = guest.maps(tree)?;
    let version = version(maps);
    let is_of_collector = |name: &str| {
        name.starts_with("RUBY_GC_") || name.starts_with("RUBY_HEAP_") || name == "RUBY_FREE_MIN"
    };
    let set = given(guest, tree, is_of_collector)?;
    let is_dead = |entry: &&String| {
        let name = entry.split('=').next().unwrap_or_default();
        let since_33 = version.is_some_and(|version| version >= (3, 3));
        let gone = ["RUBY_FREE_MIN", "RUBY_HEAP_MIN_SLOTS"];
        gone.contains(&name) || (since_33 && name == "RUBY_GC_HEAP_INIT_SLOTS")
    };
    let dead = set.iter().find(is_dead);
    let yjit = has_yjit(maps);
    let outcome = match (dead, yjit, version) {
        (Some(entry), ..) => Outcome::obsolete(format!("{entry} is not read by this Ruby")),
        (None, true, _) => Outcome::good("YJIT is on"),
        (None, false, Some(version)) if version >= (3, 3) => Outcome::consider(
            "YJIT is off: start with --yjit, if this Ruby has it (ruby --yjit -v)",
        ),
        _ => Outcome::good("YJIT is off; from Ruby 3.3 on it is worth a try"),
    };
    let known = version.map_or("not known".to_owned(), |(major, minor)| {
        format!("{major}.{minor}")
    });
    Ok(outcome
        .saw(guest.file("maps, version"), known)
        .saw(
            guest.file("maps, code of YJIT"),
            if yjit { "there" } else { "none" },
        )
        .saw(guest.file("environ RUBY_GC_*"), listed(&set)))
}

/// `A=1, B=2`, or that there is none.
fn listed(set: &[String]) -> String {
    match set {
        [] => "none set".to_owned(),
        set => set.join(", "),
    }
}

pub(super) const DEBUGGING: Rule = Rule {
    id: "T48",
    title: "Python: allocator and debugging",
    reads: "with -p /proc/PID/maps, environ (PYTHONMALLOC, PYTHONDEVMODE, PYTHONTRACEMALLOC, PYTHONASYNCIODEBUG, PYTHONFAULTHANDLER)",
    why: "PYTHONMALLOC=debug fills and checks every block, PYTHONTRACEMALLOC keeps a stack of each, and PYTHONDEVMODE=1 switches \
          the first on together with asyncio's debugging: each is for tests. PYTHONMALLOC=malloc takes Python's own allocator \
          for small objects away, which a replaced malloc (jemalloc) may want and glibc's does not make up for.",
    source: "docs.python.org: Command line and environment (3.6 to 3.14), Python Development Mode",
    dated: "Python 3.6 (2016), 3.7 (2018); stands in 2026",
    change: "start without the variable",
    of_2009: false,
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[],
    check: python,
};

fn python(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let guest = that_runs(machine, "no Python", |guest| {
        Ok(guest.runs(tree, Language::Python))
    })?;
    let set = given(guest, tree, |name| {
        [
            "PYTHONMALLOC",
            "PYTHONDEVMODE",
            "PYTHONTRACEMALLOC",
            "PYTHONASYNCIODEBUG",
        ]
        .contains(&name)
    })?;
    let slows = |entry: &&String| match entry.split_once('=') {
        Some(("PYTHONMALLOC", value)) => value.contains("debug"),
        Some((_, value)) => !value.is_empty() && value != "0",
        None => false,
    };
    let outcome = match (
        set.iter().find(slows),
        set.iter().find(|entry| *entry == "PYTHONMALLOC=malloc"),
    ) {
        (Some(entry), _) => Outcome::bad(format!(
            "{entry}: for tests, it slows every allocation or task"
        )),
        (None, Some(_)) => {
            Outcome::consider("PYTHONMALLOC=malloc: small objects go to malloc one by one")
        }
        (None, None) => Outcome::good("Python's own allocator, no debugging"),
    };
    Ok(outcome.saw(guest.file("environ PYTHON*"), listed(&set)))
}

pub(super) const OPCACHE: Rule = Rule {
    id: "T49",
    title: "PHP: opcache",
    reads: "with -p /proc/PID/maps (opcache.so) and comm",
    why: "Without opcache every request reads and compiles every file it includes. The command line (php) switches it off by \
          default, and ends after one script: there it does not matter. Whether its memory is full is in the process alone: \
          opcache_get_status()['memory_usage'], 'cache_full', and 'oom_restarts'.",
    source: "php.net: OPcache, installation and runtime configuration (5.5 to 8.4: a zend_extension; built in from 8.5)",
    dated: "PHP 5.5 (2013); stands in 2026",
    change: "zend_extension=opcache in php.ini, opcache.enable=1; restart php-fpm or Apache",
    of_2009: false,
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[],
    check: php,
};

fn php(machine: &Machine) -> Result<Outcome, Cannot> {
    let tree = &machine.tree;
    let in_apache = |guest: &Guest| Ok(guest.maps(tree)?.contains("/libphp"));
    let guest = that_runs(machine, "no PHP", |guest| {
        Ok(guest.comm.starts_with("php") || in_apache(guest)?)
    })?;
    let (maps, in_apache) = (guest.maps(tree)?, in_apache(guest)?);
    let serves = in_apache || guest.comm.starts_with("php-fpm") || guest.comm.contains("fpm");
    let loaded = maps.contains("/opcache.so");
    let outcome = match (serves, loaded) {
        (true, true) => {
            Outcome::good("opcache is loaded; opcache_get_status() says whether its memory is full")
        }
        (true, false) => Outcome::bad("opcache is not loaded: each request compiles all its files"),
        (false, _) => Outcome::good("the command line: it compiles once"),
    };
    Ok(outcome.saw(
        guest.file("maps, opcache.so"),
        if loaded { "mapped" } else { "not mapped" },
    ))
}

#[cfg(test)]
mod tests {
    use super::{has_yjit, version};

    #[test]
    fn the_version_is_in_the_name_of_the_library() {
        let of = |name: &str| {
            version(&format!(
                "1000-2000 r--p 00000000 fe:00 7 /usr/lib/{name}\n"
            ))
        };
        assert_eq!(of("libruby-3.1.so.3.1.7"), Some((3, 1)));
        assert_eq!(of("libruby.so.3.4.1"), Some((3, 4)));
        assert_eq!(of("libruby.so"), None);
    }

    #[test]
    fn yjit_keeps_a_block_for_its_code() {
        // As Ruby 3.3.8 has it: the pages in use, and the rest of 48 MiB.
        let block = "7ff9eeb86000-7ff9eeb89000 r-xp 00000000 00:00 0 \n7ff9eeb89000-7ff9f1b86000 ---p 00000000 00:00 0 \n";
        assert!(has_yjit(block));
        // The agent of lancet is small, and the kernel's pages have a name.
        let others = "7ff9eeb86000-7ff9eebe0000 r-xp 00000000 00:00 0 \n7fcf5d42e000-7fcf6d430000 r-xp 00000000 00:00 0 [vdso]\n";
        assert!(!has_yjit(others));
    }
}
