//! The tables of Parquet files: what columns each has, of which records its rows are made, and where in a record each value stands. Used by
//! `rows`, `file` and `page`.
//!
//! This list is all there is to say of a table: rows are made by it, files are written by it, and `docs/schema.md` is made of it by a test.

mod machine;

/// The number of the schema, which each file has in its metadata as `lancet.schema`, and table `capture` as a column. It rises when a table or a
/// column goes away or changes its meaning; new ones may come without that.
pub(super) const SCHEMA: i64 = 1;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name, which is that of its folder.
    pub name: &'static str,
    /// What a row is, as a sentence.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page is made by a test"))]
    pub about: &'static str,
    /// The records that are rows, each with a field that tells it from those of other commands with the same name.
    pub rows: &'static [(&'static str, &'static str)],
    /// The records that say what its rows have in common, likewise; every answer of the command has one.
    pub marks: &'static [(&'static str, &'static str)],
    /// Its columns behind [`COMMON`]; lists stand last.
    pub columns: &'static [Column],
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Its name.
    pub name: &'static str,
    /// What a value is.
    pub kind: Kind,
    /// The fields of the record that have it, of which the first counts that is there and not null: `place.line`; of a list `0` is
    /// the first and `most` the one with most `own`; `@by` is a field of the record of [`Table::marks`]. None: it is made of other things.
    pub from: &'static [&'static str],
    /// What it means, as a sentence.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page is made by a test"))]
    pub about: &'static str,
}

/// What a value is. Every one may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text in UTF-8.
    Text,
    /// A whole number of 64 bits with a sign.
    Integer,
    /// True or false.
    Flag,
    /// The number of a stack, as a text.
    Stack,
    /// A list of texts.
    Texts,
    /// A list of frames.
    Frames,
}

const fn column(
    kind: Kind,
    name: &'static str,
    from: &'static [&'static str],
    about: &'static str,
) -> Column {
    Column {
        name,
        kind,
        from,
        about,
    }
}

