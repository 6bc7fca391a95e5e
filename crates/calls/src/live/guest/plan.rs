//! Decides what is wanted of each function that is hooked: which registers, which copies, which calls. Used by `guest`,
//! `early` and `traced`.

use super::super::callers;
use super::super::names::{self, Names};
use super::line_policy::LinePolicy;
use crate::conditions::{CallTest, Conditions};
use crate::message::{Message, Messages};
use crate::options::{BEAR_MESSAGES, Options};
use crate::select::Selection;
use crate::signatures::Signatures;
use crate::tamper::{Inject, words_of};
use hooks::probes::Probe;
use hooks::{PROBE, Role, Tracing, Wanted};
use inject::heartbeat;
use process::functions::Function;
use prototypes::Detail;
use prototypes::location::{Half, Location};
use prototypes::outcome;
use prototypes::types::{Kind, Prototype, Type};
use std::collections::{BTreeMap, HashSet};
use wire::calls::record::RecordedRegisters;
use wire::calls::want;

/// Number of functions from which on they were not requested by name.
const MANY: usize = 100;

/// What is copied of calls.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    /// How much of texts and arrays.
    pub detail: Detail,
    /// How many bytes of what the calls of [`BEAR_MESSAGES`] send and receive, at least.
    pub messages: u32,
    /// Whether environments of programs that are run are copied.
    pub environment: bool,
    /// Whether anything that a prototype describes is.
    pub copies: bool,
    /// Whether the stack around each call is copied (`-w`).
    pub callers: bool,
}

impl Copying {
    /// Whether more is copied of the calls of a function where they bear messages.
    pub fn bears_messages(self, function: &Function) -> bool {
        let bears = BEAR_MESSAGES.contains(&function.name.as_str());
        bears && function.is_system_call() && self.messages > self.detail.strings
    }

    /// The same, for calls that bear none.
    pub fn without_messages(self) -> Self {
        Copying {
            messages: 0,
            ..self
        }
    }

    /// Returns the programs of crate `capture` for the calls of a function, and for their returns.
    pub fn of(self, function: &Function, prototype: Option<&Prototype>) -> [Vec<u64>; 2] {
        let mut detail = self.detail;
        if self.bears_messages(function) {
            detail.strings = self.messages;
        }
        let copy = prototype
            .filter(|_| self.copies)
            .map(|of| Signatures::copies(function, of, detail, self.environment));
        let mut copy = copy.unwrap_or_default();
        if self.callers {
            copy.call.extend(callers::program());
        }
        [copy.call, copy.exit]
    }
}

/// How functions are hooked.
pub struct Plan {
    want: u64,
    copying: Copying,
    /// Whether all integer arguments are recorded, because a preset distinguishes calls by them.
    all_integers: bool,
    asks: Conditions,
    /// What is injected into system calls, and the number of the first test of their lines.
    inject: (Vec<Inject>, usize),
    messages: Messages,
    /// Addresses of functions that are no longer watched.
    left_out: HashSet<u64>,
}

impl Plan {
    /// From the options.
    pub fn new(args: &Options, selection: &Selection) -> Self {
        Plan {
            want: wanted_of(args, selection),
            copying: Copying {
                detail: Detail {
                    strings: args.kept_of_strings,
                    array: args.array,
                    whole: false,
                },
                messages: args.kept_of_messages,
                environment: args.environment,
                copies: !args.counts_in_guest(),
                callers: args.frames != 0 && !args.counts_in_guest(),
            },
            all_integers: !args.presets.is_empty(),
            asks: Conditions::new(args, heartbeat::ticks),
            inject: (args.inject.clone(), LinePolicy::of(args).injections),
            messages: args.messages.clone(),
            left_out: HashSet::new(),
        }
    }

    /// Whether calls are reported one by one.
    pub fn tells(&self) -> bool {
        self.copying.copies
    }

    /// Notes the addresses of functions that must no longer be watched.
    pub fn leave_out(&mut self, functions: impl Iterator<Item = u64>) {
        self.left_out.extend(functions);
    }

    /// Returns what is wanted of each function, with the code whose calls are reported.
    pub fn all(
        &self,
        signatures: &Signatures,
        functions: Vec<Function>,
        callers: Vec<Vec<u64>>,
    ) -> Vec<Wanted> {
        let all = self.uncopied(signatures, functions, callers).into_iter();
        all.map(|(mut wanted, prototype)| {
            wanted.copy = self.copying.of(&wanted.function, prototype.as_ref());
            wanted
        })
        .collect()
    }

    /// Has all copied that a tracer can copy, which no record of a ring must hold.
    pub fn copy_whole(&mut self) {
        self.copying.detail.whole = true;
    }

