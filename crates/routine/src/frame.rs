//! What the stub, the routine and the agent's `enter` and `leave` agree on. Used by `code::call_through`,
//! `code::find_fde` and others here, and by the crates `agent`, `hooks`, `calls` and `trampoline`.
//!
//! The routine (`code`) puts this onto the guest's own stack, above the copy of the stack
//! arguments. `rbp` is the frame pointer of an ordinary C function, so frame-pointer walkers pass too.
//!
//! ```text
//!   higher addresses
//!     stack arguments of the call          rbp+16     Frame::stack_arguments
//!     return address of the caller         rbp+8
//!     caller's rbp                         rbp        ◄── rbp
//!     caller's r11 (written by the stub)   rbp-8
//!     descriptor                           rbp-16
//!     original                             rbp-24
//!     ticket: enter's words for leave      rbp-48
//!     r10 rax r9 r8 rcx rdx rsi rdi        rbp-112    ◄── *mut Frame
//!     xmm7 … xmm0                          rbp-240    ◄── *mut Vectors; on a small stack elsewhere, see below
//!     (alignment)
//!     copy of the stack arguments          Descriptor::copied bytes
//!                                          ◄── rsp at the call of the original
//!   lower addresses
//! ```
//!
//! # What a hook takes of its caller's stack
//!
//! Where the room is not proven (`room`), `enter`, `leave` and `probe` run elsewhere, and the vector registers lie there
//! too. Bytes below the return address of the caller, which is the function's own:
//!
//! ```text
//!   while `enter` runs           8 rbp + 112 Frame                                                    120
//!   while the original runs      8 rbp + 112 Frame + 0 or 64 floats + 0…8 + copied + 8     136 and what is copied
//!   while `leave` runs           8 rbp + 112 Frame + 0 or 64 floats + 72 results                      192
//!   a probe, below its red zone  8 r11 + 8 return address + 8 flags + 8 rbp + 8 mask + 144 registers + 0…8   192
//! ```
//!
//! `floats` are the low halves of xmm0 to xmm7, kept where the descriptor says [`flags::FLOATS`]: `leave` is asked for
//! them. `copied` is 0 for a function whose code is proven to read no stack arguments, and [`COPIED`] where nothing is
//! proven.
//!
//! Registers as arguments: System V ABI, x86-64 supplement, section 3.2.3.

/// What a stub hands to the routine in r11. Written from outside before the first jump leads to the stub, never
/// moved and never freed: a thread may stand between the stub and the routine at any time.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Address of `trampoline::Stub::original`, where the relocated instructions begin.
    pub original: u64,
    /// Bits of [`flags`], joined by or.
    pub flags: u32,
    /// Bytes of stack arguments that the original is given: a multiple of 16, at most [`MOST_COPIED`].
    pub copied: u32,
    /// The agent's own, e.g. the number of the function.
    pub payload: u64,
    /// Address of the hooked place.
    pub site: u64,
    /// What the argument must be for `enter` to be called; read only with [`flags::GUARDED`].
    pub guard: Guard,
}

/// Where the number in an argument's register must lie for `enter` to be called: its bits `left` to the left, less
/// `low`, as an unsigned number at most `span`; or, if `outside`, more.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The lowest number that lies there, shifted as `left` says.
    pub low: u64,
    /// By how much the highest number that lies there exceeds `low`, both shifted.
    pub span: u64,
    /// The argument's register, 0 to 5: rdi, rsi, rdx, rcx, r8, r9.
    pub register: u8,
    /// By how many bits the argument is shifted to the left before `low` is taken away: 0 to 63.
    pub left: u8,
    /// 1 = it must not lie there, else 0.
    pub outside: u8,
    #[expect(missing_docs, reason = "nothing is there")]
    pub padding: [u8; 5],
}

/// Bits of [`Descriptor::flags`], which say how the routine treats the calls of a hook.
pub mod flags {
    /// `enter` is called, `leave` is not: the original is jumped to and finds the stack as its caller left it.
    pub const ENTRY_ONLY: u32 = 2;
    /// `leave` is called though the gate is closed by then: the function may return in a child, whose gate a fork
    /// wipes.
    pub const FORKS: u32 = 8;
    /// Calls whose argument is not where [`Descriptor::guard`](super::Descriptor) says go straight to the original.
    pub const GUARDED: u32 = 16;
    /// `leave` reads its [`Vectors`](super::Vectors): on a small stack too they are kept until then, their low halves.
    pub const FLOATS: u32 = 32;
    /// The function takes a block and returns its address, or gives one back and takes nothing: it goes the short way of `code::blocks`.
    pub const BLOCKS: u32 = 64;
}

/// Stack arguments copied where nothing is known of the function: twelve words after the six registers.
pub const COPIED: u32 = 96;
/// More than that is refused by [`Descriptor::new`]: at most one page boundary may lie in between.
pub const MOST_COPIED: u32 = 2048;

impl Guard {
    /// The guard as it stands in memory: three words.
    pub fn to_words(&self) -> [u64; 3] {
        let bytes = [self.register, self.left, self.outside, 0, 0, 0, 0, 0];
        [self.low, self.span, u64::from_le_bytes(bytes)]
    }
}

