//! Ruby from 3.3 on, where threads of the VM share kernel threads (`RUBY_MN_THREADS`), and where a thread of the VM's own, its timer, has been
//! made by a thread that runs a script: each thread's script is told once, and of no other.

use super::output::{stack, text};
use crate::support::{Guest, LIMIT, all, lancet, run};
use std::collections::BTreeMap;

/// Each of its threads is in a method of its own name.
const SCRIPT: &str = r#"
$stdout.sync = true
def sleeps_0 = sleep
def sleeps_1 = sleep
def sleeps_2 = sleep
def waits(queue) = queue.pop
def spins
  Thread.pass until Thread.main.stop?
  puts "ready"
  loop { 1 + 1 }
end
def main_waits = $stdin.gets
begun = Queue.new
threads = 3.times.map { |at| Thread.new { begun << 1; send("sleeps_#{at}") } }
threads << Thread.new { begun << 1; waits(Queue.new) }
4.times { begun.pop }
Thread.pass until threads.all?(&:stop?)
Thread.new { spins }
main_waits
"#;
const METHODS: [&str; 6] = [
    "sleeps_0",
    "sleeps_1",
    "sleeps_2",
    "waits",
    "spins",
    "main_waits",
];

#[test]
fn each_thread_of_the_vm_is_told_once() {
    for ruby in all("ruby", &["3.3", "3.4", "4.0"]) {
        for shared in ["0", "1"] {
            let mut command = ruby.command();
            command.env("RUBY_MN_THREADS", shared).args(["-e", SCRIPT]);
            let guest = Guest::start("shared", command);
            guest.expect("ready");
            for look in ["before", "after a heap"] {
                let output = stack(&["-p", &guest.pid.to_string()]);
                let shown = text(&output);
                // A block in a method is a frame of its own.
                let methods = || shown.lines().filter(|line| !line.contains(" block in "));
                let told: BTreeMap<&str, usize> = METHODS
                    .iter()
                    .map(|name| {
                        let own = format!(" in Object#{name}");
                        (*name, methods().filter(|line| line.ends_with(&own)).count())
                    })
                    .collect();
                let once = told.values().all(|times| *times == 1);
                assert!(once, "{ruby}, shared {shared}, {look}: {told:?}\n{shown}");
                let heap = run(lancet().args(["heap", "-p", &guest.pid.to_string()]), LIMIT);
                assert_eq!(heap.code(), 0, "{heap:?}");
            }
        }
    }
}
