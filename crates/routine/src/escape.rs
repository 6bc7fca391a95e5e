//! The way out of a panic in an image that has no unwinder: back to whoever called the image's Rust code. Used by
//! `agent::guard`.
//!
//! `enter`, `leave` and `probe` run on the guest's stack, below frames that know nothing of Rust. A panic in them
//! must not end the guest, and must not cost anything while there is none. So nothing is noted on the way in. What is
//! needed to get out is in the image anyway: the compiler's unwinding rules (`.eh_frame`), which say for every
//! instruction where the caller's stack pointer and the registers that a function must preserve are (System V ABI,
//! x86-64 supplement, 3.2.1: rbx, rbp, r12 to r15).
//!
//! ```text
//!   guest's function              registers as the guest has them
//!   routine: call enter           ◄── no rules for this address: from here on it goes on, as if `enter` had returned 0
//!   enter                         ┐
//!   …                             │ frames of the image: each is undone by its rules
//!   core::panicking               │
//!   panic handler                 ┘
//!   [`escape`]                    the registers of the panic handler
//! ```
//!
//! The frames that are left own nothing that would have to be dropped.
//!
//! Rules are found through `.eh_frame_hdr`, the table that the linker sorts by address (LSB core 5.0, 10.6.2), which
//! the program headers name. They are read by plain loads from the image's own read-only data; what is not as
//! expected ends the search, without a panic.

use core::arch::{asm, naked_asm};

/// What a function preserves for its caller, and where that goes on. The order is that of `escape`'s pushes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the registers of these names")]
pub struct Registers {
    pub rbx: u64,
    pub rbp: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rsp: u64,
    pub rip: u64,
}

/// Chooses where a panic ends. Called with the registers of the frame that called [`escape`]; changes them, mostly by
/// [`leave_image`], to those of the frame that goes on, which gets the result as if a function had returned it.
pub type Land = extern "C" fn(&mut Registers) -> u64;

/// Goes on where `land` says.
///
/// # Safety
/// The registers that `land` leaves are those of a live frame of this stack, just behind a call; the frames below own
/// nothing.
#[unsafe(naked)]
pub unsafe extern "C" fn escape(land: Land) -> ! {
    naked_asm!(
        // The record, from its end: rip stands there as our return address, rsp is what it is behind that.
        "lea rax, [rsp + 8]",
        "push rax",
        "push r15",
        "push r14",
        "push r13",
        "push r12",
        "push rbp",
        "push rbx",
        "mov rax, rdi",
        "mov rdi, rsp",
        // Return address and seven pushes: the stack is aligned to 16.
        "call rax",
        "pop rbx",
        "pop rbp",
        "pop r12",
        "pop r13",
        "pop r14",
        "pop r15",
        "mov rcx, [rsp + 8]",
        "mov rsp, [rsp]",
        "jmp rcx",
    )
}

/// Undoes frames until `ends` says so of the address where one goes on, or that address is no code with rules in this
/// image. `None` = there are rules that are not understood.
pub fn leave_image(registers: &mut Registers, ends: impl Fn(u64) -> bool) -> Option<()> {
    let table = Table::of_this_image()?;
    while !ends(registers.rip) {
        // A call that does not return may be the last instruction of its function.
        let Some(entry) = table.entry(registers.rip.wrapping_sub(1)) else {
            return Some(());
        };
        to_caller(registers, entry?)?;
    }
    Some(())
}

/// The rules in force at an instruction.
#[derive(Clone, Copy)]
struct Row {
    /// The frame's address is this register (DWARF's number) and an offset.
    base: u64,
    offset: u64,
    /// Where a register of that DWARF number is, from the frame's address; `None` = where it was.
    saved: [Option<u64>; REGISTERS],
}

// DWARF numbers: System V ABI, x86-64 supplement, figure 3.36.
const RBX: usize = 3;
const RBP: usize = 6;
const RSP: usize = 7;
const R12: usize = 12;
const RETURN_ADDRESS: usize = 16;
const REGISTERS: usize = 17;

/// What the rules in force at `address` are made of: the instructions of its FDE (`rules`), which begin with those of
/// the FDE's CIE (`common`), the CIE's two factors, and the first address that the FDE is for (`start`).
struct Entry {
    address: u64,
    rules: Bytes,
    common: Bytes,
    code_factor: u64,
    data_factor: u64,
    start: u64,
}

/// The table of `.eh_frame_hdr`: its address, and how many entries it has.
struct Table {
    at: u64,
    count: u64,
}

/// Addresses in the table and in entries are 32 bits, signed, from where they stand (DW_EH_PE_pcrel | DW_EH_PE_sdata4).
const FROM_HERE: u64 = 0x1b;
/// The same, from the table's begin.
const FROM_TABLE: u64 = 0x3b;
/// Unsigned numbers of 32 bits (DW_EH_PE_udata4).
const PLAIN: u64 = 3;

