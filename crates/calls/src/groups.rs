//! What calls of a preset's functions have in common besides the function and the script line: the statement, the name.
//! The grammar is [`crate::preset`]'s.

use crate::event::{At, Call, Return};
use crate::preset::{By, Key, Preset, Rule, normalise};
use process::functions::Function;
use prototypes::{Filter, Memory, Where};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Statements that are remembered by what stands for them. A program that prepares without end has that many names in
/// use, or has forgotten to give them back.
const MOST_NAMED: usize = 1 << 16;
/// What was prepared before lancet came.
const UNKNOWN: &str = "(prepared before)";

/// What a process knows something by.
type Name = (i32, Value);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Number(u64),
    Text(Vec<u8>),
}

/// See the module's text. `K` is a row's key.
pub struct Groups<K> {
    rules: Vec<Rule>,
    /// Those that end calls.
    ends: Vec<(Filter, Key)>,
    /// Characters of a string that are copied.
    strings: usize,
    known: HashMap<(Arc<str>, String), Known>,
    named: HashMap<Name, Arc<str>>,
    /// Calls that last until another function returns: which, and what both were called with.
    spans: HashMap<(usize, Name), Span<K>>,
}

/// What the rules say of a function: which is its own, and which of `ends` are it.
#[derive(Clone, Debug, Default)]
struct Known {
    rule: Option<usize>,
    ends: Vec<usize>,
}

/// What is kept of a call until it returns.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    /// What it is of, if its function says that.
    pub group: Option<Arc<str>>,
    /// It belongs to a preset.
    pub grouped: bool,
    /// Where what will stand for it lies.
    behind: Option<u64>,
    until: Option<(usize, Name)>,
    ends: Vec<(usize, Name)>,
    /// It is of no row of its own.
    silent: bool,
}

impl Ticket {
    /// Whether the call is of no row of its own.
    pub fn is_silent(&self) -> bool {
        self.silent
    }
}

/// A call that goes on after its return.
struct Span<K> {
    row: K,
    began: Duration,
    took: Duration,
}

impl<K> Groups<K> {
    /// Of some presets; at most `strings` characters of a string are known.
    pub fn new(presets: &[Preset], strings: u32) -> Self {
        let rules = presets.iter().flat_map(|preset| preset.rules.clone());
        let mut groups = Groups {
            rules: rules.collect(),
            ends: Vec::new(),
            strings: strings as usize,
            known: HashMap::new(),
            named: HashMap::new(),
            spans: HashMap::new(),
        };
        for rule in &groups.rules {
            if let Some((name, key)) = &rule.until
                && let Ok(filter) = Filter::parse(name)
            {
                groups.ends.push((filter, *key));
            }
        }
        groups
    }

    /// A call begins. `inner` = another call of a preset is open around it, and this one is a part of that.
    pub fn enter(&mut self, at: At, call: &Call, inner: bool) -> Ticket {
        let known = self.known(&call.edge.function);
        let name = |value| (at.process, value);
        let ends = known.ends.iter().filter_map(|end| {
            let value = self.value(self.ends[*end].1, call)?;
            Some((*end, name(value)))
        });
        let mut ticket = Ticket {
            ends: ends.collect(),
            silent: known.rule.is_none() && !known.ends.is_empty(),
            ..Ticket::default()
        };
        let rule = known
            .rule
            .map(|rule| (rule, self.rules[rule].by, self.rules[rule].names));
        let Some((rule, Some(by), names)) = rule else {
            return ticket;
        };
        ticket.silent = inner;
        if inner {
            return ticket;
        }
        let group = self.group(at.process, by, call);
        ticket.grouped = true;
        ticket.until = self.end_of(rule).and_then(|end| {
            let value = self.value(self.ends[end].1, call)?;
            Some((end, name(value)))
        });
        match names {
            Some(Key::Behind(argument)) => ticket.behind = Some(call.registers.gp[argument - 1]),
            Some(key) => {
                if let Some(value) = self.value(key, call) {
                    self.remember(name(value), group.clone());
                }
            }
            None => {}
        }
        ticket.group = Some(group);
        ticket
    }

