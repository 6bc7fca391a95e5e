//! Load for an echo server: `load ADDRESS CONNECTIONS SECONDS`.
//!
//! Opens all connections, then keeps 64 of them busy at a time, in turn, with messages of 64 bytes;
//! the others stay idle. Prints `requests p50_us p99_us`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const BUSY: usize = 64;
const MESSAGE: [u8; 64] = [b'x'; 64];

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let address = &arguments[1];
    let connections: usize = arguments[2].parse().expect("a number");
    let seconds: f64 = arguments[3].parse().expect("a number");
    // SAFETY: plain system calls; the events are written within the array.
    let epoll = unsafe { libc::epoll_create1(0) };
    let mut streams = Vec::with_capacity(connections);
    for number in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number as u64,
        };
        // SAFETY: the event outlives the call.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &mut event) };
        streams.push(stream);
    }
    // Every connection once, so that the server has touched what it needs for each.
    let mut buffer = [0u8; 64];
    for stream in &mut streams {
        stream.write_all(&MESSAGE)?;
        stream.read_exact(&mut buffer)?;
    }
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;

    let mut sent = vec![Instant::now(); connections];
    let mut times = Vec::new();
    let mut next = 0;
    let mut send = |streams: &mut [TcpStream], sent: &mut [Instant]| {
        let which = next % connections;
        next += 1;
        sent[which] = Instant::now();
        streams[which].write_all(&MESSAGE)
    };
    for _ in 0..BUSY {
        send(&mut streams, &mut sent)?;
    }
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BUSY];
        // SAFETY: the kernel writes at most BUSY events.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), BUSY as i32, 1000) };
        for event in events.iter().take(count.max(0) as usize) {
            let which = event.u64 as usize;
            streams[which].read_exact(&mut buffer)?;
            times.push(sent[which].elapsed().as_micros() as u64);
            send(&mut streams, &mut sent)?;
        }
    }
    times.sort_unstable();
    let at = |share: f64| {
        times
            .get((times.len() as f64 * share) as usize)
            .copied()
            .unwrap_or(0)
    };
    println!("{} {} {}", times.len(), at(0.5), at(0.99));
    Ok(())
}
