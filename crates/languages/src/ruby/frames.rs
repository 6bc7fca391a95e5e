//! Reads script frames of Ruby. Used by `ruby`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use process::snapshot::{Copies, Thread};
use vm::ruby::{Context, Facts, Fiber, Frame, Frames, Ruby};
use vm::{Language, Memory};

use super::on_stack::{inner_words, is_on, outer_words, searched};
use super::scan_cost::scan;
use super::script;
use crate::frames::{
    Chain, Coroutine, Cut, FoundScripts, LONGEST, Module, NotRead, Objects, Parked, Placement,
    ScanCost, Script, Scripts, Sources, Through, Turn, VmThread, WithoutTable, text,
};
use process::pages::Pages;

/// A symbol that every Ruby exports, and nothing else.
const MARK: &str = Language::Ruby.description().mark;
/// The function that runs frames (`vm.c`). Since 3.3 it is not exported; then it is found as the function that the
/// exported [`ENDS_IN_RUNNER`] calls at its end: `return vm_exec(ec);`.
const RUNNER: &str = "rb_vm_exec";
const ENDS_IN_RUNNER: &str = "rb_iseq_eval_main";
/// Threads that are remembered at most.
const MOST_FOUND: usize = 1 << 14;
/// After that a thread on whose stack none of the VM's was found is searched again.
const AGAIN: Duration = Duration::from_millis(200);
/// What a thread is called that no kernel thread runs.
const THREAD: &str = "Thread";

/// The VM's thread that was found, and when.
type Found = (Option<u64>, Instant);

struct Vm {
    facts: Facts,
    /// How it is read without a table.
    without_table: Option<WithoutTable>,
    /// Stacks of which a frame could not be read.
    cut: Cut,
    /// Stacks that end at a frame that compiled code runs, which is not read without a table.
    compiled: Cut,
    vm: u64,
    runner: Vec<Range<u64>>,
    /// `None` until a fiber has been found.
    context: Cell<Option<Context>>,
    /// The VM's thread that each kernel thread ran when that was asked last, by the kernel thread's own id.
    runs: RefCell<HashMap<i32, u64>>,
    /// The VM's thread that was searched for on the stack of each kernel thread, by that one's own id and its fs base, and when; `None` if
    /// there was none.
    found: RefCell<HashMap<(i32, u64), Found>>,
}

/// Returns the reader if the process runs Ruby.
pub fn find(modules: &[&dyn Module], memory: &dyn Memory, sources: &dyn Sources) -> FoundScripts {
    let loaded = modules
        .iter()
        .find(|loaded| loaded.exported(memory, MARK).is_some())?;
    let symbol = |name: &str| loaded.exported(memory, name);
    let (facts, without_table) = match script::facts(memory, &symbol, sources) {
        Ok(found) => found,
        Err(unread) => return unread.found(),
    };
    let vm = Ruby::new(&memory, facts).ok()?.vm().ok()?;
    // Without it the frames can still be read, but not where they belong on the native stack.
    let ending = || loaded.tail_call(memory, loaded.exported(memory, ENDS_IN_RUNNER)?);
    let runner = loaded.exported(memory, RUNNER).or_else(ending);
    let runner = runner.map_or_else(Vec::new, |start| loaded.extent(memory, start));
    Some(Ok(Box::new(Vm {
        facts,
        without_table,
        cut: Cut::default(),
        compiled: Cut::default(),
        vm,
        runner,
        context: Cell::default(),
        runs: RefCell::default(),
        found: RefCell::default(),
    })))
}

