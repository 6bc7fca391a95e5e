//! Applied, listed, undone.

use std::time::{Duration, Instant};

use crate::programs::{FIX, PLAIN, done, guest, library, patch, request, tried};
use crate::support::{LIMIT, Snapshot, Watch, is_release, say, until};

#[test]
fn a_function_is_replaced_and_put_back() {
    let mut guest = guest("replaced", 2);
    let before = Snapshot::take(guest.pid);
    let file = library("replaced", FIX, PLAIN);
    assert_eq!(guest.answer_to("total"), "14");
    let shown = done(guest.pid, &["--dry-run", &request("total", &file, "total")]);
    assert!(shown.contains("1 function would be replaced"), "{shown}");
    assert!(shown.contains("lancet_original from total"), "{shown}");
    before.holds(guest.pid, "after a dry run");
    assert_eq!(guest.answer_to("total"), "14");

    let said = done(
        guest.pid,
        &["--wait", "10s", &request("total", &file, "total")],
    );
    assert!(said.starts_with("patch 1: total@"), "{said}");
    assert_eq!(guest.answer_to("total"), "1014");
    // Calls within the program, too: 3 * 55 and ten times 1000.
    assert_eq!(guest.answer_to("sum"), "10165");
    let list = done(guest.pid, &["--list"]);
    assert!(list.starts_with("patch 1: in force: total@"), "{list}");

    let said = done(guest.pid, &["--undo", "1"]);
    assert!(said.contains("is as it was"), "{said}");
    assert_eq!(guest.answer_to("total"), "14");
    before.holds(guest.pid, "undone");
    let list = done(guest.pid, &["--list"]);
    assert!(list.starts_with("patch 1: undone: total@"), "{list}");
    let again = tried(guest.pid, &["--undo", "1"]);
    assert_eq!(again.code(), 1, "{again:?}");
    assert!(again.stderr.contains("not in force"), "{again:?}");
    guest.ends_with("answer 0");
}

/// Two functions of one file share its variables; both are replaced in one stop, and each can be undone alone. Imports are found in the
/// C library, an IFUNC among them; variables and constants are there, those that are zero too.
#[test]
fn a_file_has_its_variables_and_imports() {
    const SOURCE: &str = r#"
        #include <string.h>
        #include <stdlib.h>
        long lancet_original_total(long, long);
        long lancet_original_sum(long);
        static long seen[5000];
        static long start = 40;
        static long *const pointer = &start;
        static const char *const words[] = {"one", "three"};
        long note(long a, long b) {
            seen[4999] += strlen(words[1]);      /* 5 each time */
            return lancet_original_total(a, b) + *pointer;
        }
        long told(long count) {
            char text[32];
            long (*same)(long) = lancet_original_sum;
            memset(text, 0, sizeof text);
            strcpy(text, getenv("LANCET_PATCH_TEST") ? "x" : "yy");
            return seen[4999] * 1000 + strlen(text) * 100 + (same(0) == 0);
        }
    "#;
    let mut guest = guest("variables", 0);
    let file = library("variables", SOURCE, &["-nostartfiles", "-fno-builtin"]);
    let (total, sum) = (
        request("total", &file, "note"),
        request("sum", &file, "told"),
    );
    let said = done(guest.pid, &[&total, &sum]);
    assert!(
        said.contains("patch 1: total") && said.contains("patch 2: sum"),
        "{said}"
    );
    assert_eq!(guest.answer_to("total"), "54");
    assert_eq!(guest.answer_to("total"), "54");
    assert_eq!(guest.answer_to("sum"), "10201");
    done(guest.pid, &["--undo", "2"]);
    assert_eq!(guest.answer_to("sum"), "565");
    assert_eq!(guest.answer_to("total"), "54");
    done(guest.pid, &["--undo"]);
    assert_eq!(guest.answer_to("total"), "14");
    // The same again: its variables are as they were left, ten calls of `sum` and one of `total` later.
    let said = done(guest.pid, &[&total, &sum]);
    assert!(said.contains("from an earlier patch"), "{said}");
    assert_eq!(guest.answer_to("sum"), "65201");
    guest.ends_with("answer 0");
}

/// Arguments beyond the registers, floating-point ones, and what `rax` says of a variadic call arrive as they were sent.
#[test]
fn arguments_arrive_and_the_original_gives_its_result() {
    const SOURCE: &str = "
        double lancet_original(int, double, long, long, long, long, long, long, long);
        double many(int n, double a, long b, long c, long d, long e, long f, long g, long h) {
            return 2 * lancet_original(n, a, b, c, d, e, f, g, h);
        }
    ";
    let mut guest = guest("arguments", 0);
    let file = library("arguments", SOURCE, PLAIN);
    assert_eq!(guest.answer_to("many"), "36.5");
    for limit in [&[][..], &["--for", "1h"]] {
        let request = request("many", &file, "many");
        let mut arguments = vec![request.as_str()];
        arguments.extend(limit);
        let watch = (!limit.is_empty()).then(|| Watch::start(patch(guest.pid, &arguments)));
        match &watch {
            None => drop(done(guest.pid, &arguments)),
            Some(_) => until(LIMIT, "the patch", || {
                done(guest.pid, &["--list"])
                    .contains("in force for 59m")
                    .then_some(())
            }),
        }
        assert_eq!(guest.answer_to("many"), "73");
        match watch {
            None => drop(done(guest.pid, &["--undo", "all"])),
            Some(watch) => {
                let output = watch.interrupt();
                assert_eq!(output.code(), 0, "{output:?}");
                assert!(output.stdout.contains("is as it was"), "{output:?}");
            }
        }
        assert_eq!(guest.answer_to("many"), "36.5");
    }
    guest.ends_with("answer 0");
}

