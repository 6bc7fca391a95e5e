//! The flags of `lancet patch`. Used by `run`, `script` and `commands`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use patch::{Asked, Request, ScriptRequest};
use report::Writes;
use report::forms::Chosen;
use report::patch::FORMATS;

use crate::cli::duration::parse;
use crate::cli::format::one_of;

/// Options of `lancet patch`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("applied").args(["requests", "plan", "remedy"]),
    group = ArgGroup::new("what").required(true).args(["requests", "plan", "remedy", "remedies", "new", "list", "undo"]),
    override_usage = "lancet patch [OPTIONS] -p PID FUNCTION[@LIB]=FILE.so:NEW...\n       lancet patch [OPTIONS] -p PID ruby:Class#method=FILE.rb | python:module.function=FILE.py...\n       lancet patch [OPTIONS] -p PID --remedy NAME[=ARGS]\n       lancet patch -p PID --new FUNCTION[@LIB] [--rust]\n       lancet patch [OPTIONS] -p PID --plan FILE.toml\n       lancet patch -p PID --list\n       lancet patch -p PID --undo[=ID|all]",
    after_help = EXAMPLES,
)]
pub struct PatchArgs {
    /// The running process; several may be given, and each is done by itself
    #[arg(
        short = 'p',
        long = "pid",
        value_name = "PID",
        required_unless_present = "remedies"
    )]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// Replace FUNCTION by NEW of the shared library FILE.so, several in one stop; or a method of Ruby or a function of Python by the one
    /// that FILE defines
    #[arg(value_name = "FUNCTION[@LIB]=FILE.so:NEW|LANGUAGE:FUNCTION=FILE")]
    pub requests: Vec<Replaced>,

    /// Replace what this file says (TOML; docs/patch.md)
    #[arg(long, value_name = "FILE.toml")]
    pub plan: Option<PathBuf>,

    /// Apply a remedy for a known fault; --remedies has the list
    #[arg(long, value_name = "NAME[=ARGS]")]
    pub remedy: Option<Asked>,

    /// List the remedies: what each mends, and what it risks
    #[arg(long)]
    pub remedies: bool,

    /// Write a file to begin with, FUNCTION.c, with the function's prototype from debug information or those that lancet knows
    #[arg(long, value_name = "FUNCTION[@LIB]", requires = "pids")]
    pub new: Option<String>,

    /// Write it in Rust
    #[arg(long, requires = "new")]
    pub rust: bool,

    /// List the patches of the process, those of a killed lancet too
    #[arg(long)]
    pub list: bool,

    /// Take back the patch with this number, or all
    #[arg(long, value_name = "ID|all", value_parser = taken_back, num_args = 0..=1, default_missing_value = "all")]
    pub undo: Option<TakenBack>,

    /// How to write it [default: lines]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), conflicts_with_all = ["json", "new"])]
    format: Option<Chosen<Writes>>,

    /// The same as --format json
    #[arg(long, conflicts_with = "new")]
    json: bool,

    /// Do everything but the writing, and show the plan
    #[arg(long, requires = "applied")]
    pub dry_run: bool,

    /// While a thread is inside of a function, try again for so long (10s)
    #[arg(long, value_name = "DURATION", value_parser = parse, requires = "applied")]
    pub wait: Option<Duration>,

    /// Stay, and take it back after so long (10m) or at Ctrl-C; if lancet is killed, the functions run as they were from then on all the
    /// same
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, requires = "applied", conflicts_with = "dry_run")]
    pub lasts: Option<Duration>,
}

impl PatchArgs {
    /// What is chosen to show the answers.
    pub fn chosen(&self) -> Chosen<Writes> {
        Chosen::or_default(self.format, FORMATS, self.json)
    }

    /// Whether they are records.
    pub fn has_records(&self) -> bool {
        self.chosen().records().is_some()
    }
}

/// A function that is to be replaced.
#[derive(Clone, Debug)]
pub enum Replaced {
    /// A function of the program or of a library, which is machine code.
    Native(Request),
    /// A function of the script, which its VM replaces.
    Script(ScriptRequest),
}

impl FromStr for Replaced {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if ScriptRequest::is_meant(text) {
            text.parse().map(Replaced::Script)
        } else {
            text.parse().map(Replaced::Native)
        }
    }
}

/// What is to be taken back.
#[derive(Clone, Debug)]
pub enum TakenBack {
    /// Every patch and every setting of the process.
    All,
    /// The patches of functions of the program and its libraries, and the settings, with these numbers.
    Native(Vec<u64>),
    /// The patches of functions of the script with these numbers, without their `s`.
    Script(Vec<u64>),
}

fn taken_back(text: &str) -> Result<TakenBack, String> {
    let script = text.strip_prefix('s').map(str::parse);
    match (text, text.parse(), script) {
        ("all", ..) => Ok(TakenBack::All),
        (_, Ok(id), _) => Ok(TakenBack::Native(vec![id])),
        (_, _, Some(Ok(id))) => Ok(TakenBack::Script(vec![id])),
        _ => Err("write the number of a patch (--list has them), or all".into()),
    }
}

const EXAMPLES: &str = "\
Examples:
  lancet patch -p 4711 --new total@libshop && vi total.c
  cc -shared -fPIC -O2 -nostartfiles -o fix.so fix.c
  lancet patch -p 4711 --dry-run total@libshop=fix.so:total
  lancet patch -p 4711 --for 10m total@libshop=fix.so:total
  lancet patch -p 4711 --remedy ucontext
  lancet patch -p 4711 ruby:Order#total=fix.rb
  lancet patch -p 4711 python:shop.cart.total=fix.py
  lancet patch -p 4711 --list
  lancet patch -p 4711 --undo 1

In fix.c, lancet_original is the function that is replaced, as it was. fix.rb is the method as it stands in its class.
Exit: 0; 1 it could not be done, and nothing has changed; 2 wrong usage; 4 some patch could not be undone.";
