//! `--events`: processes as they come and go. Used by `run`.

use std::time::{Duration, Instant};

use anyhow::bail;
use report::losses::{Loss, What};
use report::tune::events::{json, text};
use tune::events::{Connector, Event, Exits, Followed};

use super::TuneArgs;
use crate::exit::Usage;
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Bytes the kernel may keep for us: room for some 40,000 events that come while we write.
const BUFFER: usize = 32 << 20;
/// How long Ctrl-C may go unnoticed.
const WAIT: Duration = Duration::from_millis(100);

/// Writes events until Ctrl-C, the end of the time, or the end of all processes that are followed.
pub fn run(args: &TuneArgs) -> anyhow::Result<u8> {
    if args.root.is_some() {
        let says = "events happen on a live machine: leave out --root";
        return Err(Usage(says.into()).into());
    }
    interrupt::catch();
    let mut sink = Sink::open(None, Stream::Stdout)?.in_form(args.chosen().records());
    let begin = Instant::now();
    let go_on =
        || !interrupt::asked() && args.watch_for.is_none_or(|limit| begin.elapsed() < limit);
    let mut connector = match Connector::open(BUFFER) {
        Ok(connector) => connector,
        Err(cannot) if args.pids.is_empty() => {
            bail!(
                "{cannot}: run lancet as root on the host, or name processes with -p PID to see them end"
            );
        }
        Err(cannot) => {
            let exits = Exits::of(&args.pids)?;
            tell!("{cannot}; only the end of the named processes is told, and not how");
            return ends(exits, args, &mut sink, go_on);
        }
    };
    let mut writer = Writer {
        json: args.has_records(),
        followed: Followed::new(&args.pids),
        written: 0,
    };
    tell!("listening for process events");
    while go_on() && !writer.followed.is_done() {
        for event in connector.receive(WAIT)?.events {
            writer.write(&mut sink, &event)?;
        }
        sink.out.flush()?;
    }
    // Whatever was lost last shows only when something comes behind it.
    connector.hear_every_cpu()?;
    for event in connector.receive(Duration::ZERO)?.events {
        writer.write(&mut sink, &event)?;
    }
    let lost = connector.losses();
    let text = text::summary(writer.written, lost);
    tell!("{text}");
    let mut losses = Losses::default();
    if lost.missing() > 0 || lost.overruns() > 0 {
        losses.note(Loss::new(None, What::Events, Some(lost.missing()), text));
    }
    if args.has_records() {
        json::summary(&mut sink.out, writer.written, lost)?;
    }
    losses.end(&mut sink)?;
    Ok(losses.exit_code(0))
}

/// Without the connector, all that can be learnt is that a process ended.
fn ends(
    mut exits: Exits,
    args: &TuneArgs,
    sink: &mut Sink,
    go_on: impl Fn() -> bool,
) -> anyhow::Result<u8> {
    while go_on() && !exits.is_done() {
        for pid in exits.receive(WAIT)? {
            if args.has_records() {
                json::end(&mut sink.out, pid)?;
            } else {
                text::end(&mut sink.out, pid)?;
            }
        }
        sink.out.flush()?;
    }
    Losses::default().end(sink)?;
    Ok(0)
}

/// Writes the events of the processes that are followed, and counts them.
struct Writer {
    json: bool,
    followed: Followed,
    written: u64,
}

impl Writer {
    fn write(&mut self, sink: &mut Sink, event: &Event) -> anyhow::Result<()> {
        let Some(command) = self.followed.admit(event) else {
            return Ok(());
        };
        self.written += 1;
        if self.json {
            json::event(&mut sink.out, event, &command)?;
        } else {
            text::event(&mut sink.out, event, &command)?;
        }
        Ok(())
    }
}
