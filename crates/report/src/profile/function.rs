//! Who calls one function, and what it calls. Used by `lancet::commands::profile::run` and `lancet::commands::profile::live::state`.
//!
//! ```text
//! Cart#total (cart.rb): own 50.0 %, total 90.0 % of the time in which threads ran
//!
//!   60.0%  called by OrdersController#show (orders.rb:12)
//!   30.0%  called by OrdersController#list (orders.rb:20)
//!
//!   40.0%  calls rb_pack (libruby-3.1.so.3.1)
//! ```

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Write};

use frames::profile::{Around, Function, Profile};

use super::format::Head;
use super::words::{all, at, called, share, summary};

/// Returns the functions of this name: with their class, or without it if there is none.
pub fn named<'a>(profile: &'a Profile, name: &str) -> Vec<&'a Function> {
    let rows = profile.functions();
    let is_whole = |function: &&Function| function.name == name;
    let ends = |function: &&Function| {
        let rest = function.name.strip_suffix(name);
        rest.is_some_and(|rest| rest.ends_with(['#', '.', ':', ' ']))
    };
    let all = || rows.iter().map(|row| row.function);
    let whole: Vec<&Function> = all().filter(is_whole).collect();
    match whole.is_empty() {
        true => all().filter(ends).collect(),
        false => whole,
    }
}

/// Returns the functions of this name, and those that they call.
pub(super) fn with_callees<'a>(profile: &'a Profile, name: &str) -> HashSet<&'a Function> {
    let named = named(profile, name);
    let callees = named
        .iter()
        .flat_map(|function| profile.around(function).callees.into_keys());
    let callees: Vec<&Function> = callees.collect();
    named.into_iter().chain(callees).collect()
}

/// A caller or callee of a function.
#[derive(Debug)]
pub struct Beside<'a> {
    /// In how many samples it called, or was called.
    pub samples: u64,
    /// What it is called, a caller with the line of its call.
    pub text: String,
    /// Itself.
    pub function: &'a Function,
}

/// Returns the callers of a function, and its callees, those of most samples first.
pub fn beside<'a>(around: &Around<'a>) -> [Vec<Beside<'a>>; 2] {
    let callers = around.callers.iter().map(|(frame, samples)| Beside {
        samples: *samples,
        text: at(frame),
        function: &frame.function,
    });
    let callees = around.callees.iter().map(|(callee, samples)| Beside {
        samples: *samples,
        text: called(callee, None),
        function: callee,
    });
    let mut both = [callers.collect::<Vec<_>>(), callees.collect()];
    for rows in &mut both {
        rows.sort_by_key(|row| Reverse(row.samples));
    }
    both
}

/// Writes them, each with at most so many callers and callees as a table has rows.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn Write,
    profile: &Profile,
    head: &Head,
    functions: &[&Function],
) -> io::Result<()> {
    writeln!(out, "{}", summary(profile, head))?;
    for function in functions {
        let around = profile.around(function);
        let [own, total] = [around.own, around.total].map(|count| share(count, profile));
        let (name, all) = (called(function, None), all(profile.mode()));
        writeln!(out, "\n{name}: own {own:.1} %, total {total:.1} % of {all}")?;
        for (verb, rows) in ["called by", "calls"].into_iter().zip(beside(&around)) {
            if !rows.is_empty() {
                writeln!(out)?;
            }
            for row in rows.iter().take(head.rows) {
                let (part, text) = (share(row.samples, profile), &row.text);
                writeln!(out, "{part:>6.1}%  {verb} {text}")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::{about, head, profile};
    use super::*;

    #[test]
    fn callers_and_callees_have_their_shares() {
        let (profile, about) = (profile(), about());
        let functions = named(&profile, "total");
        let mut out = Vec::new();
        write(&mut out, &profile, &head(&about), &functions).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (_, text) = text.split_once("\n\n").unwrap();
        assert_eq!(
            text,
            "total (/srv/app/cart.rb): own 50.0 %, total 90.0 % of the time in which threads ran\n\n  \
             60.0%  called by show (/srv/app/cart.rb:12)\n  \
             30.0%  called by list (/srv/app/cart.rb:20)\n\n  \
             40.0%  calls rb_pack (libruby-3.1.so.3.1)\n"
        );
        assert!(named(&profile, "tal").is_empty());
    }
}