const fn text(name: &'static str, from: &'static [&'static str], about: &'static str) -> Column {
    column(Kind::Text, name, from, about)
}

const fn integer(name: &'static str, from: &'static [&'static str], about: &'static str) -> Column {
    column(Kind::Integer, name, from, about)
}

/// How many columns every table has.
pub(super) const COMMONS: usize = 13;

/// The columns that every table has first. They are the same in all rows of one process of an answer, which costs a file next to nothing and
/// spares a query the join.
pub(super) static COMMON: [Column; COMMONS] = [
    text(
        "capture_id",
        &[],
        "128 bits in hexadecimal, made of the answer's content: a process in one answer",
    ),
    text("host", &[], "The machine's name; null: not known"),
    text(
        "boot_id",
        &[],
        "The id of the machine's start; null: not known",
    ),
    integer(
        "pid",
        &[],
        "The process; null: none, or several that are told of together",
    ),
    text(
        "service",
        &[],
        "What `--service` of `lancet export` says, else the name of the program, else `unknown`",
    ),
    text(
        "release",
        &[],
        "What `--release` of `lancet export` says; null: nothing was said",
    ),
    text(
        "runtime",
        &[],
        "The language of the VM in it; null: none was found, or none was looked for",
    ),
    text("version", &[], "The version of that; null: not known"),
    integer(
        "start_ns",
        &[],
        "When lancet began to look, in nanoseconds since 1970; null: not known",
    ),
    integer("end_ns", &[], "When the answer was whole; null: not known"),
    text(
        "lancet",
        &[],
        "The version of the lancet that looked; null: not known",
    ),
    integer(
        "lost",
        &[],
        "How many losses the answer tells (docs/losses.md); null: it was cut off, and nobody knows",
    ),
    integer(
        "left_out",
        &[],
        "How many rows are not here: `--top` and `--min` cut them off, or they were more than 100,000, or 1 GiB",
    ),
];

const RECORD: &str = "The record of docs/json.md that the row is";
const FILE: Column = text(
    "file",
    &["place.path", "site.path", "library.path"],
    "The path of the source, or of the native file; null: none",
);
const LINE: Column = integer(
    "line",
    &["place.line", "site.line", "library.line", "lines.most.line"],
    "The line, from 1; null: not known, or the row is about more than a line",
);
const FUNCTION: Column = text(
    "function",
    &["place.qualified", "place.function"],
    "The function there, with its class where that is known",
);

/// The answer itself.
pub(super) static CAPTURE: Table = Table {
    name: "capture",
    about: "An answer of lancet about one process, or about several together.",
    rows: &[],
    marks: &[],
    columns: &[
        text("answer", &[], "The table that its rows are in"),
        integer("schema", &[], "The number of this schema"),
        integer("rows_count", &[], "How many rows it has there"),
        column(
            Kind::Texts,
            "verdicts",
            &[],
            "What the answer says first, as sentences",
        ),
        column(
            Kind::Texts,
            "losses",
            &[],
            "What was lost, as sentences; of 1,001 and more the first 1,000",
        ),
    ],
};

/// The stacks of an answer.
pub(super) static STACK: Table = Table {
    name: "stack",
    about: "A stack that rows of other tables name by `stack_id`, once for each answer.",
    rows: &[],
    marks: &[],
    columns: &[
        text(
            "stack_id",
            &[],
            "128 bits in hexadecimal (XXH3), made of the frames: the same on all hosts",
        ),
        column(
            Kind::Frames,
            "frames",
            &[],
            "Its frames, the innermost first",
        ),
    ],
};

/// The tables of the commands.
pub(super) static TABLES: [&Table; 7] = [
    &Table {
        name: "alloc_agg",
        about: "Of `lancet mem`: objects by where they were made and what they are.",
        rows: &[
            ("row", "born"),
            ("before", "live"),
            ("growth", "now_live"),
            ("leak", "grows"),
        ],
        marks: &[("look", "walk_pause_ns")],
        columns: &[
            text("record", &[], RECORD),
            text("grouped_by", &["@by"], "What makes a row"),
            integer(
                "watched_ns",
                &["@watched_ns"],
                "How long it had been watched",
            ),
            integer(
                "interval_ns",
                &["@interval_ns"],
                "Of `growth`: the time since the look before",
            ),
            FILE,
            LINE,
            FUNCTION,
            text("type", &["type"], "The type of the objects"),
            text("gem", &["gem"], "Of `--by gem`: the gem or package"),
            integer(
                "born",
                &["born"],
                "How many were made; of `growth` in the interval",
            ),
            integer(
                "live",
                &["live"],
                "How many of them live; of `growth` by how many more",
            ),
            integer("dead", &["dead"], "How many are gone"),
            integer(
                "bytes",
                &["bytes"],
                "The memory that the living hold; of `growth` by how much more",
            ),
            integer(
                "allocated",
                &["allocated"],
                "The memory that all that were made used, by a sample",
            ),
            integer("now_live", &["now_live", "live"], "How many live now"),
            integer(
                "now_bytes",
                &["now_bytes", "bytes"],
                "The memory they hold now",
            ),
            text(
                "grows",
                &["grows"],
                "Of `leak`: `number` of objects, or their `size`",
            ),
            column(
                Kind::Stack,
                "stack_id",
                &["stack"],
                "Where they were made, with `--stacks`",
            ),
        ],
    },
    &Table {
        name: "heap_class",
        about: "Of `lancet heap`: who holds memory, and living objects by type, line and owner.",
        rows: &[
            ("suspect", "retained"),
            ("holder", "retained"),
            ("group", "retained"),
            ("garbage", "in_cycles"),
        ],
        marks: &[("snapshot", "objects")],
        columns: &[
            text("record", &[], RECORD),
            text(
                "grouped_by",
                &["by", "what"],
                "Of `group` what makes a row, of `suspect` what it is",
            ),
            FILE,
            LINE,
            text("name", &["name", "type"], "The type, owner or holder"),
            text(
                "holds",
                &["holds.type"],
                "Of `suspect`: the type that is most of what it holds",
            ),
            integer(
                "objects",
                &["objects", "holds.objects"],
                "How many there are; of `suspect` of what it holds",
            ),
            integer("bytes", &["bytes"], "Their size"),
            integer("retained", &["retained"], "What they retain"),
            integer(
                "percent",
                &["percent"],
                "The same in hundredths of what lives",
            ),
            integer("heap_bytes", &["@bytes"], "The size of all that lives"),
            integer("resident", &["@resident"], "Resident memory of the process"),
            text("says", &["text"], "The row as a sentence"),
            column(
                Kind::Texts,
                "path",
                &["path"],
                "From the root to it: what holds it, and its type",
            ),
        ],
    },
    &Table {
        name: "call_agg",
        about: "Of `lancet calls -c`: calls of a function (or statements of `--preset sql`) from a place.",
        rows: &[
            ("row", "calls"),
            ("still_open", "open"),
            ("not_freed", "kept"),
        ],
        marks: &[
            ("total", "calls"),
            ("descriptors", "opened"),
            ("allocations", "kept"),
        ],
        columns: &[
            text("record", &[], RECORD),
            FILE,
            LINE,
            text(
                "caller",
                &["place.qualified", "place.function"],
                "The function of the script there",
            ),
            text(
                "function",
                &["function"],
                "What is called, or the statement",
            ),
            integer("calls", &["calls", "opened", "allocated"], "How many calls"),
            integer(
                "unreturned",
                &["left"],
                "How many of them were left without a return",
            ),
            integer("failed", &["failed"], "How many failed"),
            integer("bytes", &["bytes"], "Bytes moved, asked for or kept"),
            integer("result_rows", &["rows"], "Rows of statements"),
            integer(
                "kept",
                &["kept", "open"],
                "How many are not freed or still open",
            ),
            integer("total_ns", &["total_ns"], "The time of those that returned"),
            integer("mean_ns", &["mean_ns"], "The mean"),
            integer("p50_ns", &["p50_ns"], "Half of them took at most so long"),
            integer("p95_ns", &["p95_ns"], "95 percent did"),
            integer("p99_ns", &["p99_ns"], "99 percent did"),
            integer("max_ns", &["max_ns"], "The longest"),
            column(
                Kind::Stack,
                "stack_id",
                &["callers"],
                "The native frames that call, where they were asked for",
            ),
        ],
    },
    &Table {
        name: "syscall_agg",
        about: "Of `lancet syscalls -c`: system calls of one name from one place.",
        rows: &[("count", "returned")],
        marks: &[("sum", "returned")],
        columns: &[
            text("record", &[], RECORD),
            FILE,
            LINE,
            FUNCTION,
            text("name", &["name"], "Of the system call"),
            integer("calls", &["calls"], "How many calls"),
            integer("returned", &["returned"], "How many of them have returned"),
            integer("errors", &["errors"], "How many of them failed"),
            integer("total_ns", &["total_ns"], "The time of those that returned"),
            integer("min_ns", &["min_ns"], "The shortest"),
            integer("max_ns", &["max_ns"], "The longest"),
            column(
                Kind::Stack,
                "stack_id",
                &["functions"],
                "The native functions that make the call",
            ),
        ],
    },
    &Table {
        name: "sample",
        about: "Of `lancet profile`: functions, with the samples of threads in them. Records `wait` and `lock` are in no table.",
        rows: &[("function", "own")],
        marks: &[("profile", "samples")],
        columns: &[
            text("record", &[], RECORD),
            text("grouped_by", &["@by"], "What a row is"),
            text(
                "mode",
                &["@mode"],
                "What samples are: `cpu`, threads that ran; `wait`, those that waited; `wall`, both",
            ),
            FILE,
            LINE,
            FUNCTION,
            column(Kind::Flag, "native", &["native"], "It is native code"),
            column(
                Kind::Flag,
                "library",
                &["library"],
                "It belongs to a library or the interpreter",
            ),
            column(
                Kind::Flag,
                "waits",
                &["waits"],
                "It is no code, but what the function that called it waited for",
            ),
            integer("own", &["own"], "Samples in which it was innermost"),
            integer("total", &["total"], "Samples in which it was anywhere"),
            integer(
                "line_own",
                &["lines.most.own"],
                "Samples in which `line` was innermost",
            ),
            integer("samples", &["@samples"], "All samples of the answer"),
            integer("looks", &["@looks"], "How many looks it had"),
        ],
    },
    &machine::TUNE_FACT,
    &machine::AGENT,
];

impl Kind {
    /// Whether a value is a list. Such columns stand last, because the others are counted to say by which of them a file is sorted.
    pub fn is_list(self) -> bool {
        matches!(self, Kind::Texts | Kind::Frames)
    }
}

impl Table {
    /// All its columns, in the order in which files have them.
    pub fn all(&self) -> impl Iterator<Item = &'static Column> + use<> {
        COMMON.iter().chain(self.columns)
    }

    /// The number of a column in a row.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.all().position(|column| column.name == name)
    }
}
