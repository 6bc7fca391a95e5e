//! The stacks of a process that is gone, from its core file.
//!
//! A core (`fs/binfmt_elf.c`, `elf_core_dump`) is an ELF file of type `ET_CORE`: memory as `PT_LOAD` segments, and in a
//! `PT_NOTE`
//!
//! | note | holds |
//! |---|---|
//! | `NT_PRSTATUS` | one per thread, that which died first: `struct elf_prstatus` (`linux/elfcore.h`), thread id at 32, registers at 112 |
//! | `NT_PRPSINFO` | `struct elf_prpsinfo`: process id at 24, arguments at 56 |
//! | `NT_FILE` | which file was mapped where: count, page size, then start, end, offset in pages each, then the names |
//!
//! Pages of files that were only read are usually left out (`/proc/PID/coredump_filter`): they are read from the files,
//! if those are still there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf;
use object::pod;
use process::elf::{Bytes, Error as ElfError, read_table};
use process::modules::open_regular;
use process::snapshot::{Copies, Place, Room, Thread};
use vm::Memory;

use super::loaded::Modules;
use super::open::Look;
use super::scripts;
use super::stack::{self, Process};
use super::unwind::Unwinder;
use crate::Result;

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

/// What shared memory without a file is called, as if it were one (`mm/shmem.c`, `shmem_zero_setup`).
const SHARED: &str = "/dev/zero (deleted)";

/// The bytes below rsp that belong to the frame (psABI §3.2.2).
const RED_ZONE: u64 = 128;
/// More program headers than any process has mappings (`vm.max_map_count` is 65,530).
const MOST_SEGMENTS: u64 = 1 << 20;

#[derive(Debug)]
struct Segment {
    range: Range<u64>,
    offset: u64,
    dumped: u64,
}

#[derive(Debug)]
struct Mapped {
    range: Range<u64>,
    offset: u64,
    path: PathBuf,
}

/// A core file.
#[derive(Debug)]
pub struct Core {
    file: File,
    segments: Vec<Segment>,
    mapped: Vec<Mapped>,
    opened: RefCell<HashMap<PathBuf, Option<File>>>,
    threads: Vec<Thread>,
    pid: i32,
    command: String,
    lacks: Vec<String>,
}

impl Core {
    /// Whether the file at `path` is one.
    pub fn is_one(path: &Path) -> bool {
        let Ok(file) = open_regular(path) else {
            return false;
        };
        let mut start = [0; 18];
        file.read_at(0, &mut start)
            && start.starts_with(b"\x7fELF")
            && start[16..] == elf::ET_CORE.0.to_le_bytes()
    }

    /// Reads its notes and where its memory lies.
    pub fn open(path: &Path) -> Result<Core> {
        let failed = |source| ElfError::File {
            path: path.to_owned(),
            source,
        };
        let malformed = |reason| ElfError::Malformed {
            file: path.to_owned(),
            reason,
        };
        let file = open_regular(path).map_err(failed)?;
        let headers = program_headers(&file).map_err(malformed)?;
        let mut core = Core {
            file,
            segments: Vec::new(),
            mapped: Vec::new(),
            opened: RefCell::default(),
            threads: Vec::new(),
            pid: 0,
            command: String::new(),
            lacks: Vec::new(),
        };
        let size = Bytes::size(&core.file);
        let mut cut: u64 = 0;
        for header in &headers {
            let (offset, bytes) = (header.p_offset.get(LE), header.p_filesz.get(LE));
            if header.p_type.get(LE) == elf::PT_LOAD {
                let start = header.p_vaddr.get(LE);
                let there = size.saturating_sub(offset).min(bytes);
                cut = cut.saturating_add(bytes - there);
                core.segments.push(Segment {
                    range: start..start.saturating_add(header.p_memsz.get(LE)),
                    offset,
                    dumped: there,
                });
            } else if header.p_type.get(LE) == elf::PT_NOTE {
                let notes = read_table(&core.file, offset, bytes).ok_or_else(|| {
                    malformed("its notes reach past its end: the core is cut short")
                })?;
                core.notes(&notes);
            }
        }
        if core.threads.is_empty() {
            return Err(malformed("no thread is noted in it").into());
        }
        if cut > 0 {
            core.lacks.push(format!(
                "it is cut short by {cut} bytes (ulimit -c, or a full disk)"
            ));
        }
        core.segments.sort_by_key(|segment| segment.range.start);
        core.place_threads();
        Ok(core)
    }

