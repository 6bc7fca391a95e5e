//! How a census is shown: grouping, filter, order and cut.

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
    /// fewer).
    pub min: u64,
    /// Limit of the rows, the others go into the remainder; `None` = all rows.
    pub top: Option<usize>,
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
