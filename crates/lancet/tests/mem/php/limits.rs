//! What the VM does before it refuses a block, while it is watched.

use std::process::Command;

use super::phps;
use crate::support::{Guest, Interpreter, Watch, fixtures, mem};

/// Starts `births/NAME.php` with these words and a limit of its address space (KiB); empty: none.
fn limited(php: &Interpreter, name: &str, arguments: &[&str], limit: &str) -> Guest {
    let of = php.command();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", limit])
        .arg(of.get_program())
        .args(of.get_args())
        .arg(fixtures().join(format!("php/births/{name}.php")))
        .args(arguments)
        .current_dir("/tmp");
    let guest = Guest::start(&format!("{php} {name}"), command);
    guest.expect("ready");
    guest
}

/// A large block grows by a byte, 20,000 times, close to the memory limit: the engine looks at the difference alone, and mostly at nothing. Where
/// the agent had it collect at each step this took ten seconds; without lancet it takes less than a millisecond.
#[test]
fn a_large_block_grows_without_collections() {
    for php in phps("grows") {
        let mut guest = limited(&php, "grows", &[], "unlimited");
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        let took: u64 = guest.find("took ").parse().expect("milliseconds");
        assert!(took < 2_000, "{php}: {took} ms");
        watch.report();
        guest.tell("");
        guest.ends_with("answer 73420320");
    }
}

/// The kernel refuses memory for a block for which there is room when the VM has given back what is free: it gives that back also while it is
/// watched.
#[test]
fn what_is_free_is_given_back_before_memory_that_the_kernel_refuses_is_missed() {
    for php in phps("mapped") {
        for is_watched in [false, true] {
            let mut guest = limited(&php, "mapped", &["158", "500"], "700000");
            let watch = is_watched.then(|| Watch::open(mem(guest.pid)));
            guest.tell("");
            assert_eq!(guest.find("made "), "500", "{php}, watched: {is_watched}");
            if let Some(watch) = watch {
                watch.report();
            }
            guest.tell("");
            guest.ends_with("answer 0");
        }
    }
}
