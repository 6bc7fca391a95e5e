//! The functions that the companion counts, each with the group under which it is counted. Used by `counters`, `sums` and
//! `watches`.

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
pub const GROUPS: [&str; 10] = [
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
];

/// A group of the program's: what it is told as. `memory` is two of ours.
pub fn of_group(group: &str) -> Option<impl Iterator<Item = &'static Function> + use<'_>> {
    let is_known = group == "memory" || GROUPS.contains(&group);
    let is_of = move |function: &&Function| match group {
        "memory" => matches!(function.group, "malloc" | "free"),
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
    }
}

/// malloc(3), read(2) and their kin; the C APIs of libmariadb/libmysqlclient, libpq, SQLite, libmemcached and hiredis. A driver that speaks
/// its protocol itself is seen by its reads and writes.
static FUNCTIONS: &[Function] = {
    use Bytes::{Argument, None, Product, Result};
    use Role::{Answers, Part, Resets, Sends, Steps, Whole};
    &[
        function("malloc", "malloc", Whole, Argument(0)),
        function("malloc", "calloc", Whole, Product),
        function("malloc", "realloc", Whole, Argument(1)),
        function("free", "free", Whole, None),
        function("read", "read", Whole, Result),
        function("read", "readv", Whole, Result),
        function("read", "recv", Whole, Result),
        function("read", "recvfrom", Whole, Result),
        function("read", "recvmsg", Whole, Result),
        function("write", "write", Whole, Result),
        function("write", "writev", Whole, Result),
        function("write", "send", Whole, Result),
        function("write", "sendto", Whole, Result),
        function("write", "sendmsg", Whole, Result),
        function("connect", "connect", Whole, None),
        function("mysql", "mysql_real_query", Whole, None),
        function("mysql", "mysql_query", Whole, None),
        function("mysql", "mysql_stmt_prepare", Part, None),
        function("mysql", "mysql_stmt_execute", Whole, None),
        function("mysql", "mysql_send_query", Sends, None),
        function("mysql", "mysql_read_query_result", Answers, None),
        function("mysql", "mysql_store_result", Part, None),
        function("mysql", "mysql_fetch_row", Part, None),
        function("mysql", "mysql_stmt_store_result", Part, None),
        function("postgres", "PQexec", Whole, None),
        function("postgres", "PQexecParams", Whole, None),
        function("postgres", "PQexecPrepared", Whole, None),
        function("postgres", "PQprepare", Part, None),
        function("postgres", "PQsendQuery", Sends, None),
        function("postgres", "PQsendQueryParams", Sends, None),
        function("postgres", "PQsendQueryPrepared", Sends, None),
        function("postgres", "PQgetResult", Answers, None),
        function("sqlite", "sqlite3_exec", Whole, None),
        function("sqlite", "sqlite3_prepare", Part, None),
        function("sqlite", "sqlite3_prepare_v2", Part, None),
        function("sqlite", "sqlite3_prepare_v3", Part, None),
        function("sqlite", "sqlite3_step", Steps, None),
        function("sqlite", "sqlite3_reset", Resets, None),
        function("sqlite", "sqlite3_finalize", Resets, None),
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
    ]
};
