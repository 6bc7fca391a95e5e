//! A panic of the command, which is a fault of ours: the guests are left, and the command ends with one line. Used by
//! `commands::mem::run`, `commands::mem::started`, `ui::interrupt` and others.
//!
//! A panic of the main thread unwinds. Each command catches it where its guests are owned ([`catch`]), leaves them as it
//! does at its end, and says what could not be left; what unwinds while guests are still being opened leaves them by
//! `Drop` (`inject::lifecycle::Processes`, `hooks::Tracing`, what `enter` has opened), which panics of their own do not stop. A panic
//! of another thread (heartbeat, output) counts as a Ctrl-C ([`has_begun`]): the main thread leaves and ends. `main` has
//! the last word: whatever the command answers after a panic, the exit code is 1.

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static BEGUN: AtomicBool = AtomicBool::new(false);
/// The first panic. What follows while guests are left is mostly a consequence of it.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Notes panics from now on, in place of printing them; with `RUST_BACKTRACE` they are printed too.
pub fn note_panics() {
    let print = panic::take_hook();
    let backtrace = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    panic::set_hook(Box::new(move |info| {
        if backtrace {
            print(info);
        }
        note(info);
    }));
}

fn note(info: &PanicHookInfo) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = info.location().map(ToString::to_string);
    let line = format!(
        "{} ({})",
        text.unwrap_or("a panic"),
        place.unwrap_or_default()
    );
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    first.get_or_insert(line);
    BEGUN.store(true, Ordering::Release);
}

/// Whether any thread has panicked.
pub fn has_begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// What the first panic said, and where it was, if there was one.
pub fn first() -> Option<String> {
    let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    first.clone()
}

/// Makes an error of a panic in `work`, so that its caller leaves what it has opened. What `work` changes may be changed by
/// halves afterwards: use it for leaving alone.
pub fn catch<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(anyhow::anyhow!("lancet has failed: this is a bug of its own, and the lines above say where; processes that it had opened were left")))
}
