//! What a Python calls when it ends: the callbacks of `atexit`, which no object holds.
//!
//! ```text
//!   struct atexit_state (3.9 in the module's own state, 3.10 to 3.13 in PyInterpreterState; Include/internal/pycore_atexit.h)
//!   ├────────────────────────────┼──────────┼──────────────┤
//!   │ callbacks: atexit_callback** │ ncallbacks │ callback_len │     each callback: func, args, kwargs; 0 where one was taken back
//!
//!   since 3.14
//!   │ callbacks: a list of tuples (func, args, kwargs) │
//! ```
//!
//! Where that lies within an interpreter differs by version and build. It is looked for, and believed where the first callbacks are what they
//! must be: a callable whose type is a type, a tuple, a dict or nothing.

use super::function::MODULE_DICT;
use super::object::{Builtin, OB_SIZE};
use super::{Error, Python, Version};
use crate::Memory;

/// Bytes of an interpreter in which the callbacks are looked for.
const SPAN: u64 = 256 << 10;
/// Callbacks that are read, and how many of them are checked before the others are believed.
const MOST: u64 = 1 << 20;
const CHECKED: u64 = 4;
/// The array grows by so many callbacks.
const STEP: u64 = 16;
/// `md_state` in `PyModuleObject`.
const STATE: u64 = MODULE_DICT + 16;
/// `ob_item` of a list.
const LIST_ITEMS: u64 = 24;

/// How an interpreter keeps the callbacks, by version.
enum Callbacks {
    /// An array of so many addresses of callbacks.
    Array(u64, u64),
    /// A list.
    List(u64),
}

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with what the callbacks of an interpreter hold: since 3.14 their list. Nothing is told where they are not found.
    pub fn each_at_exit(&self, interpreter: u64, each: &mut dyn FnMut(u64)) -> Result<(), Error> {
        match self.callbacks(interpreter) {
            None => Ok(()),
            Some(Callbacks::List(list)) => {
                each(list);
                Ok(())
            }
            Some(Callbacks::Array(at, count)) => {
                for index in 0..count.min(MOST) {
                    let callback = self.memory.u64(at.wrapping_add(index * 8))?;
                    for word in 0..3 {
                        match self.memory.u64(callback.wrapping_add(word * 8)) {
                            Ok(target) if callback != 0 && target != 0 => each(target),
                            _ => {}
                        }
                    }
                }
                Ok(())
            }
        }
    }

    fn callbacks(&self, interpreter: u64) -> Option<Callbacks> {
        if self.facts.version() < Version::new(3, 10, 0) {
            let modules = interpreter.wrapping_add(self.layout.interpreter.modules);
            let modules = self.memory.u64(modules).ok()?;
            let module = self.value_of(modules, "atexit").ok()??;
            let state = self.memory.u64(module.wrapping_add(STATE)).ok()?;
            return self.array_at(state);
        }
        let is_list = self.facts.version() >= Version::new(3, 14, 0);
        (0..SPAN / 8).find_map(|number| {
            let at = interpreter.wrapping_add(number * 8);
            if is_list {
                self.list_at(at)
            } else {
                self.array_at(at)
            }
        })
    }

    fn array_at(&self, at: u64) -> Option<Callbacks> {
        let counts = self.memory.u64(at.wrapping_add(8)).ok()?;
        let (count, room) = (counts & u64::from(u32::MAX), counts >> 32);
        if count == 0 || count > room || room > MOST || !room.is_multiple_of(STEP) {
            return None;
        }
        let array = self.memory.u64(at).ok()?;
        let mut checked = 0;
        for index in 0..count.min(CHECKED) {
            let callback = self.memory.u64(array.checked_add(index * 8)?).ok()?;
            if callback == 0 {
                continue;
            }
            let word = |at: u64| self.memory.u64(callback.wrapping_add(at)).ok();
            if !self.is_callback(word(0)?, word(8)?, word(16)?) {
                return None;
            }
            checked += 1;
        }
        (checked != 0).then_some(Callbacks::Array(array, count))
    }

    fn list_at(&self, at: u64) -> Option<Callbacks> {
        let list = self.memory.u64(at).ok()?;
        if list == 0 || !list.is_multiple_of(8) || !self.is_a(list, Builtin::List) {
            return None;
        }
        let word = |at: u64| self.memory.u64(list.wrapping_add(at)).ok();
        let (items, count) = (word(LIST_ITEMS)?, word(OB_SIZE)?);
        for index in 0..count.min(CHECKED) {
            let tuple = self.memory.u64(items.checked_add(index * 8)?).ok()?;
            let item = |number: u64| {
                let at = self.layout.tuple_items + number * 8;
                self.memory.u64(tuple.wrapping_add(at)).ok()
            };
            let is_triple = self.is_a(tuple, Builtin::Tuple)
                && self.memory.u64(tuple.wrapping_add(OB_SIZE)).ok()? == 3;
            if !is_triple || !self.is_callback(item(0)?, item(1)?, item(2)?) {
                return None;
            }
        }
        (count != 0).then_some(Callbacks::List(list))
    }

    /// Whether three words are what a callback has. Without keywords the third is 0 or `None`.
    fn is_callback(&self, function: u64, arguments: u64, keywords: u64) -> bool {
        let is_none = || {
            let name = self.type_of(keywords).and_then(|class| {
                Ok(self.raw_name(class, &mut [0; super::class::LONGEST_NAME])? == b"NoneType")
            });
            name.unwrap_or(false)
        };
        let is_type = |class: u64| self.is_a(class, Builtin::Type);
        function.is_multiple_of(8)
            && self.type_of(function).is_ok_and(is_type)
            && self.is_a(arguments, Builtin::Tuple)
            && (keywords == 0 || self.is_a(keywords, Builtin::Dict) || is_none())
    }

    /// Whether an object is of this type or one that inherits from it, and that type is one.
    fn is_a(&self, object: u64, builtin: Builtin) -> bool {
        let of = || {
            let class = self.type_of(object)?;
            let meta = self.type_of(class)?;
            Ok::<_, Error>(
                self.flags(class)? & builtin.flag() != 0
                    && self.flags(meta)? & Builtin::Type.flag() != 0,
            )
        };
        object != 0 && of().unwrap_or(false)
    }
}
