//! The functions that the companion counts, each with the group under which it is counted. Used by `counters`, `sums`, `texts` and
//! `watches`.

use calls::preset::Dialect;

/// A function that is counted.
#[derive(Debug)]
pub struct Function {
    /// The name of the symbol that is hooked.
    pub name: &'static str,
    /// The group that it belongs to, one of [`GROUPS`].
    pub group: &'static str,
    /// What a call of it is.
    pub role: Role,
    bytes: Bytes,
    /// What a call of it is about, beside its group.
    pub about: About,
}

/// What is told of a call beside its group: a statement, or what it waits for.
#[derive(Clone, Copy, Debug)]
pub enum About {
    /// Nothing.
    Nothing,
    /// These words.
    Words(&'static str),
    /// The descriptor that is the first argument.
    Descriptor,
    /// The first descriptor of an array that is the first argument (`poll`).
    Polled,
    /// The statement that is the argument with this number.
    Statement(usize, Dialect),
    /// The same, which is called by a name from then on.
    Prepares(usize, Dialect, Name),
    /// The statement that was prepared under this name.
    Prepared(Name),
    /// Nothing, and the statement of this name is none from then on.
    Ends(Name),
}

/// How a prepared statement is called.
#[derive(Clone, Copy, Debug)]
pub enum Name {
    /// By the first argument.
    First,
    /// By what the function stores where the argument with this number points to.
    Behind(usize),
    /// By the text that is the argument with this number, on the connection that is the first one.
    Text(usize),
}

/// What a call is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is one call of the group.
    Whole,
    /// Part of one, which takes time: fetching rows.
    Part,
    /// Sends a query, whose answer another call waits for: what lies between is its time.
    Sends,
    /// Waits for the answer, or finds that there is none (any more).
    Answers,
    /// A step of an execution of the statement that is its first argument (`sqlite3_step`).
    Steps,
    /// It ends such an execution.
    Resets,
}

/// Where the bytes that a call has moved or got stand.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    None,
    /// The result, if it is none of the negative ones.
    Result,
    /// The argument with this number, counted from 0.
    Argument(usize),
    /// The product of the first two.
    Product,
}

impl Function {
    /// The same with what a call of it is about.
    const fn about(mut self, about: About) -> Self {
        self.about = about;
        self
    }

    /// The bytes that a call with these arguments and this result has moved or got.
    pub fn bytes(&self, arguments: &[u64], result: u64) -> u64 {
        let argument = |number: usize| arguments.get(number).copied().unwrap_or_default();
        match self.bytes {
            Bytes::None => 0,
            Bytes::Result => u64::try_from(result as i64).unwrap_or_default(),
            Bytes::Argument(number) => argument(number),
            Bytes::Product => argument(0).saturating_mul(argument(1)),
        }
    }
}

/// The groups, in the order in which they are told.
pub const GROUPS: [&str; 16] = [
    "malloc",
    "free",
    "read",
    "write",
    "connect",
    "mysql",
    "postgres",
    "sqlite",
    "memcached",
    "redis",
    "poll",
    "sleep",
    "lock",
    "child",
    "disk",
    "lookup",
];

/// Groups of functions that do nothing but wait: one that waits within a call of another group is a part of that call.
pub const WAITS: [&str; 6] = ["poll", "sleep", "lock", "child", "disk", "lookup"];

/// A group of the program's: what it is told as. `memory` is two of ours, and `waits` all of [`WAITS`].
pub fn of_group(group: &str) -> Option<impl Iterator<Item = &'static Function> + use<'_>> {
    let is_known = matches!(group, "memory" | "waits") || GROUPS.contains(&group);
    let is_of = move |function: &&Function| match group {
        "memory" => matches!(function.group, "malloc" | "free"),
        "waits" => WAITS.contains(&function.group),
        group => function.group == group,
    };
    is_known.then(|| FUNCTIONS.iter().filter(is_of))
}

