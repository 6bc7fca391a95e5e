//! The tables of what is about a machine and not about a process of it. Used by `schema`.

use super::{Kind, RECORD, Table, column, integer, text};

/// The settings of a machine.
pub(super) static TUNE_FACT: Table = Table {
    name: "tune_fact",
    about: "Of `lancet tune`: a check of the machine, what was found and what would be better.",
    rows: &[("check", "verdict")],
    marks: &[("summary", "checks")],
    columns: &[
        text("record", &[], RECORD),
        text("id", &["id"], "The check: `T21`"),
        text("title", &["title"], "What it is about"),
        text(
            "severity",
            &["verdict"],
            "`harmful`, `bad`, `consider`, `obsolete`, `cannot_tell`, `good`, `not_applicable`",
        ),
        text("setting", &["evidence.0.from"], "What was read first"),
        text("observed", &["evidence.0.value"], "What it said"),
        text(
            "expected",
            &["changes.0.value"],
            "What `--apply` would write first; null: nothing",
        ),
        text("says", &["says"], "What was found, as a sentence"),
        column(
            Kind::Texts,
            "evidence",
            &["evidence"],
            "All that was read: where, and what it said",
        ),
    ],
};

/// The agent of a machine.
pub(super) static AGENT: Table = Table {
    name: "agent",
    about: "Of `lancet agent`: what has become of its captures, and what it has used, since it told last.",
    rows: &[("captures", "done")],
    marks: &[("used", "budget_ns")],
    columns: &[
        text("record", &[], RECORD),
        text(
            "watch",
            &["watch"],
            "Whose they are, by the name in its configuration; null: the machine's",
        ),
        text("command", &["command"], "The command: `profile`"),
        integer("done", &["done"], "How many have given an answer"),
        integer("failed", &["failed"], "How many have given none"),
        integer(
            "shed_for_cpu",
            &["shed_for_cpu"],
            "How many were left out for want of processor time",
        ),
        integer(
            "shed_for_memory",
            &["shed_for_memory"],
            "How many were left out or cut short for want of memory",
        ),
        integer(
            "shed_for_disk",
            &["shed_for_disk"],
            "How many were left out for want of room on the disk",
        ),
        integer("cpu_ns", &["cpu_ns"], "Their processor time"),
        integer(
            "memory",
            &["memory"],
            "The most memory of one, with the agent's",
        ),
        integer(
            "all_cpu_ns",
            &["@cpu_ns"],
            "The processor time of the agent and all that it has started",
        ),
        integer("budget_ns", &["@budget_ns"], "What they might have used"),
        integer("own_memory", &["@memory"], "The agent's own memory"),
        integer("stored", &["@stored"], "The size of this host's tables"),
    ],
};
