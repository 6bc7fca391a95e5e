//! bpf(2): maps and programs made, read and attached, and what stands in the way. Layouts: `union bpf_attr` and
//! `struct bpf_prog_info` in include/uapi/linux/bpf.h. Used by `places`, `watch` and others here, and by the crates `calls` and `frames`.

mod mapped;
mod on_demand;
mod types;

pub use mapped::Mapped;
pub use on_demand::OnDemand;

use crate::assembler::Program;
use crate::processors::processors;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use types::types;

/// Why calls cannot be seen by BPF.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The kernel has answered EPERM, and capabilities are missing from lancet's effective set.
    #[error("BPF needs CAP_BPF and CAP_PERFMON, and lancet has no {}", lacks.join(" and no "))]
    Lacks {
        /// The names of the missing ones, as capabilities(7) has them.
        lacks: Vec<&'static str>,
    },
    /// We have them, and are refused all the same.
    #[error(
        "the kernel refuses BPF although CAP_BPF and CAP_PERFMON are there: a seccomp filter, kernel lockdown, a security module, or a user namespace that is not the first"
    )]
    Forbidden,
    /// The kernel has no such thing, or no room.
    #[error("the kernel cannot do it by BPF ({what}: {error})")]
    Kernel {
        /// What lancet asked the kernel for, in words for the message.
        what: &'static str,
        /// The error of the system call.
        error: io::Error,
    },
    /// The verifier does not accept a program: this is a mistake of ours, or of the kernel.
    #[error("the kernel's verifier refuses lancet's BPF program ({0})")]
    Verifier(String),
    /// BPF programs cannot copy all that is to be shown of a call.
    #[error("BPF programs cannot copy what is to be shown of some call: --by ptrace can")]
    Copies,
    /// The kernel has ids of a process in lancet's PID namespace alone.
    #[error(
        "BPF knows processes by their ids in lancet's own PID namespace, and process {0} is in another"
    )]
    Namespace(i32),
    /// The map of processes is full.
    #[error("BPF watches at most {0} processes at the same time")]
    Full(u32),
}

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const MAP_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const INFO_BY_FD: libc::c_int = 15;
const BTF_LOAD: libc::c_int = 18;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

const RAW_TRACEPOINT: u32 = 17;

/// The kind of a map: `enum bpf_map_type` in include/uapi/linux/bpf.h.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Kind {
    Hash = 1,
    Array = 2,
    ArrayOfEachCpu = 6,
    Ring = 27,
}

/// Helpers that read the kernel's memory are for programs that say so; ours is under the MIT licence as well.
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";

#[repr(C)]
#[derive(Default)]
struct MakeMap {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    padding: u32,
}

/// `struct bpf_func_info`: where a function begins, and its type.
#[repr(C)]
struct FunctionInfo {
    at: u32,
    of: u32,
}

#[repr(C)]
#[derive(Default)]
struct LoadTypes {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct Attach {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct Info {
    descriptor: u32,
    length: u32,
    info: u64,
}

/// # Safety
/// Addresses in `attribute` must be of memory that is as long as the command reads or writes there.
unsafe fn bpf<T>(command: libc::c_int, attribute: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes at most so many bytes of it; the rest is the caller's promise.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attribute),
            size_of::<T>(),
        )
    };
    match done {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done as i32),
    }
}

fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// The first 15 bytes of a name, as maps and programs have them.
fn name_of(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let bytes = &text.as_bytes()[..text.len().min(15)];
    name[..bytes.len()].copy_from_slice(bytes);
    name
}

/// Says why the kernel has refused.
fn refused(what: &'static str, error: io::Error) -> Refused {
    if error.raw_os_error() != Some(libc::EPERM) {
        return Refused::Kernel { what, error };
    }
    match lacking() {
        lacks if lacks.is_empty() => Refused::Forbidden,
        lacks => Refused::Lacks { lacks },
    }
}

/// Which capabilities we lack: include/uapi/linux/capability.h. CAP_SYS_ADMIN stands for both.
fn lacking() -> Vec<&'static str> {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap_or_default();
    let effective = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    if effective & SYS_ADMIN != 0 {
        return Vec::new();
    }
    let both = [(1 << 39, "CAP_BPF"), (1u64 << 38, "CAP_PERFMON")];
    let lacks = both.into_iter().filter(|(bit, _)| effective & bit == 0);
    lacks.map(|(_, name)| name).collect()
}

