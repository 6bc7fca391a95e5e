//! The same profile with other samples, or by something else than functions. Used by `lancet::commands::profile::run`,
//! `report::profile::words` and others there.

use super::Profile;
use super::frame::{Frame, Kind, named};
use super::grouped::By;
use super::mode::Mode;
use super::threads::Threads;
use super::waits::is_idle;

impl Profile {
    /// Adds the samples of another one, of threads that ran.
    pub fn add_all(&mut self, other: &Profile) {
        let samples = self.samples;
        for (count, of_other) in self.counts_mut().into_iter().zip(other.counts()) {
            *count += of_other;
        }
        self.samples = samples;
        for (frames, count) in other.each_stack() {
            self.add_times(frames.into_iter().cloned().collect(), count);
        }
        self.waits.add_all(&other.waits);
        self.threads.add_all(&other.threads);
    }

    /// What its samples are.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the same profile with these samples. What a thread waited for is the innermost function of a sample then; a lock has the line of
    /// its holder in its name, as `place` writes it. Threads that had nothing to do are in no sample; where that is all that was seen, they are.
    #[must_use]
    pub fn shown(self, mode: Mode, place: &dyn Fn(&Frame) -> String) -> Profile {
        if mode == self.mode {
            return self;
        }
        let mut shown = self.without_samples(self.by, mode);
        if self.by == By::Thread {
            // They have no stacks of which some could be added.
            shown.add_threads(&self.threads);
            return shown;
        }
        if mode == Mode::Wall {
            for (frames, count) in self.each_stack() {
                shown.add_times(frames.into_iter().cloned().collect(), count);
            }
        }
        let (at_work, _) = self.waits.counts();
        let with_idle = at_work == 0 && shown.samples == 0;
        for (frames, wait, count) in self.waits.each() {
            if with_idle || !is_idle(&frames, wait) {
                let mut frames = self.by.groups(frames);
                frames.push(wait.frame(place));
                shown.add_times(frames, count);
            }
        }
        shown
    }
}

impl Profile {
    /// What its functions are.
    pub fn by(&self) -> By {
        self.by
    }

    /// Adds a sample for each of these, which has its thread for a function.
    fn add_threads(&mut self, threads: &Threads) {
        for (name, counts) in &threads.0 {
            let count = match self.mode {
                Mode::Cpu => counts.ran,
                Mode::Wall => counts.ran + counts.waited,
                Mode::Wait => counts.waited,
            };
            if count != 0 {
                let mut frame = named(name);
                (frame.function.kind, frame.library) = (Kind::Script, false);
                self.add_times(vec![frame], count);
            }
        }
    }

    /// What these looks saw beside samples, for samples of another kind.
    fn without_samples(&self, by: By, mode: Mode) -> Profile {
        let mut other = Profile {
            by,
            mode,
            waits: self.waits.clone(),
            threads: self.threads.clone(),
            ..Profile::default()
        };
        for (count, of_all) in other.counts_mut().into_iter().zip(self.counts()) {
            *count = of_all;
        }
        other.samples = 0;
        other
    }

    /// Returns the same samples by something else than functions.
    #[must_use]
    pub fn grouped(self, by: By) -> Profile {
        if by == By::Function {
            return self;
        }
        let mut grouped = self.without_samples(by, self.mode);
        if by == By::Thread {
            grouped.add_threads(&self.threads);
            return grouped;
        }
        for (frames, count) in self.each_stack() {
            grouped.add_times(by.groups(frames), count);
        }
        grouped
    }
}
