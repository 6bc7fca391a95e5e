//! Core files: the same holders as of the living process, and objects and references held against a snapshot of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use heap::{EdgeName, RootKind, Snapshot};

use super::holders::{Holder, PYTHON, RUBY, assert_suspected};
use super::taken::{read, taken};
use crate::support::{
    Guest, Interpreter, LIMIT, Output, Random, TempDir, chosen, fixtures, lancet, rounds, rubies,
    run, say, skip, soak,
};

/// Kinds of objects of which all is known without the VM's own functions.
const KNOWN: [&str; 10] = [
    "STRING", "ARRAY", "HASH", "OBJECT", "STRUCT", "dict", "list", "tuple", "str", "object",
];

fn asked(core: &Path, more: &[&str]) -> Output {
    run(lancet().arg("heap").arg(core).args(more), LIMIT)
}

/// Behind two lines on the process, a note, and an empty one: the suspect and its path.
fn first_suspect(output: &Output) -> String {
    assert_eq!(output.code(), 0, "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().skip(2).collect();
    assert!(
        lines[0].starts_with("note: from a core file: "),
        "{lines:?}"
    );
    let after = lines.split(|line| line.is_empty()).nth(1);
    after.unwrap_or_default()[..2].join("\n")
}

fn is_suspected(interpreter: &Interpreter, script: &str, holder: Holder) {
    let folder = TempDir::new(&format!("heap-core-{interpreter}"));
    let guest = Guest::script(interpreter, script, &[holder.0]);
    guest.expect("ready");
    let core = guest.core(&folder.join("core"));
    assert!(guest.ends_well());
    assert_suspected(interpreter, holder, &first_suspect(&asked(&core, &[])));
}

/// The Rubies of which a core tells all. Of 3.4 the table of shapes is not found, so instance variables lead to nothing; the answer says so.
fn told_whole() -> Vec<Interpreter> {
    let mut all = rubies("core");
    all.retain(|ruby| {
        let is_whole = ruby.version != "3.4";
        if !is_whole {
            skip("core", format_args!("{ruby}: no table of shapes"));
        }
        is_whole
    });
    all
}

/// Not every holder of each version: those of which a core tells in other ways than a copy does.
#[test]
fn whoever_keeps_most_alive_is_the_first_suspect_in_a_core() {
    let is_wanted = |holder: &&Holder| soak() || matches!(holder.0, "global" | "closure" | "fiber");
    for ruby in told_whole() {
        for holder in RUBY.iter().filter(is_wanted) {
            is_suspected(&ruby, "heap/holder.rb", *holder);
        }
    }
    for python in chosen("python", "core") {
        for holder in PYTHON.iter().filter(is_wanted) {
            is_suspected(&python, "heap/holder.py", *holder);
        }
    }
}

/// What each Ractor has in a local variable is its own, and no array is named without it.
#[test]
fn running_ractors_are_the_suspect_of_a_core() {
    const RUNNING: &str = "$VERBOSE = nil
for_each = Array.new(120) { Ractor.new { rows = Array.new(600) { |i| \"row #{i}\" }; Ractor.yield rows.size; Ractor.receive; rows } }
for_each.each(&:take)
puts 'ready'; $stdout.flush; gets";
    // Ractors came with 3.0, and in 4.0 they have ports in the place of `yield` and `take`.
    let has = |ruby: &Interpreter| ["system", "3.3", "3.4"].contains(&&*ruby.version);
    for ruby in told_whole().into_iter().filter(has) {
        let folder = TempDir::new("ractors");
        let guest = Guest::asleep(ruby.command().args(["-e", RUNNING]));
        let core = guest.core(&folder.join("core"));
        let output = asked(&core, &[]);
        assert_eq!(output.code(), 0, "{output:?}");
        let first = first_suspect(&output);
        // With the one of the main thread, if that is not named by itself.
        let said = first.contains("120 × Ractor: ") || first.contains("121 × Ractor: ");
        assert!(said, "{ruby}: {first}");
    }
}

/// Ractors and threads that have ended and are kept are held by who keeps them: the VM holds only those that run. (Many Ractors at once that
/// wait for threads of theirs may wait for ever in Ruby 3.3, so they come one after the other.)
#[test]
fn what_has_ended_is_no_root_of_a_core() {
    const ENDED: &str = "$VERBOSE = nil
$running = Array.new(4) { Ractor.new { Ractor.yield 1; Ractor.receive } }
$running.each(&:take)
$done = Array.new(60) { Ractor.new { 1 }.tap(&:take) }
sleep 0.01 until Ractor.count == 5
$pool = Array.new(60) { Thread.new {} }
$pool.each(&:join)
puts 'ready'; $stdout.flush; gets";
    let has = |ruby: &Interpreter| ["system", "3.3"].contains(&&*ruby.version);
    for ruby in told_whole().into_iter().filter(has) {
        let folder = TempDir::new("ended");
        let guest = Guest::asleep(ruby.command().args(["-e", ENDED]));
        let core = guest.core(&folder.join("core"));
        let file = folder.join("core.heap");
        let output = asked(&core, &["--save", file.to_str().expect("UTF-8")]);
        assert_eq!(output.code(), 0, "{output:?}");
        let snapshot = read(&file);
        let is = |object: u32, class: &str| {
            let found = snapshot.class(object).map(|class| snapshot.text(class));
            found == Some(class.as_bytes())
        };
        let roots = snapshot.roots().iter();
        let by_vm = roots.filter(|root| root.name.kind == RootKind::Vm);
        let by_vm: Vec<u32> = by_vm.map(|root| root.target).collect();
        let count = |class| by_vm.iter().filter(|target| is(**target, class)).count();
        let ractors = (0..snapshot.len() as u32).filter(|object| is(*object, "Ractor"));
        let threads = ractors.flat_map(|ractor| snapshot.edges(ractor));
        let threads = threads.filter(|edge| is(edge.target, "Thread")).count();
        // Those that run, and the main one.
        let seen = (count("Ractor"), count("Thread"), threads);
        assert_eq!(seen, (5, 0, 5), "{ruby}");
    }
}

/// An object: kind, bytes, references.
type Seen = (String, u64, Vec<u64>);

fn seen(snapshot: &Snapshot) -> BTreeMap<u64, Seen> {
    let one = |object| {
        let kind = String::from_utf8_lossy(snapshot.kind_name(snapshot.kind(object))).into_owned();
        let named = snapshot.edges(object);
        // The class of a Python's object is told by `tp_traverse` of some types.
        let named = named.filter(|edge| edge.name != EdgeName::ClassOf);
        let mut targets: Vec<u64> = named.map(|edge| snapshot.address(edge.target)).collect();
        targets.sort_unstable();
        (
            snapshot.address(object),
            (kind, snapshot.bytes(object), targets),
        )
    };
    (0..snapshot.len() as u32).map(one).collect()
}

/// What a core says of a process is what a snapshot of the process says.
fn says_the_same(interpreter: &Interpreter, script: &str) {
    let folder = TempDir::new(&format!("heap-same-{interpreter}"));
    let guest = Guest::script(interpreter, script, &["global"]);
    guest.expect("ready");
    let core = guest.core(&folder.join("core"));
    let (alive, _) = taken(guest.pid, &folder.join("alive.heap"));
    assert!(guest.ends_well());
    let file = folder.join("core.heap");
    let name = file.to_str().expect("UTF-8");
    let output = asked(&core, &["--save", name]);
    assert_eq!(output.code(), 0, "{output:?}");
    let mode = fs::metadata(&file).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may not read it");
    let dead = read(&file);
    assert!(dead.losses().is_empty(), "{:?}", dead.losses());
    let (alive, dead) = (seen(&alive), seen(&dead));
    let missing = alive.keys().filter(|at| !dead.contains_key(at)).count();
    let beyond = dead.keys().filter(|at| !alive.contains_key(at)).count();
    let known: BTreeSet<&str> = KNOWN.into_iter().collect();
    let both = alive.iter().filter(|(_, one)| known.contains(&*one.0));
    let (mut count, mut others) = (0, Vec::new());
    for (at, one) in both {
        count += 1;
        // Those that are not there are counted as missing.
        if let Some(other) = dead.get(at).filter(|other| *other != one) {
            others.push((at, one, other));
        }
    }
    say(format_args!(
        "{interpreter}: {} objects, {missing} are not in the core, {beyond} only there; of {count} of known kinds {} are other ones",
        alive.len(),
        others.len(),
    ));
    // The snapshot itself makes a few objects, and a core is taken at any instant.
    assert!(
        count > 50_000 && others.len() * 500 < count && missing * 200 < alive.len(),
        "{interpreter}: {missing} missing, {} of {count} are others: {:?}",
        others.len(),
        &others[..others.len().min(20)]
    );
}

/// Nothing of a Perl or PHP is called in its copy either, so a core tells all that a snapshot does, but for what its wait for a line changes.
#[test]
fn a_core_of_a_perl_or_php_is_its_snapshot() {
    for (name, script) in [("perl", "heap/truth.pl"), ("php", "heap/truth.php")] {
        for interpreter in chosen(name, "core") {
            let folder = TempDir::new(&format!("heap-core-{interpreter}"));
            let mut guest = Guest::script(&interpreter, script, &[]);
            guest.find("ready");
            guest.settle('S');
            let core = guest.core(&folder.join("core"));
            let (alive, _) = taken(guest.pid, &folder.join("alive.heap"));
            let file = folder.join("core.heap");
            let output = asked(&core, &["--save", file.to_str().expect("UTF-8")]);
            assert_eq!(output.code(), 0, "{interpreter}: {output:?}");
            let dead = read(&file);
            assert!(dead.losses().is_empty(), "{:?}", dead.losses());
            assert_eq!(dead.about().language, alive.about().language);
            let (alive, dead) = (seen(&alive), seen(&dead));
            let same = alive.iter().filter(|(at, one)| dead.get(at) == Some(one));
            let same = same.count();
            say(format_args!(
                "{interpreter}: {same} of {} objects",
                alive.len()
            ));
            assert!(alive.len() > 10_000 && same == alive.len() && same == dead.len());
            guest.tell("");
        }
    }
}

#[test]
fn a_core_says_what_a_snapshot_of_the_living_says() {
    for ruby in told_whole() {
        says_the_same(&ruby, "heap/holder.rb");
    }
    for python in chosen("python", "core") {
        says_the_same(&python, "heap/holder.py");
    }
}

/// A Python whose program is a file of ours.
fn moved(folder: &TempDir) -> Guest {
    let program = folder.join("snake");
    fs::copy(
        fs::canonicalize("/usr/bin/python3").expect("it is installed"),
        &program,
    )
    .expect("copied");
    let mut command = Command::new(program);
    let script = fixtures().join("python/heap/holder.py");
    command.args([script.as_os_str(), "global".as_ref()]);
    command.env("PYTHONHOME", "/usr");
    Guest::ready(&mut command)
}

#[test]
fn a_program_that_is_elsewhere_is_named() {
    let folder = TempDir::new("heap-core-exe");
    let guest = moved(&folder);
    let core = guest.core(&folder.join("core"));
    assert!(guest.ends_well());
    fs::rename(folder.join("snake"), folder.join("adder")).expect("moved");
    let output = asked(&core, &[]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output
            .stderr
            .contains("snake: put them back, or name the program with --exe"),
        "{output:?}"
    );
    let elsewhere = folder.join("adder");
    let output = asked(&core, &["--exe", elsewhere.to_str().expect("UTF-8")]);
    assert!(
        first_suspect(&output).contains("dict @global cache of module __main__ retains"),
        "{output:?}"
    );
}

#[test]
fn what_is_wrong_with_a_core_is_one_line() {
    let folder = TempDir::new("heap-core-wrong");
    let guest = Guest::script(&Interpreter::system("ruby"), "heap/holder.rb", &["none"]);
    guest.expect("ready");
    let core = guest.core(&folder.join("core"));
    assert!(guest.ends_well());
    let wrong = |says: &str| {
        let output = asked(&core, &[]);
        assert_eq!(output.code(), 1, "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        assert!(output.stderr.contains(says), "{says}: {output:?}");
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&core)
        .expect("ours");
    let whole = file.metadata().expect("ours").len();
    // Damaged anywhere: an answer or one line, never a panic, and not for ever.
    let mut random = Random::new("heap core");
    for _ in 0..rounds(4, 200) {
        let mut kept = Vec::new();
        for _ in 0..64 {
            let at = random.below(whole - 8);
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at).expect("within");
            file.write_all_at(&random.below(u64::MAX).to_le_bytes(), at)
                .expect("within");
            kept.push((word, at));
        }
        let output = asked(&core, &["--top", "1"]);
        assert!(matches!(output.code(), 0 | 1 | 4), "{output:?}");
        assert!(!output.stderr.contains("panicked"), "{output:?}");
        for (word, at) in kept.into_iter().rev() {
            file.write_all_at(&word, at).expect("within");
        }
    }
    file.set_len(whole / 2).expect("cut");
    // gcore writes the notes behind the memory.
    wrong("the core is cut short");
    file.set_len(1000).expect("cut");
    wrong("its program header reaches past its end: the core is cut short");
    let other = Guest::ready(Command::new("sh").args(["-c", "echo ready; read x"]));
    fs::rename(other.core(&folder.join("sh")), &core).expect("moved");
    wrong("the process ran neither Ruby, Python, Perl nor PHP");
}
