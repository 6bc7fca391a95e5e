//! Blocks of native allocators: what hooks on `malloc` and its kin count ([`want::BLOCKS`](super::want::BLOCKS)).
//!
//! ```text
//!   malloc ─► return = p       p gets a word: the number of its site, and its size; one more is born at that site
//!   free(p) ─►                 the word is taken away, and one more is dead at the site that it names
//!
//!   Book       found      a site's number by the address that its calls return to
//!              addresses  that address, by number
//!              tables     of 64 MiB of addresses each: a word for every 8, 16 or 32 bytes, at the block's first
//!              tallies    of each thread, by the place of its ring in Calls::rings: a Beside, and a Row for each site
//! ```
//!
//! Threads share the book. The word of a block is written by the thread that was given the block, before anybody knows it, and taken away by
//! the one that gives it back, before the allocator knows that. A program that gives a block back twice may be counted twice. Rows are each
//! thread's own, so nobody waits for anybody. Only a birth and a death that different threads have seen are in different rows; the command
//! adds them up.
//!
//! All of it is private memory of the process, and what leads to it is too, because rings can be shared with a child that was forked while
//! the parent was traced: an address in a ring would be one process's and be followed by another. Children find zeros there
//! (`MADV_WIPEONFORK`).
//!
//! Used by `calls`, and by the crates `agent`, `hooks`, `inject` and `births`.

use core::sync::atomic::AtomicU64;

/// What the agent has for counting blocks, in [`Calls`](super::Calls).
#[derive(Debug)]
#[repr(C)]
pub struct Blocks {
    /// How far apart two blocks begin at least, as a binary logarithm: 3, 4 or 5. The command writes it before a hook counts blocks.
    pub grain: u64,
    /// How many bytes of pages may be touched, at most. The command writes it likewise, and again
    /// while threads run; `u64::MAX` = no blocks are counted.
    pub most: AtomicU64,
    /// How many bytes of addresses may be mapped, at most. The command writes it likewise.
    pub most_mapped: AtomicU64,
    /// How many bytes of pages are touched in this session, at most.
    pub taken: AtomicU64,
    /// How many bytes of addresses are mapped.
    pub mapped: AtomicU64,
    /// Address of the [`Book`] of this session; 0 = nothing was counted yet.
    pub book: AtomicU64,
    /// Addresses of the books that exist, by grain from [`LEAST_GRAIN`] on. A book stays, because a thread may be about to use it when the
    /// command leaves; but then its pages are given back.
    pub books: [AtomicU64; GRAINS],
    /// Begin and end of functions that pass on what they are asked for (`operator new`): the birth is their caller's. The command writes them, also while
    /// threads run.
    pub wrappers: [[AtomicU64; 2]; WRAPPERS],
    /// Of each, how far above the address that a function which it has called returns to the one is that it returns to itself, less 8 bytes: so
    /// that a search leads upward whatever is here; [`NO_CALLER`] = it was unloaded.
    pub depths: [AtomicU64; WRAPPERS],
    /// How many parts have been forgotten, of all that is; [`FORGOTTEN`] = all. The command sets it to 0 and has the agent go on
    /// ([`FORGET_BLOCKS`](super::FORGET_BLOCKS)) until it is that.
    pub forgotten: AtomicU64,
}

/// In [`Blocks::forgotten`]: nothing is left.
pub const FORGOTTEN: u64 = u64::MAX;

/// In [`Blocks::depths`]: farther than any search goes, so that who calls is not known.
pub const NO_CALLER: u64 = 1 << 62;

/// The least [`Blocks::grain`].
pub const LEAST_GRAIN: u64 = 3;
/// How many grains there are.
pub const GRAINS: usize = 3;

/// Numbers of sites: 0 is none's.
pub const SITES: usize = 1 << 16;
/// Sites beyond so many get no line of a script, so that functions are told apart whatever scripts do: three quarters of all numbers.
pub const LINED_SITES: u64 = SITES as u64 / 4 * 3;
/// Wrappers that can be told.
pub const WRAPPERS: usize = 16;
/// The number that addresses in the first wrapper have instead of a site's; those of the others follow.
pub const FIRST_WRAPPER: usize = SITES - WRAPPERS;
/// Places in which sites are looked for, a power of two: half of them stay free.
pub const FOUND: usize = 2 * SITES;
/// Bytes of addresses that one table is of, as a binary logarithm.
pub const REGION_SHIFT: u32 = 26;
/// Tables of all addresses of user space.
pub const REGIONS: usize = 1 << (47 - REGION_SHIFT);
/// Tables that a book has at most: those of 256 GiB.
pub const LISTED: usize = 4096;

