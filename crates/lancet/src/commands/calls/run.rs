//! What `lancet calls` does that needs no watching: the list of `-D help`, and `--now`.

use super::CallsArgs;
use crate::exit::Usage;

use crate::ui::sink::print;
use crate::watching::{self, Asked, now};
use calls::debug::{self, Debug};

/// Runs the command; the answer is the exit code.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    if args.debug == Some(Debug::Help) {
        print(debug::HELP.as_bytes())?;
        return Ok(0);
    }
    if args.now {
        return match args.flaw() {
            Some(flaw) => Err(Usage(flaw).into()),
            None => now::run(
                &args.common.processes(),
                args.common.output.as_deref(),
                args.form(),
            ),
        };
    }
    watching::run(&args)
}
