//! Maps a set into the stopped guest: the journal, the relocated files, and an island near each function. No jump leads there
//! yet. Used by `apply`.
//!
//! Each page is mapped with the protection that it keeps, so none is ever writable and executable, and no protection is changed
//! later: we write through `/proc/PID/mem`, which ignores them.

use crate::error::Result;
use crate::guest::Guest;
use crate::imports::Target;
use crate::island::{map_near, patch, stub};
use crate::journal::{self, Kind, Record, Set};
use crate::object::Value;
use crate::plan::Plan;
use inject::remote_call::RemoteThread;
use std::collections::HashMap;
use trampoline::Until;

const PAGE: u64 = wire::PAGE as u64;

/// Calls the function whose address is in the first word at `rdi`, and puts what it returns into the second.
///
/// ```text
///   push %rbx; mov %rdi,%rbx; call *(%rbx); mov %rax,8(%rbx); pop %rbx; ret
/// ```
const ASK: [u8; 12] = [
    0x53, 0x48, 0x89, 0xfb, 0xff, 0x13, 0x48, 0x89, 0x43, 0x08, 0x5b, 0xc3,
];

/// What has been mapped for a set that is being made, so that it can be unmapped if that fails.
pub(crate) struct Making<'l, 'r> {
    guest: &'l Guest,
    plan: &'l Plan,
    remote: &'l mut RemoteThread<'r>,
    /// The first is the set's own, the others are noted in its journal.
    mapped: Vec<(u64, u64)>,
    /// The set, once its mapping is there.
    set: Option<Set>,
    /// The address of each file.
    files: Vec<u64>,
}

/// Makes the set of a plan, whose patches have numbers from `first` on and end at `until`. On failure everything is unmapped
/// again.
pub(crate) fn make(
    guest: &Guest,
    plan: &Plan,
    remote: &mut RemoteThread,
    first: u64,
    until: Option<u64>,
) -> Result<Set> {
    let mut making = Making {
        guest,
        plan,
        remote,
        mapped: Vec::new(),
        set: None,
        files: Vec::new(),
    };
    let made = making.all(first, until);
    if made.is_err() {
        // The journal first: what it notes must be there for as long as it is.
        for (at, size) in std::mem::take(&mut making.mapped) {
            // If it cannot be unmapped, nothing leads there.
            let _ = making.remote.unmap(at, size);
        }
    }
    made
}

impl Making<'_, '_> {
    fn all(&mut self, first: u64, until: Option<u64>) -> Result<Set> {
        let journal = journal::size(self.plan.functions.len());
        let size = journal + self.plan.objects.iter().map(|one| one.size()).sum::<u64>();
        let base = self.map(0, size, libc::PROT_READ, 0)?;
        let mut set = Set {
            base,
            size,
            key: self.plan.key,
            kind: if self.plan.together {
                Kind::Together
            } else {
                Kind::Patches
            },
            whole: true,
            records: vec![Record::default(); self.plan.functions.len()],
            settings: Vec::new(),
            mapped: Vec::new(),
        };
        set.begin(&self.guest.memory)?;
        self.set = Some(set.clone());
        let mut at = base + journal;
        for object in &self.plan.objects {
            self.files.push(at);
            at += object.size();
        }
        for (number, record) in set.records.iter_mut().enumerate() {
            *record = self.island(number, first + number as u64, until)?;
        }
        let originals: Vec<u64> = set.records.iter().map(|record| record.original).collect();
        self.load(&originals)?;
        process::fault::point("made");
        set.finish(&self.guest.memory)?;
        Ok(set)
    }

    fn map(&mut self, at: u64, size: u64, protection: i32, flags: i32) -> Result<u64> {
        let mapped = self.remote.map(at, size, protection, flags)?;
        if flags & libc::MAP_FIXED == 0 {
            self.note(mapped, size)?;
        }
        Ok(mapped)
    }

    /// Notes a new mapping, here and in the journal: if lancet is killed, the next lancet unmaps it.
    fn note(&mut self, at: u64, size: u64) -> Result<()> {
        self.mapped.push((at, size));
        match &self.set {
            Some(set) => set.note(&self.guest.memory, self.mapped.len() - 2, (at, size)),
            None => Ok(()),
        }
    }

