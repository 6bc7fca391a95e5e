//! Programs that keep nothing they do not need: nobody is suspected.

use super::holders::asked;
use crate::support::{Guest, chosen};

/// What each does before it waits for its end: libraries as applications load them, work whose results go, small tables of their own.
const CLEAN: [(&str, &[&str]); 4] = [
    (
        "ruby",
        &[
            "puts 'ready'",
            "require 'json'; require 'set'; require 'time'; 200.times { JSON.parse(JSON.generate('a' => [1, 2, 3])) }; puts 'ready'",
            "require 'erb'; require 'optparse'; require 'logger'; 500.times { ERB.new('<%= 1 %>').result }; puts 'ready'",
            "S = Struct.new(:a, :b); $seen = {}; 20_000.times { |i| $seen[i % 50] = S.new(i, i.to_s) }; puts 'ready'",
            "q = Queue.new; t = Array.new(8) { Thread.new { while (x = q.pop) do x.to_s * 10 end } }; 1000.times { |i| q << i }; sleep 0.01 until q.empty?; puts 'ready'",
            "require 'net/http'; require 'openssl'; require 'yaml'; puts 'ready'",
        ],
    ),
    (
        "python",
        &[
            "print('ready', flush=True)",
            "import json, re, collections, logging, http.client; [json.loads(json.dumps({'a': [1, 2, 3]})) for _ in range(500)]; print('ready', flush=True)",
            "import asyncio\nasync def f(n): await asyncio.sleep(0); return n\nasync def g(): await asyncio.gather(*(f(n) for n in range(500)))\nasyncio.run(g()); print('ready', flush=True)",
            "import functools\n@functools.lru_cache(maxsize=64)\ndef f(n): return 'x' * n\n[f(n % 200) for n in range(5000)]; print('ready', flush=True)",
            "import threading, queue, decimal, datetime, unittest, email.message, xml.etree.ElementTree; print('ready', flush=True)",
            "class Row:\n    def __init__(self, n): self.n = n; self.text = str(n) * 5\nfor _ in range(20): rows = [Row(n) for n in range(2000)]\nrows = None; print('ready', flush=True)",
        ],
    ),
    (
        "perl",
        &[
            "$| = 1; print \"ready\\n\"",
            "use POSIX; use Data::Dumper; use List::Util; $| = 1; Dumper([1 .. 20]) for 1 .. 100; print \"ready\\n\"",
            "use Getopt::Long; use File::Temp; use Time::Local; $| = 1; my %h; $h{$_ % 20} = \"v$_\" for 1 .. 5000; print \"ready\\n\"",
            "package Row; sub new { bless { n => $_[1], t => \"row $_[1]\" }, $_[0] } package main; $| = 1; for (1 .. 5) { my @rows; push @rows, Row->new($_) for 1 .. 500 } print \"ready\\n\"",
        ],
    ),
    (
        "php",
        &[
            "echo \"ready\\n\";",
            "class Row { public $n; public $t; function __construct($n) { $this->n = $n; $this->t = str_repeat('x', 20); } } for ($i = 0; $i < 5; $i++) { $rows = array_map(fn($n) => new Row($n), range(1, 500)); } $rows = null; echo \"ready\\n\";",
            "function f($n) { static $c = []; return $c[$n % 10] ??= \"v$n\"; } for ($i = 0; $i < 2000; $i++) f($i); echo \"ready\\n\";",
            "for ($i = 0; $i < 500; $i++) unserialize(serialize(['a' => [1, 2, 3]])); echo \"ready\\n\";",
        ],
    ),
];

/// What keeps the program until its standard input ends.
fn waits(language: &str) -> &'static str {
    match language {
        "ruby" => "; $stdout.flush; gets",
        "python" => "; import sys; sys.stdin.readline()",
        "perl" => "; <STDIN>",
        _ => " fgets(STDIN);",
    }
}

#[test]
fn nobody_is_suspected_where_nothing_is_kept() {
    for (language, scripts) in CLEAN {
        let option = match language {
            "python" => "-c",
            "php" => "-r",
            _ => "-e",
        };
        for interpreter in chosen(language, "clean") {
            for script in scripts {
                let mut command = interpreter.command();
                // Of a small program the environment, which it did not make, is a tenth.
                let kept =
                    ["PATH", "HOME", "LANCET_ROOTS"].map(|name| (name, std::env::var_os(name)));
                command.env_clear();
                command.envs(
                    kept.into_iter()
                        .filter_map(|(name, value)| Some((name, value?))),
                );
                let script = format!("{script}{}", waits(language));
                let guest = Guest::ready(command.args([option, &script]));
                let output = asked(guest.pid);
                assert!(
                    output.stdout.contains("\nno suspect: "),
                    "{interpreter}: {script}\n{}",
                    output.stdout
                );
            }
        }
    }
}
