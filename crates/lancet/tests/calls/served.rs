//! A Puma under load, opened and left again and again while its hooks fire: every answer is right, nothing adds up.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::support::{Guest, LIMIT, Snapshot, TempDir, installed, run, say, skip, soak};
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

/// Asks again and again until it is told to stop; fails with the first wrong answer.
fn load(port: u16, stop: Arc<AtomicBool>, answers: Arc<AtomicU64>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
            stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
            write!(stream, "GET /?{number} HTTP/1.0\r\n\r\n").expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            let words = number % 50 + 1 + number % 2;
            let expected = format!("hello {number} {words}\n");
            assert!(answer.ends_with(&expected), "{expected}: {answer}");
            answers.fetch_add(1, Ordering::Relaxed);
        }
    })
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
    let (stop, answers) = (Arc::default(), Arc::<AtomicU64>::default());
    let load = [(); 2].map(|()| load(port, Arc::clone(&stop), answers.clone()));
    while answers.load(Ordering::Relaxed) == 0 {
        assert!(load.iter().all(|load| !load.is_finished()), "it answers");
        thread::yield_now();
    }
    let before = Snapshot::take(guest.pid);
    let began = Instant::now();
    let count = if soak() { 1000 } else { 100 };
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
    stop.store(true, Ordering::Relaxed);
    for load in load {
        load.join().expect("every answer was right");
    }
    say(format_args!(
        "puma: {cycles} cycles of {functions} functions, which fired in {fired}, {} answers, {:.1?}",
        answers.load(Ordering::Relaxed),
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
    let count = stderr.split(" of ").next();
    let count = count.and_then(|text| text.rsplit(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("not understood: {stderr}"))
}
