//! Another user, another mount and PID namespace.

use std::process::Command;

use crate::support::{
    Guest, Interpreter, LIMIT, Report, Snapshot, TempDir, Watch, alone, as_nobody, born, children,
    copy_for_all, fixtures, installed, is_root, mem, rubies, run, skip,
};

/// The guest makes so many strings.
fn make(guest: &mut Guest, count: u32) {
    guest.tell(&count.to_string());
    guest.find("made ");
}

#[test]
fn an_ordinary_user_opens_a_process_of_his_own() {
    let test = "ordinary user";
    if !is_root() || !installed("setpriv") {
        return skip(test, "it needs root and setpriv to become an ordinary user");
    }
    let folder = TempDir::new("user");
    let tool = copy_for_all(&folder);
    // The fixtures may be below somebody's home, too.
    let script = folder.join("births.rb");
    std::fs::copy(fixtures().join("ruby/live/births.rb"), &script).expect("a copy");
    let mut program = Command::new("ruby");
    program.arg(&script);
    let mut guest = Guest::start(test, as_nobody(&program));
    guest.expect("ready");
    let before = Snapshot::take(guest.pid);
    let mut program = Command::new(&tool);
    program.args(["mem", "--format", "json", "-p", &guest.pid.to_string()]);
    let watch = Watch::open(as_nobody(&program));
    make(&mut guest, 1000);
    let report = watch.report();
    assert_eq!(born(report.of(guest.pid), "births.rb:9:String"), 1000);
    before.holds(guest.pid, test);
    guest.ends_with("answer 0");
}

#[test]
fn a_guest_in_another_mount_and_pid_namespace_is_opened() {
    let test = "namespaces";
    if !is_root() || !installed("unshare") {
        return skip(test, "it needs root and unshare");
    }
    for ruby in rubies(test) {
        let inner = ruby.command();
        let mut program = Command::new("unshare");
        program.args(["-m", "-p", "-f", "--mount-proc", "--kill-child"]);
        program.arg(inner.get_program()).args(inner.get_args());
        program.arg(fixtures().join("ruby/live/births.rb"));
        program.current_dir("/tmp");
        let mut guest = Guest::start(test, program);
        guest.expect("ready");
        // The guest's own id is 1 there; here it is the child of `unshare`.
        let [pid] = children(guest.pid)[..] else {
            panic!("not one child");
        };
        let before = Snapshot::take(pid);
        for attach in 1..=2 {
            let watch = Watch::open(mem(pid));
            make(&mut guest, 1000);
            let report = watch.report();
            let count = born(report.of(pid), "births.rb:9:String");
            assert_eq!(count, 1000, "{ruby}, attach {attach}");
            before.holds(pid, test);
        }
        guest.ends_with("answer 0");
    }
}

/// A lancet inside a container leaves a guest that another one outside has open alone, and the other
/// way round: their process ids say nothing to each other, the heartbeat does.
#[test]
fn two_lancets_in_two_namespaces_see_each_other() {
    alone();
    let test = "two namespaces";
    if !is_root() || !installed("unshare") {
        return skip(test, "it needs root and unshare");
    }
    let ruby = Interpreter::system("ruby");
    let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
    guest.expect("ready");
    let watch = Watch::open(mem(guest.pid));
    // Another PID namespace that still sees this one's /proc: its own id there is another one.
    let mut program = Command::new("unshare");
    program.args(["-p", "-f"]);
    let inner = mem(guest.pid);
    program.arg(inner.get_program()).args(inner.get_args());
    program.args(["--for", "1ms"]);
    let output = run(&mut program, LIMIT);
    assert_ne!(output.code(), 0, "{output:?}");
    make(&mut guest, 1000);
    let report: Report = watch.report();
    assert_eq!(born(report.of(guest.pid), "births.rb:9:String"), 1000);
    guest.ends_with("answer 0");
}
