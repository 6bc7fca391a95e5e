//! `calls --now` and `syscalls --blocked`: what is in progress, also what began before we came. Nothing is hooked: it is one
//! look at the threads, as `lancet stack` takes it. Used by `commands::calls::run` and `commands::syscalls`.

use frames::live::open::Wanted;
use report::FormatEntry;
use report::forms::{Chosen, Form};
use report::stack::now;
use std::path::Path;

use super::args::Common;
use crate::cli::format::require_first_or_records;
use crate::looks::{Written, each};
use crate::losses::Losses;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Shows what each thread is in, as a text or in a form of its records; the answer is the exit code. `what` asks for it, beside a form that was
/// `chosen` of this list.
pub fn run<F: FormatEntry>(
    common: &Common,
    chosen: Chosen<F>,
    formats: &'static [&'static F],
    what: &str,
) -> anyhow::Result<u8> {
    require_first_or_records(chosen, formats, what)?;
    show(
        &common.processes(),
        common.output.as_deref(),
        chosen.records(),
    )
}

fn show(pids: &[i32], output: Option<&Path>, form: Option<&'static Form>) -> anyhow::Result<u8> {
    let mut sink = Sink::open(output, Stream::Stdout)?.in_form(form);
    let mut losses = Losses::default();
    let wanted = Wanted {
        states: true,
        others: true,
        ..Wanted::default()
    };
    let mut written = Written::default();
    let looked = each(pids, wanted, &mut losses, |subject, _| {
        if form.is_some() {
            now::write_json(&mut sink.out, subject)?;
            return Ok(sink.out.flush()?);
        }
        let mut text = Vec::new();
        now::write(&mut text, subject, sink.style)?;
        written.add(subject, text);
        Ok(())
    });
    written.write(&mut sink.out)?;
    looked?;
    losses.end(&mut sink)?;
    Ok(losses.exit_code(0))
}
