//! A Ruby without a table: its frames are read as those of the newest Ruby that has one, if that holds in all of its threads.
//!
//! What frames and lines need has not changed from 3.3 to 4.1; what objects need changes with each version, so nothing of those is read
//! so. The VM is found by its own pointer to itself, which no symbol names, among the variables around one that is exported:
//!
//! ```text
//!   variable ─▶ rb_vm_t ─▶ main thread ─▶ rb_vm_t           and the main thread ─▶ ec ─▶ main thread
//! ```
//!
//! | of | what must hold |
//! |---|---|
//! | threads | a closed list in both directions; each names the VM, its context names it, its object is one of a C type |
//! | a VM stack | its frames end with the one that every stack begins with |
//! | a frame | it is of a kind that exists, and is one of C exactly if that kind is; no compiled code runs it, which may keep iseq and pc elsewhere |
//! | a frame of a method | the entry of the method has the same code |
//! | code | path and names are Strings, of which the label ends with the method's name, if it is none of the VM's own; the pc is within it; as many line entries begin in it as there are |
//!
//! There is one Ractor: of others the threads are elsewhere. Whether lines are right is shown by source text, for which this crate is
//! not the place.

use super::facts::read_version;
use super::frames::{C_FRAME, ENTRY, EP, Frame, ISEQ, PC};
use super::function::{BODY, DEFINITION, code};
use super::object::Type;
use super::string::Text;
use super::thread::THREAD_SELF;
use super::{Error, Facts, Layout, Ruby, Version};
use crate::{Fault, Memory};

/// Words that are followed further than to what would be a thread of the VM's, at most.
const MOST_TAKEN: u32 = 1 << 15;

/// How far from an exported variable the pointer to the VM is looked for: libruby has 200 KiB of variables.
const AROUND: u64 = 1 << 19;
const PAGE: u64 = 4096;

/// `jit_return` in `rb_control_frame_t`, since 3.3.
const JIT_RETURN: u64 = 48;

/// Kinds of frames (`VM_FRAME_MAGIC_…`, `vm_core.h`, the same from 2.5 to 4.1), and the bits that say which.
const KINDS: u64 = 0x7fff_0001;
const METHOD: u64 = 0x1111_0001;
const DUMMY: u64 = 0x7999_0001;
const OF_RUBY: [u64; 6] = [
    METHOD,
    0x2222_0001,
    0x3333_0001,
    0x4444_0001,
    0x7777_0001,
    0x7888_0001,
];
const OF_C: [u64; 2] = [0x5555_0001, 0x6666_0001];

/// Steps of a proof: a thread, a frame and 64 line entries take one each.
const MOST_STEPS: u32 = 1 << 16;
/// Longest path and name; bytes of two names that are compared.
const LONGEST_TEXT: u64 = 4096;
const COMPARED: usize = 1024;
/// Line entries of a method, at most.
const MOST_LINES: u32 = 1 << 20;

/// What a layout was held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proven {
    /// All threads that have a frame of Ruby code.
    pub threads: u32,
    /// All frames of these.
    pub frames: u32,
}