/// The sites of a session, and where the words of blocks are. Pages of it take memory only where they are used.
#[derive(Debug)]
#[repr(C)]
pub struct Book {
    /// [`Blocks::grain`] of all its tables. Always the same but in a child, which finds 0 until it is opened itself.
    pub grain: AtomicU64,
    /// Counts the sessions. Its lowest bits are in each block's word, so that one which a thread writes too late, for a session that is over, is
    /// taken for none.
    pub era: AtomicU64,
    /// How many numbers of sites were given out. Some may be no site's.
    pub sites: AtomicU64,
    /// How many entries of `list` were given out. Some may be 0.
    pub listed: AtomicU64,
    /// How many tallies are used in this session.
    pub tallied: AtomicU64,
    /// Blocks that are noted without the line of the script that ran, because there was no number for a site with it.
    pub unlined: AtomicU64,
    /// What fills the page.
    pub unused: [u64; crate::PAGE / 8 - 6],
    /// Addresses of all tables.
    pub list: [AtomicU64; LISTED],
    /// Addresses of the [`Beside`] of each thread, by the place of its ring; 0 = none yet, [`IN_VAIN`] = there was no memory for it.
    pub tallies: [AtomicU64; TALLIES],
    /// The addresses in `list`, by the region that each is of; 0 = there is none.
    pub tables: [AtomicU64; REGIONS],
    /// Sites by hash of the address that their calls return to: that address in the upper 48 bits, the number in the others; 0 = free. What
    /// is from here on is of one session.
    pub found: [AtomicU64; FOUND],
    /// Addresses of the rings whose numbers of script lines are in `addresses` ([`lined`]); 0 = free. An open-addressed table.
    pub tellers: [AtomicU64; TALLIES],
    /// The address that calls of a site return to, by number; or, of a site with a script's line, what [`lined`] makes.
    pub addresses: [AtomicU64; SITES],
}

/// Bit of a number in the place of an address, of which no code of a program has it: the site is another one with a script's line.
const LINED: u64 = 1 << 47;
/// Bits of a line's number.
const LINE_BITS: u32 = 13;
/// In a line's number: no line is the application's, and the number is that of the nearest line of a library.
const OF_NO_APPLICATION: u64 = 1 << (LINE_BITS - 1);

/// What stands for a site, the place in [`Book::tellers`] of the ring whose line it is, and the lines that the ring has numbered
/// ([`lines`](super::lines)).
#[inline]
pub const fn lined(site: u64, teller: u64, lines: u32) -> u64 {
    let line = match super::event_line(lines) {
        super::NO_APPLICATION => OF_NO_APPLICATION | super::library_line(lines) as u64,
        line => line as u64,
    };
    let line = line & ((1 << LINE_BITS) - 1);
    LINED | (site % SITES as u64) << 25 | (teller % TALLIES as u64) << LINE_BITS | line
}

/// The site, teller and lines of what [`lined`] has made; `None` = it is an address.
#[inline]
pub const fn of_lined(address: u64) -> Option<(u64, usize, u32)> {
    if address & LINED == 0 {
        return None;
    }
    let line = address & (OF_NO_APPLICATION - 1);
    let lines = match address & OF_NO_APPLICATION {
        0 => line as u32,
        _ => super::lines(super::NO_APPLICATION, line as u32),
    };
    let teller = (address >> LINE_BITS) as usize % TALLIES;
    Some(((address >> 25) % SITES as u64, teller, lines))
}

const _: () = assert!(TALLIES == 1 << (25 - LINE_BITS) && super::NO_APPLICATION < 1 << 12);

/// Threads that can have a tally: as many as there are places for rings.
pub const TALLIES: usize = 4096;

/// In [`Book::tallies`]: there was no memory, so the thread is not counted.
pub const IN_VAIN: u64 = 1;

const _: () = assert!(core::mem::offset_of!(Book, found).is_multiple_of(crate::PAGE));

/// What one thread has counted of one site.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Row {
    /// Blocks that were taken.
    pub born: u64,
    /// Bytes that were asked for.
    pub born_bytes: u64,
    /// Blocks that were given back.
    pub dead: u64,
    /// Bytes that had been asked for of these.
    pub dead_bytes: u64,
}

