//! PHP with its opcode cache: what it runs lies in memory that its processes share, and with a JIT it is machine code.

use crate::support::chosen;
use crate::watch::{calls, hooked, left};

#[test]
fn lines_are_those_of_the_script() {
    for php in chosen("php", "opcache") {
        // Without a JIT; every function when it is read; those that are called often. 7.4 has none.
        let ways: &[&str] = match php.version.as_str() {
            "7.4" => &["0"],
            _ => &["0", "1205", "1255"],
        };
        for jit in ways {
            let jit = format!("opcache.jit={jit}");
            // It is part of PHP since 8.5.
            let is_part = ["8.5", "8.6"].contains(&php.version.as_str());
            let loaded = if is_part {
                "opcache.enable=1"
            } else {
                "zend_extension=opcache.so"
            };
            let options = [
                loaded,
                "opcache.enable_cli=1",
                // Also of a file that was just written.
                "opcache.file_update_protection=0",
                "opcache.jit_buffer_size=16M",
                &jit,
            ];
            let options = options.map(|option| ["-d", option]).concat();
            let mut guest = php.start_with(&options, "opcache", &[]);
            if guest.preface.iter().any(|line| line == "none") {
                println!("SKIPPED: {php} has no opcache");
                continue;
            }
            // PHP's umask asks the kernel twice.
            let what = ["-c", "-x", "umask@libc.so*", "-x", "php:str_rot13"];
            let watch = hooked(calls(guest.pid, &what));
            guest.tell("go");
            guest.expect("done");
            let table = left(watch, "opcache").stdout;
            for (calls, function, line) in [(100, "umask", 8), (50, "str_rot13", 9)] {
                let row = format!(" {calls} {function} ← ");
                let row = table.lines().find(|text| text.contains(&row));
                let place = format!("/opcache.php:{line} in 'Shop::total'");
                assert!(
                    row.is_some_and(|row| row.ends_with(&place)),
                    "{php} {jit}: {function}: {table}"
                );
            }
            assert!(guest.ends_well(), "{php} {jit}");
        }
    }
}
