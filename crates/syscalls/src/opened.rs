//! Which system calls open descriptors, and where they put the numbers of those: the one list, for the text of results, for what
//! descriptors are called and for what is still open. Used by `result`, and by `calls::descriptors::effect`.
//!
//! ```text
//!   openat(…) = 5                                              the result
//!   pipe2([5, 6], 0) = 0                                       in memory, where an argument points
//!   recvmsg(3, {…, msg_control=[{…SCM_RIGHTS, [5, 6]}]}) = 1   beside a message
//!   clone3({flags=CLONE_PIDFD…} => {pidfd=[5]}, 88) = 4242     where a struct points
//!   ioctl(3, DMA_HEAP_IOCTL_ALLOC, {fd=5, …}) = 0              within a struct, by the command (conf/opened.conf)
//! ```
//!
//! Not in it is what opens a descriptor in another process (`SECCOMP_IOCTL_NOTIF_ADDFD`), rings of io_uring, whose requests are no
//! calls, and the events that `read` gives of fanotify.

use crate::layout;
use prototypes::show::Memory;

/// Where a call that has returned has put the numbers of the descriptors that it opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is its result.
    Result,
    /// Two numbers lie where the argument with this index points (from 0).
    Pair(usize),
    /// A number lies so many bytes behind where the argument with this index points.
    At(usize, u32),
    /// `clone`: that of its child, where `parent_tid` points.
    Child,
    /// `clone3`: that of its child, where a member of its struct points.
    ChildInStruct,
    /// `recvmsg`: beside the message.
    Message,
    /// `recvmmsg`: beside its messages.
    Messages,
}

/// Names of system calls whose result is a new descriptor, whatever their arguments are.
const ALWAYS: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "open_by_handle_at",
    "creat",
    "memfd_create",
    "memfd_secret",
    "socket",
    "accept",
    "accept4",
    "dup",
    "eventfd",
    "eventfd2",
    "epoll_create",
    "epoll_create1",
    "timerfd_create",
    "inotify_init",
    "inotify_init1",
    "fanotify_init",
    "pidfd_open",
    "pidfd_getfd",
    "io_uring_setup",
    "userfaultfd",
    "perf_event_open",
    "mq_open",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fspick",
    "fsmount",
];

/// Names of system calls that open descriptors by some of their commands or flags, or put their numbers into memory.
const BY_ARGUMENTS: &[&str] = &[
    "pipe",
    "pipe2",
    "socketpair",
    "dup2",
    "dup3",
    "fcntl",
    "signalfd",
    "signalfd4",
    "bpf",
    "landlock_create_ruleset",
    "seccomp",
    "ioctl",
    "getsockopt",
    "clone",
    "clone3",
    "recvmsg",
    "recvmmsg",
];

/// Commands of `bpf` whose result is a new descriptor (`enum bpf_cmd`, include/uapi/linux/bpf.h): `MAP_CREATE`, `PROG_LOAD`, `OBJ_GET`,
/// `PROG_GET_FD_BY_ID`, `MAP_GET_FD_BY_ID`, `RAW_TRACEPOINT_OPEN`, `BTF_LOAD`, `BTF_GET_FD_BY_ID`, `LINK_CREATE`, `LINK_GET_FD_BY_ID`,
/// `ENABLE_STATS`, `ITER_CREATE`, `TOKEN_CREATE`.
const OF_BPF: [u32; 13] = [0, 5, 7, 13, 14, 17, 18, 19, 28, 30, 32, 33, 36];

/// `CLONE_PIDFD` (include/uapi/linux/sched.h).
const PIDFD: u64 = 0x1000;
/// `SOL_SOCKET` and `SO_PEERPIDFD` (include/uapi/asm-generic/socket.h).
const PEER: (u32, u32) = (1, 77);
/// `SECCOMP_SET_MODE_FILTER`, and the bit of `SECCOMP_FILTER_FLAG_NEW_LISTENER` (include/uapi/linux/seccomp.h).
const FILTER: (u32, u64) = (1, 8);
/// `F_DUPFD` and `F_DUPFD_CLOEXEC` (include/uapi/linux/fcntl.h).
const DUPLICATING: [u32; 2] = [0, 1030];

