//! Profiles of stacks that are written down here.

use super::frame::{DEEPEST, MOST_BYTES, MOST_KINDS, OTHERS};
use super::*;
use std::time::{Duration, Instant};

fn frame(name: &str, line: u32) -> Frame {
    Frame {
        function: Function {
            name: name.to_owned(),
            file: "app.rb".to_owned(),
            kind: Kind::Script,
        },
        line,
        library: false,
    }
}

/// A function that has a cheap and a dear caller.
fn profile() -> Profile {
    let mut profile = Profile::default();
    for (frames, count) in [
        (vec![("main", 1), ("dear", 5), ("work", 9)], 60),
        (vec![("main", 1), ("cheap", 7), ("work", 9)], 20),
        (vec![("main", 1), ("cheap", 7), ("work", 10)], 10),
        (vec![("main", 1), ("again", 3), ("again", 3)], 10),
    ] {
        for _ in 0..count {
            let stack = frames.iter().map(|(name, line)| frame(name, *line));
            profile.add(stack.collect());
        }
    }
    profile
}

/// The frame that called a function most often, and in how many samples.
fn caller<'a>(row: &Row<'a>) -> Option<(&'a Frame, u64)> {
    most(row.callers.iter().map(|(frame, count)| (*frame, *count)))
}

#[test]
fn own_and_total_samples_and_the_dear_caller() {
    let profile = profile();
    let rows = profile.functions();
    let row = |name: &str| rows.iter().find(|row| row.function.name == name).unwrap();
    let work = row("work");
    assert_eq!(rows[0], *work);
    assert_eq!((work.own, work.total, work.line()), (90, 90, Some(9)));
    assert_eq!(caller(work), Some((&frame("dear", 5), 60)));
    assert_eq!((row("main").own, row("main").total), (0, 100));
    assert_eq!(caller(row("main")), None);
    // A recursion counts once in a sample.
    let again = row("again");
    assert_eq!((again.own, again.total), (10, 10));
    assert_eq!(caller(again), Some((&frame("main", 1), 10)));
}

#[test]
fn callers_and_callees_of_one_function() {
    let profile = profile();
    let of = |name: &str| profile.around(&frame(name, 0).function);
    let callees = |name: &str| -> Vec<(String, u64)> {
        let callees = of(name).callees.into_iter();
        callees
            .map(|(function, count)| (function.name.clone(), count))
            .collect()
    };
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(
        callees("main"),
        [named("again", 10), named("cheap", 30), named("dear", 60)]
    );
    assert_eq!(
        (callees("again"), of("again").own, of("again").total),
        (vec![], 10, 10)
    );
    let callers: Vec<_> = of("work").callers.into_iter().collect();
    assert_eq!(callers, [(&frame("cheap", 7), 30), (&frame("dear", 5), 60)]);
}

/// Threads that wait are samples where all time is shown, and those without work are not.
#[test]
fn waits_are_samples_of_the_wall() {
    let wait = |is_idle| waits::Wait {
        doing: "asleep in sleep".to_owned(),
        is_idle,
        ..waits::Wait::default()
    };
    let mut profile = profile();
    for _ in 0..50 {
        profile
            .waits
            .add(7, vec![frame("main", 1), frame("nap", 2)], wait(false));
        profile.waits.add(8, vec![frame("pool", 1)], wait(true));
    }
    let name = |frame: &Frame| frame.function.name.clone();
    let samples = |mode| profile.clone().shown(mode, &name).samples;
    assert_eq!(
        [Mode::Cpu, Mode::Wall, Mode::Wait].map(samples),
        [100, 150, 50]
    );
    let wall = profile.clone().shown(Mode::Wall, &name);
    let rows = wall.functions();
    let of = |name: &str| {
        rows.iter()
            .find(|row| row.function.name == name)
            .map(|row| (row.own, row.total))
    };
    assert_eq!(
        (of("asleep in sleep"), of("nap"), of("pool")),
        (Some((50, 50)), Some((0, 50)), None)
    );
    assert_eq!(
        wall.grouped(By::File).functions()[0].function.name,
        "app.rb"
    );
    let mut twice = profile.clone();
    twice.add_all(&profile);
    assert_eq!((twice.samples, twice.waits.counts()), (200, (100, 100)));
    let rows = twice.waits.rows();
    assert_eq!(
        rows.iter()
            .map(|row| (row.count, row.is_idle))
            .collect::<Vec<_>>(),
        [(100, false), (100, true)]
    );
}

