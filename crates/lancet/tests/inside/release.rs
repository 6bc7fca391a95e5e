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

/// Why a release cannot be made of these sources on this machine, where these programs are wanted.
fn lacking(programs: &[&str]) -> Option<String> {
    let missing = programs.iter().find(|program| !installed(program));
    let missing = missing.map(|program| format!("{program} is not installed"));
    let is_checkout = folder(".git").exists();
    missing
        .or_else(|| (!is_checkout).then(|| "these sources are no checkout of a repository".into()))
}

#[test]
fn is_the_same_bytes_whoever_makes_it() {
    if let Some(why) = lacking(&["rake", "git", "dpkg-deb", "cargo"]) {
        return skip("release", why);
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
        format!("lancet-{version}-third-party.txt"),
        format!("lancet-{version}-x86_64-linux.gem"),
        format!("lancet-{version}.cdx.json"),
        format!("lancet-{version}.tar.gz"),
        format!("lancet_{version}_amd64.deb"),
    ];
    assert_eq!(files, expected.into(), "which files a release has");
    let again = dist(
        &program,
        &there,
        "umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8 \
         GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=tar.umask GIT_CONFIG_VALUE_0=0077 GIT_CONFIG_KEY_1=core.autocrlf GIT_CONFIG_VALUE_1=true",
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
        "/usr/share/doc/lancet/THIRD-PARTY.txt.gz",
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
    // Only tests use the one, and nobody turns the feature on that brings the other.
    for other in ["proptest", "termwiz"] {
        assert!(named(other).is_none(), "{other} is not in the program");
    }
    let glibc = named("glibc").expect("the C library of a static program");
    let purl = glibc["purl"].as_str().unwrap_or_default();
    assert!(purl.starts_with("pkg:deb/debian/glibc@2."), "{glibc}");
    assert!(named("rust-std").is_some(), "Rust's standard library");
    holds_the_licences_of_others(at, version, components);
}

/// Each crate of others is named in what is shipped, with texts of licences.
fn holds_the_licences_of_others(at: &Path, version: &str, components: &[serde_json::Value]) {
    let text = fs::read_to_string(at.join(format!("lancet-{version}-third-party.txt")));
    let text = text.expect("the licences");
    let field = |one: &serde_json::Value, name: &str| one[name].as_str().unwrap_or("").to_owned();
    for one in components {
        if field(one, "purl").starts_with("pkg:cargo/") {
            let line = format!("\n{} {}", field(one, "name"), field(one, "version"));
            assert!(text.contains(&line), "{line} is not named");
        }
    }
    for words in [
        "GNU LESSER GENERAL PUBLIC LICENSE",
        "UNICODE LICENSE V3",
        "Permission is hereby granted, free of charge",
        "https://snapshot.debian.org/package/glibc/",
    ] {
        assert!(text.contains(words), "{words} is not among the licences");
    }
    let wheel = at.join(format!(
        "lancet-{version}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    ));
    let print = "import sys, zipfile; wheel = zipfile.ZipFile(sys.argv[1]); \
                 sys.stdout.buffer.write(wheel.read(f'lancet-{sys.argv[2]}.dist-info/licenses/THIRD-PARTY.txt'))";
    let mut python = Command::new("python3");
    let within = succeeds(python.args(["-c", print]).arg(wheel).arg(version));
    assert_eq!(within, text, "the licences in the wheel");
    let print = "require 'rubygems/package'; puts Gem::Package.new(ARGV[0]).contents";
    let gem = at.join(format!("lancet-{version}-x86_64-linux.gem"));
    let within = succeeds(Command::new("ruby").args(["-e", print]).arg(gem));
    assert!(
        within.lines().any(|line| line == "THIRD-PARTY.txt"),
        "{within}"
    );
}

/// A copy of the sources of the commit, a repository of its own or none.
fn copied(place: &TempDir, name: &str) -> PathBuf {
    let to = place.join(name);
    let script = "mkdir \"$2\" && git -c safe.directory=\"${1%/}\" -C \"$1\" archive HEAD | tar -C \"$2\" -xf -";
    let mut copy = Command::new("bash");
    succeeds(copy.args(["-c", script, "copy"]).arg(folder("")).arg(&to));
    to
}

/// Has a copy's own script do something; what it says on standard output and on standard error, and whether it succeeds.
fn package(at: &Path, script: &str, words: &[&Path]) -> (String, bool) {
    let mut command = Command::new("bash");
    command.current_dir(at).env_remove("SOURCE_DATE_EPOCH");
    let done = command.args(["-c", script, "package"]).args(words).output();
    let done = done.expect("bash runs");
    let said = [done.stdout, done.stderr].concat();
    (
        String::from_utf8_lossy(&said).into_owned(),
        done.status.success(),
    )
}

const COMMITTED: &str = "git init --quiet && git add --all && git -c user.name=x -c user.email=x commit --quiet --message x";

/// Nothing comes into a release but what is in the commit, and a folder is one only when all is there.
#[test]
fn holds_nothing_that_is_not_in_the_commit() {
    if let Some(why) = lacking(&["rake", "git", "dpkg-deb", "cargo"]) {
        return skip("release", why);
    }
    let place = TempDir::new("release-other");
    let program = small(&place);
    let tree = copied(&place, "tree");
    let to = place.join("to");
    // The paths are those of the folder in which it is called.
    fs::create_dir_all(place.join("elsewhere")).expect("a folder");
    let script = format!(
        "{COMMITTED} && for mine in python/src/lancet/mine.py gem/lib/lancet/mine.rb docs/mine.md; do echo secret >$mine; done && \
         cd ../elsewhere && ../tree/.ci/package dist ../lancet ../to 2>&1"
    );
    let (said, done) = package(&tree, &script, &[]);
    assert!(done, "{said}");
    let script = "dpkg-deb --contents \"$1\"/*.deb; python3 -m zipfile --list \"$1\"/*.whl; tar -xOf \"$1\"/*.gem data.tar.gz | tar -tz";
    let (listed, done) = package(&tree, script, &[&to]);
    assert!(done && listed.contains("lancet/rack.rb"), "{listed}");
    assert!(!listed.contains("mine"), "{listed}");
    // One that fails leaves what was there before.
    let sums = fs::read_to_string(to.join("SHA256SUMS")).expect("checksums");
    let script = "rm gem/lancet.gemspec && git -c user.name=x -c user.email=x commit --quiet --all --message y; \
                  .ci/package dist \"$1\" \"$2\"";
    let (said, done) = package(&tree, script, &[&program, &to]);
    assert!(!done, "{said}");
    assert_eq!(
        sums,
        fs::read_to_string(to.join("SHA256SUMS")).expect("they are left")
    );
    let (said, done) = package(&to, "sha256sum --check --quiet SHA256SUMS", &[]);
    assert!(done, "{said}");
}

/// Which time the files have: that of the commit, one that the caller names, never that of another repository around; and what git refuses is said.
#[test]
fn takes_the_time_of_its_own_commit() {
    if let Some(why) = lacking(&["git"]) {
        return skip("release", why);
    }
    let place = TempDir::new("release-time");
    let program = small(&place);
    let outer = place.join("outer");
    fs::create_dir_all(&outer).expect("a folder");
    let script = format!("touch x && GIT_COMMITTER_DATE=2001-02-03T00:00:00Z {COMMITTED}");
    let (said, done) = package(&outer, &script, &[]);
    assert!(done, "{said}");
    copied(&place, "outer/tree");
    let tree = outer.join("tree");
    let of = "touch --date=2002-02-02T00:00:00Z Cargo.toml; .ci/package deb \"$1\" \"$2\" >/dev/null && \
              dpkg-deb --fsys-tarfile \"$2\"/*.deb | TZ=UTC tar --list --verbose --file - ./usr/share/doc/lancet/copyright";
    let time = |before: &str| {
        package(
            &tree,
            &format!("{before}{of}"),
            &[&program, &place.join("deb")],
        )
    };
    let (said, _) = time("");
    assert!(said.contains(" 2002-02-02 "), "of no repository: {said}");
    let (said, _) = time("export SOURCE_DATE_EPOCH=1054944000; ");
    assert!(said.contains(" 2003-06-07 "), "the caller's: {said}");
    let (said, _) = time(&format!(
        "export GIT_COMMITTER_DATE=2004-05-06T00:00:00Z; {COMMITTED}; "
    ));
    assert!(said.contains(" 2004-05-06 "), "the commit's: {said}");
    let (said, done) = time("echo broken >.git/HEAD; ");
    assert!(!done && said.contains("fatal: "), "{said}");
}

/// No page names a file of the version before.
#[test]
fn a_version_is_written_wherever_one_stands() {
    if let Some(why) = lacking(&["git"]) {
        return skip("release", why);
    }
    let place = TempDir::new("release-version");
    let tree = copied(&place, "tree");
    let (said, done) = package(&tree, ".ci/package version 98.76.54", &[]);
    assert!(done, "{said}");
    let old = env!("CARGO_PKG_VERSION").replace('.', "\\.");
    let script = format!(
        "grep -rnE 'lancet[-_]{old}' README.md CONTRIBUTING.md docs gem/README.md python/README.md; \
         grep -c 98.76.54 README.md python/src/lancet/__init__.py gem/lib/lancet/version.rb"
    );
    let (found, _) = package(&tree, &script, &[]);
    let expected = "README.md:4\npython/src/lancet/__init__.py:1\ngem/lib/lancet/version.rb:1\n";
    assert_eq!(
        found, expected,
        "what names the version before, and the new one"
    );
}

/// What `make install` puts below a prefix, `make uninstall` takes out, and nothing else.
#[test]
fn what_is_installed_is_taken_out_again() {
    let place = TempDir::new("installed");
    let prefix = place.join("usr");
    let package = |verb: &str, words: &[&Path]| {
        let mut command = Command::new("bash");
        command.args(["-c", "umask 077; exec \"$@\"", "package"]);
        command.arg(folder(".ci").join("package"));
        succeeds(command.arg(verb).args(words))
    };
    package("install", &[&small(&place), &prefix]);
    // Also where root's own files are for nobody else.
    let closed = succeeds(
        Command::new("find")
            .arg(&prefix)
            .args(["!", "-perm", "-a=r"]),
    );
    assert_eq!(closed, "", "what others cannot read");
    let other = prefix.join("share/man/man1/lancetfish.1.gz");
    fs::write(&other, "another's page").expect("a file");
    assert!(prefix.join("share/man/man1/lancet.1.gz").exists());
    package("uninstall", &[&prefix]);
    let left = succeeds(Command::new("find").arg(&prefix).args(["-type", "f"]));
    assert_eq!(left.trim(), other.display().to_string());
}

/// The container image has the program and licences alone, so it is unpacked as a runtime would, and the program opens a process of this machine
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
    let mut files: Vec<_> = files.lines().collect();
    files.sort_unstable();
    let docs = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt"];
    let docs = docs.map(|name| format!("usr/share/doc/lancet/{name}"));
    assert_eq!(files[0], "usr/bin/lancet", "the program of the image");
    assert_eq!(files[1..], docs, "the other files of the image");
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
