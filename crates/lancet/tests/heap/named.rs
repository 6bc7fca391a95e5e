//! What keeps the memory is named in the first row, where it is something of the VM's own, or where nothing but the type is common: methods
//! and packages that are made again and again, threads, callbacks, finalizers, functions without a name, coroutines, cycles.

use super::holders::{asked, first_suspect};
use crate::support::{Guest, Interpreter, chosen};

/// A program, and what its first suspect says.
struct Named {
    what: &'static str,
    script: &'static str,
    said: &'static [&'static str],
}

const RUBY: [Named; 4] = [
    Named {
        what: "methods",
        script: "module Compiled; end
class View; include Compiled; end
5000.times { |n| Compiled.module_eval(\"def _view___#{n}_#{n * 7919}(w); ['page #{n} ', w].join; end\"); View.new.send(\"_view___#{n}_#{n * 7919}\", 'you') }
puts 'ready'; $stdout.flush; gets",
        said: &[
            "Module Compiled has 5,000 names that differ in nothing but numbers (method _view___",
            "): they retain ",
        ],
    },
    Named {
        what: "threads",
        script: "def refresh; rows = Array.new(200) { |i| \"row #{i}\" }; sleep; rows; end
300.times { Thread.new { refresh } }
sleep 0.01 until Thread.list.all? { |one| one == Thread.current || one.status == 'sleep' }
puts 'ready'; $stdout.flush; gets",
        said: &["301 × Thread: they retain "],
    },
    Named {
        what: "ractors",
        script: "$VERBOSE = nil
class Pool; end
120.times { |n| Pool.const_set(\"WORKER_#{n}\", Ractor.new { Array.new(400) { |i| \"row #{i}\" } }) }
sleep 0.01 until Ractor.count == 1
puts 'ready'; $stdout.flush; gets",
        said: &[" × Ractor: they retain ", " hang on Class Pool"],
    },
    Named {
        what: "finalizers",
        script: "class Job; def initialize(n); @rows = Array.new(20) { |i| \"row #{i} of #{n}\" }; ObjectSpace.define_finalizer(self, proc { @rows.clear }); end; end
3000.times { |n| Job.new(n) }
puts 'ready'; $stdout.flush; gets",
        said: &["are held by finalizer", "; one keeps Proc -e:1 → Job"],
    },
];

const PYTHON: [Named; 5] = [
    Named {
        what: "callbacks at exit",
        script: "import atexit, sys
class Client:
    def __init__(self, n):
        self.pool = {'conn%d' % i: 'buffer %d %d' % (n, i) for i in range(10)}
        atexit.register(self.close)
    def close(self): self.pool.clear()
for n in range(3000): Client(n)
print('ready', flush=True); sys.stdin.readline()",
        // They are methods, since 3.14 in tuples in a list.
        said: &["3,000 × ", " the VM atexit callbacks"],
    },
    Named {
        what: "coroutines",
        script: "import asyncio, sys
class Job:
    def __init__(self, n): self.rows = ['row %d of %d' % (i, n) for i in range(10)]
async def handle(n):
    job = Job(n)
    await asyncio.Event().wait()
kept = []
async def main():
    for n in range(3000): kept.append(handle(n)); kept[-1].send(None)
    print('ready', flush=True); sys.stdin.readline()
asyncio.run(main())",
        said: &["list @global kept of module __main__ retains ", "3,000 × coroutine handle"],
    },
    Named {
        what: "modules",
        script: "import sys, types
for n in range(3000):
    module = sys.modules['plugin_%d_%x' % (n, n * 7919)] = types.ModuleType('plugin_%d' % n)
    exec('def run(w):\\n return \"plugin %d \" + w\\nTABLE = [str(n) for n in range(20)]' % n, module.__dict__)
print('ready', flush=True); sys.stdin.readline()",
        said: &["sys.modules has 3,000 names that differ in nothing but numbers ([plugin_"],
    },
    Named {
        what: "functions that are made by exec",
        script: "import sys
for n in range(3000): exec('def view_%d_%x(w):\\n return \"page %d \" + w' % (n, n * 7919, n), globals())
print('ready', flush=True); sys.stdin.readline()",
        said: &["has 3,000 names that differ in nothing but numbers (global view_"],
    },
    Named {
        what: "the registry of a class",
        script: "import sys
class Events:
    listeners = []
for n in range(3000): Events.listeners.append(['row %d of %d' % (i, n) for i in range(5)])
print('ready', flush=True); sys.stdin.readline()",
        said: &["list @.listeners of class __main__.Events retains "],
    },
];

const PERL: [Named; 3] = [
    Named {
        what: "packages",
        script: "for my $n (1 .. 3000) { eval \"package Compiled::T$n; sub render { return 'page $n ' . \\$_[0] } 1\" or die $@ }
$| = 1; print \"ready\\n\"; <STDIN>;",
        said: &["PACKAGE Compiled has 3,000 names that differ in nothing but numbers (.T"],
    },
    Named {
        what: "a sub that knows itself",
        script: "sub scan {
  my ($root) = @_; my @seen; my $walk;
  $walk = sub { push @seen, \"path $root/$_[0]/$_[1]\"; $walk->(\"$_[0]/x\", $_[1] + 1) if $_[1] < 8 };
  $walk->('a', 0);
}
scan(\"dir$_\") for 1 .. 2000;
$| = 1; print \"ready\\n\"; <STDIN>;",
        said: &[
            "garbage takes ",
            "kept by 2,000 cycles of references, one through CODE main::__ANON__ -e:3",
            "local variable $walk",
        ],
    },
    Named {
        what: "closures",
        script: "my @timers;
sub later { my ($job) = @_; push @timers, sub { scalar @$job } }
later([map { \"row $_ of $_[0]\" } 1 .. 10]) for 1 .. 3000;
$| = 1; print \"ready\\n\"; <STDIN>;",
        said: &["ARRAY @", "3,000 × CODE main::__ANON__ -e:2"],
    },
];

fn is_named(interpreter: &Interpreter, named: &Named) {
    let option = if interpreter.language == "python" {
        "-c"
    } else {
        "-e"
    };
    let mut command = interpreter.command();
    let guest = Guest::ready(command.args([option, named.script]));
    let output = asked(guest.pid);
    let suspect = first_suspect(&output);
    for part in named.said {
        assert!(
            suspect.contains(part),
            "{interpreter}, {}: {part} in\n{}",
            named.what,
            output.stdout
        );
    }
    // Of a group of 300 threads the VM stacks would be 300 MiB.
    let percent = suspect
        .split_once(" %)")
        .and_then(|(head, _)| head.rsplit_once('('));
    assert!(
        percent.is_some_and(|(_, number)| number.parse::<u64>().is_ok_and(|of| of <= 100)),
        "{suspect}"
    );
}

#[test]
fn who_keeps_it_is_the_first_row_of_a_ruby() {
    for ruby in chosen("ruby", "named") {
        // Ractors came with 3.0.
        let has = |named: &&Named| named.what != "ractors" || !ruby.to_string().contains("2.7");
        let told = RUBY.iter().filter(has);
        told.for_each(|named| is_named(&ruby, named));
    }
}

#[test]
fn who_keeps_it_is_the_first_row_of_a_python() {
    for python in chosen("python", "named") {
        PYTHON.iter().for_each(|named| is_named(&python, named));
    }
}

#[test]
fn who_keeps_it_is_the_first_row_of_a_perl() {
    for perl in chosen("perl", "named") {
        PERL.iter().for_each(|named| is_named(&perl, named));
    }
}
