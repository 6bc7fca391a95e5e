//! Records of `lancet calls` and what lies between two marks, on made-up calls.

use super::*;

fn call(tid: u32, name: &str, subject: u64, times: (u64, u64), result: i32) -> Call {
    let function = functions::named(name).expect("a known function");
    Call {
        tid,
        what: What::Of(Made {
            function,
            bytes: function.bytes(&[subject], result as i64 as u64),
            subject,
            result,
            about: 0,
            line: 0,
        }),
        start: times.0,
        end: times.1,
    }
}

fn mark(tid: u32, number: u64, at: u64) -> Call {
    Call {
        tid,
        what: What::Mark { number, lost: 0 },
        start: at,
        end: at,
    }
}

fn keep(counters: &Counters, call: Call) {
    counters.keep(counters.kept(), call);
}

fn counters(calls: impl IntoIterator<Item = Call>) -> Counters {
    let counters = Counters::default();
    for call in calls {
        keep(&counters, call);
    }
    counters
}

fn sums(calls: impl IntoIterator<Item = Call>) -> Vec<(&'static str, u64, u64, u64)> {
    let found = sums::of(&sums::counted(calls.into_iter())).into_iter();
    found
        .map(|sum| (sum.group, sum.calls, sum.time_ns, sum.bytes))
        .collect()
}

#[test]
fn calls_between_two_marks_are_those_of_their_thread() {
    let counters = counters([
        call(1, "read", 3, (1, 5), 100),
        mark(1, 7, 10),
        call(1, "read", 3, (11, 15), 20),
        call(2, "read", 3, (11, 19), 400),
        mark(2, 9, 20),
        call(1, "write", 3, (21, 24), -1),
        mark(1, 8, 30),
        call(1, "read", 3, (31, 35), 1000),
    ]);
    let Ok(found) = counters.between(&[(7, 8)], &mut || {}) else {
        panic!("both marks are there");
    };
    assert_eq!(found.lost, [""; 0]);
    let told: Vec<_> = found
        .sums
        .iter()
        .map(|sum| (sum.group, sum.calls, sum.time_ns, sum.bytes))
        .collect();
    assert_eq!(told, [("read", 1, 4, 20), ("write", 1, 3, 0)]);
    // A mark of another thread is no beginning.
    assert!(matches!(
        counters.between(&[(9, 8)], &mut || {}),
        Err(Lacks::Beginning)
    ));
}

#[test]
fn the_last_calls_are_kept() {
    let counters = counters([mark(1, 1, 0)]);
    for at in 0..MOST_KEPT as u64 {
        keep(&counters, call(1, "read", 3, (at, at), 1));
    }
    keep(&counters, mark(1, 2, u64::MAX));
    assert_eq!(counters.kept().calls.len(), MOST_KEPT);
    assert!(matches!(
        counters.between(&[(1, 2)], &mut || {}),
        Err(Lacks::Beginning)
    ));
    counters.kept().over = true;
    assert!(matches!(
        counters.between(&[(2, 3)], &mut || {}),
        Err(Lacks::Calls)
    ));
}

/// A mark that was dropped is no reason to have all functions hooked anew; silence is.
#[test]
fn a_mark_that_does_not_come_is_told_from_silence() {
    let counters = counters([mark(1, 1, 0)]);
    let mut looks = 0;
    let mut others_call = || {
        looks += 1;
        keep(&counters, call(2, "read", 3, (1, 2), 1));
    };
    assert_eq!(
        counters.between(&[(1, 2)], &mut others_call).err(),
        Some(Lacks::End)
    );
    assert_eq!(
        counters.between(&[(1, 2)], &mut || {}).err(),
        Some(Lacks::Calls)
    );
    assert!(
        looks > 1,
        "what is to be done meanwhile was done {looks} times"
    );
}