    /// What is copied, for whoever works that out when a call is made.
    pub fn copying(&self) -> Copying {
        self.copying
    }

    /// The same as [`all`](Self::all), but for what is copied: that follows from the prototype, which stands beside it.
    pub fn uncopied(
        &self,
        signatures: &Signatures,
        functions: Vec<Function>,
        callers: Vec<Vec<u64>>,
    ) -> Vec<(Wanted, Option<Prototype>)> {
        // A condition fits only few of all system calls, which needs no message.
        let says = functions.len() < MANY || !functions[0].is_system_call();
        let mut unfit: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let functions = functions.into_iter().zip(callers);
        let wanted = functions.filter_map(|(function, callers)| {
            let prototype = signatures.of(&function.module, &function.name);
            let asked = match self.asks.of(prototype.as_ref()) {
                Ok(asked) => asked,
                Err(why) => {
                    let names = unfit.entry(why.to_string()).or_default();
                    names.push(function.name.clone());
                    return None;
                }
            };
            let stack = prototype.as_ref();
            let wanted = Wanted {
                stack: stack
                    .and_then(|of| signatures.stack_of(&function.module, &function.name, of)),
                want: self.want | asked.want,
                registers: self.registers(prototype.as_ref()),
                callers,
                asks: asked.words,
                guard: asked.guard,
                least_ticks: asked.least,
                outcome: outcome::of(&function.name, function.is_system_call()).to_word(),
                ..Wanted::of(function)
            };
            Some((wanted, prototype))
        });
        let wanted = wanted.collect();
        if says {
            for (why, names) in unfit {
                self.messages.say(Message::NotShown { names, why });
            }
        }
        wanted
    }

    /// Returns the tests for the calls of a probe; `None` = a probe cannot be tested so, which is reported.
    fn asked_of(&self, function: &Function, prototype: Option<&Prototype>) -> Option<CallTest> {
        match self.asks.of(prototype) {
            Ok(asked) => Some(asked),
            Err(unfit) => {
                let (names, why) = (vec![function.name.clone()], unfit.to_string());
                self.messages.say(Message::NotShown { names, why });
                None
            }
        }
    }

    /// Returns what is wanted of probes, each as a function that returns at once.
    pub fn probes(&self, signatures: &Signatures, probes: Vec<Probe>) -> Vec<Wanted> {
        let wanted = probes.into_iter().filter_map(|probe| {
            let prototype = signatures.of_probe(&probe);
            let asked = self.asked_of(&probe.function, Some(&prototype))?;
            if asked.want & want::HELD != 0 {
                let name = probe.function.name;
                self.messages.say(Message::ProbeNotShown { name });
                return None;
            }
            let copy = if self.copying.copies {
                prototype.capture(self.copying.detail).call
            } else {
                Vec::new()
            };
            Some(Wanted {
                want: self.want | want::PROBE | asked.want,
                registers: self.registers(Some(&prototype)),
                probe: Some(probe.semaphore),
                copy: [copy, probe.operands],
                asks: asked.words,
                guard: asked.guard,
                least_ticks: asked.least,
                routine: PROBE,
                ..Wanted::of(probe.function)
            })
        });
        wanted.collect()
    }

    /// Returns what is wanted of system calls, by number.
    pub fn system_calls(&self, signatures: &Signatures, selection: &Selection) -> Vec<Wanted> {
        let functions = selection.system_calls();
        let callers = vec![Vec::new(); functions.len()];
        let mut wanted = self.all(signatures, functions, callers);
        let (inject, from) = &self.inject;
        for one in &mut wanted {
            one.role = Role::SystemCall;
            // An error is a negative 64-bit number, whatever type the result has.
            one.registers.narrow_result = false;
            if let Some(words) = words_of(inject, &one.function.name, *from) {
                one.inject = words;
                // It holds the mark of what was injected.
                one.registers.second_result = true;
                one.want |= want::INJECT | want::PLACE;
            }
        }
        wanted
    }

