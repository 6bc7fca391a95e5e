//! Finds and ranks all frames of one file. Used by `chains`, `difference` and others here, and by the crates `report`
//! and `lancet`.
//!
//! Where call frame information gives the CFA by rsp throughout, it is exact and fast to read, and it is used.
//! Everything else is decoded: functions with a frame pointer or a realigned frame, those without information, and
//! those whose information says that nothing is on the stack, which in assembly is often only half true. With
//! [`Decode::Everything`] all are decoded and both answers are kept.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use process::symbols::Symbols;

use crate::Result;
use crate::callers::Callers;
use crate::cfi::{self, Described};
use crate::decode::{self, Depth};
use crate::functions::{self, Function};
use crate::hints::{self, Hints};
use crate::image::Image;
use crate::imports::Imports;
use crate::names::readable;
use crate::parts;
use crate::variables::{Variable, Variables};

/// Which functions are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decode {
    /// Those whose size call frame information leaves open.
    #[default]
    AsNeeded,
    /// All, so that both answers can be compared.
    Everything,
}

/// How a frame's size was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// From call frame information.
    Cfi,
    /// From the code itself.
    Code,
}

/// The frame of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The addresses of its code.
    pub range: Range<u64>,
    /// Its size in bytes, the return address included; for a dynamic frame the part that the code shows.
    pub bytes: u64,
    /// The address of the instruction after which it is that big.
    pub deepest_at: u64,
    /// How the size was found.
    pub how: How,
    /// Whether it grows by an amount decided at run time (`alloca`, an array of variable length).
    pub dynamic: bool,
    /// How many of `bytes` are padding for an alignment to more than 16 bytes, at its largest.
    pub padding: u64,
    /// Whether it keeps a frame pointer.
    pub frame_pointer: bool,
    /// The size that the other way gave, where both were tried.
    pub otherwise: Option<u64>,
    /// Whether the code is unclear: it holds bytes that are no instruction, or the function is too long.
    pub unclear: bool,
    /// Other pieces that work in the same frame.
    pub parts: Vec<Range<u64>>,
    /// Whether it is one of the functions that Go has for each size of a frame (`is_dispatcher`).
    pub dispatcher: bool,
}

/// All frames of a file.
#[derive(Debug)]
pub struct Scan {
    image: Image,
    symbols: Option<Symbols>,
    imports: std::cell::OnceCell<Imports>,
    callers: std::cell::OnceCell<Callers>,
    variables: std::cell::OnceCell<Variables>,
    frames: Vec<Frame>,
    damaged: usize,
}

impl Scan {
    /// Reads the file at `path`.
    pub fn path(path: &Path, decode: Decode) -> Result<Scan> {
        let image = Image::open(path)?;
        let symbols = Symbols::of_file(path).ok();
        Ok(Scan::new(image, symbols, decode))
    }

    /// Reads a file that is open; `path` is its path.
    pub fn file(path: &Path, file: File, decode: Decode) -> Result<Scan> {
        let again = file.try_clone().ok();
        let image = Image::read(path, file)?;
        let symbols = again.and_then(|file| Symbols::of_open_file(path, file).ok());
        Ok(Scan::new(image, symbols, decode))
    }

    fn new(image: Image, symbols: Option<Symbols>, decode: Decode) -> Scan {
        let (described, damaged) = cfi::read(&image);
        let all = functions::all(&image, described, symbols.as_ref());
        let mut frames = frames(&image, all, decode);
        for frame in &mut frames {
            let name = symbols
                .as_ref()
                .and_then(|all| all.name_at(frame.range.start));
            frame.dispatcher =
                name.is_some_and(|(name, offset)| offset == 0 && is_dispatcher(&name));
        }
        frames.sort_by_key(|frame| (std::cmp::Reverse(frame.bytes), frame.range.start));
        Scan {
            image,
            symbols,
            imports: std::cell::OnceCell::new(),
            callers: std::cell::OnceCell::new(),
            variables: std::cell::OnceCell::new(),
            frames,
            damaged,
        }
    }

    /// Returns the file, with its loaded segments.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns every frame, the biggest first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns how many entries of the call frame information were damaged. An unsound length ends the section.
    pub fn damaged(&self) -> usize {
        self.damaged
    }

    /// Returns the function's name, demangled.
    pub fn name(&self, frame: &Frame) -> Option<String> {
        self.symbol(frame).map(|name| readable(&name))
    }

    /// Returns the function's name as the linker knows it.
    pub fn symbol(&self, frame: &Frame) -> Option<String> {
        self.symbol_at(frame.range.start)
    }

    fn symbol_at(&self, start: u64) -> Option<String> {
        let (name, offset) = self.symbols.as_ref()?.name_at(start)?;
        (offset == 0).then(|| name.into_owned())
    }

    /// Returns the functions that the loader puts into slots of the file.
    pub(crate) fn imports(&self) -> &Imports {
        self.imports.get_or_init(|| Imports::of(&self.image))
    }

    /// Returns what the function calls and which texts it refers to; if it does neither and has no name, its nearest
    /// named caller.
    pub fn hints(&self, frame: &Frame) -> Hints {
        let mut hints = hints::of(&self.image, self.imports(), &frame.range);
        if hints.is_empty() && self.symbol(frame).is_none() {
            let callers = self.callers.get_or_init(|| {
                let pieces = self.frames.iter().flat_map(|frame| {
                    let all = std::iter::once(&frame.range).chain(&frame.parts);
                    all.map(|piece| (piece.clone(), frame.range.start))
                });
                Callers::of(&self.image, pieces.collect())
            });
            let name = |start| Some(readable(&self.symbol_at(start)?));
            hints.caller = callers.named(&self.image, frame.range.start, name);
        }
        hints
    }

