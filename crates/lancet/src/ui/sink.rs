//! Opens the destination of a report: standard output, standard error, or a file that only the user can read. Used by
//! `commands::heap::run`, `commands::mem::run`, `commands::profile::run` and others.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use report::Style;
use report::forms::Form;

use super::file::private_file;
use super::patient::Patient;
use super::piped;
use super::queued::{Kind, Written, queued};
use super::terminal::Stream;
use crate::exit::Usage;

/// An open destination, and how a table may look there. Flush it after each report: a reader
/// waits for whole ones.
pub struct Sink {
    /// Takes the text of the report.
    pub out: Box<dyn Write>,
    /// How a table may look.
    pub style: Style,
    /// What shows the records that are written; `None`: they are none.
    pub form: Option<&'static Form>,
}

impl Sink {
    /// Opens the file if one is given, else the stream, and writes to it through a queue, which waits at most so long for whoever reads
    /// (`queued`). `form` shows what is written.
    pub fn queued(
        file: Option<&Path>,
        otherwise: Stream,
        most_wait: Duration,
        form: Option<&'static Form>,
    ) -> anyhow::Result<(Box<dyn Write>, Written)> {
        let (to, name) = match (file, otherwise) {
            (Some(path), _) => match piped::command(path) {
                Some(command) => (piped::to(command)?, path.display().to_string()),
                None => (private_file(path)?, path.display().to_string()),
            },
            (None, stream) => (opened(stream)?, stream.name().to_owned()),
        };
        let explain = move |error: &io::Error| format!("cannot write to {name}: {error}");
        let (queue, written) = queued(Patient::new(to), Kind::Lines, most_wait, explain);
        let queue = queue.with_heads(form.and_then(Form::head_test));
        Ok((Box::new(queue), written))
    }

    /// The same for records, which this form shows there; `None`: what is written goes there as it is.
    pub fn in_form(self, form: Option<&'static Form>) -> Self {
        match form {
            Some(form) => Self {
                out: form.over(self.out),
                form: Some(form),
                ..self
            },
            None => self,
        }
    }

    /// Opens the file if one is given, else the stream.
    pub fn open(file: Option<&Path>, otherwise: Stream) -> anyhow::Result<Self> {
        match file {
            Some(path) => Ok(Self {
                out: Named::new(
                    Patient::new(private_file(path)?),
                    path.display().to_string(),
                ),
                style: Style::default(),
                form: None,
            }),
            None => Ok(Self {
                out: Named::new(
                    Patient::new(opened(otherwise)?),
                    otherwise.name().to_owned(),
                ),
                style: otherwise.style(),
                form: None,
            }),
        }
    }
}

/// Refuses to write to a terminal what is no text.
///
/// # Errors
/// There is no file, and the stream is a terminal.
pub fn require_room(is_text: bool, file: Option<&Path>, otherwise: Stream) -> Result<(), Usage> {
    match is_text || file.is_some() || !otherwise.is_terminal() {
        true => Ok(()),
        false => Err(Usage(
            "this format is not for a terminal: write it to a file with -o FILE".into(),
        )),
    }
}

/// Writes a whole answer to standard output.
pub fn print(answer: &[u8]) -> anyhow::Result<()> {
    let mut sink = Sink::open(None, Stream::Stdout)?;
    sink.out.write_all(answer)?;
    Ok(sink.out.flush()?)
}

fn opened(stream: Stream) -> anyhow::Result<File> {
    stream
        .open()
        .with_context(|| format!("cannot write to {}", stream.name()))
}

/// So many bytes are kept before they are handed on.
const MUCH: usize = 64 << 10;
/// The same of a line that does not end.
const LONGEST_LINE: usize = 1 << 20;

/// A destination whose errors say which it is. Between two flushes it is handed whole lines, so that a message which goes to the same
/// terminal meanwhile stands between two of them.
struct Named<W: Write> {
    to: W,
    kept: Vec<u8>,
    /// So many of these bytes are whole lines.
    whole: usize,
    name: String,
    /// At how many bytes was looked for the end of a line.
    #[cfg(test)]
    looked: std::rc::Rc<std::cell::Cell<usize>>,
}

