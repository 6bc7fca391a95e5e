//! The tools: which command each is, and which of its options a caller may give.
//!
//! Nothing here names a file that would be written, or an option that makes a looking command change something: what is not in the table cannot
//! be said. Texts are those of the help, so they are written once.

use std::time::Duration;

use calls::preset::Preset;
use clap::{Arg, Command};
use serde_json::{Map, Value, json};
use tune::rules::RULES;

/// A tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// The words of its command that a caller does not choose.
    pub words: &'static [&'static str],
    /// What its command's help does not say.
    about: &'static str,
    /// What a caller may say.
    pub arguments: &'static [Argument],
    /// How its process is named.
    pub process: Process,
    /// For how many seconds it watches, unless the caller says otherwise; `None`: it looks once.
    pub watches: Option<u64>,
    /// It changes a process or the machine.
    pub changes: bool,
}

/// Whether a tool is about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// It is.
    Named,
    /// It may be.
    Optional,
    /// It is about the machine.
    None,
}

/// An argument of a tool.
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Where it stands on the command line.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// The word that stands in its place if it is not given.
    pub otherwise: Option<&'static str>,
}

/// Where an argument stands on the command line.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Behind this long option.
    Long(&'static str),
    /// Behind this letter.
    Letter(char),
    /// By itself, as an operand with this id.
    Operand(&'static str),
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number from 0 on.
    Whole,
    /// A text.
    Text,
    /// Some texts.
    Texts,
    /// Names of presets that come with lancet. One may be a file, which a caller may not name.
    Presets,
    /// Checks of `tune`. On the command line a setting may stand in place of one, and any setting of the machine is too much.
    Checks,
    /// It is there or not.
    Switch,
}

const fn long(name: &'static str, option: &'static str, kind: Kind) -> Argument {
    let place = Place::Long(option);
    Argument {
        name,
        place,
        kind,
        otherwise: None,
    }
}

/// The checks by which `tune` may be asked for a change.
pub fn checks() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id)
}

/// The form in which names and texts of a process stand apart from what lancet says.
const MARKDOWN: &str = "--format=markdown";

const CHILDREN: Argument = long("children", "children", Kind::Switch);
/// By itself that form has a thousand rows.
const TOP: Argument = Argument {
    otherwise: Some("--top=20"),
    ..long("top", "top", Kind::Whole)
};
const FUNCTIONS: Argument = Argument {
    name: "functions",
    place: Place::Letter('x'),
    kind: Kind::Texts,
    otherwise: None,
};

const LOOKS: Tool = Tool {
    name: "",
    words: &[],
    about: "",
    arguments: &[],
    process: Process::Named,
    watches: None,
    changes: false,
};

