//! Plans patches while the guest runs: functions are found and decoded, files read, imports resolved. Used by
//! `remedies::trim`, `remedies::ucontext` and others here, and by the crates `lancet` and `report`.

use crate::code::is_in_force;
use crate::error::{Error, Result};
use crate::finder::{self, Asked};
use crate::guest::{Condition, Guest};
use crate::imports::{Import, Resolved, resolve};
use crate::inside::Inside;
use crate::journal::{MOST_RECORDS, Record, Set};
use crate::object::Object;
use crate::planned::{Planned, planned_function};
use crate::request::Request;
use process::functions::Function;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a patch is to last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// After this time the original functions run again, without a command.
    pub lasts: Option<Duration>,
}

/// A file of a plan, for who reads it.
#[derive(Debug)]
pub struct Loaded {
    /// The path of the file, made absolute.
    pub path: PathBuf,
    /// Its size in memory.
    pub size: u64,
    /// What the file imports, and where each import was found.
    pub imports: Vec<Import>,
}

/// Everything needed to patch one process, found while the process runs, so that it can be shown before it is applied. The process may
/// change meanwhile, so the plan's assumptions are checked again in the stop.
#[derive(Debug)]
pub struct Plan {
    /// The functions that are to be replaced, in the order of the requests.
    pub functions: Vec<Planned>,
    pub(crate) objects: Vec<Object>,
    pub(crate) resolved: Vec<Resolved>,
    /// How unwinders are to learn of the files; `None` = they need not, or cannot.
    pub(crate) finder: Option<Asked>,
    /// How long the patch is to last.
    pub limits: Limits,
    /// Its patches are only right together, so that they are undone together.
    pub(crate) together: bool,
    /// An action of the new code that is requested once, before the patches are undone.
    pub(crate) once: Option<Once>,
    /// A condition that the stopped process must meet besides, or nothing is applied.
    pub(crate) condition: Option<Condition>,
    /// The key of the set that the plan makes: see [`Set::key`].
    pub(crate) key: u64,
}

/// An action that the new code performs on request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Once {
    /// Requests the action, through the memory of the first patch's record.
    pub ask: fn(&Guest, &Record) -> Result<()>,
    /// The result of the action; `None` = it is not done yet.
    pub answer: fn(&Guest, &Record) -> Option<&'static str>,
}

impl Plan {
    /// Whether what it applies does something once and is undone then: [`ask`](Self::ask), then [`answer`](Self::answer).
    pub fn is_once(&self) -> bool {
        self.once.is_some()
    }

    /// Requests the new code's action.
    ///
    /// # Errors
    /// The process has ended.
    pub fn ask(&self, guest: &Guest, records: &[Record]) -> Result<()> {
        match (self.once, records.first()) {
            (Some(once), Some(record)) => (once.ask)(guest, record),
            _ => Ok(()),
        }
    }

    /// The result of the action; `None` = it is not done yet.
    pub fn answer(&self, guest: &Guest, records: &[Record]) -> Option<&'static str> {
        (self.once?.answer)(guest, records.first()?)
    }

    /// Returns the files that are loaded, in the order in which they were first asked for.
    pub fn files(&self) -> impl Iterator<Item = Loaded> {
        let both = self.objects.iter().zip(&self.resolved);
        both.map(|(object, resolved)| Loaded {
            path: object.path.clone(),
            size: object.size(),
            imports: resolved.imports.clone(),
        })
    }

    /// Refuses the plan if threads are inside of functions that it replaces.
    ///
    /// # Errors
    /// [`Error::Inside`], for the first of these functions.
    pub(crate) fn refuse_inside(&self, inside: &[Inside]) -> Result<()> {
        let Some(first) = inside.first() else {
            return Ok(());
        };
        let same: Vec<Inside> = inside
            .iter()
            .filter(|one| one.range == first.range)
            .copied()
            .collect();
        Err(Error::Inside {
            function: self
                .functions
                .get(first.range)
                .map_or_else(|| finder::ASKED.to_owned(), |one| one.request.shown()),
            threads: crate::inside::in_words(&same),
        })
    }
}

/// Plans all of the requests, or says why one cannot be.
///
/// # Errors
/// The first request that cannot be done. Nothing has changed.
pub fn plan(guest: &Guest, requests: &[Request], limits: Limits) -> Result<Plan> {
    if requests.len() > MOST_RECORDS {
        return Err(Error::Function {
            function: requests[MOST_RECORDS].shown(),
            reason: format!("at most {MOST_RECORDS} functions are replaced at once"),
        });
    }
    let mut objects: Vec<Object> = Vec::new();
    for request in requests {
        // The path is what later lists show.
        let path = absolute(&request.file);
        if !objects.iter().any(|object| object.path == path) {
            objects.push(Object::open(&path)?);
        }
    }
    let requests: Vec<Request> = requests
        .iter()
        .map(|request| Request {
            file: absolute(&request.file),
            ..request.clone()
        })
        .collect();
    plan_objects(guest, &requests, objects, limits)
}

