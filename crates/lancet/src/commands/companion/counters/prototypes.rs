//! Prototypes of functions of which only numbers are wanted. Used by `counters`.
//!
//! Statements are told by their first thousand characters, and `-s` holds for all strings of a `lancet calls`: by its own prototypes it would copy as much of what
//! each `read` gets and each `write` sends, which nobody reads.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use nix::sys::memfd::{MFdFlags, memfd_create};

const WITHOUT_BYTES: &str = "\
long read(int, addr, ulong);
long recv(int, addr, ulong, int);
long recvfrom(int, addr, ulong, int, addr, addr);
long write(int, addr, ulong);
long send(int, addr, ulong, int);
long sendto(int, addr, ulong, int, addr, uint);
long readv(int, addr, int);
long writev(int, addr, int);
";

/// The path of a file with them, as long as this process lives; `None`: the kernel gives none, and strings are copied.
pub fn path() -> Option<String> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let made = memfd_create(c"lancet-prototypes", MFdFlags::MFD_CLOEXEC).ok()?;
        let mut file = File::from(made);
        file.write_all(WITHOUT_BYTES.as_bytes()).ok()?;
        Some(file)
    });
    let number = file.as_ref()?.as_raw_fd();
    let path = process::proc_file::path(std::process::id() as i32, &format!("fd/{number}"));
    Some(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::super::functions::{About, of_group};
    use super::*;

    /// It can be read, and is of functions whose bytes are of no use.
    #[test]
    fn functions_without_bytes_have_no_statements() {
        let path = path().expect("a file in memory");
        let text = std::fs::read_to_string(path).expect("its text");
        assert_eq!(text, WITHOUT_BYTES);
        let known: Vec<_> = ["read", "write"]
            .into_iter()
            .flat_map(|group| of_group(group).expect("a group"))
            .collect();
        for line in text.lines() {
            let name = line.split([' ', '(']).nth(1).expect("a name");
            let of_name = known.iter().find(|function| function.name == name);
            let about = of_name.map(|function| function.about);
            assert!(matches!(about, Some(About::Descriptor)), "{line}");
        }
    }
}
