//! How a census is shown: what makes a row ([`By`], [`Key`]), and filter, order and cut of the rows. The command line makes a [`View`];
//! `report` and `growth` follow it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::analysis::census::{Counts, Frame, SiteCount, Unit};
use languages::owner;
use languages::owner::APP;

/// What makes two objects belong to the same row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum By {
    /// The file, the line and the type, written `file:line:Type`.
    #[default]
    Line,
    /// The method (or block) and its file.
    Method,
    /// The file, with all its lines and types.
    File,
    /// The gem, `ruby stdlib`, `ruby core` or `app` (see [`languages::owner()`]).
    Gem,
    /// The type, wherever its objects were made.
    Type,
    /// The whole call path and the type; what `--stacks` asks for.
    Stack,
}

impl By {
    /// The word for it, as the command line and the JSON output write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Method => "method",
            Self::File => "file",
            Self::Gem => "gem",
            Self::Type => "type",
            Self::Stack => "stack",
        }
    }
}

/// The figure by which rows are ordered. Rows that are equal in it are ordered by the other figures and then by name, so
/// that two runs over the same counts print the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The row that leaks most steadily first: by the smallest number of living objects that any interval's births have
    /// left, then by those born before the last interval. Then as [`Order::Live`].
    Growth,
    /// Most living objects first (in a growth: the largest increase).
    #[default]
    Live,
    /// Most memory first (in a growth: the largest increase).
    Bytes,
    /// Most births first, whether the objects still live or not (in a growth: the largest increase).
    Born,
    /// Most allocated bytes first, whether the objects still live or not.
    Allocated,
    /// Most that were made while we watched and are dead first; objects from before we came are no rows.
    Dead,
}

/// Which rows are added up: those of lines to rows of gems, and those of objects from before we came to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// No rows are added up.
    #[default]
    Nothing,
    /// Rows of lines in libraries are added up by gem, as far as they do not leak.
    Libraries {
        /// Files are the application's if their path has this in it, wherever they are; empty: where [`languages::owner()`] says so.
        app: String,
    },
}

/// Grouping, filter, order and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What makes a row.
    pub by: By,
    /// With [`By::Line`], which rows are added up.
    pub fold: Fold,
    /// Whether to show the VM's own objects too.
    pub internal: bool,
    /// Which rows come first.
    pub order: Order,
    /// Rows of fewer living objects go into the remainder (in a growth: rows that changed by
    /// fewer; with [`Order::Dead`]: of fewer dead).
    pub min: u64,
    /// Limit of the rows, the others go into the remainder; `None` = all rows.
    pub top: Option<usize>,
}

impl View {
    /// What of a row is compared with `min`.
    pub fn figure(&self, counts: &Counts) -> u64 {
        match self.order {
            Order::Dead => counts.dead,
            _ => counts.live,
        }
    }
}

impl Default for View {
    /// Shows every `file:line:Type` that holds something, most objects first.
    fn default() -> Self {
        Self {
            by: By::Line,
            fold: Fold::Nothing,
            internal: false,
            order: Order::Live,
            min: 1,
            top: None,
        }
    }
}

/// The identity of a row. Two sites with the same key are one row; two censuses are compared key
/// by key. A `path` of `None` means the VM made the object outside any Ruby code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A line and a type, written `file:line:Type`.
    Line {
        /// The file, as the VM names it.
        path: Option<Arc<str>>,
        /// The line, from 1; 0 where the VM knows none.
        line: u32,
        /// The name of the type.
        kind: Arc<str>,
    },
    /// A method or block.
    Method {
        /// The file that defines the method.
        path: Option<Arc<str>>,
        /// The name of the method, or of the block.
        method: Arc<str>,
        /// Of a native function that has taken a block: the script's line that was running, if that is known.
        script: Option<Arc<Frame>>,
    },
    /// A file, with all its lines and types.
    File {
        /// The file, as the VM names it.
        path: Option<Arc<str>>,
    },
    /// A gem, or a name in place of one (`ruby core`, `app`).
    Gem {
        /// Its name (see [`languages::owner()`]).
        name: Arc<str>,
    },
    /// A type, wherever its objects were made.
    Type {
        /// The name of the type.
        kind: Arc<str>,
    },
    /// A call path and a type.
    Stack {
        /// The call path, innermost frame first; empty where no Ruby code ran.
        frames: Vec<Arc<Frame>>,
        /// The name of the type.
        kind: Arc<str>,
    },
}

