//! Again and again on busy threads, and killed at any instant.

use std::time::Duration;

use std::process::Command;

use crate::programs::{FIX, PLAIN, compiled, done, guest, library, patch, request, tried};
use crate::support::{
    Guest, LIMIT, Random, Snapshot, Watch, can_fail, is_release, run, say, skip, soak, until,
};

/// Threads that call the function without a pause: as many as two processors run, and twice as many in the long form.
fn threads() -> usize {
    if soak() { 4 } else { 2 }
}

/// Mappings of a process.
fn mappings(pid: i32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.expect("the guest's maps").lines().count()
}

#[test]
fn applied_and_undone_again_and_again_on_busy_threads() {
    let turns = if soak() { 10_000 } else { 25 };
    let mut guest = guest("cycles", threads());
    let before = Snapshot::take(guest.pid);
    let file = library("cycles", FIX, PLAIN);
    let request = request("total", &file, "total");
    let mut mapped = 0;
    for turn in 0..turns {
        done(guest.pid, &["--wait", "10s", &request]);
        assert_eq!(guest.answer_to("total"), "1014", "turn {turn}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "14", "turn {turn}");
        if turn == 0 {
            mapped = mappings(guest.pid);
        }
    }
    assert_eq!(mappings(guest.pid), mapped, "what was mapped is used again");
    before.holds(guest.pid, "undone for the last time");
    guest.ends_with("answer 0");
}

/// What a lancet had mapped that ended while it made a set is unmapped by the next one that changes something.
#[test]
fn mappings_of_a_set_that_was_not_finished_are_removed() {
    if !can_fail() {
        return skip(
            "a set that was not finished",
            "what is shipped has no fault points",
        );
    }
    let mut guest = guest("unfinished", 2);
    let file = library("unfinished", FIX, PLAIN);
    let request = request("total", &file, "total");
    // The finder and what its loader needs are there from now on.
    done(guest.pid, &["--wait", "10s", &request]);
    done(guest.pid, &["--undo"]);
    let before = mappings(guest.pid);
    let other = library("unfinished-2", FIX, PLAIN);
    let other = crate::programs::request("total", &other, "total");
    for turn in 1..4 {
        let output = run(
            patch(guest.pid, &["--wait", "10s", &other]).env("LANCET_FAULT", "made"),
            LIMIT,
        );
        assert_ne!(output.code(), 0, "{output:?}");
        assert!(
            mappings(guest.pid) > before,
            "turn {turn}: nothing was left"
        );
        assert_eq!(guest.answer_to("total"), "14");
        let list = done(guest.pid, &["--list"]);
        assert_eq!(list.lines().count(), 1, "{list}");
        done(guest.pid, &["--undo"]);
        assert_eq!(mappings(guest.pid), before, "turn {turn}");
        assert_eq!(guest.answer_to("total"), "14");
    }
    // Also by one that applies: what is left then is what it has made itself.
    let output = run(
        patch(guest.pid, &["--wait", "10s", &other]).env("LANCET_FAULT", "made"),
        LIMIT,
    );
    assert_ne!(output.code(), 0, "{output:?}");
    done(guest.pid, &["--wait", "10s", &request]);
    done(guest.pid, &["--undo"]);
    assert_eq!(mappings(guest.pid), before);
    guest.ends_with("answer 0");
}

/// Threads that sleep are looked at quickly, however many there are.
#[test]
fn hundreds_of_threads_stand_still_for_a_moment_only() {
    const THREADS: usize = 783;
    const SOURCE: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        extern "C" __attribute__((noipa)) long total(long a, long b) { return 3 * a + b; }
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
        static int ready, over;
        static void *sleeps(void *) {
            pthread_mutex_lock(&mutex);
            ready++;
            while (!over)
                pthread_cond_wait(&condition, &mutex);
            pthread_mutex_unlock(&mutex);
            return nullptr;
        }
        int main(int, char **) {
            static pthread_t threads[782];
            pthread_attr_t small;
            pthread_attr_init(&small);
            pthread_attr_setstacksize(&small, 65536);
            for (pthread_t &thread : threads)
                pthread_create(&thread, &small, sleeps, nullptr);
            for (int all = 0; all < 782; usleep(1000)) {
                pthread_mutex_lock(&mutex);
                all = ready;
                pthread_mutex_unlock(&mutex);
            }
            puts("ready");
            fflush(stdout);
            char line[64];
            while (fgets(line, sizeof line, stdin)) {
                printf("%ld\n", total(2, 8));
                fflush(stdout);
            }
            pthread_mutex_lock(&mutex);
            over = 1;
            pthread_cond_broadcast(&condition);
            pthread_mutex_unlock(&mutex);
            for (pthread_t &thread : threads)
                pthread_join(thread, nullptr);
            puts("answer 0");
        }
    "#;
    let program = compiled("c++", "threads", SOURCE, &["-pthread", "-rdynamic"]);
    let mut guest = Guest::ready(&mut Command::new(program));
    let threads = std::fs::read_dir(format!("/proc/{}/task", guest.pid)).expect("threads");
    assert_eq!(threads.count(), THREADS);
    let file = library("threads", FIX, PLAIN);
    let request = request("total", &file, "total");
    let stood = |arguments: &[&str]| {
        let said = done(guest.pid, arguments);
        let record = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let mut times = said.lines().rev().map(record);
        let time = times.find_map(|record| record["stopped_ns"].as_f64());
        time.expect("a time") / 1e6
    };
    let least = |all: Vec<f64>| all.into_iter().fold(f64::MAX, f64::min);
    let (mut applied, mut undone) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        applied.push(stood(&["--json", "--wait", "10s", &request]));
        undone.push(stood(&["--json", "--undo"]));
    }
    say(format_args!(
        "{THREADS} threads: stood still {applied:.1?} ms to apply, {undone:.1?} ms to undo"
    ));
    if is_release() {
        // A busy machine makes some of them longer.
        assert!(least(applied) <= 50.0 && least(undone) <= 50.0);
    }
    assert_eq!(guest.answer_to("total"), "14");
    guest.ends_with("answer 0");
}