    /// It returns: the rows that are over with it, and how long each took.
    pub fn leave(
        &mut self,
        at: At,
        ticket: Ticket,
        back: &Return,
        row: K,
        began: Duration,
    ) -> Vec<(K, Duration)> {
        if let (Some(behind), Some(group)) = (ticket.behind, &ticket.group) {
            let mut word = [0; 8];
            if back.captures.read(behind, &mut word) {
                let value = Value::Number(u64::from_le_bytes(word));
                self.remember((at.process, value), group.clone());
            }
        }
        let mut over = Vec::new();
        for end in &ticket.ends {
            if let Some(span) = self.spans.remove(end) {
                over.push((span.row, at.time.saturating_sub(span.began)));
            }
        }
        if ticket.silent {
            return over;
        }
        let took = at.time.saturating_sub(began);
        match ticket.until {
            None => over.push((row, took)),
            Some(until) => {
                let span = Span { row, began, took };
                // Nobody asked how the last one ended.
                let last = self.spans.insert(until, span);
                over.extend(last.map(|span| (span.row, span.took)));
            }
        }
        over
    }

    fn known(&mut self, function: &Function) -> Known {
        let key = (function.module.clone(), function.name.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let place = Where {
            path: "",
            soname: &function.module,
            is_main: false,
        };
        let is = |filter: &Filter| filter.matches(&function.name, place);
        let ends = self.ends.iter().enumerate();
        let known = Known {
            rule: self.rules.iter().position(|rule| is(&rule.filter)),
            ends: ends
                .filter(|(_, (filter, _))| is(filter))
                .map(|(at, _)| at)
                .collect(),
        };
        self.known.insert(key, known.clone());
        known
    }

    /// Which of `ends` is that of a rule.
    fn end_of(&self, rule: usize) -> Option<usize> {
        self.rules[rule].until.as_ref()?;
        let before = self.rules[..rule].iter();
        Some(before.filter(|rule| rule.until.is_some()).count())
    }

    fn group(&self, pid: i32, by: By, call: &Call) -> Arc<str> {
        match by {
            By::Statement(dialect, argument) => {
                let (text, cut) = self.text(call, argument);
                let mut statement = normalise(&String::from_utf8_lossy(&text), dialect);
                if cut {
                    statement.push('…');
                }
                statement.into()
            }
            By::Text(argument) => {
                let (text, _) = self.text(call, argument);
                format!("{:?}", String::from_utf8_lossy(&text)).into()
            }
            By::As(key) => {
                let value = self.value(key, call);
                let group = value.and_then(|value| self.named.get(&(pid, value)));
                group.map_or_else(|| UNKNOWN.into(), Arc::clone)
            }
        }
    }

    fn value(&self, key: Key, call: &Call) -> Option<Value> {
        match key {
            Key::Argument(argument) => Some(Value::Number(call.registers.gp[argument - 1])),
            Key::Text(argument) => Some(Value::Text(self.text(call, argument).0)),
            Key::Behind(_) => None,
        }
    }

    fn remember(&mut self, name: Name, group: Arc<str>) {
        if self.named.len() >= MOST_NAMED {
            self.named.clear();
        }
        self.named.insert(name, group);
    }

    /// The text that was copied of an argument, up to its NUL, and whether there may be more.
    fn text(&self, call: &Call, argument: usize) -> (Vec<u8>, bool) {
        let mut at = call.registers.gp[argument - 1];
        let mut text = Vec::new();
        let mut byte = [0];
        while text.len() < self.strings && call.captures.read(at, &mut byte) && byte != [0] {
            text.push(byte[0]);
            at = at.wrapping_add(1);
        }
        let cut = text.len() == self.strings;
        (text, cut)
    }
}