#[test]
fn a_thread_may_work_in_steps() {
    let counters = counters([
        mark(1, 1, 0),
        call(1, "PQsendQuery", 5, (1, 2), 1),
        mark(1, 2, 3),
        // Another request's.
        call(1, "read", 3, (4, 5), 100),
        mark(1, 3, 6),
        call(1, "PQgetResult", 5, (7, 9), 1),
        mark(1, 4, 10),
    ]);
    let found = counters
        .between(&[(1, 2), (3, 4)], &mut || {})
        .map(|it| it.sums);
    let wanted = Sum {
        group: "postgres",
        calls: 1,
        time_ns: 8,
        bytes: 0,
    };
    assert_eq!(found.unwrap_or_default(), [wanted]);
    assert!(
        counters
            .between(&[], &mut || {})
            .is_ok_and(|it| it.sums.is_empty())
    );
}

#[test]
fn what_is_not_told_is_said() {
    let counters = Counters::default();
    counters.hear(Lacking::Hooks("malloc cannot be hooked".into()));
    counters.hear(Lacking::Calls(5));
    keep(&counters, mark(1, 1, 0));
    keep(&counters, mark(1, 2, 1));
    let lost = |from, to| {
        counters
            .between(&[(from, to)], &mut || {})
            .map(|it| it.lost)
            .unwrap_or_default()
    };
    assert_eq!(lost(1, 2), ["malloc cannot be hooked"]);
    counters.hear(Lacking::Calls(8));
    assert!(lost(1, 2)[1].starts_with("3 calls of all threads were lost"));
}

/// Who asks later is not told what was lost since.
#[test]
fn what_was_lost_later_is_not_told() {
    let counters = Counters::default();
    keep(&counters, mark(1, 1, 0));
    keep(&counters, mark(1, 2, 1));
    counters.hear(Lacking::Calls(5));
    // Of another thread, and so soon that it may have been lost before.
    keep(&counters, mark(2, 3, HEARD));
    let lost = || {
        counters
            .between(&[(1, 2)], &mut || {})
            .map(|it| it.lost.len())
    };
    assert_eq!(lost(), Ok(1));
    let counters = Counters::default();
    keep(&counters, mark(1, 1, 0));
    keep(&counters, mark(1, 2, 1));
    keep(&counters, mark(2, 3, HEARD + 1));
    counters.hear(Lacking::Calls(5));
    let lost = counters
        .between(&[(1, 2)], &mut || {})
        .map(|it| it.lost.len());
    assert_eq!(lost, Ok(0));
}

/// Nobody waits for a mark that was here.
#[test]
fn marks_that_are_long_gone_are_not_waited_for() {
    let counters = counters([mark(1, 1, 0), mark(1, 2, 1)]);
    for at in 0..MOST_KEPT as u64 {
        keep(&counters, call(1, "read", 3, (at, at), 1));
    }
    let mut looked = false;
    let found = counters.between(&[(1, 2)], &mut || looked = true);
    assert_eq!(found.err(), Some(Lacks::Beginning));
    assert!(!looked);
}

#[test]
fn only_the_outermost_of_a_group_counts() {
    let found = sums([
        call(1, "PQsendQuery", 5, (11, 12), 1),
        call(1, "PQgetResult", 5, (12, 19), 1),
        call(1, "PQexec", 5, (10, 20), 1),
        call(1, "PQexec", 5, (30, 34), 1),
    ]);
    assert_eq!(found, [("postgres", 2, 14, 0)]);
}

#[test]
fn a_query_lasts_until_its_answer() {
    let found = sums([
        call(1, "mysql_send_query", 5, (10, 12), 0),
        call(1, "mysql_read_query_result", 5, (100, 110), 0),
        call(1, "mysql_store_result", 5, (120, 125), 0),
        // Nobody has asked for its answer yet.
        call(1, "mysql_send_query", 5, (200, 203), 0),
    ]);
    assert_eq!(found, [("mysql", 2, 108, 0)]);
}

/// Two connections of one thread, of which the second is answered first.
#[test]
fn queries_at_the_same_time_count_each() {
    let found = sums([
        call(1, "PQsendQuery", 5, (10, 11), 1),
        call(1, "PQsendQuery", 6, (12, 13), 1),
        call(1, "PQgetResult", 6, (14, 20), 1),
        call(1, "PQgetResult", 5, (21, 30), 1),
        // Within another call, on a connection of its own.
        call(1, "PQsendQuery", 7, (41, 42), 1),
        call(1, "PQgetResult", 7, (43, 44), 1),
        call(1, "PQexec", 7, (40, 50), 1),
    ]);
    assert_eq!(found, [("postgres", 3, 30, 0)]);
}

