//! A call of a tool: its arguments become words of a command line, and the answer of that command is the tool's.
//!
//! The arguments are another program's, which may have been talked into them. Each is checked against the table, an option and its value are one
//! word, so that no value can be taken for an option, and how long it may watch and which process it may open is asked first.

use std::time::Duration;

use report::text::printable;
use serde_json::{Map, Value};

use super::allowed::Allowed;
use super::tools::{Argument, Kind, Place, Process, Tool};
use crate::exit::{EXCEEDED, LOST};
use crate::itself;

/// The most bytes of an answer: what an assistant can read.
const MOST: usize = 48 << 10;
/// The most bytes of messages beside it.
const MOST_SAID: usize = 4 << 10;
/// How long a call may take beyond the time that it watches.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a call has brought, as texts; `Err`: why it was refused or could not be done.
pub type Answer = Result<Vec<String>, String>;

/// What calls are held to.
pub struct Bounds {
    /// Which processes may be opened.
    pub allowed: Allowed,
    /// The longest time for which a call may watch.
    pub longest: Duration,
}

impl Bounds {
    /// Calls the tool. `is_over` says that nobody waits for the answer any more.
    pub fn call(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        is_over: &dyn Fn() -> bool,
    ) -> Answer {
        let (words, watches) = self.words(tool, arguments)?;
        let answer = itself::run(&words, watches + PATIENCE, is_over);
        let answer = answer.map_err(|error| format!("lancet cannot be started: {error}"))?;
        let said = cut(&answer.said, MOST_SAID);
        let done = [0, EXCEEDED, LOST].map(|code| Some(i32::from(code)));
        if !done.contains(&answer.code) {
            let why = match said.trim() {
                "" => format!("it ended with {:?} and said nothing", answer.code),
                why => why.to_owned(),
            };
            return Err(why);
        }
        let messages = (!said.trim().is_empty()).then(|| format!("Messages:\n{said}"));
        let texts = [Some(cut(&answer.out, MOST)), messages]
            .into_iter()
            .flatten();
        Ok(texts.filter(|text| !text.trim().is_empty()).collect())
    }

    /// The command line of a call, and for how long it watches.
    fn words(
        &self,
        tool: &Tool,
        given: &Map<String, Value>,
    ) -> Result<(Vec<String>, Duration), String> {
        let mut words: Vec<String> = tool.words.iter().map(ToString::to_string).collect();
        let known = |name: &str| {
            name == "pid" && tool.process != Process::None
                || name == "seconds" && tool.watches.is_some()
                || tool.arguments.iter().any(|argument| argument.name == name)
        };
        if let Some(name) = given.keys().find(|name| !known(name)) {
            return Err(format!(
                "{} has no argument `{}`",
                tool.name,
                printable(name)
            ));
        }
        words.extend(self.process(tool, given.get("pid"))?);
        let watches = self.time(tool, given.get("seconds"))?;
        if let Some(length) = watches {
            words.push(format!("--for={}ms", length.as_millis().max(1)));
        }
        let mut operands = Vec::new();
        for argument in tool.arguments {
            match given.get(argument.name) {
                None | Some(Value::Null) => {}
                Some(value) => argument.add(value, &mut words, &mut operands)?,
            }
        }
        words.extend(operands);
        Ok((words, watches.unwrap_or_default()))
    }

    fn process(&self, tool: &Tool, given: Option<&Value>) -> Result<Option<String>, String> {
        let Some(given) = given else {
            return match tool.process {
                Process::Named => Err(format!("{} is about a process: give its pid", tool.name)),
                _ => Ok(None),
            };
        };
        let pid = given.as_i64().and_then(|pid| i32::try_from(pid).ok());
        let Some(pid) = pid.filter(|pid| *pid > 0) else {
            return Err("pid is the number of a process".into());
        };
        match self.allowed.refuses(pid) {
            Some(why) => Err(why),
            None => Ok(Some(format!("--pid={pid}"))),
        }
    }

    /// For how long the tool watches; `None`: it looks once.
    fn time(&self, tool: &Tool, given: Option<&Value>) -> Result<Option<Duration>, String> {
        let Some(usual) = tool.watches else {
            return Ok(None);
        };
        let Some(given) = given else {
            return Ok(Some(Duration::from_secs(usual).min(self.longest)));
        };
        let seconds = given.as_f64().filter(|seconds| *seconds > 0.0);
        let length = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match length {
            Some(length) if length <= self.longest => Ok(Some(length)),
            _ => Err(format!(
                "seconds is a number above 0, and at most {} here",
                self.longest.as_secs_f64()
            )),
        }
    }
}

impl Argument {
    /// Adds what was given to the command line.
    fn add(
        &self,
        value: &Value,
        words: &mut Vec<String>,
        operands: &mut Vec<String>,
    ) -> Result<(), String> {
        match (self.kind, value) {
            (Kind::Switch, Value::Bool(false)) => Ok(()),
            (Kind::Switch, Value::Bool(true)) => {
                if let Place::Long(name) = self.place {
                    words.push(format!("--{name}"));
                }
                Ok(())
            }
            (Kind::Whole, Value::Number(number)) if number.is_u64() => {
                self.text(&number.to_string(), words, operands)
            }
            (Kind::Text, Value::String(text)) => self.text(text, words, operands),
            (Kind::Texts, Value::Array(texts)) => texts.iter().try_for_each(|text| match text {
                Value::String(text) => self.text(text, words, operands),
                _ => Err(self.wrong()),
            }),
            _ => Err(self.wrong()),
        }
    }

