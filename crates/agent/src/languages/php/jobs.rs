//! Handles the command's requests to a PHP. Used by `php`.
//!
//! A PHP without threads has one thread and no lock, and what is requested calls nothing of it but what reads or writes single words
//! (`vm::Door::GetHeap`). So a request is carried out where the thread stands, also in the middle of an allocation, unless it stands in our own
//! functions: then the command has it go on and enter again.

use super::births::{counting, handlers};
use crate::at_work;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;
use wire::control_page::enter::HERE;
use wire::{Reply, Request};

/// A borrowed main thread of a PHP calls this.
pub fn enter(what: u64) {
    if what & HERE != 0 {
        serve(false);
    }
}

/// The main thread of a PHP that lancet has started calls this before the script begins.
///
/// # Safety
/// It is the main thread, which is about to run the script ([`crate::jobs::at_script`]).
pub unsafe fn at_script() {
    serve(true);
}

/// Does what is requested of a PHP, once for each request; `begins` = its script is about to begin.
fn serve(begins: bool) {
    let Some(mut held) = counting::Held::take_for_command() else {
        return;
    };
    let Some(asked) = at_work::begin() else {
        return;
    };
    let request = CONTROL_PAGE.request.load(Ordering::Relaxed);
    let reply = if request == Request::Watch as u32 {
        counting::watch(&mut held, begins, handlers::ours())
    } else if request == Request::Leave as u32 {
        Some(counting::leave(&mut held))
    } else if request == Request::Census as u32 && CONTROL_PAGE.hooked.load(Ordering::Relaxed) != 0
    {
        let argument = CONTROL_PAGE.argument.load(Ordering::Relaxed);
        Some(counting::census(&mut held, argument))
    } else {
        Some(Reply::Refused)
    };
    match reply {
        Some(reply) => at_work::end(asked, reply),
        None => at_work::put_off(),
    }
}
