//! The functions that a request begins and ends with: words in `zend_module_entry` (`zend_modules.h`), one for each module that has such a
//! function, and one in `sapi_module` (`SAPI.h`). Used by `enter::languages::php`.
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

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::table;
    use super::*;
    use crate::Fault;
    use std::vec::Vec;

    const REGISTRY: u64 = 0x1000;
    const SAPI: u64 = 0x2000;
    const BUCKETS: u64 = 0x3000;
    const MODULES: u64 = 0x10000;
    const API: u32 = 20220829;

    /// Memory of a VM from address 0 on.
    struct Bytes(Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            let from = self.0.get(at as usize..at as usize + into.len());
            into.copy_from_slice(from.ok_or(Fault { at })?);
            Ok(())
        }
    }

    impl Bytes {
        fn put(&mut self, at: u64, bytes: &[u8]) {
            self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// The address of a module's record.
    fn module(number: u64) -> u64 {
        MODULES + number * 0x100
    }

    /// A VM with these modules: whether a script has loaded one, and its functions for a request's beginning and end.
    fn modules(all: &[(bool, u64, u64)]) -> Bytes {
        let mut bytes = Bytes(std::vec![0; 0x2_0000]);
        let count = all.len() as u32;
        bytes.put(REGISTRY + table::DATA, &BUCKETS.to_le_bytes());
        bytes.put(REGISTRY + table::USED, &count.to_le_bytes());
        bytes.put(REGISTRY + COUNT, &count.to_le_bytes());
        for (number, (is_temporary, begins, ends)) in (0..).zip(all) {
            let (bucket, at) = (BUCKETS + number * table::BUCKET, module(number));
            bytes.put(bucket, &at.to_le_bytes());
            // `IS_PTR`, and a key, which nobody reads.
            bytes.put(bucket + 8, &[13]);
            bytes.put(bucket + table::KEY, &0x800_u64.to_le_bytes());
            bytes.put(at + SIZE, &WHOLE.to_le_bytes());
            bytes.put(at + MODULE_API, &API.to_le_bytes());
            bytes.put(at + STARTUP, &begins.to_le_bytes());
            bytes.put(at + SHUTDOWN, &ends.to_le_bytes());
            let kind = if *is_temporary { TEMPORARY } else { 1 };
            bytes.put(at + TYPE, &[kind]);
        }
        bytes
    }

    fn found(all: &[(bool, u64, u64)]) -> Option<Requests> {
        Requests::find(&modules(all), [REGISTRY, SAPI], Version(API)).ok()
    }

    #[test]
    fn the_first_that_begins_and_the_last_that_ends_are_found() {
        let requests = found(&[(false, 0, 7), (false, 1, 0), (false, 2, 8), (false, 3, 0)]);
        let wanted = Requests {
            first: module(1) + STARTUP,
            last: module(2) + SHUTDOWN,
            close: SAPI + DEACTIVATE,
            modules: 4,
        };
        assert_eq!(requests, Some(wanted));
        assert_eq!(found(&[(false, 1, 0)]), None, "nothing ends");
    }

    /// It is unloaded at the end of the request, with the word.
    #[test]
    fn a_module_that_a_script_has_loaded_is_passed_over() {
        let stay = [(false, 1, 7), (false, 0, 8)];
        let before = found(&stay).expect("two modules");
        let [one, other] = stay;
        assert_eq!(found(&[one, other, (true, 3, 9)]), Some(before));
        assert_eq!(found(&[(true, 3, 9)]), None);
        let memory = modules(&[one]);
        assert!(!before.stand(&memory, REGISTRY), "one was unloaded");
        assert!(before.stand(&modules(&[one, other, (true, 3, 9)]), REGISTRY));
    }
}
