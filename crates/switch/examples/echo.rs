//! An echo server: one fiber per connection, one OS thread, epoll.
//!
//! ```text
//! cargo run --release -p lancet-switch --example echo [PORT]
//! ```
//!
//! A fiber reads and writes as if it were alone. When the kernel says "not now" it leaves an
//! unparker with the reactor and parks; the reactor is the scheduler's idle function, which waits in
//! `epoll_wait` until the next sleeper wakes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use lancet_switch::Builder;
use lancet_switch::pool::{Config, Pool, Reuse};
use lancet_switch::scheduler::{Unparker, park, run_with, try_spawn, unparker};

/// Who waits for which descriptor.
struct Reactor {
    epoll: OwnedFd,
    waiting: RefCell<HashMap<RawFd, Unparker>>,
}

impl Reactor {
    fn new() -> io::Result<Self> {
        // SAFETY: a plain system call; the descriptor is owned from here on.
        let epoll = unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        Ok(Reactor {
            epoll,
            waiting: RefCell::default(),
        })
    }

    /// Registers a descriptor, once, edge-triggered for both directions.
    fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32,
            u64: fd as u64,
        };
        // SAFETY: the event outlives the call.
        match unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event)
        } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Repeats `attempt` until it does not say "would block", parking in between.
    fn wait<T>(&self, fd: RawFd, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.waiting.borrow_mut().insert(fd, unparker());
                    park();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Waits for events and unparks whom they concern.
    fn poll(&self, wait: Option<Duration>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 512];
        let millis = wait.map_or(-1, |wait| wait.as_millis().min(60_000) as i32);
        // SAFETY: the kernel writes at most 512 events.
        let count =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 512, millis) };
        let mut waiting = self.waiting.borrow_mut();
        for event in events.iter().take(count.max(0) as usize) {
            if let Some(unparker) = waiting.remove(&(event.u64 as RawFd)) {
                unparker.unpark();
            }
        }
    }
}

/// One connection, until it is closed.
fn echo(reactor: &Reactor, mut stream: TcpStream) -> io::Result<()> {
    let fd = stream.as_raw_fd();
    // Small, for it lies on the fiber's stack: an idle fiber is to keep one page.
    let mut buffer = [0u8; 512];
    loop {
        let read = reactor.wait(fd, || stream.read(&mut buffer))?;
        let mut rest = &buffer[..read];
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let written = reactor.wait(fd, || stream.write(rest))?;
            rest = &rest[written..];
        }
    }
}

fn serve(reactor: &Rc<Reactor>, listener: &TcpListener, pool: &Pool) -> io::Result<()> {
    loop {
        let (stream, _) = reactor.wait(listener.as_raw_fd(), || listener.accept())?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        reactor.add(stream.as_raw_fd())?;
        let reactor = reactor.clone();
        let builder = Builder::new().name("connection").pool(pool);
        // Without a stack the connection is closed and the server goes on.
        if let Err(error) = try_spawn(builder, move || drop(echo(&reactor, stream))) {
            eprintln!("echo: {error}");
        }
    }
}

fn main() -> io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(7007), |text| text.parse());
    let port: u16 = port.map_err(|_| io::Error::other("usage: echo [PORT]"))?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    println!("{}", listener.local_addr()?);
    let mut config = Config::default();
    config.stack_size = 32 << 10;
    config.guard_size = 4 << 10;
    config.reuse = Reuse::Free;
    let pool = Pool::new(config).map_err(io::Error::other)?;
    let reactor = Rc::new(Reactor::new()?);
    reactor.add(listener.as_raw_fd())?;
    let polled = reactor.clone();
    run_with(
        move || serve(&reactor, &listener, &pool),
        move |wait| polled.poll(wait),
    )
}
