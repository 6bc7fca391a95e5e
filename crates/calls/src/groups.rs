//! Groups the calls of a preset's functions by more than the function and the script line: by the statement or the name. The grammar is
//! [`crate::preset`]'s. Used by `summary`.

use crate::event::{At, Call, Return};
use crate::memo::Memo;
use crate::preset::{By, Key, Preset, Rule, normalise};
use process::functions::Function;
use prototypes::filter::{Filter, Where};
use prototypes::outcome::SQLITE_ROW;
use prototypes::show::Memory;
use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

mod literal;

use literal::first_text;

/// Limit of the statements that are remembered by their names. A program that prepares statements without end has that many names in use,
/// or never frees them.
const MOST_NAMED: usize = 1 << 16;
/// The group of calls whose statement was prepared before lancet came.
const UNKNOWN: &str = "(prepared before)";

/// A process id, and the value by which that process refers to something.
type Name = (i32, Value);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Number(u64),
    Text(Vec<u8>),
}

/// What is known of calls that belong together, of all processes of one run: the statements that names stand for, calls that last beyond
/// their return, and executions that are not over. `K` is the key of a row of the report. A call that was entered must be left with its
/// [`Ticket`]; otherwise no row gets it.
pub struct Groups<K> {
    rules: Vec<Rule>,
    /// For each rule, the number of the preset that it is of.
    presets: Vec<usize>,
    /// The functions whose return ends calls (`until`), and the keys by which they find these calls.
    ends: Vec<(Filter, Key)>,
    /// Limit of the characters of a string that are copied.
    strings: usize,
    known: Memo<Function, Known>,
    named: HashMap<Name, Arc<str>>,
    /// Calls that last until another function returns: which function, and the argument that both were called with.
    spans: HashMap<(usize, Name), Span<K>>,
    /// Executions that are not over, by the name of what is executed.
    executions: HashMap<Name, Execution<K>>,
    /// How many of all these were removed before they were over, because there were too many.
    forgotten: u64,
}

/// What is not over when no more events come.
#[derive(Debug)]
pub struct Rest<K> {
    /// Executions that have run and may have had more rows.
    pub over: Vec<(K, Outcomes)>,
    /// Calls whose end was not seen: a statement that was sent, and whose result has not come.
    pub open: Vec<K>,
}

/// Calls that are added up to one execution.
struct Execution<K> {
    row: K,
    over: Outcomes,
    /// Whether the statement was only prepared and has not been run.
    is_prepared: bool,
}

/// What is added to a row when a call or execution is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// How long it took.
    pub took: Duration,
    /// Whether it failed, by its result.
    pub failed: bool,
    /// Bytes that it moved or got.
    pub bytes: u64,
    /// Number of result rows that it had.
    pub rows: u64,
}

/// The rules for a function: its own, and the indices in `ends` for which it is the function.
#[derive(Clone, Debug, Default)]
struct Known {
    rule: Option<usize>,
    ends: Vec<usize>,
}

/// What is kept of a call until it returns.
#[derive(Clone, Debug, Default)]
pub struct Ticket {
    /// What the call is grouped by (a statement, a name), if the rule of its function says that.
    pub group: Option<Arc<str>>,
    /// Whether the call belongs to a rule of a preset.
    pub grouped: bool,
    /// The preset whose calls within this one are parts of it.
    whole: Option<usize>,
    /// The address at which the function stores the name of the call's group.
    behind: Option<u64>,
    until: Option<(usize, Name)>,
    ends: Vec<(usize, Name)>,
    /// Whether the call gets no row of its own.
    silent: bool,
    /// The call is added to an execution: that of this name, or, with no name yet, of the name that the call has when it returns.
    adds: Option<Option<Name>>,
    /// The name of the execution that ends with this call.
    closes: Option<Name>,
}

