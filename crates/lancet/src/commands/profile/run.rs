//! Looks again and again, or reads what was saved, and writes where threads ran.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use frames::profile::Profile;
use frames::profile::difference::Difference;
use frames::profile::saved::{self, About};
use process::guest::command_line;
use report::profile::{Head, difference};

use super::ProfileArgs;
use crate::sampling::{self, Request, Sampled};
use crate::ui::file::WholeFile;
use crate::ui::sink::{Sink, require_room};
use crate::ui::terminal::Stream;

/// More has no file of a profile: 32 MiB of names, and a million frames of stacks at five bytes, twice.
const MOST_BYTES: u64 = 64 << 20;

/// Runs `lancet profile` and returns the exit code.
pub fn run(args: ProfileArgs) -> anyhow::Result<u8> {
    // A program's standard output is its own.
    let stream = if args.program.is_empty() {
        Stream::Stdout
    } else {
        Stream::Stderr
    };
    let format = args.format();
    require_room(format.is_text, args.output.as_deref(), stream)?;
    if let Some([old, new]) = args.diff.as_deref() {
        return compare(&args, old, new);
    }
    let mut sink = Sink::open(args.output.as_deref(), stream)?;
    let save = args.save.as_deref().map(WholeFile::begin).transpose()?;
    let (profile, about, sampled) = match &args.file {
        Some(file) => {
            let (profile, about) = saved(file)?;
            (profile, about, None)
        }
        None => {
            let (profile, about, sampled) = looks(&args)?;
            (profile, about, Some(sampled))
        }
    };
    let is_shown = save.is_none();
    if let Some(mut save) = save {
        let written = saved::write(&profile, &about, &mut save.file);
        let name = args.save.as_deref().unwrap_or(Path::new("")).display();
        written
            .and_then(|()| save.finish())
            .with_context(|| format!("cannot write to {name}"))?;
    } else {
        let title = title(&profile, &about);
        let head = Head {
            about: &about,
            title: &title,
            rows: args.rows(),
        };
        format.write(&profile, &mut sink.out, &head)?;
    }
    match sampled {
        Some(sampled) => sampled.finish(&mut sink, format.is_json && is_shown),
        None => sink.out.flush().map(|()| 0).map_err(Into::into),
    }
}

/// Looks until it is over.
fn looks(args: &ProfileArgs) -> anyhow::Result<(Profile, About, Sampled)> {
    let request = Request {
        pids: &args.pids,
        children: args.children,
        program: &args.program,
        fibers: false,
        running: true,
        length: args.length(),
        every: args.every,
    };
    // A process that ends meanwhile has no name any more.
    let who = who(args);
    let mut profile = Profile::default();
    let sampled = sampling::run(&request, &mut |_, live, look| {
        profile.add_look(live, look);
    })?;
    profile.rounds = sampled.rounds;
    let about = About {
        who,
        looks: sampled.looks.clone(),
        cost: sampled.cost(),
        missed: sampled.missed(),
        took: sampled.took,
    };
    Ok((profile, about, sampled))
}

/// Which processes are looked at.
fn who(args: &ProfileArgs) -> String {
    if !args.program.is_empty() {
        let words = args.program.iter().map(|word| word.to_string_lossy());
        return words.collect::<Vec<_>>().join(" ");
    }
    let named = |pid: &i32| format!("process {pid} ({})", command_line(*pid));
    let children = if args.children {
        " and their children"
    } else {
        ""
    };
    let all: Vec<_> = args.pids.iter().map(named).collect();
    format!("{}{children}", all.join(", "))
}

/// How many looks there were, and what that says of the error of a share.
fn title(profile: &Profile, about: &About) -> String {
    format!("{}{}", about.looks, sampling::error(profile.samples))
}

/// Reads a profile that was saved.
fn saved(file: &Path) -> anyhow::Result<(Profile, About)> {
    let name = file.display();
    let open = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(file)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = open().with_context(|| format!("cannot read {name}"))?;
    saved::read(&bytes).with_context(|| name.to_string())
}

/// Says of which functions the share has changed.
fn compare(args: &ProfileArgs, old: &Path, new: &Path) -> anyhow::Result<u8> {
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    let ((before, about_before), (after, about_after)) = (saved(old)?, saved(new)?);
    let titles = [title(&before, &about_before), title(&after, &about_after)];
    let head = |about, title| Head {
        about,
        title,
        rows: args.rows(),
    };
    let heads = [
        &head(&about_before, titles[0].as_str()),
        &head(&about_after, titles[1].as_str()),
    ];
    let found = Difference::of(&before, &after);
    match args.format().is_json {
        true => difference::write_json(&mut sink.out, &found, heads)?,
        false => difference::write_table(&mut sink.out, &found, heads)?,
    }
    sink.out.flush()?;
    Ok(0)
}
