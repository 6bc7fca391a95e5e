//! Reads what was saved and writes the files of its tables. Used by `commands`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{ChildStdout, Stdio};

use anyhow::{Context, bail};
use report::figures::{grouped, plural};
use report::forms::parquet::{self, Given};
use report::losses::{Loss, What};

use super::ExportArgs;
use crate::itself;
use crate::losses::Losses;
use crate::ui::file::{WholeFile, private_folder};
use crate::ui::sink::print;

/// How files of others of our commands begin, and the words by which a lancet shows the answer in one.
const SAVED: [(&[u8; 8], &[&str]); 3] = [
    (b"lancet-p", &["profile", "--json", "--top", "0"]),
    (b"\x89lnheap\n", &["heap", "--json", "--top", "1000"]),
    (b"\x89lancet\n", &["calls", "-c", "--json"]),
];

/// What was written.
#[derive(Default)]
struct Written {
    files: u64,
    rows: u64,
}

/// What is said where no table was made, because there was no answer.
pub const NOTHING: &str = "nothing was exported";

/// Runs `lancet export` and returns the exit code.
pub fn run(args: ExportArgs) -> anyhow::Result<u8> {
    let given = Given {
        host: args.host.clone(),
        service: args.service.clone(),
        release: args.release.clone(),
    };
    let (mut losses, mut written) = (Losses::default(), Written::default());
    for file in &args.files {
        let mut refuse = |why: &str| {
            let text = format!("{}: {why}", file.display());
            losses.say(Loss::new(None, What::Files, None, text));
        };
        match one(file, &args.output, &given, &mut written) {
            Ok(None) => {}
            Ok(Some(flaw)) => refuse(&flaw),
            // What cannot be written will not be for the next file either.
            Err(Cannot::Write(error)) => return Err(error),
            Err(Cannot::Read(error)) => refuse(&format!("{error:#}")),
        }
    }
    if written.files == 0 {
        bail!("{NOTHING}");
    }
    let text = format!(
        "{} {} in {} {} below {}\n",
        grouped(written.rows),
        plural(written.rows, "row", "rows"),
        grouped(written.files),
        plural(written.files, "file", "files"),
        args.output.display()
    );
    print(text.as_bytes())?;
    Ok(losses.exit_code(0))
}

/// Why a file is not exported.
enum Cannot {
    /// It cannot be read.
    Read(anyhow::Error),
    /// What is made of it cannot be written.
    Write(anyhow::Error),
}

/// Exports one file; says what is wrong with it.
fn one(
    path: &Path,
    folder: &Path,
    given: &Given,
    written: &mut Written,
) -> Result<Option<String>, Cannot> {
    let mut failed = None;
    let mut take = |file: parquet::File| {
        let done = write(folder, &file);
        done.map_err(|error| {
            failed = Some(error);
            io::Error::other("it cannot be written")
        })?;
        written.files += 1;
        written.rows += file.rows as u64;
        Ok(())
    };
    let done = read(path, given, &mut take);
    match failed {
        Some(error) => Err(Cannot::Write(error)),
        None => done.map_err(Cannot::Read),
    }
}

fn read(
    path: &Path,
    given: &Given,
    take: &mut dyn FnMut(parquet::File) -> io::Result<()>,
) -> anyhow::Result<Option<String>> {
    // Opening a pipe would wait for who writes to it.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut file: File = options.open(path).context("it cannot be read")?;
    if !file.metadata()?.is_file() {
        bail!("it is no file");
    }
    let mut begin = Vec::new();
    (&mut file).take(8).read_to_end(&mut begin)?;
    let saved = SAVED.iter().find(|(magic, _)| begin.starts_with(*magic));
    let Some((_, words)) = saved else {
        let mut lines = BufReader::new(begin.as_slice().chain(file));
        return Ok(parquet::answers(&mut lines, given, take)?);
    };
    let mut child = itself::command()
        .args(*words)
        // No name is an option.
        .arg(std::path::absolute(path)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("no lancet can be started to read it")?;
    let out = child.stdout.take().map(BufReader::new);
    let flaw = out.map(|mut out| answers_of(&mut out, given, take));
    let status = child.wait()?;
    match flaw.transpose()? {
        Some(None) => Ok(None),
        // It has said why.
        _ if !status.success() => Ok(Some("it is not exported".to_owned())),
        flaw => Ok(flaw.flatten()),
    }
}

/// The answers that another lancet writes. Its output is read to the end, so that it ends.
fn answers_of(
    out: &mut BufReader<ChildStdout>,
    given: &Given,
    take: &mut dyn FnMut(parquet::File) -> io::Result<()>,
) -> io::Result<Option<String>> {
    let flaw = parquet::answers(out, given, take);
    while let Ok(1..) = out.fill_buf().map(<[u8]>::len) {
        let length = out.buffer().len();
        out.consume(length);
    }
    flaw
}

/// Writes a file, which has its name when it is whole, with the folders to it.
fn write(folder: &Path, file: &parquet::File) -> anyhow::Result<()> {
    let path = folder.join(&file.path);
    let parent = path.parent().unwrap_or(folder);
    private_folder(parent)?;
    let mut whole = WholeFile::begin(&path)?;
    let written = whole.file.write_all(&file.bytes);
    let written = written.and_then(|()| whole.finish());
    written.with_context(|| format!("cannot write to {}", path.display()))
}
