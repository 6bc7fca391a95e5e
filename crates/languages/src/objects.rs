//! The objects of a heap of slots, read one by one from outside, while the process runs or when it no longer can. Used
//! by `ruby::objects`, `ruby` and others here, and by the crates `enter` and `births`.
//!
//! Objects that other threads of the process make or free meanwhile may or may not be found. All that is read is checked: an object that is
//! gone when it is read has no length and no contents.

use process::error::Result;

/// An object in a slot of the heap.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Its address in the process.
    pub address: u64,
    /// The bytes of its slot.
    pub bytes: u64,
    /// The first two words of the slot, which say what kind of object it is; their meaning is the language's.
    pub(crate) words: [u64; 2],
}

/// Called with the address at which a page begins and its objects; says whether the next page is wanted.
pub type EachPage<'a> = dyn FnMut(u64, &mut dyn Iterator<Item = Object>) -> Result<bool> + 'a;

/// The objects of one process.
pub trait Objects {
    /// Calls `each` for every page of the heap, and returns whether all pages were wanted. The list of pages comes from the process and may
    /// have no end.
    ///
    /// # Errors
    /// The heap cannot be read, and those of `each`.
    fn each_page(&self, each: &mut EachPage) -> Result<bool>;

    /// Returns the VM's kind of the object: `string`, `array`, `object`.
    fn kind(&self, object: &Object) -> &'static str;

    /// Returns how much it holds (bytes of a text, elements of an array, pairs of a hash); `None` for other objects.
    fn length(&self, object: &Object) -> Option<u64>;

    /// Returns its value as the language writes it, as far as that is known without running its code; long texts are cut.
    fn contents(&self, object: &Object) -> Option<String>;

    /// Whether it is of a type of the VM's own, which no script sees.
    fn is_internal(&self, object: &Object) -> bool;

    /// Two words that are the same for objects of the same type, besides [`is_internal`](Self::is_internal).
    fn type_key(&self, object: &Object) -> (u64, u64);

    /// Returns the name of its type; `None` if it cannot be read.
    fn type_name(&self, object: &Object) -> Option<String>;
}
