//! The answers of `lancet patch`, as lines. Used by `patch`.

use std::io::{self, Write};
use std::time::Duration;

use patch::{
    Applied, Import, Inside, Listed, Plan, Planned, REMEDIES, Record, ScriptPatch, ScriptState,
    Setting, SettingsPlan, Stands, State, Took, Undone,
};

use crate::text::printable;

/// Names that are written of a file's imports.
const MOST_IMPORTS: usize = 12;

/// Writes a line of guest text.
fn line(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable(text))
}

/// Writes a plan that was not carried out, and who is inside of its functions; `pid` and `name` are the process's.
pub fn plan(
    out: &mut dyn Write,
    (pid, name): (i32, &str),
    plan: &Plan,
    inside: &[Inside],
) -> io::Result<()> {
    let count = plan.functions.len();
    let functions = if count == 1 { "function" } else { "functions" };
    line(
        out,
        &format!("process {pid} ({name}): {count} {functions} would be replaced"),
    )?;
    for (number, one) in plan.functions.iter().enumerate() {
        function(out, one)?;
        let here = inside.iter().filter(|thread| thread.range == number);
        let tids: Vec<String> = here.map(|thread| thread.tid.to_string()).collect();
        match tids.as_slice() {
            [] => line(out, "    no thread is inside")?,
            tids => line(out, &format!("    inside now: thread {}", tids.join(", ")))?,
        }
    }
    for file in plan.files() {
        let kib = file.size / 1024;
        let path = file.path.display();
        let imports = imports(&file.imports);
        line(out, &format!("  {path}: {kib} KiB; {imports}"))?;
    }
    if let Some(lasts) = plan.limits.lasts {
        line(out, &format!("  for {}", time(lasts)))?;
    }
    Ok(())
}

fn function(out: &mut dyn Write, one: &Planned) -> io::Result<()> {
    let build = one.build_id.as_deref().map_or_else(String::new, |id| {
        format!(", build id {}", id.get(..12).unwrap_or(id))
    });
    line(
        out,
        &format!(
            "  {}@{} at {:#x}, {} bytes{build}: by {} of {}",
            one.function.name,
            one.function.module,
            one.function.address,
            one.function.size,
            one.request.new,
            one.request.file.display(),
        ),
    )?;
    let from = (one.place() - one.function.address) as usize;
    let bytes = one.code.get(from..from + one.moved().min(16));
    let bytes = bytes
        .unwrap_or_default()
        .iter()
        .map(|byte| format!("{byte:02x}"));
    line(
        out,
        &format!(
            "    a jump of 5 bytes at {:#x}; what it displaces runs elsewhere: {}",
            one.place(),
            bytes.collect::<Vec<_>>().join(" "),
        ),
    )
}

/// Writes the list of remedies.
pub fn remedies(out: &mut dyn Write) -> io::Result<()> {
    for remedy in REMEDIES {
        writeln!(out, "{}{}", remedy.name, remedy.arguments)?;
        writeln!(out, "    {}", remedy.mends)?;
        writeln!(out, "    {}", remedy.risks)?;
    }
    Ok(())
}

fn imports(imports: &[Import]) -> String {
    if imports.is_empty() {
        return "it imports nothing".into();
    }
    let shown = imports.iter().take(MOST_IMPORTS);
    let shown: Vec<String> = shown
        .map(|import| format!("{} from {}", import.name, import.from))
        .collect();
    let more = imports.len().saturating_sub(MOST_IMPORTS);
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("imports {}{more}", shown.join(", "))
}

/// Writes what was replaced, and how it is taken back.
pub fn applied(out: &mut dyn Write, pid: i32, applied: &Applied) -> io::Result<()> {
    for record in &applied.records {
        let names = names(record);
        let id = record.id;
        line(
            out,
            &format!("patch {id}: {names}; back: lancet patch -p {pid} --undo {id}"),
        )?;
    }
    if applied.again {
        line(
            out,
            "the file was there from an earlier patch: its variables are as they were left",
        )?;
    }
    stood(out, applied.stood)
}

fn names(record: &Record) -> String {
    let Record {
        function,
        module,
        symbol,
        file,
        ..
    } = record;
    format!("{function}@{module} is replaced by {symbol} of {file}")
}

fn stood(out: &mut dyn Write, stood: Duration) -> io::Result<()> {
    let milliseconds = stood.as_secs_f64() * 1e3;
    writeln!(out, "the process stood still for {milliseconds:.2} ms")
}