impl Table {
    fn of_this_image() -> Option<Table> {
        const RULES: u64 = 0x6474_e550; // PT_GNU_EH_FRAME
        let image: u64;
        // SAFETY: the linker defines the symbol, where the ELF header is mapped.
        unsafe { asm!("lea {}, [rip + __ehdr_start]", out(reg) image, options(nomem, nostack)) };
        // Elf64_Ehdr: e_phoff, e_phentsize, e_phnum.
        let first = image.wrapping_add(Bytes::at(image.wrapping_add(32)).fixed(8)?);
        let mut sizes = Bytes::at(image.wrapping_add(54));
        let (size, count) = (sizes.fixed(2)?, sizes.fixed(2)?);
        let headers = (0..count).map(|index| first.wrapping_add(index.wrapping_mul(size)));
        for header in headers {
            // Elf64_Phdr: p_type, p_vaddr.
            if Bytes::at(header).fixed(4)? == RULES {
                let at = image.wrapping_add(Bytes::at(header.wrapping_add(16)).fixed(8)?);
                let mut head = Bytes::at(at);
                let encodings = [
                    head.fixed(1)?,
                    head.fixed(1)?,
                    head.fixed(1)?,
                    head.fixed(1)?,
                ];
                if encodings != [1, FROM_HERE, PLAIN, FROM_TABLE] {
                    return None;
                }
                head.fixed(4)?;
                let count = head.fixed(4)?;
                return Some(Table { at, count });
            }
        }
        None
    }

    /// The entry of the code at `address`; `None` = it is not ours; `Some(None)` = it is not understood.
    fn entry(&self, address: u64) -> Option<Option<Entry>> {
        let mut found = None;
        for index in 0..self.count {
            let mut row = Bytes::at(self.at.wrapping_add(12).wrapping_add(index.wrapping_mul(8)));
            let start = self.at.wrapping_add(row.signed()?);
            if start > address {
                break;
            }
            found = Some((start, self.at.wrapping_add(row.signed()?)));
        }
        let (start, at) = found?;
        match Entry::read(at, start, address) {
            Some((entry, size)) if address.wrapping_sub(start) < size => Some(Some(entry)),
            Some(_) => None,
            None => Some(None),
        }
    }
}

impl Entry {
    /// The entry at `at`, and how many bytes of code it is for (LSB core 5.0, 10.6.1).
    fn read(at: u64, start: u64, address: u64) -> Option<(Entry, u64)> {
        let mut rules = Bytes::record(at)?;
        let common = rules.at.wrapping_sub(rules.fixed(4)?);
        let (begin, size) = (rules.at.wrapping_add(rules.signed()?), rules.fixed(4)?);
        let mut common = Bytes::record(common)?;
        let (zero, version) = (common.fixed(4)?, common.fixed(1)?);
        if begin != start || zero != 0 || version != 1 {
            return None;
        }
        let letters = common;
        while common.fixed(1)? != 0 {}
        let (code_factor, data_factor) = (common.unsigned()?, common.leb_signed()?);
        let return_address = common.fixed(1)?;
        if return_address != RETURN_ADDRESS as u64 {
            return None;
        }
        (common, rules) = augmented(letters, common, rules)?;
        let entry = Entry {
            address,
            rules,
            common,
            code_factor,
            data_factor,
            start,
        };
        Some((entry, size))
    }

    /// The rules at the address.
    fn row(self) -> Option<Row> {
        let mut row = Row {
            base: 0,
            offset: 0,
            saved: [None; REGISTERS],
        };
        let mut location = self.start;
        self.run(self.common, &mut row, &mut location, None)?;
        let first = row;
        self.run(self.rules, &mut row, &mut location, Some(first))?;
        Some(row)
    }

    /// Runs instructions as far as the address (DWARF 5, 6.4.2). `first` are the rules at the function's begin.
    fn run(&self, mut of: Bytes, row: &mut Row, at: &mut u64, first: Option<Row>) -> Option<()> {
        let mut kept = [*row; 4];
        let mut depth = 0usize;
        while of.at < of.end {
            let instruction = of.fixed(1)?;
            let low = instruction & 0x3f;
            let mut advance = None;
            match (instruction >> 6, low) {
                (1, _) => advance = Some(low),
                (2, _) => {
                    let offset = of.unsigned()?.wrapping_mul(self.data_factor);
                    *row.saved.get_mut(low as usize)? = Some(offset);
                }
                (3, _) => *row.saved.get_mut(low as usize)? = *first?.saved.get(low as usize)?,
                (_, 0) => {}
                (_, 2) => advance = Some(of.fixed(1)?),
                (_, 3) => advance = Some(of.fixed(2)?),
                (_, 4) => advance = Some(of.fixed(4)?),
                // Remember and restore.
                (_, 0xa) => {
                    *kept.get_mut(depth)? = *row;
                    depth = depth.wrapping_add(1);
                }
                (_, 0xb) => {
                    depth = depth.checked_sub(1)?;
                    *row = *kept.get(depth)?;
                }
                (_, 0xc) => (row.base, row.offset) = (of.unsigned()?, of.unsigned()?),
                (_, 0xd) => row.base = of.unsigned()?,
                (_, 0xe) => row.offset = of.unsigned()?,
                // Bytes of arguments on the stack (GNU).
                (_, 0x2e) => {
                    of.unsigned()?;
                }
                _ => return None,
            }
            if let Some(advance) = advance {
                *at = at.wrapping_add(advance.wrapping_mul(self.code_factor));
                if *at > self.address {
                    return Some(());
                }
            }
        }
        Some(())
    }
}

