//! The answers of `lancet patch` as JSON, one object a line: [`answer::patch`]. Used by `patch`.

use std::io::{self, Write};
use std::time::Duration;

use answer::patch::{Import, Record};
use answer::place::{Address, Place};
use answer::process::Process;
use answer::time::nanos;
use patch::{
    Applied, Inside, Listed, Plan, REMEDIES, ScriptPatch, ScriptState, Setting, SettingsPlan,
    Stands, State, Took,
};

use crate::json::line;

/// The process, before all else.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn process(out: &mut dyn Write, pid: i32, command: &[String]) -> io::Result<()> {
    line(out, &Record::Process(Process::new(pid, command)))
}

/// The time for which a process stood still.
pub fn stood(out: &mut dyn Write, pid: i32, time: Duration) -> io::Result<()> {
    let stopped_ns = nanos(time);
    line(out, &Record::Stop { pid, stopped_ns })
}

/// A plan that was not carried out.
pub fn plan(out: &mut dyn Write, pid: i32, plan: &Plan, inside: &[Inside]) -> io::Result<()> {
    for (number, one) in plan.functions.iter().enumerate() {
        let here = inside.iter().filter(|thread| thread.range == number);
        let record = Record::Plan {
            pid,
            function: &one.function.name,
            module: &one.function.module,
            address: Address(one.function.address),
            size: one.function.size,
            build_id: one.build_id.as_deref(),
            jump: Address(one.place()),
            moved: one.moved(),
            file: one.request.file.to_string_lossy(),
            new: &one.request.new,
            inside: here.map(|thread| thread.tid).collect(),
        };
        line(out, &record)?;
    }
    for file in plan.files() {
        let imports = file.imports.iter();
        let imports = imports.map(|import| Import {
            name: &import.name,
            from: &import.from,
        });
        let record = Record::File {
            pid,
            file: file.path.to_string_lossy(),
            bytes: file.size,
            imports: imports.collect(),
        };
        line(out, &record)?;
    }
    Ok(())
}

fn patch<'a>(
    pid: i32,
    record: &'a patch::Record,
    state: &'a str,
    left: Option<Duration>,
) -> answer::patch::Patch<'a> {
    answer::patch::Patch {
        pid,
        id: record.id,
        state,
        ends_in_ns: left.map(nanos),
        function: &record.function,
        module: &record.module,
        address: Address(record.entry),
        file: &record.file,
        new: &record.symbol,
        inside: None,
        unwinders_stay: None,
    }
}

/// The state of a patch in one word.
fn of_patch(state: &State) -> &'static str {
    match state {
        State::InForce(_) => "in_force",
        other => other.name(),
    }
}

/// The state of a setting in one word.
fn of_setting(stands: Stands) -> &'static str {
    match stands {
        Stands::InForce => "in_force",
        other => other.name(),
    }
}

fn setting<'a>(pid: i32, setting: &'a Setting, state: &'a str) -> Record<'a> {
    Record::Setting {
        pid,
        id: setting.id,
        state,
        remedy: &setting.remedy,
        what: &setting.what,
        old: setting.old,
        new: setting.new,
    }
}

/// Writes what was replaced, a record for each function, and how long the process stood still.
pub fn applied(out: &mut dyn Write, pid: i32, applied: &Applied) -> io::Result<()> {
    for record in &applied.records {
        line(out, &Record::Patch(patch(pid, record, "in_force", None)))?;
    }
    stood(out, pid, applied.stood)
}

/// Writes what came of something that was done once.
pub fn once(
    out: &mut dyn Write,
    pid: i32,
    answer: Option<&str>,
    resident: [Option<u64>; 2],
) -> io::Result<()> {
    let [resident_before, resident_after] = resident;
    let record = Record::Once {
        pid,
        answer,
        resident_before,
        resident_after,
    };
    line(out, &record)
}

