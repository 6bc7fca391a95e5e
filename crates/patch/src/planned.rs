//! One function that is to be replaced: what it is now, and the jump at its entry. Used by `finder`, `plan` and others
//! here, and by crate `report`.

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::request::Request;
use hooks::plan_replacement;
use process::functions::Function;
use process::maps::{Mapping, Maps};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// One function of a plan.
#[derive(Debug)]
pub struct Planned {
    /// What was asked for.
    pub request: Request,
    /// The function that is to be replaced.
    pub function: Function,
    /// The build id of its module, in hexadecimal digits, if it has one.
    pub build_id: Option<String>,
    /// The bytes of its code that were looked at.
    pub code: Vec<u8>,
    /// The jump and what it displaces.
    pub(crate) plan: trampoline::Plan,
    /// The number of the file.
    pub(crate) object: usize,
    /// The new function's address in the file.
    pub(crate) replacement: u64,
    /// Threads may stand anywhere in it except within the jump: what they still run is compatible with the replacement.
    pub(crate) goes_on: bool,
    /// Where its module is mapped.
    mapping: Mapping,
}

impl Planned {
    /// The address of the jump.
    pub fn place(&self) -> u64 {
        self.plan.patch_at
    }

    /// How many bytes run elsewhere when the function as it was is called.
    pub fn moved(&self) -> usize {
        self.plan.stolen
    }

    /// The addresses at which a thread is inside.
    pub(crate) fn range(&self) -> Range<u64> {
        if self.goes_on {
            return self.place() + 1..self.place() + 5;
        }
        let size = match self.function.size {
            0 => self.code.len() as u64,
            size => size,
        };
        self.function.address + 1..self.function.address + size.max(6)
    }

    /// Refuses if the guest, which stands still, is not any more what was looked at.
    pub(crate) fn check(&self, guest: &Guest, maps: &Maps) -> Result<()> {
        let refused = |reason: &str| Error::Function {
            function: self.request.shown(),
            reason: reason.into(),
        };
        let file = |mapping: &Mapping| {
            let start = mapping.start.wrapping_sub(mapping.offset);
            (mapping.device, mapping.inode, start)
        };
        let now = maps.find(self.function.address);
        if now.map(file) != Some(file(&self.mapping)) {
            return Err(refused(
                "its library was unloaded or replaced while we looked at it",
            ));
        }
        let mut code = vec![0; self.code.len()];
        guest.memory.read_bytes(self.function.address, &mut code)?;
        if code != self.code {
            return Err(refused("its code changed while we looked at it: try again"));
        }
        Ok(())
    }
}

/// The plan of a jump at the entry of a function; for the request of its own name.
pub(crate) fn planned_function(
    guest: &Guest,
    function: &Function,
) -> std::result::Result<Planned, String> {
    let (code, plan) = plan_replacement(&guest.functions, &guest.memory, function)
        .map_err(|reason| reason.to_string())?;
    is_as_in_file(guest, function, &code)?;
    let place = guest.functions.module_of(function.address);
    let build_id = place.and_then(|place| place.symbols.build_id());
    let maps = guest.maps().map_err(|error| error.to_string())?;
    let mapping = maps.find(function.address).cloned();
    Ok(Planned {
        build_id: build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
        mapping: mapping.ok_or("its library was unloaded")?,
        request: Request {
            function: function.name.clone(),
            library: None,
            file: PathBuf::new(),
            new: String::new(),
        },
        function: function.clone(),
        code,
        plan,
        object: 0,
        replacement: 0,
        goes_on: false,
    })
}

/// Refuses a function whose code differs from its file, as something has changed it. If the file cannot be read any more, refuses one that
/// begins with a jump or a breakpoint.
fn is_as_in_file(
    guest: &Guest,
    function: &Function,
    code: &[u8],
) -> std::result::Result<(), String> {
    const CHANGED: &str = "its code is not that of its file: something has hooked it (lancet calls, a debugger, another tool); end that first";
    let place = guest.functions.module_of(function.address);
    let place = place.ok_or("its library was unloaded")?;
    let mut now = vec![0; code.len()];
    let read = guest.memory.read_bytes(function.address, &mut now);
    read.map_err(|error| error.to_string())?;
    let was = place.symbols.file().and_then(|file| {
        let address = function.address.wrapping_sub(place.module.bias);
        let at = place
            .module
            .headers
            .file_offset(address, code.len() as u64)?;
        let mut was = vec![0; code.len()];
        file.read_exact_at(&mut was, at).ok().map(|()| was)
    });
    let is_changed = match was {
        Some(was) => was != now,
        None => matches!(now.first(), Some(0xe9 | 0xeb | 0xcc)),
    };
    if is_changed || now != code {
        return Err(CHANGED.into());
    }
    Ok(())
}