/// What one thread has beside the rows of sites, which follow it: one for each number, that of 0 is unused.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Beside {
    /// Blocks that were taken and have no word, because there was no memory or no number for that.
    pub unnoted: AtomicU64,
    /// Blocks that were taken where a word said that one is there: its death was not seen.
    pub replaced: AtomicU64,
    /// How many calls may be made before the heartbeat is looked at.
    pub unwatched: AtomicU64,
    /// While a function runs that takes blocks and may call others that are hooked: the stack pointer as its caller will have it after the
    /// return; else 0.
    pub taking: AtomicU64,
    /// The address that it returns to, which lies below that: where another one does, it was left by a jump or an exception.
    pub taking_for: AtomicU64,
    /// The block that was taken last while such a function ran.
    pub inner: AtomicU64,
    /// The thread, by its thread pointer.
    pub thread: AtomicU64,
    /// The session in which it was introduced. In that one the thread is known by this and the word before, wherever its ring is.
    pub session: AtomicU64,
}

const _: () = assert!(size_of::<Beside>() == 64 && core::mem::offset_of!(Beside, replaced) == 8);

/// Bytes of a thread's [`Beside`] and rows: whole pages.
pub const TALLY_BYTES: u64 =
    (size_of::<Beside>() + SITES * size_of::<Row>()).next_multiple_of(crate::PAGE) as u64;

/// A table begins with a byte for each page of words, which is not 0 if that was counted in [`Blocks::taken`]: so many bytes, of which tables
/// of the larger grains use the first.
pub const MARKS: u64 = (8 << (REGION_SHIFT as u64 - LEAST_GRAIN)) / crate::PAGE as u64;
/// Words in a page, as a binary logarithm.
pub const PAGE_SHIFT: u32 = (crate::PAGE as u32 / 8).trailing_zeros();

/// Bytes of a table: whole pages.
#[inline]
pub const fn table_bytes(grain: u64) -> u64 {
    MARKS + (8 << (REGION_SHIFT as u64).saturating_sub(grain))
}

/// What an address is multiplied by to find its place: a factor that machine code holds in 32 bits, with its sign.
pub const FACTOR_OF_PLACE: i32 = 0x9e37_79b1_u32 as i32;
/// Places that are looked at on the short way: from the first to the next one whose number is a multiple of this.
pub const NEAR_PLACES: usize = 8;

/// Where a site is looked for first.
#[inline(always)]
pub const fn first_place(address: u64) -> usize {
    (address.wrapping_mul(FACTOR_OF_PLACE as u64) >> 32) as usize % FOUND
}

/// The word of a block: its size above its era, above its site.
#[inline(always)]
pub const fn word(site: u64, size: u64, era: u64) -> u64 {
    let most = (1 << (63 - SIZE_AT)) - 1;
    let size = if size < most { size } else { most };
    (site % SITES as u64) | ((era % ERAS) << ERA_AT) | (size << SIZE_AT)
}

/// The site in a block's word.
#[inline(always)]
pub const fn site_of(word: u64) -> u64 {
    word % SITES as u64
}

/// The size in a block's word.
#[inline(always)]
pub const fn size_of_block(word: u64) -> u64 {
    word >> SIZE_AT
}

/// Whether there is a block's word, and it is of this era.
#[inline(always)]
pub const fn is_of(word: u64, era: u64) -> bool {
    word != 0 && (word >> ERA_AT) % ERAS == era % ERAS
}

/// Eras that are told apart.
pub const ERAS: u64 = 4;
/// Where the era is in a block's word.
pub const ERA_AT: u32 = SITES.trailing_zeros();
/// Where the size is in a block's word.
pub const SIZE_AT: u32 = ERA_AT + ERAS.trailing_zeros();

/// What a function does with blocks: the word of [`Hook::blocks`](super::Hook::blocks).
///
/// ```text
///   bits 0..4    the argument that is the size, 0 to 5
///        4..8    the argument that it is multiplied by, plus one; 0 = none
///        8       it takes a block
///        9       it gives back the block that its first argument is
///        10      the block is stored where its first argument points to, and the result is an error number
///        11      it may call other functions that are hooked: those calls are its own
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect(pub u64);

impl Effect {
    /// It gives back the block that its first argument is.
    pub const RELEASES: Self = Effect(1 << 9);
    /// The bits of the argument that the size is multiplied by.
    pub const FACTOR: u64 = 15 << 4;

    /// It takes a block, whose size is this argument.
    pub const fn takes(size: u64) -> Self {
        Effect((1 << 8) | size)
    }

    /// The size is multiplied by another argument.
    pub const fn times(self, argument: u64) -> Self {
        Effect(self.0 | ((argument + 1) << 4))
    }