#[test]
fn an_execution_of_sqlite_has_many_steps() {
    let found = sums([
        call(1, "sqlite3_step", 5, (10, 11), 100),
        call(1, "sqlite3_step", 5, (12, 13), 100),
        call(1, "sqlite3_step", 5, (14, 15), 101),
        call(1, "sqlite3_step", 6, (16, 17), 100),
        call(1, "sqlite3_reset", 6, (18, 19), 0),
        call(1, "sqlite3_step", 6, (20, 21), 101),
    ]);
    assert_eq!(found, [("sqlite", 3, 6, 0)]);
}

#[test]
fn a_record_is_a_call_a_mark_or_nothing() {
    let record = |function: &str, argument: &str, path: &str| {
        format!(
            "{{\"record\":\"call\",\"pid\":1,\"tid\":4,\"time_ns\":50,\"duration_ns\":7,\"function\":\"{function}\",\
             \"arguments\":[{argument:?}],\"registers\":[\"0x3\"],\"rax\":\"0x9\",\
             \"place\":{{\"path\":\"{path}\",\"line\":1,\"function\":\"x\"}},\"library\":null}}"
        )
    };
    let mut texts = Texts::default();
    let mut of = |text: &str| call_of(&Record::of(text.as_bytes())?, Some("/gem/lib/"), &mut texts);
    let read = of(&record("read", "3", "/app.rb")).expect("a call");
    assert!(matches!(
        read.what,
        What::Of(Made {
            bytes: 9,
            subject: 3,
            ..
        })
    ));
    assert_eq!((read.tid, read.start, read.end), (4, 50, 57));
    assert!(of(&record("read", "3", "/gem/lib/lancet.rb")).is_none());
    assert!(of(&record("strlen", "3", "/app.rb")).is_none());
    let mark = of(&record(
        "getenv",
        "\"LANCET_TRACE_12\"",
        "/gem/lib/lancet.rb",
    ));
    assert!(matches!(
        mark.map(|mark| mark.what),
        Some(What::Mark { number: 12, .. })
    ));
    assert!(of(&record("getenv", "\"HOME\"", "/app.rb")).is_none());
    assert!(of("{\"record\":\"guest\"}").is_none());
    assert!(of("{\"record\":\"call\",").is_none());
}

#[test]
fn each_group_has_functions() {
    for group in GROUPS.iter().copied().chain(["memory", "waits"]) {
        assert!(
            of_group(group).is_some_and(|mut all| all.next().is_some()),
            "{group}"
        );
    }
    assert!(words(&["no such group".into()]).is_none());
}

/// A record of thread 1 as `lancet calls` writes it.
fn told(
    function: &str,
    arguments: &[&str],
    register: u64,
    times: (u64, u64),
    result: i32,
) -> Record {
    let record = serde_json::json!({
        "record": "call", "tid": 1, "time_ns": times.0, "duration_ns": times.1 - times.0, "function": function,
        "arguments": arguments, "registers": [format!("{register:#x}")], "rax": format!("{result:#x}"),
        "place": {"path": "/app/cart.rb", "line": 12, "function": "total"}, "library": null
    });
    // `record` is the first name of a line.
    let text = record.to_string().replacen("\"record\":\"call\",", "", 1);
    let line = format!("{{\"record\":\"call\",{}", text.trim_start_matches('{'));
    Record::of(line.as_bytes()).expect("a call")
}

fn details(records: &[Record]) -> Details {
    let counters = counters([mark(1, 1, 0)]);
    for record in records {
        counters.keep_record(record, None);
    }
    keep(&counters, mark(1, 2, 1_000_000));
    let Ok(found) = counters.between(&[(1, 2)], &mut || {}) else {
        panic!("both marks are there");
    };
    found.details
}