    /// Returns what is wanted of the guest as it is now: symbols, and names of the script's language.
    pub fn wanted(
        &self,
        tracing: &Tracing,
        signatures: &Signatures,
        selection: &Selection,
        names: &mut Names,
    ) -> Vec<Wanted> {
        names.look(tracing);
        let scripted = names.by_address();
        let mut functions = selection.functions(tracing.functions());
        functions.retain(|function| !scripted.contains_key(&function.address));
        signatures.read_debug_info(tracing.functions(), &functions);
        let callers = selection.callers(tracing.functions(), &functions);
        let mut wanted = self.all(signatures, functions, callers);
        wanted.extend(self.probes(signatures, selection.probes(tracing.functions())));
        for of_code in scripted.values() {
            for one in of_code {
                let (module, name) = (&one.function.module, &one.function.name);
                signatures.note(module, name, &names::prototype(&one.calling));
            }
            let Some(first) = of_code.first() else {
                continue;
            };
            let one = self.all(signatures, vec![first.function.clone()], vec![Vec::new()]);
            wanted.extend(one.into_iter().map(|mut wanted| {
                if names::is_called_by_vm(&first.calling) {
                    wanted.want |= want::SCRIPTED;
                }
                if let Some(at_return) =
                    names::at_return(&first.calling).filter(|_| self.copying.copies)
                {
                    wanted.copy[1] = at_return;
                }
                wanted.names = names::identities(of_code);
                // What C code returns to the VM is no result in the sense of C.
                wanted.outcome = 0;
                wanted
            }));
        }
        wanted.retain(|one| !self.left_out.contains(&one.function.address));
        wanted
    }

    /// Returns which registers are recorded: those that hold what is shown.
    fn registers(&self, prototype: Option<&Prototype>) -> RecordedRegisters {
        if !self.copying.copies {
            return RecordedRegisters::default();
        }
        let mut registers = prototype.map_or(RecordedRegisters::UNKNOWN, registers_of);
        if self.all_integers {
            (registers.integers, registers.narrow) = (INTEGERS, false);
        }
        registers
    }
}

/// Numbers of registers for integer arguments, and for floating-point ones.
const INTEGERS: u8 = 6;
const VECTORS: u8 = 8;

/// Returns the registers of a prototype's arguments and results.
fn registers_of(prototype: &Prototype) -> RecordedRegisters {
    let places = prototype.locations();
    // A format may call for any argument.
    let any = prototype.parameters.iter().any(|one| one.format);
    let arguments = prototype.parameters.iter().zip(&places.arguments);
    let wide = arguments
        .filter(|(one, place)| match place {
            Location::Gp(_) => !is_narrow(&one.ty),
            Location::Split(..) => true,
            _ => false,
        })
        .count();
    // The address that the caller passes for a returned struct takes an integer register.
    let hidden = matches!(places.returned, Location::Stack(_));
    let halves = match places.returned {
        Location::Gp(n) => [Some(Half::Gp(n)), None],
        Location::Sse(n) => [Some(Half::Sse(n)), None],
        Location::Split(first, second) => [Some(first), Some(second)],
        _ => [None; 2],
    };
    let result = |of: &dyn Fn(Half) -> Option<u8>| {
        let most = halves.into_iter().flatten().filter_map(of).max();
        most.map_or(0, |number| number + 1)
    };
    let vector_results = result(&|half| match half {
        Half::Sse(number) => Some(number),
        Half::Gp(_) => None,
    });
    let integer_results = result(&|half| match half {
        Half::Gp(number) => Some(number),
        Half::Sse(_) => None,
    });
    RecordedRegisters {
        integers: if any { INTEGERS } else { places.used.gp },
        narrow: !any && wide == 0 && !hidden,
        vectors: if any { VECTORS } else { places.used.sse },
        narrow_result: match places.returned {
            Location::Gp(_) => is_narrow(&prototype.returns),
            Location::Nowhere | Location::Sse(_) => true,
            _ => false,
        },
        second_result: integer_results > 1,
        vector_results,
        x87: match places.returned {
            Location::X87 => 1,
            Location::ComplexX87 => 2,
            _ => 0,
        },
    }
}

/// Whether a value is a number of at most 32 bits.
fn is_narrow(ty: &Type) -> bool {
    matches!(
        ty.kind,
        Kind::Char | Kind::Short | Kind::UShort | Kind::Int | Kind::UInt
    )
}

fn wanted_of(args: &Options, selection: &Selection) -> u64 {
    let place = if args.ltrace { 0 } else { want::PLACE };
    if !args.counts_in_guest() {
        want::ENTRY | want::RETURN | place
    } else if selection.asks_callers() {
        // Which module called is seen only in the record.
        want::ENTRY | want::RETURN | place
    } else {
        let bare = args.bare && args.min_time.is_none() && args.condition.is_none();
        want::COUNT | place | if bare { want::BARE } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use prototypes::outcome;

    /// What `hooks` asks of an outcome without knowing what it is.
    #[test]
    fn an_outcome_says_in_these_bits_whether_bytes_are_known() {
        for (name, moves) in [
            ("read", true),
            ("sendto", true),
            ("getppid", false),
            ("close", false),
        ] {
            let word = outcome::of(name, true).to_word();
            assert_ne!(word, 0, "{name}");
            assert_eq!(word & wire::calls::OF_BYTES != 0, moves, "{name}");
        }
    }
}
