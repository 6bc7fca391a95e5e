//! What stands in the place of functions: files, classes, or gems and packages. Used by `profile` and `views`, and by the
//! crates `report` and `lancet`.

use vm::library::within;

use super::frame::{Frame, Function, Kind};

/// What the functions of a [`Profile`](super::Profile) are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Functions.
    #[default]
    Function,
    /// The files that they are in.
    File,
    /// The threads that run them, by their names.
    Thread,
    /// The classes that they belong to; of what belongs to none the file.
    Class,
    /// The gems, packages, native libraries and language cores that these belong to, or `app` ([`languages::owner()`]).
    Package,
}

/// What stands for functions that have no file.
pub(super) const NO_FILE: &str = "(no file)";

impl By {
    /// The word for one of them, and for several.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            By::Function => ["function", "functions"],
            By::File => ["file", "files"],
            By::Thread => ["thread", "threads"],
            By::Class => ["class", "classes"],
            By::Package => ["package", "packages"],
        }
    }

    /// Returns what stands for the frames of a stack. Where one of a file calls another of the same, that is one.
    pub(super) fn groups(self, frames: Vec<&Frame>) -> Vec<Frame> {
        let mut groups: Vec<Frame> = frames.into_iter().map(|frame| self.group(frame)).collect();
        if self != By::Function {
            groups.dedup_by(|inner, outer| inner.function == outer.function);
        }
        groups
    }

    /// Returns what stands for a frame. It has no file and no line: what it is of is its name.
    fn group(self, frame: &Frame) -> Frame {
        let function = &frame.function;
        let name = match self {
            By::Function | By::Thread => return frame.clone(),
            // It is of no file.
            _ if function.kind == Kind::Wait => return frame.clone(),
            By::Class if class(function).is_some() => class(function).unwrap_or_default(),
            _ if function.file.is_empty() => NO_FILE,
            By::Package if function.kind == Kind::Script => languages::owner(&function.file),
            By::File | By::Class | By::Package => within(&function.file),
        };
        Frame {
            function: Function {
                name: name.to_owned(),
                file: String::new(),
                kind: function.kind,
            },
            line: 0,
            library: frame.library,
        }
    }
}

/// Returns the class of a function, by its name: `Shop::Cart` of `block in Shop::Cart#total`, `Shop::Cart.find` and `Shop::Cart::total`.
fn class(function: &Function) -> Option<&str> {
    if function.kind != Kind::Script {
        return None;
    }
    let (_, name) = function
        .name
        .rsplit_once(" in ")
        .unwrap_or(("", &function.name));
    let parts = ["#", ".", "::"]
        .iter()
        .find_map(|part| name.rsplit_once(part));
    let (class, _) = parts?;
    // What is within a function has no class, and neither has the body of a file.
    let is_name = !class.is_empty() && !class.contains(['<', '/', ' ']);
    is_name.then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_class_of_its_name() {
        for (name, expected) in [
            ("Shop::Cart#total", Some("Shop::Cart")),
            ("block (2 levels) in Shop::Cart#total", Some("Shop::Cart")),
            ("Shop::Cart.find", Some("Shop::Cart")),
            ("Cart::total", Some("Cart")),
            ("total", None),
            ("<main>", None),
            ("outer.<locals>.inner", None),
        ] {
            let function = Function {
                name: name.to_owned(),
                file: "/srv/a".to_owned(),
                kind: Kind::Script,
            };
            assert_eq!(class(&function), expected, "{name}");
        }
    }
}
