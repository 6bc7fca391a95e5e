//! The tests of the crate as its users see it: one executable, so that it is linked once.
//!
//! Apart from it is `live`, which opens real processes and is run with other versions.

mod images;
mod robust;
mod robust_scripts;
