//! Messages that say the same of many processes, as of all children of a shell: the first is printed, and how often the others came is
//! said at the end. Used by `messages`.

use calls::message::Message;
use std::cell::RefCell;

/// So many texts are told apart; names of a guest's functions are in them, and it can have them without end.
const MOST: usize = 1000;

/// Each text, and how often it was not printed.
#[derive(Default)]
pub struct Repeated(RefCell<Vec<(String, usize)>>);

impl Repeated {
    /// Whether a message is to be printed; else it is counted.
    pub fn is_new(&self, message: &Message) -> bool {
        let Some(text) = message.of_every_process() else {
            return true;
        };
        let mut texts = self.0.borrow_mut();
        if let Some((_, times)) = texts.iter_mut().find(|(known, _)| *known == text) {
            *times += 1;
            return false;
        }
        if texts.len() < MOST {
            texts.push((text, 0));
        }
        true
    }

    /// What was counted, in lines; it is forgotten.
    pub fn take(&self) -> Vec<String> {
        let texts = self.0.take().into_iter().filter(|(_, times)| *times != 0);
        let lines = texts.map(|(text, times)| match times {
            1 => format!("once more: {text}"),
            times => format!("{times} times more: {text}"),
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unseen(pid: i32, what: &str) -> Message {
        Message::Unseen {
            pid,
            unseen: vec![what.into()],
        }
    }

    #[test]
    fn the_same_of_others_is_counted() {
        let repeated = Repeated::default();
        let ended = || Message::Ended {
            pid: 1,
            signal: None,
            hook: false,
        };
        assert!(repeated.is_new(&unseen(1, "returns")));
        assert!(!repeated.is_new(&unseen(2, "returns")));
        assert!(repeated.is_new(&unseen(2, "rings")));
        assert!(!repeated.is_new(&unseen(3, "returns")));
        assert!(repeated.is_new(&ended()));
        assert!(repeated.is_new(&ended()));
        assert_eq!(repeated.take(), ["2 times more: not seen: returns"]);
        assert!(repeated.take().is_empty());
    }
}