impl Descriptor {
    /// `copied` is rounded up to 16 and cut at [`MOST_COPIED`].
    pub const fn new(original: u64, flags: u32, copied: u32, payload: u64, site: u64) -> Self {
        let copied = if copied > MOST_COPIED {
            MOST_COPIED
        } else {
            copied.next_multiple_of(16)
        };
        Self {
            original,
            flags,
            copied,
            payload,
            site,
            guard: Guard {
                low: 0,
                span: 0,
                register: 0,
                left: 0,
                outside: 0,
                padding: [0; 5],
            },
        }
    }
}

/// xmm0 to xmm7 at the entry of a hooked function; the upper parts of YMM and ZMM are never touched. What `enter` changes
/// here, the original sees. `leave` sees them as `enter` left them; on a small stack their low halves, or zeros without
/// [`flags::FLOATS`].
pub type Vectors = [[u64; 2]; 8];

/// The registers at the entry of a hooked function. What `enter` changes here, the original sees.
///
/// Aligned to 8 and no more: gcc calls functions of the same file on a stack that is not aligned to 16 where it knows
/// that they do not mind (`-fipa-stack-alignment`, on by default).
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// The first integer argument.
    pub rdi: u64,
    /// The second integer argument.
    pub rsi: u64,
    /// The third integer argument.
    pub rdx: u64,
    /// The fourth integer argument.
    pub rcx: u64,
    /// The fifth integer argument.
    pub r8: u64,
    /// The sixth integer argument.
    pub r9: u64,
    /// `al` is the number of vector registers a variadic call uses.
    pub rax: u64,
    /// The static chain, which nested functions are given.
    pub r10: u64,
    /// Whatever `enter` wants `leave` to know: a place in a ring, the time.
    pub ticket: [u64; 3],
    /// A word of the routine's own: from the return of `enter` on, the address that it calls as the original.
    pub original: u64,
    /// The hook's descriptor, whose address the stub has put into r11.
    pub descriptor: *const Descriptor,
    /// Scratch for the ABI, but not for callers compiled with `-fipa-ra`. On a small stack, while the original runs and
    /// behind it, the routine's own.
    pub r11: u64,
    /// The caller's frame pointer.
    pub rbp: u64,
    /// The address where the caller goes on.
    pub return_address: u64,
}

impl Frame {
    /// The stack pointer as the caller will have it after the return; here its stack arguments begin.
    pub fn stack_arguments(this: *const Self) -> *const u64 {
        this.wrapping_add(1).cast()
    }

    /// The register of an integer argument, 0 to 5. Read by itself, so that no vector register is needed for several.
    #[inline(always)]
    pub fn argument(&self, index: u64) -> u64 {
        // Of the whole frame, of which rdi is the first word.
        let first = core::ptr::from_ref(self).cast::<u64>();
        // SAFETY: six registers lie behind each other, and the index stays below 8: two more words of the frame.
        unsafe { first.add(index as usize & 7).read_volatile() }
    }
}

/// The registers when the original has returned. What `leave` changes here, the caller sees.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct Results {
    /// xmm0 to xmm15, 128 bits each, of which xmm0 and xmm1 carry results.
    pub xmm: [[u64; 2]; 16],
    /// The first integer result, or the address of a result in memory.
    pub rax: u64,
    /// The second integer result.
    pub rdx: u64,
    /// rcx rsi rdi r8 r9 r10 r11: no results, but callers compiled with `-fipa-ra` may count on them.
    pub scratch: [u64; 7],
}

/// The registers at a probe in the middle of a function.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct ProbeFrame {
    /// xmm0 to xmm15, 128 bits each; not written yet when `quick_probe` is asked.
    pub xmm: [[u64; 2]; 16],
    /// In the order of the machine's register numbers: rax rcx rdx rbx rsp rbp rsi rdi r8 … r15.
    pub registers: [u64; 16],
    /// RFLAGS as they were at the probe.
    pub flags: u64,
    /// The probe's descriptor, whose address the stub has put into r11; [`Descriptor::site`] is the probe's address.
    pub descriptor: *const Descriptor,
}

// What the routine counts on beside the offsets, which it is given: movups of xmm0 at the begin of each record, general
// registers of results behind each other, a frame that ends with the return address, results that keep the stack aligned.
const _: () = {
    assert!(core::mem::offset_of!(Frame, rdi) == 0);
    assert!(core::mem::offset_of!(Frame, return_address) + 8 == size_of::<Frame>());
    assert!(core::mem::offset_of!(Frame, rbp) + 8 == core::mem::offset_of!(Frame, return_address));
    // Where the stub puts it, below the return address.
    assert!(core::mem::offset_of!(Frame, return_address) - core::mem::offset_of!(Frame, r11) == 16);
    assert!(core::mem::offset_of!(Results, xmm) == 0 && size_of::<Results>().is_multiple_of(16));
    assert!(core::mem::offset_of!(Results, rax) == 256);
    assert!(core::mem::offset_of!(Results, scratch) == 256 + 16);
    assert!(core::mem::offset_of!(ProbeFrame, xmm) == 0);
    assert!(core::mem::offset_of!(ProbeFrame, registers) == 256);
};