    fn text(
        &self,
        text: &str,
        words: &mut Vec<String>,
        operands: &mut Vec<String>,
    ) -> Result<(), String> {
        if text.is_empty() || text.contains('\0') {
            return Err(self.wrong());
        }
        match self.place {
            Place::Long(name) => words.push(format!("--{name}={text}")),
            Place::Letter(letter) => words.push(format!("-{letter}={text}")),
            Place::Operand(_) if text.starts_with('-') => return Err(self.wrong()),
            Place::Operand(_) => operands.push(text.to_owned()),
        }
        Ok(())
    }

    fn wrong(&self) -> String {
        let kind = match self.kind {
            Kind::Whole => "a whole number",
            Kind::Text => "a text",
            Kind::Texts => "a list of texts",
            Kind::Switch => "true or false",
        };
        format!("{} is {kind}", self.name)
    }
}

/// The beginning of a text, up to the end of a line; how much is left out is said.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let most = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    let kept = &text[..most.unwrap_or_default()];
    let kept = kept.rsplit_once('\n').map_or(kept, |(kept, _)| kept);
    format!("{kept}\n… and {} bytes more\n", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use super::super::tools::TOOLS;
    use super::*;
    use clap::Parser;
    use serde_json::json;

    fn words(name: &str, given: Value) -> Result<String, String> {
        let bounds = Bounds {
            allowed: Allowed::Any,
            longest: Duration::from_secs(30),
        };
        let tool = TOOLS.iter().find(|tool| tool.name == name).expect("a tool");
        let given = given.as_object().expect("an object");
        bounds.words(tool, given).map(|(words, _)| words.join(" "))
    }

    #[test]
    fn arguments_are_words_of_a_command_line() {
        for (name, given, line) in [
            (
                "mem",
                json!({"pid": 7, "top": 3, "children": true}),
                "mem --pid=7 --for=12000ms --children --top=3",
            ),
            (
                "calls",
                json!({"pid": 7, "seconds": 0.5, "functions": ["-f", "g"], "presets": []}),
                "calls -c --pid=7 --for=500ms -x=-f -x=g",
            ),
            ("stack", json!({"pid": 7, "native": false}), "stack --pid=7"),
            ("tune", json!({}), "tune"),
            (
                "syscalls",
                json!({"pid": 7, "trace": "%file", "failed_only": true}),
                "syscalls -c --pid=7 --for=10000ms --trace=%file --failed-only",
            ),
            (
                "tune_apply",
                json!({"apply": ["T21", "T26"]}),
                "tune --apply=T21 --apply=T26",
            ),
        ] {
            let said = words(name, given).expect(line);
            assert_eq!(said, line);
            let parsed = crate::cli::Cli::try_parse_from(format!("lancet {said}").split(' '));
            assert!(parsed.is_ok(), "{said}: {parsed:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_schema_is_refused() {
        for (name, given, why) in [
            ("mem", json!({}), "mem is about a process: give its pid"),
            ("mem", json!({"pid": -7}), "pid is the number of a process"),
            (
                "mem",
                json!({"pid": 7, "seconds": 31}),
                "seconds is a number above 0, and at most 30 here",
            ),
            (
                "mem",
                json!({"pid": 7, "output": "/etc/passwd"}),
                "mem has no argument `output`",
            ),
            (
                "mem",
                json!({"pid": 7, "top": "3"}),
                "top is a whole number",
            ),
            ("heap", json!({"pid": 7, "path": ""}), "path is a text"),
            (
                "heap",
                json!({"pid": 7, "seconds": 3}),
                "heap has no argument `seconds`",
            ),
            (
                "patch",
                json!({"pid": 7, "replace": ["--plan=x"]}),
                "replace is a list of texts",
            ),
        ] {
            assert_eq!(words(name, given), Err(why.into()));
        }
        // A value is no option.
        let said = words("heap", json!({"pid": 7, "path": "--save=/tmp/x"}));
        assert_eq!(said.as_deref(), Ok("heap --pid=7 --path=--save=/tmp/x"));
    }

    #[test]
    fn a_process_that_is_not_named_is_refused() {
        let ours = std::process::id() as i32;
        let bounds = Bounds {
            allowed: Allowed::of(&[ours]).expect("we live"),
            longest: Duration::from_secs(1),
        };
        assert_eq!(bounds.allowed.refuses(ours), None);
        let why = bounds.allowed.refuses(1).expect("it is not below us");
        assert!(
            why.starts_with("process 1 may not be opened here; these may: "),
            "{why}"
        );
    }

    #[test]
    fn a_long_answer_is_cut_at_a_line() {
        assert_eq!(cut("a\nb\n", 9), "a\nb\n");
        assert_eq!(cut("aaa\nbbbé\n", 8), "aaa\n… and 7 bytes more\n");
    }
}
