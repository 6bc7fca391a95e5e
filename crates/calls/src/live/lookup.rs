//! Looks up what numbers and addresses in a guest's records mean: functions, lines, call edges, stacks. Each is looked up once.
//! Used by `guest`, `guest::early`, `guest::life` and others.

use super::mapped::Mapped;
use crate::event::{CallEdge, Module};
use crate::options::Options;
use crate::select::Selection;
use crate::source::Count;
use crate::summary::OTHERS;
use hooks::Tracing;
use hooks::rings::{Counted, Line};
use process::functions::{Function, Functions, ModuleSymbols, SYSTEM};
use process::launchers::Launchers;
use process::linkage;
use process::maps::Maps;
use process::symbols::Kind;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The results for one guest. Modules, names and call edges are kept by addresses, so [`Known::forget_edges`] must be called when
/// libraries have come or gone; otherwise calls get the names of what was there before.
pub struct Known {
    /// Functions by the number of their hook.
    functions: HashMap<u32, Option<Arc<Function>>>,
    /// Script lines, by their number.
    lines: Vec<Arc<Line>>,
    /// Recognises lines of launchers, which are reported as no line; `None` = such lines are reported.
    launchers: Option<Launchers>,
    /// Modules by their bias.
    modules: HashMap<u64, Arc<Module>>,
    /// The module of which system calls are reported as functions.
    system_calls: Arc<Module>,
    /// All names of a function, by its address.
    names: HashMap<u64, Arc<[String]>>,
    /// Call edges by hook and return address.
    calls: HashMap<Call, Option<Arc<CallEdge>>>,
    /// The calls that were looked up last, found without the table.
    recent: Vec<Option<(Call, Option<Arc<CallEdge>>)>>,
    /// Call edges by hook, by the module of the return address, by the names it has slots for, and by the function that makes a system
    /// call.
    edges: HashMap<EdgeKey, Arc<CallEdge>>,
    /// Mappings that are known to hold stacks.
    stacks: Mapped,
    /// When the mappings were read last, and how long that took.
    looked: Option<(Instant, Duration)>,
}

impl Default for Known {
    fn default() -> Self {
        Known {
            functions: HashMap::new(),
            lines: Vec::new(),
            launchers: None,
            modules: HashMap::new(),
            system_calls: Arc::new(Module {
                path: SYSTEM.into(),
                name: SYSTEM.into(),
                ..Module::default()
            }),
            names: HashMap::new(),
            calls: HashMap::new(),
            recent: vec![None; RECENT],
            edges: HashMap::new(),
            stacks: Mapped::default(),
            looked: None,
        }
    }
}

/// A hook, and the return address.
type Call = (u32, u64);

/// What calls of an edge have in common: see [`Known::edges`].
type EdgeKey = (u32, Option<u64>, u64, Option<Arc<str>>);

/// Number of calls that are found without the table.
const RECENT: usize = 256;

/// The largest part of our time that reading mappings may take (1 in this many), because a guest may make threads by the thousand.
const PART: u32 = 8;

impl Known {
    /// Returns the function with this hook.
    pub fn function(&mut self, tracing: &Tracing, hook: u32) -> Option<Arc<Function>> {
        let find = || tracing.function(hook).cloned().map(Arc::new);
        self.functions.entry(hook).or_insert_with(find).clone()
    }

    /// Returns the count of all functions and lines for which a guest's tables had no room.
    pub fn others(counted: Counted, period: f64) -> Count {
        let function = Function {
            name: OTHERS.to_owned(),
            module: "".into(),
            address: 0,
            size: 0,
            picks: false,
        };
        Count {
            function: function.into(),
            inside: None,
            line: None,
            counted,
            period,
        }
    }

    /// Returns the edge of a call; `None` if the call is not shown.
    pub fn edge(
        &mut self,
        tracing: &Tracing,
        selection: &Selection,
        hook: u32,
        caller: u64,
    ) -> Option<Arc<CallEdge>> {
        let call = (hook, caller);
        let slot = (u64::from(hook) ^ caller ^ caller >> 8) as usize % RECENT;
        if let Some((known, edge)) = &self.recent[slot]
            && *known == call
        {
            return edge.clone();
        }
        let known = match self.calls.get(&call) {
            Some(known) => known,
            None => {
                let found = self.find(tracing, selection, hook, caller);
                self.calls.entry(call).or_insert(found)
            }
        };
        let edge = known.as_ref().filter(|edge| edge.shown.is_some()).cloned();
        self.recent[slot] = Some((call, edge.clone()));
        edge
    }

    /// Returns the edge of a system call that no hook has reported; `None` if it is not shown.
    pub fn system_call(
        &mut self,
        selection: &Selection,
        function: &Function,
    ) -> Option<Arc<CallEdge>> {
        let mut edge = CallEdge {
            names: [function.name.clone()].into(),
            module: self.system_calls.clone(),
            function: Arc::new(function.clone()),
            ..CallEdge::default()
        };
        edge.shown = selection.shows(&edge);
        edge.shown.is_some().then(|| Arc::new(edge))
    }

