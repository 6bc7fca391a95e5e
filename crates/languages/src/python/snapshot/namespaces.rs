//! Finds to what each dict belongs, and the name of each cell's variable. Only the objects that refer to dicts and cells know it, so all
//! objects are read for this first. Used by `snapshot` and `names`.

use super::kinds::Kinds;
use foldhash::HashMap;
use std::time::Instant;
use vm::Memory;
use vm::python::{Error, Python, Reference, Sort};

/// The owner of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// The globals of the module at this address.
    Module(u64),
    /// Of the class at this address: its values are attributes of the class.
    Class(u64),
    /// An object's own `__dict__`: its values are attributes of the object.
    Object,
    /// The VM's own: `sys.modules`, in which every module is.
    Vm,
}

/// The owners of dicts and the names of cells in one Python, by address. It is filled before the objects are added, and used while they
/// are.
#[derive(Debug, Default)]
pub struct Namespaces {
    dicts: HashMap<u64, Namespace>,
    /// Address of the str that names a cell's variable, by the address of the cell.
    cells: HashMap<u64, u64>,
}

impl Namespaces {
    /// Looks at every object that the collector lists.
    ///
    /// # Errors
    /// Its lists cannot be read.
    pub fn read<M: Memory>(
        python: &Python<M>,
        kinds: &mut Kinds,
        until: Instant,
    ) -> Result<Self, Error> {
        let mut found = Namespaces::default();
        python.each_object(&mut |object, class| {
            // The rest has no such names; the reader of the objects reports that the time is over.
            if Instant::now() > until {
                return Ok(());
            }
            // An object that cannot be read adds nothing.
            let _ = found.look(python, kinds, object, class);
            Ok(())
        })?;
        for interpreter in python.interpreters() {
            let modules = python.modules_of(interpreter?)?;
            found.dicts.insert(modules, Namespace::Vm);
        }
        Ok(found)
    }

    /// Notes what an object says about its dict or its cells.
    pub fn look<M: Memory>(
        &mut self,
        python: &Python<M>,
        kinds: &mut Kinds,
        object: u64,
        class: u64,
    ) -> Result<(), Error> {
        let kind = kinds.of(python, class)?;
        match kind.sort {
            Sort::Module => {
                let mut note = |dict, name| {
                    if name == Reference::Dict {
                        self.dicts.insert(dict, Namespace::Module(object));
                    }
                };
                python.references(object, &kind, 0, &mut note)
            }
            Sort::Type => {
                let dict = python.dict_of_class(object)?;
                self.dicts.insert(dict, Namespace::Class(object));
                Ok(())
            }
            Sort::Function => self.cells_of(python, object),
            Sort::Dict | Sort::Tuple | Sort::List | Sort::Cell if !kind.may_have_dict() => Ok(()),
            _ => {
                let dict = python.own_dict(object, class)?;
                if dict != 0 && !python.is_split(dict)? {
                    self.dicts.insert(dict, Namespace::Object);
                }
                Ok(())
            }
        }
    }

    fn cells_of<M: Memory>(&mut self, python: &Python<M>, function: u64) -> Result<(), Error> {
        let Some((closure, code)) = python.closure(function)? else {
            return Ok(());
        };
        let mut names = Vec::new();
        python.each_variable(code, &mut |_, name| names.push(name))?;
        let mut cells = Vec::new();
        python.each_element(closure, &mut |cell| cells.push(cell))?;
        // Free variables come last.
        for (cell, name) in cells.iter().rev().zip(names.iter().rev()) {
            self.cells.insert(*cell, *name);
        }
        Ok(())
    }

    /// The owner of a dict, if known.
    pub fn of(&self, dict: u64) -> Option<Namespace> {
        self.dicts.get(&dict).copied()
    }

    /// Address of the str that names a cell's variable, if it is known.
    pub fn variable(&self, cell: u64) -> Option<u64> {
        self.cells.get(&cell).copied()
    }
}
