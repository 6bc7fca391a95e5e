//! The answers of `lancet patch`, as lines or as JSON; [`template()`], the file to begin with. Used by
//! `lancet::commands::patch::run` and `lancet::commands::patch::args`.

mod json;
mod lines;
mod template;

use std::io::{self, Write};
use std::time::Duration;

use patch::{Applied, Inside, Listed, Plan, ScriptPatch, Setting, SettingsPlan, Stands, Took};

pub use template::{Language, Subject, template};

use crate::Writes;

/// How answers are written, in the order in which help lists them.
pub static FORMATS: &[&Writes] = &[&LINES, &Writes::Records];

static LINES: Writes = Writes::text("lines", "Lines, for people");

/// The process that is told of: its id and what the kernel calls it.
pub type Of<'g> = (i32, &'g str);

/// Writes answers in one format.
pub struct Answers<'o> {
    /// Where the answers are written to.
    pub out: &'o mut dyn Write,
    /// Whether they are JSON, an object a line, or lines for people.
    pub json: bool,
}

impl Answers<'_> {
    /// Which process the following is of; lines for people name it themselves.
    pub fn process(&mut self, pid: i32) -> io::Result<()> {
        match self.json {
            true => json::process(self.out, pid, &process::guest::command_line(pid)),
            false => Ok(()),
        }
    }

    /// A plan that was not carried out, and who is inside of its functions.
    pub fn plan(&mut self, (pid, name): Of, plan: &Plan, inside: &[Inside]) -> io::Result<()> {
        if self.json {
            return json::plan(self.out, pid, plan, inside);
        }
        lines::plan(self.out, (pid, name), plan, inside)
    }

    /// What was replaced, and how it is taken back.
    pub fn applied(&mut self, pid: i32, applied: &Applied) -> io::Result<()> {
        if self.json {
            return json::applied(self.out, pid, applied);
        }
        lines::applied(self.out, pid, applied)
    }

    /// What came of something that was done once; `resident` is the process's memory before and after.
    pub fn once(
        &mut self,
        pid: i32,
        answer: Option<&str>,
        resident: [Option<u64>; 2],
        stood: Duration,
    ) -> io::Result<()> {
        if self.json {
            json::once(self.out, pid, answer, resident)?;
            return json::stood(self.out, pid, stood);
        }
        lines::once(self.out, answer, resident, stood)
    }

    /// Writes the settings of a plan that was not carried out.
    pub fn settings_plan(&mut self, of: Of, plan: &SettingsPlan) -> io::Result<()> {
        if self.json {
            return json::settings_plan(self.out, of.0, plan);
        }
        lines::settings_plan(self.out, of, plan)
    }

    /// Settings that were changed, and how they are set back.
    pub fn settings_applied(
        &mut self,
        pid: i32,
        settings: &[Setting],
        note: &str,
        stood: Duration,
    ) -> io::Result<()> {
        if self.json {
            json::settings(self.out, pid, settings, "in_force")?;
            return json::stood(self.out, pid, stood);
        }
        lines::settings_applied(self.out, pid, settings, note, stood)
    }

    /// Writes the patches that there are.
    pub fn list(
        &mut self,
        pid: i32,
        all: &[Listed],
        settings: &[(Setting, Stands)],
        scripts: &[ScriptPatch],
    ) -> io::Result<()> {
        if self.json {
            json::scripts(self.out, pid, scripts, None)?;
            return json::list(self.out, pid, all, settings);
        }
        if scripts.is_empty() || !all.is_empty() || !settings.is_empty() {
            lines::list(self.out, pid, all, settings)?;
        }
        lines::scripts(self.out, scripts)
    }

    /// Functions of the script that would be replaced.
    pub fn scripts_checked(&mut self, pid: i32, scripts: &[ScriptPatch]) -> io::Result<()> {
        if self.json {
            return json::scripts(self.out, pid, scripts, Some("planned"));
        }
        lines::scripts_checked(self.out, scripts)
    }

    /// Functions of the script that were replaced, and how they are taken back.
    pub fn scripts_applied(&mut self, pid: i32, scripts: &[ScriptPatch]) -> io::Result<()> {
        if self.json {
            return json::scripts(self.out, pid, scripts, Some("in_force"));
        }
        lines::scripts_applied(self.out, pid, scripts)
    }

    /// Functions of the script that were put back.
    pub fn scripts_undone(&mut self, pid: i32, scripts: &[ScriptPatch]) -> io::Result<()> {
        if self.json {
            return json::scripts(self.out, pid, scripts, Some("undone"));
        }
        lines::scripts_undone(self.out, scripts)
    }

    /// What was taken back, and who is still in the new code.
    pub fn undone(&mut self, pid: i32, took: &Took) -> io::Result<()> {
        if self.json {
            return json::undone(self.out, pid, took);
        }
        lines::undone(self.out, pid, took)
    }

    /// Writes the list of remedies.
    pub fn remedies(&mut self) -> io::Result<()> {
        if self.json {
            return json::remedies(self.out);
        }
        lines::remedies(self.out)
    }
}
