use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use super::*;

/// A folder that is removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("lancet-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("plain").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The text that was read, if any was; what was not looked at is `Err(false)`, and what is not there `Err(true)`.
fn read(sources: &Sources, path: &str) -> Result<Vec<u8>, bool> {
    match sources.text(path) {
        Text::There(lines) => Ok(lines.text.clone()),
        Text::NotThere => Err(true),
        Text::NotLookedAt => Err(false),
    }
}

#[test]
fn only_text_that_lies_on_this_machine_is_read() {
    let folder = Folder::new("sources");
    let at = |name: &str| folder.at(name);
    fs::write(at("script.py"), "work()\n").expect("a file");
    let huge = File::create(at("huge.py")).expect("a file");
    huge.set_len(LONGEST + 1).expect("a size");
    mkfifo(Path::new(&at("fifo")), Mode::S_IRWXU).expect("a FIFO");
    let sources = Sources::of(std::process::id() as i32);
    assert_eq!(read(&sources, &at("script.py")), Ok(b"work()\n".to_vec()));
    for (name, is_known) in [
        (&*at("nothing"), true),
        (&at("huge.py"), false),
        (&at("fifo"), false),
        (&at("script.py/module.py"), false),
        ("/proc/self/status", false),
        ("/sys/kernel/mm/transparent_hugepage/enabled", false),
        ("/dev/zero", false),
    ] {
        assert_eq!(read(&sources, name), Err(is_known), "{name}");
    }
}

/// As root we could read all of these; the guest's user cannot.
#[test]
fn only_what_the_user_of_the_guest_could_read_is_read() {
    const NOBODY: u32 = 65_534;
    if !geteuid().is_root() {
        return;
    }
    let folder = Folder::new("sources-of-user");
    let at = |name: &str| folder.at(name);
    fs::create_dir(at("closed")).expect("a folder");
    for name in ["open.py", "closed/open.py", "closed.py", "group.py"] {
        fs::write(at(name), name).expect("a file");
    }
    let set = |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode));
    set("closed", 0o700).expect("a mode");
    set("closed.py", 0o600).expect("a mode");
    set("group.py", 0o640).expect("a mode");
    std::os::unix::fs::chown(at("group.py"), Some(0), Some(NOBODY)).expect("a group");
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).uid(NOBODY).gid(NOBODY);
    let mut guest = command.spawn().expect("cat");
    let sources = Sources::of(guest.id() as i32);
    for name in ["open.py", "group.py"] {
        assert_eq!(read(&sources, &at(name)), Ok(name.into()), "{name}");
    }
    for name in ["closed/open.py", "closed.py"] {
        assert_eq!(read(&sources, &at(name)), Err(false), "{name}");
    }
    drop(guest.stdin.take());
    assert!(guest.wait().expect("it ends").success());
    // The thread that read has changed itself alone.
    assert!(fs::read(at("closed/open.py")).is_ok());
}

/// The kernel does not show such a guest the mount of its own files.
#[test]
fn a_guest_below_a_folder_is_read() {
    if !geteuid().is_root() {
        return;
    }
    let folder = Folder::new("sources-below");
    fs::write(folder.at("script.py"), "work()\n").expect("a file");
    let root = CString::new(folder.at("")).expect("no NUL");
    let (began, begins) = nix::unistd::pipe().expect("a pipe");
    // SAFETY: the child makes only system calls, with memory that it has, and ends by a signal.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::chroot(root.as_ptr());
            libc::write(
                std::os::fd::AsRawFd::as_raw_fd(&begins),
                c"x".as_ptr().cast(),
                1,
            );
            loop {
                libc::pause();
            }
        }
        child
    };
    nix::unistd::read(&began, &mut [0]).expect("it has changed its root");
    let text = read(&Sources::of(child), "/script.py");
    let outside = read(&Sources::of(child), "/etc/passwd");
    let child = nix::unistd::Pid::from_raw(child);
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).expect("it lives");
    nix::sys::wait::waitpid(child, None).expect("it ends");
    assert_eq!(text, Ok(b"work()\n".to_vec()));
    assert_eq!(outside, Err(true));
}

#[test]
fn lines_are_counted_from_one() {
    let lines = Lines::of(b"one\n\nthree".to_vec());
    let all: Vec<_> = (0..5).map(|number| lines.get(number)).collect();
    let expected: [Option<&[u8]>; 5] = [None, Some(b"one"), Some(b""), Some(b"three"), None];
    assert_eq!(all, expected);
}
