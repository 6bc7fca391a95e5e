//! A record of `lancet calls --json`, as much of it as is needed (docs/json.md). Used by `counters` and `texts`.

use serde::Deserialize;

use super::functions::{self, Function};

/// The name that a mark asks for begins so, and ends with its number.
const MARK: &str = "LANCET_TRACE_";
/// The function that sets a mark.
pub const SETS_MARK: &str = "getenv";

#[derive(Deserialize)]
pub struct Record {
    pub tid: u32,
    pub time_ns: u64,
    duration_ns: Option<u64>,
    function: String,
    pub arguments: Vec<String>,
    registers: Vec<String>,
    rax: Option<String>,
    place: Option<Place>,
    library: Option<Place>,
}

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct Place {
    pub path: Option<String>,
    pub line: Option<u32>,
}

/// What a record is.
pub enum Is {
    /// A mark with this number.
    Mark(u64),
    /// A call of a function that is counted.
    Call(&'static Function),
}

impl Record {
    /// Reads a line that is a call which has ended.
    pub fn of(line: &[u8]) -> Option<Record> {
        if !line.starts_with(b"{\"record\":\"call\"") {
            return None;
        }
        let record: Record = serde_json::from_slice(line).ok()?;
        record.end().map(|_| record)
    }

    /// When the call ended.
    pub fn end(&self) -> Option<u64> {
        self.time_ns.checked_add(self.duration_ns?)
    }

    /// What it is; `None`: nothing that is counted. Not what code below the folder `hidden` calls.
    pub fn is(&self, hidden: Option<&str>) -> Option<Is> {
        if self.function == SETS_MARK {
            let text = self.arguments.first()?.trim_matches('"');
            return text.strip_prefix(MARK)?.parse().ok().map(Is::Mark);
        }
        let is_hidden = |place: &Option<Place>| {
            let path = place.as_ref().and_then(|place| place.path.as_deref());
            matches!((path, hidden), (Some(path), Some(folder)) if path.starts_with(folder))
        };
        if is_hidden(&self.place) || is_hidden(&self.library) {
            return None;
        }
        functions::named(&self.function).map(Is::Call)
    }

    /// The line of the application, or, where there is none, that of a library.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref().or(self.library.as_ref())
    }

    /// The registers of the arguments.
    pub fn registers(&self) -> Vec<u64> {
        let words = self.registers.iter();
        words.filter_map(|text| word(text)).collect()
    }

    /// The register of the result.
    pub fn result(&self) -> u64 {
        self.rax.as_deref().and_then(word).unwrap_or_default()
    }
}

fn word(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
