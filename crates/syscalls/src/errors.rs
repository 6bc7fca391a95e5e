//! Names of error numbers: `ENOENT`, and its text. Used by `forms::siginfo`, `layout::custom`, `layout::custom::plain`
//! and others.

use nix::errno::Errno;

/// Errors by which the kernel asks itself to make a call again (include/linux/errno.h).
pub const AGAIN: [(i32, &str, &str); 4] = [
    (512, "ERESTARTSYS", "To be restarted if SA_RESTART is set"),
    (513, "ERESTARTNOINTR", "To be restarted"),
    (514, "ERESTARTNOHAND", "To be restarted if no handler"),
    (516, "ERESTART_RESTARTBLOCK", "Interrupted by signal"),
];

/// Returns the name of an error: `ENOENT`; of one without a name its number.
pub fn name(error: i32) -> String {
    if let Some((_, name, _)) = AGAIN.iter().find(|(number, ..)| *number == error) {
        return (*name).into();
    }
    match Errno::from_raw(error) {
        Errno::UnknownErrno => error.to_string(),
        known => format!("{known:?}"),
    }
}