    /// It gives back the block that its first argument is, if it takes another.
    pub const fn releasing(self) -> Self {
        Effect(self.0 | Self::RELEASES.0)
    }

    /// The block is stored where its first argument points to.
    pub const fn storing(self) -> Self {
        Effect(self.0 | (1 << 10))
    }

    /// It may call other such functions.
    pub const fn outermost(self) -> Self {
        Effect(self.0 | (1 << 11))
    }

    /// Whether it takes a block.
    #[inline(always)]
    pub const fn is_taking(self) -> bool {
        self.0 & (1 << 8) != 0
    }

    /// Whether it gives one back.
    #[inline(always)]
    pub const fn is_releasing(self) -> bool {
        self.0 & Self::RELEASES.0 != 0
    }

    /// Whether the block is not the result, but is stored where the first argument points to.
    #[inline(always)]
    pub const fn is_storing(self) -> bool {
        self.0 & (1 << 10) != 0
    }

    /// Whether it may call other such functions.
    #[inline(always)]
    pub const fn is_outermost(self) -> bool {
        self.0 & (1 << 11) != 0
    }

    /// Whether the routine's short way can do it: it gives a block back and takes none, or takes one whose address it returns, whose size is
    /// the first argument, or the product of the first two, and calls no other such function.
    pub const fn is_simple(self) -> bool {
        let simple = Self::takes(0);
        self.0 == Self::RELEASES.0 || self.0 == simple.0 || self.0 == simple.times(1).0
    }

    /// The argument that is the size.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        self.0 & 7
    }

    /// The argument that it is multiplied by.
    #[inline(always)]
    pub const fn factor(self) -> Option<u64> {
        match (self.0 >> 4) & 15 {
            0 => None,
            number => Some(number - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_site_and_size_and_era() {
        for (site, size, era) in [(1, 0, 4), (7, 24, 1), (65_535, 1 << 40, 3)] {
            let word = word(site, size, era);
            assert_eq!((site_of(word), size_of_block(word)), (site, size));
            assert!(is_of(word, era) && !is_of(word, era + 1));
        }
        assert!(!is_of(0, 0), "there is no block");
        // The uppermost bit stays free: the ticket of a counted call has a mark there.
        assert_eq!(word(1, u64::MAX, 3) >> 63, 0);
        assert_eq!(super::super::ticket::COUNTED, 1 << 63);
    }

    #[test]
    fn a_table_has_a_byte_for_each_page_of_words() {
        for grain in LEAST_GRAIN..LEAST_GRAIN + GRAINS as u64 {
            let words = table_bytes(grain) - MARKS;
            assert_eq!(words, 8 * ((1 << REGION_SHIFT) >> grain));
            assert!(MARKS >= words / crate::PAGE as u64);
            assert!(words.is_multiple_of(crate::PAGE as u64));
        }
        assert!(MARKS.is_multiple_of(crate::PAGE as u64));
    }

    #[test]
    fn a_site_with_a_line_is_told_from_an_address() {
        let beside = crate::calls::lines(crate::calls::NO_APPLICATION, 77);
        for (site, teller, lines) in [(1, 0, 5), (65_535, 4095, 4094), (9, 12, beside)] {
            assert_eq!(
                of_lined(lined(site, teller, lines)),
                Some((site, teller as usize, lines))
            );
        }
        // The nearest line beside the application's is left away.
        assert_eq!(
            of_lined(lined(3, 4, crate::calls::lines(8, 9))),
            Some((3, 4, 8))
        );
        assert_eq!(of_lined(0x7fff_ffff_f000), None);
    }

    #[test]
    fn an_effect_says_what_it_was_made_of() {
        let realloc = Effect::takes(1).releasing().outermost();
        assert!(realloc.is_taking() && realloc.is_releasing() && realloc.is_outermost());
        assert_eq!((realloc.size(), realloc.factor()), (1, None));
        assert!(!realloc.is_storing() && !Effect::RELEASES.is_taking());
        let aligned = Effect::takes(2).storing();
        assert!(aligned.is_storing() && !aligned.is_releasing() && !aligned.is_outermost());
        let product = Effect::takes(0).times(1);
        assert_eq!(product.factor(), Some(1));
        assert!(product.0 & Effect::FACTOR != 0 && Effect::takes(0).0 & Effect::FACTOR == 0);
        assert!(
            [Effect::RELEASES, Effect::takes(0), product]
                .iter()
                .all(|one| one.is_simple())
        );
        let others = [realloc, aligned, product.outermost(), Effect::takes(1)];
        assert!(!others.iter().any(|one| one.is_simple()));
    }
}
