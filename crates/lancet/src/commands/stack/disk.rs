//! The frames of files, ranked over all of them.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use frames::{Frame, Scan};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::modules::{GuestFiles, modules};

use super::gem;
use crate::cli::StackArgs;
use crate::ui::advice::explain;

/// What was found.
pub struct Ranking {
    /// The files that were read.
    pub scans: Vec<Scan>,
    /// The rows to be shown, the biggest first: number of the scan, and the frame.
    pub rows: Vec<(usize, Frame)>,
    /// How many frames there are beside those.
    pub more: usize,
    /// How many are larger than `--max`, shown or not.
    pub larger: u64,
    /// Files that could not be read, and why.
    pub refused: Vec<(PathBuf, String)>,
}

/// Reads what the command line names. A single file that cannot be read is an error; of several, those that can be
/// are ranked.
pub fn rank(args: &StackArgs) -> anyhow::Result<Ranking> {
    let mut named: Vec<(PathBuf, anyhow::Result<File>)> = Vec::new();
    for path in &args.files {
        named.push((path.clone(), open(path)));
    }
    for name in &args.gems {
        let found = gem::extensions(name)?;
        named.extend(found.into_iter().map(|path| (path.clone(), open(&path))));
    }
    if let Some(pid) = args.process {
        named.extend(loaded(pid)?);
    }
    let alone = named.len() == 1;
    let mut ranking = Ranking {
        scans: Vec::new(),
        rows: Vec::new(),
        more: 0,
        larger: 0,
        refused: Vec::new(),
    };
    // One library by several names is one.
    let mut seen = HashSet::new();
    for (path, file) in named {
        let read = file.and_then(|file| {
            let metadata = file.metadata()?;
            if !seen.insert((metadata.dev(), metadata.ino())) {
                return Ok(None);
            }
            Ok(Some(Scan::file(&path, file, args.decode())?))
        });
        match read {
            Ok(Some(scan)) => ranking.scans.push(scan),
            Ok(None) => {}
            Err(error) if alone => return Err(error),
            Err(error) => ranking.refused.push((path, plain(&error))),
        }
    }
    if ranking.scans.is_empty() {
        bail!("none of the files could be read");
    }
    let larger = |frame: &&Frame| args.max.is_some_and(|max| frame.bytes > max);
    let all = || ranking.scans.iter().flat_map(Scan::frames);
    ranking.larger = all().filter(larger).count() as u64;
    let count = all().count();
    let mut rows: Vec<(usize, Frame)> = Vec::new();
    for (number, scan) in ranking.scans.iter().enumerate() {
        // Each scan is in order: no more than its first can come into the rows.
        let wanted = scan
            .frames()
            .iter()
            .filter(|frame| !args.check || differs(frame));
        rows.extend(
            wanted
                .take(args.rows())
                .map(|frame| (number, frame.clone())),
        );
    }
    rows.sort_by_key(|(number, frame)| {
        (std::cmp::Reverse(frame.bytes), *number, frame.range.start)
    });
    rows.truncate(args.rows());
    ranking.more = count - rows.len();
    ranking.rows = rows;
    Ok(ranking)
}

/// Whether the two ways of telling a frame's size gave two answers.
fn differs(frame: &Frame) -> bool {
    frame.otherwise.is_some_and(|other| other != frame.bytes)
}

fn open(path: &Path) -> anyhow::Result<File> {
    process::modules::open_regular(path).with_context(|| path.display().to_string())
}

/// Without the file's name, which is said before it anyway.
fn plain(error: &anyhow::Error) -> String {
    match error.downcast_ref::<frames::Error>() {
        Some(frames::Error::Elf(process::elf::Error::Malformed { reason, .. })) => {
            (*reason).to_owned()
        }
        _ => error.root_cause().to_string(),
    }
}

/// The files a process has loaded. They are opened as the process sees them, and it runs on meanwhile.
fn loaded(pid: i32) -> anyhow::Result<Vec<(PathBuf, anyhow::Result<File>)>> {
    Status::read(pid).map_err(explain)?;
    let files = GuestFiles::of(pid);
    let memory = GuestMemory::open(pid).map_err(explain)?;
    let maps = Maps::read(pid).with_context(|| format!("what process {pid} has mapped"))?;
    let modules = modules(&files, &maps, &memory)?;
    if modules.is_empty() {
        bail!("process {pid} has no program loaded (it is a kernel thread, or has just ended)");
    }
    Ok(modules
        .iter()
        .map(|module| {
            let opened = files.open_module(module, &memory);
            (
                module.path.clone(),
                opened.map(|(file, _)| file).map_err(anyhow::Error::from),
            )
        })
        .collect())
}
