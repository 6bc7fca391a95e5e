//! Planted holders: each is the first suspect, with the path by which it is held.

use crate::support::{
    Guest, Interpreter, LIMIT, Output, Watch, chosen, fixtures, lancet, rubies,
    rubies_without_ractors, run,
};

/// Which holder, and what the answer must say: of the suspect, and of its path.
pub type Holder = (&'static str, &'static [&'static str]);

pub const RUBY: [Holder; 5] = [
    ("global", &["Hash @global $cache retains "]),
    (
        "closure",
        &[
            "Array @local variable remembered of IMEMO:env retains ",
            "constant Hooks",
            "constant LIST",
            "closure",
        ],
    ),
    (
        "method",
        &[
            "Array @local variable rows in import ",
            " of Thread importer retains ",
        ],
    ),
    (
        "fiber",
        &[
            "Array @local variable kept in block in <main> ",
            " of Fiber retains ",
        ],
    ),
    (
        "thread",
        &["Array @thread local request of Thread retains "],
    ),
];

pub const PYTHON: [Holder; 8] = [
    (
        "global",
        &[
            "dict @global cache of module __main__ retains ",
            "path: module __main__ → global cache dict",
        ],
    ),
    (
        "closure",
        &[
            "list @captured variable remembered of cell retains ",
            "module __main__ → global hooks",
            "hook → closure",
        ],
    ),
    (
        "attribute",
        // Of the shop itself, or to 3.10 of its dict.
        &[
            "list @.orders of ",
            "module __main__ → global shop __main__.Shop",
        ],
    ),
    (
        "slot",
        &["list @member orders of __main__.Slotted", "global shop"],
    ),
    (
        "generator",
        &[
            // Of the generator itself, or to 3.10 of its frame.
            "list @local variable waiting of ",
            "global generator",
        ],
    ),
    ("local", &["local variable rows in wait_with"]),
    ("thread", &["local variable mine in serve"]),
    // What a collection could not free, or was told to keep.
    ("saved", &["list @the VM gc.garbage retains "]),
];

/// How many orders the suspect holds.
pub fn held(suspect: &str) -> u64 {
    let words: Vec<&str> = suspect.split_whitespace().collect();
    let orders = words
        .windows(3)
        .find(|three| three[1] == "×" && three[2].trim_end_matches(',').ends_with("Order"));
    let count = orders.and_then(|three| three[0].replace(',', "").parse().ok());
    count.unwrap_or(0)
}

/// What `lancet heap` says of a process.
pub fn asked(pid: i32) -> Output {
    let mut command = lancet();
    command.args(["heap", "-p", &pid.to_string()]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    output
}

/// Behind the lines on the process, notes, and an empty line: the suspect and its path.
pub fn first_suspect(output: &Output) -> String {
    let mut lines = output.stdout.lines();
    lines.find(|line| line.is_empty());
    lines.take(2).collect::<Vec<_>>().join("\n")
}

fn is_suspected(interpreter: &Interpreter, script: &str, (holder, wanted): Holder) {
    let guest = Guest::script(interpreter, script, &[holder]);
    guest.expect("ready");
    let suspect = first_suspect(&asked(guest.pid));
    assert_suspected(interpreter, (holder, wanted), &suspect);
    assert!(guest.ends_well());
}

/// The suspect is this holder, with all that it holds.
pub fn assert_suspected(interpreter: &Interpreter, (holder, wanted): Holder, suspect: &str) {
    for part in wanted {
        assert!(
            suspect.contains(part),
            "{interpreter}, {holder}: no {part} in {suspect}"
        );
    }
    // A few are on the machine stack besides, as far as the VM can know.
    let held = held(suspect);
    assert!(
        (49_900..=50_000).contains(&held),
        "{interpreter}, {holder}: {suspect}"
    );
}

#[test]
fn whoever_keeps_most_alive_is_the_first_suspect() {
    for ruby in rubies("holders") {
        for holder in RUBY {
            is_suspected(&ruby, "heap/holder.rb", holder);
        }
    }
    for python in chosen("python", "holders") {
        for holder in PYTHON {
            is_suspected(&python, "heap/holder.py", holder);
        }
    }
}

#[test]
fn what_is_made_while_births_are_watched_has_its_line_and_its_holder() {
    for ruby in rubies("holders") {
        let mut guest = Guest::script(&ruby, "heap/holder.rb", &["growing"]);
        guest.expect("ready");
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--births", "60s"]);
        let watch = Watch::open(command);
        guest.tell("grow");
        guest.expect("grown");
        // What was asked for comes at once, from what was watched until then.
        let output = watch.interrupt();
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        let place = fixtures().join("ruby/heap/holder.rb");
        let script = std::fs::read_to_string(&place).expect("it is there");
        let line = script.lines().position(|line| line.contains("-1 - number"));
        let line = line.expect("it grows there") + 1;
        let holder = output
            .stdout
            .lines()
            .find(|line| line.contains(" new objects, "));
        let holder = holder.unwrap_or_else(|| panic!("{ruby}: {}", output.stdout));
        let count = holder.strip_prefix("Hash @global $cache holds ");
        let count = count.and_then(|rest| rest.split(' ').next()?.replace(',', "").parse().ok());
        // One or two are on the machine stack besides, as far as the VM can know.
        assert!(
            count.is_some_and(|count| (990..=1000).contains(&count)),
            "{ruby}: {holder}"
        );
        let made = format!("most of it Order, most made at {}:{line}", place.display());
        assert!(holder.ends_with(&made), "{ruby}: {holder}");
        guest.tell("end");
        assert!(guest.ends_well());
    }
}

/// The program goes on as if nobody had watched; there is no snapshot, because births from there on would have no line.
#[test]
fn a_first_ractor_ends_births_that_are_watched() {
    for ruby in rubies_without_ractors("births, ractor") {
        let mut guest = Guest::script(&ruby, "live/ractor.rb", &["wait"]);
        guest.expect("ready");
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--births", "60s"]);
        let watch = Watch::open(command);
        guest.tell("");
        guest.ends_with("answer 42 700 300");
        let output = watch.end();
        assert_eq!(output.code(), 1, "{ruby}: {output:?}");
        assert_eq!(output.stdout, "", "{ruby}");
        let said = "the program makes a Ractor, beside which births cannot be watched";
        assert!(output.stderr.contains(said), "{ruby}: {output:?}");
    }
}

#[test]
fn equal_texts_and_half_empty_lists_are_counted() {
    for ruby in rubies("holders") {
        let guest = Guest::script(&ruby, "heap/holder.rb", &["wasteful"]);
        guest.expect("ready");
        let pid = guest.pid.to_string();
        let text = |more: &[&str]| {
            let mut command = lancet();
            let output = run(command.args(["heap", "-p", &pid]).args(more), LIMIT);
            assert_eq!(output.code(), 0, "{ruby}: {output:?}");
            output.stdout
        };
        let row = |text: &str, end: &str| -> Vec<String> {
            let row = text.lines().find(|line| line.contains(end));
            let row = row.unwrap_or_else(|| panic!("{ruby}: no row of {end}: {text}"));
            row.split_whitespace().map(str::to_owned).collect()
        };
        let plain = text(&[]);
        // Wasted (a number and its unit), equal, frozen, length.
        let equal = row(&plain, " 35  String 0x");
        assert_eq!(equal[2..5], ["500", "0", "35"], "{ruby}: {plain}");
        assert!(!plain.contains("a status"), "{ruby}: {plain}");
        // Wasted, objects, in use, room: the script's, and a few small ones of Ruby's own.
        let sparse = row(&plain, " Array, the worst ");
        let number = |at: usize| {
            sparse[at]
                .replace(',', "")
                .parse::<u64>()
                .expect("a number")
        };
        let (objects, used, room) = (number(2), number(3), number(4));
        assert!((20..40).contains(&objects), "{ruby}: {plain}");
        assert!((200..500).contains(&used), "{ruby}: {plain}");
        assert!((20_000..21_000).contains(&room), "{ruby}: {plain}");
        let shown = text(&["--contents"]);
        row(&shown, "String \"a status that has been read again 1\"");
        assert!(guest.ends_well());
    }
}

/// What a cycle holds that nothing leads to lives in no other sense than that no collection has run.
#[test]
fn a_cycle_that_nothing_leads_to_is_garbage() {
    for python in chosen("python", "garbage") {
        let guest = Guest::script(&python, "heap/holder.py", &["cycle"]);
        guest.expect("ready");
        let mut command = lancet();
        command.args(["heap", "--top", "0", "-p", &guest.pid.to_string()]);
        let output = run(&mut command, LIMIT);
        let head = output.stdout.lines().nth(1).unwrap_or_default();
        let words: Vec<&str> = head.split(' ').collect();
        let at = words
            .windows(3)
            .position(|three| three == ["objects", "of", "garbage,"]);
        let count = at.and_then(|at| words[at - 1].replace(',', "").parse::<u64>().ok());
        // Orders, their texts and numbers, and to 3.10 their dicts; small ints (to 256, since 3.15 to 1,024) belong to the VM.
        assert!(
            count.is_some_and(|count| (148_000..200_100).contains(&count)),
            "{python}: {head}"
        );
        // The one that has a `__del__` is told apart: objects, bytes and their unit, in cycles, finalizers.
        let lines = output.stdout.lines();
        let mut nodes = lines.filter(|line| line.ends_with(" __main__.Node"));
        let garbage = nodes.find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.len() == 6).then_some([words[0], words[3], words[4]])
        });
        assert_eq!(garbage, Some(["1"; 3]), "{python}: {}", output.stdout);
        assert!(guest.ends_well());
    }
}

