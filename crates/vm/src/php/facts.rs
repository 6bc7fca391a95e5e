//! What the reader must know about one process beyond its version. Used by `requests` and `script`, and by the crates
//! `languages`, `agent` and `enter`.
//!
//! The version is that of the module `core` in the exported `module_registry`, which also says whether PHP was built
//! with threads (`zts` in `zend_module_entry`, `zend_modules.h`). The rest is where `executor_globals` lies.

use super::table::{Table, hash};
use super::{Error, Layout, Unsupported, Version};
use crate::Memory;

/// `zend_api`, `zend_debug` and `zts` in `zend_module_entry`.
pub(super) const MODULE_API: u64 = 4;
pub(super) const MODULE_DEBUG: u64 = 8;
pub(super) const MODULE_THREADS: u64 = 9;

/// Bytes that `jump_fcontext` puts on the stack in 8.2 and 8.4.
const SAVED: u64 = 64;

/// Facts about one PHP process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    version: u64,
    executor: u64,
    frameless: u64,
    saved: u64,
    compiler: u64,
}

impl Facts {
    /// Number of words that they take.
    pub const WORDS: usize = 5;

    /// Finds them. `symbol` returns the address in the guest of a symbol that php or libphp exports.
    pub fn find(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Facts, Error> {
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        let registry = need("module_registry")?;
        let core = Table::new(memory, registry)?
            .get(b"core", hash(b"core"))?
            .ok_or(Error::garbled("module registry", registry))?;
        let module = memory.u64(core)?;
        let version = Version(memory.u32(module.wrapping_add(MODULE_API))?);
        if memory.u8(module.wrapping_add(MODULE_THREADS))? != 0 {
            return Err(Unsupported::Threads(version).into());
        }
        if memory.u8(module.wrapping_add(MODULE_DEBUG))? != 0 {
            return Err(Unsupported::Debug(version).into());
        }
        let layout = Layout::of(version)?;
        let frameless = if layout.frameless {
            memory.u64(need("zend_flf_functions")?)?
        } else {
            0
        };
        Ok(Facts {
            version: version.0.into(),
            executor: need("executor_globals")?,
            frameless,
            saved: symbol("jump_fcontext").map_or(SAVED, |at| saved(memory, at)),
            compiler: symbol("compiler_globals").unwrap_or(0),
        })
    }

    /// Returns the facts as words, in an order that only [`from_words`](Facts::from_words) needs to know.
    pub const fn to_words(self) -> [u64; Facts::WORDS] {
        [
            self.version,
            self.executor,
            self.frameless,
            self.saved,
            self.compiler,
        ]
    }

    /// The inverse of [`to_words`](Facts::to_words).
    pub const fn from_words(words: [u64; Facts::WORDS]) -> Facts {
        let [version, executor, frameless, saved, compiler] = words;
        Facts {
            version,
            executor,
            frameless,
            saved,
            compiler,
        }
    }

    /// Returns the version, which is known by its `ZEND_MODULE_API_NO`.
    pub const fn version(&self) -> Version {
        Version(self.version as u32)
    }

    /// Returns the version whose table says where things lie: its own.
    pub(super) const fn table(&self) -> Version {
        self.version()
    }

    /// Returns the address of `zend_executor_globals`.
    pub const fn executor(&self) -> u64 {
        self.executor
    }

    /// Returns the address of `zend_compiler_globals`; 0 if it is not exported.
    pub(super) const fn compiler(&self) -> u64 {
        self.compiler
    }

    /// Returns the address of the functions that are called without a frame; 0 where there are none.
    pub(super) const fn frameless(&self) -> u64 {
        self.frameless
    }

    /// Returns how many bytes of registers lie on the stack of a parked fiber, before the return address.
    pub(super) const fn saved(&self) -> u64 {
        self.saved
    }
}

/// Reads how many bytes `jump_fcontext` puts on the stack, from its first instruction, `lea -n(%rsp), %rsp`: its
/// sources differ by a word between releases (`Zend/asm/jump_x86_64_sysv_elf_gas.S`).
fn saved(memory: &impl Memory, at: u64) -> u64 {
    let mut code = [0; 9];
    if memory.read(at, &mut code).is_err() {
        return SAVED;
    }
    let code = code
        .strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa])
        .unwrap_or(&code);
    match code.strip_prefix(&[0x48, 0x8d, 0x64, 0x24]) {
        Some([distance, ..]) => u64::from(distance.wrapping_neg()),
        _ => SAVED,
    }
}