impl Facts {
    /// Finds the facts by the newest table, and what they were held against. `symbol` is as in [`find`](Facts::find). With them only
    /// frames can be read, and threads.
    ///
    /// The threads may run meanwhile; if what was read does not fit, another try may succeed.
    ///
    /// # Errors
    /// It is not so.
    pub fn by_newest_layout(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<(Facts, Proven), Error> {
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        let version = read_version(memory, need("ruby_version")?)?;
        let own = (version.major, version.minor);
        let mut tables = Layout::all().iter().rev();
        let table = tables.find(|layout| layout.version != own);
        let layout = table.ok_or(Error::garbled("table", 0))?;
        let table = Version::new(layout.version.0, layout.version.1, u8::MAX);
        let facts = Facts::of_frames(version, table);
        let ruby = |facts| Ruby {
            memory,
            layout,
            facts,
        };
        let vm = ruby(facts).find_vm(need("rb_cObject")?)?;
        let facts = facts.with_vm(vm);
        Ok((facts, ruby(facts).proof(vm)?))
    }
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns whether compiled code runs a frame, which may keep iseq and pc elsewhere; since 3.3.
    pub fn is_compiled(&self, frame: Frame) -> Result<bool, Fault> {
        let at = frame.cfp.wrapping_add(JIT_RETURN);
        Ok(self.memory.u64(at)? != 0)
    }

    /// Returns the `rb_vm_t` to which one variable leads, of those around the one at `near`.
    fn find_vm(&self, near: u64) -> Result<u64, Error> {
        let begin = near.saturating_sub(AROUND) & !(PAGE - 1);
        let (mut found, mut left) = (0, MOST_TAKEN);
        for page in (begin..near.saturating_add(AROUND)).step_by(PAGE as usize) {
            let mut bytes = [[0; 8]; PAGE as usize / 8];
            if self.memory.read(page, bytes.as_flattened_mut()).is_err() {
                continue;
            }
            for word in bytes.map(u64::from_le_bytes) {
                if word == 0 || word % 8 != 0 || word == found {
                    continue;
                }
                // Most words are no address, or lead to what has none there.
                let thread = self.main_thread(word).ok();
                let Some(thread) = thread.filter(|at| *at != 0 && at % 8 == 0) else {
                    continue;
                };
                left = left
                    .checked_sub(1)
                    .ok_or(Error::garbled("pointer to a VM within the limit", near))?;
                if self.ec_if_thread(word, thread).is_none() {
                    continue;
                }
                if found != 0 {
                    return Err(Error::garbled("single VM", word));
                }
                found = word;
            }
        }
        match found {
            0 => Err(Error::garbled("pointer to a VM", near)),
            found => Ok(found),
        }
    }

    /// Holds the layout against all frames of all threads.
    fn proof(&self, vm: u64) -> Result<Proven, Error> {
        let mut proof = Proof {
            ruby: self,
            proven: Proven::default(),
            left: MOST_STEPS,
            last: 0,
        };
        let main = self.main_thread(vm)?;
        let (mut at, mut heads) = (main, 0);
        if self.ractor_count(vm)? != 1 {
            return Err(Error::garbled("single Ractor", vm));
        }
        loop {
            proof.spend(1)?;
            match self.ec_if_thread(vm, at) {
                Some(ec) => proof.thread(at, ec)?,
                // The list begins in the Ractor.
                None => heads += 1,
            }
            let next = self.memory.u64(at)?;
            if self.memory.u64(next.wrapping_add(8))? != at || heads > 1 {
                return Err(Error::garbled("list of threads", at));
            }
            at = next;
            if at == main {
                break;
            }
        }
        match proof.proven.frames {
            0 => Err(Error::garbled("frame", main)),
            _ => Ok(proof.proven),
        }
    }
}

/// A proof that goes on.
struct Proof<'p, 'm, M> {
    ruby: &'p Ruby<'m, M>,
    proven: Proven,
    left: u32,
    /// The code that was looked at last: a recursion has it many times.
    last: u64,
}

impl<M: Memory> Proof<'_, '_, M> {
    fn spend(&mut self, steps: u32) -> Result<(), Error> {
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or(Error::garbled("end of frames", self.last))?;
        Ok(())
    }

    fn thread(&mut self, thread: u64, ec: u64) -> Result<(), Error> {
        let ruby = self.ruby;
        let object = ruby.memory.u64(thread.wrapping_add(THREAD_SELF))?;
        if ruby.type_of(object)? != Type::Data || ruby.kernel_thread(thread).is_none() {
            return Err(Error::garbled("thread", thread));
        }
        let [_, _, frames] = ruby.frame_memory(ec)?;
        let size = ruby.layout.frame_size;
        let count = (frames.end - frames.start) / size;
        if count == 0 || !(frames.end - frames.start).is_multiple_of(size) {
            return Err(Error::garbled("VM stack", ec));
        }
        let before = self.proven.frames;
        for cfp in frames.clone().step_by(size as usize) {
            self.spend(1)?;
            self.frame(cfp, cfp + size == frames.end)?;
        }
        self.proven.threads += u32::from(self.proven.frames != before);
        Ok(())
    }