/// Both records behind what their augmentations say, of which nothing is needed.
fn augmented(mut letters: Bytes, mut common: Bytes, mut rules: Bytes) -> Option<(Bytes, Bytes)> {
    match letters.fixed(1)? {
        0 => Some((common, rules)),
        // z: how many bytes there are of it. R: how addresses are written, as the table has them.
        byte if byte == u64::from(b'z') => {
            let length = common.unsigned()?;
            let mut data = common;
            common.at = common.at.wrapping_add(length);
            loop {
                match letters.fixed(1)? as u8 {
                    0 => break,
                    b'R' if data.fixed(1)? == FROM_HERE => {}
                    b'L' => {
                        data.fixed(1)?;
                    }
                    // The encoding of a pointer, and the pointer, of 4 bytes.
                    b'P' if data.fixed(1)? & 0xf == FROM_HERE & 0xf => {
                        data.fixed(4)?;
                    }
                    b'S' => {}
                    _ => return None,
                }
            }
            let length = rules.unsigned()?;
            rules.at = rules.at.wrapping_add(length);
            Some((common, rules))
        }
        _ => None,
    }
}

/// The registers of the frame that called this one.
fn to_caller(registers: &mut Registers, entry: Entry) -> Option<()> {
    let row = entry.row()?;
    let base = match row.base as usize {
        RSP => registers.rsp,
        RBP => registers.rbp,
        _ => return None,
    };
    let frame = base.wrapping_add(row.offset);
    let word = |at: usize, was: u64| match row.saved.get(at).copied().flatten() {
        // SAFETY: the rules say that a register was stored there, in a live frame of this stack.
        Some(offset) => unsafe { (frame.wrapping_add(offset) as *const u64).read() },
        None => was,
    };
    *registers = Registers {
        rbx: word(RBX, registers.rbx),
        rbp: word(RBP, registers.rbp),
        r12: word(R12, registers.r12),
        r13: word(R12 + 1, registers.r13),
        r14: word(R12 + 2, registers.r14),
        r15: word(R12 + 3, registers.r15),
        rsp: frame,
        rip: word(RETURN_ADDRESS, 0),
    };
    (registers.rip != 0).then_some(())
}

/// Bytes of this image, read from the front.
#[derive(Clone, Copy)]
struct Bytes {
    at: u64,
    end: u64,
}

impl Bytes {
    /// From `at` on, as far as is asked.
    fn at(at: u64) -> Self {
        Bytes { at, end: u64::MAX }
    }

    /// What follows the length at `at`.
    fn record(at: u64) -> Option<Self> {
        let mut bytes = Bytes::at(at);
        let length = bytes.fixed(4)?;
        if length == 0 || length == 0xffff_ffff {
            return None;
        }
        bytes.end = bytes.at.wrapping_add(length);
        Some(bytes)
    }

    /// Reads an unsigned number of `size` bytes, at most 8.
    fn fixed(&mut self, size: u64) -> Option<u64> {
        if self.end.wrapping_sub(self.at) < size {
            return None;
        }
        let mut value = 0;
        for index in 0..size {
            // SAFETY: read-only data of this image, at an address that the ELF header or a record before it gave.
            let byte = unsafe { (self.at.wrapping_add(index) as *const u8).read() };
            value |= u64::from(byte) << (index * 8 % 64);
        }
        self.at = self.at.wrapping_add(size);
        Some(value)
    }

    /// Reads a signed number of 4 bytes, widened to 64 bits.
    fn signed(&mut self) -> Option<u64> {
        Some(self.fixed(4)? as u32 as i32 as u64)
    }

    /// Reads an unsigned LEB128.
    fn unsigned(&mut self) -> Option<u64> {
        Some(self.leb()?.0)
    }

    /// Reads a signed LEB128, widened to 64 bits.
    fn leb_signed(&mut self) -> Option<u64> {
        let (value, bits) = self.leb()?;
        let unused = 64u32.saturating_sub(bits);
        Some((value.wrapping_shl(unused) as i64).wrapping_shr(unused) as u64)
    }

    /// The value of a LEB128, and how many bits it has.
    fn leb(&mut self) -> Option<(u64, u32)> {
        let (mut value, mut bits) = (0, 0u32);
        loop {
            let byte = self.fixed(1)?;
            value |= (byte & 0x7f).checked_shl(bits)?;
            bits = bits.wrapping_add(7);
            if byte & 0x80 == 0 {
                return Some((value, bits));
            }
        }
    }
}