    /// The process it was.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its command line, at most 80 bytes of it.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// What is not in it and was wanted, in plain words.
    pub fn lacks(&self) -> &[String] {
        &self.lacks
    }

    fn notes(&mut self, notes: &[u8]) {
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
                elf::NT_FILE => self.mapped = files(text).unwrap_or_default(),
                _ => {}
            }
            let Some(next) = after.get(padded(header.n_descsz.get(LE))..) else {
                return;
            };
            rest = next;
        }
    }

    fn place_threads(&mut self) {
        for thread in &mut self.threads {
            let segment = self
                .segments
                .iter()
                .find(|segment| segment.range.contains(&thread.place.sp));
            thread.mapping = segment.map_or(0..0, |segment| segment.range.clone());
            thread.main = thread.tid == self.pid;
            if thread.mapping.is_empty() {
                self.lacks
                    .push(format!("the stack of thread {} is not in it", thread.tid));
            }
        }
    }

    /// The files that were mapped: each from its first to its last page.
    pub fn modules(&self) -> Modules {
        let mut files: Vec<(PathBuf, Range<u64>)> = Vec::new();
        for mapped in &self.mapped {
            if mapped.path == Path::new(SHARED) {
                continue;
            }
            match files.last_mut() {
                Some((path, range)) if *path == mapped.path && mapped.offset > 0 => {
                    range.end = mapped.range.end
                }
                _ if mapped.offset == 0 => files.push((mapped.path.clone(), mapped.range.clone())),
                _ => {}
            }
        }
        Modules::of_list(files)
    }

    /// Reads the stacks, with `fibers` also those that are parked. What turns out to be lacking is added to [`lacks`](Core::lacks).
    pub fn look(&mut self, modules: &Modules, fibers: bool) -> (Look, Vec<String>) {
        let mut copies = Copies::default();
        for thread in self
            .threads
            .iter()
            .filter(|thread| !thread.mapping.is_empty())
        {
            let from = thread
                .place
                .sp
                .saturating_sub(RED_ZONE)
                .max(thread.mapping.start);
            copies.add(from, &self.dumped(from..thread.mapping.end));
        }
        let vms = scripts::find(modules, &*self);
        let (coroutines, all) = match fibers {
            true => scripts::coroutines(&vms, &*self),
            false => (Vec::new(), true),
        };
        // The objects in frames are counted in copies.
        let end = |at: u64| self.around(at).end;
        for range in scripts::wanted_of_parked(&vms, &*self, &coroutines, &end) {
            copies.add(range.start, &self.dumped(range));
        }
        let objects: Vec<_> = vms.iter().map(|vm| vm.objects(&*self)).collect();
        let process = Process {
            modules,
            vms: &vms,
            memory: &*self,
            copies: &copies,
        };
        let mut unwinder = Unwinder::default();
        let mut stacks: Vec<_> = self
            .threads
            .iter()
            .map(|thread| stack::read(&process, &mut unwinder, thread, &objects))
            .collect();
        let mapping = |at: u64| self.around(at);
        stacks.extend(coroutines.iter().filter_map(|one| {
            stack::read_parked(&process, &mut unwinder, one, &mapping, &objects)
        }));
        let room = |thread: &Thread| Room {
            mapped: thread.mapping.end - thread.mapping.start,
            ..Room::default()
        };
        let look = Look {
            rooms: stacks
                .iter()
                .map(
                    |stack| match stack.lines.is_empty() || stack.copied.is_some() {
                        true => Room::default(),
                        false => room(&stack.thread),
                    },
                )
                .collect(),
            stacks,
            all,
            stopped: std::time::Duration::ZERO,
            copied: copies.size(),
        };
        let languages = vms.iter().map(|vm| vm.language()).collect();
        let opened = self.opened.borrow();
        let mut gone: Vec<String> = self
            .mapped
            .iter()
            .map(|mapped| mapped.path.display().to_string())
            .collect();
        gone.dedup();
        gone.retain(|path| opened.get(Path::new(path)).is_some_and(Option::is_none));
        drop(opened);
        self.lacks.extend(
            gone.into_iter()
                .map(|path| format!("{path}, which was mapped, is no longer there")),
        );
        (look, languages)
    }

    /// The mapping that holds an address; empty if there is none.
    fn around(&self, at: u64) -> Range<u64> {
        let found = self
            .segments
            .iter()
            .find(|segment| segment.range.contains(&at));
        found.map_or(0..0, |segment| segment.range.clone())
    }

    /// What of a range is in the core, from its start.
    fn dumped(&self, range: Range<u64>) -> Vec<u8> {
        let Some(segment) = self
            .segments
            .iter()
            .find(|segment| segment.range.contains(&range.start))
        else {
            return Vec::new();
        };
        let within = range.start - segment.range.start;
        let length = (range.end - range.start).min(segment.dumped.saturating_sub(within));
        read_table(&self.file, segment.offset.saturating_add(within), length).unwrap_or_default()
    }
}

