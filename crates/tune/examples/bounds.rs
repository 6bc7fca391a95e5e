//! Where bounds of the checks come from that nobody else has measured: `cargo run --release -p lancet-tune --example
//! bounds`.
//!
//! - T13: what poll costs with so many idle descriptors, beside epoll_wait.
//! - T18: how many packets one CPU takes a second.
//! - T23: what connect costs when so much of the port range is in TIME_WAIT.
//!
//! Needs root: it goes into a network namespace of its own, where it may fill the ports.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

fn main() -> io::Result<()> {
    waiting()?;
    // SAFETY: no memory is handed over; this is the only thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
        println!("packets and connect: needs root for a network namespace of its own");
        return Ok(());
    }
    Command::new("ip")
        .args("link set lo up".split(' '))
        .status()?;
    packets()?;
    connects()
}

/// The least of several tries, in nanoseconds per call: whoever else runs here only adds to it.
fn least(calls: u32, mut call: impl FnMut()) -> f64 {
    let tries = (0..9).map(|_| {
        let begin = Instant::now();
        (0..calls).for_each(|_| call());
        begin.elapsed().as_nanos() as f64 / f64::from(calls)
    });
    tries.fold(f64::INFINITY, f64::min)
}

fn waiting() -> io::Result<()> {
    println!("descriptors   poll (ns)   epoll_wait (ns)");
    for count in [10usize, 100, 500, 1000, 2000, 5000, 10_000] {
        let sockets: Vec<OwnedFd> = (0..count)
            .map(|_| Ok(UdpSocket::bind("127.0.0.1:0")?.into()))
            .collect::<io::Result<_>>()?;
        let mut polled: Vec<libc::pollfd> = sockets
            .iter()
            .map(|socket| libc::pollfd {
                fd: socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // SAFETY: no memory is handed over.
        let epoll = unsafe { libc::epoll_create1(0) };
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        for socket in &sockets {
            // SAFETY: the event lives across the call.
            unsafe {
                libc::epoll_ctl(
                    epoll,
                    libc::EPOLL_CTL_ADD,
                    socket.as_raw_fd(),
                    &raw mut event,
                )
            };
        }
        // SAFETY: the entries live across the call, and their number is given.
        let poll = least(200, || unsafe {
            libc::poll(polled.as_mut_ptr(), polled.len() as u64, 0);
        });
        // SAFETY: room for one event, which lives across the call.
        let epolled = least(200, || unsafe {
            libc::epoll_wait(epoll, &raw mut event, 1, 0);
        });
        // SAFETY: it was opened above and is used no more.
        unsafe { libc::close(epoll) };
        println!("{count:11}   {poll:9.0}   {epolled:15.0}");
    }
    Ok(())
}

/// Each packet over the loopback goes down and up the stack on the CPU that sends it, and is dropped at a full socket.
fn packets() -> io::Result<()> {
    let (from, to) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    from.connect(to.local_addr()?)?;
    let each = least(20_000, || {
        let _ = from.send(b"x");
    });
    println!(
        "\none packet, sent and taken by one CPU: {each:.0} ns, so {:.0} a second",
        1e9 / each
    );
    Ok(())
}

fn connects() -> io::Result<()> {
    // On the loopback TIME_WAIT is used again by default.
    std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "0")?;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let bounds: Vec<usize> = range
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let ports = bounds[1] - bounds[0] + 1;
    let listener = TcpListener::bind("127.0.0.1:1025")?;
    println!("\nin TIME_WAIT of {ports}   connect (µs), median of 100");
    let mut used = 0;
    // Faster than the first of them leave again, after a minute.
    for percent in [0, 25, 45, 50, 55, 70] {
        let mut times = Vec::new();
        while used < ports * percent / 100 + 100 {
            let begin = Instant::now();
            let client = TcpStream::connect("127.0.0.1:1025")?;
            times.push(begin.elapsed());
            let (server, _) = listener.accept()?;
            // Who closes first waits.
            drop(client);
            drop(server);
            used += 1;
        }
        let mut last: Vec<Duration> = times.split_off(times.len() - 100);
        last.sort();
        println!("{percent:17}%   {:12.1}", last[50].as_secs_f64() * 1e6);
    }
    Ok(())
}
