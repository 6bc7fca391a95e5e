//! The functions in which threads run, for people. Used by `profile`, `html` and `json`.
//!
//! ```text
//! 90 % of the time in which threads ran is at Cart#total (cart.rb:31), called by OrdersController#show (orders.rb:12) in 67 % of it
//!
//! 1,000 looks in 10.0 s: 1.0 threads ran, 0.0 waited for a processor and 4.0 slept, on average
//!
//!     own   total  function
//!   50.0%   90.0%  Cart#total (cart.rb:31)
//!   40.0%   40.0%  rb_pack (libruby-3.1.so.3.1)
//!    0.0%   60.0%  OrdersController#show (orders.rb)
//! ```

use std::cmp::Reverse;
use std::io::{self, Write};

use frames::profile::{Kind, Mode, Profile};

use super::format::{Format, Head};
use super::waits;
use super::words::{TENTH, all, at, called, share, summary};
use crate::Writes;
use crate::figures::{grouped, plural};

/// A verdict and a table of functions.
pub(super) static FORMAT: Format = Format {
    writes: Writes::text(
        "table",
        "The functions in which threads run, with what they call and without",
    ),
    write,
};

/// So many rows of waits are shown where what threads wait for was not asked for.
const FEW: usize = 5;

fn write(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    writeln!(out, "{}\n\n{}", verdict(profile), summary(profile, head))?;
    functions(profile, out, head)?;
    let asked = profile.mode() != Mode::Cpu;
    let few = if asked { head.rows } else { head.rows.min(FEW) };
    waits::write(out, profile, few, asked)
}

fn functions(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    let mut rows = profile.functions();
    if rows.is_empty() {
        return Ok(());
    }
    if head.by_total {
        rows.sort_by_key(|row| Reverse((row.total, row.own)));
    }
    let [one, many] = profile.by().words();
    writeln!(out, "\n{:>7} {:>7}  {one}", "own", "total")?;
    for row in rows.iter().take(head.rows) {
        let [own, total] = [row.own, row.total].map(|count| share(count, profile));
        let name = called(row.function, row.line());
        writeln!(out, "{own:>6.1}% {total:>6.1}%  {name}")?;
    }
    let left = rows.get(head.rows..).unwrap_or_default();
    if !left.is_empty() {
        let own: u64 = left.iter().map(|row| row.own).sum();
        let (own, count) = (share(own, profile), left.len() as u64);
        let more = plural(count, one, many);
        writeln!(
            out,
            "{own:>6.1}%          in {} more {more}",
            grouped(count)
        )?;
    }
    Ok(())
}

