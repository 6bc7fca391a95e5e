//! The configuration: what TOML says, checked as it is read, so that what is wrong is said with its line. Used by `run`, `tasks`, `check`
//! and others.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use calls::preset::Preset;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::choose::Choice;
use crate::cli::written::{self, Flaw};
use crate::cli::{duration, size};
use crate::commands::heap::when::{self, When};
use crate::exit::Usage;

/// Growth is seen by several looks within its unit.
const LEAST_GROWTH: Duration = Duration::from_secs(60);
/// A lancet has so much at work.
const LEAST_MEMORY: u64 = 32 << 20;

/// What the configuration file says: each field is a key or a section of it, and no other is allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Where the tables are.
    pub folder: PathBuf,
    /// The share of one processor that it may use, with what it starts.
    #[serde(default = "half_a_percent", deserialize_with = "share")]
    pub cpu: f64,
    /// The resident memory that it may have with what it starts, but for `heap`.
    #[serde(default = "fifty_megabytes", deserialize_with = "memory")]
    pub memory: u64,
    /// Files are removed when they are older.
    #[serde(default = "a_week", deserialize_with = "length")]
    pub keep_for: Duration,
    /// The oldest files are removed where all have more bytes.
    #[serde(default = "a_gigabyte", deserialize_with = "bytes")]
    pub keep_size: u64,
    /// How often it tells of itself, in table `agent`.
    #[serde(default = "an_hour", deserialize_with = "length")]
    pub report_every: Duration,
    /// Where its health can be asked for.
    #[serde(default, deserialize_with = "place")]
    pub health: Option<Place>,
    /// Which processes are looked at, and how.
    #[serde(default)]
    pub watch: Vec<Watch>,
    /// How often the machine's settings are.
    pub tune: Option<Tune>,
}

/// Where health is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a port of this machine alone.
    Port(SocketAddr),
    /// At a socket in the file system.
    Socket(PathBuf),
}

/// Processes, and what is asked of them. Each capture is of one of them, in turn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Watch {
    /// The service that they are.
    #[serde(rename = "name")]
    pub service: Spanned<String>,
    /// Which release of it runs.
    pub release: Option<Spanned<String>>,
    /// Which processes they are.
    pub choose: Choice,
    /// In which functions they run.
    pub profile: Option<Profile>,
    /// Which lines hold more and more.
    pub mem: Option<Mem>,
    /// What they call.
    pub calls: Option<Calls>,
    /// Who holds their memory.
    pub heap: Option<Heap>,
}

/// How often `lancet profile` is run, and for how long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Profile {
    #[serde(deserialize_with = "length")]
    pub every: Duration,
    #[serde(rename = "for", deserialize_with = "length")]
    pub lasts: Duration,
    /// Between two looks.
    #[serde(deserialize_with = "interval")]
    pub look_every: Duration,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            every: Duration::from_secs(600),
            lasts: Duration::from_secs(10),
            look_every: Duration::from_millis(100),
        }
    }
}

/// The same of `lancet mem`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mem {
    #[serde(deserialize_with = "length")]
    pub every: Duration,
    #[serde(rename = "for", deserialize_with = "length")]
    pub lasts: Duration,
}

impl Default for Mem {
    fn default() -> Self {
        Mem {
            every: Duration::from_secs(6 * 3600),
            lasts: Duration::from_secs(60),
        }
    }
}

/// The same of `lancet calls -c`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Whose functions are counted.
    #[serde(deserialize_with = "presets")]
    pub presets: Vec<String>,
    #[serde(default = "an_hour", deserialize_with = "length")]
    pub every: Duration,
    #[serde(rename = "for", default = "ten_seconds", deserialize_with = "length")]
    pub lasts: Duration,
}

/// When `lancet heap` is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heap {
    /// What is waited for.
    #[serde(deserialize_with = "condition")]
    pub when: When,
    /// Of each process at most once in this time.
    #[serde(default = "a_day", deserialize_with = "length")]
    pub every: Duration,
    /// The memory that it may have.
    #[serde(default = "half_a_gigabyte", deserialize_with = "memory")]
    pub memory: u64,
}

/// How often `lancet tune` is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tune {
    #[serde(deserialize_with = "length")]
    pub every: Duration,
}

impl Default for Tune {
    fn default() -> Self {
        Tune { every: a_day() }
    }
}