/// A map, which lives as long as this or a program that uses it.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key: usize,
    value: usize,
    entries: u32,
}

impl Map {
    /// Makes a map. `key` and `value` are the sizes of both in bytes; a ring buffer has neither, and its `entries` are its bytes.
    pub fn new(
        kind: Kind,
        name: &str,
        key: usize,
        value: usize,
        entries: u32,
    ) -> Result<Self, Refused> {
        // Values of each processor lie one behind the other.
        let room = match kind {
            Kind::ArrayOfEachCpu => value * processors()?,
            _ => value,
        };
        Map::with_room(kind, name, [key, value, room], entries)
    }

    /// The same with sizes of a key, of a value, and of the room for all values of a key.
    pub(crate) fn with_room(
        kind: Kind,
        name: &str,
        [key, value, room]: [usize; 3],
        entries: u32,
    ) -> Result<Self, Refused> {
        let asked = MakeMap {
            kind: kind as u32,
            key: key as u32,
            value: value as u32,
            entries,
            name: name_of(name),
            ..MakeMap::default()
        };
        Map::made(asked, room)
    }

    /// Makes a map with one value of so many bytes, which lancet can map into its own memory.
    fn mappable(name: &str, value: usize) -> Result<Self, Refused> {
        const MAPPABLE: u32 = 1 << 10;
        let asked = MakeMap {
            kind: Kind::Array as u32,
            key: size_of::<u32>() as u32,
            value: value as u32,
            entries: 1,
            flags: MAPPABLE,
            name: name_of(name),
            ..MakeMap::default()
        };
        Map::made(asked, value)
    }

    fn made(mut asked: MakeMap, room: usize) -> Result<Self, Refused> {
        // SAFETY: it holds no address.
        let made = unsafe { bpf(MAP_CREATE, &mut asked) };
        let descriptor = made.map_err(|error| refused("a map", error))?;
        Ok(Map {
            descriptor: owned(descriptor),
            key: asked.key as usize,
            value: room,
            entries: asked.entries,
        })
    }

    /// Returns its descriptor, by which an instruction of a program names the map.
    pub fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// How many entries it has room for.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The value of a key; of a map of each processor, all of them.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_over(key, 0)
    }

    /// The same, in room that was filled with this byte.
    pub(crate) fn get_over(&self, key: &[u8], filled: u8) -> Option<Vec<u8>> {
        assert_eq!(key.len(), self.key, "a whole key");
        let mut value = vec![filled; self.value];
        let mut asked = self.element(key);
        asked.value = value.as_mut_ptr() as u64;
        // SAFETY: key and value are as long as the map's.
        unsafe { bpf(MAP_LOOKUP, &mut asked) }.ok()?;
        Some(value)
    }

    /// Sets the value of a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Refused> {
        assert_eq!(
            [key.len(), value.len()],
            [self.key, self.value],
            "whole ones"
        );
        let mut asked = self.element(key);
        asked.value = value.as_ptr() as u64;
        // SAFETY: key and value are as long as the map's.
        match unsafe { bpf(MAP_UPDATE, &mut asked) } {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::E2BIG) => {
                Err(Refused::Full(self.entries))
            }
            Err(error) => Err(refused("an entry of a map", error)),
        }
    }

    /// Takes a key out, if it is there.
    pub fn remove(&self, key: &[u8]) {
        assert_eq!(key.len(), self.key, "a whole key");
        let mut asked = self.element(key);
        // SAFETY: the key is as long as the map's. An error means that it is not there.
        let _ = unsafe { bpf(MAP_DELETE, &mut asked) };
    }

    /// Returns all keys of a hash. Entries that come or go meanwhile may be missing, and more than the map has room for are never returned.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < self.entries as usize {
            let mut next = vec![0; self.key];
            let mut asked = Element {
                map: self.descriptor() as u32,
                // Without a key the kernel returns the first one.
                key: keys.last().map_or(0, |last| last.as_ptr() as u64),
                value: next.as_mut_ptr() as u64,
                ..Element::default()
            };
            // SAFETY: both keys are as long as the map's, and the last one lives in `keys` through the call.
            match unsafe { bpf(MAP_NEXT_KEY, &mut asked) } {
                Ok(_) => keys.push(next),
                Err(_) => break,
            }
        }
        keys
    }

    fn element(&self, key: &[u8]) -> Element {
        Element {
            map: self.descriptor() as u32,
            key: key.as_ptr() as u64,
            ..Element::default()
        }
    }
}

