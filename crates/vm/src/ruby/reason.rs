//! The reason for a collection: `gc_start`'s second argument, bits `GPR_FLAG_…` (`gc.c`; 3.4: `gc/default/default.c`),
//! the same from v2_7_4 to v4.0.5. Used by `script`.

use core::fmt::Write;

use super::Error;

/// The causes of a collection; one of these bits is set.
const CAUSES: [(u32, &str); 5] = [
    (0x100, "newobj"),
    (0x200, "malloc"),
    (0x400, "method"),
    (0x800, "capi"),
    (0x1000, "stress"),
];

/// The ways of a collection: all objects are marked, and at once; the unused are freed at once; the rest is compacted.
const WAYS: [(u32, &str); 4] = [
    (0x1_0000, "full mark"),
    (0x8000, "immediate mark"),
    (0x2000, "immediate sweep"),
    (0x2_0000, "compact"),
];

/// Writes the reasons of a collection: `newobj`, `method | full mark | immediate mark | immediate sweep`.
pub fn write_reason(reason: u32, out: &mut dyn Write) -> Result<(), Error> {
    let mut begun = false;
    for (_, name) in CAUSES
        .iter()
        .chain(&WAYS)
        .filter(|(bit, _)| reason & bit != 0)
    {
        if begun {
            out.write_str(" | ")?;
        }
        begun = true;
        out.write_str(name)?;
    }
    if !begun {
        write!(out, "{reason:#x}")?;
    }
    Ok(())
}
