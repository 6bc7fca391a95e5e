//! Looks again and again, or reads what was saved, and writes where threads ran. Used by `commands`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use frames::live::open::{Live, Look};
use frames::profile::Profile;
use frames::profile::difference::Difference;
use frames::profile::saved::{self, About, Missed};
use process::guest::command_line;
use report::losses::{Loss, What};
use report::profile::{FORMATS, Head, asleep, difference, function, shown};

use super::ProfileArgs;
use super::live::{OnScreen, View};
use crate::cli::format::require_first_or_records;
use crate::exit::FAILED;
use crate::losses::Losses;
use crate::sampling::{self, Request, Sampled};
use crate::ui::file::WholeFile;
use crate::ui::sink::{Sink, require_room};

/// Runs `lancet profile` and returns the exit code.
pub fn run(args: ProfileArgs) -> anyhow::Result<u8> {
    require_room(
        args.chosen().is_text(),
        args.output.as_deref(),
        args.stream(),
    )?;
    if args.function.is_some() {
        require_first_or_records(args.chosen(), FORMATS, "--function")?;
    }
    if let Some([old, new]) = args.diff.as_deref() {
        return compare(&args, old, new);
    }
    if let Some(file) = &args.file {
        return again(&args, file);
    }
    let mut sink =
        Sink::open(args.output.as_deref(), args.stream())?.in_form(args.chosen().records());
    let save = args.save.as_deref();
    let save = save.map(|path| Ok::<_, anyhow::Error>((path, WholeFile::begin(path)?)));
    let save = save.transpose()?;
    let (profile, about, sampled) = looks(&args)?;
    let Some((path, mut save)) = save else {
        let has_any = show(&args, &mut sink, profile, &about)?;
        return Ok(code(has_any, sampled.finish(&mut sink)?));
    };
    let written = saved::write(&profile, &about, &mut save.file);
    let written = written.and_then(|()| save.finish());
    written.with_context(|| format!("cannot write to {}", path.display()))?;
    sampled.finish(&mut sink)
}

/// Shows a profile that was saved, with what its looks had lost.
fn again(args: &ProfileArgs, file: &Path) -> anyhow::Result<u8> {
    let (profile, about) = saved(file)?;
    // Now, because it may be the same file.
    let mut sink =
        Sink::open(args.output.as_deref(), args.stream())?.in_form(args.chosen().records());
    let has_any = show(args, &mut sink, profile, &about)?;
    Ok(code(has_any, end(&mut sink, &[&about])?))
}

/// Returns the exit code: who asks for a function that nobody has seen has no answer.
fn code(has_any: bool, code: u8) -> u8 {
    match code {
        0 if !has_any => FAILED,
        code => code,
    }
}

/// Shows a profile. Returns whether what was asked for is in it.
fn show(
    args: &ProfileArgs,
    sink: &mut Sink,
    profile: Profile,
    about: &About,
) -> anyhow::Result<bool> {
    let profile = shown(profile, args.mode()).grouped(args.by());
    let title = title(&profile, about);
    let head = Head {
        about,
        title: &title,
        rows: args.rows(),
        by_total: args.by_total(),
        function: args.function.as_deref(),
        stacks: args.chosen().stacks(),
    };
    let Some(name) = head.function else {
        args.format().write(&profile, &mut sink.out, &head)?;
        return Ok(true);
    };
    let found = function::named(&profile, name);
    if found.is_empty() {
        let [_, many] = args.by().words();
        tell!("none of the {many} that were seen is called {name}: --top 0 lists all");
    }
    match args.chosen().records() {
        Some(_) => args.format().write(&profile, &mut sink.out, &head)?,
        None => function::write(&mut sink.out, &profile, &head, &found)?,
    }
    Ok(!found.is_empty())
}

