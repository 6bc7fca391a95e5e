//! Finds and opens the files whose frames are to be ranked. Used by `run`.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use frames::ranking::{Ranking, Wanted};
use frames::scan::Decode;
use frames::{Scan, objects};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::modules::{GuestFiles, modules};

use super::StackArgs;
use crate::ui::advice::explain;

/// Ranks the frames of all files that the command line names. A single file that cannot be read is an error; of
/// several, those that can be read are ranked.
pub fn rank(args: &StackArgs) -> anyhow::Result<Ranking> {
    let mut named: Vec<(PathBuf, anyhow::Result<File>)> = Vec::new();
    for path in &args.files {
        named.push((path.clone(), open(path)));
    }
    for name in &args.gems {
        let found = languages::extensions(name);
        if found.is_empty() {
            bail!(
                "gem {name}: no compiled extension found in GEM_PATH, GEM_HOME, the usual folders or Debian's packages; name the .so files themselves"
            );
        }
        named.extend(found.into_iter().map(|path| (path.clone(), open(&path))));
    }
    if let Some(pid) = args.process {
        named.extend(loaded(pid)?);
    }
    let alone = named.len() == 1;
    let (mut scans, mut refused) = (Vec::new(), Vec::new());
    // One library by several names is one.
    let mut seen = HashSet::new();
    for (path, file) in named {
        let read = file.and_then(|file| {
            let metadata = file.metadata()?;
            if !seen.insert((metadata.dev(), metadata.ino())) {
                return Ok((Vec::new(), Vec::new()));
            }
            all_of(&path, file, args.decode())
        });
        match read {
            Ok((found, members)) => {
                scans.extend(found);
                refused.extend(members);
            }
            Err(error) if alone => return Err(error),
            Err(error) => refused.push((path, plain(&error))),
        }
    }
    if scans.is_empty() {
        let why = refused.iter();
        let why = why.map(|(path, why)| format!("\n  {}: {why}", path.display()));
        bail!(
            "none of the files could be read:{}",
            why.collect::<String>()
        );
    }
    let wanted = Wanted {
        rows: args.rows(),
        differing: args.check,
        max: args.max,
    };
    Ok(Ranking::new(scans, refused, wanted))
}

/// Reads the frames of one file.
pub fn scan(path: &Path, decode: Decode) -> anyhow::Result<Scan> {
    let (mut scans, refused) = all_of(path, open(path)?, decode)?;
    match scans.len() + refused.len() {
        1 => Ok(scans.remove(0)),
        members => bail!(
            "{}: an archive with {members} object files; compare these one by one",
            path.display()
        ),
    }
}

/// Files or members of an archive that could not be read, and why.
type Refused = Vec<(PathBuf, String)>;

/// Reads the frames of a file: of an archive, those of its object files.
fn all_of(path: &Path, file: File, decode: Decode) -> anyhow::Result<(Vec<Scan>, Refused)> {
    let inputs = objects::inputs(path, file)?;
    let scans = inputs.files.into_iter();
    let scans = scans.map(|(path, file)| Scan::file(&path, file, decode));
    let refused = inputs.refused.into_iter();
    let refused = refused.map(|(path, why)| (path, why.to_owned()));
    Ok((scans.collect::<Result<_, _>>()?, refused.collect()))
}

fn open(path: &Path) -> anyhow::Result<File> {
    process::modules::open_regular(path).with_context(|| path.display().to_string())
}

/// Returns the error without the name of the file, which stands before it anyway.
fn plain(error: &anyhow::Error) -> String {
    match error.downcast_ref::<frames::Error>() {
        Some(frames::Error::Elf(process::elf::ElfError::Malformed { reason, .. })) => {
            (*reason).to_owned()
        }
        _ => error.root_cause().to_string(),
    }
}

/// Opens the files that a process has loaded, as the process sees them. It is not stopped.
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
