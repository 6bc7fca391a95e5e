//! What the result of a call says of it: whether it failed, and how many bytes it moved or got. A prototype says of what type a
//! result is, and not which of its values mean failure (`strcmp` and `read` both return an integer), so functions of the C
//! library, of drivers and the system calls are listed here, by what section 2 and 3 of the manual and the libraries' own pages
//! say under RETURN VALUE. Used by `calls::summary` and `calls::live::guest::plan`.

pub use capture::outcome::{Bytes, Failure, Outcome, SQLITE_ROW};

/// Functions whose result of `long` is a number of bytes, or -1.
const MOVERS: &[&str] = &[
    "read",
    "write",
    "pread",
    "pread64",
    "pwrite",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "preadv64",
    "pwritev64",
    "recv",
    "recvfrom",
    "recvmsg",
    "send",
    "sendto",
    "sendmsg",
    "sendfile",
    "sendfile64",
    "splice",
    "copy_file_range",
    "getrandom",
    "__read_chk",
    "__recv_chk",
    "__pread_chk",
    "__recvfrom_chk",
];

/// Functions whose result of `int` is below 0 where they fail.
const BELOW_ZERO: &[&str] = &[
    "open",
    "open64",
    "openat",
    "openat64",
    "creat",
    "creat64",
    "close",
    "dup",
    "dup2",
    "dup3",
    "pipe",
    "pipe2",
    "socket",
    "socketpair",
    "connect",
    "accept",
    "accept4",
    "bind",
    "listen",
    "shutdown",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "ioctl",
    "fcntl",
    "fcntl64",
    "stat",
    "fstat",
    "lstat",
    "fstatat",
    "stat64",
    "fstat64",
    "lstat64",
    "fstatat64",
    "statx",
    "access",
    "faccessat",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "mkdir",
    "mkdirat",
    "rmdir",
    "chdir",
    "fchdir",
    "chmod",
    "fchmod",
    "chown",
    "fchown",
    "fsync",
    "fdatasync",
    "ftruncate",
    "ftruncate64",
    "truncate",
    "flock",
    "kill",
    "wait",
    "waitpid",
    "wait3",
    "wait4",
    "fork",
    "vfork",
    "execve",
    "execv",
    "execvp",
    "munmap",
    "mprotect",
    "madvise",
    "nanosleep",
    "usleep",
    "setuid",
    "setgid",
    "sem_wait",
    "sem_timedwait",
    "sem_trywait",
    "recvmmsg",
    "sendmmsg",
    "inotify_add_watch",
    "eventfd",
    "timerfd_create",
    "signalfd",
];

/// Functions whose result of `int` is 0 where they succeed.
const NOT_ZERO: &[&str] = &[
    "getaddrinfo",
    "getnameinfo",
    "mysql_query",
    "mysql_real_query",
    "mysql_send_query",
    "mysql_stmt_prepare",
    "mysql_stmt_execute",
    "mysql_ping",
    "mysql_next_result",
    "pthread_create",
    "pthread_join",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_cond_timedwait",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "posix_memalign",
];

/// Functions that return no address where they fail.
const NO_ADDRESS: &[&str] = &[
    "fopen",
    "fopen64",
    "fdopen",
    "opendir",
    "dlopen",
    "dlsym",
    "gethostbyname",
    "gethostbyaddr",
    "mysql_real_connect",
    "mysql_store_result",
    "mysql_init",
    "strdup",
    "getcwd",
    "realpath",
];

/// Functions that get memory: where its size is.
const GETTERS: &[(&str, Bytes)] = &[
    ("malloc", Bytes::Argument(1)),
    ("valloc", Bytes::Argument(1)),
    ("realloc", Bytes::Argument(2)),
    ("calloc", Bytes::Product(1, 2)),
    ("reallocarray", Bytes::Product(2, 3)),
    ("aligned_alloc", Bytes::Argument(2)),
    ("memalign", Bytes::Argument(2)),
];

/// What the results of a function say; `kernel`: it is a system call, whose results from -4095 to -1 are failures whatever it is called.
pub fn of(name: &str, kernel: bool) -> Outcome {
    let plain = |failure| Outcome {
        failure: Some(failure),
        bytes: None,
    };
    let is_in = |names: &[&str]| names.contains(&name);
    if is_in(MOVERS) {
        return Outcome {
            failure: Some(Failure::Negative),
            bytes: Some(Bytes::Result),
        };
    }
    if kernel {
        return plain(Failure::Negative);
    }
    if let Some((_, size)) = GETTERS.iter().find(|(known, _)| *known == name) {
        return Outcome {
            failure: Some(Failure::Null),
            bytes: Some(*size),
        };
    }
    match name {
        "mmap" | "mmap64" => Outcome {
            failure: Some(Failure::Negative),
            bytes: Some(Bytes::Argument(2)),
        },
        "PQsendQuery" | "PQsendQueryParams" | "PQsendPrepare" | "PQsendQueryPrepared" => {
            plain(Failure::Zero)
        }
        _ if name.starts_with("sqlite3_prepare") => plain(Failure::Sqlite),
        "sqlite3_step" | "sqlite3_exec" | "sqlite3_open" | "sqlite3_open_v2" => {
            plain(Failure::Sqlite)
        }
        _ if is_in(BELOW_ZERO) => plain(Failure::NegativeInt),
        _ if is_in(NOT_ZERO) => plain(Failure::NotZero),
        _ if is_in(NO_ADDRESS) => plain(Failure::Null),
        _ => Outcome::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_what_became_of_the_call() {
        let minus = |number: i64| number as u64;
        for (name, kernel, arguments, result, failed, bytes) in [
            ("read", false, &[3, 0, 100][..], 7, false, 7),
            ("read", false, &[3, 0, 100], minus(-1), true, 0),
            ("openat", true, &[], minus(-2), true, 0),
            // The upper half of an int's register says nothing.
            ("connect", false, &[], 0xffff_ffff, true, 0),
            ("strcmp", false, &[], 0xffff_ffff, false, 0),
            ("malloc", false, &[64], 0x1000, false, 64),
            ("malloc", false, &[64], 0, true, 0),
            ("calloc", false, &[8, 4], 0x1000, false, 32),
            ("mmap", false, &[0, 4096], minus(-1), true, 0),
            ("getaddrinfo", false, &[], minus(-2), true, 0),
            ("sqlite3_step", false, &[], 100, false, 0),
            ("sqlite3_step", false, &[], 19, true, 0),
            ("PQsendQuery", false, &[], 0, true, 0),
        ] {
            let outcome = of(name, kernel);
            assert_eq!(outcome.failed(result), failed, "{name} {result}");
            assert_eq!(outcome.bytes(arguments, result), bytes, "{name} {result}");
        }
    }
}
