//! Symbols that are not in the file itself, and files that are not below our root.

use std::path::Path;
use std::process::Command;

use process::modules::Origin;

use crate::guests::{self, Guest, TempDir, compile, run, skip};
use crate::programs::{PROGRAM, check_program};

#[test]
fn a_stripped_program_is_completed_from_elsewhere() {
    let folder = TempDir::new();
    let (program, debug) = (
        folder.path().join("program"),
        folder.path().join("program.debug"),
    );
    let stripped = folder.path().join("stripped");
    let full = folder.path().join("full");
    for build_id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        compile(PROGRAM, &["-rdynamic", "-g", build_id], &full);
        run(Command::new("strip").arg("-o").arg(&stripped).arg(&full));
        std::fs::copy(&stripped, &program).unwrap();
        check_program(&Guest::start_ready(Command::new(&program)), false);
        // .gnu_debuglink beside the program; without a build ID by its checksum.
        run(Command::new("objcopy")
            .arg("--only-keep-debug")
            .arg(&full)
            .arg(&debug));
        run(Command::new("objcopy")
            .arg(format!("--add-gnu-debuglink={}", debug.display()))
            .args([&stripped, &program]));
        check_program(&Guest::start_ready(Command::new(&program)), true);
        // One of another build is refused.
        compile(
            &PROGRAM.replace("* 3", "* 5"),
            &["-rdynamic", "-g", build_id],
            &debug,
        );
        check_program(&Guest::start_ready(Command::new(&program)), false);
        std::fs::remove_file(&debug).unwrap();
    }
    if !guests::installed("xz") {
        return skip(
            "a_stripped_program_is_completed_from_elsewhere",
            "no xz for .gnu_debugdata",
        );
    }
    let mini = folder.path().join("mini");
    run(Command::new("objcopy")
        .args(["-S", "--remove-section", ".comment"])
        .args(["--keep-symbol=hidden_function"])
        .arg(&full)
        .arg(&mini));
    run(Command::new("xz").arg("-f").arg(&mini));
    run(Command::new("objcopy")
        .arg(format!(
            "--add-section=.gnu_debugdata={}.xz",
            mini.display()
        ))
        .args([&stripped, &program]));
    check_program(&Guest::start_ready(Command::new(&program)), true);
}

#[test]
fn a_guest_below_another_root_is_read_by_its_own_paths() {
    if !guests::is_root() || !guests::installed("unshare") {
        return skip(
            "a_guest_below_another_root_is_read_by_its_own_paths",
            "needs root and unshare",
        );
    }
    let folder = TempDir::new();
    let root = folder.path().join("root");
    for inside in ["opt", "usr/lib/debug"] {
        std::fs::create_dir_all(root.join(inside)).unwrap();
    }
    let program = root.join("opt/program");
    compile(PROGRAM, &["-static-pie"], &program);
    // The debug file is found below the guest's root, through an absolute link of the guest's.
    let full = folder.path().join("full");
    std::fs::copy(&program, &full).unwrap();
    run(Command::new("strip").arg(&program));
    let notes = Command::new("readelf")
        .args(["-n"])
        .arg(&program)
        .output()
        .unwrap()
        .stdout;
    let notes = String::from_utf8_lossy(&notes).into_owned();
    if let Some((_, id)) = notes.split_once("Build ID: ") {
        let id = id.split_whitespace().next().unwrap();
        std::fs::create_dir_all(root.join("store").join(&id[..2])).unwrap();
        std::fs::copy(
            &full,
            root.join("store")
                .join(&id[..2])
                .join(format!("{}.debug", &id[2..])),
        )
        .unwrap();
        std::os::unix::fs::symlink("/store", root.join("usr/lib/debug/.build-id")).unwrap();
    }
    let mut chroot = Command::new("chroot");
    chroot.arg(&root).arg("/opt/program");
    let mut unshared = Command::new("unshare");
    // A mount namespace whose root is a mount of its own: our paths do not lead there.
    let script = format!(
        "mount --bind {0} {0} && exec chroot {0} /opt/program",
        root.display()
    );
    unshared.args(["-m", "sh", "-c", &script]);
    // Older kernels show another device in the maps there than `stat` does; the build ID decides.
    let mut overlaid = Command::new("unshare");
    let script = format!(
        "cd {} && mkdir -p upper work merged && \
         mount -t overlay overlay -o lowerdir=root,upperdir=upper,workdir=work merged && \
         exec chroot merged /opt/program || echo no overlay",
        folder.path().display()
    );
    overlaid.args(["-m", "sh", "-c", &script]);
    let overlay = std::fs::read_to_string("/proc/filesystems")
        .unwrap_or_default()
        .contains("overlay");
    if !overlay {
        skip(
            "a_guest_below_another_root_is_read_by_its_own_paths",
            "no overlayfs",
        );
    }
    for command in [Some(chroot), Some(unshared), overlay.then_some(overlaid)]
        .into_iter()
        .flatten()
    {
        let guest = Guest::start_ready(command);
        let main = guest
            .modules()
            .into_iter()
            .find(|module| module.main)
            .unwrap();
        assert_eq!(main.path, Path::new("/opt/program"));
        let symbols = check_program(&guest, notes.contains("Build ID: "));
        assert_eq!(
            symbols.origin(),
            &Origin::File(guest.files.path_for_us(&main.path))
        );
    }
}
