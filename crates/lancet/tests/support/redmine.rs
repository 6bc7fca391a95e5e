//! Debian's Redmine, with a database of the tests' own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use super::{Database, TempDir, database, fixtures, rival, soak};

/// A copy of it, with its tables and 200 issues in the database.
pub struct Redmine {
    folder: TempDir,
    pub database: Arc<Database>,
}

impl Redmine {
    /// Makes one, which takes half a minute: in the long form of the tests only. `None` where there is none, which is said then.
    pub fn prepare(test: &str) -> Option<Self> {
        if !soak() {
            return None;
        }
        let tree = rival(test, "redmine")?;
        let database = database(test)?;
        let folder = TempDir::new("redmine");
        let mut prepare = Command::new(fixtures().join("ruby/redmine/prepare"));
        prepare
            .arg(tree)
            .arg(folder.join(""))
            .arg(database.socket());
        let output = prepare.output().expect("a shell");
        assert!(output.status.success(), "{output:?}");
        Some(Redmine { folder, database })
    }

    /// Where the application is.
    pub fn place(&self) -> PathBuf {
        self.folder.join("redmine")
    }

    /// What puma is started with.
    pub fn configuration() -> PathBuf {
        fixtures().join("ruby/redmine/config.ru")
    }
}
