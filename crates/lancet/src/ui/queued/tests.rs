//! What is queued, dropped and counted.

use super::*;
use std::io::{BufRead, BufReader, pipe};

#[test]
fn a_writer_without_a_processor_is_waited_for_and_a_reader_is_not() {
    let began = Instant::now();
    let [soon, late] = [GRACE / 2, GRACE * 2].map(|time| began + time);
    let far = late + GRACE;
    assert!(
        !is_stuck(None, Some(began), far),
        "nobody has asked for the end"
    );
    assert!(
        !is_stuck(Some(began), None, far),
        "it has not come to its write"
    );
    assert!(!is_stuck(Some(began), Some(began), soon));
    assert!(is_stuck(Some(began), Some(began), late));
    assert!(
        !is_stuck(Some(began), Some(late), late),
        "the write before has ended"
    );
    assert!(
        !is_stuck(Some(late), Some(began), late),
        "it was asked for just now"
    );
    assert!(is_stuck(Some(late), Some(began), far + GRACE));
}

fn explain(error: &io::Error) -> String {
    error.to_string()
}

/// Room is refused, and nothing of what was written is dropped.
#[test]
fn what_must_be_whole_is_asked_room_for() {
    use calls::recorder::Destination;
    let (mut reader, writer) = pipe().unwrap();
    let (mut queue, written) = queued(writer, Kind::Whole, Duration::from_millis(50), explain);
    let chunk = vec![b'x'; 256 << 10];
    let mut taken = 0;
    while queue.has_room() {
        queue.write_all(&chunk).unwrap();
        queue.flush().unwrap();
        taken += chunk.len();
    }
    assert!(
        (MOST - CHUNK..=MOST + (1 << 20)).contains(&taken),
        "{taken}"
    );
    queue.dropped();
    queue.write_all(b"end").unwrap();
    queue.flush().unwrap();
    let mut bytes = vec![0; taken + 3];
    io::Read::read_exact(&mut reader, &mut bytes).unwrap();
    assert!(bytes.ends_with(b"xend"));
    assert_eq!(written.finish().unwrap(), 1);
    assert!(queue.has_room());
}

#[test]
fn what_a_reader_takes_is_whole_and_in_order() {
    let (reader, writer) = pipe().unwrap();
    let read = thread::spawn(move || BufReader::new(reader).lines().map_while(Result::ok).count());
    let (mut queue, written) = queued(writer, Kind::Lines, Duration::from_secs(60), explain);
    for number in 0..100_000 {
        writeln!(queue, "{number}").unwrap();
    }
    queue.flush().unwrap();
    assert_eq!(written.finish().unwrap(), 0);
    assert_eq!(written.0.lock().dropped, 0);
    drop((queue, written));
    let _ = read;
}

#[test]
fn nobody_waits_for_a_reader_that_has_stopped() {
    let (mut reader, writer) = pipe().unwrap();
    let (mut queue, written) = queued(writer, Kind::Lines, Duration::from_millis(50), explain);
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    let lines = MOST / line.len() * 2;
    let began = Instant::now();
    for _ in 0..lines {
        queue.write_all(&line).unwrap();
    }
    queue.flush().unwrap();
    assert!(began.elapsed() < Duration::from_secs(30));
    let dropped = written.0.lock().dropped;
    assert!(dropped > 0, "nothing was dropped");
    // All that was not dropped is there.
    let told = (lines as u64 - dropped) * line.len() as u64;
    let mut bytes = vec![0; told as usize];
    io::Read::read_exact(&mut reader, &mut bytes).unwrap();
    assert!(bytes.chunks(line.len()).all(|read| read == line));
    assert_eq!(written.finish().unwrap(), dropped);
}

