//! What several test programs use.

use std::cell::Cell;
use std::rc::Rc;

/// Counts drops.
pub struct Bell(pub Rc<Cell<u32>>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
