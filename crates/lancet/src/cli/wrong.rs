//! What was wrong with a command line, in one line: what, why, and what to do.
//!
//! clap writes three to eight lines for it. Lines that show where in a text something is wrong (conditions and filters)
//! stay as they are.

/// Returns what clap has to say, as `error.to_string()` gives it, in one line; `command` is the first word behind lancet.
pub fn in_one_line(text: &str, command: Option<&str>) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let mut said = first.replace("invalid digit found in string", "it is no whole number");
    let (mut known, mut shown) = (said.contains("': "), String::new());
    let mut usage = Vec::new();
    for line in lines {
        let bare = line.trim();
        if bare.starts_with("Usage:") || !usage.is_empty() {
            usage.push(bare.trim_start_matches("Usage:").trim());
        } else if let Some(values) = bracketed(bare, "possible values") {
            said += &format!(": it is one of {values}");
            known = true;
        } else if let Some((_, other)) = bare.split_once(" exists: ") {
            let other = other.trim_matches('\'');
            // Nobody who names something that is not there means the help.
            if other != "help" {
                said += &format!(": {other} was meant?");
                known = true;
            }
        } else if said.ends_with(':') && bare.starts_with(['<', '-', '[']) {
            // The list of what is missing.
            said += &format!(" {}", alternatives(bare));
        } else if bare.is_empty() || bare.starts_with("tip: ") || bare.starts_with("For more") {
        } else if line.starts_with("  ") && said.starts_with("the following") {
            said += &format!(", {bare}");
        } else {
            shown += &format!("\n{line}");
        }
    }
    let said = said.replace(
        "the following required arguments were not provided:",
        "missing:",
    );
    let forms: Vec<&str> = usage
        .iter()
        .copied()
        .take_while(|form| form.starts_with("lancet"))
        .collect();
    if said.starts_with("missing:") && !forms.is_empty() {
        return format!("{said}: {}", forms.join(" | "));
    }
    if known {
        return said + &shown;
    }
    let command = command.filter(|_| !said.contains("subcommand"));
    let help = command.map_or(String::new(), |command| format!("{command} "));
    format!("{said}: lancet {help}--help lists what there is{shown}")
}

/// Returns what clap lists as `<--pid <PID>|PROGRAM>`, without the brackets around it.
fn alternatives(text: &str) -> &str {
    let inside = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'));
    inside.unwrap_or(text)
}

/// Returns the list in `[possible values: a, b]`.
fn bracketed<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix('[')?
        .strip_prefix(name)?
        .strip_prefix(": ")?
        .strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::in_one_line;
    use crate::cli::Cli;

    fn said(line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let error = Cli::try_parse_from(&words).expect_err("wrong").to_string();
        in_one_line(&error, words.get(1).copied())
    }

    #[test]
    fn wrong_usages_are_answered_in_one_line() {
        for (line, answer) in [
            (
                "lancet foo",
                "unrecognized subcommand 'foo': lancet --help lists what there is",
            ),
            (
                "lancet stak -p 1",
                "unrecognized subcommand 'stak': stack was meant?",
            ),
            (
                "lancet mem -p abc",
                "invalid value 'abc' for '--pid <PID>': it is no whole number",
            ),
            (
                "lancet quiz -p 1",
                "unrecognized subcommand 'quiz': lancet --help lists what there is",
            ),
            (
                "lancet calls -c",
                "missing: --pid <PID>|PROGRAM|--debug <MASK>: lancet calls",
            ),
            (
                "lancet mem -p 7 --by x",
                "invalid value 'x' for '--by <WHAT>': it is one of line, method, file, gem, type",
            ),
            (
                "lancet mem -p 7 --for 5",
                "invalid value '5' for '--for <DURATION>': `5` has no unit: write 5s, 5m or 5ms",
            ),
            (
                "lancet calls -p 7 --wher x",
                "unexpected argument '--wher' found: --where was meant?",
            ),
            (
                "lancet stack -p",
                "a value is required for '--pid <PID>' but none was supplied: lancet stack --help lists what there is",
            ),
            (
                "lancet tune --no-sample --sample 1s",
                "the argument '--no-sample' cannot be used with '--sample <DURATION>': lancet tune --help lists what there is",
            ),
            (
                "lancet stack --collect 3 -p 7",
                "missing: --gc, --measure[=<DURATION>]: lancet stack [OPTIONS] -p PID | ",
            ),
            (
                "lancet mem",
                "missing: --pid <PID>|PROGRAM: lancet mem [OPTIONS] -p PID... | lancet mem [OPTIONS] -- PROGRAM [ARG]...",
            ),
        ] {
            let said = said(line);
            assert!(
                said.starts_with(answer) && !said.contains('\n'),
                "{line}: {said}"
            );
        }
    }

    #[test]
    fn what_shows_where_it_is_wrong_is_kept() {
        let said = said("lancet calls -p 7 -x f --where foo");
        assert_eq!(said.lines().count(), 3, "{said}");
        assert_eq!(said.lines().last().map(str::trim), Some("^"), "{said}");
    }
}
