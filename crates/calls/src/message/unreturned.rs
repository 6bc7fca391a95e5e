//! The text about calls that have not returned. Used by `wording`.

use super::Unreturned;
use super::wording::Few;
use std::fmt;

/// Writes which calls have not returned.
pub(super) fn write(
    out: &mut fmt::Formatter<'_>,
    pid: i32,
    calls: &[(Unreturned, usize)],
) -> fmt::Result {
    let count: usize = calls.iter().map(|(_, count)| count).sum();
    let (has, is) = match count {
        1 => ("call has", "is"),
        _ => ("calls have", "are"),
    };
    let each = calls.iter().map(|(call, count)| {
        let times = match count {
            1 => String::new(),
            count => format!("{count} × "),
        };
        let since = match call.before {
            Some(hooked) => format!(
                " (since before it was hooked, {:.1} s ago)",
                hooked.as_secs_f64()
            ),
            None => String::new(),
        };
        format!("{times}{}{since}", call.name)
    });
    let each: Vec<String> = each.collect();
    write!(
        out,
        "process {pid}: {count} {has} not returned, and {is} in no row: {}",
        Few(&each)
    )
}

#[cfg(test)]
mod tests {
    use crate::message::{Message, Unreturned};
    use std::time::Duration;

    #[test]
    fn one_and_several_are_named() {
        let call = |name: &str, before| Unreturned {
            name: name.into(),
            before,
        };
        let hooked = Some(Duration::from_millis(3200));
        let told = |calls| {
            let message = Message::Unreturned { pid: 7, calls };
            assert_eq!(message.lost(), None);
            message.to_string()
        };
        assert_eq!(
            told(vec![(call("sqlite3_step ← /a.py:3 in 'f'", hooked), 1)]),
            "process 7: 1 call has not returned, and is in no row: sqlite3_step ← /a.py:3 in 'f' (since before it was hooked, 3.2 s ago)"
        );
        assert_eq!(
            told(vec![
                (call("PQexec", None), 2),
                (call("PQprepare", hooked), 1)
            ]),
            "process 7: 3 calls have not returned, and are in no row: 2 × PQexec, PQprepare (since before it was hooked, 3.2 s ago)"
        );
    }

    #[test]
    fn what_could_not_be_looked_at_is_told() {
        let error = process::Error::Stopped(7).into();
        let message = Message::UnreturnedUnread { pid: 7, error };
        let expected =
            "process 7: which calls have not returned could not be looked at: it is stopped (";
        assert!(message.to_string().starts_with(expected), "{message}");
    }
}
