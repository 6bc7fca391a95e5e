//! The bound of the memory that the books of births take: what the command says ([`wire::ControlPage::most`]). Used by
//! `store`, `births::slots`, `births::living` and others.
//!
//! Memory that would go beyond it is not mapped, as if the kernel had refused: who wanted it notes a loss. A quarter of it is kept for the
//! counts of a census ([`Kept`]), and these may always take some, so that what was noted can be reported however full the books are.

use super::sys;
use state::{for_census, most, refused, set_for_census, set_refused, set_taken, taken};

/// Maps `bytes` zeroed bytes, which take memory only where they are touched.
pub fn map(bytes: u64) -> Option<u64> {
    within(bytes)?;
    let at = by_kernel(sys::map(bytes))?;
    set_taken(taken() + bytes);
    Some(at)
}

/// Makes a mapping of [`map`] longer; it may move.
///
/// # Safety
/// As for [`sys::remap`].
pub unsafe fn remap(at: u64, bytes: u64, longer: u64) -> Option<u64> {
    within(longer.saturating_sub(bytes))?;
    // SAFETY: as the caller says.
    let moved = by_kernel(unsafe { sys::remap(at, bytes, longer) })?;
    set_taken((taken() + longer).saturating_sub(bytes));
    Some(moved)
}

/// Gives a mapping of [`map`] back.
///
/// # Safety
/// As for [`sys::unmap`].
pub unsafe fn unmap(at: u64, bytes: u64) {
    // SAFETY: as the caller says.
    unsafe { sys::unmap(at, bytes) };
    set_taken(taken().saturating_sub(bytes));
}

/// `None` if so many bytes more would be too many.
fn within(bytes: u64) -> Option<()> {
    let most = match for_census() {
        0 => most() - most() / 4,
        most => most,
    };
    let is_within = taken().saturating_add(bytes) <= most;
    if !is_within {
        set_refused(self::most());
    }
    is_within.then_some(())
}

/// [`Refusal::bound`] where it was the kernel.
const KERNEL: u64 = 1;

/// Notes it if the kernel has refused.
fn by_kernel(at: Option<u64>) -> Option<u64> {
    if at.is_none() {
        set_refused(KERNEL);
    }
    at
}

/// Memory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The bound at that time; [`KERNEL`] = it was the kernel that refused.
    bound: u64,
}

impl Refusal {
    /// Returns the last one, once.
    pub fn take() -> Option<Self> {
        let bound = refused();
        set_refused(0);
        (bound != 0).then_some(Refusal { bound })
    }

    /// Whether there may be memory again: the bound has grown by more than it sways, or it was the kernel, which is asked anew.
    pub fn is_over(self) -> bool {
        most() / 8 * 7 >= self.bound
    }
}

/// What the counts of a census may take at least: they are small beside what they count. The bound may have come below what is taken.
const LEAST_COUNTS: u64 = 1 << 20;

/// While it lives, what is kept for a census may be used. The VM's lock is held.
pub struct Kept(());

impl Kept {
    pub fn open() -> Self {
        let least = taken().saturating_add(LEAST_COUNTS.max(taken() / 8));
        set_for_census(most().max(least));
        Kept(())
    }

    /// Nothing is kept open: a panic may have skipped the drop of one that was.
    pub fn close() {
        set_for_census(0);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        Kept::close();
    }
}

/// Bytes that are mapped, how many may be while a census counts, 0 while none does, and what [`Refusal`] has. They are used with the VM's lock.
#[cfg(not(test))]
mod state {
    use crate::shared::CONTROL_PAGE;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The page has it too, for the command; a child that is forked has what it is a copy of.
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    static FOR_CENSUS: AtomicU64 = AtomicU64::new(0);
    static REFUSED: AtomicU64 = AtomicU64::new(0);

    pub fn most() -> u64 {
        match CONTROL_PAGE.most.load(Ordering::Relaxed) {
            0 => u64::MAX,
            most => most,
        }
    }

    pub fn taken() -> u64 {
        TAKEN.load(Ordering::Relaxed)
    }

    pub fn set_taken(bytes: u64) {
        TAKEN.store(bytes, Ordering::Relaxed);
        CONTROL_PAGE.taken.store(bytes, Ordering::Relaxed);
    }

