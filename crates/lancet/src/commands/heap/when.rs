//! `--when`: waits until a process has so much in memory, or grows so fast. Used by `args`, `run`, `live` and
//! `commands::agent::triggers`.
//!
//! `/proc/PID/statm` is read four times a second, which costs some 20 µs each; the process is not touched. Its end is seen by a pidfd.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::bail;
use process::Error;
use process::pidfd::PidFd;
use process::rss::resident_now;
use report::figures::size;

use crate::cli::size::parse as parse_size;
use crate::ui::advice::explain;
use crate::ui::interrupt;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// More than so many bytes in memory.
    Above(u64),
    /// So many bytes more in memory than at some time within the last second, minute or hour.
    Growth(u64, Unit),
}

/// A unit of time, in which growth is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    name: &'static str,
    length: Duration,
}

impl Unit {
    /// How long it is.
    pub fn length(&self) -> Duration {
        self.length
    }
}

const UNITS: [(&[&str], Unit); 3] = [
    (
        &["s", "sec"],
        Unit {
            name: "second",
            length: Duration::from_secs(1),
        },
    ),
    (
        &["min", "m"],
        Unit {
            name: "minute",
            length: Duration::from_secs(60),
        },
    ),
    (
        &["h", "hour"],
        Unit {
            name: "hour",
            length: Duration::from_secs(3600),
        },
    ),
];

/// Reads `rss>2G` or `rss+100M/min`.
pub fn parse(text: &str) -> Result<When, String> {
    let wrong = || format!("`{text}` is no condition: write rss>2G, or rss+100M/min for growth");
    let rest = text
        .trim()
        .strip_prefix("rss")
        .ok_or_else(wrong)?
        .trim_start();
    if let Some(bytes) = rest.strip_prefix('>') {
        return Ok(When::Above(parse_size(bytes)?));
    }
    let (bytes, unit) = rest
        .strip_prefix('+')
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(wrong)?;
    let found = UNITS.iter().find(|(names, _)| names.contains(&unit.trim()));
    let (_, unit) =
        found.ok_or_else(|| format!("`{unit}` is no unit of time: write /s, /min or /h"))?;
    Ok(When::Growth(parse_size(bytes)?, *unit))
}

impl std::fmt::Display for When {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            When::Above(bytes) => write!(f, "has more than {} in memory", size(*bytes)),
            When::Growth(bytes, unit) => {
                write!(f, "grows by {} within a {}", size(*bytes), unit.name)
            }
        }
    }
}

/// What a process had in memory so far.
#[derive(Debug)]
pub struct Watch {
    when: When,
    /// With the times of the looks, no older than the unit.
    looks: VecDeque<(Instant, u64)>,
    most: u64,
}

impl Watch {
    /// Nothing was seen yet.
    pub fn new(when: When) -> Self {
        Watch {
            when,
            looks: VecDeque::new(),
            most: 0,
        }
    }

    /// Takes a look; whether it is what is waited for.
    pub fn is_met(&mut self, now: Instant, bytes: u64) -> bool {
        self.most = self.most.max(bytes);
        match self.when {
            When::Above(limit) => bytes > limit,
            When::Growth(growth, unit) => {
                let is_old = |(at, _): &(Instant, u64)| now.duration_since(*at) > unit.length;
                while self.looks.front().is_some_and(is_old) {
                    self.looks.pop_front();
                }
                // Growth is never measured from a look that had more in memory than this one.
                while self
                    .looks
                    .back()
                    .is_some_and(|(_, earlier)| *earlier >= bytes)
                {
                    self.looks.pop_back();
                }
                self.looks.push_back((now, bytes));
                let least = self.looks.front().map_or(bytes, |(_, bytes)| *bytes);
                bytes - least >= growth
            }
        }
    }
}

/// Waits, at most so long.
///
/// # Errors
/// The process ends first, the time is over, or Ctrl-C.
pub fn wait(pid: i32, when: When, limit: Option<Duration>) -> anyhow::Result<()> {
    let end = PidFd::open(pid).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH) => explain(Error::NoSuchProcess(pid)),
        _ => explain(Error::system(format!("pidfd_open({pid})"), error)),
    })?;
    interrupt::catch();
    let began = Instant::now();
    let mut watch = Watch::new(when);
    let Some(bytes) = resident_now(pid) else {
        return Err(explain(Error::NoSuchProcess(pid)));
    };
    tell!(
        "waiting until process {pid} {when}; it has {} now",
        size(bytes)
    );
    loop {
        let now = Instant::now();
        if let Some(bytes) = resident_now(pid)
            && watch.is_met(now, bytes)
        {
            tell!("process {pid} has {} in memory", size(bytes));
            return Ok(());
        }
        let most = size(watch.most);
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            let seconds = began.elapsed().as_secs_f64();
            bail!(
                "the time of --for is over: in {seconds:.1} s process {pid} had {most} in memory at most"
            );
        }
        if end.has_ended(left.unwrap_or(LOOK).min(LOOK)) {
            bail!("process {pid} has ended before: it had {most} in memory at most");
        }
        if interrupt::asked() {
            bail!("stopped before: process {pid} had {most} in memory at most");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!(parse("rss>2G"), Ok(When::Above(2 << 30)));
        assert_eq!(parse("rss > 1.5 GiB"), Ok(When::Above(3 << 29)));
        assert_eq!(
            parse("rss+100M/min"),
            Ok(When::Growth(100 << 20, UNITS[1].1))
        );
        for wrong in [
            "rss",
            "rss>",
            "rss>2",
            "rss>-1G",
            "rss>1Z",
            "pss>2G",
            "rss+1M",
            "rss+1M/day",
            "rss>9999999T",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn growth_is_from_the_least_within_the_unit() {
        let began = Instant::now();
        let met = |looks: &[(u64, u64)]| {
            let mut watch = Watch::new(When::Growth(100, UNITS[1].1));
            let mut looks = looks.iter();
            looks.position(|(second, bytes)| {
                watch.is_met(began + Duration::from_secs(*second), *bytes)
            })
        };
        assert_eq!(met(&[(0, 50), (10, 149), (20, 150)]), Some(2));
        assert_eq!(
            met(&[(0, 50), (50, 100), (70, 150), (80, 190), (90, 200)]),
            Some(4)
        );
        assert_eq!(
            met(&[(0, 500), (10, 50), (20, 140), (65, 149), (71, 150)]),
            None
        );
    }
}
