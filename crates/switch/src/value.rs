//! The words by which values of any type are passed across a switch, in one register.
//!
//! A value of at most one word travels in the register itself; a larger one stays where the sender
//! has it, on a stack that stands still until the receiver has moved it out, and the register
//! holds its address. Both sides know the type, so nothing is tagged.

use core::mem::{ManuallyDrop, MaybeUninit};

/// The contents of the register. They may be partly uninitialised: a `(u8, u32)` has padding.
pub type Word = MaybeUninit<usize>;

/// Returns whether values of `T` are passed in the register.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<usize>() && align_of::<T>() <= align_of::<usize>()
}

/// The word that stands for the value in `slot`. The value is moved: `slot` must stay where it is
/// until [`decode`] has run on the other side, and must not be used after that.
#[inline(always)]
pub fn encode<T>(slot: &mut ManuallyDrop<T>) -> Word {
    if fits::<T>() {
        let mut word = Word::uninit();
        // SAFETY: `fits` says that a T is no larger and no more aligned than the word.
        unsafe {
            word.as_mut_ptr()
                .cast::<ManuallyDrop<T>>()
                .copy_from_nonoverlapping(slot, 1);
        }
        word
    } else {
        Word::new((slot as *mut ManuallyDrop<T>).expose_provenance())
    }
}

/// Takes the value out of a word made by [`encode`].
///
/// # Safety
///
/// `word` must come from `encode::<T>` with the same `T`, whose slot still stands, and be decoded
/// once only.
#[inline(always)]
pub unsafe fn decode<T>(word: Word) -> T {
    if fits::<T>() {
        // SAFETY: the caller promises that encode::<T> wrote a T here.
        unsafe { word.as_ptr().cast::<T>().read() }
    } else {
        // SAFETY: for a T that does not fit, encode::<T> left the address of one that still stands.
        unsafe { core::ptr::with_exposed_provenance::<T>(word.assume_init()).read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn round<T>(value: T) -> T {
        let mut slot = ManuallyDrop::new(value);
        let word = encode(&mut slot);
        // SAFETY: encoded just above, with the same type, from a slot that stands.
        unsafe { decode(word) }
    }

    #[test]
    fn values_of_every_shape_come_back() {
        round(());
        assert_eq!(round(7u8), 7);
        assert_eq!(round((1u8, 2u32)), (1, 2));
        assert_eq!(round(u64::MAX), u64::MAX);
        assert_eq!(round(u128::MAX - 1), u128::MAX - 1);
        assert_eq!(round([3u8; 4096]), [3u8; 4096]);
        assert_eq!(round(String::from("own")), "own");
        assert_eq!(
            round(Some(Vec::from([1, 2, 3]))),
            Some(Vec::from([1, 2, 3]))
        );
    }

    #[test]
    fn an_overaligned_small_value_comes_back() {
        #[repr(align(32))]
        #[derive(Debug, PartialEq)]
        struct Wide(u8);
        assert_eq!(round(Wide(9)), Wide(9));
    }
}