/// What only the VM holds is named: callbacks of the end with whose method they are, a thread with its own variables, the table of symbols.
#[test]
fn what_only_the_vm_holds_is_named() {
    let first = |interpreter: &Interpreter, script: &str, arguments: &[&str], parts: &[&str]| {
        let guest = Guest::script(interpreter, script, arguments);
        guest.expect("ready");
        let suspect = first_suspect(&asked(guest.pid));
        for part in parts {
            assert!(
                suspect.contains(part),
                "{interpreter}: no {part} in {suspect}"
            );
        }
        assert!(guest.ends_well());
        suspect
    };
    for python in chosen("python", "what only the VM holds") {
        let parts = ["20,00", "atexit callbacks"];
        let suspect = first(&python, "heap/callbacks.py", &[], &parts);
        // Since 3.14 they are in a list, which holds a tuple of each.
        let is_named = suspect.contains("close") || suspect.contains(" × tuple");
        assert!(is_named, "{python}: {suspect}");
    }
    for ruby in rubies("what only the VM holds") {
        let locals = [
            "20,00",
            " × Hash",
            " hang on Thread pool-1",
            "thread local trace_",
        ];
        first(&ruby, "heap/names.rb", &["locals"], &locals);
        first(&ruby, "heap/names.rb", &["symbols"], &["table of symbols"]);
    }
}
