//! Whose line is told: the application's, through however many frames of libraries, as the script itself sees them.

use std::collections::{BTreeMap, BTreeSet};

use crate::lines::{Shown, of, shown};
use crate::support::{Guest, Interpreter, LIMIT, Snapshot, TempDir, chosen, lancet, run};
use crate::watch::{calls, hooked, left, text_holds};

/// What a script says of a call.
#[derive(Debug)]
struct Said {
    /// `PATH:LINE`.
    place: String,
    /// Ends its function's name; of what is no function, a word in brackets.
    name: String,
    /// The nearest frame's place.
    nearest: String,
}

/// What the script says of all its calls, by their number.
fn said(guest: &mut Guest) -> BTreeMap<u64, Said> {
    guest.tell("go");
    let mut all = BTreeMap::new();
    loop {
        let line = guest
            .line()
            .unwrap_or_else(|| panic!("{}", guest.complaints()));
        if line == "end" {
            return all;
        }
        let read = || {
            let (number, rest) = line.strip_prefix("told ")?.split_once(' ')?;
            let (application, nearest) = rest.split_once(" | ")?;
            let (place, name) = application.rsplit_once(' ')?;
            let said = Said {
                place: place.into(),
                name: name.into(),
                nearest: nearest.rsplit_once(' ')?.0.into(),
            };
            Some((number.parse().ok()?, said))
        };
        let (number, one) = read().unwrap_or_else(|| panic!("{line}"));
        all.insert(number, one);
    }
}

/// The number that `umask` is called with, which is shown in octal.
fn number(call: &Shown) -> u64 {
    u64::from_str_radix(&call.arguments, 8).unwrap_or_else(|_| panic!("{call:?}"))
}

/// The last names of a place, as a library's line is shown.
fn ends_as_short(line: &str, nearest: &str) -> bool {
    let file = nearest.rsplit('/').next().unwrap_or(nearest);
    line.ends_with(&format!("/{file})")) || line.ends_with(&format!(" ({file})"))
}

/// Whether a place is in a library of the fixture; where that is the nearest to the application, no line is its own.
fn is_a_library_s(place: &str) -> bool {
    ["/gems/", "/site-packages/", "/site_perl/", "/vendor/"]
        .iter()
        .any(|folder| place.contains(folder))
}

/// Whether a call is told as one that no line of the application has made, with the nearest line.
fn is_nobody_s(call: &Shown, said: &Said) -> bool {
    call.line.starts_with("(no application line)") && ends_as_short(&call.line, &said.nearest)
}

/// Each call is told with the line that the script says.
fn holds(what: &str, said: &BTreeMap<u64, Said>, told: &[Shown], nearest: bool) {
    for (number_said, said) in said {
        let calls: Vec<&Shown> = of(told, "umask")
            .into_iter()
            .filter(|call| number(call) == *number_said)
            .collect();
        assert!(
            !calls.is_empty(),
            "{what}: {number_said:o}: {said:?}: {told:?}"
        );
        for call in calls {
            let place = if nearest { &said.nearest } else { &said.place };
            let about = format!("{what}: {said:?}\n{call:?}");
            // Where the stack was not seen to its end, the library's line stands for itself.
            if !nearest && call.line.starts_with("(no application line)") {
                let right = is_a_library_s(&said.place) && is_nobody_s(call, said);
                assert!(right, "{about}");
                continue;
            }
            let rest = call.line.strip_prefix(&**place);
            let rest = rest.unwrap_or_else(|| panic!("{about}"));
            let bounds = rest.is_empty() || rest.starts_with(" in '") || rest.starts_with(" (");
            assert!(bounds, "{about}");
            let through = !nearest && said.place != said.nearest;
            assert_eq!(
                through && ends_as_short(&call.line, &said.nearest),
                through,
                "{about}"
            );
            assert!(through || !call.line.ends_with(')'), "{about}");
            // So Ruby 3.4's own tables name evaluated text, which a backtrace shows by the method around it.
            let compiled = call.line.contains(" in '<compiled>'");
            if !nearest
                && !compiled
                && !matches!(&*said.name, "(eval)" | "(file)" | "eval" | "include")
            {
                assert!(call.line.contains(&format!("{}'", said.name)), "{about}");
            }
        }
    }
}

