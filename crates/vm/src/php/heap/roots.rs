//! What leads to the heap: variables and constants by their names, frames that run, and the list of all objects. Used
//! by `languages::php::snapshot::roots`.

use core::ops::ControlFlow;

use super::super::fiber::{BUCKETS, FREE, STORE_TOP};
use super::super::{
    CLASS_CONSTANTS, CLASS_DEFAULTS, CLASS_FUNCTIONS, CLASS_STATICS, CLASSES, CONSTANTS, Error,
    FUNCTIONS, Php, Text,
};
use super::Places;
use super::objects::Owner;
use super::values::{Key, Sort, Thing, ZVAL};
use crate::Memory;

/// `symbol_table` in `zend_executor_globals`.
const SYMBOLS: u64 = 304;

/// `type` in `zend_class_entry`; `ZEND_USER_CLASS`.
const CLASS_TYPE: u64 = 0;
const USER_CLASS: u8 = 2;

/// Entries of one table, and frames, at most.
const MOST: u64 = 1 << 20;

/// Where a root stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A global variable of this name.
    Global(Text),
    /// A static property of the class at this address.
    Static(u64, Text),
    /// The static variables of a function, an array.
    Variables(u64),
    /// A constant of this name.
    Constant(Text),
    /// A constant of the class at this address.
    ClassConstant(u64, Text),
    /// The default of a property of the class at this address.
    Default(u64),
    /// A variable of a frame: its function, the point that it has reached, the name.
    Local(u64, u64, Text),
    /// The `$this` of a frame of this function.
    This(u64),
    /// A file, a connection.
    Resource,
}

/// What leads to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// What it leads to.
    pub thing: Thing,
    /// Which variable, constant or table leads to it.
    pub place: Place,
    /// The zval; 0 if it is a bare pointer. One may be met twice, by two names.
    pub zval: u64,
}

/// Who is told roots, and how many entries of all tables may still be looked at: classes and functions may lead to the same tables again
/// and again.
struct To<'e> {
    each: &'e mut dyn FnMut(Root),
    left: u64,
    /// Values and names that could not be read.
    unread: u64,
}

impl To<'_> {
    /// Takes one from the entries that are left; fails if none is.
    fn step(&mut self, at: u64) -> Result<(), Error> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or(Error::garbled("table", at))?;
        Ok(())
    }
}

