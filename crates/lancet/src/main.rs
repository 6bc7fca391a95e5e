//! `lancet`: opens a running, unprepared process and says which line holds its memory.

/// Writes a line to standard error, formatted as by `format!`. `eprintln!` panics where standard error cannot be written,
/// which would leave guests with our hooks in them; this goes on.
macro_rules! tell {
    ($($text:tt)*) => { crate::ui::terminal::tell(format_args!($($text)*)) };
}

mod agent;
mod cli;
mod commands;
mod exit;
mod failure;
mod guests;
mod losses;
mod started;
mod ui;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    failure::note_panics();
    let done = failure::catch(|| {
        let command = cli::Cli::parse().command;
        if command.stops_guests() {
            process::job_control::heed();
        }
        command.run()
    });
    if let Some(first) = failure::first() {
        tell!("this is a fault of lancet's, please report it: {first}");
        return ExitCode::from(exit::FAILED);
    }
    match done {
        Ok(code) => ExitCode::from(code),
        // The reader of the output has ended, as in `lancet mem -p 1 | head`: that is no failure.
        Err(error) if ui::sink::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("{error:#}");
            ExitCode::from(exit::FAILED)
        }
    }
}
