//! Guests and lancets of another kind: another user's, another word size's.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{TempDir, join, lancet};

/// Runs a program as the user nobody, without any capability.
pub fn as_nobody(program: &Command) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(program.get_program()).args(program.get_args());
    command.current_dir("/tmp");
    command
}

/// A lancet that everybody may run: the build's folder may be below somebody's home.
pub fn copy_for_all(folder: &TempDir) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let copy = folder.join("lancet");
    std::fs::copy(lancet().get_program(), &copy).expect("a copy of lancet");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    copy
}

/// A program that the test kills and waits for at its end, also where an assertion fails: a program that goes on would hold
/// the pipes of the test.
pub struct Killed(Child);

impl Killed {
    /// Starts it.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        join();
        command.spawn().map(Killed)
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.0.try_wait().expect("our child").is_none()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of 32 bits that waits for ever, made without any 32-bit library; or why there is none.
pub fn program_of_32_bits(folder: &TempDir) -> Result<Killed, String> {
    // pause(), for ever: system call 29 of i386.
    assembled_for_32_bits(folder, "0: mov $29, %eax; int $0x80; jmp 0b")
}

/// Starts a program of 32 bits that does nothing but these instructions; or why there is none.
pub fn assembled_for_32_bits(folder: &TempDir, instructions: &str) -> Result<Killed, String> {
    let program = built_for_32_bits(folder, instructions)?;
    let child = Killed::start(&mut Command::new(&program));
    child.map_err(|error| format!("it does not run: {error}"))
}

/// Makes that program; or why there is none.
pub fn built_for_32_bits(folder: &TempDir, instructions: &str) -> Result<PathBuf, String> {
    let program = folder.join("program");
    let source = format!(".globl _start\n_start: {instructions}\n");
    let mut gcc = Command::new("gcc")
        .args(["-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie"])
        .args(["-x", "assembler", "-", "-o"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| "no gcc")?;
    let mut stdin = gcc.stdin.take().expect("a pipe");
    stdin.write_all(source.as_bytes()).expect("gcc reads");
    drop(stdin);
    if !gcc.wait().expect("gcc ends").success() {
        return Err("this gcc makes none".into());
    }
    Ok(program)
}