/// What is shown by thread can be shown with other samples as well, as the page does.
#[test]
fn threads_stay_threads_with_their_waits() {
    let mut profile = profile();
    for (name, did, times) in [
        ("web", Did::Ran, 70),
        ("job", Did::Ran, 30),
        ("job", Did::Waited, 50),
    ] {
        profile.threads.add(name, did, times);
    }
    let name = |frame: &Frame| frame.function.name.clone();
    let own = |profile: &Profile| -> Vec<(String, u64)> {
        let rows = profile.functions();
        let row = |row: &Row| (row.function.name.clone(), row.own);
        rows.iter().map(row).collect()
    };
    let named = |name: &str, count| (name.to_owned(), count);
    let threads = profile.clone().grouped(By::Thread);
    assert_eq!(own(&threads), [named("web", 70), named("job", 30)]);
    let wall = threads.clone().shown(Mode::Wall, &name);
    assert_eq!(own(&wall), [named("job", 80), named("web", 70)]);
    assert_eq!((wall.samples, wall.by()), (150, By::Thread));
    assert_eq!(
        own(&threads.shown(Mode::Wait, &name)),
        own(&profile.shown(Mode::Wait, &name).grouped(By::Thread))
    );
}

/// What threads of a process waited for is not kept when it has ended.
#[test]
fn processes_that_are_gone_are_forgotten() {
    let mut waits = waits::Waits::default();
    let wait = || waits::Wait {
        doing: "asleep in sleep".to_owned(),
        ..waits::Wait::default()
    };
    for pid in [1, 2] {
        waits.begin(pid);
        waits.add(pid, vec![frame("nap", 2)], wait());
        waits.end(pid);
    }
    for _ in 0..2 * waits::FORGOTTEN {
        waits.begin(1);
        assert_eq!(waits.add_again(1), Some(true));
        waits.end(1);
    }
    assert_eq!(waits.last.keys().collect::<Vec<_>>(), [&1]);
}

/// What one lock is to several lines is one cause, also at looks at which it was not seen who had it.
#[test]
fn a_lock_is_one_cause() {
    let wait = |lock: Option<&str>| waits::Wait {
        doing: "waits for a mutex".to_owned(),
        lock: lock.map(|name| waits::Lock {
            pid: 1,
            name: name.to_owned(),
        }),
        holder: lock.map(|_| frame("hold", 9)),
        ..waits::Wait::default()
    };
    let mut waits = waits::Waits::default();
    for (line, lock) in [
        (1, Some("m")),
        (1, None),
        (2, Some("m")),
        (3, None),
        (4, Some("n")),
    ] {
        waits.add(7, vec![frame("pay", line)], wait(lock));
    }
    let causes = waits.causes();
    let told: Vec<_> = causes
        .iter()
        .map(|one| (one.lock.map(|lock| &*lock.name), one.count, one.at.len()))
        .collect();
    assert_eq!(told, [(Some("m"), 3, 2), (Some("n"), 1, 1), (None, 1, 1)]);
    assert!(causes[0].on.is_empty());
    assert_eq!(causes[0].holders, BTreeMap::from([(&frame("hold", 9), 2)]));
}