/// Where threads ran, and what they waited for, in a sentence.
pub fn verdict(profile: &Profile) -> String {
    let waited = waits::verdict(profile).filter(|_| profile.mode() != Mode::Wait);
    [Some(hottest(profile)), waited]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

fn hottest(profile: &Profile) -> String {
    let Some(hottest) = profile.hottest() else {
        let why = match (profile.mode(), profile.queued) {
            (Mode::Wait, _) => "no thread waited in any look",
            (_, 0) => "no thread ran in any look",
            _ => {
                "no thread was on a processor in any look, and some waited for one: look for longer"
            }
        };
        return why.to_owned();
    };
    let (part, all) = (share(hottest.samples, profile), all(profile.mode()));
    if part < TENTH {
        let [one, _] = profile.by().words();
        return format!("no {one} of the program has a tenth of {all}");
    }
    let within = |count: u64| match count == hottest.samples {
        true => String::new(),
        false => {
            let part = 100.0 * count as f64 / hottest.samples as f64;
            format!(" in {part:.0} % of it")
        }
    };
    let mut text = format!("{part:.0} % of {all} is at {}", at(&hottest.frame));
    let is_worth = |count: u64| count * 3 >= hottest.samples;
    if let Some((inner, count)) = hottest.inner.as_ref().filter(|inner| is_worth(inner.1)) {
        let verb = match inner.kind {
            Kind::Wait => "where a thread",
            Kind::Script | Kind::Native => "within",
        };
        let inner = called(inner, None);
        let inner = match inner.strip_prefix("asleep ") {
            Some(rest) => format!("sleeps {rest}"),
            None => inner,
        };
        text += &format!(", {verb} {inner}{}", within(*count));
    }
    if let Some((caller, count)) = &hottest.caller {
        text += &format!(", called by {}{}", at(caller), within(*count));
    }
    text
}

#[cfg(test)]
mod tests {
    use frames::profile::By;
    use frames::profile::waits::Wait;

    use super::super::words::shown;
    use super::super::words::tests::{about, frame, head, profile, waiting, written};
    use super::*;

    #[test]
    fn the_verdict_comes_first_and_the_dear_caller_is_named() {
        assert_eq!(
            written(&FORMAT, &profile()),
            "90 % of the time in which threads ran is at total (/srv/app/cart.rb:31), called by show (/srv/app/cart.rb:12) in 67 % of it\n\n\
             10 looks in 0.1 s: 1.0 threads ran, 0.0 waited for a processor and 1.0 slept, on average\n\n    \
             own   total  function\n  \
             50.0%   90.0%  total (/srv/app/cart.rb:31)\n  \
             40.0%   40.0%  rb_pack (libruby-3.1.so.3.1)\n  \
             10.0%  100.0%  <main> (/srv/app/cart.rb:2)\n   \
             0.0%   60.0%  show (/srv/app/cart.rb)\n   \
             0.0%   30.0%  list (/srv/app/cart.rb)\n"
        );
    }

    #[test]
    fn files_stand_in_the_place_of_functions() {
        let files = profile().grouped(By::File);
        let about = about();
        let by_total = Head {
            by_total: true,
            ..head(&about)
        };
        let mut out = Vec::new();
        FORMAT.write(&files, &mut out, &by_total).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "100 % of the time in which threads ran is at /srv/app/cart.rb\n\n\
             10 looks in 0.1 s: 1.0 threads ran, 0.0 waited for a processor and 1.0 slept, on average\n\n    \
             own   total  file\n  \
             60.0%  100.0%  /srv/app/cart.rb\n  \
             40.0%   40.0%  libruby-3.1.so.3.1\n"
        );
    }

    #[test]
    fn what_threads_wait_for_is_said_with_its_share() {
        let text = written(&FORMAT, &waiting());
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some(
                "90 % of the time in which threads ran is at total (/srv/app/cart.rb:31), called by show (/srv/app/cart.rb:12) in 67 % of it; \
                 threads waited 50 % of their time for a mutex at pay (/srv/app/cart.rb:20) and 1 other line, held at audit (/srv/app/cart.rb:31)"
            )
        );
        let (_, waits) = text.split_once("\n\n waited  ").unwrap();
        assert_eq!(
            waits,
            "at which line, and what for (100 % is the time of threads at work)\n  \
             30.0%  pay (/srv/app/cart.rb:20): waits for a mutex that thread 0 holds\n  \
             20.0%  pay (/srv/app/cart.rb:21): waits for a mutex that thread 1 holds and 1 other\n\n \
             waited  for one lock, all lines together\n  \
             50.0%  mutex 0x70: at pay (/srv/app/cart.rb:20) and 1 other line, held at audit (/srv/app/cart.rb:31)\n\n\
             without work: 1.0 threads on average, most at work (/srv/app/cart.rb:3): asleep in Queue#pop\n"
        );
    }

    /// Who sleeps or waits for a queue may have nothing else to do.
    #[test]
    fn timers_and_queues_are_no_verdict() {
        let verdict = |doing: &str, on: &str| {
            let mut profile = waiting();
            for _ in 0..30 {
                let wait = Wait {
                    doing: doing.to_owned(),
                    on: on.to_owned(),
                    ..Wait::default()
                };
                profile.waits.add(9, vec![frame("flush", 5)], wait);
            }
            let text = written(&FORMAT, &profile);
            assert!(text.contains(&format!("flush (/srv/app/cart.rb:5): {doing}{on}\n")));
            text.lines().next().unwrap_or_default().to_owned()
        };
        for (doing, on) in [
            ("asleep in Kernel#sleep", " (clock_nanosleep)"),
            ("asleep in Thread::Queue#pop", ""),
            (
                "asleep in IO.select",
                " (poll): pipe, descriptor 3, whose other end this process itself has",
            ),
            (
                "asleep in epoll.poll",
                " (epoll_wait): eventfd, descriptor 3",
            ),
        ] {
            let text = verdict(doing, on);
            assert!(
                text.contains("; threads waited 20 % of their time for a mutex at pay"),
                "{text}"
            );
        }
        let text = verdict("asleep in IO#gets", " (poll): tcp to 10.0.0.7:80");
        assert!(
            text.ends_with(
                "threads were asleep 60 % of their time in IO#gets at flush (/srv/app/cart.rb:5)"
            ),
            "{text}"
        );
    }

    #[test]
    fn of_all_time_what_waits_is_a_function() {
        let wall = written(&FORMAT, &shown(waiting(), Mode::Wall));
        assert!(
            wall.starts_with("50 % of the time of threads at work is at pay (/srv/app/cart.rb:20), where a thread waits for a mutex held at audit (/srv/app/cart.rb:31), called by <main> (/srv/app/cart.rb:1); threads waited 50 %"),
            "{wall}"
        );
        assert!(
            wall.contains(
                "\n  50.0%   50.0%  waits for a mutex held at audit (/srv/app/cart.rb:31)\n"
            ),
            "{wall}"
        );
        let wait = written(&FORMAT, &shown(waiting(), Mode::Wait));
        assert!(
            wait.contains("\n 100.0%  100.0%  waits for a mutex held"),
            "{wait}"
        );
        assert!(!wait.contains("total ("), "{wait}");
    }

    #[test]
    fn nobody_who_ran_is_no_verdict() {
        let mut nobody = Profile::default();
        (nobody.rounds, nobody.slept) = (5, 10);
        assert_eq!(
            written(&FORMAT, &nobody),
            "no thread ran in any look\n\n\
             10 looks in 0.1 s: 0.0 threads ran, 0.0 waited for a processor and 2.0 slept, on average\n"
        );
    }
}
