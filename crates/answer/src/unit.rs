//! What the numbers of records are of, for whoever shows them to people. Names that end in `_ns` or hold `bytes` say it themselves; what
//! others are of is said here, and a test holds that each number of a record has its unit. Used by
//! `report::forms::markdown::cells`.

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number that names something: a process, a line.
    Id,
    /// How many.
    Count,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
}

/// Fields that name something.
const IDS: &[&str] = &[
    "child",
    "code",
    "further",
    "id",
    "inside",
    "line",
    "number",
    "owner",
    "owner_pid",
    "parent",
    "pid",
    "schema",
    "signal",
    "stands",
    "thread",
    "tid",
    "tids",
];

/// Fields that are bytes in every record that has them.
const SIZES: &[&str] = &[
    "cached",
    "copied",
    "deepest",
    "fastbins",
    "grown",
    "guard",
    "high_water",
    "hugetlb",
    "in_malloc",
    "largest",
    "mapped",
    "memory",
    "memory_budget",
    "page_tables",
    "parts",
    "pss",
    "resident",
    "resident_after",
    "resident_before",
    "resident_grown",
    "retained",
    "returnable",
    "rss",
    "scanned",
    "size",
    "stored",
    "swap",
    "system",
    "thread_stacks",
    "top",
    "unread",
    "wasted",
];

/// Fields that are bytes in these records, and something else in others.
const SIZES_OF: &[(&str, &[&str])] = &[
    ("allocator", &["free", "free_pages", "records", "used"]),
    ("arena", &["free", "used"]),
    ("change", &["after", "before"]),
    ("function", &["otherwise", "padding"]),
    ("frame", &["offset"]),
    ("growth", &["allocated"]),
    ("growth_total", &["allocated"]),
    ("leak", &["allocated"]),
    ("kernel", &["queued"]),
    ("plan", &["moved"]),
    ("row", &["allocated"]),
    ("stack", &["used"]),
    ("thread", &["depth"]),
    ("total", &["allocated"]),
];

/// Returns what a field of a record is of; of a field of an object in it, `rest.bytes`.
pub fn unit(record: &str, field: &str) -> Unit {
    let mut parts = field.rsplit('.');
    let name = parts.next().unwrap_or_default();
    let is_of = |(of, names): &(&str, &[&str])| *of == record && names.contains(&name);
    match name {
        _ if name.ends_with("_ns") => Unit::Time,
        _ if parts.any(|part| part == "parts") => Unit::Size,
        _ if IDS.contains(&name) => Unit::Id,
        _ if name.split('_').any(|word| word == "bytes") => Unit::Size,
        _ if SIZES.contains(&name) || SIZES_OF.iter().any(is_of) => Unit::Size,
        _ => Unit::Count,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// Fields that are counts in every record whose bytes [`SIZES_OF`] does not name.
    const COUNTS: &str = "alive arenas before_closed born buckets calls came came_unseen capacity checks classes closed_unseen count cut \
        damaged dead definitions depth dispatchers done dynamic empty_pages empty_pages_before ended errors events failed fibers finalizers \
        foreign free free_chunks freed_pages frames frozen functions garbage_cycles garbage_objects gone gone_objects grew growing heaps \
        holds_up idle in_cycles kept larger left left_out length limit live looks lost mapped_chunks mapped_chunks_said more new new_objects \
        now_live objects objects_before old on on_more open opened overruns own pages percent queued ran references returned roots rows same \
        samples seen shed_for_cpu shed_for_disk shed_for_memory shrank slept sockets sparse_pages total unnamed unread_pages unsure untold used verdicts allocated before waited";

    /// The names of all fields that are numbers, in the schema.
    fn numbers(schema: &Value, names: &mut BTreeSet<String>) {
        if let Some(Value::Object(fields)) = schema.get("properties") {
            let are = fields
                .iter()
                .filter(|(_, of)| of.to_string().contains("\"integer\""));
            names.extend(are.map(|(name, _)| name.clone()));
        }
        match schema {
            Value::Object(all) => all.values().for_each(|one| numbers(one, names)),
            Value::Array(all) => all.iter().for_each(|one| numbers(one, names)),
            _ => {}
        }
    }

    #[test]
    fn each_number_has_a_unit() {
        let schema = include_str!("../../../docs/json-schema.json");
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let mut names = BTreeSet::new();
        numbers(&schema, &mut names);
        assert!(names.len() > 150, "{names:?}");
        let counts: BTreeSet<&str> = COUNTS.split_whitespace().collect();
        for name in &names {
            let is_of_some = SIZES_OF.iter().any(|(_, of)| of.contains(&&**name));
            let is_count = counts.contains(&**name);
            match unit("", name) {
                Unit::Count => assert!(is_count || is_of_some, "{name} has no unit"),
                other => assert!(!is_count, "{name} is a count and {other:?}"),
            }
        }
        let known = counts.iter().chain(IDS).chain(SIZES);
        let gone: Vec<_> = known.filter(|name| !names.contains(**name)).collect();
        assert!(gone.is_empty(), "no record has {gone:?}");
    }

    #[test]
    fn a_word_may_have_another_unit_in_another_record() {
        assert_eq!(unit("total", "rest.allocated"), Unit::Size);
        assert_eq!(unit("allocations", "allocated"), Unit::Count);
        assert_eq!(unit("resident", "parts.objects"), Unit::Size);
        assert_eq!(unit("vm_heap", "used"), Unit::Count);
        assert_eq!(unit("arena", "used"), Unit::Size);
        assert_eq!(unit("compaction", "empty_pages_before"), Unit::Count);
        assert_eq!(unit("fork", "child"), Unit::Id);
    }
}
