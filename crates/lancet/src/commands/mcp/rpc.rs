//! The messages: JSON-RPC 2.0, an object a line (modelcontextprotocol.io, "stdio").

use std::io::{self, BufRead, Read, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// The longest line that is read.
const LONGEST: u64 = 1 << 20;

/// Codes of JSON-RPC's errors.
pub const NOT_UNDERSTOOD: i32 = -32700;
/// See [`NOT_UNDERSTOOD`].
pub const NO_REQUEST: i32 = -32600;
/// See [`NOT_UNDERSTOOD`].
pub const NO_METHOD: i32 = -32601;
/// See [`NOT_UNDERSTOOD`].
pub const WRONG_PARAMETERS: i32 = -32602;

/// A message that was read.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// Something is asked, and the answer has this id.
    Request(Value, String, Map<String, Value>),
    /// Something is said.
    Notice(String, Map<String, Value>),
    /// It is none of these: the error's code, and why.
    Wrong(Value, i32, &'static str),
}

/// Reads the next message; `None`: there is none any more.
///
/// # Errors
/// Those of the stream.
pub fn read(from: &mut impl BufRead) -> io::Result<Option<Message>> {
    loop {
        let mut line = Vec::new();
        from.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
            from.skip_until(b'\n')?;
            let why = "a message has at most 1 MiB";
            return Ok(Some(Message::Wrong(Value::Null, NO_REQUEST, why)));
        }
        if !line.trim_ascii().is_empty()
            && let Some(message) = understood(&line)
        {
            return Ok(Some(message));
        }
    }
}

/// Returns what a line says; `None`: it is an answer, and we ask nothing.
fn understood(line: &[u8]) -> Option<Message> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Some(Message::Wrong(
            Value::Null,
            NOT_UNDERSTOOD,
            "that is no JSON",
        ));
    };
    let id = value.get("id").cloned();
    let wrong = |code, why| {
        let id = id.clone().unwrap_or_default();
        Some(Message::Wrong(id, code, why))
    };
    if value.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return wrong(
            NO_REQUEST,
            "a message is one object, with \"jsonrpc\": \"2.0\"",
        );
    }
    let parameters = match value.get("params") {
        None | Some(Value::Null) => Some(Map::new()),
        Some(parameters) => parameters.as_object().cloned(),
    };
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
    match (value.get("method").and_then(Value::as_str), &id, parameters) {
        (Some(method), Some(id), Some(parameters)) if is_id(id) => {
            Some(Message::Request(id.clone(), method.into(), parameters))
        }
        (Some(_), Some(id), None) if is_id(id) => wrong(WRONG_PARAMETERS, "params is an object"),
        (Some(method), None, Some(parameters)) => Some(Message::Notice(method.into(), parameters)),
        // What is said wants no answer, not even that it is wrong.
        (Some(_), None, None) => None,
        (None, ..) if value.get("result").is_some() || value.get("error").is_some() => None,
        _ => wrong(
            NO_REQUEST,
            "a message has a method, and if it wants an answer an id, which is a text or a whole number",
        ),
    }
}

/// Writes messages, from several threads.
pub struct Out<W>(Mutex<W>);

impl<W: Write> Out<W> {
    /// To there.
    pub fn new(to: W) -> Self {
        Out(Mutex::new(to))
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn answer(&self, id: &Value, result: Value) -> io::Result<()> {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// Says why a request has no answer.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn refuse(&self, id: &Value, code: i32, why: &str) -> io::Result<()> {
        let error = json!({"code": code, "message": why});
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }

    fn write(&self, message: &Value) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(format!("{message}\n").as_bytes())?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Message> {
        let mut from = text.as_bytes();
        let next = || read(&mut from).expect("it is memory");
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn messages_are_told_apart() {
        let text = concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "\n\n",
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":4,"result":{}}"#,
            "\nnonsense\n[]\n",
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":"{}"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"x","params":[]}"#,
            "\n",
            r#"{"id":8,"method":"x"}"#,
        );
        let said = all(text);
        assert_eq!(
            said[0],
            Message::Request(json!(1), "ping".into(), Map::new())
        );
        assert!(
            matches!(&said[1], Message::Notice(method, given) if method.ends_with("cancelled") && given["requestId"] == 1)
        );
        assert!(matches!(said[2], Message::Wrong(_, NOT_UNDERSTOOD, _)));
        assert!(matches!(said[3], Message::Wrong(_, NO_REQUEST, _)));
        assert!(matches!(said[4], Message::Wrong(_, NO_REQUEST, _)));
        assert!(matches!(said[5], Message::Wrong(_, NO_REQUEST, _)));
        assert!(matches!(&said[6], Message::Wrong(id, WRONG_PARAMETERS, _) if *id == 7));
        assert!(matches!(&said[7], Message::Wrong(id, NO_REQUEST, _) if *id == 8));
        assert_eq!(said.len(), 8);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let text = format!(
            "{}\n{}\n",
            "x".repeat(3 << 20),
            r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#
        );
        let said = all(&text);
        assert!(matches!(said[0], Message::Wrong(_, NO_REQUEST, _)));
        assert!(matches!(said[1], Message::Request(..)));
        assert_eq!(said.len(), 2);
    }
}