/// Messages of one `recvmmsg` that are looked at (`UIO_MAXIOV` in include/uapi/linux/uio.h: the kernel takes no more).
const MOST_MESSAGES: u64 = 1024;
/// Bytes of what lies beside a message that are looked at: more than the kernel gives.
const MOST_BESIDE: u64 = 20 << 10;
/// Descriptors of one message (`SCM_MAX_FD` in include/net/scm.h), and the one of `SCM_PIDFD`.
const MOST_OF_MESSAGE: usize = 254;

/// The names of all system calls that may open descriptors.
pub fn opening() -> impl Iterator<Item = &'static str> {
    ALWAYS.iter().chain(BY_ARGUMENTS).copied()
}

impl Opened {
    /// Where a call with this name and these arguments puts what it opens; `None` if it opens nothing.
    #[must_use]
    pub fn of(name: &str, arguments: &[u64; 6]) -> Option<Opened> {
        let word = |at: usize| arguments[at] as u32;
        let is_opening = match name {
            "pipe" | "pipe2" => return Some(Opened::Pair(0)),
            "socketpair" => return Some(Opened::Pair(3)),
            "recvmsg" => return Some(Opened::Message),
            "recvmmsg" => return Some(Opened::Messages),
            "clone" => return (arguments[0] & PIDFD != 0).then_some(Opened::Child),
            // Whether it is asked for stands in the struct.
            "clone3" => return Some(Opened::ChildInStruct),
            "getsockopt" => {
                return ((word(1), word(2)) == PEER).then_some(Opened::At(3, 0));
            }
            "ioctl" => return of_command(word(1)),
            // With an old one it changes what that is.
            "signalfd" | "signalfd4" => (word(0) as i32) < 0,
            "dup2" | "dup3" => word(0) != word(1),
            "fcntl" => DUPLICATING.contains(&word(1)),
            // It asks for the version.
            "landlock_create_ruleset" => word(2) == 0,
            "bpf" => OF_BPF.contains(&word(0)),
            "seccomp" => word(0) == FILTER.0 && arguments[1] & FILTER.1 != 0,
            name => ALWAYS.contains(&name),
        };
        is_opening.then_some(Opened::Result)
    }

    /// The address at which the numbers lie, or from which on they are found; `before` is the memory as it was at the call.
    pub fn address(self, arguments: &[u64; 6], before: &dyn Memory) -> u64 {
        match self {
            Opened::Result => 0,
            Opened::Pair(argument) => arguments[argument],
            Opened::At(argument, offset) => arguments[argument].wrapping_add(offset.into()),
            Opened::Child => arguments[2],
            Opened::ChildInStruct => {
                let [flags, pidfd] =
                    [0, 8].map(|offset| word(before, arguments[0].wrapping_add(offset)));
                let asked = flags.is_some_and(|flags| flags & PIDFD != 0);
                pidfd.filter(|_| asked).unwrap_or_default()
            }
            Opened::Message | Opened::Messages => arguments[1],
        }
    }

