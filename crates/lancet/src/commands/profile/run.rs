//! Looks again and again, and writes where threads ran.

use frames::profile::Profile;
use process::guest::command_line;
use report::profile::Head;

use super::ProfileArgs;
use crate::sampling::{self, Request};
use crate::ui::sink::{Sink, require_room};
use crate::ui::terminal::Stream;

/// Runs `lancet profile` and returns the exit code.
pub fn run(args: ProfileArgs) -> anyhow::Result<u8> {
    // A program's standard output is its own.
    let stream = if args.program.is_empty() {
        Stream::Stdout
    } else {
        Stream::Stderr
    };
    require_room(args.format().is_text, args.output.as_deref(), stream)?;
    let mut sink = Sink::open(args.output.as_deref(), stream)?;
    let request = Request {
        pids: &args.pids,
        children: args.children,
        program: &args.program,
        fibers: false,
        running: true,
        length: args.length(),
        every: args.every,
    };
    // A process that ends meanwhile has no name any more.
    let who = who(&args);
    let mut profile = Profile::default();
    let sampled = sampling::run(&request, &mut |_, live, look| {
        profile.add_look(live, look);
    })?;
    profile.rounds = sampled.rounds;
    let title = sampled.title(profile.samples);
    let (cost, missed) = (sampled.cost(), sampled.missed());
    let head = Head {
        who: &who,
        title: &title,
        cost: &cost,
        missed: &missed,
        took: sampled.took,
        rows: args.rows(),
    };
    let format = args.format();
    format.write(&profile, &mut sink.out, &head)?;
    sampled.finish(&mut sink, format.is_json)
}

/// Which processes are looked at.
fn who(args: &ProfileArgs) -> String {
    if !args.program.is_empty() {
        let words = args.program.iter().map(|word| word.to_string_lossy());
        return words.collect::<Vec<_>>().join(" ");
    }
    let named = |pid: &i32| format!("process {pid} ({})", command_line(*pid));
    let children = if args.children {
        " and their children"
    } else {
        ""
    };
    let all: Vec<_> = args.pids.iter().map(named).collect();
    format!("{}{children}", all.join(", "))
}