/// Says what was lost as these profiles were made, and returns the exit code.
fn end(sink: &mut Sink, made: &[&About]) -> anyhow::Result<u8> {
    sink.out.flush()?;
    let mut losses = Losses::default();
    for missed in made.iter().flat_map(|about| &about.missed) {
        let pid = missed.pid.and_then(|pid| i32::try_from(pid).ok());
        let what = What::of(&missed.what).unwrap_or(What::Looks);
        losses.say(Loss::new(pid, what, missed.count, missed.text.clone()));
    }
    losses.end(sink)?;
    Ok(losses.exit_code(0))
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
    let (mut profile, sampled) = watched(args, &request, &who)?;
    profile.rounds = sampled.rounds;
    let missed = sampled.missed().iter().map(|loss| Missed {
        pid: loss.pid.and_then(|pid| u32::try_from(pid).ok()),
        what: loss.what.word(),
        count: loss.count,
        text: loss.text.clone(),
    });
    let since = sampled.began.duration_since(SystemTime::UNIX_EPOCH);
    let about = About {
        who,
        processes: sampled.processes(),
        looks: sampled.looks.clone(),
        cost: sampled.cost(),
        missed: missed.collect(),
        began: since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0)),
        took: sampled.took,
    };
    Ok((profile, about, sampled))
}

/// Looks, and shows what is seen on a screen meanwhile if that was asked for.
fn watched(args: &ProfileArgs, request: &Request, who: &str) -> anyhow::Result<(Profile, Sampled)> {
    if args.is_on_screen() {
        let view = View {
            mode: args.mode(),
            by: args.by(),
            by_total: args.by_total(),
        };
        let mut screen = OnScreen::new(who.to_owned(), view);
        let sampled = sampling::run(request, &mut screen);
        // The terminal is given back before anything is said.
        let profile = screen.into_profile();
        return Ok((profile, sampled?));
    }
    if args.live {
        tell!("standard output is no terminal: what was seen is written at the end");
    }
    let mut profile = Profile::default();
    let sampled = sampling::run(request, &mut |pid: i32, live: &Live, look: &Look| {
        let waits = |number| asleep(pid, &look.stacks, number);
        profile.add_look(pid, live, look, &waits);
    })?;
    Ok((profile, sampled))
}

/// Which processes are looked at.
fn who(args: &ProfileArgs) -> String {
    if !args.program.is_empty() {
        let words = args.program.iter().map(|word| word.to_string_lossy());
        return words.collect::<Vec<_>>().join(" ");
    }
    let named = |pid: &i32| format!("process {pid} ({})", command_line(*pid).join(" "));
    let children = if args.children {
        " and their children"
    } else {
        ""
    };
    let all: Vec<_> = args.pids.iter().map(named).collect();
    format!("{}{children}", all.join(", "))
}

/// How many looks there were, and what that says of the error of a share. Threads that are seen in the same look are no independent samples.
fn title(profile: &Profile, about: &About) -> String {
    let independent = profile.samples.min(profile.rounds);
    format!("{}{}", about.looks, sampling::error(independent))
}

/// Reads a profile that was saved.
fn saved(file: &Path) -> anyhow::Result<(Profile, About)> {
    let name = file.display();
    let open = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = saved::MOST_BYTES as u64;
        File::open(file)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = open().with_context(|| format!("cannot read {name}"))?;
    saved::read(&bytes).with_context(|| name.to_string())
}

/// Says of which functions the share has changed.
fn compare(args: &ProfileArgs, old: &Path, new: &Path) -> anyhow::Result<u8> {
    require_first_or_records(args.chosen(), FORMATS, "--diff")?;
    let ((before, about_before), (after, about_after)) = (saved(old)?, saved(new)?);
    // Now, because it may be one of these files.
    let mut sink =
        Sink::open(args.output.as_deref(), args.stream())?.in_form(args.chosen().records());
    let [before, after] = [before, after].map(|profile| shown(profile, args.mode()));
    let titles = [title(&before, &about_before), title(&after, &about_after)];
    let head = |about, title| Head {
        about,
        title,
        rows: args.rows(),
        by_total: args.by_total(),
        function: None,
        stacks: args.chosen().stacks(),
    };
    let heads = [
        &head(&about_before, titles[0].as_str()),
        &head(&about_after, titles[1].as_str()),
    ];
    let [before, after] = [before, after].map(|profile| profile.grouped(args.by()));
    let found = Difference::of(&before, &after);
    match args.format().writes.is_records() {
        true => difference::write_json(&mut sink.out, &found, heads)?,
        false => difference::write_table(&mut sink.out, &found, heads)?,
    }
    end(&mut sink, &[&about_before, &about_after])
}