/// The table that was begun while nobody read.
#[test]
fn a_head_is_not_dropped() {
    let (reader, writer) = pipe().unwrap();
    let (queue, written) = queued(writer, Kind::Lines, Duration::from_millis(50), explain);
    let mut queue = queue.with_heads(Some(|line| line.starts_with(b"record,")));
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    let lines = MOST / line.len() * 2;
    (0..lines).for_each(|_| queue.write_all(&line).unwrap());
    queue.write_all(b"\nrecord,a\nrow,1\n").unwrap();
    queue.flush().unwrap();
    let dropped = written.0.lock().dropped;
    let read = thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines
            .filter(|line| !line.starts_with('x'))
            .collect::<Vec<_>>()
    });
    assert_eq!(written.finish().unwrap(), dropped);
    queue.write_all(b"row,2\n").unwrap();
    queue.flush().unwrap();
    assert_eq!(written.finish().unwrap(), dropped - 1);
    drop(queue);
    assert_eq!(read.join().unwrap(), ["", "record,a", "row,2"]);
}

/// A queue that drops lines from now on; what it dropped until then.
fn full(queue: &mut Queued, written: &Written) -> u64 {
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    let lines = MOST / line.len() * 2;
    (0..lines).for_each(|_| queue.write_all(&line).unwrap());
    queue.flush().unwrap();
    written.0.lock().dropped
}

/// What is not an `x` of the full queue, when all is written.
fn read(reader: io::PipeReader) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines.filter(|line| !line.starts_with('x')).collect()
    })
}

/// One that was dropped is not written before another, and is no half of a line.
#[test]
fn a_head_that_was_dropped_is_whole_and_has_rows() {
    let (reader, writer) = pipe().unwrap();
    let (queue, written) = queued(writer, Kind::Lines, Duration::from_millis(50), explain);
    let mut queue = queue.with_heads(Some(|line| line.starts_with(b"record,")));
    let before = full(&mut queue, &written);
    queue.write_all(b"\nrecord,a\nrow,1\n").unwrap();
    queue.flush().unwrap();
    let dropped = written.0.lock().dropped;
    assert_eq!(dropped, before + 3);
    let read = read(reader);
    assert_eq!(written.finish().unwrap(), dropped);
    queue.write_all(b"\nrecord,b\nrow,2\n").unwrap();
    queue.flush().unwrap();
    assert_eq!(written.finish().unwrap(), dropped, "the first head as well");
    drop(queue);
    assert_eq!(read.join().unwrap(), ["", "record,b", "row,2"]);
}

#[test]
fn half_a_head_is_none() {
    let (reader, writer) = pipe().unwrap();
    let (queue, written) = queued(writer, Kind::Lines, Duration::from_millis(50), explain);
    let mut queue = queue.with_heads(Some(|line| line.starts_with(b"record,")));
    let before = full(&mut queue, &written);
    for half in ["record,a", "record,of the line\n"] {
        queue.write_all(half.as_bytes()).unwrap();
        queue.flush().unwrap();
    }
    assert_eq!(written.0.lock().dropped, before + 1);
    let read = read(reader);
    assert_eq!(written.finish().unwrap(), before + 1);
    queue.write_all(b"row,1\n").unwrap();
    queue.flush().unwrap();
    assert_eq!(written.finish().unwrap(), before + 1, "nothing is restored");
    drop(queue);
    assert_eq!(read.join().unwrap(), ["row,1"]);
}

/// A panic of the thread that writes, which was there before anyone has asked for the end.
#[test]
fn a_writer_that_has_panicked_is_not_waited_for() {
    struct Panics;
    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("a test asked for it")
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut queue, written) = queued(Panics, Kind::Lines, Duration::from_secs(1), explain);
    queue.write_all(b"one\ntwo\n").unwrap();
    queue.flush().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || tell.send(written.finish()));
    let dropped = told.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
    assert_eq!(dropped, 1, "the chunk that it had taken is some line");
}

#[test]
fn a_reader_that_is_gone_is_an_error_of_its_kind() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let (mut queue, written) = queued(writer, Kind::Lines, Duration::from_secs(1), explain);
    queue.write_all(b"a line\n").unwrap();
    let _ = queue.flush();
    let error = written.finish().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(queue.flush().is_err());
}
