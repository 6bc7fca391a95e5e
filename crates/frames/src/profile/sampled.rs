//! The frames of a thread's stack as a sample has them. Used by `profile`, and by crate `report`.

use super::frame::{Frame, Function, Kind, named};
use crate::live::loaded::Modules;
use crate::live::scripts::Script;
use crate::live::stack::{Line, Stack};
use crate::live::unwind::End;

/// What stands in place of outer frames that are missing.
pub const MISSING: &str = "(outer frames not found)";

/// Returns the frames of a stack as a sample has them.
pub(super) fn frames(modules: &Modules, interpreters: &[usize], stack: &Stack) -> Vec<Frame> {
    let scripts: Vec<&Script> = stack.scripts().filter(|script| script.is_known()).collect();
    let of_line = |line: &Line| {
        let frame = native(modules, line);
        let is_interpreter = line
            .module
            .is_some_and(|module| interpreters.contains(&module));
        Frame {
            library: frame.library || is_interpreter,
            ..frame
        }
    };
    if scripts.is_empty() {
        let mut frames: Vec<Frame> = stack.lines.iter().rev().map(of_line).collect();
        if stack.end != End::Whole || stack.is_broken {
            frames.insert(0, named(MISSING));
        }
        return frames;
    }
    // Frames of the VM's own code that runs the script have the script's frames with them.
    let inner = stack
        .lines
        .iter()
        .take_while(|line| line.scripts.is_empty());
    let called = inner
        .last()
        .is_some()
        .then(|| stack.lines.first())
        .flatten();
    let named = called.filter(|line| {
        let function = line.function.as_ref();
        function.is_some_and(|function| function.name.is_some())
    });
    // It is the interpreter's or an extension's: the program is its script.
    let of_library = |line: &Line| Frame {
        library: true,
        ..of_line(line)
    };
    let missing = stack.is_broken.then(|| self::named(MISSING));
    let scripts = scripts.into_iter().rev().map(script);
    let scripts = missing.into_iter().chain(scripts);
    scripts.chain(named.map(of_library)).collect()
}

/// Returns the frame of a script as samples have it.
pub fn script(script: &Script) -> Frame {
    Frame {
        function: Function {
            name: script.full_name().to_owned(),
            file: script.path.clone(),
            kind: Kind::Script,
        },
        line: script.line,
        library: script.is_library(),
    }
}

fn native(modules: &Modules, line: &Line) -> Frame {
    let loaded = line.module.and_then(|module| modules.get(module));
    let function = line.function.as_ref();
    let name = function.and_then(|function| function.name.clone());
    let place = || {
        let start = function?.start.wrapping_sub(loaded?.bias);
        Some(format!("{start:#x}"))
    };
    Frame {
        function: Function {
            name: name.or_else(place).unwrap_or_else(|| "?".to_owned()),
            file: loaded.map_or_else(String::new, |loaded| loaded.name().to_owned()),
            kind: Kind::Native,
        },
        line: 0,
        library: loaded
            .is_none_or(|loaded| loaded.is_c_library() || loaded.name().starts_with("lib")),
    }
}