    pub fn for_census() -> u64 {
        FOR_CENSUS.load(Ordering::Relaxed)
    }

    pub fn set_for_census(bytes: u64) {
        FOR_CENSUS.store(bytes, Ordering::Relaxed);
    }

    pub fn refused() -> u64 {
        REFUSED.load(Ordering::Relaxed)
    }

    pub fn set_refused(bound: u64) {
        REFUSED.store(bound, Ordering::Relaxed);
    }
}

/// The same for each test, whose threads have books of their own.
#[cfg(test)]
mod state {
    use core::cell::Cell;

    std::thread_local! {
        static MOST: Cell<u64> = const { Cell::new(u64::MAX) };
        static TAKEN: Cell<u64> = const { Cell::new(0) };
        static FOR_CENSUS: Cell<u64> = const { Cell::new(0) };
        static REFUSED: Cell<u64> = const { Cell::new(0) };
    }

    pub fn most() -> u64 {
        MOST.get()
    }

    /// Bounds what this test maps from now on.
    pub fn allow(bytes: u64) {
        MOST.set(bytes);
    }

    pub fn taken() -> u64 {
        TAKEN.get()
    }

    pub fn set_taken(bytes: u64) {
        TAKEN.set(bytes);
    }

    pub fn for_census() -> u64 {
        FOR_CENSUS.get()
    }

    pub fn set_for_census(bytes: u64) {
        FOR_CENSUS.set(bytes);
    }

    pub fn refused() -> u64 {
        REFUSED.get()
    }

    pub fn set_refused(bound: u64) {
        REFUSED.set(bound);
    }
}

/// Has this test map at most so many bytes more than it has mapped; [`u64::MAX`] = as many as it wants.
#[cfg(test)]
pub fn allow(bytes: u64) {
    state::allow(taken().saturating_add(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_over_when_the_bound_has_grown() {
        const MIB: u64 = 1 << 20;
        state::allow(8 * MIB);
        assert_eq!(map(7 * MIB), None);
        let refusal = Refusal::take().expect("the bound has refused");
        assert_eq!(Refusal::take(), None, "once");
        assert!(!refusal.is_over());
        state::allow(9 * MIB);
        assert!(!refusal.is_over(), "it sways");
        state::allow(10 * MIB);
        assert!(refusal.is_over());
        allow(u64::MAX);
        assert_eq!(map(1 << 60), None);
        let refusal = Refusal::take().expect("the kernel has refused");
        state::allow(8 * MIB);
        assert!(refusal.is_over(), "it is asked anew");
    }

    #[test]
    fn what_a_panic_has_left_open_is_closed_when_a_session_begins() {
        const MIB: u64 = 1 << 20;
        state::allow(8 * MIB);
        core::mem::forget(Kept::open());
        crate::guard::begin_anew();
        assert_eq!(map(7 * MIB), None);
    }

    #[test]
    fn what_goes_beyond_is_not_mapped() {
        const MIB: u64 = 1 << 20;
        allow(64 * MIB);
        let one = map(40 * MIB).expect("within");
        assert_eq!(map(16 * MIB), None, "a quarter is kept");
        {
            let _kept = Kept::open();
            let other = map(16 * MIB).expect("for a census");
            assert_eq!(map(16 * MIB), None);
            // SAFETY: the mapping was made just now, and no pointer to it was kept.
            unsafe { unmap(other, 16 * MIB) };
        }
        // SAFETY: the mappings were made here, and no pointer into them was kept.
        let one = unsafe {
            assert_eq!(remap(one, 40 * MIB, 60 * MIB), None);
            remap(one, 40 * MIB, 48 * MIB).expect("within")
        };
        // The bound comes below what is taken.
        state::allow(8 * MIB);
        assert_eq!(map(4096), None);
        {
            let _kept = Kept::open();
            let counts = map(MIB).expect("for a census");
            // SAFETY: as above.
            unsafe { unmap(counts, MIB) };
        }
        // SAFETY: as above.
        unsafe { unmap(one, 48 * MIB) };
        let given = map(6 * MIB).expect("what was given back counts no more");
        // SAFETY: as above.
        unsafe { unmap(given, 6 * MIB) };
        allow(u64::MAX);
        assert_eq!(taken(), 0);
    }
}
