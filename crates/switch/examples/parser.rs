//! A parser turned inside out: written as if it could read on, fed piece by piece.
//!
//! A recursive-descent parser wants to call `next()`; a network hands out pieces that end anywhere.
//! On a stack of its own the parser simply suspends when it runs dry.
//!
//! ```text
//! cargo run -p lancet-switch --example parser
//! ```

use lancet_switch::{Coroutine, State, Suspender};

/// What the parser reads from: the current piece, and where the next one comes from.
struct Input<'s> {
    source: &'s Suspender<Vec<u8>, ()>,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Input<'_> {
    /// The next byte, which may be in a piece that has not arrived; 0 at the end.
    fn peek(&mut self) -> u8 {
        while self.at == self.piece.len() && !self.ended {
            self.piece = self.source.suspend(());
            self.at = 0;
            self.ended = self.piece.is_empty();
        }
        self.piece.get(self.at).copied().unwrap_or(0)
    }

    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.at += usize::from(byte != 0);
        byte
    }
}

/// `sum = product { "+" product }`
fn sum(input: &mut Input) -> Result<i64, String> {
    let mut value = product(input)?;
    while input.peek() == b'+' {
        input.next();
        value += product(input)?;
    }
    Ok(value)
}

/// `product = atom { "*" atom }`
fn product(input: &mut Input) -> Result<i64, String> {
    let mut value = atom(input)?;
    while input.peek() == b'*' {
        input.next();
        value *= atom(input)?;
    }
    Ok(value)
}

/// `atom = digits | "(" sum ")"`
fn atom(input: &mut Input) -> Result<i64, String> {
    match input.next() {
        b'(' => {
            let value = sum(input)?;
            match input.next() {
                b')' => Ok(value),
                other => Err(format!("expected ), found {:?}", char::from(other))),
            }
        }
        digit @ b'0'..=b'9' => {
            let mut value = i64::from(digit - b'0');
            while let digit @ b'0'..=b'9' = input.peek() {
                value = value * 10 + i64::from(digit - b'0');
                input.next();
            }
            Ok(value)
        }
        other => Err(format!("unexpected {:?}", char::from(other))),
    }
}

/// Feeds `text` in pieces of `size` bytes, then an empty piece for the end.
fn evaluate(text: &str, size: usize) -> Result<i64, String> {
    let mut parser = Coroutine::new(|source, piece: Vec<u8>| {
        let mut input = Input {
            source,
            piece,
            at: 0,
            ended: false,
        };
        let value = sum(&mut input)?;
        match input.peek() {
            0 => Ok(value),
            other => Err(format!("unexpected {:?}", char::from(other))),
        }
    });
    for piece in text.as_bytes().chunks(size) {
        if let State::Finished(result) = parser.resume(piece.to_vec()) {
            return result;
        }
    }
    match parser.resume(Vec::new()) {
        State::Finished(result) => result,
        State::Suspended(()) => Err("the text is not complete".to_owned()),
    }
}

fn main() {
    for size in 1..8 {
        assert_eq!(evaluate("12*(3+40)+5*(1+(2*3))", size), Ok(551));
        assert!(evaluate("1+(2", size).is_err());
    }
    println!("{:?}", evaluate("12*(3+40)+5*(1+(2*3))", 3));
    println!("{:?}", evaluate("12*(3+", 3));
}