    /// The descriptors that a call has opened that returned without an error; `after` is the memory as it was then.
    pub fn numbers(self, address: u64, after: &dyn Memory, result: u64) -> Vec<i32> {
        let number = |offset: u64| half(after, address.wrapping_add(offset)).map(u32::cast_signed);
        let mut numbers = Vec::new();
        match self {
            Opened::Result => numbers.push(result as i32),
            Opened::Pair(_) => {
                if let (Some(first), Some(second)) = (number(0), number(4)) {
                    numbers.extend([first, second]);
                }
            }
            Opened::At(..) => numbers.extend(number(0)),
            // In the child, which has none, the result is 0.
            Opened::Child | Opened::ChildInStruct if result == 0 || address == 0 => {}
            Opened::Child | Opened::ChildInStruct => numbers.extend(number(0)),
            Opened::Message => beside(after, address, &mut numbers),
            Opened::Messages => {
                const SIZE: u64 = 64;
                for index in 0..result.min(MOST_MESSAGES) {
                    beside(after, address.wrapping_add(index * SIZE), &mut numbers);
                }
            }
        }
        numbers.retain(|number| *number >= 0);
        if matches!(self, Opened::Messages) {
            // The kernel gives no number twice in one call; what a hostile program has in its memory may.
            numbers.sort_unstable();
            numbers.dedup();
        }
        numbers
    }
}

/// Where a command of `ioctl` puts what it opens.
fn of_command(command: u32) -> Option<Opened> {
    layout::prepare();
    Some(match layout::tables().ioctls().opened.get(&command)? {
        None => Opened::Result,
        Some(offset) => Opened::At(2, *offset),
    })
}

fn word(memory: &dyn Memory, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let known = memory.read(at, &mut bytes);
    known.then(|| u64::from_le_bytes(bytes))
}

fn half(memory: &dyn Memory, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    let known = memory.read(at, &mut bytes);
    known.then(|| u32::from_le_bytes(bytes))
}