/// All tools.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "mem",
        words: &["mem", MARKDOWN],
        about: "Begin here when memory grows: 12 seconds and more name the line of a leak.",
        arguments: &[
            CHILDREN,
            TOP,
            long("by", "by", Kind::Text),
            long("internal", "internal", Kind::Switch),
        ],
        watches: Some(12),
        ..LOOKS
    },
    Tool {
        name: "heap",
        words: &["heap", MARKDOWN],
        about: "The process goes on while a copy of it is read.",
        arguments: &[TOP, long("path", "path", Kind::Text)],
        ..LOOKS
    },
    Tool {
        name: "rss",
        words: &["heap", "--rss", MARKDOWN],
        about: "What resident memory is used for, every byte in one row, of a program in any language.",
        ..LOOKS
    },
    Tool {
        name: "stack",
        // In Markdown its frames are those of the machine, without lines of scripts.
        words: &["stack"],
        about: "Begin here when a process hangs: deadlocks, and what each thread waits for, now.",
        arguments: &[
            CHILDREN,
            long("native", "native", Kind::Switch),
            long("bytes", "bytes", Kind::Switch),
            long("fibers", "fibers", Kind::Switch),
        ],
        ..LOOKS
    },
    Tool {
        name: "waits",
        words: &["stack", MARKDOWN],
        about: "Begin here when a process is slow: at which lines its threads run and wait, over some seconds.",
        arguments: &[CHILDREN, TOP],
        watches: Some(10),
        ..LOOKS
    },
    Tool {
        name: "profile",
        words: &["profile", MARKDOWN],
        about: "Begin here when a process takes much processor time.",
        arguments: &[CHILDREN, TOP],
        watches: Some(10),
        ..LOOKS
    },
    Tool {
        name: "calls",
        words: &["calls", "-c", MARKDOWN],
        about: "Calls are counted by line. Name functions, or presets (sql, gc, files, alloc and others).",
        arguments: &[
            CHILDREN,
            FUNCTIONS,
            long("presets", "preset", Kind::Presets),
            long("where", "where", Kind::Text),
            long("min_time", "min-time", Kind::Text),
            long("sort", "sort", Kind::Text),
        ],
        watches: Some(10),
        ..LOOKS
    },
    Tool {
        name: "now",
        words: &["calls", "--now", MARKDOWN],
        about: "One row a thread.",
        arguments: &[CHILDREN],
        ..LOOKS
    },
    Tool {
        name: "syscalls",
        words: &["syscalls", "-c", MARKDOWN],
        about: "They are counted by line.",
        arguments: &[
            CHILDREN,
            long("trace", "trace", Kind::Text),
            long("failed_only", "failed-only", Kind::Switch),
            long("slower", "slower", Kind::Text),
        ],
        watches: Some(10),
        ..LOOKS
    },
    Tool {
        name: "tune",
        words: &["tune", MARKDOWN],
        about: "Checks with evidence, the worst first; nothing is changed.",
        arguments: &[long("explain", "explain", Kind::Text)],
        process: Process::Optional,
        ..LOOKS
    },
    Tool {
        name: "patch",
        words: &["patch"],
        about: "Replacements lie in files of this machine. Try dry_run first; list shows what is in force, and undo takes it back.",
        arguments: &[
            Argument {
                name: "replace",
                place: Place::Operand("requests"),
                kind: Kind::Texts,
                otherwise: None,
            },
            long("remedy", "remedy", Kind::Text),
            long("dry_run", "dry-run", Kind::Switch),
            long("list", "list", Kind::Switch),
            long("undo", "undo", Kind::Text),
        ],
        changes: true,
        ..LOOKS
    },
    Tool {
        name: "inject",
        words: &["syscalls", "-c", MARKDOWN],
        about: "System calls fail as long as it watches, and are as before when it ends.",
        arguments: &[long("inject", "inject", Kind::Texts)],
        watches: Some(10),
        changes: true,
        ..LOOKS
    },
    Tool {
        name: "tune_apply",
        words: &["tune"],
        about: "Changes the machine, by checks of `tune`. The answer ends with the command that takes it back, which a person runs.",
        arguments: &[
            long("apply", "apply", Kind::Checks),
            long("dry_run", "dry-run", Kind::Switch),
        ],
        process: Process::Optional,
        changes: true,
        ..LOOKS
    },
];

