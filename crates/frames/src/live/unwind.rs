//! Unwinds stacks: finds the native frames of a stack. Used by `stack`, `core` and others here, and by the crates
//! `report`, `calls` and `lancet`.
//!
//! framehop finds for each frame the rule that leads to its caller: call frame information, and where there is
//! none, the frame pointer. The CFA it arrives at is where the frame begins, and where rsp was on the way in
//! is where it ends; the difference is the frame's bytes.
//!
//! Code that a VM made at run time has no such information. PHP's is jumped to from the function that runs scripts, so
//! it uses that function's frame (`ext/opcache/jit`, the hybrid VM), and that function's rule applies.

use std::ops::Range;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder as _,
};
use object::elf;
use process::snapshot::UnwindContext;
use vm::Memory;

use super::loaded::Modules;
use crate::image::Image;

/// Limit of the bytes that code made at run time adds to its host's frame.
const MOST_MORE: u64 = 512;

/// A frame of native code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Native {
    /// The address that it executes, or will execute when the call it is in returns.
    pub ip: u64,
    /// An address inside of the instruction that it is in: the call, for all but the innermost. For code made at run
    /// time, an address inside of the function whose frame it uses.
    pub lookup: u64,
    /// The value of rsp in the frame: its lowest address.
    pub sp: u64,
    /// The canonical frame address: where the frame of the caller begins.
    pub cfa: u64,
}

/// The memory that a walk along a stack reads.
#[derive(Clone, Copy)]
pub struct Reads<'a> {
    /// The files of the process.
    pub modules: &'a Modules,
    /// Return addresses and saved registers.
    pub stack: &'a dyn Memory,
    /// Files that can be read only from the process's memory.
    pub memory: &'a dyn Memory,
    /// Functions in whose frames code runs that was made at run time.
    pub hosts: &'a [Range<u64>],
}

/// How a walk along a stack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It reached the thread's first function.
    Whole,
    /// The caller of this address could not be found.
    Lost(u64),
}

/// Walks the stacks of one process, and keeps the unwind information of its files.
pub struct Unwinder {
    inner: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64<MayAllocateDuringUnwind>,
    known: Vec<usize>,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Default for Unwinder {
    fn default() -> Self {
        Unwinder {
            inner: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            known: Vec::new(),
        }
    }
}

impl Native {
    /// Returns whether it executes code made at run time, in the frame of the function at `lookup`.
    pub fn made_at_run_time(&self) -> bool {
        self.ip.abs_diff(self.lookup) > 1
    }
}

impl Unwinder {
    /// Returns the frames from `context` outward. Code made at run time counts as code of one of the hosts.
    pub fn walk(&mut self, context: UnwindContext, reads: Reads) -> (Vec<Native>, End) {
        let Reads {
            modules,
            stack,
            memory,
            hosts,
        } = reads;
        let mut registers = UnwindRegsX86_64::new(context.ip, context.sp, context.bp);
        let mut read = |at: u64| stack.u64(at).map_err(|_| ());
        let mut frames: Vec<Native> = Vec::new();
        let mut address = FrameAddress::from_instruction_pointer(context.ip);
        loop {
            let mut lookup = address.address_for_lookup();
            self.know(modules, lookup, memory);
            let sp = registers.sp();
            let hosted = match modules.number(lookup) {
                Some(_) => None,
                None => hosts.iter().find_map(|host| {
                    let found = self.step_out_of(host, registers, reads)?;
                    Some((middle(host), found))
                }),
            };
            let next = if let Some((inside, (outside, caller))) = hosted {
                lookup = inside;
                registers = outside;
                Ok(Some(caller))
            } else {
                self.inner
                    .unwind_frame(address, &mut registers, &mut self.cache, &mut read)
            };
            let cfa = registers.sp();
            let frame = Native {
                ip: address.address(),
                lookup,
                sp,
                // The outermost frame has no caller, whose frame would begin there.
                cfa: if matches!(next, Ok(Some(_))) { cfa } else { sp },
            };
            frames.push(frame);
            match next {
                Ok(Some(caller)) => {
                    // Each step must go outward; otherwise the stack is damaged.
                    let stuck = cfa <= sp;
                    match FrameAddress::from_return_address(caller) {
                        Some(caller) if !stuck => address = caller,
                        Some(_) => return (frames, End::Lost(caller)),
                        None => return (frames, End::Whole),
                    }
                }
                Ok(None) => return (frames, End::Whole),
                Err(_) => return (frames, End::Lost(lookup)),
            }
        }
    }