/// Writes what came of something that was done once; `resident` is the process's memory before and after, in bytes, as far as it
/// could be read.
pub fn once(
    out: &mut dyn Write,
    answer: Option<&str>,
    resident: [Option<u64>; 2],
    time: Duration,
) -> io::Result<()> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    match (answer, resident) {
        (Some(answer), [Some(before), Some(after)]) => {
            let [before, after] = [before, after].map(mib);
            writeln!(
                out,
                "{answer}: {before:.1} MiB were resident, {after:.1} are"
            )?;
        }
        (Some(answer), _) => writeln!(out, "{answer}")?,
        (None, _) => writeln!(
            out,
            "no thread has called it meanwhile, and nothing has happened"
        )?,
    }
    stood(out, time)
}

/// Writes settings that were not changed.
pub fn settings_plan(
    out: &mut dyn Write,
    (pid, name): (i32, &str),
    plan: &SettingsPlan,
) -> io::Result<()> {
    let count = plan.settings.len();
    let settings = if count == 1 { "setting" } else { "settings" };
    line(
        out,
        &format!("process {pid} ({name}): {count} {settings} would be changed"),
    )?;
    for setting in &plan.settings {
        line(out, &format!("  {}", change(setting)))?;
    }
    line(out, &format!("  when it is undone, {}", plan.note))
}

/// `limit of open files (soft, hard): 1024 524288 to 4096 524288`.
fn change(setting: &Setting) -> String {
    let values = |[first, second]: [u64; 2]| match second {
        0 => first.to_string(),
        u64::MAX => format!("{first} unlimited"),
        second => format!("{first} {second}"),
    };
    format!(
        "{}: {} to {}",
        setting.what,
        values(setting.old),
        values(setting.new)
    )
}

/// Writes settings that were changed, and how they are set back.
pub fn settings_applied(
    out: &mut dyn Write,
    pid: i32,
    settings: &[Setting],
    note: &str,
    time: Duration,
) -> io::Result<()> {
    for setting in settings {
        let id = setting.id;
        line(
            out,
            &format!(
                "patch {id}: {}; back: lancet patch -p {pid} --undo {id}",
                change(setting)
            ),
        )?;
    }
    line(out, &format!("when it is undone, {note}"))?;
    stood(out, time)
}

/// Writes the patches that there are.
pub fn list(
    out: &mut dyn Write,
    pid: i32,
    all: &[Listed],
    settings: &[(Setting, Stands)],
) -> io::Result<()> {
    for (setting, stands) in settings {
        let how = match stands {
            Stands::InForce | Stands::Undone => stands.name(),
            Stands::Changed => "closed, or changed by something else since",
        };
        let Setting { id, remedy, .. } = setting;
        line(
            out,
            &format!("patch {id}: {how}: {} by remedy {remedy}", change(setting)),
        )?;
    }
    if all.is_empty() && settings.is_empty() {
        return writeln!(out, "process {pid} has no patches");
    }
    for Listed { record, state } in all {
        let how = match state {
            State::InForce(Some(left)) => format!("{} for {}", state.name(), time(*left)),
            State::Over => format!(
                "{} (its time has passed; the function runs as it was)",
                state.name()
            ),
            State::Covered => format!("{} by something else since", state.name()),
            State::InForce(None) | State::Undone => state.name().into(),
        };
        let Record {
            id,
            function,
            module,
            symbol,
            file,
            ..
        } = record;
        line(
            out,
            &format!("patch {id}: {how}: {function}@{module} by {symbol} of {file}"),
        )?;
    }
    Ok(())
}

/// Writes patches of the script's functions that were listed.
pub fn scripts(out: &mut dyn Write, all: &[ScriptPatch]) -> io::Result<()> {
    for one in all {
        let how = match one.state {
            ScriptState::InForce => "in force",
            ScriptState::Covered => "changed by something else since",
            ScriptState::Ends => "taken back, and calls of it still run",
        };
        let ScriptPatch {
            id,
            target,
            file,
            old,
            ..
        } = one;
        let text = format!("patch s{id}: {how}: {target} by {file} (was {old})");
        line(out, &text)?;
    }
    Ok(())
}

