//! Filters, after `ltrace(1)`.

use prototypes::filter::any_matches;
use prototypes::filter::{Filter, Where};

const LIBC: Where = Where {
    path: "/usr/lib/x86_64-linux-gnu/libc.so.6",
    soname: "libc.so.6",
    is_main: false,
};
const MAIN: Where = Where {
    path: "/bin/echo",
    soname: "echo",
    is_main: true,
};
const NAMED_MAIN: Where = Where {
    path: "/lib/MAIN",
    soname: "MAIN",
    is_main: false,
};

/// Each filter with the symbols in the C library and in the program that it names, of these.
const SYMBOLS: [&str; 5] = ["malloc", "free", "main", "func_f", "__malloc"];

fn named(filter: &Filter, place: Where) -> String {
    let found: Vec<&str> = SYMBOLS
        .into_iter()
        .filter(|symbol| filter.matches(symbol, place))
        .collect();
    found.join(" ")
}

#[test]
fn symbols_and_libraries() {
    let all = SYMBOLS.join(" ");
    let all = all.as_str();
    for (text, in_libc, in_main) in [
        ("malloc", "malloc", "malloc"),
        ("malloc+free", "malloc free", "malloc free"),
        ("+malloc", "malloc", "malloc"),
        ("malloc+free-@libc.so*", "", "malloc free"),
        ("@libc.so.6", all, ""),
        ("@libc.*-free", "malloc main func_f __malloc", ""),
        ("@MAIN", "", all),
        ("malloc@MAIN", "", "malloc"),
        (
            "-malloc",
            "free main func_f __malloc",
            "free main func_f __malloc",
        ),
        (
            "!malloc",
            "free main func_f __malloc",
            "free main func_f __malloc",
        ),
        // The last match wins.
        (
            "*-m*+malloc",
            "malloc free func_f __malloc",
            "malloc free func_f __malloc",
        ),
        ("malloc-malloc", "", ""),
        ("func*", "func_f", "func_f"),
        ("?alloc", "malloc", "malloc"),
        ("?all*", "malloc", "malloc"),
        (
            "[mf]*",
            "malloc free main func_f",
            "malloc free main func_f",
        ),
        ("[!mf]*", "__malloc", "__malloc"),
        ("[[:alpha:]]*-[a-l]*", "malloc main", "malloc main"),
        ("*\\*", "", ""),
        ("/.*alloc/", "malloc __malloc", "malloc __malloc"),
        ("/^malloc$|free/", "malloc free", "malloc free"),
        ("/[a-z]+/-free", "malloc main", "malloc main"),
        ("/.*alloc@libc.*/", "malloc __malloc", ""),
        ("/.*alloc/@/libc.*/", "malloc __malloc", ""),
        ("@/echo/", "", all),
        (
            "malloc@/usr/lib/x86_64-linux-gnu/libc.so.6+free@/bin/*",
            "malloc",
            "free",
        ),
        ("malloc@/usr/lib/*", "malloc", ""),
        ("malloc@//usr/.*/", "malloc", ""),
        ("@", all, all),
        ("*", all, all),
        ("mallo", "", ""),
    ] {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(named(&filter, LIBC), in_libc, "{text} in libc");
        assert_eq!(named(&filter, MAIN), in_main, "{text} in the program");
    }
    assert!(!Filter::parse("@MAIN").expect("ok").matches("f", NAMED_MAIN));
    assert!(
        Filter::parse("@^MAIN")
            .expect("ok")
            .matches("f", NAMED_MAIN)
    );
    assert!(
        Filter::parse("@[M]AIN")
            .expect("ok")
            .matches("f", NAMED_MAIN)
    );
}

#[test]
fn a_library_by_itself() {
    // -l takes signs as they are.
    let filter = Filter::library("libfoo-1+2.so").expect("ok");
    let place = Where {
        soname: "libfoo-1+2.so",
        ..LIBC
    };
    assert!(filter.matches("f", place));
    assert!(!filter.matches("f", LIBC));
    assert!(
        Filter::library("/lib(c|m).*/")
            .expect("ok")
            .matches("f", LIBC)
    );
    assert!(
        Filter::library("/usr/lib/*")
            .expect("ok")
            .matches("f", LIBC)
    );
    assert!(Filter::library("MAIN").expect("ok").matches("f", MAIN));
}

#[test]
fn a_sign_within_a_library_s_name_begins_no_rule() {
    for (text, soname) in [
        ("*@libruby-3.1*", "libruby-3.1.so.3.1"),
        ("*@libstdc++.so*", "libstdc++.so.6"),
        ("*@libx-1.+2.so", "libx-1.+2.so"),
        ("*@libwayland\\-client.so*", "libwayland-client.so.0"),
    ] {
        let filter = Filter::parse(text).expect(text);
        let place = Where { soname, ..LIBC };
        assert!(filter.matches("f", place), "{text}");
        assert!(!filter.matches("f", LIBC), "{text}");
        assert_eq!(filter.doubtful(), None, "{text}");
    }
    // The rest is a name, which may be that of a function.
    let filter = Filter::parse("*@libwayland-client.so*").expect("ok");
    assert_eq!(filter.doubtful(), Some("-client.so*"));
    let filter = Filter::parse("malloc+free").expect("ok");
    assert_eq!(filter.doubtful(), None);
}

#[test]
fn several_filters_and_what_they_ask_for() {
    let filters = ["malloc@libc*", "main"].map(|text| Filter::parse(text).expect("ok"));
    assert!(any_matches(&filters, "malloc", LIBC));
    assert!(any_matches(&filters, "main", LIBC));
    assert!(!any_matches(&filters, "malloc", MAIN));
    assert!(!filters[0].may_match(MAIN));
    assert!(filters[1].may_match(MAIN));
    let filter = Filter::parse("a+b*+c@libc.so.6-d").expect("ok");
    assert_eq!(filter.names().collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn what_is_wrong_is_shown_where_it_is() {
    for (text, column, message) in [
        ("", 1, "an empty filter: SYMBOL, @LIBRARY or SYMBOL@LIBRARY"),
        ("malloc+", 8, "nothing follows the sign"),
        ("malloc+-free", 8, "nothing follows the sign"),
        (
            "malloc+/fre",
            8,
            "the regular expression has no closing `/`",
        ),
        ("mal[loc", 4, "the `[` has no closing `]`"),
        ("malloc@lib[c", 11, "the `[` has no closing `]`"),
        ("malloc\\", 7, "nothing follows the backslash"),
        ("/a(b/", 2, "not a regular expression: unclosed group"),
    ] {
        let error = Filter::parse(text).expect_err(text);
        assert_eq!(
            (error.column, &*error.wrong.to_string()),
            (column, message),
            "{text}"
        );
    }
    let error = Filter::parse("malloc+/a(b/").expect_err("wrong");
    let expected = "filter, column 9: not a regular expression: unclosed group\n    malloc+/a(b/\n            ^";
    assert_eq!(error.to_string(), expected);
}