/// Reads it.
///
/// # Errors
/// What is wrong with it, and where, as one line.
pub fn read(path: &Path) -> anyhow::Result<Config> {
    let text = written::text(path, "configuration")?;
    parsed(&text).map_err(|flaw| {
        let line = flaw.line.map_or(String::new(), |line| format!("{line}:"));
        Usage(format!("{}:{line} {}", path.display(), flaw.what)).into()
    })
}

fn parsed(text: &str) -> Result<Config, Flaw> {
    let config: Config = written::parsed(text)?;
    if !config.folder.is_absolute() {
        let what = "`folder` begins with /: a service has no folder that it works in".into();
        return Err(Flaw { line: None, what });
    }
    let mut services = BTreeSet::new();
    for watch in &config.watch {
        let at = watch.service.span().start;
        let wrong = |what: &str| Err(Flaw::at(text, at, what.to_owned()));
        if !services.insert(watch.service()) {
            return wrong("another [[watch]] has this name: give each its own");
        }
        if watch.choose.is_empty() {
            return wrong(
                "`choose` would be every process: say program, command, user, cgroup, unit, pod or port",
            );
        }
        for (key, name) in [
            ("name", Some(&watch.service)),
            ("release", watch.release.as_ref()),
        ] {
            if let Some(name) = name.filter(|name| !is_plain(name.get_ref())) {
                let what = format!("`{key}` has 1 to 100 letters, digits, and . _ - +");
                return Err(Flaw::at(text, name.span().start, what));
            }
        }
        let Watch {
            profile,
            mem,
            calls,
            heap,
            ..
        } = watch;
        if profile.is_none() && mem.is_none() && calls.is_none() && heap.is_none() {
            return wrong(
                "nothing is asked of it: add [watch.profile], [watch.mem], [watch.calls] or [watch.heap]",
            );
        }
    }
    if config.watch.is_empty() && config.tune.is_none() {
        let what = "it asks for nothing: add a [[watch]] or [tune]".into();
        return Err(Flaw { line: None, what });
    }
    Ok(config)
}

impl Watch {
    /// The service that its processes are.
    pub fn service(&self) -> &str {
        self.service.get_ref()
    }

    /// Which release of it runs; empty: nothing is said.
    pub fn release(&self) -> &str {
        self.release
            .as_ref()
            .map_or("", |release| release.get_ref())
    }
}

/// Whether a name can be part of a file's.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    (1..=100).contains(&name.len()) && name.chars().all(is_plain)
}

fn half_a_percent() -> f64 {
    0.005
}

fn fifty_megabytes() -> u64 {
    50 << 20
}

fn half_a_gigabyte() -> u64 {
    512 << 20
}

fn a_gigabyte() -> u64 {
    1 << 30
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

fn an_hour() -> Duration {
    Duration::from_secs(3600)
}

fn a_day() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn a_week() -> Duration {
    7 * a_day()
}

/// Reads a text, and what it says.
fn said<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

fn length<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    said(from, |text| match duration::parse(text) {
        Ok(length) if length < Duration::from_secs(1) => Err("at least 1s".to_owned()),
        length => length,
    })
}

fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    said(from, duration::parse_interval_of_stacks)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    said(from, size::parse)
}

fn condition<'de, D: Deserializer<'de>>(from: D) -> Result<When, D::Error> {
    said(from, |text| match when::parse(text) {
        Ok(When::Growth(_, unit)) if unit.length() < LEAST_GROWTH => {
            Err("the agent looks less often than that: write growth as rss+100M/min or /h".into())
        }
        condition => condition,
    })
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    said(from, |text| match size::parse(text) {
        Ok(bytes) if bytes < LEAST_MEMORY => {
            Err("at least 32M: with less no capture comes to its end".to_owned())
        }
        bytes => bytes,
    })
}

fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Place>, D::Error> {
    said(from, place_of).map(Some)
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    said(from, |text| {
        let number = text
            .strip_suffix('%')
            .and_then(|text| text.trim().parse().ok());
        let number = number.filter(|number: &f64| (0.01..=100.0).contains(number));
        let share = number.map(|number| number / 100.0);
        share.ok_or("a share of one processor is written 0.5%, and is 0.01% to 100%")
    })
}

