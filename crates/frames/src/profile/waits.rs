//! What threads waited for while a profile was made, and at which line. Used by `profile`, `views` and others
//! here, and by the crates `report` and `lancet`.
//!
//! What a wait is called is crate `report`'s to say, with the words of `lancet stack --for`; here such waits are counted. A row is what was waited
//! for at one line ([`Waits::rows`]); what is one lock to several lines is one cause ([`Waits::causes`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::frame::{Frame, Function, Kind, Known, MOST_FRAMES, named};

/// Different waits that are told apart, and bytes of their texts; what there is no room for is one.
pub(super) const MOST_WAITS: usize = 20_000;
pub(super) const MOST_BYTES: usize = 8 << 20;

/// What threads of a process waited for is forgotten if so many looks at others follow: it has ended. One that has not is read anew.
pub(super) const FORGOTTEN: u64 = 10_000;

/// Two sleeps of a thread begin at least so long one after the other.
const APART: Duration = Duration::from_millis(1);

/// What stands for waits for which there is no room.
const OTHERS: &str = "waits (others: too many different waits)";

/// Bytes that a stack takes beside its frames, in a table of them.
pub(super) const ENTRY: usize = 64;

/// What a thread waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// What is the same at each look and of each thread that waits so at a line: `asleep in IO#gets`, `waits for a mutex`.
    pub doing: String,
    /// Which one it is, to be read behind that: ` that thread 4243 worker (cart.rb:31) holds`, ` (poll): tcp to 10.0.0.7:80`; may be empty.
    pub on: String,
    /// The lock, if a thread was seen to have it.
    pub lock: Option<Lock>,
    /// The line at which the thread was that had the lock.
    pub holder: Option<Frame>,
    /// It waits for what it would do next, and not for what it has begun: for a connection, or for the end of another thread.
    pub is_idle: bool,
}

/// What tells a lock apart from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// The process that it is in.
    pub pid: u32,
    /// What it is called there: `mutex 0x7f5c5c012a40`.
    pub name: String,
}

/// The waits that were seen.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub(super) known: Known,
    pub(super) kinds: Vec<Wait>,
    pub(super) bytes: usize,
    numbers: HashMap<Wait, u32>,
    /// By the numbers of their frames and what was waited for.
    pub(super) stacks: HashMap<Seen, u64>,
    /// Frames of all `stacks`.
    pub(super) frames: usize,
    /// What each thread waited for at the last look, by process and thread, with the number of that look.
    pub(super) last: HashMap<i32, (u64, HashMap<i32, InWait>)>,
    /// How many looks have begun, at whichever process.
    looks: u64,
    /// The same of the process that is looked at now, of the look before and of this one.
    before: HashMap<i32, InWait>,
    now: HashMap<i32, InWait>,
}

/// A stack, and the number of what was waited for.
pub(super) type Seen = (Rc<[u32]>, u32);

/// A thread that waits.
#[derive(Clone, Debug)]
pub(super) struct InWait {
    seen: Seen,
    is_idle: bool,
    /// About when it fell asleep.
    began: Option<Instant>,
    /// Its name, if it had fallen asleep while the look was made.
    late: Option<String>,
}

/// A thread that was seen asleep.
#[derive(Debug)]
pub(super) struct Sleep {
    pub(super) tid: i32,
    /// About when it fell asleep, if that is known.
    pub(super) began: Option<Instant>,
    /// The outermost comes first.
    pub(super) frames: Vec<Frame>,
    pub(super) wait: Wait,
}

/// What was waited for at one line.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The innermost frame of the program itself, else of a library.
    pub place: &'a Frame,
    /// [`Wait::doing`].
    pub doing: &'a str,
    /// Nobody waits longer for that it lasts: see [`Wait::is_idle`]. So does a thread that is in no line of the program, as of a pool.
    pub is_idle: bool,
    /// How often a thread was seen that did.
    pub count: u64,
    /// [`Wait::on`], where there is one.
    pub on: BTreeMap<&'a str, u64>,
}

