//! A profile as stacks: the functions of a thread, with how often it was seen there. Used by `profile`.

use std::io;

use answer::place::Place;
use answer::time::nanos;
use frames::profile::{Mode, Profile};

use super::format::{Format, Head};
use super::words::{at, summary};
use crate::Writes;
use crate::forms::stacks::{self, Frame, Kind, SAMPLES, Stack, Stacks, Times, Unit};

/// For all forms that show stacks.
pub(super) static FORMAT: Format = Format {
    writes: Writes::Stacks,
    write: |profile, out, head| head.stacks.write(&Seen { profile, head }, out),
};

/// Of threads that waited the time is known as well: they were seen all the while.
const WALL: &[Kind] = &[SAMPLES[0], of_time("wall")];
const WAIT: &[Kind] = &[SAMPLES[0], of_time("wait")];

const fn of_time(name: &'static str) -> Kind {
    Kind {
        name,
        unit: Unit::Nanoseconds,
    }
}

struct Seen<'a> {
    profile: &'a Profile,
    head: &'a Head<'a>,
}

impl Seen<'_> {
    fn times(&self) -> Times {
        let about = self.head.about;
        let times = Times {
            began: Some(about.began).filter(|at| *at != 0),
            took: Some(about.took),
            period: None,
        };
        times.looked(self.profile.rounds)
    }

    fn kinds(&self) -> &'static [Kind] {
        match self.profile.mode() {
            Mode::Cpu => SAMPLES,
            Mode::Wall => WALL,
            Mode::Wait => WAIT,
        }
    }
}

impl Stacks for Seen<'_> {
    fn about(&self) -> stacks::About<'_> {
        let about = self.head.about;
        let processes = about.processes.iter();
        let mut processes = processes.map(|one| (one.pid.into(), &*one.command));
        stacks::About {
            title: self.head.title.into(),
            comment: Some(summary(self.profile, self.head)),
            process: stacks::Process::only(&mut processes),
            times: self.times(),
            kinds: self.kinds(),
            one: 0,
            first: self.kinds().len() - 1,
            is_ordered: false,
        }
    }

    fn each(&self, take: &mut dyn FnMut(&Stack<'_>) -> io::Result<()>) -> io::Result<()> {
        let period = self.times().period.map_or(0, nanos);
        let kinds = self.kinds().len();
        let stacks = self.profile.stacks();
        stacks.into_iter().try_for_each(|(frames, count)| {
            take(&Stack {
                frames: frames.into_iter().map(frame).collect(),
                weights: [count, count.saturating_mul(period)][..kinds].to_vec(),
                ..Stack::default()
            })
        })
    }
}

fn frame(frame: &frames::profile::Frame) -> Frame<'_> {
    let function = &frame.function;
    Frame {
        text: at(frame).into(),
        place: Place::new(&*function.file, frame.line, &*function.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::shown;
    use super::super::words::tests::{about, head, profile, waiting, written};
    use super::*;

    #[test]
    fn stacks_are_whole() {
        let text = written(&FORMAT, &profile());
        assert!(
            text.contains(
                "<main> (/srv/app/cart.rb:1);list (/srv/app/cart.rb:20);total (/srv/app/cart.rb:31) 3\n"
            ),
            "{text}"
        );
        assert!(text.contains("rb_pack (libruby-3.1.so.3.1) 4\n"), "{text}");
    }

    #[test]
    fn what_is_waited_for_is_the_innermost_frame_and_has_its_time() {
        let (profile, about) = (shown(waiting(), Mode::Wall), about());
        let seen = Seen {
            profile: &profile,
            head: &head(&about),
        };
        let mut waits = Vec::new();
        let taken = seen.each(&mut |stack| {
            let frame = stack.frames.last().unwrap();
            if frame.text.starts_with("waits ") {
                waits.push((frame.text.to_string(), stack.weights.clone()));
            }
            Ok(())
        });
        taken.unwrap();
        let text = "waits for a mutex held at audit (/srv/app/cart.rb:31)".to_owned();
        // Ten looks in 100 ms.
        assert_eq!(
            waits,
            [
                (text.clone(), vec![6, 60_000_000]),
                (text, vec![4, 40_000_000])
            ]
        );
        let kinds: Vec<_> = seen.about().kinds.iter().map(|kind| kind.name).collect();
        assert_eq!((kinds, seen.about().first), (vec!["samples", "wall"], 1));
    }

    #[test]
    fn frames_have_their_functions_and_lines() {
        let mut seen = Vec::new();
        let (profile, about) = (profile(), about());
        let stacks = Seen {
            profile: &profile,
            head: &head(&about),
        };
        let taken = stacks.each(&mut |stack| {
            let places = stack.frames.iter().map(|frame| {
                let place = &frame.place;
                let [name, file] =
                    [&place.function, &place.path].map(|it| it.as_deref().unwrap_or(""));
                format!("{name} {file}:{}", place.line.unwrap_or(0))
            });
            seen.push((places.collect::<Vec<_>>().join(";"), stack.weights.clone()));
            Ok(())
        });
        taken.unwrap();
        let native = seen.iter().find(|(stack, _)| stack.contains("rb_pack"));
        let expected = "<main> /srv/app/cart.rb:1;show /srv/app/cart.rb:12;total /srv/app/cart.rb:31;rb_pack libruby-3.1.so.3.1:0";
        assert_eq!(native, Some(&(expected.to_owned(), vec![4])));
        let samples: u64 = seen.iter().map(|(_, weights)| weights[0]).sum();
        assert_eq!(samples, 10);
    }
}
