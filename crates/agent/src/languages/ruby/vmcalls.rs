//! Calls of the VM's functions by address. Used by `births::agent`, `collections`, `births::compaction` and others.
//!
//! Prototypes: Ruby's `include/ruby/debug.h` (event hooks, postponed jobs), `internal/gc.h`, `include/ruby/internal/core/rtypeddata.h`, the
//! same from 2.7 to 4.0. All but `rb_postponed_job_register_one` and `rb_thread_call_with_gvl` require that the calling thread holds the
//! VM's lock.

use core::mem::transmute;
use vm::ruby::Functions;
use wire::Config;
use wire::control_page::first;

/// `RUBY_INTERNAL_EVENT_NEWOBJ`, an object is born.
pub const NEWOBJ: u32 = 0x10_0000;
/// `RUBY_INTERNAL_EVENT_GC_START`, before anything is marked.
const GC_START: u32 = 0x40_0000;
/// `RUBY_INTERNAL_EVENT_GC_START`, `_END_MARK`, `_ENTER`, `_EXIT`: marking begins and ends; the collector begins and
/// ends a step.
pub mod collector {
    pub const START: u32 = super::GC_START;
    pub const END_MARK: u32 = 0x80_0000;
    pub const ENTER: u32 = 0x200_0000;
    pub const EXIT: u32 = 0x400_0000;
}
/// `RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG` of `debug.h`: the hook is given the address of the `rb_trace_arg_t`.
const SAFE_RAW: u32 = 0x01 | 0x04;

/// `Qfalse` of every version (`enum ruby_special_consts`, special_consts.h).
const QFALSE: u64 = 0;

/// `rb_event_hook_func_t` with a raw argument.
pub type Hook = unsafe extern "C" fn(data: u64, trace_arg: u64);
/// `rb_postponed_job_func_t` (`debug.h`), and the function of `rb_set_end_proc`, which is given a VALUE.
pub type Job = unsafe extern "C" fn(data: u64);
/// A function that `rb_thread_call_with_gvl` calls with the VM's lock held.
pub type Locked = unsafe extern "C" fn(data: u64) -> u64;
/// The callback of `rb_objspace_each_objects`: a page's slots from `start` to `end`.
pub type EachPage = unsafe extern "C" fn(start: u64, end: u64, stride: u64, data: u64) -> i32;

/// A method of one argument, as `rb_define_singleton_method` calls it.
pub type Method = unsafe extern "C" fn(receiver: u64, argument: u64) -> u64;
/// The callback of `rb_objspace_reachable_objects_from`.
pub type EachReference = unsafe extern "C" fn(object: u64, data: *mut u8);
/// The callback of `rb_objspace_reachable_objects_from_root`; the category is a string that ends with a zero.
pub type EachRoot = unsafe extern "C" fn(category: *const u8, object: u64, data: *mut u8);

/// `struct rb_data_type_struct` (`rtypeddata.h`).
#[repr(C)]
pub struct DataType {
    /// The name of the type, a string that ends with a zero.
    pub name: *const u8,
    /// Addresses of `dmark`, `dfree` and `dsize`; 0 = the type has no such function.
    pub functions: [u64; 3],
    /// `dcompact`: called while references are put right after objects were moved.
    pub compact: unsafe extern "C" fn(data: u64),
    /// Reserved by Ruby for later versions: must be 0.
    pub reserved: u64,
    /// Address of the type that this one is derived from; 0 = it has none.
    pub parent: u64,
    /// A word for the code that defines the type; Ruby does not read it.
    pub data: u64,
    /// Bits named `RUBY_TYPED_…` in `rtypeddata.h`; 0 sets none.
    pub flags: u64,
}

// SAFETY: the one static of this type is never changed, and `name` points to a constant.
unsafe impl Sync for DataType {}