/// Why threads waited: a lock, or what was waited for at one line.
#[derive(Clone, Debug)]
pub struct Cause<'a> {
    /// The lock, if it is one.
    pub lock: Option<&'a Lock>,
    /// [`Wait::doing`] of one of them.
    pub doing: &'a str,
    /// How often a thread was seen that waited for it.
    pub count: u64,
    /// The lines at which it was waited for.
    pub at: BTreeMap<&'a Frame, u64>,
    /// [`Wait::on`], where there is one.
    pub on: BTreeMap<&'a str, u64>,
    /// The lines at which those were that had the lock.
    pub holders: BTreeMap<&'a Frame, u64>,
}

/// Returns the frames of a thread that waits: what its script has called, and not the function of native code by which it waits.
pub(super) fn waiting(mut frames: Vec<Frame>) -> Vec<Frame> {
    let is_script = |frame: &Frame| frame.function.kind == Kind::Script;
    if let Some(innermost) = frames.iter().rposition(is_script) {
        frames.truncate(innermost + 1);
    }
    frames
}

impl Waits {
    /// Begins a look at a process.
    pub(super) fn begin(&mut self, pid: i32) {
        self.looks += 1;
        if self.looks.is_multiple_of(FORGOTTEN) {
            let (looks, last) = (self.looks, &mut self.last);
            last.retain(|_, (at, _)| looks - *at < FORGOTTEN);
        }
        let last = self.last.remove(&pid);
        self.before = last.map(|(_, threads)| threads).unwrap_or_default();
        self.now.clear();
    }

    /// Ends it. Returns the names of the threads of which it shows that they are to be counted at the look before ([`Waits::add_late`]), and
    /// whether each is at work.
    pub(super) fn end(&mut self, pid: i32) -> Vec<(String, bool)> {
        let before = std::mem::take(&mut self.before);
        let mut ended = Vec::new();
        for thread in before.into_values() {
            if let Some(name) = thread.late {
                self.count(&thread.seen, 1);
                ended.push((name, !thread.is_idle));
            }
        }
        let threads = std::mem::take(&mut self.now);
        self.last.insert(pid, (self.looks, threads));
        ended
    }

    /// Adds what a thread waited for at the look before, because it waits on. Returns whether it is at work; `None` if that is not known.
    pub(super) fn add_again(&mut self, tid: i32) -> Option<bool> {
        let mut thread = self.before.remove(&tid)?;
        thread.late = None;
        let is_at_work = !thread.is_idle;
        self.count(&thread.seen, 1);
        self.now.insert(tid, thread);
        Some(is_at_work)
    }

    /// Adds a wait of a thread; the outermost frame comes first. Returns whether the thread is at work.
    pub fn add(&mut self, tid: i32, frames: Vec<Frame>, wait: Wait) -> bool {
        self.add_sleep(Sleep {
            tid,
            began: None,
            frames,
            wait,
        })
    }

    /// The same of a thread that was read, though it may have slept at the look before and since then: threads are read again where looks are
    /// made by stops.
    pub(super) fn add_sleep(&mut self, sleep: Sleep) -> bool {
        let tid = sleep.tid;
        let thread = self.thread(sleep, None);
        if let Some(before) = self.before.get_mut(&tid)
            && before.late.is_some()
            && thread.is_same(before)
        {
            // It has not ended, and counts now.
            before.late = None;
        }
        self.count(&thread.seen, 1);
        let is_at_work = !thread.is_idle;
        self.now.insert(tid, thread);
        is_at_work
    }

    /// Notes a wait that began while those were read that had begun before. It counts from the next look on; if it has ended by then, once.
    ///
    /// A wait that ends while it is read, and that was not known from an earlier look, is lost: so are those of which the last part, as long as
    /// reading takes, holds the first look. As many have the last look in a part as long before they begin, and those are counted here. So
    /// short waits have the share that they deserve, however long it takes to read those that had begun before. What is noted here has been read
    /// as well, which takes a second time: of waits shorter than both times together fewer are counted than there were.
    pub(super) fn add_late(&mut self, name: String, sleep: Sleep) {
        let tid = sleep.tid;
        let thread = self.thread(sleep, Some(name));
        self.now.insert(tid, thread);
    }

