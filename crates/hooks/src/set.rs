//! Sets hooks. Each is planned while the process runs ([`Patcher::step`]) and its stub made ([`Patcher::build`]); all are written while it
//! stands still ([`Patcher::write`]), in an order that leaves the process intact if lancet is killed at any instant: first stubs and
//! records, which no code leads to yet; then the list of areas, by which the next attach finds them; last the patches.
//! Used by `batches`, `built` and `patcher`.

use crate::bound::Deadline;
use crate::change::Change;
use crate::inline;
use crate::layers::Layers;
use crate::lifting::count_us;
use crate::needs::{described, floats_at_return, own_flags, short_way_of_blocks};
use crate::patcher::Patcher;
use crate::planned::{fits, is_as_planned};
use crate::standstill::{Pages, Writes};
use crate::table::{Known, LANDING, patches, stands_whole};
use crate::target::Target;
use crate::text::Texts;
use crate::threads::{self, Changed};
use crate::wanted::{CALL_THROUGH, Reason, Refused, Role, Wanted};
use inject::records::Record;
use inject::remote_call::RemoteThread;
use process::error::Result;
use process::memory::GuestMemory;
use process::stop::Stop;
use routine::frame::flags;
use std::collections::HashSet;
use std::mem::offset_of;
use trampoline::hook_policy::{Treatment, treatment};
use wire::calls::{self, Hook, Patched, area, want};

/// How one hook will be set.
pub(crate) enum Step {
    /// Its stub exists and is used again, because the hook is set or was set before: its place, what is wanted, and for each replaced
    /// instruction its address in the stub.
    Again(u64, Wanted, Vec<(u64, u64)>),
    /// A record without a stub, which no code leads to.
    Bare(Wanted),
    /// A new hook, with the fingerprint of the bytes that it replaces.
    New(Wanted, Box<Change>, u64),
}

/// A new hook whose stub is made, but not its programs.
pub(crate) struct Built {
    pub known: Known,
    /// For each replaced instruction, its address and its address in the stub.
    pub moves: Vec<(u64, u64)>,
    /// The stub's bytes, padded to its room.
    pub bytes: Vec<u8>,
}

/// The result of building a step.
pub(crate) enum MadeOf {
    /// Record and stub of a new hook, to be written in the stop.
    New(Box<Built>),
    /// It cannot be hooked.
    Refused(Reason),
    /// It is no new hook, so nothing is made.
    Nothing,
}

/// A hook whose record and stub are written, or will be in this stop.
struct Prepared {
    known: Known,
    moves: Vec<(u64, u64)>,
    /// What is wanted of it, also while it is silent ([`Patcher::silent`]).
    want: u64,
}

impl Prepared {
    fn of(known: Known, moves: Vec<(u64, u64)>) -> Self {
        let want = known.hook.want;
        Prepared { known, moves, want }
    }
}

/// Hooks whose patches are written between two looks at how long the stop is.
const AT_ONCE: usize = 64;

/// A stop in which hooks are written.
pub(crate) struct Edit<'a, 'g> {
    pub target: &'a Target,
    pub stop: &'a Stop,
    pub remote: &'a mut RemoteThread<'g>,
    /// Bytes that must be written before any patch.
    pub writes: Writes,
    /// The hooks of all commands, as they are in this stop.
    pub layers: Layers<'a>,
    /// When the work must end, if patches may be left for the next stop.
    pub deadline: Option<Deadline>,
}

impl Step {
    /// The address of the patch that is written last, by which the table knows the hook.
    pub fn place(&self) -> u64 {
        match self {
            Step::Again(place, ..) => *place,
            Step::Bare(wanted) => wanted.function.address,
            Step::New(_, plan, _) => plan.at(),
        }
    }

    /// What kind of place it hooks.
    pub fn role(&self) -> Role {
        let (Step::Again(_, wanted, _) | Step::Bare(wanted) | Step::New(wanted, ..)) = self;
        wanted.role
    }
}

