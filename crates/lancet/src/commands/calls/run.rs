//! What `lancet calls` does that needs no watching: the list of `-D help`, and `--now`. Used by `commands`.

use super::CallsArgs;
use crate::exit::Usage;

use crate::ui::sink::print;
use crate::watching::{self, Asked, now};
use calls::debug::{self, Debug};
use report::calls::FORMATS;

/// Runs the command; the answer is the exit code.
pub fn run(args: CallsArgs) -> anyhow::Result<u8> {
    if args.debug == Some(Debug::Help) {
        print(debug::HELP.as_bytes())?;
        return Ok(0);
    }
    if args.now {
        if let Some(flaw) = args.flaw() {
            return Err(Usage(flaw).into());
        }
        return now::run(&args.common, args.chosen(), FORMATS, "--now");
    }
    args.common.require_room(args.chosen().is_text())?;
    watching::run(&args)
}