    fn thread(&mut self, sleep: Sleep, late: Option<String>) -> InWait {
        let began = sleep.began;
        let seen = self.seen(sleep.frames, sleep.wait);
        let is_idle = is_idle(&self.known.frames(&seen.0), &self.kinds[seen.1 as usize]);
        InWait {
            seen,
            is_idle,
            began,
            late,
        }
    }

    /// Adds those of another profile.
    pub(super) fn add_all(&mut self, other: &Waits) {
        for (frames, wait, count) in other.each() {
            let seen = self.seen(frames.into_iter().cloned().collect(), wait.clone());
            self.count(&seen, count);
        }
    }

    fn seen(&mut self, mut frames: Vec<Frame>, wait: Wait) -> Seen {
        let (stack, number) = (self.known.stack(&mut frames), self.number(wait));
        let has_room = self.frames + stack.len() <= MOST_FRAMES;
        match stack.last() {
            Some(innermost) if !has_room && !self.stacks.contains_key(&(stack.clone(), number)) => {
                (Rc::from([*innermost]), number)
            }
            _ => (stack, number),
        }
    }

    fn count(&mut self, seen: &Seen, times: u64) {
        if let Some(count) = self.stacks.get_mut(seen) {
            *count += times;
            return;
        }
        self.frames += seen.0.len();
        self.stacks.insert(seen.clone(), times);
    }

    /// Returns the number of a wait; a new one's if there is room.
    fn number(&mut self, wait: Wait) -> u32 {
        if let Some(number) = self.numbers.get(&wait) {
            return *number;
        }
        let size = wait.size();
        let is_full = self.kinds.len() >= MOST_WAITS || self.bytes + size > MOST_BYTES;
        let wait = match is_full {
            true => Wait {
                doing: OTHERS.to_owned(),
                ..Wait::default()
            },
            false => wait,
        };
        let (kinds, bytes) = (&mut self.kinds, &mut self.bytes);
        *self.numbers.entry(wait).or_insert_with_key(|wait| {
            *bytes += wait.size();
            kinds.push(wait.clone());
            kinds.len() as u32 - 1
        })
    }

    /// Returns each different stack with what was waited for, in no order.
    pub(super) fn each(&self) -> impl Iterator<Item = (Vec<&Frame>, &Wait, u64)> {
        let stacks = self.stacks.iter();
        stacks.map(|((stack, number), count)| {
            let frames = self.known.frames(stack);
            (frames, &self.kinds[*number as usize], *count)
        })
    }

    /// About as many bytes of memory as they take.
    pub(super) fn memory(&self) -> usize {
        let stacks = self.stacks.len() * ENTRY + self.frames * size_of::<u32>();
        let kinds = 2 * (self.bytes + self.kinds.len() * size_of::<Wait>());
        self.known.memory() + stacks + kinds
    }

    /// Returns how often a thread was seen that waited for what it had begun, and how often one that had nothing to do.
    pub fn counts(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        for (frames, wait, count) in self.each() {
            match is_idle(&frames, wait) {
                true => counts.1 += count,
                false => counts.0 += count,
            }
        }
        counts
    }