/// Adds the descriptors beside a message: those that its sender gave (`SCM_RIGHTS`) and that of its sender (`SCM_PIDFD`). `message` is the
/// address of a `struct msghdr` (include/linux/socket.h), whose `msg_controllen` says after the call how much there is.
fn beside(memory: &dyn Memory, message: u64, numbers: &mut Vec<i32>) {
    const HEAD: u64 = 16;
    const SOCKET: u32 = 1;
    const RIGHTS: u32 = 1;
    const SENDER: u32 = 4;
    let [control, length] = [32, 40].map(|offset| word(memory, message.wrapping_add(offset)));
    let (Some(control), Some(length)) = (control, length) else {
        return;
    };
    let end = length.min(MOST_BESIDE);
    let most = numbers.len() + MOST_OF_MESSAGE;
    let mut at = 0;
    while at + HEAD <= end {
        let here = control.wrapping_add(at);
        let (Some(said), Some(level), Some(kind)) = (
            word(memory, here),
            half(memory, here.wrapping_add(8)),
            half(memory, here.wrapping_add(12)),
        ) else {
            return;
        };
        let there = said.min(end - at);
        if level == SOCKET && matches!(kind, RIGHTS | SENDER) {
            let offsets = (HEAD..there.saturating_sub(3)).step_by(4);
            let found = offsets.map_while(|offset| half(memory, here.wrapping_add(offset)));
            let room = most.saturating_sub(numbers.len());
            numbers.extend(found.take(room).map(u32::cast_signed));
        }
        // CMSG_ALIGN; a length below that of its head would never end.
        at += there.max(HEAD).next_multiple_of(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prototypes::bundle::Bundle;
    use prototypes::show::Captures;

    /// A call that is new has a descriptor as its result by its prototype, and must be in the list.
    #[test]
    fn every_call_that_returns_a_descriptor_is_in_the_list() {
        for (_, name) in prototypes::bundle::system_calls() {
            let prototype = Bundle::prototype("SYS", name);
            let gives = prototype.is_some_and(|of| of.returns.alias() == Some("fd"));
            assert!(!gives || opening().any(|known| known == name), "{name}");
        }
    }

    fn message(control: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; 56];
        bytes[32..40].copy_from_slice(&control.to_le_bytes());
        bytes[40..48].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn control(length: u64, level: u32, kind: u32, data: &[i32]) -> Vec<u8> {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(level.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        data.iter()
            .for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn of_message(length: Option<u64>, controls: &[Vec<u8>]) -> Vec<i32> {
        let controls = controls.concat();
        let mut after = Captures::new();
        let length = length.unwrap_or(controls.len() as u64);
        after.add(0x1000, &message(0x2000, length));
        after.add(0x2000, &controls);
        let opened = Opened::of("recvmsg", &[3, 0x1000, 0, 0, 0, 0]).expect("it may");
        opened.numbers(0x1000, &after, 1)
    }

    #[test]
    fn what_a_message_brings_is_opened() {
        let credentials = control(28, 1, 2, &[7, 0, 0]);
        let rights = control(28, 1, 1, &[5, 6, 8]);
        let sender = control(20, 1, 4, &[9]);
        assert_eq!(
            of_message(None, &[credentials, rights, sender]),
            [5, 6, 8, 9]
        );
        // A packet's time to live is no descriptor.
        assert_eq!(of_message(None, &[control(20, 0, 1, &[5])]), []);
    }

    /// What a guest writes beside a message is any bytes.
    #[test]
    fn lengths_of_a_message_are_believed_within_bounds() {
        // As long as it says, and no longer than all of it; none of a head that ends within itself.
        let long = control(u64::MAX, 1, 1, &[5, 6]);
        assert_eq!(of_message(None, std::slice::from_ref(&long)), [5, 6]);
        assert_eq!(of_message(Some(u64::MAX), &[long]), [5, 6]);
        let short = control(0, 1, 1, &[]);
        assert_eq!(of_message(None, &[short, control(20, 1, 1, &[5])]), [5]);
        assert_eq!(of_message(Some(15), &[control(20, 1, 1, &[5])]), []);
        // A descriptor that the kernel could not make is -1.
        assert_eq!(of_message(None, &[control(24, 1, 1, &[-1, 5])]), [5]);
        let many: Vec<i32> = (0..4000).collect();
        let all = of_message(None, &[control(16 + 16_000, 1, 1, &many)]);
        assert_eq!(all.len(), MOST_OF_MESSAGE);
    }

    #[test]
    fn a_child_has_a_descriptor_where_it_was_asked_for() {
        let arguments = [0x1000, 88, 0, 0, 0, 0];
        for (flags, result, expected) in
            [(0x1000, 4242, &[5][..]), (0x1000, 0, &[]), (0, 4242, &[])]
        {
            let mut before = Captures::new();
            before.add(
                0x1000,
                &[u64::to_le_bytes(flags), 0x2000_u64.to_le_bytes()].concat(),
            );
            let mut after = Captures::new();
            after.add(0x2000, &5_u32.to_le_bytes());
            let opened = Opened::of("clone3", &arguments).expect("it may");
            let address = opened.address(&arguments, &before);
            assert_eq!(opened.numbers(address, &after, result), expected);
        }
        // An address is any number.
        let opened = Opened::of("clone3", &[u64::MAX; 6]).expect("it may");
        assert_eq!(opened.address(&[u64::MAX; 6], &Captures::new()), 0);
        assert_eq!(Opened::of("clone", &[0x11, 0, 0, 0, 0, 0]), None);
        let clone = Opened::of("clone", &[0x1011, 0, 0x2000, 0, 0, 0]);
        assert_eq!(clone, Some(Opened::Child));
    }

    #[test]
    fn commands_say_where_the_descriptor_is() {
        let of = |command: u64| Opened::of("ioctl", &[3, command, 0x1000, 0, 0, 0]);
        // TIOCGPTPEER, DMA_HEAP_IOCTL_ALLOC, TCGETS.
        assert_eq!(of(0x5441), Some(Opened::Result));
        assert_eq!(of(0xc018_4800), Some(Opened::At(2, 8)));
        assert_eq!(of(0x5401), None);
        // Within the struct whose size the command names, as far as it names one.
        for (command, place) in &layout::tables().ioctls().opened {
            let size = command >> 16 & 0x3fff;
            let fits = place.is_none_or(|offset| offset + 4 <= size);
            assert!(fits, "{command:#x}");
        }
    }
}
