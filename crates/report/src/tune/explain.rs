//! One check in full, for people. Used by `lancet::commands::tune::run`.

use std::io::{self, Write};

use tune::machine::Machine;
use tune::rules::{Finding, KERNEL, Risk, Rule};

use super::{color, evidence};
use crate::Style;
use crate::text::printable;

/// The longest line of a paragraph, in characters.
const WIDTH: usize = 78;

/// Writes what the check found, why it looks, who says so, the change and the undo.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(
    out: &mut dyn Write,
    machine: &Machine,
    rule: &Rule,
    finding: &Finding,
    style: &Style,
) -> io::Result<()> {
    let outcome = &finding.outcome;
    let list = if rule.of_2009 {
        ", of the list of 2009"
    } else {
        ""
    };
    let risk = match rule.risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    };
    let boot = if rule.reboot { ", takes a reboot" } else { "" };
    writeln!(
        out,
        "{}",
        style.painted(&format!("{}  {}{list}", rule.id, rule.title), "1")
    )?;
    writeln!(
        out,
        "{}: {}\n",
        style.painted(outcome.verdict.words(), color(outcome.verdict)),
        printable(&outcome.says)
    )?;
    for (name, text) in [
        ("why", rule.why),
        ("source", rule.source),
        ("dated", rule.dated),
        ("kernel", &kernel(rule)),
        ("reads", rule.reads),
        ("change", rule.change),
        ("undo", rule.undo),
        ("risk", &format!("{risk}{boot}")),
    ] {
        for (at, row) in wrapped(text, WIDTH).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            writeln!(out, "  {}  {row}", style.painted(&format!("{name:6}"), "2"))?;
        }
    }
    writeln!(out)?;
    evidence(out, machine, outcome, style)
}

/// Where in the kernel's source what the check says was read.
fn kernel(rule: &Rule) -> String {
    let mut files: Vec<&str> = rule.checked.iter().map(|(file, _)| *file).collect();
    files.dedup();
    if files.is_empty() {
        return "not about the kernel".to_owned();
    }
    format!("checked against Linux {KERNEL}: {}", files.join(", "))
}

/// Breaks a text into lines of at most `width` characters; a longer word stands alone.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split_whitespace() {
        let last = rows.last_mut().expect("there is always a row");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            rows.push(word.to_owned());
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
    }
}
