//! The functions that a request begins and ends with: words in `zend_module_entry` (`zend_modules.h`), one for each module that has such a
//! function, and one in `sapi_module` (`SAPI.h`).
//!
//! `zend_activate_modules` calls them from the first module on, and `zend_deactivate_modules` from the last one on (`zend_API.c`). So what the
//! first word leads to is called before the other modules' functions, and what the last one leads to before anything of the request is
//! freed, when its shutdown functions and destructors have run and its output is written. PHP code may run behind that (a session's handlers,
//! streams that are closed), and where a module has failed to begin, none of these is called (`php_request_shutdown`, `main.c`).
//!
//! `deactivate` of `sapi_module` is called at the end of each request, whatever came before: when no PHP code runs any more, and
//! before the heap begins anew (`shutdown_memory_manager`). It may be null.
//!
//! A module that a script has loaded (`dl()`, `MODULE_TEMPORARY`) is unloaded at the end of its request, so its words are left alone.

use super::facts::{MODULE_API, MODULE_DEBUG, MODULE_THREADS};
use super::table::{COUNT, Table};
use super::{Error, Version};
use crate::Memory;

/// `size`, `request_startup_func`, `request_shutdown_func` and `type` in `zend_module_entry`; its size without threads.
const SIZE: u64 = 0;
const STARTUP: u64 = 64;
const SHUTDOWN: u64 = 72;
const TYPE: u64 = 140;
const WHOLE: u32 = 168;
/// `MODULE_TEMPORARY`.
const TEMPORARY: u8 = 2;
/// `deactivate` in `sapi_module_struct`, alike in 7.4 to 8.6.
const DEACTIVATE: u64 = 40;

/// Where the words lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Address of the word with the first module's function for the beginning.
    pub first: u64,
    /// Address of the word with the last module's function for the end.
    pub last: u64,
    /// Address of the word with what is called when all of a request but its memory is freed.
    pub close: u64,
    /// How many modules there are that stay until the VM ends.
    pub modules: u32,
}

impl Requests {
    /// Finds them in `module_registry` and `sapi_module`. Each module must be of this version, and its record of the known size.
    pub fn find(
        memory: &impl Memory,
        [registry, sapi]: [u64; 2],
        version: Version,
    ) -> Result<Self, Error> {
        let mut found = Requests {
            close: sapi.wrapping_add(DEACTIVATE),
            ..Requests::default()
        };
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
            if memory.u8(module.wrapping_add(TYPE))? == TEMPORARY {
                continue;
            }
            found.modules += 1;
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

    /// Whether the VM still has all modules that were found: when it ends it unloads them, and unmaps its heap behind that
    /// (`php_module_shutdown`, `main.c`).
    pub fn stand(&self, memory: &impl Memory, registry: u64) -> bool {
        let count = memory.u32(registry.wrapping_add(COUNT));
        count.is_ok_and(|count| count >= self.modules)
    }
}
