//! `lancet mcp`: the commands as tools of an assistant, by the Model Context Protocol on standard input and output (docs/mcp.md).
//!
//! A tool is a command, and its answer the text that the command has for people, which says the verdict first: each call is a lancet of its own that we start, so nothing of what
//! commands do is written twice, and no call can take the server with it. Which words of the command line a tool has is in one table
//! ([`tools`]); the texts of its schema are those of the help.
//!
//! The protocol is a line of JSON-RPC each way, of which tools need five methods. Its Rust kit (`rmcp`) was tried: it brings 40 crates and an
//! asynchronous runtime for them, more than a minute of a core in each build.

mod allowed;
mod args;
mod call;
mod rpc;
mod run;
mod tools;

pub use args::McpArgs;
pub use run::run;
