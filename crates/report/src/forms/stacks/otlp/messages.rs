//! The messages of OpenTelemetry's profiles, of which the fields below have their numbers: `profiles/v1development/profiles.proto`,
//! `resource/v1/resource.proto` and `common/v1/common.proto` of github.com/open-telemetry/opentelemetry-proto. Used by
//! `otlp`.

use prost::{Message, Oneof};

/// `ProfilesData` of the format, and `ExportProfilesServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct File {
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<OfResource>,
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<Tables>,
}

/// `ResourceProfiles` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OfResource {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<Pair>,
}

/// `KeyValue` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Pair {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Value>,
}

impl Pair {
    pub fn new(key: &str, value: Value) -> Self {
        Pair {
            key: key.to_owned(),
            value: Some(value),
        }
    }
}

/// `AnyValue` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(oneof = "Is", tags = "1, 3")]
    pub is: Option<Is>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Is {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl Value {
    pub fn of(is: Is) -> Self {
        Value { is: Some(is) }
    }

    pub fn text(text: &str) -> Self {
        Value::of(Is::Text(text.to_owned()))
    }
}

/// `ScopeProfiles` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OfScope {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub profiles: Vec<Profile>,
}

/// `InstrumentationScope` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, optional, tag = "1")]
    pub kind: Option<Kind>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Counted>,
    #[prost(fixed64, tag = "3")]
    pub began: u64,
    #[prost(uint64, tag = "4")]
    pub nanoseconds: u64,
    #[prost(message, optional, tag = "5")]
    pub period_is: Option<Kind>,
    #[prost(int64, tag = "6")]
    pub period: i64,
}

/// `ValueType` of the format.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Kind {
    #[prost(int32, tag = "1")]
    pub name: i32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

/// `Sample` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Counted {
    #[prost(int32, tag = "1")]
    pub stack: i32,
    #[prost(int32, repeated, tag = "2")]
    pub attributes: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}

/// `ProfilesDictionary` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Tables {
    #[prost(message, repeated, tag = "1")]
    pub mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "2")]
    pub locations: Vec<Location>,
    #[prost(message, repeated, tag = "3")]
    pub functions: Vec<Function>,
    #[prost(message, repeated, tag = "4")]
    pub links: Vec<Link>,
    #[prost(string, repeated, tag = "5")]
    pub texts: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<Attribute>,
    #[prost(message, repeated, tag = "7")]
    pub stacks: Vec<Stack>,
}

/// There is none but that of nothing.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Mapping {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    pub trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Stack {
    #[prost(int32, repeated, tag = "1")]
    pub locations: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Line {
    #[prost(int32, tag = "1")]
    pub function: i32,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    #[prost(int32, tag = "1")]
    pub name: i32,
    #[prost(int32, tag = "3")]
    pub file: i32,
}

/// `KeyValueAndUnit` of the format.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(int32, tag = "1")]
    pub key: i32,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Value>,
}
