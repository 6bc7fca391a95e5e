//! Statements as they are written, and what becomes of them; and laws that hold for any text.

use super::Dialect::{self, MySql, PostgreSql, Sqlite};
use super::normalise;
use proptest::prelude::*;

const ALL: [Dialect; 3] = [MySql, PostgreSql, Sqlite];

#[track_caller]
fn all(text: &str, expected: &str) {
    for dialect in ALL {
        assert_eq!(normalise(text, dialect), expected, "{dialect:?}");
    }
}

#[test]
fn values_are_left_out() {
    all("SELECT sleep(1)", "SELECT sleep(?)");
    all(
        "SELECT a, 'it''s', 1.5e-3, .5, 0xFF, x'0F' FROM t1 WHERE b='x' AND c = -7",
        "SELECT a, ?, ?, ?, ?, ? FROM t1 WHERE b=? AND c = ?",
    );
    all(
        "SELECT a-1, a - 1, (2)-3, -4",
        "SELECT a-?, a - ?, (?)-?, ?",
    );
    all(
        "UPDATE t SET a = NULL, b = TRUE WHERE c IS NOT NULL;",
        "UPDATE t SET a = NULL, b = TRUE WHERE c IS NOT NULL",
    );
}

#[test]
fn space_and_comments_are_one_space() {
    all(
        "  SELECT\n\t1 ,2 /* who */ FROM\r\n t ; ",
        "SELECT ?, ? FROM t",
    );
    all("SELECT 1 -- who\nFROM t", "SELECT ? FROM t");
    all("SELECT/**/a", "SELECT a");
    all("", "");
    all("/* only */", "");
}

#[test]
fn lists_of_values_are_folded() {
    all(
        "SELECT a FROM t WHERE b IN (1, 2,3)",
        "SELECT a FROM t WHERE b IN (…)",
    );
    all(
        "SELECT a FROM t WHERE b in('x')",
        "SELECT a FROM t WHERE b in(…)",
    );
    all(
        "INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')",
        "INSERT INTO t (a, b) VALUES (…)",
    );
    all(
        "INSERT INTO t VALUES (1, now()), (2, now())",
        "INSERT INTO t VALUES (?, now()), (?, now())",
    );
    all("SELECT f(1, 2), g()", "SELECT f(?, ?), g()");
    all(
        "SELECT a FROM t WHERE (b, c) IN ((1, 2), (3, 4))",
        "SELECT a FROM t WHERE (b, c) IN ((…))",
    );
    all(
        "SELECT a FROM t WHERE b IN (SELECT 1)",
        "SELECT a FROM t WHERE b IN (SELECT ?)",
    );
}

#[test]
fn mysql() {
    let is = |text, expected: &str| assert_eq!(normalise(text, MySql), expected);
    is(r"SELECT 'a\'b', 'a\\', 1", "SELECT ?, ?, ?");
    is(r#"SELECT "a\"b" FROM `a b`"#, "SELECT ? FROM `a b`");
    is("SELECT 1 # who\nFROM t", "SELECT ? FROM t");
    is("SELECT 5--5, a--b", "SELECT ?-?, a- -b");
    is(
        "SELECT _utf8mb4'x', N'x', b'01', @a, @@b",
        "SELECT ?, ?, ?, @a, @@b",
    );
    is(
        "SELECT a FROM t WHERE b = ? LIMIT 10, 20",
        "SELECT a FROM t WHERE b = ? LIMIT ?, ?",
    );
    is("/*!40001 SELECT */ 1 /* a /* b */", "?");
}

#[test]
fn postgresql() {
    let is = |text, expected: &str| assert_eq!(normalise(text, PostgreSql), expected);
    is(r"SELECT 'a\', E'a\'b', U&'x', 1", "SELECT ?, ?, ?, ?");
    is(r#"SELECT "a b"."c" FROM t"#, r#"SELECT "a b"."c" FROM t"#);
    is(
        "SELECT $1, $tag$ it's $1 $tag$, $$x$$, a[1]",
        "SELECT ?, ?, ?, a[?]",
    );
    is(
        "SELECT a FROM t WHERE b IN ($1, $2)",
        "SELECT a FROM t WHERE b IN (…)",
    );
    is("SELECT 1 /* a /* b */ c */ FROM t --who", "SELECT ? FROM t");
    is("SELECT a #> '{b}', c::int", "SELECT a #> ?, c::int");
}

#[test]
fn sqlite() {
    let is = |text, expected: &str| assert_eq!(normalise(text, Sqlite), expected);
    is(
        r"SELECT 'a\', [a b], `c`, ?1, :a, @b, $c",
        r"SELECT ?, [a b], `c`, ?, ?, ?, ?",
    );
    is(
        "SELECT a FROM t WHERE b=?1--who",
        "SELECT a FROM t WHERE b=?",
    );
}

#[test]
fn what_was_cut_ends_with_the_text() {
    all("SELECT 'it", "SELECT ?");
    all("SELECT 1 /* who", "SELECT ?");
    assert_eq!(normalise("SELECT $a$ x", PostgreSql), "SELECT ?");
    assert_eq!(normalise(r"SELECT 'a\", MySql), "SELECT ?");
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(&ALL[..])
}

/// What a program writes into a quoted string, so that the database gets this text.
fn quoted(text: &str, dialect: Dialect) -> String {
    let doubled = text.replace('\'', "''");
    match dialect {
        MySql => format!("'{}'", doubled.replace('\\', "\\\\")),
        _ => format!("'{doubled}'"),
    }
}

proptest! {
    #[test]
    fn any_text_is_one_line_and_stays_what_it_became(text in any::<String>(), dialect in dialect()) {
        let once = normalise(&text, dialect);
        prop_assert!(!once.contains(char::is_control), "{once:?}");
        prop_assert!(!once.contains("  ") || text.contains(['"', '`', '[']), "{once:?}");
    }

    #[test]
    fn what_looks_like_sql_stays_what_it_became(
        words in prop::collection::vec(
            prop::sample::select(&["SELECT", "a", "IN", "(", ")", ",", "'x'", "1", "-", "=", "/* c */", "?", " ", "\n", "b.c", ";"][..]),
            0..40,
        ),
        dialect in dialect(),
    ) {
        let once = normalise(&words.concat(), dialect);
        prop_assert_eq!(normalise(&once, dialect), once);
    }

    #[test]
    fn values_do_not_part_statements(
        text in any::<String>(),
        other in any::<String>(),
        number in any::<f64>().prop_filter("a number", |number| number.is_finite()),
        dialect in dialect(),
    ) {
        let statement = |text: &str, number: f64| {
            let value = quoted(text, dialect);
            normalise(&format!("SELECT a FROM t WHERE b = {value} AND c > {number:e} AND d IN ({value}, {number})"), dialect)
        };
        prop_assert_eq!(statement(&text, number), statement(&other, 1.0));
        prop_assert_eq!(statement(&text, number), "SELECT a FROM t WHERE b = ? AND c > ? AND d IN (…)");
    }
}