impl<M: Memory> Php<'_, M> {
    /// Calls `each` with what leads to the heap. At most `most` entries of tables are
    /// looked at. What cannot be read is passed over, and is counted.
    pub fn each_root(
        &self,
        places: &Places,
        most: u64,
        each: &mut dyn FnMut(Root),
    ) -> Result<u64, Error> {
        let to = &mut To {
            each,
            left: most,
            unread: 0,
        };
        let layout = self.heap_layout();
        let executor = self.facts.executor();
        let mut unread = 0;
        let mut note = |read: Result<(), Error>| unread += u64::from(read.is_err());
        note(self.values_of(executor.wrapping_add(SYMBOLS), &mut Place::Global, to));
        note(self.constants(to));
        note(self.each_entry(self.global(FUNCTIONS)?, &mut |function| {
            self.statics_of(places, function, to)
        }));
        note(self.each_entry(self.global(CLASSES)?, &mut |class| {
            self.roots_of_class(places, class, to)
        }));
        note(self.frame_roots(self.current()?, to));
        let resources = executor.wrapping_add(layout.resources);
        note(self.values_of(resources, &mut |_| Place::Resource, to));
        if layout.packs_values || self.layout.fiber.is_some() {
            let mut parked = 0;
            note(self.each_fiber(&mut |fiber| {
                parked += u64::from(self.frame_roots(fiber.data, to).is_err());
                ControlFlow::Continue(())
            }));
            unread += parked;
        }
        Ok(unread + to.unread)
    }

    /// Calls `each` with every object of the store, whatever refers to it.
    pub fn each_object(&self, most: u64, each: &mut dyn FnMut(Thing)) -> Result<(), Error> {
        let store = self.facts.executor().wrapping_add(self.layout.objects);
        let buckets = self.memory.u64(store.wrapping_add(BUCKETS))?;
        let top = u64::from(self.memory.u32(store.wrapping_add(STORE_TOP))?);
        if top > most {
            return Err(Error::garbled("store of objects", store));
        }
        // The first entry is never used.
        for handle in 1..top {
            let object = self.memory.u64(buckets.wrapping_add(handle * 8))?;
            if object != 0 && object & FREE == 0 {
                each(Thing {
                    address: object,
                    sort: Sort::Object,
                });
            }
        }
        Ok(())
    }

    /// Values of a table by their names.
    fn values_of(
        &self,
        table: u64,
        place: &mut dyn FnMut(Text) -> Place,
        to: &mut To,
    ) -> Result<(), Error> {
        self.each_value(table, MOST, &mut |zval, key| {
            to.step(zval)?;
            self.root(to, || {
                let name = match key {
                    Key::Name(name) => self.text(name)?,
                    Key::Index(_) => Text::bytes(0, 0),
                };
                Ok((zval, place(name)))
            });
            Ok(())
        })
    }

    /// Tells what the zval leads to that `found` finds. One that cannot be read is counted, and those behind it in its table are told.
    fn root(&self, to: &mut To, found: impl FnOnce() -> Result<(u64, Place), Error>) {
        let read = || {
            let (zval, place) = found()?;
            let zval = self.direct(zval)?;
            let thing = match self.counted(zval)? {
                Some(thing) if self.count(thing)?.is_some() => thing,
                _ => return Ok(None),
            };
            Ok::<_, Error>(Some(Root { thing, place, zval }))
        };
        match read() {
            Ok(Some(root)) => (to.each)(root),
            Ok(None) => {}
            Err(_) => to.unread += 1,
        }
    }

    /// Calls `each` with what the pointers of a table of functions or classes lead to.
    fn each_entry(
        &self,
        table: u64,
        each: &mut dyn FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut failed = Ok(());
        self.each_value(table, MOST, &mut |zval, _| {
            let read = each(self.memory.u64(zval)?);
            if read.is_err() {
                failed = read;
            }
            Ok(())
        })?;
        failed
    }

    fn constants(&self, to: &mut To) -> Result<(), Error> {
        self.each_value(self.global(CONSTANTS)?, MOST, &mut |zval, key| {
            to.step(zval)?;
            let Key::Name(name) = key else {
                return Ok(());
            };
            self.root(to, || {
                let constant = self.memory.u64(zval)?;
                Ok((constant, Place::Constant(self.text(name)?)))
            });
            Ok(())
        })
    }

    fn statics_of(&self, places: &Places, function: u64, to: &mut To) -> Result<(), Error> {
        to.step(function)?;
        if self.is_internal(function)? {
            return Ok(());
        }
        let thing = Thing {
            address: self.statics(places, function)?,
            sort: Sort::Array,
        };
        if thing.address != 0 && self.count(thing)?.is_some() {
            let place = Place::Variables(function);
            (to.each)(Root {
                thing,
                place,
                zval: 0,
            });
        }
        Ok(())
    }

    fn roots_of_class(&self, places: &Places, class: u64, to: &mut To) -> Result<(), Error> {
        to.step(class)?;
        let functions = self.of_class(class, CLASS_FUNCTIONS);
        if self.memory.u8(class.wrapping_add(CLASS_TYPE))? != USER_CLASS {
            return Ok(());
        }
        let counts = self.layout.class.counts;
        let statics = self.mapped(
            places,
            self.memory.u64(self.of_class(class, CLASS_STATICS))?,
        )?;
        let count = u64::from(self.memory.u32(class.wrapping_add(counts + 4))?);
        if statics != 0 {
            let mut left = to.left;
            let read = self.each_property(class, &mut left, &mut |owner, place, name| {
                if owner == Owner::Class && place < count {
                    let zval = statics.wrapping_add(place * ZVAL);
                    self.root(to, || Ok((zval, Place::Static(class, name))));
                }
            });
            to.left = left;
            read?;
        }
        let defaults = self.memory.u64(self.of_class(class, CLASS_DEFAULTS))?;
        let count = u64::from(self.memory.u32(class.wrapping_add(counts))?);
        for place in 0..if defaults == 0 { 0 } else { count.min(MOST) } {
            let zval = defaults.wrapping_add(place * ZVAL);
            to.step(zval)?;
            self.root(to, || Ok((zval, Place::Default(class))));
        }
        self.each_value(
            self.of_class(class, CLASS_CONSTANTS),
            MOST,
            &mut |zval, key| {
                to.step(zval)?;
                let Key::Name(name) = key else {
                    return Ok(());
                };
                self.root(to, || {
                    let constant = self.memory.u64(zval)?;
                    Ok((constant, Place::ClassConstant(class, self.text(name)?)))
                });
                Ok(())
            },
        )?;
        self.each_entry(functions, &mut |function| {
            self.statics_of(places, function, to)
        })
    }

    fn frame_roots(&self, innermost: u64, to: &mut To) -> Result<(), Error> {
        for frame in self.frames(innermost) {
            let frame = frame?;
            let Some(point) = frame.point.filter(|_| frame.data != 0) else {
                continue;
            };
            self.each_variable(frame.data, frame.function, &mut |zval, name| {
                to.step(zval)?;
                self.root(to, || {
                    let name = self.text(name)?;
                    Ok((zval, Place::Local(frame.function, point.opline, name)))
                });
                Ok(())
            })?;
            if let Some(thing) = self.counted_this(frame.data)? {
                let place = Place::This(frame.function);
                (to.each)(Root {
                    thing,
                    place,
                    zval: 0,
                });
            }
        }
        Ok(())
    }
}
