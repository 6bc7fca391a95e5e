//! Makes the file of the pool, maps it, and closes it, in one call of the command's. Layout and the way of it: `wire::calls::share`,
//! `hooks::pool::share`. Used by `jobs`.

use super::session::calls;
use crate::memory::sys::shared;
use core::sync::atomic::Ordering;

/// A thread in a remote call does this. At the end of the first system call it stands still, and the command prepares the file. If the command
/// has died since, nothing is mapped, and the file is closed all the same.
pub fn share() {
    let pool = &calls().pool;
    let Some(file) = shared::make(&pool.name) else {
        return;
    };
    let count = pool.share.count.load(Ordering::Acquire) as usize;
    for part in pool.share.parts.iter().take(count) {
        let [at, bytes, protection, flags, offset] = [
            &part.at,
            &part.bytes,
            &part.protection,
            &part.flags,
            &part.offset,
        ]
        .map(|word| word.load(Ordering::Relaxed));
        // SAFETY: the command asks for memory of the pool's, or for such as nothing else has.
        let answer = unsafe { shared::map([at, bytes, protection, flags, file, offset]) };
        part.answer.store(answer, Ordering::Relaxed);
    }
    shared::close(file);
}