    /// Returns the function's largest variable, where DWARF describes it.
    pub fn variable(&self, frame: &Frame) -> Option<Variable> {
        let variables = self.variables.get_or_init(|| {
            let separate = || self.symbols.as_ref()?.debug_file();
            Variables::open(self.image.file(), separate)
        });
        variables.largest(frame.range.start)
    }
}

/// Returns whether a symbol is that of a function that calls another with a frame of a given size: `runtime.call16` to
/// `runtime.call1073741824`, of which `reflect` takes the one that fits the arguments (`runtime/asm_amd64.s`, `reflectcall`), and
/// `debugCall32` to `debugCall65536`, which only a debugger calls. Every Go program has all of them, and none says anything about
/// the program's own frames.
fn is_dispatcher(symbol: &str) -> bool {
    let name = symbol.strip_suffix(".abi0").unwrap_or(symbol);
    let size = name
        .strip_prefix("runtime.call")
        .or_else(|| name.strip_prefix("runtime.debugCall"))
        .or_else(|| name.strip_prefix("debugCall"));
    let size = size.and_then(|digits| digits.parse::<u64>().ok());
    size.is_some_and(|size| size >= 16 && size.is_power_of_two())
}

fn frames(image: &Image, all: Vec<Function>, decode: Decode) -> Vec<Frame> {
    let is_part = |function: &Function| {
        function
            .described
            .as_ref()
            .is_some_and(|described| !described.is_entry())
    };
    let (cut_off, whole): (Vec<_>, Vec<_>) = all.into_iter().partition(is_part);
    let ranges = |functions: &[Function]| -> Vec<Range<u64>> {
        functions
            .iter()
            .map(|function| function.range.clone())
            .collect()
    };
    let owners = parts::owners(image, &ranges(&cut_off), &ranges(&whole));
    let mut frames: Vec<Frame> = whole
        .iter()
        .map(|function| frame(image, function, decode))
        .collect();
    for (part, owner) in cut_off.iter().zip(owners) {
        let part = frame(image, part, decode);
        let owner = owner.and_then(|start| {
            let owner =
                frames[..whole.len()].binary_search_by_key(&start, |frame| frame.range.start);
            frames.get_mut(owner.ok()?)
        });
        let Some(owner) = owner else {
            // No direct jump leads to this part, so it is listed by itself.
            frames.push(part);
            continue;
        };
        owner.otherwise = owner.otherwise.max(part.otherwise);
        if part.bytes > owner.bytes {
            owner.bytes = part.bytes;
            owner.deepest_at = part.deepest_at;
            owner.how = part.how;
        }
        owner.dynamic |= part.dynamic;
        owner.parts.push(part.range);
    }
    frames
}

fn frame(image: &Image, function: &Function, decode: Decode) -> Frame {
    let described = function.described.as_ref();
    let depth = if decode == Decode::Everything || described.is_none_or(wants_decoding) {
        depth(image, function)
    } else {
        None
    };
    let described_depth = described.map_or((0, function.range.start), |described| {
        (described.deepest, described.deepest_at)
    });
    let seen = depth.unwrap_or_default();
    let whole_truth = described.is_some_and(|described| !described.partial);
    // Exact information is used if it describes a frame at all; otherwise the deeper answer counts.
    let how = match described {
        Some(described) if whole_truth && described.deepest > 8 => How::Cfi,
        Some(_) if described_depth.0 >= seen.bytes => How::Cfi,
        _ => How::Code,
    };
    let ((bytes, deepest_at), other) = match how {
        How::Cfi => (described_depth, depth.map(|depth| depth.bytes)),
        How::Code => (
            (seen.bytes, seen.at),
            described.map(|described| described.deepest),
        ),
    };
    Frame {
        range: function.range.clone(),
        bytes,
        deepest_at,
        how,
        dynamic: seen.dynamic,
        padding: if how == How::Code { seen.padding } else { 0 },
        frame_pointer: seen.frame_pointer,
        otherwise: other.filter(|_| decode == Decode::Everything),
        unclear: depth.is_some_and(|depth| depth.unclear)
            || depth.is_none() && described.is_none_or(wants_decoding),
        parts: Vec::new(),
        dispatcher: false,
    }
}

fn wants_decoding(described: &Described) -> bool {
    described.partial || described.deepest <= 8
}

fn depth(image: &Image, function: &Function) -> Option<Depth> {
    let code = image.code_of(&function.range)?;
    decode::depth(code, &function.range, function.described.as_ref())
}

#[cfg(test)]
mod tests {
    use super::is_dispatcher;

    #[test]
    fn functions_of_go_for_each_size() {
        for name in [
            "runtime.call16",
            "runtime.call1073741824.abi0",
            "debugCall32",
        ] {
            assert!(is_dispatcher(name), "{name}");
        }
        for name in [
            "runtime.callers",
            "runtime.call17",
            "main.call16",
            "runtime.call",
            "debugCallV2",
        ] {
            assert!(!is_dispatcher(name), "{name}");
        }
    }
}
