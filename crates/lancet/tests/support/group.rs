//! A control group with a memory limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{is_root, skip};

/// A group for one guest; its limit is that of version 1, which can be made beside any other.
pub struct Group(PathBuf);

impl Group {
    /// Makes one; `None`, and a printed skip, where that is not possible.
    pub fn make(test: &str) -> Option<Self> {
        Self::of("memory", test)
    }

    /// The same of another controller.
    pub fn of(controller: &str, test: &str) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup").join(controller);
        let path = top.join(format!("lancet-test-{test}-{}", std::process::id()));
        if !is_root() || fs::create_dir(&path).is_err() || !path.join("tasks").exists() {
            skip(test, "no control group of version 1 can be made here");
            return None;
        }
        Some(Group(path))
    }

    /// A command that becomes the program in the group, with the same process id.
    pub fn inside(&self, program: &Command) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(self.0.join("tasks")).arg(program.get_program());
        command.args(program.get_args());
        command
    }

    /// Writes one of its files.
    pub fn write(&self, file: &str, value: impl ToString) {
        fs::write(self.0.join(file), value.to_string()).expect(file);
    }

    /// Bytes that it uses.
    pub fn charged(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("memory.usage_in_bytes")).expect("charged");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let tasks = fs::read_to_string(self.0.join("tasks")).unwrap_or_default();
        for task in tasks.lines() {
            let _ = fs::write(self.0.with_file_name("tasks"), task);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
