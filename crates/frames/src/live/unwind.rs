//! Who called whom.
//!
//! framehop finds for each frame the rule that leads to its caller: call frame information, and where there is
//! none, the frame pointer. The CFA it arrives at is where the frame begins, and where rsp was on the way in
//! is where it ends; the difference is the frame's bytes.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder as _,
};
use object::elf;
use process::snapshot::Place;
use vm::Memory;

use super::loaded::Modules;
use crate::image::Image;

/// A frame of native code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Native {
    /// Where it executes, or will when the call it is in returns.
    pub ip: u64,
    /// An address inside of the instruction it is in: the call, for all but the innermost.
    pub lookup: u64,
    /// Where the frame ends.
    pub sp: u64,
    /// Where the caller's begins.
    pub cfa: u64,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the thread's first function.
    Whole,
    /// The caller of this address could not be found.
    Lost(u64),
}

/// Walks stacks of one process.
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

impl Unwinder {
    /// The frames from `place` outward. `stack` is read for return addresses and saved registers, `memory` for files
    /// that can only be had from there.
    pub fn walk(
        &mut self,
        modules: &Modules,
        place: Place,
        stack: &dyn Memory,
        memory: &dyn Memory,
    ) -> (Vec<Native>, End) {
        let mut registers = UnwindRegsX86_64::new(place.ip, place.sp, place.bp);
        let mut read = |at: u64| stack.u64(at).map_err(|_| ());
        let mut frames: Vec<Native> = Vec::new();
        let mut address = FrameAddress::from_instruction_pointer(place.ip);
        loop {
            let lookup = address.address_for_lookup();
            self.know(modules, lookup, memory);
            let sp = registers.sp();
            let next = self
                .inner
                .unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            let cfa = registers.sp();
            let frame = Native {
                ip: address.address(),
                lookup,
                sp,
                // The outermost has no caller to begin.
                cfa: if matches!(next, Ok(Some(_))) { cfa } else { sp },
            };
            frames.push(frame);
            match next {
                Ok(Some(caller)) => {
                    // Each step goes outward; a stack that does not is damaged.
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

    /// Adds the file that `address` lies in, when it is met for the first time.
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
    // Code, for the first instructions of functions that have no information.
    if let Some((address, bytes)) = image.section(".text") {
        sections.text_svma = Some(address..address + bytes.len() as u64);
        sections.text = Some(bytes);
    }
    sections
}
