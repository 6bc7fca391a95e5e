//! Requests and answers: one JSON object a line, both ways. Used by `run`, `blocks` and `watches`.
//!
//! ```text
//!   guest      {"id":7,"do":"count","block":3}
//!   companion  {"id":7,"record":{"path":"app.rb","line":12,"type":"String","live":100,"born":0}}
//!              {"id":7,"ok":{}}                        or {"id":7,"error":"why, and what to do"}
//! ```
//!
//! A request has any number of records and then one end; the third kind of end is `gone`, of a block or a watch that is not
//! there any more. The guest drops answers of other numbers than the one it waits for:
//! they are to a request that an exception has interrupted, or say by number 0 that an answer takes its time.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use crate::ui::advice::explain;
use crate::ui::terminal::Stream;

/// Rises when a request or an answer changes its meaning or is taken away.
pub const PROTOCOL: u32 = 4;

/// Bytes of the longest line. After a longer one the companion ends, as if the guest had closed its end.
const LONGEST: usize = 1 << 20;

/// What the guest asks for.
#[derive(Debug, Deserialize)]
pub struct Request {
    /// The number that all answers carry.
    pub id: u64,
    /// What is to be done.
    #[serde(flatten)]
    pub what: What,
}

/// What a request asks for; the name is that of `do` in JSON.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum What {
    /// Begin a block, a stretch of the program's time whose births are told apart.
    Track {
        /// It will be asked what was made in it, dead or alive.
        #[serde(default)]
        births: bool,
    },
    /// Tell the objects of a block by line and type. What is made from then on is of no block, until `resume`.
    Count {
        /// The number that `track` answered.
        block: u64,
        /// Collect garbage before the count.
        #[serde(default)]
        collect: bool,
    },
    /// Tell the living objects of a block, one by one. What is made from then on is of no block, as after `count`.
    Objects {
        /// The number that `track` answered.
        block: u64,
        /// Tell the contents of the objects, too, of those that have any.
        #[serde(default)]
        contents: bool,
    },
    /// Have what is made from now on counted for the blocks that are open again; an error if this one is not open.
    Resume {
        /// The number that `track` answered.
        block: u64,
    },
    /// Forget what was made in a block.
    Forget {
        /// The number that `track` answered.
        block: u64,
    },
    /// End a block; nothing can be asked about it from then on.
    End {
        /// The number that `track` answered.
        block: u64,
    },
    /// Give the thread of this kernel id an account of its own births.
    Account {
        /// The id, in the program's own namespace.
        thread: u64,
    },
    /// Begin to watch calls of the program.
    Watch {
        /// The command that watches: `calls` or `syscalls`.
        command: String,
        /// The words of its command line, without the process and `--json`, which the companion adds.
        words: Vec<String>,
    },
    /// Begin to keep the last calls of these groups of functions, for the sums between two marks.
    Counters {
        /// The names of the groups, by `counters::GROUPS`; `memory` is `malloc` and `free`, and `waits` all functions that only wait.
        groups: Vec<String>,
    },
    /// Tell what a thread has called in stretches between two marks that it has set.
    Between {
        /// The number that `counters` answered.
        watch: u64,
        /// Stretches of its time, in their order: the number of the mark at the beginning, and of that at the end.
        stretches: Vec<(u64, u64)>,
        /// Tell also what the calls were about, by line, and when they were made.
        #[serde(default)]
        details: bool,
    },
    /// Tell the page of requests: HTML with a mark in the place of its data.
    Page,
    /// End a watch, and tell what it has seen.
    Finish {
        /// The number that `watch` answered.
        watch: u64,
    },
    /// Leave the program and end, though somebody else has the pipes too: a child of the program that was forked. Nobody waits for an answer.
    Leave,
    /// Run a command that ends by itself: `stack`, `heap`.
    Run {
        /// `stack` or `heap`: a command of lancet that ends by itself.
        command: String,
        /// The words of its command line, as of `watch`.
        words: Vec<String>,
    },
}

/// Why a request is not done, in words for the program's author.
pub enum Refusal {
    /// It cannot be done, for this reason.
    Refused(String),
    /// What it is about is not there any more.
    Gone(String),
}

impl Refusal {
    /// Says an error and what to do about it.
    pub fn of(error: process::Error) -> Self {
        Refusal::Refused(format!("{:#}", explain(error)))
    }
}

/// The connection to the guest: requests come from standard input, and answers go to standard output. Both are the same socket, or pipes.
pub struct Channel {
    input: io::Stdin,
    output: io::BufWriter<File>,
    /// What was read and is no line yet.
    pending: Vec<u8>,
}

