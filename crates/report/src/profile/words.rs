//! Words that several formats of a profile share. Used by `table`, `tree`, `difference` and others.

use frames::profile::{Frame, Function, Mode, Profile};
use vm::library::within;

use super::format::Head;
use crate::figures::{grouped, plural};
use crate::text::printable;

/// `Cart#total (cart.rb:31)`, `memcpy (libc.so.6)`; without the place where there is none.
pub fn called(function: &Function, line: Option<u32>) -> String {
    let name = printable(&function.name);
    let file = printable(within(&function.file));
    match (file.is_empty(), line) {
        (true, _) => name.into_owned(),
        (false, Some(line)) if line != 0 => format!("{name} ({file}:{line})"),
        (false, _) => format!("{name} ({file})"),
    }
}

/// The same of a frame, at the line that it was at.
pub fn at(frame: &Frame) -> String {
    called(&frame.function, Some(frame.line))
}

/// A function with a smaller share of all, in percent, is no verdict.
pub(super) const TENTH: f64 = 10.0;

/// What all samples together are.
pub(super) fn all(mode: Mode) -> &'static str {
    match mode {
        Mode::Cpu => "the time in which threads ran",
        Mode::Wall => "the time of threads at work",
        Mode::Wait => "the time in which threads waited",
    }
}

/// Returns a profile with these samples; see [`Profile::shown`].
#[must_use]
pub fn shown(profile: Profile, mode: Mode) -> Profile {
    profile.shown(mode, &at)
}

/// Returns a share of the samples in percent.
pub fn share(count: u64, profile: &Profile) -> f64 {
    100.0 * count as f64 / profile.samples.max(1) as f64
}

/// What was looked at, in a line.
pub(super) fn summary(profile: &Profile, head: &Head) -> String {
    let cut = match profile.cut {
        0 => String::new(),
        cut => format!(
            "; of {} {} only the innermost function is known, because there were too many different stacks",
            grouped(cut),
            plural(cut, "sample", "samples")
        ),
    };
    let unsure = match profile.unsure {
        0 => String::new(),
        unsure => format!(
            "; of {} {} it is not known whether the thread was on a processor or waited for one",
            grouped(unsure),
            plural(unsure, "sample", "samples")
        ),
    };
    format!(
        "{}: {}{unsure}{cut}",
        printable(head.title),
        threads(profile)
    )
}

/// What threads did: `1.0 threads ran, 0.0 waited for a processor and 4.0 slept, on average`.
pub fn threads(profile: &Profile) -> String {
    let looks = profile.rounds.max(1) as f64;
    let counts = [profile.ran, profile.queued, profile.slept];
    let [ran, queued, slept] = counts.map(|count| count as f64 / looks);
    format!(
        "{ran:.1} threads ran, {queued:.1} waited for a processor and {slept:.1} slept, on average"
    )
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use frames::profile::Kind;
    use frames::profile::saved::About;
    use frames::profile::waits::{Lock, Wait};

    use super::*;
    use crate::forms::stacks::FORMS;
    use crate::profile::format::Format;

    pub fn frame(name: &str, line: u32) -> Frame {
        Frame {
            function: Function {
                name: name.to_owned(),
                file: "/srv/app/cart.rb".to_owned(),
                kind: Kind::Script,
            },
            line,
            library: false,
        }
    }

    /// Ten looks at two threads, of which one sleeps: `total` has a cheap and a dear caller, and a native function below it.
    pub fn profile() -> Profile {
        let mut profile = Profile::default();
        (profile.rounds, profile.slept) = (10, 10);
        let mut pack = frame("rb_pack", 0);
        pack.function.file = "libruby-3.1.so.3.1".to_owned();
        pack.function.kind = Kind::Native;
        pack.library = true;
        for (caller, line, native, count) in [
            ("show", 12, true, 4),
            ("show", 12, false, 2),
            ("list", 20, false, 3),
        ] {
            for _ in 0..count {
                let mut stack = vec![frame("<main>", 1), frame(caller, line), frame("total", 31)];
                stack.extend(native.then(|| pack.clone()));
                profile.add(stack);
            }
        }
        profile.add(vec![frame("<main>", 2)]);
        profile
    }

    /// The same with a thread that waits for a lock at each look, mostly of the same holder, and one of a pool.
    pub fn waiting() -> Profile {
        let mut profile = profile();
        let lock = |number: u32| Wait {
            doing: "waits for a mutex".to_owned(),
            on: format!(" that thread {number} holds"),
            lock: Some(Lock {
                pid: 42,
                name: "mutex 0x70".to_owned(),
            }),
            holder: Some(frame("audit", 31)),
            is_idle: false,
        };
        let pool = Wait {
            doing: "asleep in Queue#pop".to_owned(),
            is_idle: true,
            ..Wait::default()
        };
        for number in 0..10 {
            let line = if number < 6 { 20 } else { 21 };
            let stack = vec![frame("<main>", 1), frame("pay", line)];
            profile.waits.add(7, stack, lock(number / 8));
            profile.waits.add(8, vec![frame("work", 3)], pool.clone());
        }
        profile
    }

    pub fn written(format: &Format, profile: &Profile) -> String {
        let about = about();
        let mut out = Vec::new();
        format.write(profile, &mut out, &head(&about)).unwrap();
        String::from_utf8(out).unwrap()
    }

    pub fn about() -> About {
        About {
            who: "process 4242".to_owned(),
            processes: Vec::new(),
            looks: "10 looks in 0.1 s".to_owned(),
            cost: "stood still for 1 ms in all".to_owned(),
            missed: Vec::new(),
            began: 0,
            took: Duration::from_millis(100),
        }
    }

    /// What stands above the profile of a test, whose stacks are folded.
    pub fn head(about: &About) -> Head<'_> {
        Head {
            about,
            title: &about.looks,
            rows: 20,
            by_total: false,
            function: None,
            stacks: FORMS[0],
        }
    }
}