impl Ticket {
    /// Whether the call gets no row of its own.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Returns an estimate of the bytes that the ticket takes besides its own size.
    pub fn bytes(&self) -> usize {
        let names = self.until.iter().chain(&self.ends);
        let texts = names.map(|(_, (_, value))| match value {
            Value::Number(_) => size_of::<(usize, Name)>(),
            Value::Text(text) => size_of::<(usize, Name)>() + text.len(),
        });
        texts.sum::<usize>() + self.group.as_ref().map_or(0, |group| group.len())
    }
}

/// A call that lasts beyond its return.
struct Span<K> {
    row: K,
    began: Duration,
    over: Outcomes,
}

impl<K> Groups<K> {
    /// Makes the groups of some presets' calls; at most `strings` characters of a string are copied.
    pub fn new(presets: &[Preset], strings: u32) -> Self {
        let rules = presets.iter().flat_map(|preset| preset.rules.clone());
        let numbers = presets.iter().enumerate();
        let numbers = numbers.flat_map(|(of, preset)| repeat_n(of, preset.rules.len()));
        let mut groups = Groups {
            rules: rules.collect(),
            presets: numbers.collect(),
            ends: Vec::new(),
            strings: strings as usize,
            known: Memo::default(),
            named: HashMap::new(),
            spans: HashMap::new(),
            executions: HashMap::new(),
            forgotten: 0,
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

    /// Handles the begin of a call. `around` are the tickets of the calls that are open around it: it may be a part of one of them.
    pub fn enter<'t>(
        &mut self,
        at: At,
        call: &Call,
        mut around: impl Iterator<Item = &'t Ticket>,
    ) -> Ticket {
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
        if let Some(key) = known.rule.and_then(|rule| self.rules[rule].ends) {
            ticket.silent = true;
            ticket.closes = self.value(key, call).map(name);
            return ticket;
        }
        let Some(rule) = known.rule else {
            return ticket;
        };
        let preset = Some(self.presets[rule]);
        ticket.whole = preset.filter(|_| self.rules[rule].whole);
        let Some(by) = self.rules[rule].by else {
            ticket.silent |= around.any(|of| of.whole == preset);
            return ticket;
        };
        let names = self.rules[rule].names;
        ticket.silent = around.any(|of| of.grouped);
        if ticket.silent {
            return ticket;
        }
        let group = self.group(at.process, by, call);
        ticket.grouped = true;
        if self.rules[rule].adds.is_some() {
            ticket.adds = Some(match by {
                By::As(key) => self.value(key, call).map(name),
                _ => None,
            });
        }
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

    /// Handles the return of a call. Returns the rows of which something is over now, and what is added to each. `over_now` is what this
    /// call adds.
    pub fn leave(
        &mut self,
        at: At,
        ticket: Ticket,
        back: &Return,
        row: K,
        mut over_now: Outcomes,
    ) -> Vec<(K, Outcomes)> {
        let began = at.time.saturating_sub(over_now.took);
        let mut named = None;
        if let (Some(behind), Some(group)) = (ticket.behind, &ticket.group) {
            let mut word = [0; 8];
            if back.captures.read(behind, &mut word) {
                let value = Value::Number(u64::from_le_bytes(word));
                named = Some((at.process, value.clone()));
                self.remember((at.process, value), group.clone());
            }
        }
        let mut over = Vec::new();
        if let Some(name) = &ticket.closes {
            // A driver may reset a statement that was only prepared, before it runs it.
            let runs = |of: &Execution<K>| !of.is_prepared;
            if self.executions.get(name).is_some_and(runs) {
                let ended = self.executions.remove(name);
                over.extend(ended.map(|of| (of.row, of.over)));
            }
        }
        for end in &ticket.ends {
            if let Some(span) = self.spans.remove(end) {
                let took = at.time.saturating_sub(span.began);
                over.push((span.row, Outcomes { took, ..span.over }));
            }
        }
        if ticket.silent {
            return over;
        }
        if let Some(by_key) = ticket.adds {
            let result = back.returned.rax as i32;
            over_now.rows = u64::from(result == SQLITE_ROW);
            let name = by_key.clone().or(named);
            over.extend(self.add(name, row, over_now, by_key.is_none(), result));
            return over;
        }
        match ticket.until {
            None => over.push((row, over_now)),
            Some(until) => {
                let span = Span {
                    row,
                    began,
                    over: over_now,
                };
                if self.spans.len() >= MOST_NAMED {
                    self.forgotten += self.spans.len() as u64;
                    let open = self.spans.drain();
                    over.extend(open.map(|(_, span)| (span.row, span.over)));
                }
                // The program has not asked how the last one ended.
                let last = self.spans.insert(until, span);
                over.extend(last.map(|span| (span.row, span.over)));
            }
        }
        over
    }

    /// Adds a call to an execution, which is over if the call failed or was a step without a row.
    fn add(
        &mut self,
        name: Option<Name>,
        row: K,
        over: Outcomes,
        prepares: bool,
        result: i32,
    ) -> Vec<(K, Outcomes)> {
        let Some(name) = name.filter(|_| !prepares || !over.failed) else {
            return vec![(row, over)];
        };
        let before = self.executions.remove(&name);
        let mut ended = Vec::new();
        let mut sum = Execution {
            row,
            over,
            is_prepared: prepares,
        };
        match before {
            // The name was assigned again: what it stood for was over, or was never run.
            Some(before) if prepares => {
                let ran = !before.is_prepared;
                ended.extend(ran.then_some((before.row, before.over)));
            }
            Some(before) => {
                sum.over.took += before.over.took;
                sum.over.rows += before.over.rows;
                if !before.is_prepared {
                    sum.row = before.row;
                }
            }
            None => {}
        }
        if prepares || result == SQLITE_ROW {
            if self.executions.len() >= MOST_NAMED {
                self.forgotten += self.executions.len() as u64;
                ended.extend(self.run());
            }
            self.executions.insert(name, sum);
        } else {
            ended.push((sum.row, sum.over));
        }
        ended
    }

    /// Removes and returns the executions, without those that were only prepared.
    fn run(&mut self) -> Vec<(K, Outcomes)> {
        let open = self.executions.drain().map(|(_, of)| of);
        let run = open.filter(|of| !of.is_prepared);
        run.map(|of| (of.row, of.over)).collect()
    }

    /// Removes and returns what is not over when no more events come, except what was only prepared.
    pub fn rest(&mut self) -> Rest<K> {
        Rest {
            over: self.run(),
            open: self.spans.drain().map(|(_, span)| span.row).collect(),
        }
    }

    /// Returns how many statements were treated as over or unknown, because there were too many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the name under which calls of a function are added up, if they are.
    pub fn adds_as(&mut self, function: &Arc<Function>) -> Option<&str> {
        let rule = self.known(function).rule?;
        self.rules[rule].adds.as_deref()
    }

    fn known(&mut self, function: &Arc<Function>) -> Known {
        let (rules, ends) = (&self.rules, &self.ends);
        let known = self.known.of(function, |function| {
            let place = Where {
                path: "",
                soname: &function.module,
                is_main: false,
            };
            let is = |filter: &Filter| filter.matches(&function.name, place);
            let ends = ends.iter().enumerate();
            Known {
                rule: rules.iter().position(|rule| is(&rule.filter)),
                ends: ends
                    .filter(|(_, (filter, _))| is(filter))
                    .map(|(at, _)| at)
                    .collect(),
            }
        });
        known.clone()
    }

    /// Returns the index in `ends` of a rule.
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
            By::Value(dialect) => {
                let (text, cut) = first_text(call).unwrap_or_default();
                let mut statement = normalise(&text, dialect);
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
        if self.named.len() >= MOST_NAMED && !self.named.contains_key(&name) {
            self.forgotten += self.named.len() as u64;
            self.named.clear();
        }
        self.named.insert(name, group);
    }

    /// Returns the text that was copied of an argument, up to its NUL, and whether there may be more.
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
