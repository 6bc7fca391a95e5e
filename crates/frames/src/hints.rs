//! Finds hints of what a function without a name does: which functions of other libraries it calls and
//! which texts it refers to. A reader who knows the program recognises it by them. Used by `live::loaded` and `scan`.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

use crate::image::Image;
use crate::imports::Imports;
use crate::names::readable;

/// Limit of the calls and of the texts that are kept, so that they fit into a line.
const MOST_CALLS: usize = 3;
const MOST_TEXTS: usize = 2;
/// Texts shorter than this, in bytes, are formats and separators and say nothing.
const SHORTEST_TEXT: usize = 5;
const LONGEST_TEXT: usize = 40;

/// The compiler adds calls of it, so it says nothing about the program.
const OF_THE_COMPILER: &str = "__stack_chk_fail";
/// Functions that are called everywhere; they are named only if there is nothing else.
const COMMON: [&str; 11] = [
    "__assert_fail",
    "__tls_get_addr",
    "free",
    "malloc",
    "memcpy",
    "memmove",
    "memset",
    "strlen",
    "strcmp",
    "abort",
    "__errno_location",
];

/// What the code of a function shows of its purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Functions of other libraries, the most informative first.
    pub calls: Vec<String>,
    /// Texts, cut to a readable length.
    pub texts: Vec<String>,
    /// If there are neither: the nearest function with a name that calls it, directly or through
    /// others.
    pub caller: Option<String>,
}

impl Hints {
    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.texts.is_empty()
    }
}

/// Reads the code of one function for hints.
pub(crate) fn of(image: &Image, imports: &Imports, range: &Range<u64>) -> Hints {
    let mut hints = Hints::default();
    let Some(code) = image.code_of(range) else {
        return hints;
    };
    let mut common = Vec::new();
    for instruction in Decoder::with_ip(64, code, range.start, DecoderOptions::NONE) {
        let target = match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall | FlowControl::UnconditionalBranch => {
                imports.reached_by(image, &instruction)
            }
            _ => None,
        };
        if let Some(name) = target.filter(|name| *name != OF_THE_COMPILER) {
            let name = readable(name);
            let list = if COMMON.contains(&name.as_str()) {
                &mut common
            } else {
                &mut hints.calls
            };
            if !list.contains(&name) {
                list.push(name);
            }
        }
        if instruction.mnemonic() == Mnemonic::Lea
            && instruction.is_ip_rel_memory_operand()
            && hints.texts.len() < MOST_TEXTS
            && let Some(text) = text(image, instruction.ip_rel_memory_address())
            && !hints.texts.contains(&text)
        {
            hints.texts.push(text);
        }
    }
    if hints.calls.is_empty() {
        hints.calls = common;
    }
    hints.calls.truncate(MOST_CALLS);
    hints
}

/// Returns the text at `address`, if its bytes are printable up to a NUL.
fn text(image: &Image, address: u64) -> Option<String> {
    if image.is_code(address) {
        return None;
    }
    let bytes = image.rest(address)?;
    let bytes = &bytes[..bytes.iter().take(4096).position(|&byte| byte == 0)?];
    let text = std::str::from_utf8(bytes).ok()?;
    let readable = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if bytes.len() < SHORTEST_TEXT
        || !text.chars().all(readable)
        || !text.contains(char::is_alphabetic)
    {
        return None;
    }
    let cut: String = text.trim().chars().take(LONGEST_TEXT).collect();
    let more = if cut.len() < text.trim().len() {
        "…"
    } else {
        ""
    };
    Some(format!("{}{more}", cut.replace(['\n', '\t'], " ")))
}