/// Does what [`plan`] does, with files that have been read; each request names one by its path.
pub(crate) fn plan_objects(
    guest: &Guest,
    requests: &[Request],
    objects: Vec<Object>,
    limits: Limits,
) -> Result<Plan> {
    let mut functions: Vec<Planned> = Vec::new();
    for request in requests {
        let number = objects
            .iter()
            .position(|object| object.path == request.file);
        let number = number.unwrap_or_default();
        let planned = planned(guest, request, number, &objects[number])?;
        let address = planned.function.address;
        if functions.iter().any(|one| one.function.address == address) {
            return Err(Error::Function {
                function: request.shown(),
                reason: "it is asked for twice".into(),
            });
        }
        functions.push(planned);
    }
    let finder = finder::asked(guest, &objects)?;
    let numbered = || requests.iter().enumerate();
    let mut resolved = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let of_it: Vec<(usize, &Request)> = numbered()
            .filter(|(at, _)| functions[*at].object == number)
            .collect();
        resolved.push(resolve(guest, object, &of_it, finder.is_some())?);
    }
    let mut plan = Plan {
        functions,
        objects,
        resolved,
        finder,
        limits,
        together: false,
        once: None,
        condition: None,
        key: 0,
    };
    plan.key = key(&plan);
    Ok(plan)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Finds the function that a request means and the one that is to take its place, and decodes the first.
fn planned(guest: &Guest, request: &Request, object: usize, file: &Object) -> Result<Planned> {
    let refused = |reason: String| Error::Function {
        function: request.shown(),
        reason,
    };
    let replacement = file.function(&request.new).ok_or_else(|| Error::File {
        file: file.path.clone(),
        reason: format!(
            "it shows no function {} (nm -D lists them; C++ needs extern \"C\")",
            request.new
        ),
    })?;
    let function = find(guest, request).map_err(refused)?;
    let maps = guest.maps()?;
    for set in Set::of_patches(&guest.memory, &maps) {
        let mut here = set.records.iter();
        let same = here.find(|record| record.entry == function.address);
        if let Some(record) = same.filter(|record| is_in_force(guest, record)) {
            return Err(refused(format!(
                "patch {} has replaced it already: --undo {} first",
                record.id, record.id
            )));
        }
    }
    let mut planned = planned_function(guest, &function).map_err(refused)?;
    planned.request = request.clone();
    (planned.object, planned.replacement) = (object, replacement);
    Ok(planned)
}

/// The one function that a request means.
///
/// # Errors
/// There is none, or there are several.
pub fn function(guest: &Guest, request: &Request) -> Result<Function> {
    find(guest, request).map_err(|reason| Error::Function {
        function: request.shown(),
        reason,
    })
}

fn find(guest: &Guest, request: &Request) -> std::result::Result<Function, String> {
    let named = |name: &str, place: &process::functions::ModuleSymbols| {
        name == request.function && request.is_in(&place.name)
    };
    let found = guest.functions.find(true, named);
    match found.as_slice() {
        [] => Err(match &request.library {
            None => "the process has no function of this name".into(),
            Some(library) => format!("{library} is not loaded, or has no function of this name"),
        }),
        [one] if one.picks => {
            Err("it is chosen at its first call, which has not been made yet".into())
        }
        [one] => Ok(one.clone()),
        several => {
            let places = several.iter().map(|one| match request.library {
                None => format!("{}@{}", one.name, one.module),
                Some(_) => format!("{:#x}", one.address),
            });
            let places: Vec<String> = places.collect();
            Err(format!(
                "there are {}: {}",
                several.len(),
                places.join(", ")
            ))
        }
    }
}

/// A number that is the same for the same files, functions and addresses of imports.
fn key(plan: &Plan) -> u64 {
    let mut text = String::new();
    for (object, resolved) in plan.objects.iter().zip(&plan.resolved) {
        text += &format!(
            "{:?} {:?} {:?};",
            object.path, object.fingerprint, resolved.targets
        );
    }
    for one in &plan.functions {
        text += &format!(
            "{:#x} {:?} {} {:#x};",
            one.function.address, one.code, one.object, one.replacement
        );
    }
    text += &plan.limits.lasts.is_some().to_string();
    wire::calls::fingerprint(text.as_bytes())
}
