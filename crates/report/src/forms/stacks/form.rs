//! What a form of stacks is, and what it is handed: the type of a row of the list, and the stacks. Used by
//! `heap::stacks`, `mem::stacks`, `calls::stacks` and others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use answer::place::Place;

use crate::text::program;

/// One way to show stacks.
pub struct StackForm {
    /// What the user writes after `--format`.
    pub(crate) name: &'static str,
    /// One line about it for the help, without a full stop.
    pub(crate) about: &'static str,
    /// Whether a terminal can show it.
    pub(crate) is_text: bool,
    /// Whether one answer after the other can stand in one file.
    pub(crate) repeats: bool,
    pub(super) write: fn(&dyn Stacks, &mut dyn Write) -> io::Result<()>,
}

impl StackForm {
    /// Shows the stacks of an answer, each as this form has it, on `out`.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
        (self.write)(stacks, out)
    }
}

impl fmt::Debug for StackForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An answer that has stacks.
pub trait Stacks {
    /// What the stacks are of.
    fn about(&self) -> About<'_>;

    /// Hands on each stack, in an order that is the same each time.
    ///
    /// # Errors
    ///
    /// Returns those of `take`, and takes no further stack then.
    fn each(&self, take: &mut dyn FnMut(&Stack<'_>) -> io::Result<()>) -> io::Result<()>;
}

/// What the stacks of an answer are of.
#[derive(Debug)]
pub struct About<'a> {
    /// What was looked at, as a line above a picture.
    pub title: Cow<'a, str>,
    /// The same without the one weight, for a form that has all of them.
    pub comment: Option<String>,
    /// The process that was looked at, if it was one.
    pub process: Option<Process<'a>>,
    /// When it was looked at and for how long, as far as that is known.
    pub times: Times,
    /// What the weights of a stack are.
    pub kinds: &'static [Kind],
    /// Which of them a form has that has one.
    pub one: usize,
    /// Which of them is shown first by what reads a form that has all.
    pub first: usize,
    /// The order of the stacks says something, and no two have the same texts. Else they are sorted and added up where a stack is nothing but
    /// texts.
    pub is_ordered: bool,
}

impl<'a> About<'a> {
    /// Stacks in an order that says something, each once. The title is all there is to say of them, and no time is known; a form that has one
    /// weight has this one, and it is shown first by what reads all.
    pub fn titled(title: impl Into<Cow<'a, str>>, kinds: &'static [Kind], one: usize) -> Self {
        let title = title.into();
        About {
            comment: Some(title.clone().into_owned()),
            title,
            process: None,
            times: Times::default(),
            kinds,
            one,
            first: one,
            is_ordered: true,
        }
    }
}

/// When was counted, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When counting began, in nanoseconds since 1970.
    pub began: Option<u64>,
    /// For how long was counted.
    pub took: Option<Duration>,
    /// How much time was between one look and the next, on average.
    pub period: Option<Duration>,
}

impl Times {
    /// Of what was counted all the time, from then on for so long.
    pub fn counted(began: Option<SystemTime>, took: Option<Duration>) -> Self {
        let since = began.and_then(|began| began.duration_since(SystemTime::UNIX_EPOCH).ok());
        Times {
            began: since.map(|since| nanoseconds(since) as u64),
            took,
            period: None,
        }
    }

    /// Of looks, so many in that time.
    #[must_use]
    pub fn looked(self, looks: u64) -> Self {
        let each = |took: Duration| took.as_nanos().checked_div(looks.into());
        let each = self.took.and_then(each).filter(|each| *each != 0);
        Times {
            period: each.map(|each| Duration::from_nanos(u64::try_from(each).unwrap_or(u64::MAX))),
            ..self
        }
    }
}

/// A time as formats have it whose numbers have a sign.
pub(super) fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A process that was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// Its id.
    pub pid: u32,
    /// The words of its command line.
    pub command: &'a [String],
}

impl<'a> Process<'a> {
    /// One with this id, if that is one (of several, counted as one, it is 0).
    pub fn new(pid: impl Into<i64>, command: &'a [String]) -> Option<Self> {
        let pid = u32::try_from(pid.into()).ok().filter(|pid| *pid != 0)?;
        Some(Process { pid, command })
    }

    /// The process, where these are one.
    pub fn only(all: &mut dyn Iterator<Item = (i64, &'a [String])>) -> Option<Self> {
        let (pid, command) = all.next()?;
        match all.next() {
            None => Process::new(pid, command),
            Some(_) => None,
        }
    }

    /// The name of its program.
    pub(super) fn program(&self) -> &str {
        program(self.command)
    }
}

/// What a weight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name: `inuse_space`.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
}

/// What a weight counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Sightings, objects, calls.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// As pprof's format and OpenTelemetry's have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "nanoseconds",
        }
    }
}

/// Where stacks were seen: how often.
pub const SAMPLES: &[Kind] = &[Kind {
    name: "samples",
    unit: Unit::Count,
}];

/// A stack.
#[derive(Clone, Debug, Default)]
pub struct Stack<'a> {
    /// Its frames, the outermost first.
    pub frames: Vec<Frame<'a>>,
    /// The type of what was counted, where that tells stacks apart. It is a frame of its own where a form has nothing but frames.
    pub kind: Option<Cow<'a, str>>,
    /// A weight of each kind.
    pub weights: Vec<u64>,
    /// It is no stack, but the sum of those that the answer leaves out.
    pub is_rest: bool,
}

