//! [`Builder`]: settings of a coroutine (size, guard, name, floating-point control), and its making.

#[cfg(feature = "std")]
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "std")]
use std::boxed::Box;

use crate::annotate;
use crate::arch::{self, ALIGN, Base, Mark};
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

    /// Sets whether `mxcsr` and the x87 control word are saved and restored at every switch.
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
        let (base, data) = layout(&range, size_of::<F>(), align_of::<F>())?;
        // SAFETY: the stack is ours by the contract of `Stack`, and `layout` found room in it for
        // an F at `data`, and below that for the first frames; the Base is new. Every field is
        // written before it is read.
        unsafe {
            init(base, range, self.name, self.fp);
            let closure = core::ptr::with_exposed_provenance_mut::<F>(data);
            closure.write(body);
            (*base).data = closure.cast();
            arch::prepare(base, data & !(ALIGN - 1), first::<I, Y, R, F>);
            annotate::made(base);
        }
        Ok(Coroutine::from_parts(base, stack, self.fp))
    }
}

/// Allocates the [`Base`], and finds room on the stack for a closure of this size and alignment.
fn layout(range: &Range<usize>, size: usize, align: usize) -> Result<(*mut Base, usize), Error> {
    if arch::shadow_stack() {
        return Err(Error::ShadowStack);
    }
    let on_stack = if cfg!(feature = "std") {
        0
    } else {
        size_of::<Base>()
    };
    let least = size_of::<Mark>() + on_stack + size + align.max(ALIGN) + LEAST_FREE;
    let high = (range.end & !(ALIGN - 1)).saturating_sub(size_of::<Mark>() + on_stack);
    if range.len() < least {
        return Err(Error::TooSmall {
            asked: range.len(),
            least,
        });
    }
    #[cfg(feature = "std")]
    let base = allocate::<Base>()?;
    #[cfg(not(feature = "std"))]
    let base = core::ptr::with_exposed_provenance_mut::<Base>(high);
    Ok((base, (high - size) & !(align - 1)))
}

/// Allocates a block for a `T`, to be freed as a box. It is not a box from the start, because that aborts when there is
/// no memory.
#[cfg(feature = "std")]
pub(crate) fn allocate<T>() -> Result<*mut T, Error> {
    const { assert!(size_of::<T>() > 0) };
    let layout = core::alloc::Layout::new::<T>();
    // SAFETY: the layout has a size.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return Err(Error::OutOfMemory {
            asked: layout.size(),
        });
    }
    Ok(block.cast())
}

/// Says that nobody lives on the stack of `base` any more, and frees it.
///
/// # Safety
///
/// `base` must come from [`layout`] and [`init`]; neither it nor a frame on its stack is used again.
pub(crate) unsafe fn retire(base: *mut Base) {
    // SAFETY: the caller promises a live block that nobody uses after this.
    unsafe {
        annotate::gone(base);
        (*Mark::at((*base).top)).magic = 0;
        #[cfg(feature = "std")]
        drop(Box::from_raw(base.cast::<MaybeUninit<Base>>()));
    }
}

/// Fills a [`Base`], except for what [`arch::prepare`] and the closure add.
///
/// # Safety
///
/// `base` must be writable and nobody else's, and so must the stack `range`.
pub(crate) unsafe fn init(base: *mut Base, range: Range<usize>, name: Option<&str>, fp: bool) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
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
        (&raw mut (*base).id).write(NEXT.fetch_add(1, Ordering::Relaxed));
        (&raw mut (*base).state).write(0);
        (&raw mut (*base).fp).write(fp);
        (&raw mut (*base).name_len).write(0);
        if let Some(name) = name {
            Base::set_name(base, name);
        }
    }
}
