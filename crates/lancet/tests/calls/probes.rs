//! Static probes (USDT) in mid-function: told with their arguments, counted; their users' counters are as before afterwards, also where
//! lancet was killed meanwhile.

use hooks::probes;
use process::functions::Functions;
use process::maps::Maps;
use process::memory::GuestMemory;

use crate::support::{Guest, Interpreter, LIMIT, Snapshot, TempDir, Watch, rubies, run, skip};
use crate::watch::{calls, hooked, left, text_holds};

/// Raises so often.
const RAISES: usize = 200;

fn start(ruby: &Interpreter) -> Guest {
    let guest = Guest::script(ruby, "calls/probes.rb", &[]);
    guest.expect("ready");
    guest
}

/// The counters of the users of Ruby's probes.
fn users(memory: &GuestMemory) -> Vec<u16> {
    let pid = memory.pid();
    let maps = Maps::read(pid).expect("its maps");
    let functions = Functions::read(pid, memory, &maps).expect("its modules");
    let probes = functions
        .modules()
        .iter()
        .flat_map(|place| probes::of(place));
    let of_ruby = probes.filter(|probe| probe.function.name.starts_with("usdt:ruby:"));
    let counters = of_ruby.filter(|probe| probe.semaphore != 0).map(|probe| {
        let mut bytes = [0; 2];
        memory
            .read_bytes(probe.semaphore, &mut bytes)
            .expect("a counter");
        u16::from_le_bytes(bytes)
    });
    counters.collect()
}

#[test]
fn probes_of_a_ruby_are_told_with_their_arguments() {
    for ruby in rubies("probes") {
        let mut guest = start(&ruby);
        let memory = GuestMemory::open(guest.pid).expect("its memory");
        let before = Snapshot::take(guest.pid);
        let counters = users(&memory);
        if counters.is_empty() {
            skip(&ruby.to_string(), "its Ruby has no probes");
            continue;
        }
        let folder = TempDir::new("probes");
        let out = folder.join("out").display().to_string();
        let what = ["-x", "usdt:ruby:raise", "-o", &out];
        let watch = hooked(calls(guest.pid, &what));
        let raised = users(&memory).iter().filter(|users| **users != 0).count();
        guest.tell(&RAISES.to_string());
        let answer = guest.find("answer ");
        let output = left(watch, "probes");
        assert_ne!(raised, 0, "its users' counter says that we are there");
        assert_eq!(answer, RAISES.to_string());
        let text = std::fs::read_to_string(&out).expect("what was told");
        let told = text
            .lines()
            .filter(|line| line.contains("usdt:ruby:raise(\"ArgumentError\", \""));
        assert_eq!(told.count(), RAISES, "{text}");
        assert_eq!(users(&memory), counters);
        text_holds(&before, guest.pid, "probes", &output);
        guest.tell("");
        guest.ends_with_nothing("probes");
    }
}

#[test]
fn who_was_killed_is_counted_out_by_the_next() {
    for ruby in rubies("probes killed") {
        let mut guest = start(&ruby);
        let memory = GuestMemory::open(guest.pid).expect("its memory");
        let before = Snapshot::take(guest.pid);
        let counters = users(&memory);
        if counters.is_empty() {
            skip(&ruby.to_string(), "its Ruby has no probes");
            continue;
        }
        for _ in 0..3 {
            let watch: Watch = hooked(calls(guest.pid, &["-c", "-x", "usdt:ruby:*"]));
            watch.kill();
            assert_ne!(users(&memory), counters);
        }
        let output = run(
            &mut calls(guest.pid, &["-c", "-x", "usdt:ruby:raise", "--for", "10ms"]),
            LIMIT,
        );
        assert_eq!(output.code(), 0, "{}", output.stderr);
        assert_eq!(users(&memory), counters);
        text_holds(&before, guest.pid, "probes killed", &output);
        guest.tell(&RAISES.to_string());
        assert_eq!(guest.find("answer "), RAISES.to_string());
        guest.tell("");
        guest.ends_with_nothing("probes killed");
    }
}

/// Debian's Python has probes, too; those without a described prototype are shown by their notes.
#[test]
fn probes_of_a_python_are_told() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return skip("python probes", "no /usr/bin/python3");
    }
    let mut command = std::process::Command::new("/usr/bin/python3");
    let script = "import gc; gc.disable(); print('ready', flush=True); input()\nfor k in range(3): gc.collect(k)\nprint('answer', flush=True); input()";
    command.args(["-c", script]);
    let mut guest = Guest::start("python3", command);
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let watch = hooked(calls(guest.pid, &["-x", "usdt:python:gc__*"]));
    guest.tell("");
    guest.expect("answer");
    let output = left(watch, "python probes");
    if output.stderr.contains(" has no function usdt:python:") || output.stderr.contains(" 0 of 0 ")
    {
        return skip("python probes", "its Python has none");
    }
    text_holds(&before, guest.pid, "python probes", &output);
    let generations: Vec<&str> = output
        .stdout
        .lines()
        .filter_map(|line| {
            line.split("usdt:python:gc__start(")
                .nth(1)?
                .split(')')
                .next()
        })
        .collect();
    assert_eq!(generations, ["0", "1", "2"], "{}", output.stdout);
    assert_eq!(output.stdout.matches("usdt:python:gc__done(").count(), 3);
    guest.tell("");
    guest.ends_with_nothing("python probes");
}