impl Patcher {
    /// Decides how one function is hooked, or why it cannot be. The process runs meanwhile.
    pub(crate) fn step(
        &self,
        target: &Target,
        wanted: &Wanted,
        texts: &mut Texts,
        layers: &Layers,
    ) -> std::result::Result<Step, Reason> {
        let function = &wanted.function;
        if wanted.role == Role::SystemCall {
            return Ok(self.step_of_number(wanted));
        }
        match treatment(&function.name) {
            // The agent has a routine of its own for these functions.
            _ if wanted.routine != CALL_THROUGH => {}
            Treatment::Never(reason) => return Err(reason.into()),
            Treatment::EntryOnly(_) | Treatment::EntryAndProbe(_) | Treatment::CallThrough => {}
        }
        let mut set = self.table.set_at(function.address);
        if let Some((place, _)) =
            set.find(|(_, known)| stands_whole(&target.memory, layers, &known.hook))
        {
            return Ok(Step::Again(place, wanted.clone(), Vec::new()));
        }
        let plan = texts.plan(target, &self.table, layers, wanted)?;
        if let Some(known) = self.table.get(plan.at())
            && let Some(stub) = fits(target, &self.table, known, (wanted, &plan))
        {
            return Ok(Step::Again(plan.at(), wanted.clone(), stub.moves));
        }
        let length = plan.stolen().max(5) as u64;
        if wanted.role == Role::Function && self.table.is_around_a_system_call(plan.at(), length) {
            return Err("a system call that is hooked stands in its first bytes".into());
        }
        let mut was = vec![0; plan.stolen()];
        target
            .memory
            .read_bytes(plan.at(), &mut was)
            .map_err(|error| error.to_string())?;
        // Not every kernel allows writing to the vDSO; this is tested before other hooks are written.
        if target.functions.is_kernels(plan.at())
            && target.memory.write(plan.at(), &was[..1]).is_err()
        {
            return Err("the kernel's vDSO cannot be written".into());
        }
        Ok(Step::New(
            wanted.clone(),
            Box::new(plan),
            calls::fingerprint(&was),
        ))
    }

    /// Returns the step for the record of a system call's number, which no code leads to.
    fn step_of_number(&self, wanted: &Wanted) -> Step {
        let number = wanted.function.address;
        if self.table.get(number).is_some() {
            Step::Again(number, wanted.clone(), Vec::new())
        } else {
            Step::Bare(wanted.clone())
        }
    }

    /// Writes hooks, each with the result of building it, and returns the places of those whose patches are left for the next stop. If
    /// this fails before the first patch is written, it can be repeated, because no code leads to what was written.
    pub(crate) fn write(
        &mut self,
        edit: &mut Edit,
        batch: &[(Step, MadeOf)],
        refused: &mut Vec<Refused>,
    ) -> Result<HashSet<u64>> {
        let memory = &edit.target.memory;
        let mut before = Vec::new();
        let written = self.write_stubs(edit, batch, refused, &mut before);
        let mut prepared = match written {
            Ok(prepared) => prepared,
            Err(error) => {
                for (place, known) in before.into_iter().rev() {
                    self.table.restore(place, known);
                }
                self.areas.again();
                let areas = &self.areas;
                self.programs.retain(|_, at| areas.is_given(*at));
                return Err(error);
            }
        };
        prepared.retain(|made| !made.known.set);
        for made in &prepared {
            // Marked before the first byte is written, so that a patch that is written in part is lifted too.
            self.table.mark(made.known.hook.place, true);
        }
        // From here on threads may run what was made.
        self.areas.keep();
        let mut written = 0;
        for some in prepared.chunks(AT_ONCE) {
            if written != 0
                && edit
                    .deadline
                    .is_some_and(|deadline| deadline.is_over(edit.stop))
            {
                break;
            }
            if let Err(error) = write_patches(memory, some) {
                self.take_back(
                    edit,
                    prepared.iter().map(|made| (made.known.at, made.known.hook)),
                )?;
                return Err(error);
            }
            written += some.len();
        }
        process::fault::point("setting");
        let unwritten = prepared.split_off(written);
        for made in &unwritten {
            self.table.mark(made.known.hook.place, false);
        }
        for made in &prepared {
            count_us(memory, &made.known.hook, 1);
        }
        if self.silent {
            self.silenced.extend(
                prepared
                    .iter()
                    .map(|made| (made.known.hook.place, made.want)),
            );
        }
        Ok(unwritten.iter().map(|made| made.known.hook.place).collect())
    }

