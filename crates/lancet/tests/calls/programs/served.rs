//! Servers: a database in `make test`, others in `make soak`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Running, holds, wanted};
use crate::support::{Killed, LIMIT, TempDir, children, database, run, skip, soak, until};

/// Tables, joins, sorting, text, numbers, JSON, a procedure that raises and handles an error.
const QUERIES: &str = "
    DROP DATABASE IF EXISTS work; CREATE DATABASE work; USE work;
    CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, n BIGINT, t VARCHAR(99), KEY (n)) ENGINE=InnoDB;
    INSERT INTO a (n, t) SELECT seq * seq % 977, SHA2(seq, 256) FROM seq_1_to_3000;
    SELECT COUNT(*), SUM(n), MIN(t), MAX(t) FROM a;
    SELECT x.n, COUNT(*), GROUP_CONCAT(LEFT(y.t, 3) ORDER BY y.id) FROM a x JOIN a y ON x.n = y.n + 1 GROUP BY x.n
      ORDER BY 2 DESC, 1 LIMIT 5;
    UPDATE a SET t = REVERSE(t) WHERE id % 3 = 0; DELETE FROM a WHERE n BETWEEN 100 AND 200;
    SELECT MD5(GROUP_CONCAT(t ORDER BY id)) FROM a WHERE t REGEXP '^[0-9]+[a-f]';
    WITH RECURSIVE f (a, b, n) AS (SELECT CAST(0 AS DECIMAL(30)), CAST(1 AS DECIMAL(30)), 1
      UNION ALL SELECT b, a + b, n + 1 FROM f WHERE n < 60) SELECT MAX(a) FROM f;
    SELECT JSON_EXTRACT(JSON_ARRAYAGG(JSON_OBJECT('n', n)), '$[3]') FROM (SELECT n FROM a ORDER BY id LIMIT 9) s;
    SELECT CAST(PI() * 1e6 AS DECIMAL(30, 12)), DATE_ADD('2020-02-28', INTERVAL 2 DAY), SOUNDEX('lancet'), CRC32('a');
    DROP DATABASE work;";

#[test]
fn a_database() {
    if !wanted("mariadbd", "mariadb") {
        return;
    }
    let Some(server) = database("calls: all of mariadbd") else {
        return;
    };
    let socket = server.socket();
    // It listens before it writes that.
    let path = socket.with_file_name("pid");
    let pid = until(LIMIT, "MariaDB's number", || {
        fs::read_to_string(&path).ok()?.trim().parse().ok()
    });
    let ask = move || {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-N", "-u", "root", "-e", QUERIES, "-S"]);
        let output = run(client.arg(&socket), LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stdout
    };
    let running = Running {
        pid,
        ask: Box::new(ask),
    };
    holds("mariadbd", "*@MAIN", 10_000, running);
}

fn started(command: &mut Command) -> Killed {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    Killed::start(quiet.stderr(Stdio::null())).expect("it starts")
}

const LUA: &str = "redis.call('FLUSHALL'); local s = 0
    for i = 1, 500 do redis.call('ZADD', 'z', i * i % 97, 'm' .. i); redis.call('HSET', 'h', i, string.rep('x', i))
      redis.call('PFADD', 'p', i); redis.call('LPUSH', 'l', i * 7 % 31); s = s + #redis.call('HGET', 'h', i) end
    local ok = pcall(redis.call, 'INCR', 'h')
    return {s, tostring(ok), redis.call('PFCOUNT', 'p'), redis.sha1hex('a'),
      cjson.encode(redis.call('SORT', 'l', 'LIMIT', 0, 9)), redis.call('ZRANGE', 'z', 0, 5, 'WITHSCORES'), #redis.call('DUMP', 'h')}";

#[test]
fn redis() {
    if !soak() {
        return skip("calls: all of redis", "only in soak");
    }
    if !wanted("redis", "redis-server") {
        return;
    }
    let folder = TempDir::new("redis");
    let socket = folder.join("socket");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--unixsocket"]);
    let server = started(command.arg(&socket).arg("--dir").arg(folder.join("")));
    until(LIMIT, "redis", || {
        std::os::unix::net::UnixStream::connect(&socket).ok()
    });
    let ask = move || {
        let mut client = Command::new("redis-cli");
        let output = run(
            client.arg("-s").arg(&socket).args(["EVAL", LUA, "0"]),
            LIMIT,
        );
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stdout
    };
    let running = Running {
        pid: server.pid(),
        ask: Box::new(ask),
    };
    holds("redis", "*@MAIN", 2_500, running);
}

const PORT: u16 = 28_917;

/// nginx without a master, which serves a file and asks PHP.
fn nginx(folder: &Path) -> Killed {
    let text = format!(
        "daemon off; master_process off; error_log {0}/nginx.log; pid {0}/nginx.pid; events {{}}\n\
         http {{ access_log off; gzip on; gzip_types *; gzip_min_length 1;\n\
         client_body_temp_path {0}/b; fastcgi_temp_path {0}/f; proxy_temp_path {0}/p; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
         server {{ listen 127.0.0.1:{PORT}; root {0}; location ~ php$ {{\n\
         fastcgi_param SCRIPT_FILENAME {0}/work.php; fastcgi_param REQUEST_METHOD GET; fastcgi_pass unix:{0}/php; }} }} }}\n",
        folder.display()
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, text).expect("a file");
    fs::write(folder.join("text"), "line of text\n".repeat(20_000)).expect("a file");
    let log = folder.join("nginx.log");
    started(Command::new("nginx").arg("-e").arg(log).arg("-c").arg(path))
}

/// PHP's process manager with one worker; the worker's id.
fn php(folder: &Path) -> (Killed, i32) {
    let text = format!(
        "[global]\nerror_log = {0}/php.log\ndaemonize = no\n[www]\nuser = root\ngroup = root\nlisten = {0}/php\npm = static\n\
         pm.max_children = 1\n",
        folder.display()
    );
    let path = folder.join("php.conf");
    fs::write(&path, text).expect("a file");
    let work =
        fs::read_to_string(crate::support::fixtures().join("work/work.php")).expect("the script");
    fs::write(folder.join("work.php"), work).expect("a file");
    let manager = started(
        Command::new("php-fpm8.2")
            .args(["-F", "-R", "-y"])
            .arg(path),
    );
    let worker = until(LIMIT, "a worker", || {
        children(manager.pid()).first().copied()
    });
    (manager, worker)
}

fn get(path: &str, header: &str) -> Vec<u8> {
    let mut stream = until(LIMIT, "nginx", || {
        TcpStream::connect(("127.0.0.1", PORT)).ok()
    });
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.0\r\nHost: work\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    // Without the headers, which have dates.
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n");
    answer.split_off(body.expect("headers end"))
}

#[test]
fn a_web_server_and_php() {
    if !soak() {
        return skip("calls: all of nginx and php-fpm", "only in soak");
    }
    if !wanted("web", "nginx") || !wanted("web", "php-fpm8.2") {
        return;
    }
    let scratch = TempDir::new("web");
    let folder = scratch.join("");
    let (_manager, worker) = php(&folder);
    let server = nginx(&folder);
    let ask = || {
        let mut said = format!("{:?}", get("/text", "Accept-Encoding: gzip\r\n"));
        said.push_str(&format!("{:?}", get("/work.php", "")));
        assert!(said.len() > 1000, "{said}");
        said
    };
    for (name, pid, least) in [("nginx", server.pid(), 400), ("php-fpm", worker, 1_000)] {
        let ask = Box::new(ask);
        holds(name, "*@MAIN", least, Running { pid, ask });
    }
}
