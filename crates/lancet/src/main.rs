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
mod itself;
mod looks;
mod losses;
mod reserve;
mod sampling;
mod ui;
mod watching;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use ui::sink::print;
use ui::terminal::Stream;

/// Runs before Rust's own beginning, which ignores SIGPIPE.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPES: extern "C" fn() = note_pipes;

extern "C" fn note_pipes() {
    // SAFETY: a live record of ours, which the kernel fills; nothing of Rust's is needed for it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_IGN {
            inject::tracee::note_pipes_ignored();
        }
    }
}

fn main() -> ExitCode {
    failure::note_panics();
    itself::take_name();
    ui::interrupt::outlive_file_size_limit();
    let done = failure::catch(|| {
        // By this place a test sees whether this build has any.
        process::fault::point("beginning");
        let command = match cli::Cli::try_parse() {
            Ok(cli) => cli.command,
            Err(error) => return wrong_usage(&error),
        };
        if matches!(command, commands::Command::Heap(_)) {
            reserve::map_what_is_large();
        }
        if command.looks_here() {
            losses::note_beginning();
        }
        process::descriptors::raise_limit();
        process::descriptors::keep_reserve();
        if command.stops_guests() {
            reserve::begin()?;
            inject::heartbeat::watch_counter();
            process::own_proc::ensure()?;
            command.prepare()?;
            process::job_control::heed();
        }
        command.run()
    });
    let first = failure::first();
    if reserve::is_used() || first.as_deref().is_some_and(reserve::explains) {
        tell!("{}", reserve::line());
        return ExitCode::from(exit::FAILED);
    }
    if let Some(first) = first {
        tell!("this is a fault of lancet's, please report it: {first}");
        return ExitCode::from(exit::FAILED);
    }
    match done {
        Ok(code) => ExitCode::from(code),
        // The reader of the output has ended, as in `lancet mem -p 1 | head`: that is no failure.
        Err(error) if ui::sink::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("{error:#}");
            if let Some(meant) = cli::guess::meant(&words()) {
                tell!("{meant}");
            }
            ExitCode::from(match error.is::<exit::Usage>() {
                true => exit::WRONG,
                false => exit::FAILED,
            })
        }
    }
}

/// Says what was wrong with the command line, and in place of the usage what was probably meant, where that is known.
/// Help and version are answers that come this way too; the version is lancet's, behind whichever command it is asked.
fn wrong_usage(error: &clap::Error) -> anyhow::Result<u8> {
    let words = words();
    if let [_, option] = words.as_slice()
        && matches!(option.as_str(), "-V" | "--version")
    {
        let version = cli::Cli::command().render_version();
        print(version.as_bytes())?;
        return Ok(0);
    }
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if is_answer {
        let text = error.render();
        let styled = Stream::Stdout.is_terminal() && ui::terminal::color();
        let text = match styled {
            true => text.ansi().to_string(),
            false => text.to_string(),
        };
        print(text.as_bytes())?;
        return Ok(0);
    }
    match cli::guess::meant(&words) {
        Some(meant) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            tell!("{}", first.trim_end_matches(':'));
            tell!("{meant}");
        }
        // The whole help, where no command was named.
        None if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            drop(error.print());
        }
        None => {
            let command = words.first().filter(|word| !word.starts_with('-'));
            let text = error.to_string();
            let text = cli::wrong::in_one_line(&text, command.map(String::as_str));
            let (first, place) = text.split_once('\n').unwrap_or((&text, ""));
            tell!("{first}");
            if !place.is_empty() {
                // Where nobody can be told there is nothing else to do.
                let _ = writeln!(std::io::stderr(), "{place}");
            }
        }
    }
    Ok(error.exit_code() as u8)
}

/// The command line behind the name of the program.
fn words() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}
