//! A file for each thread (`-ff -o FILE`): `FILE.TID`. Used by `args`.

use crate::ui::file::Appended;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What is written at once.
const CHUNK: usize = 64 << 10;

/// Appends to a file, which is open only meanwhile: threads come and go, and none is known to have ended.
struct Appends {
    file: Appended,
    text: Vec<u8>,
}

/// Makes the file of a thread, readable by us alone.
pub fn output(path: &Path, thread: u32) -> io::Result<Box<dyn Write>> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{thread}"));
    let file = Appended::new(&PathBuf::from(name)).map_err(io::Error::other)?;
    let text = Vec::new();
    Ok(Box::new(Appends { file, text }))
}

impl Write for Appends {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        if self.text.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let written = self.file.append(&self.text);
        // What could not be written is not tried again.
        self.text.clear();
        written
    }
}
