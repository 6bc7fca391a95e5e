//! The answers of `lancet patch` as JSON, one object a line: `docs/patch.md` has the fields.

use std::io::{self, Write};
use std::time::Duration;

use patch::{
    Applied, Inside, Listed, Plan, REMEDIES, Record, ScriptPatch, ScriptState, Setting,
    SettingsPlan, Stands, State, Took,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::json::line;

/// An object that begins with its kind and the process.
#[derive(Serialize)]
struct Object<'r> {
    record: &'r str,
    pid: i32,
    #[serde(flatten)]
    fields: Value,
}

fn object(out: &mut dyn Write, record: &str, pid: i32, fields: Value) -> io::Result<()> {
    line(
        out,
        &Object {
            record,
            pid,
            fields,
        },
    )
}

/// The time for which a process stood still.
pub fn stood(out: &mut dyn Write, pid: i32, time: Duration) -> io::Result<()> {
    let fields = json!({ "milliseconds": time.as_secs_f64() * 1e3 });
    object(out, "stop", pid, fields)
}

/// A plan that was not carried out.
pub fn plan(out: &mut dyn Write, pid: i32, plan: &Plan, inside: &[Inside]) -> io::Result<()> {
    for (number, one) in plan.functions.iter().enumerate() {
        let here = inside.iter().filter(|thread| thread.range == number);
        let fields = json!({
            "function": one.function.name, "module": &*one.function.module,
            "address": format!("{:#x}", one.function.address), "size": one.function.size,
            "build_id": one.build_id, "jump": format!("{:#x}", one.place()), "moved": one.moved(),
            "file": one.request.file, "new": one.request.new,
            "inside": here.map(|thread| thread.tid).collect::<Vec<_>>(),
        });
        object(out, "plan", pid, fields)?;
    }
    for file in plan.files() {
        let imports = file.imports.iter();
        let imports = imports.map(|import| json!({ "name": import.name, "from": import.from }));
        let fields = json!({
            "file": file.path, "bytes": file.size, "imports": imports.collect::<Vec<_>>(),
        });
        object(out, "file", pid, fields)?;
    }
    Ok(())
}

fn patch(record: &Record, state: &str, left: Option<Duration>) -> Value {
    json!({
        "id": record.id, "state": state, "seconds_left": left.map(|left| left.as_secs_f64()),
        "function": record.function, "module": record.module,
        "address": format!("{:#x}", record.entry), "file": record.file, "new": record.symbol,
    })
}

fn setting(setting: &Setting, state: &str) -> Value {
    json!({
        "id": setting.id, "state": state, "remedy": setting.remedy, "what": setting.what,
        "old": setting.old, "new": setting.new,
    })
}

/// Writes what was replaced, a record for each function, and how long the process stood still.
pub fn applied(out: &mut dyn Write, pid: i32, applied: &Applied) -> io::Result<()> {
    for record in &applied.records {
        object(out, "patch", pid, patch(record, "in force", None))?;
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
    let fields = json!({
        "answer": answer, "resident_before": resident[0], "resident_after": resident[1],
    });
    object(out, "once", pid, fields)
}

/// Settings that are to be changed, or were.
pub fn settings(
    out: &mut dyn Write,
    pid: i32,
    settings: &[Setting],
    state: &str,
) -> io::Result<()> {
    for one in settings {
        object(out, "setting", pid, setting(one, state))?;
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
        object(out, "setting", pid, setting(one, stands.name()))?;
    }
    for Listed { record, state } in all {
        let left = match state {
            State::InForce(left) => *left,
            _ => None,
        };
        object(out, "patch", pid, patch(record, state.name(), left))?;
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
            ScriptState::InForce => "in force",
            ScriptState::Covered => "changed",
            ScriptState::Ends => "ends",
        };
        let fields = json!({
            "id": format!("s{}", one.id), "state": state.unwrap_or(stands), "function": one.target,
            "file": one.file, "old": one.old, "definitions": one.definitions,
        });
        object(out, "script", pid, fields)?;
    }
    Ok(())
}

/// Writes what was taken back.
pub fn undone(out: &mut dyn Write, pid: i32, took: &Took) -> io::Result<()> {
    settings(out, pid, &took.settings, "undone")?;
    for one in &took.undone {
        let mut fields = patch(&one.record, "undone", None);
        let inside: Vec<i32> = one.inside.iter().map(|thread| thread.tid).collect();
        fields["inside"] = inside.into();
        fields["unwinders_stay"] = took.finder_stays.is_some().into();
        object(out, "patch", pid, fields)?;
    }
    stood(out, pid, took.stood)
}

/// Writes the list of remedies.
pub fn remedies(out: &mut dyn Write) -> io::Result<()> {
    for remedy in REMEDIES {
        let fields = json!({
            "record": "remedy", "name": remedy.name, "arguments": remedy.arguments,
            "mends": remedy.mends, "risks": remedy.risks,
        });
        line(out, &fields)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_object_a_line() {
        let record = Record {
            id: 2,
            function: "total".into(),
            file: "/root/fix\u{9b}.so".into(),
            ..Record::default()
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
        assert_eq!(lines[1]["state"], "in force");
        assert_eq!(lines[1]["seconds_left"], 5.0);
        assert_eq!(lines[1]["pid"], 7);
    }
}