/// Settings that are to be changed, or were.
pub fn settings(
    out: &mut dyn Write,
    pid: i32,
    settings: &[Setting],
    state: &str,
) -> io::Result<()> {
    for one in settings {
        line(out, &setting(pid, one, state))?;
    }
    Ok(())
}

/// Writes the settings of a plan that was not carried out.
pub fn settings_plan(out: &mut dyn Write, pid: i32, plan: &SettingsPlan) -> io::Result<()> {
    settings(out, pid, &plan.settings, "planned")
}

/// Writes the patches and settings that there are.
pub fn list(
    out: &mut dyn Write,
    pid: i32,
    all: &[Listed],
    settings: &[(Setting, Stands)],
) -> io::Result<()> {
    for (one, stands) in settings {
        line(out, &setting(pid, one, of_setting(*stands)))?;
    }
    for Listed { record, state } in all {
        let left = match state {
            State::InForce(left) => *left,
            _ => None,
        };
        line(
            out,
            &Record::Patch(patch(pid, record, of_patch(state), left)),
        )?;
    }
    Ok(())
}

/// Functions of the script; `state` is what was done with them, `None` = they are listed.
pub fn scripts(
    out: &mut dyn Write,
    pid: i32,
    all: &[ScriptPatch],
    state: Option<&str>,
) -> io::Result<()> {
    for one in all {
        let stands = match one.state {
            ScriptState::InForce => "in_force",
            ScriptState::Covered => "changed",
            ScriptState::Ends => "ends",
        };
        let record = Record::Script {
            pid,
            id: format!("s{}", one.id),
            state: state.unwrap_or(stands),
            function: &one.target,
            file: &one.file,
            old: place(&one.old),
            definitions: one.definitions,
        };
        line(out, &record)?;
    }
    Ok(())
}

/// Takes `path:line` apart.
fn place(text: &str) -> Place<'_> {
    let parts = text.rsplit_once(':');
    let parts = parts.and_then(|(path, line)| Some((path, line.parse().ok()?)));
    let (path, line) = parts.unwrap_or((text, 0));
    Place::new(path, line, "")
}

/// Writes what was taken back.
pub fn undone(out: &mut dyn Write, pid: i32, took: &Took) -> io::Result<()> {
    settings(out, pid, &took.settings, "undone")?;
    for one in &took.undone {
        let inside = one.inside.iter().map(|thread| thread.tid);
        let record = answer::patch::Patch {
            inside: Some(inside.collect()),
            unwinders_stay: Some(took.finder_stays.is_some()),
            ..patch(pid, &one.record, "undone", None)
        };
        line(out, &Record::Patch(record))?;
    }
    stood(out, pid, took.stood)
}

/// Writes the list of remedies.
pub fn remedies(out: &mut dyn Write) -> io::Result<()> {
    for remedy in REMEDIES {
        let record = Record::Remedy {
            name: remedy.name,
            arguments: remedy.arguments,
            mends: remedy.mends,
            risks: remedy.risks,
        };
        line(out, &record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_list_has_an_object_a_line() {
        let record = patch::Record {
            id: 2,
            function: "total".into(),
            file: "/root/fix\u{9b}.so".into(),
            ..patch::Record::default()
        };
        let state = State::InForce(Some(Duration::from_secs(5)));
        let one = Setting {
            id: 3,
            remedy: "nofile".into(),
            old: [1, 2],
            ..Setting::default()
        };
        let mut out = Vec::new();
        let settings = [(one, Stands::Undone)];
        list(&mut out, 7, &[Listed { record, state }], &settings).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(!text.contains('\u{9b}'), "{text}");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines[0]["record"], "setting");
        assert_eq!(lines[0]["old"][1], 2);
        assert_eq!(lines[1]["state"], "in_force");
        assert_eq!(lines[1]["ends_in_ns"], 5_000_000_000_u64);
        assert_eq!(lines[1]["pid"], 7);
    }
}