/// The function of this name.
pub fn named(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

const fn function(group: &'static str, name: &'static str, role: Role, bytes: Bytes) -> Function {
    Function {
        name,
        group,
        role,
        bytes,
        about: About::Nothing,
    }
}

/// A function that waits, and for what.
const fn wait(group: &'static str, name: &'static str, about: About) -> Function {
    function(group, name, Role::Whole, Bytes::None).about(about)
}

/// The VM waits by these for all of them alike.
const CONDITION: &str = "a lock, a queue, a thread or the VM's lock";

/// malloc(3), read(2) and their kin; the C APIs of libmariadb/libmysqlclient, libpq, SQLite, libmemcached and hiredis. A driver that speaks
/// its protocol itself is seen by its reads and writes.
static FUNCTIONS: &[Function] = {
    use About::{Descriptor, Ends, Polled, Prepared, Prepares, Statement, Words};
    use Bytes::{Argument, None, Product, Result};
    use Dialect::{MySql, PostgreSql, Sqlite};
    use Name::{Behind, First, Text};
    use Role::{Answers, Part, Resets, Sends, Steps, Whole};
    &[
        function("malloc", "malloc", Whole, Argument(0)),
        function("malloc", "calloc", Whole, Product),
        function("malloc", "realloc", Whole, Argument(1)),
        function("free", "free", Whole, None),
        function("read", "read", Whole, Result).about(Descriptor),
        function("read", "readv", Whole, Result).about(Descriptor),
        function("read", "recv", Whole, Result).about(Descriptor),
        function("read", "recvfrom", Whole, Result).about(Descriptor),
        function("read", "recvmsg", Whole, Result).about(Descriptor),
        function("write", "write", Whole, Result).about(Descriptor),
        function("write", "writev", Whole, Result).about(Descriptor),
        function("write", "send", Whole, Result).about(Descriptor),
        function("write", "sendto", Whole, Result).about(Descriptor),
        function("write", "sendmsg", Whole, Result).about(Descriptor),
        function("connect", "connect", Whole, None).about(Descriptor),
        function("mysql", "mysql_real_query", Whole, None).about(Statement(1, MySql)),
        function("mysql", "mysql_query", Whole, None).about(Statement(1, MySql)),
        function("mysql", "mysql_stmt_prepare", Part, None).about(Prepares(1, MySql, First)),
        function("mysql", "mysql_stmt_execute", Whole, None).about(Prepared(First)),
        function("mysql", "mysql_send_query", Sends, None).about(Statement(1, MySql)),
        function("mysql", "mysql_read_query_result", Answers, None),
        function("mysql", "mysql_store_result", Part, None),
        function("mysql", "mysql_fetch_row", Part, None),
        function("mysql", "mysql_stmt_store_result", Part, None),
        function("postgres", "PQexec", Whole, None).about(Statement(1, PostgreSql)),
        function("postgres", "PQexecParams", Whole, None).about(Statement(1, PostgreSql)),
        function("postgres", "PQexecPrepared", Whole, None).about(Prepared(Text(1))),
        function("postgres", "PQprepare", Part, None).about(Prepares(2, PostgreSql, Text(1))),
        function("postgres", "PQsendQuery", Sends, None).about(Statement(1, PostgreSql)),
        function("postgres", "PQsendQueryParams", Sends, None).about(Statement(1, PostgreSql)),
        function("postgres", "PQsendQueryPrepared", Sends, None).about(Prepared(Text(1))),
        function("postgres", "PQgetResult", Answers, None),
        function("sqlite", "sqlite3_exec", Whole, None).about(Statement(1, Sqlite)),
        function("sqlite", "sqlite3_prepare", Part, None).about(Prepares(1, Sqlite, Behind(3))),
        function("sqlite", "sqlite3_prepare_v2", Part, None).about(Prepares(1, Sqlite, Behind(3))),
        function("sqlite", "sqlite3_prepare_v3", Part, None).about(Prepares(1, Sqlite, Behind(4))),
        function("sqlite", "sqlite3_step", Steps, None).about(Prepared(First)),
        function("sqlite", "sqlite3_reset", Resets, None),
        function("sqlite", "sqlite3_finalize", Resets, None).about(Ends(First)),
        function("memcached", "memcached_get", Whole, None),
        function("memcached", "memcached_mget", Whole, None),
        function("memcached", "memcached_set", Whole, None),
        function("memcached", "memcached_add", Whole, None),
        function("memcached", "memcached_replace", Whole, None),
        function("memcached", "memcached_delete", Whole, None),
        function("memcached", "memcached_increment", Whole, None),
        function("memcached", "memcached_decrement", Whole, None),
        function("redis", "redisCommand", Whole, None),
        function("redis", "redisCommandArgv", Whole, None),
        function("redis", "redisvCommand", Whole, None),
        function("redis", "redisAppendCommandArgv", Part, None),
        function("redis", "redisGetReply", Whole, None),
        wait("poll", "poll", Polled),
        wait("poll", "ppoll", Polled),
        wait("poll", "select", Words("descriptors (select)")),
        wait("poll", "epoll_wait", Words("descriptors (epoll)")),
        // What the VM makes of `sleep`, before what of the C library it does that by.
        wait("sleep", "rb_thread_wait_for", Words("sleep")),
        wait(
            "sleep",
            "rb_thread_sleep_forever",
            Words("sleep, until woken"),
        ),
        wait("sleep", "nanosleep", Words("sleep")),
        wait("sleep", "clock_nanosleep", Words("sleep")),
        wait("lock", "pthread_cond_wait", Words(CONDITION)),
        wait("lock", "pthread_cond_timedwait", Words(CONDITION)),
        wait("lock", "pthread_cond_clockwait", Words(CONDITION)),
        wait("lock", "sem_wait", Words("a lock")),
        wait("lock", "sem_timedwait", Words("a lock")),
        wait("lock", "sem_clockwait", Words("a lock")),
        wait("child", "waitpid", Words("a child process")),
        wait("child", "wait4", Words("a child process")),
        wait("disk", "fsync", Descriptor),
        wait("disk", "fdatasync", Descriptor),
        wait("disk", "flock", Descriptor),
        wait("lookup", "getaddrinfo", Words("the address of a host")),
    ]
};