impl Vm {
    /// Returns the frames of an execution context. The name of each place is read only once, because a recursion contains
    /// it many times. Without a table they end at one that compiled code runs.
    fn scripts<M: Memory>(&self, ruby: &Ruby<'_, M>, context: u64) -> Chain {
        let without_table = self.without_table.as_ref();
        let Some(mut frames) = frames(ruby, context) else {
            self.cut.note(0);
            return Chain::default();
        };
        let mut known: HashMap<(u64, u64), Script> = HashMap::new();
        let mut script = |frame: Frame| {
            let named = known.entry((frame.iseq, frame.pc));
            let mut script = named
                .or_insert_with(|| named_place(ruby, frame, without_table))
                .clone();
            script.placement = match ruby.ends_run(frame) {
                Ok(true) => Placement::EndsRun,
                _ => Placement::SameRun,
            };
            script
        };
        let (mut scripts, mut is_whole) = (Vec::new(), true);
        while let Some(frame) = frames.next() {
            let is_compiled = |frame| ruby.is_compiled(frame) != Ok(false);
            let by = match frame {
                Ok(frame) if without_table.is_none() || !is_compiled(frame) => {
                    scripts.push(script(frame));
                    continue;
                }
                Ok(_) => &self.compiled,
                Err(_) => &self.cut,
            };
            by.note(frames.further() + 1);
            is_whole = false;
            break;
        }
        Chain { scripts, is_whole }
    }

    /// Returns the execution context that runs on this native stack.
    fn context(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Option<u64> {
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        if thread.main {
            return ruby.main_ec(self.vm).ok();
        }
        // The VM knows which kernel thread runs which of its threads, from 3.3 on. A kernel thread of its own (the timer's) has the record of
        // the thread that made it on its stack, too.
        let runs = |id: u64| {
            let own = ruby.kernel_thread(id);
            own.is_none_or(|own| own == thread.own_id)
        };
        let known = self.runs.borrow().get(&thread.own_id).copied();
        if let Some(id) = known.filter(|id| runs(*id)) {
            return ruby.ec_if_thread(self.vm, id);
        }
        let kernel = (thread.own_id, thread.context.thread_area);
        match self.found.borrow().get(&kernel) {
            Some((Some(id), _)) if runs(*id) => {
                let context = ruby.ec_if_thread(self.vm, *id);
                if context.is_some_and(|context| is_on(&ruby, context, thread, copied)) {
                    return context;
                }
            }
            Some((None, since)) if since.elapsed() < AGAIN => return None,
            _ => {}
        }
        let outer = outer_words(thread, copied);
        let contexts: BTreeSet<u64> = outer
            .into_iter()
            .filter_map(|word| ruby.ec_if_thread(self.vm, word).filter(|_| runs(word)))
            .collect();
        // The record of the thread that made this one may be there too. The inner frames show whose context it is,
        // because the functions of the VM pass it on.
        let inner = inner_words(thread, copied);
        let code_references = |context: u64| inner.iter().filter(|word| **word == context).count();
        let context = contexts
            .into_iter()
            .max_by_key(|context| code_references(*context));
        let id = context.and_then(|context| ruby.thread_of(context).ok());
        let mut found = self.found.borrow_mut();
        if found.len() >= MOST_FOUND {
            found.clear();
        }
        found.insert(kernel, (id, Instant::now()));
        context
    }
}

impl Scripts for Vm {
    fn language(&self) -> String {
        format!("Ruby {}", self.facts.version())
    }

    fn without_table(&self) -> Option<&WithoutTable> {
        self.without_table.as_ref()
    }

    fn take_lost(&self) -> Vec<NotRead> {
        let language = self.language();
        let of_compiled = format!(
            "{language} has no table, and frames that compiled code runs are not read so, nor those outside of them"
        );
        let both = [self.compiled.take_as(of_compiled), self.cut.take(&language)];
        both.into_iter().flatten().collect()
    }