/// Runs a script under lancet with these options; what it said, and what was told.
fn watched(
    test: &str,
    interpreter: &Interpreter,
    arguments: &[&str],
    options: &[&str],
) -> (BTreeMap<u64, Said>, String) {
    let folder = TempDir::new(&format!("{test}-{interpreter}").replace(' ', "-"));
    let out = folder.join("out").display().to_string();
    let mut guest = interpreter.start("through", arguments);
    let before = Snapshot::take(guest.pid);
    let mut what = vec!["-x", "umask", "-o", &out];
    what.extend(options);
    let watch = hooked(calls(guest.pid, &what));
    let said = said(&mut guest);
    let output = left(watch, &interpreter.to_string());
    text_holds(&before, guest.pid, &interpreter.to_string(), &output);
    guest.ends_with_nothing(&interpreter.to_string());
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    (said, text)
}

/// All ways of a language; `also`: an argument for more of them, and what they need.
fn told_through_libraries(language: &'static str, also: Option<(&str, &str)>) {
    for interpreter in chosen(language, "through") {
        let mut ways = vec![vec![]];
        if let Some((argument, needs)) = also
            && interpreter.runs("through", needs)
        {
            ways.push(vec![argument]);
        }
        for arguments in ways {
            let what = format!("{interpreter} {arguments:?}");
            for nearest in [false, true] {
                let mut options = vec!["-ttT"];
                options.extend(nearest.then_some("--nearest"));
                let (said, told) = watched("through", &interpreter, &arguments, &options);
                assert!(said.len() > 15, "{what}: {said:?}");
                holds(&what, &said, &shown(&told), nearest);
            }
        }
    }
}

#[test]
fn of_ruby_by_blocks_fibers_threads_and_texts() {
    told_through_libraries("ruby", None);
}

#[test]
fn of_python_by_generators_coroutines_threads_and_greenlets() {
    told_through_libraries("python", Some(("greenlet", "import greenlet")));
}

#[test]
fn of_perl_by_closures_sorts_ties_and_destructors() {
    told_through_libraries("perl", None);
}

#[test]
fn of_php_by_closures_generators_and_fibers() {
    told_through_libraries("php", None);
}

/// The lines of `-c`, each with its calls.
fn rows(table: &str) -> BTreeMap<String, u64> {
    let rows = table.lines().filter_map(|row| {
        let (row, line) = row.split_once(" umask ← ")?;
        let calls = row.split_whitespace().last()?.parse().ok()?;
        Some((line.to_owned(), calls))
    });
    rows.collect()
}

/// What is counted, recorded, written as JSON and asked for is told of the same lines.
#[test]
fn all_ways_to_look_agree() {
    for language in ["ruby", "python", "perl", "php"] {
        let Some(interpreter) = chosen(language, "through").into_iter().next() else {
            continue;
        };
        let folder = TempDir::new(&format!("agreed-{language}"));
        let file = folder.join("calls").display().to_string();
        let what = interpreter.to_string();
        let (_, told) = watched("agree", &interpreter, &[], &["-ttT"]);
        let told = shown(&told);
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for call in of(&told, "umask") {
            // Where no line is the application's, the table has the library's too.
            let line = match call.line.strip_suffix(')') {
                Some(_) if call.line.starts_with("(no application line)") => &call.line[..],
                Some(line) => line.rsplit_once(" (").expect("a library").0,
                None => &call.line,
            };
            *expected.entry(line.into()).or_default() += 1;
        }
        let (_, table) = watched("agree", &interpreter, &[], &["-c"]);
        assert_eq!(rows(&table), expected, "{what}: counted");

        // Recorded, and shown again in both ways.
        let (said, _) = watched("agree", &interpreter, &[], &["--record", &file]);
        let again = |options: &[&str]| {
            let output = run(lancet().arg("calls").args(options).arg(&file), LIMIT);
            assert_eq!(output.code(), 0, "{what}: {output:?}");
            output.stdout
        };
        holds(&what, &said, &shown(&again(&["-ttT"])), false);
        holds(&what, &said, &shown(&again(&["-ttT", "--nearest"])), true);
        assert_eq!(rows(&again(&["-c"])), expected, "{what}: replayed");

        // Asked for: the line is the one that is told.
        let one = &said[&0o101].place;
        let condition = format!("line ~ \"{one} \"");
        let (_, asked) = watched("agree", &interpreter, &[], &["-ttT", "--where", &condition]);
        let asked = shown(&asked);
        let replayed = shown(&again(&["-ttT", "--where", &condition]));
        for asked in [asked, replayed] {
            let of_line = said.values().filter(|said| said.place == *one);
            // PHP asks for the mask that there was by setting another.
            let numbers = asked.iter().map(number).filter(|number| *number != 0o77);
            let numbers: BTreeSet<u64> = numbers.collect();
            assert_eq!(numbers.len(), of_line.count(), "{what}: {asked:?}");
        }

        for (lines, name) in [
            (again(&["--json"]), "recorded"),
            (watched("agree", &interpreter, &[], &["--json"]).1, "live"),
        ] {
            let records = lines
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"));
            let calls: Vec<serde_json::Value> = records.collect();
            let place = |value: &serde_json::Value| {
                format!(
                    "{}:{}",
                    value["path"].as_str().unwrap_or_default(),
                    value["line"]
                )
            };
            for (number, said) in &said {
                let mut of_number = calls
                    .iter()
                    .filter(|call| call["arguments"][0].as_str() == Some(&format!("0{number:o}")));
                let call = of_number
                    .next()
                    .unwrap_or_else(|| panic!("{what}: {number:o}"));
                if is_a_library_s(&said.place) && call["place"].is_null() {
                    assert_eq!(place(&call["library"]), said.nearest, "{what}: {call}");
                    continue;
                }
                assert_eq!(place(&call["place"]), said.place, "{what}, {name}: {call}");
                match said.place == said.nearest {
                    true => assert!(call["library"].is_null(), "{what}: {call}"),
                    false => assert_eq!(place(&call["library"]), said.nearest, "{what}: {call}"),
                }
            }
        }
    }
}

