//! A Puma under load, opened and left again and again while its hooks fire: every answer is right, nothing adds up.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Instant;

use crate::support::{Guest, LIMIT, Load, Snapshot, TempDir, installed, run, say, skip, soak};
use crate::watch::{calls, text_holds};

/// Says `hello N` with work in the VM and in its collector on the way.
const APPLICATION: &str = r#"
run lambda { |env|
  number = Integer(env["QUERY_STRING"])
  words = (0..number % 50).map { |n| "word #{n}" }.sort_by { |word| -word.sum }
  begin
    raise ArgumentError, "odd" if number.odd?
  rescue ArgumentError
    words << "odd"
  end
  [200, { "Content-Type" => "text/plain" }, ["hello #{number} #{words.size}\n"]]
}
"#;

fn is_right(number: u64, answer: &str) -> bool {
    answer == format!("hello {number} {}\n", number % 50 + 1 + number % 2)
}

#[test]
fn a_puma_under_load_is_opened_and_left_again_and_again() {
    if !installed("puma") {
        return skip("served", "no puma");
    }
    let folder = TempDir::new("served");
    let application = folder.join("config.ru");
    std::fs::write(&application, APPLICATION).expect("a file");
    let mut command = Command::new("puma");
    command
        .args(["-b", "tcp://127.0.0.1:0", "-t", "2:2", "-e", "production"])
        .arg(&application)
        .current_dir("/tmp");
    let guest = Guest::start("puma", command);
    let listening = guest.find("* Listening on http://127.0.0.1:");
    let port = listening.parse().unwrap_or_else(|_| panic!("{listening}"));
    let load = Load::start(port, 2, is_right);
    let before = Snapshot::take(guest.pid);
    let began = Instant::now();
    let count = if soak() { 1000 } else { 12 };
    let (mut cycles, mut functions, mut fired) = (0, 0, 0);
    let mut last = None;
    while cycles < count {
        let mut command = calls(guest.pid, &["-c", "-x", "*@libruby*", "--for", "20ms"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "cycle {cycles}: {}", output.stderr);
        functions = hooked(&output.stderr);
        fired += u32::from(output.stdout.lines().count() > 5);
        last = Some(output);
        cycles += 1;
    }
    text_holds(&before, guest.pid, "served", &last.expect("cycles"));
    let answers = load.end();
    say(format_args!(
        "puma: {cycles} cycles of {functions} functions, which fired in {fired}, {answers} answers, {:.1?}",
        began.elapsed()
    ));
    assert!(
        functions >= 1000,
        "{functions} functions of libruby hooked at once"
    );
    assert!(fired * 2 > cycles, "the hooks fired in {fired} of {cycles}");
    guest.signal(nix::sys::signal::Signal::SIGTERM);
    let complaints = guest.complaints();
    let (_, status) = guest.end();
    assert!(complaints.is_empty(), "{complaints}");
    // Puma ends its work and then dies of the signal, as it should.
    let good = status.success() || status.signal() == Some(nix::libc::SIGTERM);
    assert!(good, "{status}");
}

/// From `N of M functions hooked`.
fn hooked(stderr: &str) -> usize {
    let line = stderr
        .lines()
        .find(|line| line.contains(" functions hooked "));
    let count = line.and_then(|line| line.split(" of ").next());
    let count = count.and_then(|text| text.rsplit(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("not understood: {stderr}"))
}
