//! The heartbeat by which an agent knows that its command lives. Used by most crates above.
//!
//! One thread of the command changes a word of every open guest four times a second. It ends with the command, whatever
//! ends that, so a word that stands still tells the agent that the command is gone.

use crate::resident::Resident;
use process::clock::Clock;
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};
use wire::ControlPage;

/// The time between two changes of a guest's word.
const BEAT: Duration = Duration::from_millis(250);

/// How long the time-stamp counter is compared with the clock to learn its speed; the error is then below a
/// ten-thousandth.
const CALIBRATION: Duration = Duration::from_millis(2);

/// The moment at which this comparison began.
static CLOCK: OnceLock<Clock> = OnceLock::new();

#[derive(Debug)]
struct Beating {
    memory: Arc<GuestMemory>,
    at: u64,
    gone: Arc<AtomicBool>,
}

static BEATING: Mutex<Vec<Beating>> = Mutex::new(Vec::new());
static STARTED: OnceLock<()> = OnceLock::new();

/// Locks the list. A panic while the lock is held leaves the list intact, so the poison is ignored.
fn beating() -> MutexGuard<'static, Vec<Beating>> {
    BEATING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest's heartbeat; it stops when this is dropped.
#[derive(Debug)]
pub struct Heartbeat {
    gone: Arc<AtomicBool>,
}

impl Heartbeat {
    /// Returns a heartbeat that does nothing, for a guest that has no agent yet.
    pub fn still() -> Self {
        Heartbeat {
            gone: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Makes the heartbeat thread change the agent's word from now on.
    pub fn start(memory: Arc<GuestMemory>, agent: &Resident) -> Self {
        let at = agent.header.control_page + offset_of!(ControlPage, heartbeat) as u64;
        let gone = Arc::new(AtomicBool::new(false));
        let guest = Beating {
            memory,
            at,
            gone: gone.clone(),
        };
        guest.beat();
        beating().push(guest);
        STARTED.get_or_init(|| {
            thread::spawn(|| {
                loop {
                    thread::sleep(BEAT);
                    process::fault::point("beating");
                    beating().retain(|guest| !guest.gone.load(Ordering::Relaxed) && guest.beat());
                }
            });
        });
        Heartbeat { gone }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

impl Beating {
    /// Changes the word once. Returns false if it is no more: the guest has ended or runs another program, or its memory there is gone.
    /// After any other error the word is written again at the next beat, because an agent without a heartbeat leaves.
    fn beat(&self) -> bool {
        // An agent remembers the heartbeat of the last command, so a word that counted from 0 again might have the old
        // value and seem to stand still.
        let written = self.memory.write(self.at, &unique().to_le_bytes());
        !written.is_err_and(|error| error.is_left() || error.is_missing_memory())
    }
}

/// Returns a number that no other attach and no other heartbeat uses: the time in nanoseconds, mixed with our process
/// id.
pub fn unique() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}

/// Begins to measure the speed of the time-stamp counter, so that it is known when it is needed.
pub fn watch_counter() {
    CLOCK.get_or_init(Clock::start);
}

/// Converts a duration to cycles of the time-stamp counter.
pub fn ticks(duration: Duration) -> u64 {
    static PER_MILLISECOND: OnceLock<u64> = OnceLock::new();
    let per_millisecond = *PER_MILLISECOND.get_or_init(|| {
        let clock = CLOCK.get_or_init(Clock::start);
        (1e6 / clock.period_after(CALIBRATION)) as u64
    });
    let ticks = u128::from(per_millisecond).saturating_mul(duration.as_nanos()) / 1_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}
