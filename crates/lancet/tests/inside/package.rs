//! A package is built and installed once for all tests, each of which runs in a process of its own: to compress the program takes four
//! seconds, and to make an environment of Python with a pip in it three.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{TempDir, tool};
use crate::{folder, succeeds};

/// Where the newest of each name is.
const BUILT: &str = env!("CARGO_TARGET_TMPDIR");

/// A file or folder that is made of the folder `of` of the repository and the program that is tested, copied into `place`. `build` makes
/// it in a folder and returns its path; it is called where the program or the folder has changed since it was made.
pub fn made(
    of: &str,
    name: &str,
    place: &TempDir,
    build: impl FnOnce(&Path) -> PathBuf,
) -> PathBuf {
    let into = Path::new(BUILT).join(format!("made-{name}"));
    fs::create_dir_all(&into).expect("a folder for it");
    let lock = File::create(into.join("lock")).expect("a file to lock");
    // Others that want the same wait. The lock ends with the file.
    lock.lock().expect("a lock");
    let (key, wanted) = (into.join("key"), contents(of).to_string());
    let kept = fs::read_to_string(&key).unwrap_or_default();
    let path = match kept.split_once('\n') {
        Some((contents, path)) if contents == wanted => PathBuf::from(path),
        _ => {
            let _ = fs::remove_file(&key);
            let path = build(&into);
            let text = path.to_str().expect("a path in UTF-8");
            fs::write(&key, format!("{wanted}\n{text}")).expect("the key is written");
            path
        }
    };
    let copy = place.join(
        path.file_name()
            .and_then(|name| name.to_str())
            .expect("a name"),
    );
    succeeds(Command::new("cp").arg("-r").arg(&path).arg(&copy));
    copy
}

/// A number that changes with the program, a file of the folder or a licence.
fn contents(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let root = folder(name);
    let mut left = vec![root.clone(), tool()];
    left.extend(["LICENSE-MIT", "LICENSE-APACHE"].map(|name| root.with_file_name(name)));
    while let Some(path) = left.pop() {
        let status = fs::metadata(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        if status.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of the repository");
            let mut inside: Vec<_> = entries
                .map(|entry| entry.expect("an entry").path())
                .collect();
            inside.sort();
            left.extend(inside);
        } else {
            (&path, status.len(), status.modified().expect("a time")).hash(&mut hasher);
        }
    }
    hasher.finish()
}