    /// Writes records and stubs, which no code leads to yet, and moves threads out of the way. `before` receives what the table had at
    /// their places.
    fn write_stubs(
        &mut self,
        edit: &mut Edit,
        batch: &[(Step, MadeOf)],
        refused: &mut Vec<Refused>,
        before: &mut Vec<(u64, Option<Known>)>,
    ) -> Result<Vec<Prepared>> {
        let memory = &edit.target.memory;
        let (code, own) = (Pages::of(memory), edit.target.resident.base);
        let mut prepared = Vec::new();
        for (step, built) in batch {
            let (wanted, made) = match step {
                Step::Again(place, wanted, moves) => {
                    let mut known = self.table.get(*place).cloned().expect("it was found there");
                    known.function = Some(wanted.function.clone());
                    known.hook.want = wanted.want | self.table.own_want(*place);
                    known.hook.flags |= own_flags(known.hook.want);
                    known.hook.flags &= !flags::ENTRY_ONLY | wanted.entry_only_flag();
                    known.hook.copied = known.hook.copied.max(described(wanted));
                    self.programs(edit, wanted, &mut known.hook)?;
                    known.hook.set = 1;
                    let moves = moves.clone();
                    let free = known.set || is_as_planned(&code, own, &edit.layers, &known.hook);
                    let made = free.then(|| Prepared::of(known, moves));
                    (wanted, made.ok_or(Reason::Changed))
                }
                Step::Bare(wanted) => (wanted, Ok(self.bare(edit, wanted)?)),
                Step::New(wanted, ..) => (wanted, self.prepare(edit, wanted, built, &code)?),
            };
            match made {
                Ok(mut made) => {
                    match wanted.role {
                        Role::Place { instruction, fixed } => {
                            let by_number = std::mem::take(&mut self.by_number);
                            let hook = &mut made.known.hook;
                            hook.names = self.program(edit, &by_number)?;
                            hook.instruction = instruction;
                            hook.fixed = fixed;
                            let session = edit.target.session;
                            [hook.inline, hook.called] =
                                inline::words(&self.table, wanted.role, hook, session);
                            self.by_number = by_number;
                        }
                        _ => self.name(edit, wanted, &mut made.known)?,
                    }
                    made.want = made.known.hook.want;
                    if self.silent && !made.known.set {
                        made.known.hook.want &= want::OWN;
                    }
                    prepared.push(made);
                }
                Err(reason) => refused.push(Refused {
                    function: wanted.function.clone(),
                    reason,
                }),
            }
        }
        let tests = std::mem::take(&mut self.line_tests);
        let [at, count] = self.program(edit, &tests)?;
        if count != 0 {
            let place = edit
                .target
                .calls_field(offset_of!(calls::Calls, line_tests));
            edit.writes
                .add(place, [at.to_le_bytes(), count.to_le_bytes()].concat());
        }
        prepared.sort_by_key(|made| made.known.hook.place);
        // The list is written before code leads to the stubs, so that a later attach knows that they are in use.
        self.areas.write(memory)?;
        for made in &prepared {
            edit.writes.add(made.known.at, made.known.hook.to_bytes());
            let place = made.known.hook.place;
            before.push((place, self.table.insert(made.known.clone())));
        }
        std::mem::take(&mut edit.writes).write(memory)?;
        self.clear_the_way(edit, &mut prepared, refused)?;
        Ok(prepared)
    }

    /// Moves threads out of code that is about to change. Hooks into whose code a thread will return are not set.
    fn clear_the_way(
        &mut self,
        edit: &mut Edit,
        prepared: &mut Vec<Prepared>,
        refused: &mut Vec<Refused>,
    ) -> Result<()> {
        loop {
            let changes: Vec<Changed> = prepared
                .iter()
                .filter(|made| !made.known.set)
                .map(|made| Changed {
                    at: made.known.hook.place,
                    length: u64::from(made.known.hook.moved).max(made.known.hook.patches[0].length),
                    moves: &made.moves,
                })
                .collect();
            let memory = &edit.target.memory;
            let standing: Vec<i32> = edit.stop.threads().collect();
            let blocked = threads::move_out(edit.remote, &standing, memory, &changes)?;
            let Some(index) = blocked else {
                return Ok(());
            };
            let place = changes[index].at;
            let at = prepared
                .iter()
                .position(|made| made.known.hook.place == place);
            prepared.remove(at.expect("it is one of them"));
            self.table.set_want(memory, place, 0)?;
            let places = [place, place - LANDING].into_iter();
            let function = { places }.find_map(|address| self.table.unname(address));
            refused.extend(function.map(|function| Refused {
                function,
                reason: Reason::InTheWay,
            }));
        }
    }

    /// Adds the stub of a new hook to what is written, and returns its record, or why it cannot be hooked.
    fn prepare(
        &mut self,
        edit: &mut Edit,
        wanted: &Wanted,
        built: &MadeOf,
        code: &Pages,
    ) -> Result<std::result::Result<Prepared, Reason>> {
        let built = match built {
            MadeOf::New(built) => built,
            MadeOf::Refused(reason) => return Ok(Err(reason.clone())),
            MadeOf::Nothing => return Ok(Err(Reason::Changed)),
        };
        let mut known = built.known.clone();
        self.programs(edit, wanted, &mut known.hook)?;
        known.hook.want |= self.table.own_want(known.hook.place);
        if !is_as_planned(code, edit.target.resident.base, &edit.layers, &known.hook) {
            return Ok(Err(Reason::Changed));
        }
        if !self.stubs_are_there {
            edit.writes.add(known.hook.stub, built.bytes.clone());
        }
        let moves = built.moves.clone();
        Ok(Ok(Prepared::of(known, moves)))
    }

