//! Clients that ask a server again and again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use super::LIMIT;

/// Clients at work, each with one request at a time. Ended by [`Load::end`].
pub struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

/// The body that a server answers to `GET /?NUMBER`.
pub fn ask(port: u16, number: u64) -> String {
    get(port, &format!("/?{number}"))
}

/// The answer of the server to a request of this path.
pub fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    // In one piece: a server may read what is there before the rest has come.
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    body.unwrap_or_else(|| panic!("no answer: {answer:?}"))
        .to_owned()
}

impl Load {
    /// So many clients; `is_right` is asked about each answer, with the number that was sent. Waits until the first is there.
    pub fn start(port: u16, clients: usize, is_right: fn(u64, &str) -> bool) -> Self {
        Load::asking(clients, is_right, move |number| ask(port, number))
    }

    /// The same of a server that is asked in another way.
    pub fn asking(
        clients: usize,
        is_right: fn(u64, &str) -> bool,
        ask: impl Fn(u64) -> String + Clone + Send + 'static,
    ) -> Self {
        let (stop, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = || {
            let (stop, answers, ask) = (Arc::clone(&stop), Arc::clone(&answers), ask.clone());
            thread::spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let answer = ask(number);
                    assert!(is_right(number, &answer), "{number}: {answer}");
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let load = Load {
            clients: (0..clients).map(|_| client()).collect(),
            stop: Arc::clone(&stop),
            answers: Arc::clone(&answers),
        };
        while load.answers() == 0 {
            assert!(load.clients.iter().all(|one| !one.is_finished()));
            thread::yield_now();
        }
        load
    }

    /// How many answers there were.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Ends it; fails if an answer was wrong or missing.
    pub fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every answer was right");
        }
        self.answers.load(Ordering::Relaxed)
    }
}
