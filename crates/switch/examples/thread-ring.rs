//! thread-ring: 403 green threads pass a token around; the one that gets 0 tells its number.
//!
//! ```text
//! cargo run --release -p lancet-switch --example thread-ring [TOKEN] [FRAMES]
//! ```
//!
//! FRAMES deeper frames lie under every suspended thread. The copying threads of Ruby 1.8 paid for
//! them at each switch; a thread that keeps its stack does not.

use lancet_switch::scheduler::{Receiver, Sender, channel, run, spawn};

const THREADS: usize = 403;

/// Calls `then` below `frames` frames of some 400 bytes.
fn deeper(frames: u32, then: &mut dyn FnMut()) {
    let weight = std::hint::black_box([frames; 64]);
    if frames == 0 {
        then();
    } else {
        deeper(frames - 1, then);
    }
    std::hint::black_box(weight);
}

/// One thread: what comes in goes out, one less.
fn pass(me: usize, inbox: &Receiver<u64>, next: &Sender<u64>, winner: &Sender<usize>) {
    while let Ok(token) = inbox.recv() {
        let sent = match token {
            0 => winner.send(me).is_ok(),
            _ => next.send(token - 1).is_ok(),
        };
        if !sent {
            break;
        }
    }
}

fn ring(token: u64, frames: u32) -> usize {
    run(move || {
        let (winner, result) = channel(1);
        let (first, mut inbox) = channel(1);
        for me in 1..=THREADS {
            let (next, following) = channel(1);
            // The last one sends to the first.
            let next = if me == THREADS { first.clone() } else { next };
            let (inbox, winner) = (std::mem::replace(&mut inbox, following), winner.clone());
            spawn(move || deeper(frames, &mut || pass(me, &inbox, &next, &winner)));
        }
        first.send(token).expect("the first thread waits");
        result.recv().expect("somebody gets 0")
    })
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = |default| match numbers.next() {
        Some(Ok(number)) => number,
        Some(Err(error)) => {
            eprintln!("usage: thread-ring [TOKEN] [FRAMES]: {error}");
            std::process::exit(2);
        }
        None => default,
    };
    let (token, frames) = (number(1_000_000), number(0));
    println!("{}", ring(token, frames as u32));
}