    /// Maps the island of a function and writes it; the record of its patch.
    fn island(&mut self, number: usize, id: u64, until: Option<u64>) -> Result<Record> {
        let plan = self.plan;
        let one = &plan.functions[number];
        let object = self.files[one.object];
        let replacement = object + one.replacement;
        let island = map_near(self.remote, one)?;
        self.note(island, PAGE)?;
        let stub = stub(one, island, replacement, until)?;
        self.guest.memory.write(island, &stub.bytes)?;
        let patch = patch(one, island)?;
        Ok(Record {
            id,
            entry: one.function.address,
            size: one.function.size,
            place: patch.0,
            old: patch.1,
            new: patch.2,
            island,
            original: stub.original,
            replacement,
            code: object..object + plan.objects[one.object].size(),
            until_at: until.map_or(0, |_| island + Until::AT as u64),
            until: until.unwrap_or(0),
            function: one.function.name.clone(),
            module: one.function.module.to_string(),
            file: plan.objects[one.object].path.display().to_string(),
            symbol: one.request.new.clone(),
        })
    }

    /// Maps the files over their places in the set, and fills their slots.
    fn load(&mut self, originals: &[u64]) -> Result<()> {
        let plan = self.plan;
        let mut asked: Vec<(u64, u64, u64)> = Vec::new();
        for (number, object) in plan.objects.iter().enumerate() {
            let base = self.files[number];
            for part in &object.parts {
                let length = part.range.end - part.range.start;
                let at = base + part.range.start;
                self.map(at, length, part.protection, libc::MAP_FIXED)?;
            }
            let mut bytes = object.bytes.clone();
            for (slot, value) in &object.slots {
                let (target, addend) = match value {
                    Value::Own(address) => (Target::Own(*address), 0),
                    Value::Picked(address) => (Target::OwnPicked(*address), 0),
                    Value::Symbol(symbol, addend) => {
                        (plan.resolved[number].targets[symbol], *addend)
                    }
                };
                let filled = match target {
                    Target::Own(address) => base.wrapping_add(address),
                    Target::There(address) => address,
                    Target::Original(function) => originals[function],
                    Target::Missing => 0,
                    Target::OwnPicked(address) => {
                        asked.push((base + slot, base.wrapping_add(address), addend));
                        0
                    }
                    Target::Picked(address) => {
                        asked.push((base + slot, address, addend));
                        0
                    }
                };
                let filled = filled.wrapping_add(addend);
                bytes[*slot as usize..*slot as usize + 8].copy_from_slice(&filled.to_le_bytes());
            }
            for part in &object.parts {
                let content = &bytes[part.range.start as usize..part.range.end as usize];
                self.guest.memory.write(base + part.range.start, content)?;
            }
        }
        self.fill_picked(&asked)
    }

    /// Calls the functions that pick (IFUNC) and fills the slots: (slot, function, addend).
    fn fill_picked(&mut self, asked: &[(u64, u64, u64)]) -> Result<()> {
        if asked.is_empty() {
            return Ok(());
        }
        let code = self.map(0, PAGE, libc::PROT_READ | libc::PROT_EXEC, 0)?;
        let words = self.map(0, PAGE, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        self.guest.memory.write(code, &ASK)?;
        let mut answers: HashMap<u64, u64> = HashMap::new();
        for (slot, function, addend) in asked {
            let answer = match answers.get(function) {
                Some(answer) => *answer,
                None => {
                    self.guest.memory.write(words, &function.to_le_bytes())?;
                    self.remote.call(code, words)?;
                    let answer = self.guest.memory.word(words + 8)?;
                    answers.insert(*function, answer);
                    answer
                }
            };
            let filled = answer.wrapping_add(*addend);
            self.guest.memory.write(*slot, &filled.to_le_bytes())?;
        }
        self.mapped.truncate(self.mapped.len() - 2);
        if let Some(set) = &self.set {
            set.forget(&self.guest.memory, self.mapped.len() - 1)?;
        }
        self.remote.unmap(code, PAGE)?;
        Ok(self.remote.unmap(words, PAGE)?)
    }
}
