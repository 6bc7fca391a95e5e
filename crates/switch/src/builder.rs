//! [`Builder`]: settings of a coroutine (size, guard, name, floating-point control), and its making.

use core::ops::Range;

use crate::annotate;
use crate::arch::{self, ALIGN, Base, Mark};
#[cfg(feature = "std")]
use crate::blocks;
use crate::coroutine::Coroutine;
use crate::entry::first;
use crate::error::Error;
use crate::stack::Stack;
use crate::suspender::Suspender;

#[cfg(feature = "pool")]
use crate::pool::{Pool, PoolStack};

/// The stack of a coroutine that names no other.
#[cfg(feature = "pool")]
pub type DefaultStack = PoolStack;
/// The stack of a coroutine that names no other.
#[cfg(not(feature = "pool"))]
pub type DefaultStack = crate::stack::RawStack;

/// Bytes that a stack must have beside the closure: the first frames of the body, unoptimised, or a signal's frame (3.5
/// KiB with AVX-512).
pub(crate) const LEAST_FREE: usize = 4096;

/// Settings of a coroutine to be made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builder<'a> {
    name: Option<&'a str>,
    fp: bool,
    #[cfg(feature = "pool")]
    stack_size: Option<usize>,
    #[cfg(feature = "pool")]
    pool: Option<&'a Pool>,
}

impl<'a> Builder<'a> {
    /// No name, control words not saved, a stack of the pool's own size.
    pub const fn new() -> Self {
        Builder {
            name: None,
            fp: false,
            #[cfg(feature = "pool")]
            stack_size: None,
            #[cfg(feature = "pool")]
            pool: None,
        }
    }

    /// Sets the name for the overflow report; the first 32 bytes are kept.
    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets whether the control bits of `mxcsr` and the x87 control word are saved and restored at every switch. The flags of
    /// exceptions are the thread's, as the ABI has them: an x87 flag that one side has raised traps (SIGFPE) on a side whose control word enables
    /// that exception.
    pub const fn keep_fp(mut self, keep: bool) -> Self {
        self.fp = keep;
        self
    }

