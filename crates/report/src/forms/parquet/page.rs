//! The page `docs/schema.md`, made of the tables and held against them.

use std::fmt::Write;
use std::path::Path;

use super::schema::{CAPTURE, COMMON, COMMONS, Column, Kind, SCHEMA, STACK, TABLES};

const HEAD: &str = "\
# The tables of Parquet files

Made from the types by a test: `LANCET_WRITE_DOCS=1 cargo test -p lancet-report page`. How to write and ask them: [fleet.md](fleet.md).

`--format parquet -o FILE` writes the rows of one answer, which are one table: `mem` writes `alloc_agg`, `heap` `heap_class`, `calls` (`-c`)
`call_agg`, `syscalls` (`-c`) `syscall_agg`, `profile` `sample`, `tune` `tune_fact`. `lancet export FILE… -o DIR` writes all tables of answers that
were saved with `--json`, and of profiles that were saved with `--save`; `lancet agent` writes the same:

    DIR/TABLE/dt=YYYY-MM-DD/HOST-CAPTURE.parquet

The day is that of `end_ns` in UTC. Files are compressed with zstd, sorted by `file` and `line`, and have statistics of columns and pages. Each value
may be null. Sizes are bytes, times that end in `_ns` are nanoseconds. What rows mean is said where the command is described.
";

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Stack => "text",
        Kind::Integer => "int64",
        Kind::Flag => "boolean",
        Kind::Texts => "list of texts",
        Kind::Frames => "list of {function text, file text, line int64}",
    }
}

fn table(page: &mut String, columns: &[Column]) {
    page.push_str("\n| column | type | meaning |\n|---|---|---|\n");
    for column in columns {
        let Column { name, about, .. } = column;
        writeln!(page, "| `{name}` | {} | {about} |", kind(column.kind)).expect("memory");
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    writeln!(
        page,
        "\nThis is schema {SCHEMA} (`lancet.schema` in the metadata of a file). The number rises when a table or column goes away or changes its meaning; new\nones may come without that, so read files of several versions by name (`union_by_name` of DuckDB, `mergeSchema` of Spark)."
    )
    .expect("memory");
    write!(
        page,
        "\n## In every table\n\nThe first {COMMONS} columns.\n"
    )
    .expect("memory");
    table(&mut page, &COMMON);
    for one in [&CAPTURE, &STACK].into_iter().chain(TABLES) {
        write!(page, "\n## `{}`\n\n{}\n", one.name, one.about).expect("memory");
        table(&mut page, one.columns);
    }
    page
}

#[test]
fn the_page_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.md");
    if std::env::var_os("LANCET_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("the file can be written");
        return;
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        is == page(),
        "docs/schema.md is not what the tables say: LANCET_WRITE_DOCS=1 cargo test -p lancet-report page"
    );
}
