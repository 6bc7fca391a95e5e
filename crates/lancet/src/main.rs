//! `lancet`: opens a running, unprepared process and says which line holds its memory.

mod census;
mod cli;
mod commands;
mod guests;
mod preset;
mod started;
mod ui;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command.run() {
        Ok(code) => ExitCode::from(code),
        // Whoever read the output has seen enough: `lancet mem -p 1 | head`.
        Err(error) if ui::sink::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lancet: {error:#}");
            ExitCode::from(1)
        }
    }
}