/// What the guest has to say.
pub enum Heard {
    /// A request, or why a line is none.
    Request(Result<Request, String>),
    /// No line has come within the time that was given.
    Nothing,
    /// It has closed its end: it is gone, or wants no more. Or it has sent a line that is longer than any request.
    End,
}

impl Channel {
    /// Takes standard input and output, which lead to the guest.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn new() -> io::Result<Self> {
        Ok(Channel {
            input: io::stdin(),
            output: io::BufWriter::new(Stream::Stdout.open()?),
            pending: Vec::new(),
        })
    }

    /// Writes the first line, which says which lancet and which protocol this is.
    pub fn greet(&mut self) -> io::Result<()> {
        let (lancet, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
        let hello = serde_json::json!({"lancet": lancet, "protocol": PROTOCOL, "pid": pid});
        report::json::line(&mut self.output, &hello)?;
        self.output.flush()
    }

    /// Waits for the next request, for at most so long.
    pub fn hear(&mut self, patience: Duration) -> io::Result<Heard> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                let request = serde_json::from_slice(&line);
                return Ok(Heard::Request(request.map_err(|why| why.to_string())));
            }
            if self.pending.len() > LONGEST {
                return Ok(Heard::End);
            }
            let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
            let mut wanted = [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)];
            match poll(&mut wanted, timeout) {
                Ok(0) | Err(Errno::EINTR) => return Ok(Heard::Nothing),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 4096];
            // From the descriptor itself: what the standard library had read ahead `poll` would not tell.
            match nix::unistd::read(self.input.as_fd(), &mut bytes) {
                // A socket whose other end was closed before all answers were read says so by an error.
                Ok(0) | Err(Errno::ECONNRESET) => return Ok(Heard::End),
                Ok(count) => self.pending.extend_from_slice(&bytes[..count]),
                Err(Errno::EINTR) => return Ok(Heard::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns what writes the answers to one request.
    pub fn answer(&mut self, id: u64) -> Answer<'_> {
        Answer {
            id,
            out: &mut self.output,
        }
    }
}

/// Writes the answers to one request.
pub struct Answer<'a> {
    id: u64,
    out: &'a mut dyn Write,
}

impl Answer<'_> {
    /// Writes a record, of which an answer may have any number.
    pub fn record(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.line("record", record)
    }

    /// Writes a record that is a line of JSON already.
    pub fn raw_record(&mut self, line: &[u8]) -> io::Result<()> {
        write!(self.out, "{{\"id\":{},\"record\":", self.id)?;
        self.out.write_all(line.trim_ascii_end())?;
        self.out.write_all(b"}\n")
    }

    /// Says that the answer goes on, to a guest that waits: a line of no request, which it drops.
    pub fn wait(&mut self) -> io::Result<()> {
        self.out.write_all(b"{\"id\":0,\"record\":null}\n")?;
        self.out.flush()
    }

    /// Ends the answer: the request is done, with this result.
    pub fn done(mut self, result: &impl Serialize) -> io::Result<()> {
        self.line("ok", result)?;
        self.out.flush()
    }

    /// Ends the answer: the request could not be done.
    pub fn failed(mut self, why: &Refusal) -> io::Result<()> {
        match why {
            Refusal::Refused(why) => self.line("error", why)?,
            Refusal::Gone(why) => self.line("gone", why)?,
        }
        self.out.flush()
    }

    fn line(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        write!(self.out, "{{\"id\":{},\"{name}\":", self.id)?;
        let mut text = Vec::new();
        report::json::line(&mut text, value)?;
        text.pop();
        text.extend_from_slice(b"}\n");
        self.out.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_records_and_one_end() {
        let mut out = Vec::new();
        let mut answer = Answer {
            id: 7,
            out: &mut out,
        };
        answer.wait().unwrap();
        answer.record(&"ä\n").unwrap();
        answer.raw_record(b"{\"record\":\"call\"}\n").unwrap();
        answer
            .failed(&Refusal::Refused("no \"guest\"".into()))
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let wanted = "{\"id\":0,\"record\":null}\n{\"id\":7,\"record\":\"ä\\n\"}\n{\"id\":7,\"record\":{\"record\":\"call\"}}\n{\"id\":7,\"error\":\"no \\\"guest\\\"\"}\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn requests_are_read_by_their_names() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        let count = read(r#"{"id":1,"do":"count","block":3}"#).unwrap();
        assert!(matches!(
            (count.id, count.what),
            (
                1,
                What::Count {
                    block: 3,
                    collect: false
                }
            )
        ));
        assert!(matches!(
            read(r#"{"id":2,"do":"resume","block":3}"#).unwrap().what,
            What::Resume { block: 3 }
        ));
        assert!(read(r#"{"id":2,"do":"exec"}"#).is_err());
        assert!(read(r#"{"do":"resume","block":3}"#).is_err());
    }
}
