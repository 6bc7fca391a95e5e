//! Where a report is written to: a stream of ours or a file that only the user can read.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;
use export::table::Style;

use super::terminal::Stream;

/// Reports may hold file names, command lines and type names of a process that others on this
/// machine may know nothing of.
const PRIVATE: u32 = 0o600;

/// An open destination, and how a table may look there. Flush it after each report: a reader
/// waits for whole ones.
pub struct Sink {
    /// Takes the report.
    pub out: Box<dyn Write>,
    /// How a table may look.
    pub style: Style,
}

impl Sink {
    /// The file if one is given, else the stream.
    pub fn open(file: Option<&Path>, otherwise: Stream) -> anyhow::Result<Self> {
        match file {
            Some(path) => Ok(Self {
                out: Named::new(private_file(path)?, path.display().to_string()),
                style: Style::default(),
            }),
            None => Ok(Self {
                out: match otherwise {
                    Stream::Stdout => Named::new(io::stdout(), "standard output".to_owned()),
                    Stream::Stderr => Named::new(io::stderr(), "standard error".to_owned()),
                },
                style: otherwise.style(),
            }),
        }
    }
}

/// A destination whose errors say which it is.
struct Named<W: Write> {
    to: BufWriter<W>,
    name: String,
}

impl<W: Write + 'static> Named<W> {
    #[expect(clippy::new_ret_no_self, reason = "made to be a sink's")]
    fn new(to: W, name: String) -> Box<dyn Write> {
        let to = BufWriter::new(to);
        Box::new(Named { to, name })
    }

    fn explain<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot write to {}: {error}", self.name),
            )
        })
    }
}

impl<W: Write + 'static> Write for Named<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.to.write(bytes);
        self.explain(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.to.flush();
        self.explain(done)
    }
}

/// Whether the error is that nobody reads our output any more. That is how `lancet … | head`
/// ends, and no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// A new or emptied file that only the user can read.
pub fn private_file(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(PRIVATE)
        .open(path)
        .with_context(|| format!("cannot write to {}", path.display()))?;
    let metadata = file.metadata()?;
    // The mode above is only for a new file. A pipe or a device is left as it is.
    if metadata.is_file() && metadata.permissions().mode() & 0o777 != PRIVATE {
        file.set_permissions(Permissions::from_mode(PRIVATE))
            .with_context(|| {
                format!(
                    "cannot keep {} from others: name a new file or one of yours",
                    path.display()
                )
            })?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_the_users_alone() {
        let path = std::env::temp_dir().join(format!("lancet-sink-{}", std::process::id()));
        let mut sink = Sink::open(Some(&path), Stream::Stdout).unwrap();
        sink.out.write_all(b"first").unwrap();
        drop(sink);
        assert_eq!(mode(&path), 0o600);

        // One that was there before, open to all, with more in it.
        std::fs::write(&path, "something longer").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut sink = Sink::open(Some(&path), Stream::Stdout).unwrap();
        sink.out.write_all(b"second").unwrap();
        drop(sink);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_device_is_left_as_it_is() {
        let null = Path::new("/dev/null");
        let before = mode(null);
        Sink::open(Some(null), Stream::Stdout).unwrap();
        assert_eq!(mode(null), before);
    }

    #[test]
    fn the_refusal_names_the_file() {
        let error = Sink::open(Some(Path::new("/nowhere/x")), Stream::Stdout)
            .err()
            .unwrap();
        assert_eq!(
            format!("{error:#}"),
            "cannot write to /nowhere/x: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_full_disk_is_named() {
        let mut sink = Sink::open(Some(Path::new("/dev/full")), Stream::Stdout).unwrap();
        sink.out.write_all(b"a report").unwrap();
        let error = sink.out.flush().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            error.to_string(),
            "cannot write to /dev/full: No space left on device (os error 28)"
        );
    }

    #[test]
    fn a_broken_pipe_is_seen_through_its_context() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        let error = anyhow::Error::from(broken).context("writing the report");
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&anyhow::anyhow!("something else")));
    }
}