/// Writes that functions of the script would be replaced.
pub fn scripts_checked(out: &mut dyn Write, all: &[ScriptPatch]) -> io::Result<()> {
    for one in all {
        let (target, file, old) = (&one.target, &one.file, &one.old);
        let text = format!("{target} (now {old}) would be replaced by that of {file}");
        line(out, &text)?;
    }
    Ok(())
}

/// Writes that functions of the script were replaced, and how they are taken back.
pub fn scripts_applied(out: &mut dyn Write, pid: i32, all: &[ScriptPatch]) -> io::Result<()> {
    for one in all {
        let more = match one.definitions {
            0 | 1 => String::new(),
            count => format!(", with {} more that the file defines", count - 1),
        };
        let (id, target, file, old) = (one.id, &one.target, &one.file, &one.old);
        let text = format!(
            "patch s{id}: {target} (was {old}) is replaced by that of {file}{more}; back: lancet patch -p {pid} --undo s{id}"
        );
        line(out, &text)?;
    }
    Ok(())
}

/// Writes that functions of the script were put back.
pub fn scripts_undone(out: &mut dyn Write, all: &[ScriptPatch]) -> io::Result<()> {
    for one in all {
        let (id, target, old) = (one.id, &one.target, &one.old);
        let rest = match one.state {
            ScriptState::Ends => {
                "; calls of the new one still run: what else its file defines goes with the next lancet patch after them"
            }
            _ => "",
        };
        line(
            out,
            &format!("patch s{id}: {target} is as it was ({old}){rest}"),
        )?;
    }
    Ok(())
}

/// Writes what was taken back, and who is still in the new code.
pub fn undone(out: &mut dyn Write, pid: i32, took: &Took) -> io::Result<()> {
    for setting in &took.settings {
        let (id, what) = (setting.id, &setting.what);
        line(out, &format!("patch {id}: {what} is as it was"))?;
    }
    if took.undone.is_empty() && !took.settings.is_empty() {
        return Ok(());
    }
    if took.undone.is_empty() {
        writeln!(out, "process {pid} has no patch in force")?;
    }
    for Undone { record, inside } in &took.undone {
        let (id, function, module) = (record.id, &record.function, &record.module);
        line(
            out,
            &format!("patch {id}: {function}@{module} is as it was"),
        )?;
        if !inside.is_empty() {
            let tids: Vec<String> = inside.iter().map(|one| one.tid.to_string()).collect();
            let text = format!(
                "    still in the new code, or returning there: thread {}; it stays mapped",
                tids.join(", ")
            );
            line(out, &text)?;
        }
    }
    if let Some(why) = &took.finder_stays {
        let text =
            format!("{why}: the jump by which unwinders know that stays, until a later --undo");
        line(out, &text)?;
    }
    stood(out, took.stood)
}

/// A duration for people: `9m 59s`, `12.5 s`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            id: 2,
            function: "total".into(),
            module: "libshop.so.1".into(),
            file: "/root/fix\u{1b}.so".into(),
            symbol: "total".into(),
            ..Record::default()
        }
    }

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_list_says_how_it_stands() {
        let states = [
            State::InForce(Some(Duration::from_secs(599))),
            State::Undone,
        ];
        let all = states.map(|state| Listed {
            record: record(),
            state,
        });
        let written = text(|out| list(out, 7, &all, &[]));
        let mut lines = written.lines();
        let first = lines.next().unwrap();
        assert!(
            first.starts_with(
                "patch 2: in force for 9m 59s: total@libshop.so.1 by total of /root/fix"
            )
        );
        assert!(!first.contains('\u{1b}'), "{first:?}");
        assert!(lines.next().unwrap().starts_with("patch 2: undone: "));
        assert_eq!(
            text(|out| list(out, 7, &[], &[])),
            "process 7 has no patches\n"
        );
    }

    #[test]
    fn an_undo_says_who_is_still_there() {
        let inside = vec![Inside {
            tid: 12,
            range: 0,
            runs: true,
        }];
        let took = Took {
            undone: vec![Undone {
                record: record(),
                inside,
            }],
            settings: Vec::new(),
            stood: Duration::from_micros(310),
            finder_stays: None,
        };
        let written = text(|out| undone(out, 7, &took));
        assert_eq!(
            written,
            "patch 2: total@libshop.so.1 is as it was\n    still in the new code, or returning there: thread 12; it \
             stays mapped\nthe process stood still for 0.31 ms\n"
        );
    }
}