/// A program at a tracepoint, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    program: OwnedFd,
    _attached: OwnedFd,
}

impl Attached {
    /// Has a program run at the tracepoint of this name.
    pub fn new(tracepoint: &str, program: &Program) -> Result<Self, Refused> {
        let program = load(tracepoint, program)?;
        let name = CString::new(tracepoint).expect("a name of ours");
        let mut asked = Attach {
            name: name.as_ptr() as u64,
            program: program.as_raw_fd() as u32,
            padding: 0,
        };
        // SAFETY: the name ends with a NUL and lives through the call.
        let attached = unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut asked) };
        let attached = attached.map_err(|error| refused("a raw tracepoint", error))?;
        Ok(Attached {
            program,
            _attached: owned(attached),
        })
    }

    /// How often it was not run, because a program was running on that processor: a kernel that does so has lost calls.
    pub fn missed(&self) -> u64 {
        /// `recursion_misses` of `struct bpf_prog_info` (Linux 5.12), and what follows it.
        const MISSES: usize = 208;
        let mut info = [0u8; MISSES + 8];
        let mut asked = Info {
            descriptor: self.program.as_raw_fd() as u32,
            length: info.len() as u32,
            info: info.as_mut_ptr() as u64,
        };
        // SAFETY: so many bytes of ours; the numbers in it that ask for more are zero.
        let told = unsafe { bpf(INFO_BY_FD, &mut asked) };
        let (_, misses) = info.split_at(MISSES);
        match told {
            Ok(_) => u64::from_le_bytes(misses.try_into().expect("8 bytes")),
            Err(_) => 0,
        }
    }
}

/// Has the kernel know the types of a program with functions.
fn load_types() -> Result<OwnedFd, Refused> {
    let blob = types();
    let mut asked = LoadTypes {
        types: blob.as_ptr() as u64,
        size: blob.len() as u32,
        ..LoadTypes::default()
    };
    // SAFETY: the address is of so many bytes, which live through the call.
    let loaded = unsafe { bpf(BTF_LOAD, &mut asked) };
    loaded.map(owned).map_err(|error| refused("types", error))
}

fn load(name: &str, program: &Program) -> Result<OwnedFd, Refused> {
    let instructions = &program.words;
    let types = match program.functions.is_empty() {
        true => None,
        false => Some(load_types()?),
    };
    let mut functions = vec![FunctionInfo { at: 0, of: 3 }];
    functions.extend(program.functions.iter().map(|at| FunctionInfo {
        at: *at as u32,
        of: 4,
    }));
    let of_functions = match &types {
        None => Load::default(),
        Some(types) => Load {
            types: types.as_raw_fd() as u32,
            function_size: size_of::<FunctionInfo>() as u32,
            functions: functions.as_ptr() as u64,
            function_count: functions.len() as u32,
            ..Load::default()
        },
    };
    let mut asked = Load {
        kind: RAW_TRACEPOINT,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        name: name_of(name),
        ..of_functions
    };
    // SAFETY: the addresses are of as many instructions, of the functions' array, and of a text with a NUL at its end; all live through
    // the call.
    let error = match unsafe { bpf(PROG_LOAD, &mut asked) } {
        Ok(descriptor) => return Ok(owned(descriptor)),
        Err(error) => error,
    };
    if error.raw_os_error() == Some(libc::EPERM) {
        return Err(refused("a program", error));
    }
    // Once more, with a log.
    let mut log = vec![0u8; 64 << 10];
    asked.log_level = 1;
    asked.log_size = log.len() as u32;
    asked.log = log.as_mut_ptr() as u64;
    // SAFETY: `asked` holds the addresses of `instructions`, with their number, of the license text, which ends with a NUL, and
    // of `log`, with its length; all three live until the call has returned.
    match unsafe { bpf(PROG_LOAD, &mut asked) } {
        Ok(descriptor) => Ok(owned(descriptor)),
        Err(_) => {
            let text = String::from_utf8_lossy(&log);
            let text = text.trim_end_matches('\0').trim_end();
            // The last line counts what was looked at.
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.starts_with("processed "))
                .collect();
            let said = lines.last().copied().unwrap_or_default();
            if !program.functions.is_empty() && said.contains("func unknown") {
                let what = "bpf_loop, which Linux has since 5.17";
                return Err(Refused::Kernel { what, error });
            }
            Err(Refused::Verifier(format!("{name}: {error}: {said}")))
        }
    }
}
