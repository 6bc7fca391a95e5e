//! The reporter that the flags of `lancet mem` ask for.

use report::mem::{Options, Reporter};

use super::MemArgs;
use crate::ui::sink::Sink;

/// Returns the reporter of one run, which writes to `sink`.
pub fn reporter(args: &MemArgs, sink: Sink) -> Reporter {
    let options = Options {
        format: args.format(),
        stacks: args.chosen().stacks,
        view: args.view(),
        weight: args.weight(),
        style: sink.style,
        limit: args.fail_on,
        growing: args.interval().is_some(),
    };
    Reporter::new(sink.out, options)
}

#[cfg(test)]
mod tests;