    fn frame(&mut self, cfp: u64, is_last: bool) -> Result<(), Error> {
        let ruby = self.ruby;
        let word = |offset: u64| ruby.memory.u64(cfp.wrapping_add(offset));
        let ep = word(EP)?;
        let flags = ruby.memory.u64(ep)?;
        let of_kind = flags & KINDS;
        let is_of_c = flags & C_FRAME != 0;
        let exists = match of_kind {
            // One that is not the last gives the path of a library whose `Init_` runs, and has no code.
            DUMMY => true,
            _ if is_of_c => OF_C.contains(&of_kind),
            _ => OF_RUBY.contains(&of_kind),
        };
        if !exists || is_last && of_kind != DUMMY {
            return Err(Error::garbled("kind of frame", cfp));
        }
        if is_of_c || of_kind == DUMMY {
            return Ok(());
        }
        let frame = Frame {
            cfp,
            iseq: word(ISEQ)?,
            pc: word(PC)?,
        };
        if ruby.is_compiled(frame)? {
            return Err(Error::garbled("frame without compiled code", cfp));
        }
        if of_kind == METHOD {
            self.method(ep, frame)?;
        }
        self.code(frame)?;
        self.proven.frames += 1;
        Ok(())
    }

    /// Looks whether the entry of a method is that of a frame's code.
    fn method(&self, ep: u64, frame: Frame) -> Result<(), Error> {
        let word = |at: u64| self.ruby.memory.u64(at);
        let entry = word(ep.wrapping_sub(ENTRY))?;
        if !self.ruby.is_method_entry(entry)? {
            // Special variables have taken its place.
            return Ok(());
        }
        let definition = word(entry.wrapping_add(DEFINITION))?;
        let is_code = self.ruby.memory.u32(definition)? & 0xf == code::ISEQ;
        match is_code && word(definition.wrapping_add(BODY))? != frame.iseq {
            true => Err(Error::garbled("code of a method", entry)),
            false => Ok(()),
        }
    }

    fn code(&mut self, frame: Frame) -> Result<(), Error> {
        let ruby = self.ruby;
        if frame.pc != 0 && !ruby.is_within(frame.iseq, frame.pc)? {
            return Err(Error::garbled("pc of this iseq", frame.iseq));
        }
        if frame.iseq == self.last {
            return Ok(());
        }
        self.last = frame.iseq;
        let path = ruby.path(frame.iseq)?;
        let (label, base) = (ruby.label(frame.iseq)?, ruby.base_label(frame.iseq)?);
        let fits = |text: &Text| (1..=LONGEST_TEXT).contains(&text.len);
        if ![path, label, base].iter().all(fits) || !self.ends_with(label, base)? {
            return Err(Error::garbled("path and names of an iseq", frame.iseq));
        }
        let lines = ruby.line_entries(frame.iseq)?;
        self.spend(lines.min(MOST_LINES) / 64)
    }

    /// Whether a label ends with the name of its method, as far as both are short enough to be compared. Code of `eval` may be
    /// `<compiled>` in any.
    fn ends_with(&self, whole: Text, name: Text) -> Result<bool, Error> {
        let (mut long, mut short) = ([0; COMPARED], [0; COMPARED]);
        let of_whole = self.ruby.copy(whole, &mut long)?;
        let of_name = self.ruby.copy(name, &mut short)?;
        let ends = long[..of_whole.len].ends_with(&short[..of_name.len]);
        Ok(ends || of_whole.truncated || long.starts_with(b"<"))
    }
}
