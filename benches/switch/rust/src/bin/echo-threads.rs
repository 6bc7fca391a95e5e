//! The echo server of `examples/echo.rs` on threads, one per connection, stacks of 64 KiB.

use std::io::{Read, Write};
use std::net::TcpListener;

fn main() -> std::io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(7007);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("{}", listener.local_addr()?);
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || {
                let mut buffer = [0u8; 512];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
            })?;
    }
}