impl Memory for Core {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        let fault = vm::Fault { at };
        let end = at.checked_add(into.len() as u64).ok_or(fault)?;
        let after = self
            .segments
            .partition_point(|segment| segment.range.start <= at);
        let segment = after
            .checked_sub(1)
            .map(|last| &self.segments[last])
            .ok_or(fault)?;
        if end - segment.range.start <= segment.dumped {
            let offset = segment.offset.saturating_add(at - segment.range.start);
            return if self.file.read_at(offset, into) {
                Ok(())
            } else {
                Err(fault)
            };
        }
        let mapped = self
            .mapped
            .iter()
            .find(|mapped| mapped.range.start <= at && end <= mapped.range.end);
        let mapped = mapped.ok_or(fault)?;
        let mut opened = self.opened.borrow_mut();
        let file = opened
            .entry(mapped.path.clone())
            .or_insert_with(|| open_regular(&mapped.path).ok());
        let offset = mapped.offset.saturating_add(at - mapped.range.start);
        let read = file.as_ref().is_some_and(|file| file.read_at(offset, into));
        if read { Ok(()) } else { Err(fault) }
    }
}

fn program_headers(
    file: &File,
) -> std::result::Result<Vec<elf::ProgramHeader64<LE>>, &'static str> {
    let mut header = [0; size_of::<elf::FileHeader64<LE>>()];
    if !file.read_at(0, &mut header) {
        return Err("too short for an ELF header");
    }
    let (header, _) = pod::from_bytes::<elf::FileHeader64<LE>>(&header)
        .map_err(|()| "too short for an ELF header")?;
    if process::elf::architecture_of(bytes_of(header)) != Some(process::elf::Architecture::X86_64) {
        return Err("not a core of an x86-64 process");
    }
    // With 65,535 or more the count stands in section 0 (gABI, `PN_XNUM`); the kernel writes that section only then.
    let mut count = u64::from(header.e_phnum.get(LE));
    if count == 0xffff {
        let mut section = [0; size_of::<elf::SectionHeader64<LE>>()];
        if !file.read_at(header.e_shoff.get(LE), &mut section) {
            return Err("its count of segments is not in it: the core is cut short");
        }
        let section = pod::from_bytes::<elf::SectionHeader64<LE>>(&section)
            .map_err(|()| "too short")?
            .0;
        count = u64::from(section.sh_info.get(LE));
    }
    let entry = size_of::<elf::ProgramHeader64<LE>>() as u64;
    if count > MOST_SEGMENTS {
        return Err("the program header has an impossible size");
    }
    let table = read_table(file, header.e_phoff.get(LE), count * entry)
        .ok_or("its program header reaches past its end: the core is cut short")?;
    let table =
        pod::slice_from_all_bytes::<elf::ProgramHeader64<LE>>(&table).map_err(|()| "too short")?;
    Ok(table.to_vec())
}

/// The first bytes of a header, which say for which machine it is.
fn bytes_of(header: &elf::FileHeader64<LE>) -> &[u8; 20] {
    pod::bytes_of(header)
        .first_chunk()
        .expect("a header is longer")
}

fn thread(status: &[u8]) -> Option<Thread> {
    Some(Thread {
        tid: word32(status, THREAD)?.cast_signed(),
        name: String::new(),
        main: false,
        place: Place {
            ip: word(status, RIP)?,
            sp: word(status, RSP)?,
            bp: word(status, RBP)?,
            thread_area: word(status, FS_BASE)?,
        },
        mapping: 0..0,
    })
}

/// Reads `NT_FILE`.
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
