//! Where the routine finds what the agent has for counting blocks of an allocator (`code::blocks`): the layouts are the agent's. Used by
//! `code::call_through`, and by crate `agent`.

/// Offsets in bytes, and numbers, of what is described in `wire::calls::blocks`.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// From the rooms to the address of the book.
    pub book: usize,
    /// In a hook: the word that is 0 when nothing is wanted of it.
    pub want: usize,
    /// In a hook: the word that says what the function does.
    pub effect: usize,
    /// Bits of that word: the size is a product.
    pub factor: usize,
    /// In the book: the addresses of tallies, by place of the thread.
    pub tallies: usize,
    /// An address of a tally up to which there is none.
    pub in_vain: usize,
    /// In the book: its grain.
    pub grain: usize,
    /// In the book: its era.
    pub era: usize,
    /// Numbers of eras, less one; and where the era is in a word.
    pub eras: [usize; 2],
    /// In the book: the addresses of tables, by region.
    pub tables: usize,
    /// Regions, and the bytes of one as a binary logarithm.
    pub regions: [usize; 2],
    /// In a table: its words. Before them is a byte for each page of words, whose number of words is this as a binary logarithm.
    pub words: [usize; 2],
    /// In the book: the places of sites.
    pub found: usize,
    /// How many places there are, a power of two; and how many numbers of sites.
    pub sites: [usize; 2],
    /// What an address is multiplied by, of which the upper half says the place.
    pub factor_of_place: i32,
    /// The first number of a site that is a wrapper, and the address of the distances from their callers' return addresses to their own, from
    /// the rooms.
    pub wrappers: [usize; 2],
    /// In a tally: thread, session, calls until the next look, and the function that counts for others.
    pub tally: [usize; 4],
    /// In a tally: the rows; and the bytes of one as a binary logarithm.
    pub rows: [usize; 2],
    /// In a row: born, bytes of these, dead, bytes of these.
    pub row: [usize; 4],
    /// Where the size is in a block's word.
    pub size_at: usize,
}

/// The layout of an image that counts no blocks.
pub const NONE: Layout = Layout {
    book: 0,
    want: 0,
    effect: 0,
    factor: 0,
    tallies: 0,
    in_vain: 0,
    grain: 0,
    era: 0,
    eras: [0; 2],
    tables: 0,
    regions: [0; 2],
    words: [0; 2],
    found: 0,
    sites: [1; 2],
    factor_of_place: 0,
    wrappers: [0; 2],
    tally: [0; 4],
    rows: [0; 2],
    row: [0; 4],
    size_at: 0,
};

/// How far above the frame a return address may be that a wrapper leads to.
pub const HIGHEST: usize = 1024;
/// Places of a thread or a site that are looked at: up to the next one whose number is a multiple of this.
pub const PLACES: usize = 8;
