//! What a form of records is: the type of a row of the list of forms. Used by `stacks::pprof`, `stacks::otlp`,
//! `stacks::firefox` and others.

use std::fmt;
use std::io::Write;

/// One way to show records.
pub struct Form {
    /// What the user writes after `--format`.
    pub(crate) name: &'static str,
    /// One line about it for the help, without a full stop.
    pub(crate) about: &'static str,
    /// It says what was lost; else whoever writes the answer must tell it.
    pub(crate) says_losses: bool,
    /// Whether it is text, which a terminal can show. What is none has the rows of one answer, and nothing that comes one by one.
    pub(crate) is_text: bool,
    /// Lines without which those behind them cannot be understood, where there are such.
    pub(crate) is_head: Option<fn(&[u8]) -> bool>,
    /// Makes the output that records are written to, of the one that what it makes of them is written to.
    pub(crate) over: fn(Box<dyn Write>) -> Box<dyn Write>,
}

impl Form {
    /// Returns the output that records are written to. The record of the losses, which is the last one, ends what is made of them.
    pub fn over(&self, out: Box<dyn Write>) -> Box<dyn Write> {
        (self.over)(out)
    }

    /// Whether what it makes of records says what was lost.
    pub fn says_losses(&self) -> bool {
        self.says_losses
    }

    /// What tells whether lines behind this one cannot be understood without it; `None`: no line is such a head. A head is behind an empty line where it is not the first one.
    pub fn head_test(&self) -> Option<fn(&[u8]) -> bool> {
        self.is_head
    }

    /// Whether the output is the records as they are, so that nothing stands between who writes them and where they go.
    pub fn is_json(&self) -> bool {
        self.name == "json"
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;

    use super::*;

    /// An output that is looked at when all is written.
    #[derive(Clone, Default)]
    struct Kept(Rc<RefCell<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a form makes of these records, which come in pieces.
    pub fn shown(form: &Form, lines: &[&str]) -> String {
        String::from_utf8(bytes(form, lines)).expect("text")
    }

    /// The same of one that is no text.
    pub fn bytes(form: &Form, lines: &[&str]) -> Vec<u8> {
        let kept = Kept::default();
        let mut out = form.over(Box::new(kept.clone()));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        for piece in text.as_bytes().chunks(7) {
            out.write_all(piece).expect("memory");
        }
        drop(out);
        kept.0.take()
    }
}
