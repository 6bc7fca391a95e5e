//! PHP: the oracle is `memory_get_usage()`, and what the program itself has counted while it made known objects.

use std::fs;

use heap::{Analysis, Snapshot};

use super::holders::{asked, first_suspect};
use super::taken::taken;
use super::unseen::children;
use crate::support::fastcgi::{self, fpm};
use crate::support::{
    Guest, Interpreter, LIMIT, Load, TempDir, chosen, lancet, run, say, skip, until,
};

/// What reading a line and writing one takes meanwhile, at most.
const BUFFERS: u64 = 32 << 10;
/// The list of all objects after 50,000 of them: entries of eight bytes, doubled when it is full.
const LIST: u64 = 65_536 * 8;

fn text(snapshot: &Snapshot, id: heap::TextId) -> String {
    String::from_utf8_lossy(snapshot.text(id)).into_owned()
}

fn of_type(snapshot: &Snapshot, name: &str) -> usize {
    let all = 0..snapshot.len() as u32;
    all.filter(|object| text(snapshot, snapshot.type_name(*object)) == name)
        .count()
}

#[test]
fn bytes_are_those_in_use_and_objects_those_that_were_made() {
    for php in chosen("php", "php truth") {
        let folder = TempDir::new(&format!("truth-{php}"));
        let mut guest = Guest::script(&php, "heap/truth.php", &[]);
        let grown: u64 = guest.find("grown ").parse().expect("a number");
        guest.expect("ready");
        guest.settle('S');
        let (snapshot, _) = taken(guest.pid, &folder.join("heap"));
        guest.tell("");
        let usage: u64 = guest.find("usage ").parse().expect("a number");
        holds(&php, &snapshot, grown, usage);
        guest.tell("");
        assert!(guest.ends_well());
    }
}

fn holds(php: &Interpreter, snapshot: &Snapshot, grown: u64, usage: u64) {
    let all = 0..snapshot.len() as u32;
    let bytes: u64 = all.map(|object| snapshot.bytes(object)).sum();
    let analysis = Analysis::of(snapshot);
    let rest = of_type(snapshot, "(compiled code, buffers)");
    assert_eq!(rest, 1, "{php}: one row for what was not found");
    assert!(bytes.abs_diff(usage) <= BUFFERS, "{php}: {bytes}, {usage}");
    assert_eq!(of_type(snapshot, "Order"), 50_501, "{php}");
    assert_eq!(of_type(snapshot, "Closure"), 1, "{php}");
    assert_eq!(of_type(snapshot, "Generator"), 1, "{php}");
    assert_eq!(of_type(snapshot, "ArrayObject"), 1, "{php}");
    // A hundred cycles of two objects, and the array of what each has of undeclared properties.
    assert_eq!(analysis.garbage().objects, 400, "{php}: cycles");
    let retained = |name: &str| {
        let is_named = |id: heap::TextId| text(snapshot, id) == name;
        let root = snapshot
            .roots()
            .iter()
            .find(|root| root.name.text.is_some_and(is_named));
        let root = root.unwrap_or_else(|| panic!("{php}: no {name}"));
        analysis.retained(root.target)
    };
    let cache = retained("Shop::$cache");
    say(format_args!(
        "{php}: {bytes} bytes in all, {usage} in use; the cache retains {cache}, {grown} less the list of objects came with it"
    ));
    let orders = grown - LIST;
    assert!(
        cache.abs_diff(orders) * 100 <= orders * 5,
        "{php}: {cache}, {orders}"
    );
    assert!(retained("static in remembered") > 1_000_000, "{php}");
    for name in ["$hook", "$generator", "$list", "$wrapped", "$more"] {
        retained(name);
    }
    assert!(retained("$more") > 700, "{php}: undeclared properties");
    assert!(
        retained("$wrapped") > 500,
        "{php}: what C code keeps before an object"
    );
    // Each element is an object, its text, the data, 40 or 32 bytes of its own and a place in the table.
    let attached = retained("$attached");
    let least = 500 * (72 + 32 + 320 + 32 + 32);
    assert!(
        (least..least * 3 / 2).contains(&attached),
        "{php}: an SplObjectStorage of a derived class retains {attached}"
    );
    let fixed = retained("$fixed");
    let least = 1000 * (16 + 32);
    assert!(
        (least..least * 3 / 2).contains(&fixed),
        "{php}: an SplFixedArray retains {fixed}"
    );
    assert!(retained("$hook") > 2000 * 32, "{php}: captured");
    assert!(
        retained("$generator") > 3000 * 16,
        "{php}: a generator's variables"
    );
    let frame = snapshot
        .roots()
        .iter()
        .filter_map(|root| root.name.text)
        .map(|name| text(snapshot, name))
        .find(|name| name.starts_with("local variable $inner in waits "));
    assert!(
        frame.is_some_and(|name| name.contains("truth.php:")),
        "{php}"
    );
}

#[test]
fn who_keeps_most_alive_is_the_first_suspect() {
    for php in chosen("php", "php suspects") {
        let mut guest = Guest::script(&php, "heap/truth.php", &[]);
        guest.find("grown ");
        guest.expect("ready");
        let output = asked(guest.pid);
        let suspect = first_suspect(&output);
        assert!(
            suspect.contains("array @global Shop::$cache retains ")
                && suspect.contains("50,000 × Order"),
            "{php}: {suspect}"
        );
        guest.tell("");
        guest.tell("");
        assert!(guest.ends_well());
    }
}

fn is_right(number: u64, answer: &str) -> bool {
    answer == format!("number {number}, 199990000\n")
}

#[test]
fn a_worker_of_php_fpm_is_read_under_load_and_no_request_fails() {
    let folder = TempDir::new("heap-php-fpm");
    let Some((_guest, socket, workers)) = fpm(&folder, 1) else {
        return skip("heap php-fpm", "no php-fpm");
    };
    let worker = workers[0];
    let ask = || run(lancet().args(["heap", "-p", &worker.to_string()]), LIMIT);
    // Between two requests nothing of a program is there, and the answer says so.
    let idle = ask();
    assert_eq!(idle.code(), 0, "{idle:?}");
    let note = "note: it serves no request at this moment";
    assert!(idle.stdout.contains(note), "{idle:?}");
    assert!(idle.stdout.contains("\nno suspect: "), "{idle:?}");
    assert_eq!(children(worker), "", "its copy is gone");
    let script = folder.join("serve.php");
    let source = crate::support::fixtures().join("php/heap/serve.php");
    fs::copy(source, &script).expect("a file");
    let load = Load::asking(2, is_right, move |number| {
        fastcgi::asked(&socket, &script, number)
    });
    // It stands between two requests now and then, and within one its cart may still be small.
    let output = until(LIMIT, "a look within a request", || {
        let output = ask();
        let met = output
            .stdout
            .contains("array @global Cart::$orders retains ");
        (output.code() == 0 && met).then_some(output)
    });
    let answers = load.end();
    say(format_args!(
        "php-fpm: {answers} answers, all right; {}",
        output.stderr.trim()
    ));
    assert!(first_suspect(&output).contains("× Order"), "{output:?}");
    assert_eq!(children(worker), "", "its copy is gone");
}
