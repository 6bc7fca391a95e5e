//! The four examples of 2009, on a real MariaDB: a script that runs already asks it to sleep for a second, through its
//! language's driver; lancet says what was asked, when, how long it took, and on which of the script's own lines' behalf.

use std::path::Path;

use crate::lines::{Shown, of, shown};
use crate::support::{Database, Interpreter, LIMIT, Snapshot, TempDir, chosen, database, until};
use crate::watch::{calls, hooked, left, text_holds};

/// What is watched in one language, and what that must show.
struct Example {
    language: &'static str,
    /// Loads the driver.
    driver: &'static str,
    /// The function that sends a query.
    query: &'static str,
    /// Whether it also waits for the answer.
    waits: bool,
    /// The other function.
    beside: &'static str,
    /// The query by its name in the language, and as what it is shown.
    named: &'static str,
    /// The driver's own file, if it is written in the language.
    library: Option<&'static str>,
}

const RUBY: Example = Example {
    language: "ruby",
    driver: "require 'sequel'; require 'mysql2'",
    query: "mysql_send_query",
    waits: false,
    beside: "gc",
    named: "ruby:Mysql2::Client#_query",
    library: Some("mysql2/client.rb:"),
};
const PYTHON: Example = Example {
    language: "python",
    driver: "import MySQLdb",
    query: "mysql_real_query",
    waits: true,
    beside: "PyEval_SaveThread",
    named: "python:_mysql.connection.query",
    library: Some("MySQLdb/connections.py:"),
};
const PERL: Example = Example {
    language: "perl",
    driver: "use DBD::mysql",
    query: "mysql_real_query",
    waits: true,
    beside: "Perl_push_scope",
    // All methods of DBI have one C function.
    named: "perl:DBI::db::selectrow_array",
    library: None,
};

/// Watches the script of an interpreter until `enough` of what is told is there; all calls that were told.
fn watched(
    interpreter: &Interpreter,
    server: &Database,
    what: &[&str],
    enough: impl Fn(&[Shown]) -> bool,
) -> Vec<Shown> {
    let folder = TempDir::new(&format!("query-{interpreter}").replace(' ', "-"));
    let out = folder.join("out").display().to_string();
    let socket = server.socket().display().to_string();
    let mut guest = interpreter.start("query", &[&socket]);
    let before = Snapshot::take(guest.pid);
    let mut arguments = vec!["-ttTg", "-o", &out];
    arguments.extend(what);
    let watch = hooked(calls(guest.pid, &arguments));
    let told = || shown(&std::fs::read_to_string(Path::new(&out)).unwrap_or_default());
    until(LIMIT, &format!("{interpreter}: queries"), || {
        enough(&told()).then_some(())
    });
    let output = left(watch, &interpreter.to_string());
    text_holds(&before, guest.pid, &interpreter.to_string(), &output);
    guest.tell("");
    assert_eq!(guest.find("answer "), "0", "{interpreter}");
    told()
}

/// The line is the script's own, whatever of the driver's stands between.
fn of_the_script(interpreter: &Interpreter, query: &Shown, library: Option<&str>) {
    let about = format!("{interpreter}: {query:?}");
    let script = interpreter.fixture("query").display().to_string();
    let place = query.line.strip_prefix(&script);
    let place = place.unwrap_or_else(|| panic!("{about}"));
    assert!(place.contains("show'"), "{about}");
    let through = query.line.split_once(" (").map(|(_, library)| library);
    assert_eq!(through.is_some(), library.is_some(), "{about}");
    let expected = library.unwrap_or_default();
    assert!(through.unwrap_or_default().starts_with(expected), "{about}");
}

/// Queries by their name in the language, with the language's own values.
fn asks(interpreter: &Interpreter, named: &[&Shown], library: Option<&str>) {
    assert!(named.len() >= 2, "{interpreter}: {named:?}");
    for query in named {
        let text = ["\"SELECT sleep(1)\"", "'SELECT sleep(1)'"];
        let asked = text.iter().any(|text| query.arguments.contains(text));
        assert!(asked, "{interpreter}: {query:?}");
        assert!(query.took >= 1.0, "{interpreter}: {query:?}");
        of_the_script(interpreter, query, library);
    }
}

/// Two queries at least, each with its text, when and how long; the other function beside them.
fn example(example: &Example) {
    let Some(server) = database("drivers") else {
        return;
    };
    for interpreter in chosen(example.language, "drivers") {
        if !interpreter.runs("drivers", example.driver) {
            continue;
        }
        // By itself: a call that makes others that are shown stands on two lines.
        let (_, name) = example.named.split_once(':').expect("a language");
        let told = watched(&interpreter, &server, &["-x", example.named], |told| {
            of(told, name).len() >= 2
        });
        asks(&interpreter, &of(&told, name), example.library);
        let what = ["-x", example.query, "-x", example.beside];
        let told = watched(&interpreter, &server, &what, |told| {
            of(told, example.query).len() >= 2 && !of(told, example.beside).is_empty()
        });
        let queries = of(&told, example.query);
        for query in &queries {
            let (address, rest) = query.arguments.split_once(", ").expect("arguments");
            assert!(address.starts_with("0x"), "{interpreter}: {query:?}");
            assert_eq!(rest, "\"SELECT sleep(1)\", 15", "{interpreter}: {query:?}");
            assert_eq!(query.result, "0", "{interpreter}: {query:?}");
            assert_eq!(query.took >= 1.0, example.waits, "{interpreter}: {query:?}");
            of_the_script(&interpreter, query, example.library);
        }
        // One follows the other.
        let apart = queries[1].time - queries[0].time;
        assert!(apart >= 1.0, "{interpreter}: {apart} s: {queries:?}");
    }
}

#[test]
fn queries_of_a_ruby_with_sequel_and_mysql2_beside_its_garbage_collection() {
    example(&RUBY);
}

#[test]
fn queries_of_a_python_with_mysqldb_beside_the_lock_it_gives_up() {
    example(&PYTHON);
}

#[test]
fn queries_of_a_perl_with_dbd_mysql_beside_its_scopes() {
    example(&PERL);
}

/// PHP has its own protocol code, without a C symbol for it: the query is seen by its name in PHP.
#[test]
fn queries_of_a_php_with_mysqli_beside_its_tables() {
    let Some(server) = database("drivers") else {
        return;
    };
    for interpreter in chosen("php", "drivers") {
        if !interpreter.runs("drivers", "new ReflectionFunction('mysqli_query');") {
            continue;
        }
        let told = watched(&interpreter, &server, &["-x", "php:mysqli_query"], |told| {
            of(told, "mysqli_query").len() >= 2
        });
        asks(&interpreter, &of(&told, "mysqli_query"), None);
        let what = ["-x", "zend_hash_find"];
        let told = watched(&interpreter, &server, &what, |told| {
            of(told, "zend_hash_find").len() >= 2
        });
        for call in of(&told, "zend_hash_find") {
            assert!(
                call.line.ends_with("query.php:10 in 'show'"),
                "{interpreter}: {call:?}"
            );
        }
    }
}
