//! The questions: their SQL, and the words in which their rows are told. Used by `args` and `run`.
//!
//! The SQL is the part of the language that DuckDB, Spark and ClickHouse have in common. What ends an order is never null, because they differ
//! in where nulls stand; no column of the result has the name of a column that it is added up from, because ClickHouse would take one for the other.

use report::fleet::{Column, Unit, Words};

/// A question.
#[derive(Debug)]
pub struct Question {
    /// What the user writes.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// What is asked of each table.
    pub parts: &'static [Part],
    /// It compares releases.
    pub compares: bool,
}

/// What is asked of one table.
#[derive(Debug)]
pub struct Part {
    /// The table.
    pub table: &'static str,
    /// The command whose answers it has.
    pub command: &'static str,
    /// The question to it.
    pub sql: &'static str,
    /// How its rows are told.
    pub words: Words,
}

const fn column(name: &'static str, head: &'static str, unit: Unit) -> Column {
    Column { name, head, unit }
}

const HOSTS: Column = column("hosts", "HOSTS", Unit::Count);
const OF_HOSTS: Column = column("of_hosts", "OF", Unit::Count);
const ANSWERS: Column = column("answers", "ANSWERS", Unit::Count);

/// All of them, in the order of the help.
pub static QUESTIONS: &[Question] = &[
    Question {
        name: "leaks",
        about: "Which lines leak, on how many hosts, since which release?",
        compares: false,
        parts: &[Part {
            table: "alloc_agg",
            command: "mem",
            sql: include_str!("sql/leaks.sql"),
            words: Words {
                verdict: "{place} {type} of {service} leaks on {hosts} of {of_hosts} hosts, first seen in release {since_release}",
                none: "no answer says that a line leaks",
                columns: &[
                    HOSTS,
                    OF_HOSTS,
                    ANSWERS,
                    column("most_bytes", "MOST", Unit::Size),
                ],
                about: "{place} {type} of {service}, since {since_release}",
            },
        }],
    },
    Question {
        name: "slow",
        about: "Which calls or statements take long, and on which host most?",
        compares: false,
        parts: &[Part {
            table: "call_agg",
            command: "calls -c",
            sql: include_str!("sql/slow.sql"),
            words: Words {
                verdict: "in one answer of {slowest_host} the 99th percentile of {function} at {place} of {service} was {p99_ns}",
                none: "no answer has calls that returned",
                columns: &[
                    column("p99_ns", "P99", Unit::Time),
                    HOSTS,
                    column("all_calls", "CALLS", Unit::Count),
                    column("all_ns", "TIME", Unit::Time),
                ],
                about: "{function} at {place} of {service}, on {slowest_host}",
            },
        }],
    },
    Question {
        name: "hot",
        about: "In which functions do threads run?",
        compares: false,
        parts: &[Part {
            table: "sample",
            command: "profile",
            sql: include_str!("sql/hot.sql"),
            words: Words {
                verdict: "threads of {service} run in {function} ({file}) for {own_percent} of the samples, on {hosts} hosts",
                none: "no answer has samples of functions",
                columns: &[
                    column("own_percent", "OWN", Unit::Percent),
                    column("own_samples", "SAMPLES", Unit::Count),
                    HOSTS,
                ],
                about: "{function} ({file}) of {service}",
            },
        }],
    },
    Question {
        name: "holders",
        about: "Who holds the memory, on how many hosts, and how much at most?",
        compares: false,
        parts: &[Part {
            table: "heap_class",
            command: "heap",
            sql: include_str!("sql/holders.sql"),
            words: Words {
                verdict: "{name} holds up to {most_retained} ({most_percent}) of {service}, on {hosts} of {of_hosts} hosts",
                none: "no answer names a holder",
                columns: &[
                    HOSTS,
                    OF_HOSTS,
                    column("most_retained", "RETAINED", Unit::Size),
                    column("most_percent", "SHARE", Unit::Percent),
                    ANSWERS,
                ],
                about: "{name} of {service}, holds {holds}, made at {place}",
            },
        }],
    },
    Question {
        name: "regress",
        about: "What holds more memory or takes longer in the newest release than in the one before?",
        compares: true,
        parts: &[
            Part {
                table: "alloc_agg",
                command: "mem",
                sql: include_str!("sql/regress_mem.sql"),
                words: Words {
                    verdict: "{place} {type} of {service} holds {more_bytes} more in release {release}",
                    none: "no line holds more in the newest release of two",
                    columns: &[
                        column("more_bytes", "MORE", Unit::Size),
                        column("before_bytes", "BEFORE", Unit::Size),
                        column("now_bytes", "NOW", Unit::Size),
                    ],
                    about: "{place} {type} of {service}, release {release}",
                },
            },
            Part {
                table: "call_agg",
                command: "calls -c",
                sql: include_str!("sql/regress_calls.sql"),
                words: Words {
                    verdict: "{function} at {place} of {service} takes {more_ns} longer in release {release}",
                    none: "no call takes longer in the newest release of two",
                    columns: &[
                        column("more_ns", "MORE", Unit::Time),
                        column("before_ns", "BEFORE", Unit::Time),
                        column("now_ns", "NOW", Unit::Time),
                    ],
                    about: "{function} at {place} of {service}, release {release}",
                },
            },
        ],
    },
    Question {
        name: "tune",
        about: "Which settings differ from what most hosts have?",
        compares: false,
        parts: &[Part {
            table: "tune_fact",
            command: "tune",
            sql: include_str!("sql/tune.sql"),
            words: Words {
                verdict: "{setting} is {observed} on {hosts} of {of_hosts} hosts ({host}), and {usual} on most ({id})",
                none: "no setting differs from what most hosts have",
                columns: &[HOSTS, OF_HOSTS],
                about: "{setting} is {observed}, elsewhere {usual} ({id}), on {host}",
            },
        }],
    },
];

impl Question {
    /// The one with this name.
    pub fn find(name: &str) -> Option<&'static Question> {
        QUESTIONS.iter().find(|one| one.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_columns_of_the_result() {
        for part in QUESTIONS.iter().flat_map(|question| question.parts) {
            let texts = [part.words.verdict, part.words.about];
            let signs = texts.iter().flat_map(|text| text.split('{').skip(1));
            let signs = signs.filter_map(|part| Some(part.split_once('}')?.0));
            let columns = part.words.columns.iter().map(|column| column.name);
            for name in signs.chain(columns).filter(|name| *name != "place") {
                let is_there = part
                    .sql
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|word| word == name);
                assert!(is_there, "{name} is in no result of {}", part.table);
            }
        }
    }
}