    /// Whether the frames from `context` outward can be found without its rbp, because they are the same, to the
    /// outermost, for any value of it. `outermost` returns whether a frame has no caller, if nothing else shows it.
    pub fn walks_without_rbp(
        &mut self,
        context: UnwindContext,
        reads: Reads,
        outermost: &dyn Fn(&Native) -> bool,
    ) -> bool {
        // The first value is no valid address; the second could be a frame's.
        let [first, second] = [1, context.sp.wrapping_add(64)].map(|bp| {
            let context = UnwindContext { bp, ..context };
            self.walk(context, reads)
        });
        let whole = first.1 == End::Whole || first.0.last().is_some_and(outermost);
        whole && first == second
    }

    /// Returns the caller of code that runs in the frame of `host`, with its registers. The frame's size is the same
    /// everywhere in that function but at its ends. Such code may have taken a little more, so the size is right where
    /// a call of the host returns to.
    fn step_out_of(
        &mut self,
        host: &Range<u64>,
        registers: UnwindRegsX86_64,
        reads: Reads,
    ) -> Option<(UnwindRegsX86_64, u64)> {
        let Reads {
            modules,
            stack,
            memory,
            ..
        } = reads;
        let inside = middle(host);
        self.know(modules, inside, memory);
        let mut read = |at: u64| stack.u64(at).map_err(|_| ());
        (0..=MOST_MORE).step_by(8).find_map(|more| {
            let mut registers =
                UnwindRegsX86_64::new(inside, registers.sp().wrapping_add(more), registers.bp());
            let address = FrameAddress::from_instruction_pointer(inside);
            let next = self
                .inner
                .unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            let caller = next.ok().flatten()?;
            let near = modules.number(caller) == modules.number(host.start);
            (near && calls(memory, caller, host.start)).then_some((registers, caller))
        })
    }

    /// Adds the file that `address` lies in, when it is first met.
    fn know(&mut self, modules: &Modules, address: u64, memory: &dyn Memory) {
        let Some(number) = modules.number(address) else {
            return;
        };
        if self.known.contains(&number) {
            return;
        }
        self.known.push(number);
        let Some(loaded) = modules.get(number) else {
            return;
        };
        let Some(image) = loaded.image(memory) else {
            return;
        };
        let sections = sections(image);
        let name = loaded.name().to_owned();
        self.inner.add_module(Module::new(
            name,
            loaded.range.clone(),
            loaded.bias,
            sections,
        ));
    }
}

/// Returns an address far from where a function sets up and removes its frame.
fn middle(function: &Range<u64>) -> u64 {
    function.start + (function.end - function.start) / 2
}

/// Returns whether a call of `function` returns to `address`: `call rel32`, `call *(rip + rel32)` through a word that
/// holds its address now, or a call by a register, whose target is not known.
fn calls(memory: &dyn Memory, address: u64, function: u64) -> bool {
    let mut code = [0; 6];
    if memory.read(address.wrapping_sub(6), &mut code).is_err() {
        return false;
    }
    let [.., a, b, c, d] = code;
    let target = address.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])));
    match (code[0], code[1]) {
        (_, 0xe8) => target == function,
        (0xff, 0x15) => memory.u64(target) == Ok(function),
        _ => c == 0xff && matches!(d, 0x10..=0x13 | 0x16 | 0x17 | 0xd0..=0xd7),
    }
}

fn sections(image: &Image) -> ExplicitModuleSectionInfo<Vec<u8>> {
    let mut sections = ExplicitModuleSectionInfo::default();
    if let Some((address, bytes)) = image.eh_frame() {
        sections.eh_frame_svma = Some(address..address + bytes.len() as u64);
        sections.eh_frame = Some(bytes);
    }
    if let Some(header) = image.headers().segment(elf::PT_GNU_EH_FRAME)
        && let Some(bytes) = image.rest(header.address)
    {
        let size = usize::try_from(header.file_size)
            .unwrap_or(0)
            .min(bytes.len());
        sections.eh_frame_hdr_svma = Some(header.address..header.address + size as u64);
        sections.eh_frame_hdr = Some(bytes[..size].to_vec());
    }
    if sections.eh_frame.is_none() {
        sections.debug_frame = image.section(".debug_frame").map(|(_, bytes)| bytes);
    }
    // The code is needed for the first instructions of functions without unwind information.
    if let Some((address, bytes)) = image.section(".text") {
        sections.text_svma = Some(address..address + bytes.len() as u64);
        sections.text = Some(bytes);
    }
    sections
}