/// Who says what is the application's: a library of one's own is it, and what calls it is not asked any more.
#[test]
fn the_application_is_what_the_user_says() {
    for language in ["ruby", "python", "perl", "php"] {
        let Some(interpreter) = chosen(language, "through").into_iter().next() else {
            continue;
        };
        let library = match language {
            "ruby" => "gems/through-1.0/",
            "python" => "site-packages/through_library",
            "perl" => "site_perl/Through.pm",
            _ => "vendor/through/",
        };
        let (mut said, told) = watched("app", &interpreter, &[], &["-ttT", "--app", library]);
        // What the library is not asked for is nobody's.
        for call in of(&shown(&told), "umask") {
            if let Some(said) = said.get(&number(call)) {
                let is = said.nearest.contains(library);
                assert_eq!(
                    !is,
                    is_nobody_s(call, said),
                    "{interpreter}: {said:?}: {call:?}"
                );
            }
        }
        said.retain(|_, said| said.nearest.contains(library));
        assert!(said.len() > 10, "{interpreter}: {said:?}");
        holds(&interpreter.to_string(), &said, &shown(&told), true);
        // What no line has.
        let (said, told) = watched(
            "app",
            &interpreter,
            &[],
            &["-ttT", "--app", "nobody/", "--app", "none/"],
        );
        let told = shown(&told);
        for call in of(&told, "umask") {
            // PHP asks for the mask that there was by setting another.
            if let Some(said) = said.get(&number(call)) {
                // Where the stack was not seen to its end, the nearest line stands for itself.
                let is = is_nobody_s(call, said) || call.line.starts_with(&said.nearest);
                assert!(is, "{interpreter}: {said:?}: {call:?}");
            }
        }
        // Two, and a condition's own test of lines before them.
        let fixture = interpreter.fixture("through").display().to_string();
        let place = said[&0o101].place.clone();
        let condition = format!("line ~ \"{place}\"");
        let options = [
            "-ttT", "--where", &condition, "--app", "nobody/", "--app", &fixture,
        ];
        let (said, told) = watched("app", &interpreter, &[], &options);
        let told = shown(&told);
        assert!(told.iter().any(|call| number(call) == 0o101), "{told:?}");
        assert!(
            told.iter().all(|call| call.line.starts_with(&place)),
            "{told:?}"
        );
        assert!(told.len() < said.len(), "{told:?}");
    }
}

#[test]
fn a_wrong_app_is_refused_in_one_line() {
    for (options, code, why) in [
        (vec!["--app", ""], 2, "every line holds it"),
        (vec!["--app", &"x".repeat(65)], 2, "at most 64 bytes"),
        (vec!["--app", "x", "--nearest"], 2, "cannot be used with"),
    ] {
        let output = run(lancet().args(["calls", "-p", "1"]).args(&options), LIMIT);
        assert_eq!(output.code(), code, "{output:?}");
        assert!(output.stderr.contains(why), "{output:?}");
    }
    let mut many = vec!["calls", "-p", "1", "--where", "line ~ \"a\""];
    many.extend(["--app", "x"].repeat(32));
    let output = run(lancet().args(many), LIMIT);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(
        output.stderr.contains("are 33 together, and at most 32"),
        "{output:?}"
    );
}