impl<W: Write + 'static> Named<W> {
    #[expect(clippy::new_ret_no_self, reason = "made to be a sink's")]
    fn new(to: W, name: String) -> Box<dyn Write> {
        Box::new(Self::made(to, name))
    }

    fn made(to: W, name: String) -> Self {
        Named {
            to,
            kept: Vec::new(),
            whole: 0,
            name,
            #[cfg(test)]
            looked: std::rc::Rc::default(),
        }
    }

    /// Adds bytes to what is kept. Only these are looked at: a file may be one line of any length, written in small pieces.
    fn keep(&mut self, bytes: &[u8]) {
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        #[cfg(test)]
        self.looked
            .set(self.looked.get() + bytes.len() - end.unwrap_or(0));
        if let Some(end) = end {
            self.whole = self.kept.len() + end + 1;
        }
        self.kept.extend_from_slice(bytes);
    }

    /// Hands on the first bytes of what is kept.
    fn hand_on(&mut self, length: usize) -> io::Result<()> {
        let done = self.to.write_all(&self.kept[..length]);
        self.kept.drain(..length);
        self.whole = 0;
        self.explain(done)
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
        self.keep(bytes);
        match (self.kept.len(), self.whole) {
            (LONGEST_LINE.., 0) => self.hand_on(self.kept.len())?,
            (MUCH.., 1..) => self.hand_on(self.whole)?,
            _ => {}
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on(self.kept.len())?;
        let done = self.to.flush();
        self.explain(done)
    }
}

impl<W: Write> Drop for Named<W> {
    fn drop(&mut self) {
        // What an error has left behind; nobody is left to tell.
        if !std::thread::panicking() {
            let _ = self.to.write_all(&self.kept);
        }
    }
}

/// Returns whether the error is that nobody reads our output any more. That is how `lancet … | head` ends, and no
/// failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

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

    /// The flag is set by a program that we have started, on the open file that it shares with us.
    #[test]
    fn a_queue_waits_for_a_pipe_that_does_not_block() {
        let (mut reader, writer) = super::super::patient::tests::hasty_pipe();
        let name = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let wait = Duration::from_secs(60);
        let (mut out, written) =
            Sink::queued(Some(Path::new(&name)), Stream::Stderr, wait, None).unwrap();
        drop(writer);
        let text = vec![b'x'; 1 << 20];
        let expected = text.len() as u64;
        out.write_all(&text).unwrap();
        out.flush().unwrap();
        drop(out);
        assert_eq!(io::copy(&mut reader, &mut io::sink()).unwrap(), expected);
        assert_eq!(written.finish().unwrap(), 0);
    }

    /// What the destination was handed, piece by piece.
    #[derive(Clone, Default)]
    struct Pieces(std::rc::Rc<std::cell::RefCell<Vec<Vec<u8>>>>);

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_message_finds_no_line_that_is_half_written() {
        let pieces = Pieces::default();
        let mut out = Named::new(pieces.clone(), "a terminal".into());
        let line = [&[b'x'; 97][..], b"\n"].concat();
        for _ in 0..2000 {
            // In two parts, as formatting writes.
            out.write_all(&line[..40]).unwrap();
            out.write_all(&line[40..]).unwrap();
        }
        assert!(pieces.0.borrow().len() > 1, "it is not all kept");
        let whole = |piece: &Vec<u8>| piece.ends_with(b"\n");
        assert!(pieces.0.borrow().iter().all(whole));
        out.write_all(b"no end").unwrap();
        out.flush().unwrap();
        let all = pieces.0.borrow().concat();
        assert_eq!(all.len(), 2000 * line.len() + 6);
        assert!(all.ends_with(b"no end"));
    }

    /// As a form writes that is one line.
    #[test]
    fn a_long_line_is_looked_through_once() {
        let pieces = Pieces::default();
        let mut out = Named::made(pieces.clone(), "a file".into());
        let looked = out.looked.clone();
        let length = 3 << 20;
        for _ in 0..length / 4 {
            out.write_all(b"abcd").unwrap();
        }
        out.write_all(b"\n").unwrap();
        out.flush().unwrap();
        assert!(looked.get() <= length + 1, "{}", looked.get());
        let all = pieces.0.borrow().concat();
        assert_eq!(all.len(), length + 1);
        assert!(pieces.0.borrow().len() >= 3, "it is not all kept");
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
