//! The numbers of the stream. Nothing is sent here: sending ends a process without a reader.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn written(write: impl FnOnce(&mut Stream)) -> Vec<u8> {
    let mut stream = Stream::new(u64::MAX).expect("memory");
    write(&mut stream);
    stream.buffer[..stream.used].to_vec()
}

/// Bytes stand behind each other in their order.
#[test]
fn bytes_keep_their_order() {
    let bytes = written(|stream| (0..200).for_each(|byte| stream.byte(byte)));
    assert_eq!(bytes, (0..200).collect::<Vec<u8>>());
}

/// Numbers take a byte for each seven bits, the lowest first; these are the examples of LEB128.
#[test]
fn numbers_are_leb128() {
    for (number, expected) in [
        (0, &[0u8][..]),
        (127, &[127]),
        (128, &[0x80, 1]),
        (624_485, &[0xe5, 0x8e, 0x26]),
    ] {
        assert_eq!(written(|stream| stream.number(number)), expected);
    }
}

/// The greatest number takes ten bytes, which is less than the buffer keeps free for one.
#[test]
fn the_greatest_number_fits() {
    let bytes = written(|stream| stream.number(u64::MAX));
    assert_eq!(bytes.len(), 10);
    assert!(bytes.len() <= LONGEST);
}

proptest! {
    /// Numbers behind each other are read back one by one.
    #[test]
    fn numbers_are_read_back(numbers in prop::collection::vec(any::<u64>(), 0..100)) {
        let bytes = written(|stream| numbers.iter().for_each(|number| stream.number(*number)));
        let mut read = Vec::new();
        let (mut number, mut shift) = (0, 0);
        for byte in bytes {
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                read.push(number);
                (number, shift) = (0, 0);
            }
        }
        prop_assert_eq!(read, numbers);
    }
}
