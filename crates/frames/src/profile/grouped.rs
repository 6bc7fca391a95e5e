//! Samples by files, or by gems and packages, in the place of functions. Used by `lancet::commands::profile::run`.

use vm::library::within;

use super::{Frame, Function, Profile};

/// What the functions of a [`Profile`] are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Functions.
    #[default]
    Function,
    /// The files that they are in.
    File,
    /// The gems, packages, native libraries and language cores that these belong to, or `app` ([`languages::owner()`]).
    Package,
}

/// What stands for functions that have no file.
pub(super) const NO_FILE: &str = "(no file)";

impl By {
    /// The word for one of them, and for several.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            By::Function => ["function", "functions"],
            By::File => ["file", "files"],
            By::Package => ["package", "packages"],
        }
    }

    /// Returns what stands for a frame. It has no file and no line: what it is of is its name.
    fn group(self, frame: &Frame) -> Frame {
        let function = &frame.function;
        let name = match self {
            By::Function => return frame.clone(),
            _ if function.file.is_empty() => NO_FILE,
            By::Package if !function.native => languages::owner(&function.file),
            By::File | By::Package => within(&function.file),
        };
        Frame {
            function: Function {
                name: name.to_owned(),
                file: String::new(),
                native: function.native,
            },
            line: 0,
            library: frame.library,
        }
    }
}

impl Profile {
    /// What its functions are.
    pub fn by(&self) -> By {
        self.by
    }

    /// Returns the same samples by something else than functions. Where one of a file calls another of the same, that is one frame.
    #[must_use]
    pub fn grouped(self, by: By) -> Profile {
        if by == By::Function {
            return self;
        }
        let mut grouped = Profile {
            by,
            ..Profile::default()
        };
        for (count, of_all) in grouped.counts_mut().into_iter().zip(self.counts()) {
            *count = of_all;
        }
        grouped.samples = 0;
        for (frames, count) in self.each_stack() {
            let mut groups: Vec<Frame> = frames.iter().map(|frame| by.group(frame)).collect();
            groups.dedup_by(|inner, outer| inner.function == outer.function);
            grouped.add_times(groups, count);
        }
        grouped
    }
}