    /// Sets the usable bytes of the stack, which are rounded up to whole pages.
    #[cfg(feature = "pool")]
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets the pool that the stack is taken from; without it, it is the process's default pool.
    #[cfg(feature = "pool")]
    pub const fn pool(mut self, pool: &'a Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Makes the coroutine on a stack from the pool.
    #[cfg(feature = "pool")]
    #[inline]
    pub fn spawn<I, Y, R, F>(self, body: F) -> Result<Coroutine<I, Y, R>, Error>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'static,
        I: 'static,
        Y: 'static,
        R: 'static,
    {
        self.spawn_on(self.pool_stack()?, body)
    }

    /// Takes a stack of the size that was set from the pool that was set.
    #[cfg(feature = "pool")]
    #[inline]
    pub(crate) fn pool_stack(&self) -> Result<PoolStack, Error> {
        let pool = self.pool.unwrap_or_else(|| Pool::global());
        match self.stack_size {
            Some(bytes) => pool.stack_of(bytes),
            None => pool.stack(),
        }
    }

    /// Makes the coroutine on a stack that the caller provides.
    #[inline(always)]
    pub fn spawn_on<I, Y, R, F, S>(self, stack: S, body: F) -> Result<Coroutine<I, Y, R, S>, Error>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'static,
        I: 'static,
        Y: 'static,
        R: 'static,
        S: Stack + 'static,
    {
        // SAFETY: every type is 'static, so nothing that the coroutine's frames can hold ever ends.
        unsafe { self.make_on(stack, body) }
    }

    /// Makes a coroutine of a body that may borrow.
    ///
    /// # Safety
    ///
    /// The coroutine must have ended before a lifetime in one of the types ends. That it is dropped is not enough: where
    /// it cannot be ended, dropping it leaves its frames as they are.
    // Inlined, with all that it calls: a coroutine that is handed on in memory, word by word, costs as much as to make it.
    #[inline(always)]
    pub(crate) unsafe fn make_on<I, Y, R, F, S>(
        self,
        stack: S,
        body: F,
    ) -> Result<Coroutine<I, Y, R, S>, Error>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R,
        S: Stack,
    {
        let range = stack.range();
        let data = match room(&range, size_of::<F>(), align_of::<F>()) {
            Some(data) if !arch::shadow_stack() => data,
            _ => return Err(no_room(&range, size_of::<F>(), align_of::<F>())),
        };
        #[cfg(feature = "std")]
        let (base, id) = blocks::take()?;
        #[cfg(not(feature = "std"))]
        let (base, id) = (
            core::ptr::with_exposed_provenance_mut::<Base>(high(&range)),
            number(),
        );
        // SAFETY: the stack is ours by the contract of `Stack`, and `room` found a place in it for
        // an F at `data`, and below that for the first frames; the Base is new. Every field is
        // written before it is read.
        unsafe {
            init(base, range, id, self.name, self.fp);
            let closure = core::ptr::with_exposed_provenance_mut::<F>(data);
            closure.write(body);
            (*base).data = closure.cast();
            arch::prepare(base, data & !(ALIGN - 1), first::<I, Y, R, F>);
            annotate::made(base);
        }
        Ok(Coroutine::from_parts(base, stack, self.fp))
    }
}

/// Returns the lowest address of what stands at the top of every stack.
#[inline(always)]
fn high(range: &Range<usize>) -> usize {
    (range.end & !(ALIGN - 1)).saturating_sub(least(0, 0) - LEAST_FREE - ALIGN)
}

/// Returns the least bytes that a stack must have for a closure of this size and alignment.
#[inline(always)]
pub(crate) fn least(size: usize, align: usize) -> usize {
    let on_stack = if cfg!(feature = "std") {
        0
    } else {
        size_of::<Base>()
    };
    size_of::<Mark>() + on_stack + size + align.max(ALIGN) + LEAST_FREE
}

/// Returns where on the stack there is room for a closure of this size and alignment.
#[inline(always)]
fn room(range: &Range<usize>, size: usize, align: usize) -> Option<usize> {
    (range.len() >= least(size, align)).then(|| (high(range) - size) & !(align - 1))
}

/// Returns why no coroutine can be made there.
#[cold]
fn no_room(range: &Range<usize>, size: usize, align: usize) -> Error {
    if arch::shadow_stack() {
        return Error::ShadowStack;
    }
    Error::TooSmall {
        asked: range.len(),
        least: least(size, align),
    }
}

/// Says that nobody lives on the stack of `base` any more, and frees it.
///
/// # Safety
///
/// `base` must come from [`Builder::make_on`]; neither it nor a frame on its stack is used again.
#[inline(always)]
pub(crate) unsafe fn retire(base: *mut Base) {
    // SAFETY: the caller promises a live block that nobody uses after this.
    unsafe {
        annotate::gone(base);
        (*Mark::at((*base).top)).magic = 0;
        #[cfg(feature = "std")]
        blocks::free(base);
    }
}

/// Returns a number that no other coroutine has.
#[cfg(not(feature = "std"))]
fn number() -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Fills a [`Base`], except for what [`arch::prepare`] and the closure add.
///
/// # Safety
///
/// `base` must be writable and nobody else's, and so must the stack `range`.
#[inline(always)]
pub(crate) unsafe fn init(
    base: *mut Base,
    range: Range<usize>,
    id: u64,
    name: Option<&str>,
    fp: bool,
) {
    // SAFETY: the caller promises a writable place. `entry` is the only field whose zero would not
    // be a value; `prepare` writes it before anybody reads it, and no reference is made before.
    unsafe {
        let top = range.end & !(ALIGN - 1);
        Mark::at(top).write(Mark {
            base,
            magic: Mark::MAGIC,
        });
        (&raw mut (*base).limit).write(range.start);
        (&raw mut (*base).top).write(top);
        (&raw mut (*base).id).write(id);
        (&raw mut (*base).state).write(0);
        (&raw mut (*base).fp).write(fp);
        (&raw mut (*base).name_len).write(0);
        if let Some(name) = name {
            Base::set_name(base, name);
        }
    }
}
