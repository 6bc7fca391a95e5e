//! Which reports a run writes, for one guest and for several.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use births::analysis::{Census, Counts, Frame, SiteCount};
use clap::Parser;
use report::Style;

use super::*;
use crate::cli::Cli;
use crate::commands::Command;

/// A destination that can be read back.
#[derive(Clone, Default)]
struct Page(Rc<RefCell<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Page {
    /// What was written since the last call.
    fn take(&self) -> String {
        String::from_utf8(self.0.take()).unwrap()
    }
}

fn reporter_of(flags: &str) -> (Reporter, Page) {
    let line = format!("lancet mem -p 1 {flags}");
    let Command::Mem(args) = Cli::parse_from(line.split_whitespace()).command else {
        panic!("the line says mem");
    };
    let page = Page::default();
    let sink = Sink {
        out: Box::new(page.clone()),
        style: Style::default(),
        form: None,
    };
    (args.reporter(sink), page)
}

fn guest(pid: i32, second: u64) -> Census {
    let frame = Frame {
        path: "app.rb".into(),
        line: 12,
        method: "fill".into(),
    };
    Census {
        pid,
        command: vec!["puma: worker".into()],
        language: "Ruby",
        version: "3.1.2".into(),
        seconds: second as f64,
        taken_at: None,
        sites: vec![SiteCount {
            frames: vec![Arc::new(frame)],
            kind: "String".into(),
            internal: false,
            counts: Counts::of_births(20 * second, 10 * second, 400 * second),
        }],
        walk_pause: Duration::from_millis(1),
        followed: true,
        uncollected: births::analysis::Uncollected::Unasked,
        ..Census::default()
    }
}

/// The head lines of a page of tables.
fn heads(page: &Page) -> Vec<String> {
    let heads = page.take();
    let heads = heads.lines().filter(|line| line.contains(", Ruby "));
    heads.map(str::to_owned).collect()
}

#[test]
fn one_look_at_one_guest() {
    let (mut reporter, page) = reporter_of("--format memprof");
    assert!(!reporter.report(vec![guest(7, 3)]).unwrap());
    assert_eq!(page.take(), "     30 app.rb:12:String\n");
}

#[test]
fn from_the_second_look_on_it_is_growth() {
    let (mut reporter, page) = reporter_of("--every 1s --format folded");
    reporter.report(vec![guest(7, 1)]).unwrap();
    assert_eq!(page.take(), "fill (app.rb:12);String 10\n");
    reporter.report(vec![guest(7, 4)]).unwrap();
    assert_eq!(page.take(), "fill (app.rb:12);String 30\n");
}

#[test]
fn a_start_is_not_written() {
    let (mut reporter, page) = reporter_of("--every 1s --format folded");
    reporter.start(vec![guest(7, 1)]);
    reporter.report(vec![guest(7, 2)]).unwrap();
    assert_eq!(page.take(), "fill (app.rb:12);String 10\n");
}

/// A worker that runs another program, or whose id another process has got, is watched anew: what it held is no older look.
#[test]
fn another_program_of_the_same_id_did_not_grow() {
    let (mut reporter, page) = reporter_of("--every 1s --format folded");
    reporter.report(vec![guest(7, 5)]).unwrap();
    page.take();
    let mut anew = guest(7, 1);
    anew.watch = 1;
    reporter.report(vec![anew.clone()]).unwrap();
    assert_eq!(page.take(), "fill (app.rb:12);String 10\n", "the living");
    anew.seconds = 2.0;
    anew.sites[0].counts = Counts::of_births(20, 13, 400);
    reporter.report(vec![anew]).unwrap();
    assert_eq!(page.take(), "fill (app.rb:12);String 3\n", "the growth");
}

#[test]
fn memprof_counts_the_living_each_time() {
    let (mut reporter, page) = reporter_of("--every 1s --format memprof");
    reporter.report(vec![guest(7, 1)]).unwrap();
    reporter.report(vec![guest(7, 2)]).unwrap();
    assert_eq!(
        page.take(),
        "     10 app.rb:12:String\n\n     20 app.rb:12:String\n"
    );
}

#[test]
fn workers_are_merged_and_each() {
    let (mut reporter, page) = reporter_of("--children");
    reporter.report(vec![guest(7, 1), guest(8, 2)]).unwrap();
    insta::assert_snapshot!(page.take(), @"
    2 processes: puma: worker, Ruby 3.1.2, watched for 2.0 s

    live  born  dead    bytes  allocated  file:line:Type
      30    60    30  1.2 KiB        0 B  app.rb:12:String
      30    60    30  1.2 KiB        0 B  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    paused: 1.0 ms for the count, no GC before it
    live includes garbage that no GC has collected yet

    puma: worker (PID 7), Ruby 3.1.2, watched for 1.0 s

    live  born  dead  bytes  allocated  file:line:Type
      10    20    10  400 B        0 B  app.rb:12:String
      10    20    10  400 B        0 B  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    paused: 1.0 ms for the count, no GC before it
    live includes garbage that no GC has collected yet

    puma: worker (PID 8), Ruby 3.1.2, watched for 2.0 s

    live  born  dead  bytes  allocated  file:line:Type
      20    40    20  800 B        0 B  app.rb:12:String
      20    40    20  800 B        0 B  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    paused: 1.0 ms for the count, no GC before it
    live includes garbage that no GC has collected yet
    ");
}

#[test]
fn classic_lines_of_workers_are_merged_only() {
    let (mut reporter, page) = reporter_of("--children --format memprof");
    reporter.report(vec![guest(7, 1), guest(8, 2)]).unwrap();
    assert_eq!(page.take(), "     30 app.rb:12:String\n");
}

#[test]
fn a_worker_that_comes_does_not_grow_the_others() {
    let (mut reporter, page) = reporter_of("--children --every 1s");
    reporter.report(vec![guest(7, 1), guest(8, 1)]).unwrap();
    page.take();
    reporter
        .report(vec![guest(7, 2), guest(8, 2), guest(9, 2)])
        .unwrap();
    insta::assert_snapshot!(heads(&page).join("\n"), @"
    2 processes: puma: worker, Ruby 3.1.2, what changed in 1.0 s (2.0 s after opening)
    puma: worker (PID 7), Ruby 3.1.2, what changed in 1.0 s (2.0 s after opening)
    puma: worker (PID 8), Ruby 3.1.2, what changed in 1.0 s (2.0 s after opening)
    puma: worker (PID 9), Ruby 3.1.2, watched for 2.0 s
    ");
    reporter.report(vec![guest(9, 3), guest(10, 3)]).unwrap();
    insta::assert_snapshot!(heads(&page).join("\n"), @"
    puma: worker (PID 9), Ruby 3.1.2, what changed in 1.0 s (3.0 s after opening)
    puma: worker (PID 10), Ruby 3.1.2, watched for 3.0 s
    ");
}

#[test]
fn a_limit_is_held_against_the_largest_row() {
    let (mut reporter, _page) = reporter_of("--fail-on 29 --top 0 --format json");
    assert!(!reporter.report(vec![guest(7, 2)]).unwrap());
    assert!(reporter.report(vec![guest(7, 3)]).unwrap());
}

#[test]
fn with_every_the_limit_is_of_growth() {
    let (mut reporter, _page) = reporter_of("--every 1s --fail-on 10");
    assert!(!reporter.report(vec![guest(7, 100)]).unwrap());
    assert!(!reporter.report(vec![guest(7, 101)]).unwrap());
    assert!(reporter.report(vec![guest(7, 103)]).unwrap());
}