fn presets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    if names.is_empty() {
        return Err(D::Error::custom("name at least one preset"));
    }
    for name in &names {
        Preset::load(name).map_err(D::Error::custom)?;
    }
    Ok(names)
}

fn place_of(text: &str) -> Result<Place, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.starts_with('/') {
            true => Ok(Place::Socket(path.into())),
            false => Err("a socket's path begins with /: unix:/run/lancet/health".into()),
        };
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(Place::Port(address)),
        Ok(_) => Err("health is told on this machine alone: 127.0.0.1:9464, or unix:/PATH".into()),
        Err(_) => Err(format!(
            "`{text}` is no address: 127.0.0.1:9464, or unix:/PATH"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        "folder = '/f'\n[[watch]]\nname = 'shop'\nchoose = { program = 'puma' }\n[watch.profile]\n";

    #[test]
    fn what_is_not_said_has_a_default() {
        let config = parsed(WHOLE).expect("a configuration");
        assert_eq!((config.cpu, config.memory), (0.005, 50 << 20));
        let watch = &config.watch[0];
        assert_eq!((watch.service(), watch.release()), ("shop", ""));
        let profile = watch.profile.as_ref().expect("it is asked for");
        assert_eq!(profile.every, Duration::from_secs(600));
        assert!(watch.mem.is_none() && config.health.is_none() && config.tune.is_none());
        let tune = parsed("folder = '/f'\n[tune]").expect("a configuration");
        assert_eq!(tune.tune.map(|tune| tune.every), Some(a_day()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (more, line, what) in [
            ("evry = '1m'", 6, "`every` was meant?"),
            ("every = '10'", 6, "`10` has no unit"),
            ("every = '10ms'", 6, "at least 1s"),
            ("look-every = '1us'", 6, "at least 1ms"),
            ("[watch.heap]\nwhen = 'rss'", 7, "`rss` is no condition"),
            ("[watch.heap]\nwhen = 'rss+9M/s'", 7, "rss+100M/min"),
            (
                "[watch.heap]\nwhen = 'rss>2G'\nmemory = '9M'",
                8,
                "at least 32M",
            ),
            (
                "[watch.calls]\npresets = ['sq']",
                7,
                "there is no preset sq",
            ),
            ("[watch.calls]\npresets = []", 7, "at least one"),
            (
                "[[watch]]\nname = 'shop'\nchoose = { port = 80 }\n[watch.mem]",
                7,
                "another [[watch]]",
            ),
            (
                "[[watch]]\nname = 'a'\nchoose = { port = 80 }",
                7,
                "nothing is asked",
            ),
            (
                "[[watch]]\nname = 'a'\nchoose = {}\n[watch.mem]",
                7,
                "every process",
            ),
            (
                "[[watch]]\nname = 'a/b'\nchoose = { port = 80 }\n[watch.mem]",
                7,
                "`name` has",
            ),
            (
                "[[watch]]\nname = 'a'\nchoose = { prot = 80 }\n[watch.mem]",
                8,
                "`port` was meant?",
            ),
            (
                "[[watch]]\nname = 'a'\nchoose = { port = 80, command = '' }\n[watch.mem]",
                8,
                "`` would choose every process",
            ),
            (
                "[[watch]]\nname = 'a'\n[watch.mem]\n[watch.choose]\ncgroup = '/'",
                10,
                "`/` would choose every process",
            ),
        ] {
            let flaw = parsed(&format!("{WHOLE}{more}\n")).expect_err(more);
            assert_eq!(flaw.line, Some(line), "{more}: {flaw}");
            assert!(
                flaw.what.contains(what) && !flaw.what.contains('\n'),
                "{more}: {flaw}"
            );
        }
        for (text, what) in [
            ("folder = '/f'", "asks for nothing"),
            ("folder = 'f'\n[tune]", "begins with /"),
            ("cpu = '5'\nfolder = '/f'\n[tune]", "written 0.5%"),
            (
                "health = '0.0.0.0:1'\nfolder = '/f'\n[tune]",
                "this machine alone",
            ),
            ("health = 'unix:x'\nfolder = '/f'\n[tune]", "begins with /"),
            ("[tune]", "missing field `folder`"),
        ] {
            let flaw = parsed(text).expect_err(text);
            assert!(flaw.what.contains(what), "{text}: {flaw}");
        }
    }
}
