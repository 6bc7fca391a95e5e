//! The files of a release (`make dist`): which they are, and that whoever makes them of this commit has the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Killed, TempDir, installed, is_root, skip, tool, until};
use crate::{LIMIT, folder, succeeds};

/// A program that does what lancet does and is a few bytes: what packs it is the same, and takes a second and not a minute.
fn small(place: &TempDir) -> PathBuf {
    let path = place.join("lancet");
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", tool().display());
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    path
}

/// Makes all files in a new folder, as somebody in another time zone, with another language and another umask would.
fn dist(program: &Path, to: &Path, surroundings: &str) -> BTreeSet<String> {
    let package = folder(".ci").join("package");
    let line = format!(
        "{surroundings}; exec '{}' dist '{}' '{}'",
        package.display(),
        program.display(),
        to.display()
    );
    succeeds(Command::new("bash").args(["-c", &line]));
    let files = fs::read_dir(to).expect("the folder");
    files
        .map(|file| {
            file.expect("a file")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect()
}

#[test]
fn is_the_same_bytes_whoever_makes_it() {
    for program in ["rake", "git", "dpkg-deb", "cargo"] {
        if !installed(program) {
            return skip("release", format!("{program} is not installed"));
        }
    }
    if !folder(".git").exists() {
        return skip("release", "these sources are no checkout of a repository");
    }
    let place = TempDir::new("release");
    let program = small(&place);
    let (here, there) = (place.join("here"), place.join("there"));
    let files = dist(&program, &here, "umask 022; export TZ=UTC LC_ALL=C");
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        "SHA256SUMS".to_owned(),
        format!("lancet-{version}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"),
        format!("lancet-{version}-x86_64-linux"),
        format!("lancet-{version}-x86_64-linux.gem"),
        format!("lancet-{version}.cdx.json"),
        format!("lancet-{version}.tar.gz"),
        format!("lancet_{version}_amd64.deb"),
    ];
    assert_eq!(files, expected.into(), "which files a release has");
    let again = dist(
        &program,
        &there,
        "umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8",
    );
    assert_eq!(files, again);
    let sums = |at: &Path| fs::read_to_string(at.join("SHA256SUMS")).expect("checksums");
    assert_eq!(sums(&here), sums(&there), "the same commit, other bytes");
    succeeds(
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(&here),
    );
    holds_what_it_should(&here, version);
}

/// Looks into the package, and into the list of what the program is made of.
fn holds_what_it_should(at: &Path, version: &str) {
    let deb = at.join(format!("lancet_{version}_amd64.deb"));
    let listed = succeeds(Command::new("dpkg-deb").arg("--contents").arg(deb));
    for file in [
        "/usr/bin/lancet",
        "/usr/share/man/man1/lancet-mem.1.gz",
        "/usr/share/doc/lancet/copyright",
        "/usr/share/doc/lancet/changelog.gz",
        "/usr/share/doc/lancet/docs/README.md",
        "/usr/share/doc/lancet/examples/shop.rb",
        "/usr/share/zsh/vendor-completions/_lancet",
    ] {
        assert!(
            listed.contains(file),
            "{file} is not in the package:\n{listed}"
        );
    }
    let text = fs::read_to_string(at.join(format!("lancet-{version}.cdx.json"))).expect("the list");
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let components = list["components"].as_array().expect("components");
    let named = |name: &str| components.iter().find(|one| one["name"] == name);
    // What runs in guests is in the program, though no edge of Cargo's leads there.
    assert!(
        named("lancet-agent").is_some(),
        "the agent is not in the list"
    );
    let clap = named("clap").expect("a crate that the program uses");
    let sum = clap["hashes"][0]["content"].as_str().unwrap_or_default();
    assert_eq!(sum.len(), 64, "{clap}");
    assert!(
        named("proptest").is_none(),
        "what only tests use is not in the program"
    );
}

/// What `make install` puts below a prefix, `make uninstall` takes out, and nothing else.
#[test]
fn what_is_installed_is_taken_out_again() {
    let place = TempDir::new("installed");
    let prefix = place.join("usr");
    let package = |verb: &str, words: &[&Path]| {
        let mut command = Command::new(folder(".ci").join("package"));
        succeeds(command.arg(verb).args(words))
    };
    package("install", &[&small(&place), &prefix]);
    let other = prefix.join("share/man/man1/lancetfish.1.gz");
    fs::write(&other, "another's page").expect("a file");
    assert!(prefix.join("share/man/man1/lancet.1.gz").exists());
    package("uninstall", &[&prefix]);
    let left = succeeds(Command::new("find").arg(&prefix).args(["-type", "f"]));
    assert_eq!(left.trim(), other.display().to_string());
}

/// The container image has nothing but the program, so it is unpacked as a runtime would, and the program opens a process of this machine
/// from there: with a root of its own, without a C library, a shell or a folder for temporary files.
#[test]
fn the_image_opens_a_process_from_its_own_root() {
    if !installed("buildah") || !is_root() {
        return skip("image", "buildah is not installed, or this is not root");
    }
    let place = TempDir::new("image");
    let package = folder(".ci").join("package");
    let image = succeeds(
        Command::new(package)
            .arg("image")
            .arg(tool())
            .arg(&*place.join("")),
    );
    let root = place.join("root");
    let script = r#"
        set -e
        mkdir -p "$2/oci" "$2/root/proc"
        tar -C "$2/oci" -xf "$1"
        for blob in "$2"/oci/blobs/sha256/*; do
            if tar -tf "$blob" >/dev/null 2>&1; then tar -C "$2/root" -xf "$blob"; fi
        done
        "#;
    let parent = place.join("");
    let mut unpack = Command::new("bash");
    succeeds(
        unpack
            .args(["-c", script, "unpack"])
            .arg(image.trim())
            .arg(parent),
    );
    let files = succeeds(
        Command::new("find")
            .arg(&root)
            .args(["-type", "f", "-printf", "%P\n"]),
    );
    assert_eq!(files.trim(), "usr/bin/lancet", "the files of the image");
    let ready = place.join("ready");
    let script = "$kept = Array.new(1000) { Object.new }; File.write(ARGV[0], ''); sleep";
    let mut guest = Command::new("ruby");
    let guest = Killed::start(guest.args(["-e", script]).arg(&ready)).expect("ruby runs");
    until(LIMIT, "the guest to be ready", || {
        ready.exists().then_some(())
    });
    let open = r#"mount --bind /proc "$1/proc"; exec chroot "$1" /usr/bin/lancet stack -p "$2""#;
    let mut opens = Command::new("unshare");
    opens.args(["--mount", "bash", "-c", open, "open"]);
    let shown = succeeds(opens.arg(&root).arg(guest.pid().to_string()));
    assert!(shown.contains("-e:1 in <main>"), "{shown}");
}