#[test]
fn it_ends_by_itself_also_when_lancet_is_killed() {
    let mut guest = guest("limit", 4);
    let before = Snapshot::take(guest.pid);
    let file = library("limit", FIX, PLAIN);
    let request = request("total", &file, "total");
    let said = done(guest.pid, &["--wait", "10s", "--for", "300ms", &request]);
    assert!(said.contains("is as it was"), "{said}");
    before.holds(guest.pid, "its time is over");

    let began = Instant::now();
    // Without `--wait` it would be refused when one of the threads is in the function at that instant.
    let for_two = ["--wait", "10s", "--for", "2s", &request];
    let watch = Watch::start(patch(guest.pid, &for_two));
    until(LIMIT, "the patch", || {
        (guest.answer_to("total") == "1014").then_some(())
    });
    watch.kill();
    until(LIMIT, "the end", || {
        (guest.answer_to("total") == "14").then_some(())
    });
    let lasted = began.elapsed();
    assert!(lasted > Duration::from_millis(1900), "{lasted:?}");
    let list = done(guest.pid, &["--list"]);
    assert!(list.contains("over (its time has passed"), "{list}");
    // The same function again, and then all out.
    let again = tried(guest.pid, &[&request]);
    assert!(
        again.stderr.contains("has replaced it already"),
        "{again:?}"
    );
    done(guest.pid, &["--undo"]);
    before.holds(guest.pid, "undone");
    guest.ends_with("answer 0");
}

#[test]
fn a_function_is_not_replaced_while_a_thread_is_inside() {
    let mut guest = guest("inside", 0);
    let file = library("inside", "long waits(void) { return 99; }", PLAIN);
    let request = request("waits", &file, "waits");
    let before = Snapshot::take(guest.pid);
    assert_eq!(guest.answer_to("wait"), "waiting");
    let output = tried(guest.pid, &[&request]);
    assert_eq!(output.code(), 1, "{output:?}");
    let said = format!("a thread ({}) is in it; --wait 10s", guest.pid);
    assert!(output.stderr.contains(&said), "{output:?}");
    before.holds(guest.pid, "refused");
    let shown = done(guest.pid, &["--dry-run", &request]);
    assert!(
        shown.contains(&format!("inside now: thread {}", guest.pid)),
        "{shown}"
    );
    let watch = Watch::start(patch(guest.pid, &["--wait", "1m", &request]));
    // It is tried again and again meanwhile; the line ends the call.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(guest.answer_to("go on"), "3");
    let output = watch.end();
    assert_eq!(output.code(), 0, "{output:?}");
    assert_eq!(guest.answer_to("wait"), "99");
    guest.ends_with("answer 0");
}

/// A thread that is in the new code when that is undone goes on there, and is named.
#[test]
fn undone_while_a_thread_is_in_the_new_code() {
    const SOURCE: &str = "
        #include <unistd.h>
        long lancet_original(long, long);
        long total(long a, long b) {
            char byte;
            write(1, \"inside\\n\", 7);
            while (read(0, &byte, 1) == 1 && byte != '\\n')
                ;
            return lancet_original(a, b) + 1000;
        }
    ";
    let mut guest = guest("undone", 0);
    let before = Snapshot::take(guest.pid);
    let file = library("undone", SOURCE, PLAIN);
    done(guest.pid, &[&request("total", &file, "total")]);
    assert_eq!(guest.answer_to("total"), "inside");
    let said = done(guest.pid, &["--undo", "1"]);
    let wanted = format!(
        "still in the new code, or returning there: thread {}",
        guest.pid
    );
    assert!(said.contains(&wanted), "{said}");
    assert!(
        said.contains("the jump by which unwinders know that stays"),
        "{said}"
    );
    before.text_holds_but(guest.pid, "undone", 1);
    assert_eq!(guest.answer_to("go on"), "1014");
    done(guest.pid, &["--undo"]);
    before.text_holds(guest.pid, "the last frame is gone");
    assert_eq!(guest.answer_to("total"), "14");
    guest.ends_with("answer 0");
}

/// A replacement with a body of its own costs what a direct call costs, and two jumps; with a time limit an `rdtsc` too. Measured in the
/// program, by its own processor time; a busy machine makes both slower, so the least of nine turns counts,
/// and on a slow one two more nanoseconds are less than two calls.
#[test]
fn a_call_through_a_patch_costs_two_jumps() {
    const SOURCE: &str = "
        extern long factor;
        __attribute__((noipa)) long total(long a, long b) { return factor * a + b; }
    ";
    let mut guest = guest("cost", 0);
    let file = library("cost", SOURCE, PLAIN);
    let mut cost = || guest.answer_to("cost").parse::<f64>().expect("nanoseconds");
    let (mut before, mut after): (f64, f64) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        before = before.min(cost());
    }
    done(guest.pid, &[&request("total", &file, "total")]);
    let mut cost = || guest.answer_to("cost").parse::<f64>().expect("nanoseconds");
    for _ in 0..3 {
        after = after.min(cost());
    }
    say(format_args!(
        "a call: {before:.2} ns bare, {after:.2} ns through a patch"
    ));
    if is_release() {
        let most = f64::max(2.0, 2.0 * before);
        assert!(after < before + most, "{before} ns, {after} ns");
    }
    guest.ends_with("answer 0");
}