    fn room_for_record(&mut self, edit: &mut Edit) -> Result<u64> {
        let size = size_of::<Hook>() as u64;
        self.areas.room(edit.remote, area::HOOKS, size, None)
    }

    /// Makes room for the record of a hook that no code leads to.
    fn bare(&mut self, edit: &mut Edit, wanted: &Wanted) -> Result<Prepared> {
        let at = self.room_for_record(edit)?;
        let mut hook = Hook {
            number: self.table.new_number(),
            place: wanted.function.address,
            want: wanted.want,
            ..Hook::default()
        };
        self.programs(edit, wanted, &mut hook)?;
        let known = Known {
            at,
            hook,
            set: false,
            function: Some(wanted.function.clone()),
        };
        Ok(Prepared::of(known, Vec::new()))
    }

    /// Adds a hook's programs and list of callers to what is written, each once, and sets its guard.
    fn programs(&mut self, edit: &mut Edit, wanted: &Wanted, hook: &mut Hook) -> Result<()> {
        let ([at_entry, at_return], [asks_call, asks_return]) = (&wanted.copy, &wanted.asks);
        hook.at_entry = self.program(edit, at_entry)?;
        hook.at_return = self.program(edit, at_return)?;
        hook.asks_call = self.program(edit, asks_call)?;
        hook.asks_return = self.program(edit, asks_return)?;
        hook.least_ticks = wanted.least_ticks;
        hook.outcome = wanted.outcome;
        hook.blocks = wanted.blocks.0;
        // Hooks for ourselves must see every call, whatever its arguments are.
        let guard = wanted.guard.filter(|_| hook.want & want::OWN == 0);
        hook.guard = guard.unwrap_or_default().to_words();
        hook.flags &= !flags::GUARDED;
        hook.flags |= guard.map_or(0, |_| flags::GUARDED);
        hook.flags &= !(flags::FLOATS | flags::BLOCKS);
        hook.flags |= floats_at_return(hook) | short_way_of_blocks(hook);
        [hook.callers, _] = self.program(edit, &wanted.callers)?;
        hook.shape = wanted.shape(hook);
        Ok(())
    }

    /// Returns where a program is and how many words it has. Each program is written once.
    fn program(&mut self, edit: &mut Edit, words: &[u64]) -> Result<[u64; 2]> {
        if words.is_empty() {
            return Ok([0; 2]);
        }
        let at = match self.programs.get(words) {
            Some(at) => *at,
            None => {
                let size = words.len() as u64 * 8;
                let at = self.areas.room(edit.remote, area::PROGRAMS, size, None)?;
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                edit.writes.add(at, bytes);
                self.programs.insert(words.to_vec(), at);
                at
            }
        };
        Ok([at, words.len() as u64])
    }

    /// Notes the function of a hook by the number that the agent writes for it. If several functions share the hook's code, writes the
    /// table of their identities and numbers.
    fn name(&mut self, edit: &mut Edit, wanted: &Wanted, known: &mut Known) -> Result<()> {
        if wanted.names.is_empty() {
            known.hook.names = self.program(edit, &wanted.inject)?;
            if wanted.want & !want::OWN != 0 {
                self.table.name(known.hook.number, &wanted.function);
            }
            return Ok(());
        }
        let mut words: Vec<u64> = Vec::new();
        for (identity, function) in &wanted.names {
            words.extend([*identity, self.table.number_of(*identity, function)]);
        }
        // The table is written once, although each newly defined method may set the hook anew.
        let [at, _] = self.program(edit, &words)?;
        known.hook.names = [at, wanted.names.len() as u64];
        Ok(())
    }
}

/// Writes the patches of hooks. Patches in padding come before those that lead to them.
fn write_patches(memory: &GuestMemory, prepared: &[Prepared]) -> Result<()> {
    let (mut first, mut last) = (Writes::default(), Writes::default());
    for made in prepared {
        if let Some((entry, pads)) = patches(&made.known.hook).split_last() {
            let add = |writes: &mut Writes, patch: &Patched| {
                writes.add(patch.at, patch.is[..patch.length as usize].to_vec());
            };
            pads.iter().for_each(|pad| add(&mut first, pad));
            add(&mut last, entry);
        }
    }
    first.write_by_page(memory)?;
    last.write_by_page(memory)
}