    fn find(
        &mut self,
        tracing: &Tracing,
        selection: &Selection,
        hook: u32,
        caller: u64,
    ) -> Option<Arc<CallEdge>> {
        let function = self.function(tracing, hook)?;
        let functions = tracing.functions();
        let from = functions.module_of(caller);
        let callee = functions.home_of(&function);
        let names = callee.map(|callee| self.names(functions, &function, callee));
        let slots = names.as_ref().zip(from);
        let slots = slots.map_or(0, |(names, from)| {
            slots_of(tracing, selection, names, from, caller)
        });
        let is_system_call = function.is_system_call();
        let inside = is_system_call.then(|| Self::inside(tracing, caller));
        let inside = inside.flatten();
        let bias = from.map(|from| from.module.bias);
        let key = (hook, bias, slots, inside.clone());
        if let Some(known) = self.edges.get(&key) {
            return Some(known.clone());
        }
        let mut edge = match callee.zip(names) {
            None if function.is_system_call() => CallEdge {
                names: [function.name.clone()].into(),
                module: self.system_calls.clone(),
                from: from.map(|from| self.module(from)),
                function,
                inside,
                ..CallEdge::default()
            },
            // The module was unloaded meanwhile.
            None => CallEdge {
                names: [function.name.clone()].into(),
                function,
                ..CallEdge::default()
            },
            Some((module, names)) => CallEdge {
                function,
                module: self.module(module),
                from: from.map(|from| self.module(from)),
                slots,
                names,
                inside: None,
                shown: None,
            },
        };
        edge.shown = selection.shows(&edge);
        let found = Arc::new(edge);
        self.edges.insert(key, found.clone());
        Some(found)
    }

    /// Returns the function whose code is at an address.
    pub fn inside(tracing: &Tracing, at: u64) -> Option<Arc<str>> {
        let module = tracing.functions().module_of(at)?;
        let (name, _) = module.symbols.name_at(at)?;
        Some(name.into())
    }

    /// Returns all names of a function, and those of the IFUNCs that have picked it.
    fn names(&mut self, all: &Functions, function: &Function, of: &ModuleSymbols) -> Arc<[String]> {
        let find = || {
            let mut names = vec![function.name.clone()];
            for named in of.symbols.every() {
                let is = match (named.symbol.kind, named.symbol.address) {
                    (Kind::Function, address) => address == function.address,
                    (Kind::Indirect, picker) => {
                        picker == function.address || all.pick_of(picker) == Some(function.address)
                    }
                    _ => false,
                };
                if is && !names.iter().any(|known| *known == named.name) {
                    names.push(named.name.into_owned());
                }
            }
            names.into()
        };
        self.names
            .entry(function.address)
            .or_insert_with(find)
            .clone()
    }

    fn module(&mut self, place: &ModuleSymbols) -> Arc<Module> {
        let make = || {
            Arc::new(Module {
                path: place.module.path.to_string_lossy().into_owned(),
                name: place.name.clone(),
                main: place.module.main,
                bias: place.module.bias,
            })
        };
        self.modules
            .entry(place.module.bias)
            .or_insert_with(make)
            .clone()
    }

    /// Reports lines of launchers as no line of the application, if the application's line is what is reported.
    pub fn without_launchers(mut self, pid: i32, args: &Options) -> Self {
        let tells_application = !args.nearest && args.app.is_empty();
        self.launchers = tells_application.then(|| Launchers::of(pid));
        self
    }

    /// Returns the line with this number.
    pub fn line(&mut self, tracing: &mut Tracing, place: usize) -> Option<Arc<Line>> {
        let more = tracing.rings().places().get(self.lines.len()..)?;
        for line in more {
            let is_none = match &mut self.launchers {
                Some(launchers) => launchers.have(&line.path),
                None => false,
            };
            let line = if is_none { Line::none() } else { line.clone() };
            self.lines.push(Arc::new(line));
        }
        self.lines.get(place).cloned()
    }

    /// Forgets results that depend on addresses of code, because libraries have come or gone.
    pub fn forget_edges(&mut self) {
        self.modules.clear();
        self.names.clear();
        self.calls.clear();
        self.recent.fill(None);
        self.edges.clear();
    }

    /// Returns the number of the stack that holds a frame.
    pub fn stack(&mut self, pid: i32, frame: u64) -> u64 {
        if let Some(known) = self.stacks.find(frame) {
            return known;
        }
        // A mapping has grown or come. If it cannot be looked up now, its page is noted, which belongs to no other mapping.
        let range = self.mapping(pid, frame);
        let page = frame & !0xfff..(frame | 0xfff).saturating_add(1);
        self.stacks.learn(range.unwrap_or(page));
        self.stacks.find(frame).unwrap_or(frame)
    }

    fn mapping(&mut self, pid: i32, at: u64) -> Option<Range<u64>> {
        let began = Instant::now();
        if let Some((last, took)) = self.looked
            && began < last + took * PART
        {
            return None;
        }
        let maps = Maps::read(pid).ok();
        self.looked = Some((Instant::now(), began.elapsed()));
        let maps = maps?;
        let found = maps.find(at)?;
        Some(found.start..found.end)
    }
}

/// Returns for which of a function's names the calling module has a slot, a bit for each; only the one that this call went through, if
/// that is known.
fn slots_of(
    tracing: &Tracing,
    selection: &Selection,
    names: &[String],
    from: &ModuleSymbols,
    caller: u64,
) -> u64 {
    let bits = |named: &dyn Fn(&String) -> bool| {
        let names = names.iter().take(64).enumerate();
        names.fold(0, |all, (at, name)| all | u64::from(named(name)) << at)
    };
    let all = bits(&|name| selection.has_slot(from, name));
    if all.count_ones() < 2 {
        return all;
    }
    let called = linkage::called_as(from, tracing.memory(), caller);
    match called.map_or(0, |called| all & bits(&|name| *name == called)) {
        0 => all,
        one => one,
    }
}
