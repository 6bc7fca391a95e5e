//! What numbers and addresses that a guest's lanes tell mean: functions, lines, modules, stacks. Each is looked up once.

use super::told::Module;
use process::functions::{Function, Functions};
use process::hooks::Tracing;
use process::lanes::Line;
use process::maps::Maps;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A function, and the module it is in.
pub type Named = (Arc<Function>, Arc<Module>);

/// See the module's text.
#[derive(Default)]
pub struct Known {
    /// By the number of their hook.
    functions: HashMap<u32, Option<Named>>,
    /// By their number.
    lines: Vec<Arc<Line>>,
    /// By the address where their file is mapped.
    modules: HashMap<u64, Arc<Module>>,
    /// Modules by addresses in them.
    holders: HashMap<u64, Option<Arc<Module>>>,
    /// Mappings that were seen to hold stacks.
    stacks: Vec<Range<u64>>,
}

impl Known {
    /// The function with this hook.
    pub fn function(&mut self, tracing: &Tracing, hook: u32) -> Option<Named> {
        if let Some(known) = self.functions.get(&hook) {
            return known.clone();
        }
        let found = tracing.function(hook).cloned().map(|function| {
            let module = self.module(tracing.functions(), function.address);
            let module = module.unwrap_or_default();
            (Arc::new(function), module)
        });
        self.functions.insert(hook, found.clone());
        found
    }

    /// The line with this number.
    pub fn line(&mut self, tracing: &mut Tracing, place: usize) -> Option<Arc<Line>> {
        let more = tracing.lanes().places().get(self.lines.len()..)?;
        self.lines.extend(more.iter().cloned().map(Arc::new));
        self.lines.get(place).cloned()
    }

    /// The module that holds an address.
    pub fn module(&mut self, functions: &Functions, address: u64) -> Option<Arc<Module>> {
        if let Some(known) = self.holders.get(&address) {
            return known.clone();
        }
        let found = functions.module_of(address).map(|place| {
            let module = self.modules.entry(place.module.bias).or_insert_with(|| {
                Arc::new(Module {
                    path: place.module.path.to_string_lossy().into_owned(),
                    name: place.name.clone(),
                    main: place.module.main,
                    bias: place.module.bias,
                })
            });
            module.clone()
        });
        self.holders.insert(address, found.clone());
        found
    }

    /// Libraries have come or gone.
    pub fn forget_modules(&mut self) {
        self.modules.clear();
        self.holders.clear();
    }

    /// The stack that holds a frame: the start of its mapping.
    pub fn stack(&mut self, pid: i32, frame: u64) -> u64 {
        if let Some(known) = self.stacks.iter().find(|range| range.contains(&frame)) {
            return known.start;
        }
        // A mapping that grew or came: what is known may be no more.
        let found = Maps::read(pid)
            .ok()
            .and_then(|maps| maps.find(frame).map(|mapping| mapping.start..mapping.end));
        let range = found.unwrap_or(frame & !0xffff..(frame | 0xffff) + 1);
        self.stacks
            .retain(|known| known.end <= range.start || known.start >= range.end);
        let start = range.start;
        self.stacks.push(range);
        start
    }
}
