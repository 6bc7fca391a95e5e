//! Reads the notes of a core file, which describe the process. Used by `core`.
//!
//! | note | holds |
//! |---|---|
//! | `NT_PRSTATUS` | one per thread, that which died first: `struct elf_prstatus` (`linux/elfcore.h`), thread id at 32, registers at 112 |
//! | `NT_PRPSINFO` | `struct elf_prpsinfo`: process id at 24, arguments at 56 |
//! | `NT_AUXV` | the auxiliary vector (getauxval(3)): pairs of words, `AT_ENTRY` is the program's first instruction |
//! | `NT_FILE` | which file was mapped where: count, page size, then start, end, offset in pages each, then the names |

use std::ops::Range;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf;
use object::pod;
use process::snapshot::{Thread, UnwindContext};

/// Offsets in `struct elf_prstatus` and in the registers in it (`struct user_regs_struct`).
const THREAD: usize = 32;
const REGISTERS: usize = 112;
const RBP: usize = REGISTERS + 4 * 8;
const RIP: usize = REGISTERS + 16 * 8;
const RSP: usize = REGISTERS + 19 * 8;
const FS_BASE: usize = REGISTERS + 21 * 8;
/// Offsets in `struct elf_prpsinfo`.
const PROCESS: usize = 24;
const ARGUMENTS: Range<usize> = 56..136;
/// The type of the auxiliary vector's pair that holds the entry point: `AT_ENTRY` (`linux/auxvec.h`).
const AT_ENTRY: u64 = 9;

/// A part of a file that was mapped.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) range: Range<u64>,
    pub(super) offset: u64,
    pub(super) path: PathBuf,
}

/// What is read from the notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) threads: Vec<Thread>,
    pub(super) mapped: Vec<Mapped>,
    pub(super) pid: i32,
    pub(super) command: String,
    /// The address of the program's first instruction; 0 = unknown.
    pub(super) entry: u64,
}

impl Notes {
    /// Reads a segment of notes.
    pub(super) fn read(&mut self, notes: &[u8]) {
        let mut rest = notes;
        while let Ok((header, after)) = pod::from_bytes::<elf::NoteHeader64<LE>>(rest) {
            let padded = |size: u32| (size as usize).next_multiple_of(4);
            let Some((_, after)) = after.split_at_checked(padded(header.n_namesz.get(LE))) else {
                return;
            };
            let Some(text) = after.get(..header.n_descsz.get(LE) as usize) else {
                return;
            };
            match header.n_type.get(LE) {
                elf::NT_PRSTATUS => self.threads.extend(thread(text)),
                elf::NT_PRPSINFO => {
                    self.pid = word32(text, PROCESS).map_or(0, u32::cast_signed);
                    let arguments = text.get(ARGUMENTS).unwrap_or_default();
                    let arguments = arguments
                        .split(|&byte| byte == 0)
                        .next()
                        .unwrap_or_default();
                    self.command = String::from_utf8_lossy(arguments).trim_end().to_owned();
                }
                elf::NT_AUXV => self.entry = entry(text).unwrap_or(0),
                elf::NT_FILE => self.mapped = files(text).unwrap_or_default(),
                _ => {}
            }
            let Some(next) = after.get(padded(header.n_descsz.get(LE))..) else {
                return;
            };
            rest = next;
        }
    }
}

fn thread(status: &[u8]) -> Option<Thread> {
    let id = word32(status, THREAD)?.cast_signed();
    Some(Thread {
        tid: id,
        own_id: id,
        name: String::new(),
        main: false,
        context: UnwindContext {
            ip: word(status, RIP)?,
            sp: word(status, RSP)?,
            bp: word(status, RBP)?,
            thread_area: word(status, FS_BASE)?,
        },
        mapping: 0..0,
        activity: process::snapshot::Activity::Unknown,
    })
}

/// Reads the note `NT_AUXV`, as far as it says where the program begins.
fn entry(vector: &[u8]) -> Option<u64> {
    let mut pairs = vector.chunks_exact(16);
    let found = pairs.find(|pair| word(pair, 0) == Some(AT_ENTRY))?;
    word(found, 8)
}

/// Reads the note `NT_FILE`, which lists the mapped files.
fn files(note: &[u8]) -> Option<Vec<Mapped>> {
    let (count, page) = (word(note, 0)?, word(note, 8)?);
    let count = usize::try_from(count).ok()?;
    let names = note.get(count.checked_mul(24)?.checked_add(16)?..)?;
    let mut names = names.split(|&byte| byte == 0);
    let mut found = Vec::new();
    for at in (0..count).map(|number| 16 + number * 24) {
        use std::os::unix::ffi::OsStrExt;
        found.push(Mapped {
            range: word(note, at)?..word(note, at + 8)?,
            offset: word(note, at + 16)?.checked_mul(page)?,
            path: Path::new(std::ffi::OsStr::from_bytes(names.next()?)).to_owned(),
        });
    }
    found.retain(|mapped| mapped.range.start < mapped.range.end);
    found.sort_by_key(|mapped| mapped.range.start);
    Some(found)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