/// Whatever instant it is killed at: the next lancet sees how it stands, and takes everything out.
#[test]
fn killed_at_any_instant_of_apply_and_undo() {
    let kills = if soak() { 1_000 } else { 15 };
    let mut random = Random::new("patch killed");
    let mut guest = guest("killed", threads());
    let before = Snapshot::take(guest.pid);
    let files = ["killed-0", "killed-1", "killed-2"].map(|name| library(name, FIX, PLAIN));
    let (mut in_force, mut out, mut stayed) = (0, 0, 0);
    // How long it takes when nobody kills it.
    let began = std::time::Instant::now();
    done(
        guest.pid,
        &["--wait", "10s", &request("total", &files[0], "total")],
    );
    let whole = began.elapsed().as_micros() as u64 * 11 / 10;
    done(guest.pid, &["--undo"]);
    let first = mappings(guest.pid);
    for kill in 0..kills {
        let file = &files[random.below(3) as usize];
        let request = request("total", file, "total");
        let apply = random.below(2) == 0;
        let arguments: &[&str] = if apply {
            &["--wait", "10s", &request]
        } else {
            done(guest.pid, &["--wait", "10s", &request]);
            &["--undo"]
        };
        let watch = Watch::start(patch(guest.pid, arguments));
        std::thread::sleep(Duration::from_micros(random.below(whole)));
        watch.kill();
        until(LIMIT, "the guest goes on", || {
            (!matches!(guest.state(), Some('t' | 'T'))).then_some(())
        });
        // What the list says is what the program does.
        let list = done(guest.pid, &["--list"]);
        let patched = list.contains(": in force: ");
        let wanted = if patched { "1014" } else { "14" };
        assert_eq!(guest.answer_to("total"), wanted, "kill {kill}: {list}");
        if patched {
            in_force += 1;
        } else {
            out += 1;
        }
        // A word that a call of the new code has left on a stack may keep the jump that unwinders know it by, until a later
        // call has written over it. That is said.
        let output = until(LIMIT, "nothing leads into the new code", || {
            let output = tried(guest.pid, &["--undo", "all"]);
            assert_eq!(output.code(), 0, "kill {kill}: {output:?}");
            let stays = output.stdout.contains("that stays, until a later --undo");
            stayed += usize::from(stays);
            (!stays).then_some(output)
        });
        before.text_holds(guest.pid, &format!("kill {kill}: {output:?}"));
        assert_eq!(guest.answer_to("total"), "14", "kill {kill}");
    }
    let mapped = mappings(guest.pid);
    say(format_args!(
        "{kills} kills: {in_force} in force afterwards, {out} not; unwinders' jump stayed {stayed} times; {mapped} mappings, {first} after the first set"
    ));
    // Each file's set was finished at least once, or a kill fell between a mapping and its note.
    assert!(mapped < first + 40, "{mapped}, {first}");
    before.holds(guest.pid, "after the kills");
    guest.ends_with("answer 0");
}