#[test]
fn statements_are_told_by_their_shape_and_line() {
    let select = "\"SELECT \\\"a\\\" FROM t WHERE id = 7\"";
    let found = details(&[
        told(
            "sqlite3_prepare_v2",
            &["0x5", select, "-1", "0x77"],
            5,
            (10_000, 20_000),
            0,
        ),
        told("sqlite3_step", &["0x77"], 0x77, (30_000, 50_000), 101),
        told("sqlite3_reset", &["0x77"], 0x77, (50_000, 51_000), 0),
        told("sqlite3_step", &["0x77"], 0x77, (60_000, 70_000), 101),
        told("sqlite3_step", &["0x88"], 0x88, (80_000, 81_000), 101),
    ]);
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (row.about.as_deref(), row.line, row.calls, row.time_ns))
        .collect();
    let shape = "SELECT a FROM t WHERE id = ?";
    assert_eq!(
        rows,
        [
            (Some(shape), Some(12), 2, 40_000),
            // What ends an execution, and one whose statement was prepared before: of no known statement.
            (None, Some(12), 1, 2_000),
        ]
    );
    assert_eq!(found.within_ns, 1_000_000);
}

#[test]
fn what_waits_within_a_query_is_the_query() {
    let found = details(&[
        told(
            "PQsendQuery",
            &["0x5", "\"SELECT 1\""],
            5,
            (10_000, 20_000),
            1,
        ),
        told(
            "poll",
            &["[{ 9, 0x1, 0 }]", "1", "-1"],
            1,
            (30_000, 90_000),
            1,
        ),
        told("PQgetResult", &["0x5"], 5, (91_000, 95_000), 1),
        // A sleep of the VM's, by a condition of the C library.
        told(
            "pthread_cond_timedwait",
            &["0x1"],
            1,
            (101_000, 199_000),
            110,
        ),
        told(
            "rb_thread_wait_for",
            &["{ 0, 5 }"],
            0,
            (100_000, 200_000),
            0,
        ),
    ]);
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (row.group, row.about.as_deref(), row.calls, row.outer_ns))
        .collect();
    assert_eq!(
        rows,
        [
            ("sleep", Some("sleep"), 1, 100_000),
            ("postgres", Some("SELECT ?"), 1, 85_000),
        ]
    );
    let pieces: Vec<_> = found
        .pieces
        .iter()
        .map(|piece| (piece.row, piece.at_ns, piece.time_ns))
        .collect();
    assert_eq!(pieces, [(1, 10_000, 85_000), (0, 100_000, 100_000)]);
}

/// Its own time is processor time.
#[test]
fn what_sqlite_waits_for_is_told() {
    let found = details(&[
        told("nanosleep", &["0x1"], 1, (20_000, 30_000), 0),
        told("fsync", &["0x9"], 9, (40_000, 90_000), 0),
        told("sqlite3_step", &["0x77"], 0x77, (10_000, 100_000), 101),
    ]);
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (row.group, row.time_ns, row.outer_ns))
        .collect();
    assert_eq!(
        rows,
        [
            ("sqlite", 90_000, 30_000),
            ("disk", 50_000, 50_000),
            ("sleep", 10_000, 10_000),
        ]
    );
}

/// What lies at the address of a statement that is none any more is another one.
#[test]
fn a_statement_that_has_ended_gives_no_name() {
    let prepare = ["0x5", "\"SELECT 1\"", "-1", "0x77"];
    let found = details(&[
        told("sqlite3_prepare_v2", &prepare, 5, (10_000, 20_000), 0),
        told("sqlite3_finalize", &["0x77"], 0x77, (30_000, 31_000), 0),
        told("sqlite3_step", &["0x77"], 0x77, (40_000, 50_000), 101),
    ]);
    let stepped = found.rows.iter().find(|row| row.calls == 1);
    assert_eq!(stepped.and_then(|row| row.about.as_deref()), None);
}

/// However much a program calls, an answer has its bounds.
#[test]
fn rows_and_pieces_are_bounded() {
    let sum = |number: u64| format!("\"SELECT {number} FROM t{number}\"");
    let records: Vec<Record> = (0..1000)
        .map(|number| {
            let times = (number * 900 + 1, number * 900 + 100);
            told("PQexec", &["0x5", &sum(number)], 5, times, 1)
        })
        .collect();
    let found = details(&records);
    assert_eq!((found.rows.len(), found.pieces.len()), (300, 300));
    assert_eq!(found.left_out, 700 + 600);
}
