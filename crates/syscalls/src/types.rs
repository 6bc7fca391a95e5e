//! The types of `syscalls.conf` by their names.

use prototypes::{Bundle, Library, Type};
use std::sync::{Arc, LazyLock};

static TYPES: LazyLock<Arc<Library>> = LazyLock::new(|| {
    let bundle = Bundle::for_soname("SYS").expect("it is part of lancet");
    bundle.library()
});

/// Reads the file, if it was not read yet.
pub fn prepare() {
    LazyLock::force(&TYPES);
}

/// Returns a type of `syscalls.conf`.
pub fn ty(name: &str) -> Type {
    TYPES.ty(name).expect("syscalls.conf defines it")
}
