//! The roots of a PHP: variables and constants, by their names.

use super::kinds::Special;
use super::walk::Walk;
use foldhash::HashSet;
use heap::{RootKind, RootName};
use vm::php::Point;
use vm::php::heap::{Place, Root};

/// Limit of the entries of tables even in a small process: the VM's own functions and classes lie in mapped
/// files.
const SMALL: u64 = 1 << 20;
/// Limit of the named roots.
const MOST: usize = 1 << 22;

impl Walk<'_> {
    /// Adds the roots. What each of them leads to is queued.
    pub fn roots(&mut self) {
        let mut found = Vec::new();
        let most = self.most.saturating_add(SMALL);
        let mut lost = 0;
        let walked = self
            .php
            .each_root(&self.places, most, &mut |root| match found.len() < MOST {
                true => found.push(root),
                false => lost += 1,
            });
        self.builder.lose_roots(lost);
        self.unreadable += walked.unwrap_or(1);
        let mut met = HashSet::default();
        for root in found {
            // One value can be reached by two names: a variable of the main program is also one of its frame.
            let is_again = root.zval != 0 && !met.insert(root.zval);
            if is_again || !self.meet(root.thing) {
                continue;
            }
            if matches!(root.place, Place::Variables(_)) {
                self.special.insert(root.thing.address, Special::Variables);
            }
            let name = self.root_name(&root);
            self.builder.root(root.thing.address, name);
            self.held.found(root.thing.address);
        }
    }

    fn root_name(&mut self, root: &Root) -> RootName {
        let (kind, written) = self.written(root);
        match written {
            Some(text) => RootName::named(kind, self.builder.text(text.as_bytes())),
            None => RootName::new(kind),
        }
    }

    fn written(&self, root: &Root) -> (RootKind, Option<String>) {
        let text = |before: String, name: vm::Text| {
            let mut written = before;
            self.php.write_text(name, 256, &mut written).ok()?;
            Some(written)
        };
        let of_class = |class: u64, sign: &str| {
            let mut written = String::new();
            let name = self.php.name_of_class(class).ok()?;
            self.php.write_text(name, 256, &mut written).ok()?;
            Some(written + sign)
        };
        let of_function = |before: &str, function: u64| {
            let mut written = before.to_owned();
            self.php.write_function_name(function, &mut written).ok()?;
            Some(written)
        };
        match root.place {
            Place::Global(name) => (RootKind::Global, text("$".into(), name)),
            Place::Static(class, name) => {
                let before = of_class(class, "::$");
                (
                    RootKind::Global,
                    before.and_then(|before| text(before, name)),
                )
            }
            Place::Variables(function) => (RootKind::Global, of_function("static in ", function)),
            Place::Constant(name) => (RootKind::Constant, text(String::new(), name)),
            Place::ClassConstant(class, name) => {
                let before = of_class(class, "::");
                (
                    RootKind::Constant,
                    before.and_then(|before| text(before, name)),
                )
            }
            Place::Default(class) => (RootKind::Vm, of_class(class, "'s defaults")),
            Place::This(function) => (RootKind::Frame, of_function("$this in ", function)),
            Place::Resource => (RootKind::Vm, Some("resources".to_owned())),
            Place::Local(function, opline, name) => {
                let variable = text("local variable $".into(), name);
                let place = variable.and_then(|variable| {
                    let place = of_function(&format!("{variable} in "), function)?;
                    Some(place + &self.line(Point { function, opline }))
                });
                (RootKind::Frame, place)
            }
        }
    }

    /// Returns file and line of a point after a space; an empty text where they cannot be read.
    fn line(&self, point: Point) -> String {
        let mut place = " ".to_owned();
        let mut written = || -> Result<String, vm::php::Error> {
            let file = self.php.file(point)?;
            self.php.write_text(file, 1024, &mut place)?;
            let line = self.php.line(point)?;
            Ok(format!("{place}:{line}"))
        };
        written().unwrap_or_default()
    }
}