/// Declares methods of [`Vm`], each of which calls the VM's function of that name.
macro_rules! calls {
    ($( $(#[$doc:meta])* fn $name:ident as $as:ident($($argument:ident: $type:ty),*) -> $result:ty; )*) => {
        impl Vm {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// The VM's lock is held (except for the two functions that the module names), and the arguments are as the VM requires.
                pub unsafe fn $as(&self $(, $argument: $type)*) -> $result {
                    // SAFETY: the command has written the address of that function, and the prototype is the VM's. The caller keeps the
                    // conditions above.
                    unsafe {
                        let function: unsafe extern "C" fn($($type),*) -> $result = transmute(self.0.$name);
                        function($($argument),*)
                    }
                }
            )*
        }
    };
}

/// The addresses of the VM's functions in this process. A call without the VM's lock, or of a function whose address is 0 because this VM does
/// not have it, crashes the guest.
#[derive(Clone, Copy)]
pub struct Vm(pub Functions);

impl Vm {
    /// No address is known yet.
    pub const NONE: Vm = Vm(Functions::NONE);

    /// Those that the command has configured.
    pub fn of(config: &Config) -> Self {
        Vm(Functions::from_words(first(&config.functions)))
    }
}

calls! {
    /// Makes the VM run `job(data)` at its next safe point. It may be called from anywhere, also from a signal handler.
    fn rb_postponed_job_register_one as register_job(flags: u32, job: Job, data: u64) -> i32;
    fn rb_add_event_hook2 as add_hook2(hook: Hook, events: u32, data: u64, flags: u32) -> ();
    /// Removes all hooks with this function.
    fn rb_remove_event_hook as remove_hook(hook: Hook) -> i32;
    /// Finishes sweeping, then calls `each` for every page of the heap.
    fn rb_objspace_each_objects as each_objects(each: EachPage, data: u64) -> ();
    /// The bytes an object uses in all. For an object of a C type this calls that type's own function,
    /// which may raise: see [`Vm::memsize_guarded`].
    fn rb_obj_memsize_of as memsize(object: u64) -> u64;
    /// Calls `function(data)`; `state` is not 0 if it raised or threw.
    fn rb_protect as protect(function: u64, data: u64, state: *mut i32) -> u64;
    /// The exception that is `$!`; nil if there is none.
    fn rb_errinfo as error() -> u64;
    fn rb_set_errinfo as set_error(error: u64) -> ();
    /// Evaluates a line of Ruby; `state` is not 0 if it raised or threw.
    fn rb_eval_string_protect as run(code: *const u8, state: *mut i32) -> u64;
    /// Returns one figure of `GC.stat`, by its symbol. Allocates nothing.
    fn rb_gc_stat as figure(symbol: u64) -> u64;
    /// Runs a full collection, unless the guest has disabled it.
    fn rb_gc_start as collect() -> u64;
    /// Returns how many collections have begun since the program started, minor ones included; the result is no VALUE.
    fn rb_gc_count as collections() -> u64;
    /// Switches the collector on; returns `Qtrue` if it was off.
    fn rb_gc_enable as switch_on() -> u64;
    /// Switches the collector off, after it has finished a step that is under way; returns `Qtrue` if it was off.
    fn rb_gc_disable as switch_off() -> u64;
    /// A new object of a C type; class 0 hides it.
    fn rb_data_typed_object_wrap as wrap(class: u64, data: u64, of: *const DataType) -> u64;
    /// Keeps the object at `place` alive and in place.
    fn rb_gc_register_address as keep(place: *mut u64) -> ();
    /// Takes back `keep` for this `place`.
    fn rb_gc_unregister_address as let_go(place: *mut u64) -> ();
    /// Makes the VM run `function(data)` when the program has ended, before the VM is torn down.
    fn rb_set_end_proc as at_end(function: Job, data: u64) -> ();
    /// Calls `each(object, data)` for every object that the collector would mark because of this one, which must be one that
    /// lives: `gc_mark_children` with a callback (`gc.c`; 3.4: `gc.c`, `gc/default/default.c`). Allocates nothing; the mark
    /// functions of C types run. Not while the collector runs.
    fn rb_objspace_reachable_objects_from as reachable(object: u64, each: EachReference, data: *mut u8) -> ();
    /// The shape of this number (`shape.c`, since 3.2): an element of a list.
    fn rb_shape_get_shape_by_id as shape(number: u32) -> u64;
    /// Calls `each` for every object that something other than an object keeps alive, as [`Vm::reachable`] does for one object.
    fn rb_objspace_reachable_objects_from_root as reachable_from_roots(each: EachRoot, data: *mut u8) -> ();
    /// Defines a method `name`, which ends with a zero, of `object` that calls `function(self, argument)`: for methods of one argument.
    /// Raises if the object is frozen.
    fn rb_define_singleton_method as define(object: u64, name: *const u8, function: Method, arguments: i32) -> ();
    /// A new Array with room for `room` values.
    fn rb_ary_new_capa as array(room: i64) -> u64;
    fn rb_ary_push as push(array: u64, value: u64) -> u64;
    /// A new Array of these values. The collector does not see them where they lie.
    fn rb_ary_new_from_values as array_of(count: i64, values: *const u64) -> u64;
    /// A new String with these bytes, which are copied.
    fn rb_str_new as bytes(at: *const u8, count: i64) -> u64;
    /// A new String in UTF-8 with these bytes, which are copied.
    fn rb_utf8_str_new as text(at: *const u8, count: i64) -> u64;
    /// Calls `function(data)` with the VM's lock, from a thread that has given it up to block: it is called
    /// without the lock.
    fn rb_thread_call_with_gvl as with_lock(function: Locked, data: u64) -> u64;
}

impl Vm {
    /// Returns the bytes an object of a C type uses in all; `None` if its own size function raised. The exception leaves nothing behind.
    ///
    /// # Safety
    /// The VM's lock is held, and `object` is alive.
    pub unsafe fn memsize_guarded(&self, object: u64) -> Option<u64> {
        let mut state = 0;
        // SAFETY: the caller holds the VM's lock, and the object is alive. An exception unwinds to `rb_protect`, past frames of the VM and
        // the extension only: `rb_protect` calls the VM's size function directly, whose signature is that of a function for `rb_protect`.
        let bytes = unsafe {
            let error = self.error();
            let bytes = self.protect(self.0.rb_obj_memsize_of, object, &raw mut state);
            if state != 0 {
                self.set_error(error);
            }
            bytes
        };
        (state == 0).then_some(bytes)
    }

    /// Whether the program has switched the collector off. The VM tells it only when it is switched: it is switched on, and off again if
    /// it was off. Nothing of the program runs in between, because the caller holds the lock. (The other way round the VM would first finish
    /// a step of a collector that is on.)
    ///
    /// # Safety
    /// The VM's lock is held, at a safe point.
    pub unsafe fn is_collector_off(&self) -> bool {
        // SAFETY: the caller holds the VM's lock at a safe point, which is all that both functions require.
        unsafe {
            let was_off = self.switch_on() != QFALSE;
            if was_off {
                self.switch_off();
            }
            was_off
        }
    }

    /// Makes the VM call `hook` at every birth and before every collection.
    ///
    /// # Safety
    /// The VM's lock is held, and `hook` stays mapped while it is set.
    pub unsafe fn add_hook(&self, hook: Hook) {
        // The hook's data is a VALUE that the collector marks: 0 is an immediate value in every version.
        // SAFETY: the caller holds the VM's lock, and `hook` has the prototype of an event hook with a raw argument.
        unsafe { self.add_hook2(hook, NEWOBJ | GC_START, 0, SAFE_RAW) };
    }

    /// Makes the VM call `hook` at every step of the collector.
    ///
    /// # Safety
    /// The VM's lock is held, and `hook` stays mapped while it is set.
    pub unsafe fn add_collector_hook(&self, hook: Hook) {
        use collector::{END_MARK, ENTER, EXIT, START};
        // SAFETY: the caller holds the VM's lock, and `hook` has the prototype of an event hook with a raw argument.
        unsafe { self.add_hook2(hook, START | END_MARK | ENTER | EXIT, 0, SAFE_RAW) };
    }

    /// Evaluates a line of Ruby, which ends with a zero. `None` if it raised; the exception leaves nothing behind.
    ///
    /// # Safety
    /// The VM's lock is held, at a place where Ruby code may run.
    pub unsafe fn evaluate(&self, code: &[u8]) -> Option<u64> {
        debug_assert_eq!(code.last(), Some(&0));
        let mut state = 0;
        // SAFETY: the caller holds the VM's lock at a place where Ruby code may run, and `code` ends with a zero.
        unsafe {
            let error = self.error();
            let value = self.run(code.as_ptr(), &raw mut state);
            if state != 0 {
                self.set_error(error);
            }
            (state == 0).then_some(value)
        }
    }
}