/// By file and by package: what one of them calls of itself is one frame, and no sample is lost or counted twice.
#[test]
fn functions_are_grouped_by_file_and_by_package() {
    let of_file = |file: &str, native: bool| {
        let mut frame = frame("work", 3);
        frame.function.file = file.to_owned();
        frame.library = native;
        if native {
            frame.function.kind = Kind::Native;
        }
        frame
    };
    let rack = "/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb";
    let mut profile = Profile {
        rounds: 9,
        slept: 4,
        ..Profile::default()
    };
    for (file, native, count) in [
        (rack, false, 5),
        ("/srv/app/cart.rb", false, 3),
        ("libc.so.6", true, 2),
        ("", true, 1),
    ] {
        for _ in 0..count {
            let stack = vec![frame("main", 1), frame("again", 2), of_file(file, native)];
            profile.add(stack);
        }
    }
    let rows = |by: By| {
        let grouped = profile.clone().grouped(by);
        assert_eq!((grouped.counts(), grouped.by()), (profile.counts(), by));
        let rows = grouped.functions();
        let of = |row: &Row| (row.function.name.clone(), row.own, row.total);
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let row = |name: &str, own, total| (name.to_owned(), own, total);
    assert_eq!(
        rows(By::File),
        [
            row("rack-2.2.4/lib/rack.rb", 5, 5),
            row("/srv/app/cart.rb", 3, 3),
            row("libc.so.6", 2, 2),
            row(grouped::NO_FILE, 1, 1),
            row("app.rb", 0, 11),
        ]
    );
    assert_eq!(
        rows(By::Package),
        [
            row("rack-2.2.4", 5, 5),
            row("app", 3, 11),
            row("libc.so.6", 2, 2),
            row(grouped::NO_FILE, 1, 1),
        ]
    );
    assert_eq!(rows(By::Function).len(), 6);
}

#[test]
fn the_hottest_function_is_the_programs_own() {
    let hottest = profile().hottest().unwrap();
    assert_eq!((hottest.frame, hottest.samples), (frame("work", 9), 90));
    assert_eq!(hottest.caller, Some((frame("dear", 5), 60)));
    assert_eq!(hottest.inner, None);
    // In what a library does for it.
    let mut profile = Profile::default();
    let mut gem = frame("parse", 300);
    gem.library = true;
    profile.add(vec![frame("main", 1), frame("load", 4), gem.clone()]);
    let hottest = profile.hottest().unwrap();
    assert_eq!(hottest.frame, frame("load", 4));
    assert_eq!(hottest.inner, Some((gem.function, 1)));
    assert_eq!(Profile::default().hottest(), None);
}

#[test]
fn there_is_a_bound_for_stacks_frames_and_names() {
    let mut profile = Profile::default();
    profile.add((0..5_000).map(|line| frame("deep", line)).collect());
    assert_eq!(profile.stacks()[0].0.len(), DEEPEST);
    // Too many different stacks of known frames.
    for line in 0..4_000 {
        let outer = (0..499).map(|at| frame("outer", line + at));
        profile.add(outer.chain([frame("work", 1)]).collect());
    }
    assert!(
        profile.frames <= MOST_FRAMES + MOST_KINDS,
        "{}",
        profile.frames
    );
    assert!(profile.cut > 1_000, "{}", profile.cut);
    let rows = profile.functions();
    assert_eq!((&*rows[0].function.name, rows[0].own), ("work", 4_000));
    // Too many different names, by their number and by their length.
    for at in 0..MOST_KINDS as u32 + 10 {
        profile.add(vec![frame("line", at)]);
    }
    assert!(profile.known.frames.len() <= MOST_KINDS + 1);
    let least = profile.frames * 4 + MOST_KINDS * 2 * size_of::<Frame>();
    assert!(profile.memory() > least && Profile::default().memory() == 0);
    let mut long = Profile::default();
    for at in 0..20_000 {
        long.add(vec![frame(&format!("{at}{}", "x".repeat(4_000)), 1)]);
    }
    assert!(long.known.bytes <= MOST_BYTES && long.known.frames.len() < 10_000);
    let others = long.functions();
    assert_eq!(others[0].function.name, OTHERS);
    assert_eq!(others.iter().map(|row| row.own).sum::<u64>(), 20_000);
}

/// A thread that sleeps in `nap` and in `rest` in turn and is awake in between, by the times at which each begins and ends.
struct Schedule(Vec<(&'static str, f64, f64)>);

impl Schedule {
    /// So many sleeps of each, which are `lengths` long on average.
    fn new(random: &mut impl FnMut() -> f64, lengths: [f64; 2], awake: f64, rounds: usize) -> Self {
        let (mut now, mut sleeps) = (0.0, Vec::new());
        for _ in 0..rounds {
            for (name, length) in ["nap", "rest"].into_iter().zip(lengths) {
                let (begins, length) = (now + awake * (0.5 + random()), length * (0.5 + random()));
                now = begins + length;
                sleeps.push((name, begins, now));
            }
        }
        Schedule(sleeps)
    }

    /// Which of its sleeps it is in at a time, by number.
    fn at(&self, time: f64) -> Option<usize> {
        let begun = self.0.partition_point(|(_, begins, _)| *begins <= time);
        let last = begun.checked_sub(1)?;
        (time < self.0[last].2).then_some(last)
    }
}

/// Looks as `live::running` does, at random times, which take `reading` to read a thread. Those that fall asleep meanwhile are read at one
/// moment here; where that takes a time, too, sleeps shorter than both times together are counted too seldom (docs/profile.md). Returns what was counted of each sleep, and of those
/// alone that did not end while they were read.
fn looked_at(
    schedule: &Schedule,
    random: &mut impl FnMut() -> f64,
    every: f64,
    reading: f64,
) -> [[u64; 2]; 2] {
    let mut waits = waits::Waits::default();
    let wait = |name: &str| waits::Wait {
        doing: name.to_owned(),
        ..waits::Wait::default()
    };
    let end = schedule.0.last().map_or(0.0, |(_, _, ends)| *ends);
    let (mut now, mut known, mut plain) = (0.0, None, [0; 2]);
    let which = |sleep: usize| usize::from(schedule.0[sleep].0 == "rest");
    let frames = |sleep: usize| vec![frame(schedule.0[sleep].0, 1)];
    let origin = Instant::now();
    let seen = |sleep: usize| waits::Sleep {
        tid: 1,
        began: Some(origin + Duration::from_secs_f64(schedule.0[sleep].1)),
        frames: frames(sleep),
        wait: wait(schedule.0[sleep].0),
    };
    let note = |waits: &mut waits::Waits, sleep: Option<usize>| {
        if let Some(sleep) = sleep {
            waits.add_late("main".to_owned(), seen(sleep));
        }
    };
    while now < end {
        now += every * (0.5 + random());
        let read = now + reading * (0.5 + random());
        waits.begin(1);
        let asleep = schedule.at(now);
        if known.is_some() && known == asleep {
            assert_eq!(waits.add_again(1), Some(true));
            plain[which(known.expect("just seen"))] += 1;
            // It may be asleep again by then.
            let later = schedule.at(read);
            if later != known {
                note(&mut waits, later);
                known = later;
            }
        } else if let Some(sleep) = asleep.filter(|sleep| schedule.at(read) == Some(*sleep)) {
            waits.add_sleep(seen(sleep));
            plain[which(sleep)] += 1;
            known = Some(sleep);
        } else {
            known = schedule.at(read);
            note(&mut waits, known);
        }
        waits.end(1);
    }
    let rows = waits.rows();
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.doing == name);
        row.map_or(0, |row| row.count)
    };
    [[of("nap"), of("rest")], plain]
}

/// A sleep that began late in a look, and is read anew in the next one, counts once; one that began after it had ended counts, too.
#[test]
fn a_wait_that_began_late_is_counted_once() {
    let origin = Instant::now();
    let of = |waits: &waits::Waits| waits.rows().iter().map(|row| row.count).sum::<u64>();
    for (milliseconds, expected) in [(Some(0), 1), (Some(5), 2), (None, 1)] {
        let mut waits = waits::Waits::default();
        let sleep = |after: Option<u64>| waits::Sleep {
            tid: 1,
            began: after.map(|after| origin + Duration::from_millis(after)),
            frames: vec![frame("nap", 2)],
            wait: waits::Wait {
                doing: "asleep in sleep".to_owned(),
                ..waits::Wait::default()
            },
        };
        waits.begin(1);
        waits.add_late("main".to_owned(), sleep(Some(0)));
        assert!(waits.end(1).is_empty());
        assert_eq!(of(&waits), 0);
        waits.begin(1);
        assert!(waits.add_sleep(sleep(milliseconds)));
        assert_eq!(waits.end(1).len() as u64, expected - 1);
        assert_eq!(of(&waits), expected);
    }
}

/// The shares of short and of long sleeps are those of the time, however long it takes to read a thread; where those that end meanwhile are
/// left out they are not.
#[test]
fn short_waits_have_the_share_that_they_take() {
    // xorshift64 (Marsaglia, 2003), the same at each run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut furthest = 0.0_f64;
    for (lengths, awake, every, reading) in [
        ([2.0, 30.0], 3.0, 10.0, 1.5),
        ([4.0, 40.0], 5.0, 4.0, 2.5),
        ([1.0, 8.0], 0.5, 10.0, 3.0),
        ([20.0, 30.0], 10.0, 5.0, 1.0),
        ([0.5, 12.0], 2.0, 6.0, 2.0),
    ] {
        let schedule = Schedule::new(&mut random, lengths, awake, 20_000);
        let slept = |which: &str| -> f64 {
            let all = schedule.0.iter().filter(|(name, ..)| *name == which);
            all.map(|(_, begins, ends)| ends - begins).sum()
        };
        let known = slept("nap") / (slept("nap") + slept("rest"));
        let counts = looked_at(&schedule, &mut random, every, reading);
        for (which, count) in ["nap", "rest"].into_iter().zip(counts[0]) {
            let expected = slept(which) / every;
            // Four times the deviation of a count, and a hundredth.
            let off = (count as f64 - expected).abs() - 4.0 * expected.sqrt();
            assert!(
                off < 0.01 * expected,
                "{lengths:?}, {which}: {count} for {expected}"
            );
        }
        let [told, plain] = counts.map(|[nap, rest]| nap as f64 / (nap + rest) as f64);
        assert!(
            (told - known).abs() < 0.01,
            "{lengths:?}: {told} for {known}"
        );
        furthest = furthest.max((plain - known).abs());
    }
    assert!(furthest > 0.03, "nothing was left out: {furthest}");
}
