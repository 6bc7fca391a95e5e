//! A MariaDB of the tests' own: a folder below /tmp, a socket in it, no network, no account but root's.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

use super::{LIMIT, TempDir, installed, join, skip, until};

/// A running server. It ends, and its folder goes, with the last test that uses it, also when the tests are killed.
pub struct Database {
    keeper: Child,
    folder: TempDir,
}

static RUNNING: Mutex<Weak<Database>> = Mutex::new(Weak::new());

/// Starts the server, waits until somebody closes standard input, and cleans up.
const KEEPER: &str = r#"
mariadbd --no-defaults --user="$2" --datadir="$1/data" --socket="$1/socket" --pid-file="$1/pid" \
  --skip-networking --skip-grant-tables --skip-log-bin --innodb-buffer-pool-size=8M \
  --innodb-flush-log-at-trx-commit=0 </dev/null >"$1/log" 2>&1 &
server=$!
cat >/dev/null
kill -9 $server
wait $server
rm -rf "$1"
"#;

/// The server that runs, or a new one; `None`, and it is said, where there is none to start.
pub fn database(test: &str) -> Option<Arc<Database>> {
    join();
    let mut running = RUNNING.lock().unwrap_or_else(|held| held.into_inner());
    if let Some(database) = running.upgrade() {
        return Some(database);
    }
    if !installed("mariadbd") || !installed("mariadb-install-db") {
        skip(test, "there is no MariaDB server");
        return None;
    }
    let database = Arc::new(Database::start());
    *running = Arc::downgrade(&database);
    Some(database)
}

impl Database {
    fn start() -> Self {
        let folder = TempDir::new("mariadb");
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
        let user = user.ok().flatten().map_or("root".into(), |user| user.name);
        let path = folder.join("");
        let path = path.to_str().expect("a plain path").trim_end_matches('/');
        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"])
            .args(["--auth-root-authentication-method=normal"])
            .arg(format!("--user={user}"))
            .arg(format!("--datadir={path}/data"))
            // Two that begin at once in the machine's own folder delete each other's temporary tables.
            .env("TMPDIR", path)
            .output()
            .expect("mariadb-install-db runs");
        assert!(made.status.success(), "{made:?}");
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper", path, &user])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Whoever ends the tests with their process group leaves it to clean up.
            .process_group(0)
            .spawn()
            .expect("a shell");
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        until(LIMIT, "MariaDB", || {
            let ended = keeper.try_wait().expect("our child");
            assert!(ended.is_none(), "{}", log());
            // The socket is there before it is listened to.
            std::os::unix::net::UnixStream::connect(folder.join("socket")).ok()
        });
        Database { keeper, folder }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
