//! The interface to the processor: [`prepare`], [`resume`], [`suspend`], [`leave`].
//!
//! One file per architecture; all of the assembly of the Rust side is in it.

#[cfg(not(all(target_arch = "x86_64", unix)))]
compile_error!("lancet-switch supports x86-64 with the System V calling convention");

mod x86_64;

#[cfg(not(feature = "std"))]
pub use x86_64::trap;
pub use x86_64::{
    ALIGN, Refusal, is_running, leave, prepare, prepare_again, resume, shadow_stack, stack_pointer,
    suspend,
};

use crate::annotate::Notes;
use crate::value::Word;

/// The first function on a coroutine's stack. It ends in [`leave`].
pub type Entry = unsafe extern "C" fn(value: Word, tag: usize, base: *mut Base) -> !;

/// Bytes of a name that are kept with a coroutine; a longer one is cut.
pub const NAME: usize = 32;

/// Ends the process, because somebody would go on with a resumer below whose frames a closure runs
/// ([`crate::Suspender::on_parent_stack`]).
#[cold]
extern "C" fn refuse() -> ! {
    abort(
        "a coroutine was left (suspended or ended) while a closure runs on its resumer's stack (on_parent_stack). The process is aborted, because the resumer would overwrite that closure",
    )
}

/// Ends the process, with a line on stderr where there is one.
#[cold]
pub fn abort(_why: &str) -> ! {
    #[cfg(feature = "std")]
    {
        use std::io::Write;

        let line = std::format!("lancet-switch: {_why}\n");
        // Where nothing can be written there is nobody to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
        std::process::abort()
    }
    #[cfg(not(feature = "std"))]
    trap()
}

/// The block of a coroutine, which is kept beside its frames.
///
/// It is not on the coroutine's stack, where there is an allocator. A switch to a suspended coroutine then touches one
/// page of that stack, the one its innermost frame is in, however deep it is; and the blocks of many coroutines lie
/// close together.
///
/// `link` and `record` come first and in this order: together they are a frame record.
#[repr(C, align(16))]
pub struct Base {
    /// Stack pointer of the side that is not running. In the Rust interface it is marked while that is the coroutine's.
    pub link: usize,
    /// A return address for walkers of frame pointers.
    pub record: usize,
    /// The function that the first switch enters.
    pub entry: Entry,
    /// The closure that the body was made from, on the stack; null once it was taken.
    pub data: *mut u8,
    /// Lowest usable address of the stack.
    pub limit: usize,
    /// One past the highest usable address of the stack.
    pub top: usize,
    /// Number of the coroutine, which no other of this process has; those of one thread ascend.
    pub id: u64,
    /// State of the C interface (module `capi`). For the Rust interface, whether a cancellation was raised
    /// ([`crate::unwind`]).
    pub state: u32,
    /// Whether the floating-point control words are saved and restored at every switch.
    pub fp: bool,
    /// Bytes of `name` in use.
    pub name_len: u8,
    /// The name for reports.
    pub name: [u8; NAME],
    /// Notes of sanitizers and Valgrind.
    pub notes: Notes,
}

/// The highest bytes of every stack, by which the overflow report finds the [`Base`] from an address.
#[repr(C, align(16))]
pub struct Mark {
    /// The block of the coroutine on this stack.
    pub base: *const Base,
    /// [`Mark::MAGIC`] while there is a coroutine on the stack.
    pub magic: usize,
}

impl Mark {
    /// The value of [`Mark::magic`].
    pub const MAGIC: usize = 0x6c61_6e63_6574_7377;

    /// Returns the address of the mark of a stack with this top.
    pub const fn at(top: usize) -> *mut Mark {
        core::ptr::with_exposed_provenance_mut(top - size_of::<Mark>())
    }
}

impl Base {
    /// Copies a name, cut at [`NAME`] bytes and at a character.
    ///
    /// # Safety
    ///
    /// `base` must be writable and nobody else's; its other fields need not be filled yet.
    pub unsafe fn set_name(base: *mut Base, name: &str) {
        let mut len = name.len().min(NAME);
        while !name.is_char_boundary(len) {
            len -= 1;
        }
        // SAFETY: at most NAME bytes are copied into a field of NAME bytes.
        unsafe {
            let field = (&raw mut (*base).name).cast::<u8>();
            field.copy_from_nonoverlapping(name.as_ptr(), len);
            (&raw mut (*base).name_len).write(len as u8);
        }
    }
}