/// A frame of a stack.
#[derive(Clone, Debug, Default)]
pub struct Frame<'a> {
    /// As a picture has it: `show (app.rb:12)`.
    pub text: Cow<'a, str>,
    /// Where that is.
    pub place: Place<'a>,
}

impl<'a> Frame<'a> {
    /// A frame that is nowhere but has a name.
    pub fn named(name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        Frame {
            place: Place::new("", 0, name.clone()),
            text: name,
        }
    }
}

/// What takes the texts of a stack, its weight, and whether it is the sum of stacks that are left out.
type TakeText<'a> = dyn FnMut(&[Cow<'_, str>], u64, bool) -> io::Result<()> + 'a;

/// Hands on the texts of each stack and its one weight, but for weights of 0: where a stack is nothing but texts.
pub(super) fn each_text(stacks: &dyn Stacks, take: &mut TakeText<'_>) -> io::Result<()> {
    let about = stacks.about();
    let mut sorted: BTreeMap<Vec<Cow<'static, str>>, u64> = BTreeMap::new();
    stacks.each(&mut |stack| {
        let weight = stack.weights[about.one];
        let texts = stack.texts();
        match (weight, about.is_ordered) {
            (0, _) => Ok(()),
            (_, true) => take(
                &texts.map(Cow::Borrowed).collect::<Vec<_>>(),
                weight,
                stack.is_rest,
            ),
            (_, false) => {
                let texts = texts.map(|text| Cow::Owned(text.to_owned())).collect();
                let sum = sorted.entry(texts).or_default();
                *sum = sum.saturating_add(weight);
                Ok(())
            }
        }
    })?;
    let mut sorted = sorted.iter();
    sorted.try_for_each(|(texts, weight)| take(texts, *weight, false))
}

impl Stack<'_> {
    /// The texts of its frames, and of its type, the outermost first.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let frames = self.frames.iter().map(|frame| &*frame.text);
        frames.chain(self.kind.as_deref())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_short_name() {
        for (line, name) in [
            ("/usr/bin/ruby3.1", "ruby3.1"),
            ("php-fpm: pool www", "php-fpm"),
            ("puma 5.6.5 (tcp://0.0.0.0:3000) [app]", "puma"),
        ] {
            let command = [line.to_owned()];
            let process = Process {
                pid: 7,
                command: &command,
            };
            assert_eq!(process.program(), name);
        }
        let command = ["/opt/My App/bin/ruby", "app.rb"].map(str::to_owned);
        let process = Process {
            pid: 7,
            command: &command,
        };
        assert_eq!(process.program(), "ruby");
    }

    #[test]
    fn a_time_that_is_not_known_is_none() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(
            Times::counted(None, second),
            Times {
                took: second,
                ..Times::default()
            }
        );
        let at = Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(7));
        let looked = Times::counted(at, second).looked(4);
        assert_eq!(looked.began, Some(7));
        assert_eq!(looked.period, Some(Duration::from_millis(250)));
        assert_eq!(Times::counted(at, second).looked(0).period, None);
        assert_eq!(Times::counted(at, None).looked(4).period, None);
    }

    pub const BYTES: &[Kind] = &[Kind {
        name: "space",
        unit: Unit::Bytes,
    }];

    /// An answer of a test.
    pub struct Seen {
        pub kinds: &'static [Kind],
        pub stacks: Vec<Stack<'static>>,
        pub is_ordered: bool,
    }

    impl Seen {
        /// One whose order says something.
        pub fn new(kinds: &'static [Kind], stacks: Vec<Stack<'static>>) -> Self {
            Seen {
                kinds,
                stacks,
                is_ordered: true,
            }
        }
    }

    impl Stacks for Seen {
        fn about(&self) -> About<'_> {
            About {
                title: "t & u".into(),
                comment: Some("a sentence".to_owned()),
                process: None,
                times: Times {
                    began: Some(7),
                    took: Some(Duration::from_secs(1)),
                    period: Some(Duration::from_millis(250)),
                },
                kinds: self.kinds,
                one: 0,
                first: 0,
                is_ordered: self.is_ordered,
            }
        }

        fn each(&self, take: &mut dyn FnMut(&Stack<'_>) -> io::Result<()>) -> io::Result<()> {
            self.stacks.iter().try_for_each(take)
        }
    }

    /// A stack of these frames, which are parted by spaces.
    pub fn stack(frames: &'static str, weights: &[u64]) -> Stack<'static> {
        Stack {
            frames: frames.split(' ').map(Frame::named).collect(),
            weights: weights.to_vec(),
            ..Stack::default()
        }
    }

    /// Three sightings of two stacks.
    pub fn seen() -> Seen {
        Seen::new(
            SAMPLES,
            vec![stack("main run a<b>", &[2]), stack("main x;y", &[1])],
        )
    }

    pub fn bytes(form: &StackForm, stacks: &dyn Stacks) -> Vec<u8> {
        let mut out = Vec::new();
        form.write(stacks, &mut out).expect("memory");
        out
    }

    pub fn shown(form: &StackForm, stacks: &dyn Stacks) -> String {
        String::from_utf8(bytes(form, stacks)).expect("text")
    }
}