    fn wanted(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Vec<Range<u64>> {
        let ranges = || {
            let context = self.context(memory, thread, copied)?;
            Ruby::new(&memory, self.facts)
                .ok()?
                .frame_memory(context)
                .ok()
        };
        ranges().map(Vec::from).unwrap_or_default()
    }

    fn searched(&self, thread: &Thread) -> Vec<Range<u64>> {
        // That of the main thread is known, and so are those that the VM knows by their kernel threads.
        let is_known = thread.main || self.runs.borrow().contains_key(&thread.own_id);
        match is_known {
            true => Vec::new(),
            false => searched(thread).into(),
        }
    }

    fn frames(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Option<Chain> {
        let context = self.context(memory, thread, copied)?;
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        Some(self.scripts(&ruby, context))
    }

    fn thread(
        &self,
        memory: &dyn Memory,
        thread: &Thread,
        copied: &Copies,
        _through: &Through,
    ) -> Option<VmThread> {
        let context = self.context(memory, thread, copied)?;
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        let id = ruby.thread_of(context).ok()?;
        if !self.facts.has_table() {
            return Some(VmThread {
                id,
                ..VmThread::default()
            });
        }
        let name = ruby.thread_name(id).ok().flatten();
        let function = function(&ruby, context);
        let joins = |name: &String| name.ends_with("#join") || name.ends_with("#value");
        Some(VmThread {
            id,
            name: name.map(|name| text(|out| ruby.write_text(name, LONGEST, out))),
            turn: match ruby.turn(id) {
                Some(vm::ruby::Turn::Has) => Turn::Has,
                Some(vm::ruby::Turn::Waits) => Turn::Waits,
                Some(vm::ruby::Turn::Without) => Turn::Without,
                None => Turn::Unknown,
            },
            turn_of: None,
            may_join: function.as_ref().is_none_or(joins),
            function,
            wants: ruby.wanted_mutex(id).ok().flatten(),
            may_want: None,
            holds: ruby.held_mutexes(id).collect(),
            joined_by: ruby.joining(id).collect(),
        })
    }

    fn coroutines(&self, memory: &dyn Memory) -> (Vec<Coroutine>, bool) {
        if !self.facts.has_table() {
            return (Vec::new(), false);
        }
        // The list of pages changes while it is read where the program makes much garbage. What lives on is in pages that stay, so only
        // those are looked at again that could not be read.
        let (mut found, mut done) = (BTreeMap::new(), HashSet::new());
        let mut whole = false;
        for _ in 0..crate::frames::ATTEMPTS {
            let pages = Pages::new(memory);
            let Ok(ruby) = Ruby::new(&pages, self.facts) else {
                return (Vec::new(), false);
            };
            let is_done = &mut |page| !done.insert(page);
            let told = ruby.each_fiber(self.vm, is_done, &mut |fiber| {
                found.insert(fiber.address, fiber);
            });
            self.context
                .set(found.values().find_map(|fiber| ruby.context_of(fiber)));
            whole = told.is_ok();
            if whole {
                break;
            }
        }
        let coroutine = |fiber: Fiber| Coroutine {
            kind: "Fiber",
            object: fiber.address,
            detail: fiber.ec,
        };
        (found.into_values().map(coroutine).collect(), whole)
    }

    fn threads_apart(&self, memory: &dyn Memory) -> Vec<Coroutine> {
        let mut apart = Vec::new();
        let Ok(ruby) = Ruby::new(&memory, self.facts) else {
            return apart;
        };
        let Ok(main) = ruby.main_thread(self.vm) else {
            return apart;
        };
        let mut runs = self.runs.borrow_mut();
        runs.clear();
        ruby.threads_beside(self.vm, main, &mut |object| {
            let own = ruby.kernel_thread(object);
            runs.extend(own.map(|own| (own, object)));
            if own == Some(0)
                && let Ok(detail) = ruby.running_ec(object)
            {
                apart.push(Coroutine {
                    kind: THREAD,
                    object,
                    detail,
                });
            }
        });
        apart
    }

    fn parked(&self, memory: &dyn Memory, one: &Coroutine) -> Option<Parked> {
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        if one.kind == THREAD {
            let apart = ruby.kernel_thread(one.object) == Some(0);
            ruby.ec_if_thread(self.vm, one.object)
                .filter(|context| apart && *context == one.detail)?;
            let cfp = ruby.current_cfp(one.detail).ok()?;
            ruby.frames(one.detail, cfp).ok()?.for_each(drop);
            return Some(Parked::default());
        }
        let fiber = ruby.fiber(self.vm, one.object, one.detail)?;
        let parked = ruby.parked(&fiber, self.context.get()?).ok()??;
        let cfp = ruby.current_cfp(fiber.ec).ok()?;
        ruby.frames(fiber.ec, cfp).ok()?.for_each(drop);
        Some(parked.into())
    }

    fn coroutine(&self, memory: &dyn Memory, one: &Coroutine) -> Chain {
        let ruby = Ruby::new(&memory, self.facts);
        ruby.map_or_else(|_| Chain::default(), |ruby| self.scripts(&ruby, one.detail))
    }

    fn runner(&self) -> &[Range<u64>] {
        &self.runner
    }

    fn scan_cost(&self) -> Option<ScanCost> {
        self.facts.has_table().then(|| scan(self.facts.version()))
    }

    fn scan_end(&self, memory: &dyn Memory, thread: &Thread, copied: &Copies) -> Option<u64> {
        self.facts.has_table().then_some(())?;
        let context = self.context(memory, thread, copied)?;
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        ruby.stack_start(context, &thread.mapping, thread.context.sp)
    }

    fn parked_scan_end(
        &self,
        memory: &dyn Memory,
        one: &Coroutine,
        mapping: &Range<u64>,
        sp: u64,
    ) -> Option<u64> {
        self.facts.has_table().then_some(())?;
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        ruby.stack_start(one.detail, mapping, sp)
    }

    fn objects(&self, memory: &dyn Memory) -> Option<Objects> {
        self.facts.has_table().then_some(())?;
        let ruby = Ruby::new(&memory, self.facts).ok()?;
        let pages = ruby.pages().ok()?.map_while(Result::ok);
        let mut pages: Vec<(u64, u64, u64)> = pages
            .map(|page| {
                (
                    page.start,
                    page.start + page.slot_size * page.total_slots,
                    page.slot_size,
                )
            })
            .collect();
        pages.sort_unstable();
        Some(Objects { pages })
    }
}

/// Returns the frames of an execution context; `None` if they are not where it says.
fn frames<'r, M: Memory>(ruby: &'r Ruby<'_, M>, context: u64) -> Option<Frames<'r, M>> {
    let cfp = ruby.current_cfp(context).ok()?;
    let lies = ruby.lies_in_stack(context, cfp).ok()?;
    lies.then(|| ruby.frames(context, cfp).ok())?
}

/// Returns the function of C that an execution context is in; `None` if it is in Ruby code.
fn function<M: Memory>(ruby: &Ruby<'_, M>, context: u64) -> Option<String> {
    let cfp = ruby.current_cfp(context).ok()?;
    let mut name = String::new();
    let written = ruby.runs_c(cfp).ok()? && ruby.write_method(cfp, &mut name).ok()?;
    written.then_some(name)
}

fn named_place<M: Memory>(
    ruby: &Ruby<'_, M>,
    frame: Frame,
    without_table: Option<&WithoutTable>,
) -> Script {
    let line = ruby.line(frame.iseq, frame.pc).unwrap_or(0);
    Script {
        launcher: false,
        path: text(|out| ruby.write_text(ruby.path(frame.iseq)?, LONGEST, out)),
        line: without_table.map_or(line, |how| how.line(line)),
        qualified: match without_table {
            None => qualified(ruby, frame),
            Some(_) => None,
        },
        name: text(|out| ruby.write_text(ruby.label(frame.iseq)?, LONGEST, out)),
        placement: Placement::SameRun,
    }
}

/// Returns the label of a frame with its method's class: `block in run` becomes `block in Worker#run`.
fn qualified<M: Memory>(ruby: &Ruby<'_, M>, frame: Frame) -> Option<String> {
    let label = text(|out| ruby.write_text(ruby.label(frame.iseq)?, LONGEST, out));
    let base = text(|out| ruby.write_text(ruby.base_label(frame.iseq)?, LONGEST, out));
    let mut method = String::new();
    match ruby.write_method(frame.cfp, &mut method) {
        // A block given to `define_method` is named after the place where it was written, and keeps that name.
        Ok(true) if method.ends_with(&base) => {
            Some(format!("{}{method}", label.strip_suffix(&base)?))
        }
        _ => None,
    }
}