    /// Returns what was waited for at which line, the most frequent first; threads that had nothing to do come last.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: BTreeMap<(bool, &str, &Frame), Row> = BTreeMap::new();
        for (frames, wait, count) in self.each() {
            let Some(place) = place(&frames) else {
                continue;
            };
            let is_idle = is_idle(&frames, wait);
            let row = rows.entry((is_idle, &wait.doing, place)).or_insert(Row {
                place,
                doing: &wait.doing,
                is_idle,
                count: 0,
                on: BTreeMap::new(),
            });
            row.count += count;
            if !wait.on.is_empty() {
                *row.on.entry(&wait.on).or_default() += count;
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_by_key(|row| (row.is_idle, Reverse(row.count)));
        rows
    }

    /// Returns why threads waited, the most frequent cause first, without those that had nothing to do.
    pub fn causes(&self) -> Vec<Cause<'_>> {
        let mut locks: BTreeMap<&Lock, Cause> = BTreeMap::new();
        let mut lines: BTreeMap<(&str, &Frame), Cause> = BTreeMap::new();
        for (frames, wait, count) in self.each() {
            let Some(place) = place(&frames).filter(|_| !is_idle(&frames, wait)) else {
                continue;
            };
            let new = || Cause::of(wait);
            let cause = match &wait.lock {
                Some(lock) => locks.entry(lock).or_insert_with(new),
                None => lines.entry((&wait.doing, place)).or_insert_with(new),
            };
            cause.count += count;
            // Python shows a lock only at some looks, and calls it the function that waits at the others.
            cause.doing = cause.doing.max(&wait.doing);
            *cause.at.entry(place).or_default() += count;
            if !wait.on.is_empty() {
                *cause.on.entry(&wait.on).or_default() += count;
            }
            if let Some(holder) = &wait.holder {
                *cause.holders.entry(holder).or_default() += count;
            }
        }
        // Where it was not seen at some looks who had the lock, it is the lock that is waited for at that line, if that is one.
        lines.retain(|(doing, place), cause| {
            let is_it = |lock: &&mut Cause| lock.doing == *doing && lock.at.contains_key(place);
            let mut of_line = locks.values_mut().filter(is_it);
            match (of_line.next(), of_line.next()) {
                (Some(lock), None) => {
                    lock.count += cause.count;
                    *lock.at.entry(place).or_default() += cause.count;
                    false
                }
                _ => true,
            }
        });
        let mut causes: Vec<Cause> = locks.into_values().chain(lines.into_values()).collect();
        causes.sort_by_key(|cause| Reverse(cause.count));
        causes
    }
}

impl InWait {
    /// Whether it is the same sleep that was seen before. Where the kernel does not say when one began, one of the same kind is taken to be.
    fn is_same(&self, before: &InWait) -> bool {
        match self.began.zip(before.began) {
            Some((one, other)) => one.max(other) - one.min(other) < APART,
            None => self.seen == before.seen,
        }
    }
}

impl<'a> Cause<'a> {
    fn of(wait: &'a Wait) -> Self {
        Cause {
            lock: wait.lock.as_ref(),
            doing: &wait.doing,
            count: 0,
            at: BTreeMap::new(),
            on: BTreeMap::new(),
            holders: BTreeMap::new(),
        }
    }
}

impl Wait {
    /// Bytes of its texts.
    pub(super) fn size(&self) -> usize {
        let holder = self.holder.as_ref().map(|frame| &frame.function);
        let of_holder = holder.map_or(0, |it| it.name.len() + it.file.len());
        self.doing.len()
            + self.on.len()
            + self.lock.as_ref().map_or(0, |lock| lock.name.len())
            + of_holder
    }

    /// Returns it as a frame below the function that waits: `waits for a mutex held at audit (cart.rb:31)`, `asleep in Lock.acquire for a lock held
    /// at …`. Which thread has the lock and which connection it is are not in it: they would part what is one cause.
    pub(super) fn frame(&self, place: &dyn Fn(&Frame) -> String) -> Frame {
        let lock = match self.doing.starts_with("asleep ") {
            true => " for a lock",
            false => "",
        };
        let holder = self.holder.as_ref();
        let held = holder.map(|frame| format!("{lock} held at {}", place(frame)));
        let frame = named("");
        Frame {
            function: Function {
                name: format!("{}{}", self.doing, held.unwrap_or_default()),
                kind: Kind::Wait,
                ..frame.function
            },
            ..frame
        }
    }
}

/// The innermost frame of the program itself; if there is none, of a library.
fn place<'a>(frames: &[&'a Frame]) -> Option<&'a Frame> {
    let own = frames.iter().rfind(|frame| !frame.library);
    own.or(frames.last()).copied()
}

/// Whether a thread had nothing to do: it is in no line of the program, as of a pool, or waits for what it would do next.
pub(super) fn is_idle(frames: &[&Frame], wait: &Wait) -> bool {
    wait.is_idle || frames.iter().all(|frame| frame.library)
}
