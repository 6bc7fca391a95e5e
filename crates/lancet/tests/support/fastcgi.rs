//! A php-fpm and its client: FastCGI 1.0, one request a connection.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Guest, LIMIT, TempDir, children, installed, until};

/// The program of a php-fpm.
const PROGRAM: &str = "php-fpm8.2";

/// Kinds of records: a request begins, its parameters, its input; what it answers.
const BEGIN: u8 = 1;
const PARAMETERS: u8 = 4;
const INPUT: u8 = 5;
const OUTPUT: u8 = 6;
/// The role of a responder, and that the connection ends with the answer.
const RESPONDER: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
/// Bytes of a record before its content: version, kind, request (2), length (2), padding, nothing.
const HEADER: usize = 8;

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a short text");
    let [high, low] = length.to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, high, low, 0, 0];
    bytes.extend_from_slice(content);
    bytes
}

/// A php-fpm with so many workers that listen, where they do, and their ids; `None` where there is none.
pub fn fpm(folder: &TempDir, workers: usize) -> Option<(Guest, PathBuf, Vec<i32>)> {
    if !installed(PROGRAM) {
        return None;
    }
    let [configuration, socket] = ["php.conf", "socket"].map(|name| folder.join(name));
    let text = format!(
        "[global]\nerror_log = {0}/php.log\ndaemonize = no\n[www]\nuser = root\ngroup = root\nlisten = {0}/socket\n\
         pm = static\npm.max_children = {workers}\n",
        folder.join("").display()
    );
    std::fs::write(&configuration, text).expect("a file");
    let mut command = Command::new(PROGRAM);
    command.args(["-F", "-R", "-y"]).arg(&configuration);
    let guest = Guest::start(PROGRAM, command);
    let pids = until(LIMIT, "workers that listen", || {
        let pids = children(guest.pid);
        (pids.len() == workers && UnixStream::connect(&socket).is_ok()).then_some(pids)
    });
    Some((guest, socket, pids))
}

/// The body that a script answers to `?NUMBER`.
pub fn asked(socket: &Path, script: &Path, number: u64) -> String {
    let script = script.display().to_string();
    let query = number.to_string();
    let mut parameters = Vec::new();
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_FILENAME", &script),
        ("QUERY_STRING", &query),
    ] {
        // Lengths up to 127 are one byte.
        let lengths = [name.len(), value.len()].map(|length| i8::try_from(length).expect("short"));
        parameters.extend(lengths.map(|length| length as u8));
        parameters.extend_from_slice(name.as_bytes());
        parameters.extend_from_slice(value.as_bytes());
    }
    let mut stream = UnixStream::connect(socket).expect("php-fpm listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let request = [
        record(BEGIN, &RESPONDER),
        record(PARAMETERS, &parameters),
        record(PARAMETERS, &[]),
        record(INPUT, &[]),
    ];
    stream.write_all(&request.concat()).expect("it reads");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers");
    let mut rest = bytes.as_slice();
    let mut output = Vec::new();
    while let Some((header, content)) = rest.split_first_chunk::<HEADER>() {
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[1] == OUTPUT {
            output.extend_from_slice(&content[..length]);
        }
        rest = &content[length + usize::from(header[6])..];
    }
    let text = String::from_utf8(output).expect("text");
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
    body.unwrap_or_else(|| panic!("no answer: {text:?}"))
        .to_owned()
}
