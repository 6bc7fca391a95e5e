//! Places in programs: lines and functions of scripts, and addresses. Used by `calls`, `heap` and others here, and by
//! crate `report`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// A place in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Place<'a> {
    /// The file; null: the place is in no file (code of the VM, of `eval`).
    pub path: Option<Cow<'a, str>>,
    /// The line, from 1; null: not known, or the answer is about the whole file or function.
    pub line: Option<u32>,
    /// The function or method, as the code itself names it; null: not known, or the answer is about the line.
    pub function: Option<Cow<'a, str>>,
    /// The same with its class, `Shop::Order#total`, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qualified: Option<Cow<'a, str>>,
}

impl<'a> Place<'a> {
    /// A place of which each of these is known unless it is empty, or 0.
    pub fn new(
        path: impl Into<Cow<'a, str>>,
        line: u32,
        function: impl Into<Cow<'a, str>>,
    ) -> Self {
        let known = |text: Cow<'a, str>| Some(text).filter(|text| !text.is_empty());
        Place {
            path: known(path.into()),
            line: Some(line).filter(|line| *line != 0),
            function: known(function.into()),
            qualified: None,
        }
    }

    /// The same with texts of its own.
    pub fn owned(self) -> Place<'static> {
        let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        Place {
            path: owned(self.path),
            line: self.line,
            function: owned(self.function),
            qualified: owned(self.qualified),
        }
    }
}

/// An address, as a text in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

#[cfg(test)]
impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^0x[0-9a-f]+$", "description": "An address, as a text in hexadecimal." })
    }
}