impl Tool {
    /// The tools that are offered.
    pub fn offered(changes: bool) -> impl Iterator<Item = &'static Tool> {
        TOOLS.iter().filter(move |tool| changes || !tool.changes)
    }

    /// What `tools/list` says of it; `lancet` is the whole command line.
    pub fn description(&self, lancet: &Command, longest: Duration) -> Value {
        let command = lancet.find_subcommand(self.words[0]);
        let (properties, required) = self.properties(command, longest);
        let question = command.and_then(Command::get_about);
        let question = question.map(ToString::to_string).unwrap_or_default();
        json!({
            "name": self.name,
            "description": format!("{question} {}", self.about),
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": {
                // Clients run what only reads unasked. One that opens a process writes into it while it looks, and has it wait.
                "readOnlyHint": !self.changes && self.process != Process::Named,
                "destructiveHint": self.changes,
                "openWorldHint": false,
            },
        })
    }

    fn properties(&self, command: Option<&Command>, longest: Duration) -> (Value, Vec<&str>) {
        let mut properties = Map::new();
        let mut required = Vec::new();
        if self.process != Process::None {
            let about = "The number of the process; the tool `processes` lists them";
            properties.insert(
                "pid".into(),
                json!({"type": "integer", "minimum": 1, "description": about}),
            );
        }
        if self.process == Process::Named {
            required.push("pid");
        }
        if let Some(seconds) = self.watches {
            let longest = longest.as_secs_f64();
            let about = format!(
                "For how many seconds it watches [default: {}]",
                longest.min(seconds as f64)
            );
            properties.insert(
                "seconds".into(),
                json!({"type": "number", "exclusiveMinimum": 0, "maximum": longest, "description": about}),
            );
        }
        for argument in self.arguments {
            let about = command
                .and_then(|command| argument.declared(command))
                .and_then(Arg::get_help);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let mut schema = match argument.kind {
                Kind::Whole => json!({"type": "integer", "minimum": 0}),
                Kind::Text => json!({"type": "string"}),
                Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
                Kind::Presets => {
                    let names: Vec<&str> = Preset::names().collect();
                    json!({"type": "array", "items": {"enum": names}})
                }
                Kind::Checks => {
                    let ids: Vec<&str> = checks().collect();
                    json!({"type": "array", "items": {"enum": ids}})
                }
                Kind::Switch => json!({"type": "boolean"}),
            };
            schema["description"] = about.into();
            properties.insert(argument.name.into(), schema);
        }
        (properties.into(), required)
    }
}

impl Argument {
    /// The option as its command declares it.
    fn declared<'a>(&self, command: &'a Command) -> Option<&'a Arg> {
        command.get_arguments().find(|arg| match self.place {
            Place::Long(name) => arg.get_long() == Some(name),
            Place::Letter(letter) => arg.get_short() == Some(letter),
            Place::Operand(id) => arg.get_id() == id,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_argument_is_an_option_of_its_command() {
        let lancet = Cli::command();
        for tool in TOOLS {
            let command = lancet.find_subcommand(tool.words[0]).expect(tool.name);
            for argument in tool.arguments {
                let declared = argument.declared(command);
                let declared =
                    declared.unwrap_or_else(|| panic!("{}: {}", tool.name, argument.name));
                assert!(
                    declared.get_help().is_some(),
                    "{}: {}",
                    tool.name,
                    argument.name
                );
                let takes = declared.get_action().takes_values();
                assert_eq!(
                    takes,
                    argument.kind != Kind::Switch,
                    "{}: {}",
                    tool.name,
                    argument.name
                );
            }
        }
    }

    #[test]
    fn what_changes_something_is_offered_on_request_alone() {
        let names = |changes| {
            Tool::offered(changes)
                .map(|tool| tool.name)
                .collect::<Vec<_>>()
        };
        let changing = ["patch", "inject", "tune_apply"];
        assert!(changing.iter().all(|name| !names(false).contains(name)));
        assert!(changing.iter().all(|name| names(true).contains(name)));
        let writes = [
            "output", "record", "save", "inject", "apply", "undo", "new", "root", "journals",
        ];
        for tool in Tool::offered(false) {
            for argument in tool.arguments {
                if let Place::Long(name) = argument.place {
                    assert!(!writes.contains(&name), "{}: {name}", tool.name);
                    // One may be the path of a file.
                    assert!(name != "preset" || argument.kind == Kind::Presets);
                }
            }
        }
    }

    #[test]
    fn a_schema_says_what_is_needed_and_how_long_it_may_take() {
        let mem = &TOOLS[0];
        let said = mem.description(&Cli::command(), Duration::from_secs(5));
        assert_eq!(said["name"], "mem");
        let schema = &said["inputSchema"];
        assert_eq!(schema["required"], json!(["pid"]));
        assert_eq!(schema["properties"]["seconds"]["maximum"], 5.0);
        let about = schema["properties"]["children"]["description"].as_str();
        assert!(about.is_some_and(|about| about.contains("child processes")));
        assert_eq!(said["annotations"]["readOnlyHint"], false);
    }
}
