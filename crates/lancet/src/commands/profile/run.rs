//! Looks again and again, and writes where threads ran.

use frames::profile::Profile;
use report::profile::Head;

use super::ProfileArgs;
use crate::sampling::{self, Request};
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Runs `lancet profile` and returns the exit code.
pub fn run(args: ProfileArgs) -> anyhow::Result<u8> {
    // A program's standard output is its own.
    let stream = if args.program.is_empty() {
        Stream::Stdout
    } else {
        Stream::Stderr
    };
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
    let mut profile = Profile::default();
    let sampled = sampling::run(&request, &mut |_, live, look| {
        profile.add_look(live, look);
    })?;
    profile.rounds = sampled.rounds;
    let title = sampled.title(profile.samples);
    let head = Head {
        title: &title,
        rows: args.rows(),
    };
    let format = args.format();
    format.write(&profile, &mut sink.out, &head)?;
    sampled.finish(&mut sink, format.is_json)
}
