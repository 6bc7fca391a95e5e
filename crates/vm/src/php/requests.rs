//! The functions of modules that a request begins and ends with: words in `zend_module_entry` (`zend_modules.h`), one for each module that
//! has such a function.
//!
//! `zend_activate_modules` calls them from the first module on, and `zend_deactivate_modules` from the last one on (`zend_API.c`). So what the
//! first word leads to is called before the other modules' functions, and what the last one leads to before anything of the request is
//! freed, when its shutdown functions and destructors have run and its output is written.

use super::facts::{MODULE_API, MODULE_DEBUG, MODULE_THREADS};
use super::table::Table;
use super::{Error, Version};
use crate::Memory;

/// `size`, `request_startup_func` and `request_shutdown_func` in `zend_module_entry`; its size without threads.
const SIZE: u64 = 0;
const STARTUP: u64 = 64;
const SHUTDOWN: u64 = 72;
const WHOLE: u32 = 168;

/// Where the words lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Address of the word with the first module's function for the beginning.
    pub first: u64,
    /// Address of the word with the last module's function for the end.
    pub last: u64,
}

impl Requests {
    /// Finds them in `module_registry`. Each module must be of this version, and its record of the known size.
    pub fn find(memory: &impl Memory, registry: u64, version: Version) -> Result<Self, Error> {
        let mut found = Requests::default();
        for entry in Table::new(memory, registry)?.entries() {
            let (_, zval) = entry?;
            let module = memory.u64(zval)?;
            let is_known = memory.u32(module.wrapping_add(SIZE))? & 0xffff == WHOLE
                && memory.u32(module.wrapping_add(MODULE_API))? == version.0
                && memory.u8(module.wrapping_add(MODULE_DEBUG))? == 0
                && memory.u8(module.wrapping_add(MODULE_THREADS))? == 0;
            if !is_known {
                return Err(Error::garbled("module", module));
            }
            let (first, last) = (module.wrapping_add(STARTUP), module.wrapping_add(SHUTDOWN));
            if found.first == 0 && memory.u64(first)? != 0 {
                found.first = first;
            }
            if memory.u64(last)? != 0 {
                found.last = last;
            }
        }
        if found.first == 0 || found.last == 0 {
            return Err(Error::garbled("module registry", registry));
        }
        Ok(found)
    }
}