/// The text for a missing place: the VM itself made the object.
const NO_PLACE: &str = "(vm)";

impl Key {
    /// Returns the key of a site in this view. Only [`By::Stack`] uses more than the innermost
    /// frame.
    pub(crate) fn of(site: &SiteCount, by: By, unit: Unit) -> Self {
        let is_block = unit == Unit::Block;
        let frame = site.frames.first();
        let path = frame.map(|frame| frame.path.clone());
        let kind = site.kind.clone();
        match by {
            // Of a block the line of the script, or where none ran the native function.
            By::Line if is_block => match site.frames.get(1) {
                Some(line) => Self::Line {
                    path: Some(line.path.clone()),
                    line: line.line,
                    kind,
                },
                None => Self::of(site, By::Method, unit),
            },
            By::Line => Self::Line {
                path,
                line: frame.map_or(0, |frame| frame.line),
                kind,
            },
            By::Method => Self::Method {
                path,
                method: frame.map_or_else(|| NO_PLACE.into(), |frame| frame.method.clone()),
                script: is_block.then(|| site.frames.get(1).cloned()).flatten(),
            },
            By::File => Self::File { path },
            By::Gem => Self::Gem {
                name: path.map_or_else(|| NO_PLACE.into(), |path| owner(&path).into()),
            },
            By::Type => Self::Type { kind },
            By::Stack => Self::Stack {
                frames: site.frames.clone(),
                kind,
            },
        }
    }

    /// Returns the key of its gem's row, if it is a line of a library.
    pub(crate) fn folded(&self, app: &str) -> Option<Self> {
        let Self::Line {
            path: Some(path), ..
        } = self
        else {
            return None;
        };
        let own = if app.is_empty() {
            owner(path) == APP
        } else {
            path.contains(app)
        };
        (!own).then(|| Self::Gem {
            name: owner(path).into(),
        })
    }

    /// Returns the same key with its paths shortened by `short`, for display.
    pub fn shown<'a>(&'a self, short: impl Fn(&'a str) -> Cow<'a, str>) -> Self {
        let path_of = |path: &'a Option<Arc<str>>| path.as_deref().map(|path| short(path).into());
        match self {
            Self::Line { path, line, kind } => Self::Line {
                path: path_of(path),
                line: *line,
                kind: kind.clone(),
            },
            Self::Method {
                path,
                method,
                script,
            } => Self::Method {
                path: path_of(path),
                method: method.clone(),
                script: script.as_deref().map(|line| {
                    let path = short(&line.path).into();
                    let line = line.clone();
                    Arc::new(Frame { path, ..line })
                }),
            },
            Self::File { path } => Self::File {
                path: path_of(path),
            },
            Self::Stack { frames, kind } => {
                // As without call paths, code that the VM has written in Ruby is no place.
                let own = |frame: &&Arc<Frame>| !frame.path.starts_with("<internal:");
                let place = frames.iter().find(own).or(frames.first());
                Self::Line {
                    path: place.map(|frame| short(&frame.path).into()),
                    line: place.map_or(0, |frame| frame.line),
                    kind: kind.clone(),
                }
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line {
                path: Some(path),
                line,
                kind,
            } => write!(f, "{path}:{line}:{kind}"),
            Self::Line {
                path: None, kind, ..
            } => write!(f, "{NO_PLACE}:{kind}"),
            Self::Method {
                path,
                method,
                script,
            } => {
                f.write_str(method)?;
                if let Some(path) = path {
                    write!(f, " ({path})")?;
                }
                match script.as_deref() {
                    Some(Frame { path, line: 0, .. }) => write!(f, ", from {path}"),
                    Some(Frame { path, line, .. }) => write!(f, ", from {path}:{line}"),
                    None => Ok(()),
                }
            }
            Self::File { path } => f.write_str(path.as_deref().unwrap_or(NO_PLACE)),
            Self::Gem { name } => f.write_str(name),
            Self::Type { kind } => f.write_str(kind),
            Self::Stack { frames, kind } => match frames.first() {
                Some(frame) => write!(f, "{}:{}:{kind}", frame.path, frame.line),
                None => write!(f, "{NO_PLACE}:{kind}"),
            },
        }
    }
}
