//! A MariaDB of the tests' own: a folder below /tmp, a socket in it, no network, no account but root's.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
        prepare(path, &user);
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

/// Puts the data of an empty database into the folder `data` at `path`: those that an earlier test has made, or new ones. To make them takes
/// as long as most tests of a database do.
fn prepare(path: &str, user: &str) {
    let Some(kept) = kept(user) else {
        return made(path, user);
    };
    let data = Path::new(path).join("data");
    if !kept.exists() {
        made(path, user);
        let own = kept.with_extension(std::process::id().to_string());
        copy(&data, &own);
        // Where another test was faster, its data are as good.
        if std::fs::rename(&own, &kept).is_err() {
            let _ = std::fs::remove_dir_all(&own);
        }
        return;
    }
    copy(&kept, &data);
}

/// Where `.ci/tests` keeps what tests have made: data of this server for this user.
fn kept(user: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LANCET_COMPILED")?;
    let server = std::fs::metadata("/usr/sbin/mariadbd").ok()?;
    let name = format!("mariadb-{}-{}-{user}", server.len(), server.mtime());
    Some(PathBuf::from(folder).join(name))
}

/// Makes the data of an empty database.
fn made(path: &str, user: &str) {
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
}

/// Copies a folder, without room on disk for what is zero.
fn copy(from: &Path, to: &Path) {
    let mut copied = Command::new("cp");
    copied
        .args(["-a", "-T", "--sparse=always"])
        .arg(from)
        .arg(to);
    assert!(copied.status().expect("cp runs").success(), "{from:?}");
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
