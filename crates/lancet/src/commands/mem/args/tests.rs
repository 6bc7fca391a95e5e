//! What a command line amounts to, and what is refused in which words.

mod reports;

use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::Cli;
use crate::commands::Command;

fn mem(line: &str) -> Result<MemArgs, clap::Error> {
    let line = format!("lancet mem {line}");
    match Cli::try_parse_from(line.split_whitespace())?.command {
        Command::Mem(args) => Ok(args),
        other => panic!("{other:?} is another command"),
    }
}

/// The first line of the refusal; the exit code must be that of wrong usage.
fn refusal(line: &str) -> String {
    let error = mem(line).expect_err("this is wrong usage");
    assert_eq!(error.exit_code(), 2);
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn defaults() {
    let args = mem("-p 42").unwrap();
    assert_eq!(args.pids, [42]);
    assert!(args.gc() && !args.children && !args.live);
    assert_eq!(args.chosen().name(), "table");
    assert_eq!(args.interval(), None);
    assert_eq!(
        args.view(),
        View {
            top: Some(40),
            order: Order::Growth,
            fold: Fold::Libraries { app: String::new() },
            ..View::default()
        }
    );
    assert_eq!(args.weight(), Weight::Live);
}

#[test]
fn json_is_short_for_its_format() {
    assert_eq!(mem("-p 1 --json --for 1s").unwrap().chosen().name(), "json");
    assert_eq!(
        refusal("-p 1 --json --format table"),
        "error: the argument '--json' cannot be used with '--format <FORMAT>'"
    );
}

#[test]
fn everything_at_once() {
    let args = mem(
        "-p 1 -p 2 --children --for 2m --every 500ms --no-gc --by gem --sort bytes --min 5 --top 3 \
         --internal --format json -o /tmp/x --fail-on 9",
    )
    .unwrap();
    assert_eq!(args.pids, [1, 2]);
    assert_eq!(args.watch_for, Some(Duration::from_secs(120)));
    assert_eq!(args.interval(), Some(Duration::from_millis(500)));
    assert!(!args.gc());
    let view = View {
        by: By::Gem,
        fold: Fold::Nothing,
        internal: true,
        order: Order::Bytes,
        min: 5,
        top: Some(3),
    };
    assert_eq!(args.view(), view);
    assert_eq!(args.chosen().name(), "json");
    assert_eq!(args.output.as_deref(), Some("/tmp/x".as_ref()));
    assert_eq!(args.fail_on, Some(9));
}

#[test]
fn a_program_keeps_its_own_options() {
    let args = mem("--top 0 -- ruby -p --for app.rb").unwrap();
    assert_eq!(args.program, ["ruby", "-p", "--for", "app.rb"]);
    assert!(args.pids.is_empty());
    assert_eq!(mem("-- irb").unwrap().program, ["irb"]);
    assert_eq!(args.view().top, None);
}

#[test]
fn stacks_are_folded_and_whole() {
    let args = mem("-p 1 --stacks 16 --weight bytes").unwrap();
    assert_eq!(args.chosen().name(), "folded");
    assert_eq!(
        args.view(),
        View {
            by: By::Stack,
            min: 0,
            order: Order::Growth,
            ..View::default()
        }
    );
    assert_eq!(args.weight(), Weight::Bytes);
    assert_eq!(
        mem("-p 1 --stacks 16 --format table").unwrap().view().top,
        Some(40)
    );
}

/// What is asked does not depend on which of the forms shows it.
#[test]
fn forms_of_stacks_have_the_same_rows() {
    for form in ["folded", "speedscope", "svg", "firefox", "pprof", "otlp"] {
        let asked = |by: &str| {
            let args = mem(&format!("-p 1 --for 1s --format {form} {by}")).unwrap();
            assert_eq!(args.flaw(), None, "{form}");
            args.view().by
        };
        assert_eq!(asked(""), By::Stack, "{form}");
        assert_eq!(asked("--by file"), By::File, "{form}");
        assert_eq!(asked("--by line"), By::Line, "{form}");
    }
}

#[test]
fn the_last_word_on_gc_holds() {
    assert!(mem("-p 1 --no-gc --gc").unwrap().gc());
    assert!(!mem("-p 1 --gc --no-gc").unwrap().gc());
}

#[test]
fn live_looks_each_second() {
    let args = mem("-p 1 --live --for 10s").unwrap();
    assert_eq!(args.interval(), Some(Duration::from_secs(1)));
}

#[test]
fn refusals_say_what_is_wrong() {
    for line in [
        "",
        "-p 1 -- ruby app.rb",
        "-p 0",
        "-p self",
        "-p 1 --for 30",
        "-p 1 --every 1ms",
        "-p 1 --live --every 2s",
        "-p 1 --stacks 3 --by gem",
        "-p 1 --stacks 513",
        "-p 1 --format xml",
        "--live -- ruby app.rb",
        "ruby app.rb",
        "--",
    ] {
        assert!(refusal(line).starts_with("error: "), "{line}");
    }
    insta::assert_snapshot!(refusal("-p 1 --for 30"), @"error: invalid value '30' for '--for <DURATION>': `30` has no unit: write 30s, 30m or 30ms");
    insta::assert_snapshot!(refusal("-p 1 -- ruby app.rb"), @"error: the argument '--pid <PID>' cannot be used with '[PROGRAM]...'");
    insta::assert_snapshot!(mem("").unwrap_err().to_string(), @"
    error: the following required arguments were not provided:
      <--pid <PID>|PROGRAM>

    Usage: lancet mem [OPTIONS] -p PID...
           lancet mem [OPTIONS] -- PROGRAM [ARG]...

    For more information, try '--help'.
    ");
}

#[test]
fn help() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mem = command.find_subcommand_mut("mem").expect("it is declared");
    insta::assert_snapshot!(mem.render_help().to_string(), @"
    Which file:line:Type holds the memory of a running Ruby, Python or PHP?

    Usage: lancet mem [OPTIONS] -p PID...
           lancet mem [OPTIONS] -- PROGRAM [ARG]...

    Options:
      -h, --help  Print help (see more with '--help')

    What to open:
      -p, --pid <PID>  Open the running process PID; may be repeated, the report is then merged and per
                       process
          --children   Open its child processes as well (a preforking server's workers), merged and per
                       worker
          --native     Count the blocks of the process's allocator (malloc), of which no VM knows: any
                       program, by the function that took them
      [PROGRAM]...     Start PROGRAM with its ARGs and watch it from its first line

    When to look:
          --for <DURATION>    Watch for so long (500ms, 30s, 2m); without it until Ctrl-C or the end of
                              the process
          --every <DURATION>  Report every DURATION what grew since the last report: the leak view
          --gc                Collect garbage before each count; its pause is printed (the default)
          --no-gc             Collect no garbage first: no long pause, but what is garbage already
                              counts as living
          --budget <PERCENT>  Looks that can wait hold the process for at most so many percent of the
                              time: those of --every and --live come later where they take long
                              [default: 5]

    What to show:
          --lines           With --native: tell each block with the line of the script that ran when it
                            was taken. Each malloc then costs 0.1 µs more, behind many frames of
                            libraries several µs
          --by <WHAT>       What makes a row [default: line, of forms of stacks the function that made
                            the objects] [possible values: line, method, file, gem, type]
      -a, --all             One row for each line of a library too, which otherwise are added up by gem
          --app <TEXT>      Files whose path has TEXT in it are the application's, all others are of
                            libraries [default: by where gems and Ruby are installed]
          --stacks <DEPTH>  Keep the call path of each birth, at most DEPTH frames (1 to 512), and write
                            them folded for flame graphs
          --sort <FIGURE>   What comes first: the steadiest growth, or the largest figure [default:
                            growth; live for a program that is started without --every] [possible
                            values: growth, live, born, bytes, allocated]
          --temporary       What was made meanwhile and is gone, most first, with its share of all that
                            was made there
          --min <N>         Only rows of at least N living objects (with --every: that changed by N;
                            with --temporary: of N that are gone) [default: 1 in a table, else 0]
          --top <N>         At most N rows, the rest in one line; 0 for all [default: 40 in a table,
                            else all]
          --internal        Show the VM's own objects too (IMEMO and the like), which Ruby code never
                            sees

    How to write it:
          --format <FORMAT>  How to write it [default: table, with --stacks folded] [possible values:
                             table, memprof, json, csv, markdown, parquet, folded, speedscope, svg,
                             firefox, pprof, otlp]
          --json             The same as --format json
          --weight <FIGURE>  Which figure is the weight of a stack [default: live] [possible values:
                             live, born, bytes]
      -o, --output <FILE>    Write to FILE, readable by you alone (mode 0600), instead of standard
                             output (standard error when a program is started)
          --live             A screen that is refreshed each second; where standard output is no
                             terminal, as --every 1s
          --fail-on <N>      Exit with 3 when a row holds more than N living objects (with --every: grew
                             by more than N; with --temporary too the living count)

    Examples:
      lancet mem -p 4242 --for 30s          which line leaks, and who holds what was made meanwhile
      lancet mem -p 4242 --every 10s        the same again and again, and what grew since
      lancet mem -p 4242 --children --live  a server and its workers, on a screen
      lancet mem -p 4242 --native --for 1m  which C function takes memory and does not give it back
      lancet mem --native -- ./convert       what it has not given back at its end
      lancet mem --stacks 32 -o mem.folded -- ruby app.rb

    Exit status: the started program's own; with -p 0, 1 could not be done, 2 wrong usage,
    3 a limit was exceeded (--fail-on), 4 done, but something was lost or refused.
    ");
}

#[test]
fn every_option_is_in_the_manual() {
    let mut command = Cli::command();
    command.build();
    let mem = command.find_subcommand("mem").expect("it is declared");
    let manual = include_str!("../../../../../../docs/mem.md");
    let shown = mem.get_arguments().filter(|one| !one.is_hide_set());
    for long in shown.filter_map(|argument| argument.get_long()) {
        assert!(
            manual.contains(&format!("--{long}")),
            "--{long} is not in docs/mem.md"
        );
    }
}

/// Flags that say nothing of native blocks are refused and not passed over.
#[test]
fn what_native_blocks_do_not_have_is_refused() {
    for flag in ["--gc", "--no-gc", "--budget 5", "--stacks 3"] {
        let line = refusal(&format!("-p 1 --native {flag}"));
        assert!(line.contains("cannot be used with"), "{line}");
    }
    let flaw = |line: &str| mem(&format!("-p 1 --native {line}")).unwrap().flaw();
    for by in ["line", "gem", "type"] {
        let said = flaw(&format!("--by {by}")).expect("a flaw");
        assert!(
            said.starts_with(&format!("--by {by} says nothing")),
            "{said}"
        );
    }
    assert!(flaw("--sort growth").is_some());
    assert_eq!(flaw("--by file"), None);
    assert_eq!(flaw("--lines --by line --children"), None);
    assert!(flaw("--lines --by gem").is_some());
    let alone = mem("-p 1 --lines").unwrap_err().to_string();
    assert!(alone.contains("--native"), "{alone}");
    assert_eq!(flaw("--sort bytes --every 1s"), None);
}
