//! Text of what drivers, netlink and calls with rows in `conf/` exchange with the kernel. Expected text is strace's.

use prototypes::bundle::Bundle;
use prototypes::show::Captures;
use syscalls::{Constants, Hex, Netlink, Part, RawCall, Style};

const AT: u64 = 0x1000;
const EBADF: u64 = -9_i64 as u64;
const EFAULT: u64 = -14_i64 as u64;

/// What is known of a call: its name, its arguments, what lay at [`AT`] before and after, its result.
struct Made<'a> {
    name: &'a str,
    arguments: [u64; 6],
    before: &'a [u8],
    after: &'a [u8],
    result: u64,
}

/// Stands for the protocol of its socket: 100 and more are of generic netlink.
const GENERIC_SOCKET: u64 = 100;

impl Made<'_> {
    fn shown(&self, change: impl FnOnce(&mut Style)) -> String {
        let mut style = Style {
            strings: 32,
            verbose: false,
            hex: Hex::Never,
            raw: false,
            addresses: false,
            date: None,
            constants: Constants::Names,
            whole: false,
            names: false,
        };
        change(&mut style);
        let prototype = Bundle::prototype("SYS", self.name).expect("it is in syscalls.conf");
        let (mut entry, mut exit) = (Captures::new(), Captures::new());
        entry.add(AT, self.before);
        exit.add(AT, self.after);
        let netlink = Netlink {
            protocol: &|socket| {
                Some(if socket < GENERIC_SOCKET as i32 {
                    0
                } else {
                    16
                })
            },
            family: &|number| (number == 21).then(|| "ethtool".to_owned()),
        };
        let namespaces = |child: Option<i32>, flags: u64| {
            (flags & 0x4000_0000 != 0).then(|| match child {
                Some(child) => format!("net:[{child}]"),
                None => "net:[1]".to_owned(),
            })
        };
        let call = RawCall {
            name: self.name,
            prototype: &prototype,
            arguments: &self.arguments,
            entry: &entry,
            returned: Some((&exit, self.result)),
            descriptors: None,
            processes: None,
            netlink: Some(netlink),
            namespaces: Some(&namespaces),
        };
        let mut text = Vec::new();
        style.arguments(&call, Part::Entry, &mut text);
        style.arguments(&call, Part::Exit, &mut text);
        text.extend_from_slice(b" = ");
        style.result(&call, &mut text);
        String::from_utf8(text).expect("it is ASCII")
    }
}

fn ioctl(command: u64, argument: u64, before: &[u8], after: &[u8], result: u64) -> String {
    let made = Made {
        name: "ioctl",
        arguments: [3, command, argument, 0, 0, 0],
        before,
        after,
        result,
    };
    made.shown(|_| {})
}

#[test]
fn commands_of_ioctl_say_what_their_arguments_are() {
    const FSGETXATTR: u64 = 0x801c_581f;
    let attributes: Vec<u8> = [8_u32, 4096, 3, 7, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .chain([0; 8])
        .collect();
    assert_eq!(
        ioctl(FSGETXATTR, AT, b"", &attributes, 0),
        "3, FS_IOC_FSGETXATTR, {fsx_xflags=FS_XFLAG_IMMUTABLE, fsx_extsize=4096, fsx_nextents=3, fsx_projid=0x7, fsx_cowextsize=0} = 0"
    );
    // Nothing was written, or less than a struct.
    let address = "3, FS_IOC_FSGETXATTR, 0x1000 = -1 EBADF (Bad file descriptor)";
    assert_eq!(ioctl(FSGETXATTR, AT, &attributes, b"", EBADF), address);
    let part = ioctl(FSGETXATTR, AT, b"", &attributes[..20], 0);
    assert_eq!(part, "3, FS_IOC_FSGETXATTR, 0x1000 = 0");
    assert_eq!(ioctl(0xc004_5877, 0, b"", b"", 0), "3, FIFREEZE = 0");
    assert_eq!(
        ioctl(0x5404, AT, &[0; 36], b"", EBADF),
        "3, SNDCTL_TMR_CONTINUE or TCSETSF, {c_iflag=0, c_oflag=NL0|CR0|TAB0|BS0|VT0|FF0|0, c_cflag=B0|CS5|0, c_lflag=0, ...} = -1 EBADF (Bad file descriptor)"
    );
    assert_eq!(
        ioctl(0x4b30, 440 << 1, b"", b"", EBADF),
        "3, KDMKTONE, 880 /* off */ = -1 EBADF (Bad file descriptor)"
    );
    assert_eq!(
        ioctl(0x8044_45aa, 1, b"", b"", EBADF),
        "3, _IOC(_IOC_READ, 0x45, 0xaa, 0x44), 0x1 = -1 EBADF (Bad file descriptor)"
    );
}

#[test]
fn what_is_written_stands_behind_what_was_read() {
    // struct v4l2_control
    let control = |value: i32| {
        let mut bytes = 0x98_0900_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes
    };
    const GET: u64 = 0xc008_561b;
    const SET: u64 = 0xc008_561c;
    let get = ioctl(GET, AT, &control(0), &control(7), 0);
    assert_eq!(
        get,
        "3, VIDIOC_G_CTRL, {id=V4L2_CID_BRIGHTNESS, value=7} = 0"
    );
    let get = ioctl(GET, AT, &control(0), b"", EBADF);
    assert_eq!(
        get,
        "3, VIDIOC_G_CTRL, {id=V4L2_CID_BRIGHTNESS} = -1 EBADF (Bad file descriptor)"
    );
    let set = ioctl(SET, AT, &control(5), &control(6), 0);
    assert_eq!(
        set,
        "3, VIDIOC_S_CTRL, {id=V4L2_CID_BRIGHTNESS, value=5 => 6} = 0"
    );
    // EVIOCGKEY: bits, as many bytes as were returned.
    assert_eq!(
        ioctl(0x8008_4518, AT, b"", &[2, 0, 0, 0, 0, 0, 0, 0x80], 8),
        "3, EVIOCGKEY(8), [KEY_ESC KEY_F5] = 8"
    );
}

/// A message of routing about addresses.
fn message(attributes: &[u8]) -> Vec<u8> {
    let length = 24 + attributes.len() as u32;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[20, 0, 1, 6, 9, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[2, 24, 0x80, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(attributes);
    bytes
}

fn sent(bytes: &[u8], length: u64, result: u64) -> String {
    let made = Made {
        name: "sendto",
        arguments: [3, AT, length, 0, 0, 0],
        before: bytes,
        after: b"",
        result,
    };
    made.shown(|_| {})
}

#[test]
fn messages_to_netlink_are_written_with_their_attributes() {
    const HEADERS: &str = "3, [{nlmsg_len=32, nlmsg_type=RTM_NEWADDR, nlmsg_flags=NLM_F_REQUEST|NLM_F_EXCL|NLM_F_CREATE, \
        nlmsg_seq=9, nlmsg_pid=0}, {ifa_family=AF_INET, ifa_prefixlen=24, ifa_flags=IFA_F_PERMANENT, ifa_scope=RT_SCOPE_UNIVERSE, \
        ifa_index=0}, ";
    let bytes = message(&[8, 0, 2, 0, 127, 0, 0, 1]);
    let expected =
        "[{nla_len=8, nla_type=IFA_LOCAL}, inet_addr(\"127.0.0.1\")]], 32, 0, NULL, 0 = 32";
    assert_eq!(sent(&bytes, 32, 32), format!("{HEADERS}{expected}"));
    // Memory ends within the address; and an attribute that says it is longer than the message.
    let expected =
        "[{nla_len=8, nla_type=IFA_LOCAL}, 0x101c]], 32, 0, NULL, 0 = -1 EFAULT (Bad address)";
    assert_eq!(
        sent(&bytes[..30], 32, EFAULT),
        format!("{HEADERS}{expected}")
    );
    let bytes = message(&[255, 255, 2, 0, 127, 0, 0, 1]);
    let expected =
        "[{nla_len=65535, nla_type=IFA_LOCAL}, inet_addr(\"127.0.0.1\")]], 32, 0, NULL, 0 = 32";
    assert_eq!(sent(&bytes, 32, 32), format!("{HEADERS}{expected}"));
    // Of a message with no length of its own no other one follows.
    let mut bytes = vec![0; 16];
    bytes.extend_from_slice(b"rest");
    assert_eq!(
        sent(&bytes, 20, 20),
        "3, {nlmsg_len=0, nlmsg_type=0 /* NLMSG_??? */, nlmsg_flags=0, nlmsg_seq=0, nlmsg_pid=0}, 20, 0, NULL, 0 = 20"
    );
}

/// A message with this header behind its length, and what follows.
fn whole(kind: u16, flags: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + rest.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(rest);
    bytes
}

/// `recvmsg` of a socket into one buffer, which lies behind the `struct msghdr` and the `struct iovec` at [`AT`].
fn received(socket: u64, bytes: &[u8], room: u64) -> String {
    let words = [0, 0, AT + 56, 1, 0, 0, 0, AT + 72, room];
    let mut after: Vec<u8> = words
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect();
    after.extend_from_slice(bytes);
    let made = Made {
        name: "recvmsg",
        arguments: [socket, AT, 0, 0, 0, 0],
        before: &after,
        after: &after,
        result: bytes.len() as u64,
    };
    made.shown(|_| {})
}

#[test]
fn messages_that_come_are_written_as_those_that_are_sent() {
    let bytes = message(&[8, 0, 2, 0, 127, 0, 0, 1]);
    let head = "3, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=";
    let end = ", iov_len=4096}], msg_iovlen=1, msg_controllen=0, msg_flags=0}, 0 = ";
    let text = sent(&bytes, 32, 32);
    let text = text
        .strip_prefix("3, ")
        .and_then(|text| text.strip_suffix(", 32, 0, NULL, 0 = 32"));
    let text = text.expect("arguments around it");
    assert_eq!(received(3, &bytes, 4096), format!("{head}{text}{end}32"));
    // Two of them, of which the second is cut off by the room that was offered.
    let two = [bytes.clone(), bytes[..16].to_vec()].concat();
    let shown = received(3, &two, 4096);
    assert!(
        shown.contains(&format!(
            "iov_base=[{text}, {{nlmsg_len=32, nlmsg_type=RTM_NEWADDR"
        )),
        "{shown}"
    );
    let made = Made {
        name: "recvfrom",
        arguments: [3, AT, 4096, 0, 0, 0],
        before: b"",
        after: &bytes,
        result: 32,
    };
    assert_eq!(
        made.shown(|_| {}),
        format!("3, {text}, 4096, 0, NULL, NULL = 32")
    );
}

#[test]
fn messages_of_generic_netlink_are_named_by_their_families() {
    // `CTRL_CMD_GETFAMILY` of ethtool, as it is asked and answered.
    let name = [12, 0, 2, 0, b'e', b't', b'h', b't', b'o', b'o', b'l', 0];
    let asked = whole(16, 0x301, &[&[3, 1, 0, 0][..], &name].concat());
    let made = Made {
        name: "sendto",
        arguments: [GENERIC_SOCKET, AT, 32, 0, 0, 0],
        before: &asked,
        after: b"",
        result: 32,
    };
    assert_eq!(
        made.shown(|_| {}),
        "100, [{nlmsg_len=32, nlmsg_type=nlctrl, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP, nlmsg_seq=0, nlmsg_pid=0}, \
         {cmd=CTRL_CMD_GETFAMILY, version=1}, [{nla_len=12, nla_type=CTRL_ATTR_FAMILY_NAME}, \"ethtool\"]], 32, 0, NULL, 0 = 32"
    );
    let operation = [
        &[24, 0, 6, 0, 20, 0, 1, 0][..],
        &[8, 0, 1, 0, 2, 0, 0, 0],
        &[8, 0, 2, 0, 0x0a, 0, 0, 0],
    ];
    let answer = [
        &[1, 2, 0, 0][..],
        &name,
        &[6, 0, 1, 0, 21, 0, 0, 0],
        &operation.concat(),
    ];
    let shown = received(GENERIC_SOCKET, &whole(16, 2, &answer.concat()), 8192);
    let expected = "{cmd=CTRL_CMD_NEWFAMILY, version=2}, [[{nla_len=12, nla_type=CTRL_ATTR_FAMILY_NAME}, \"ethtool\"], \
         [{nla_len=6, nla_type=CTRL_ATTR_FAMILY_ID}, 0x15], \
         [{nla_len=24, nla_type=CTRL_ATTR_OPS}, [{nla_len=20, nla_type=0x1}, \
         [[{nla_len=8, nla_type=CTRL_ATTR_OP_ID}, ETHTOOL_MSG_LINKINFO_GET_REPLY], \
         [{nla_len=8, nla_type=CTRL_ATTR_OP_FLAGS}, GENL_CMD_CAP_DO|GENL_CMD_CAP_HASPOL]]]]]";
    assert!(shown.contains(expected), "{shown}");
    // A command of ethtool, with the device that it is about.
    let header = [16, 0, 1, 0x80, 7, 0, 2, 0, b'l', b'o', 0, 0, 4, 0, 9, 0];
    let shown = received(
        GENERIC_SOCKET,
        &whole(21, 0, &[&[4, 1, 0, 0][..], &header].concat()),
        8192,
    );
    let expected = "nlmsg_type=ethtool, nlmsg_flags=0, nlmsg_seq=0, nlmsg_pid=0}, {cmd=ETHTOOL_MSG_LINKMODES_GET_REPLY, version=1}, \
         [{nla_len=16, nla_type=NLA_F_NESTED|ETHTOOL_A_LINKMODES_HEADER}, [[{nla_len=7, nla_type=ETHTOOL_A_HEADER_DEV_NAME}, \"lo\"], \
         {nla_len=4, nla_type=0x9 /* ETHTOOL_A_HEADER_??? */}]]";
    assert!(shown.contains(expected), "{shown}");
    // An error tells the request back, which was sent.
    let told = [&[0xa1, 0xff, 0xff, 0xff][..], &whole(21, 5, &[4, 1, 0, 0])].concat();
    let shown = received(GENERIC_SOCKET, &whole(2, 0, &told), 8192);
    assert!(
        shown.contains("{cmd=ETHTOOL_MSG_LINKMODES_GET, version=1}"),
        "{shown}"
    );
    // Families that nobody knows, and messages that are cut.
    let shown = received(
        GENERIC_SOCKET,
        &whole(99, 0, &[1, 1, 7, 0, 4, 0, 1, 0]),
        8192,
    );
    assert!(
        shown.contains("nlmsg_type=0x63 /* GENERIC_FAMILY_??? */, nlmsg_flags=0, nlmsg_seq=0, nlmsg_pid=0}, {cmd=0x1, version=1, reserved=0x7}, {nla_len=4, nla_type=0x1}]"),
        "{shown}"
    );
    let shown = received(GENERIC_SOCKET, &whole(16, 0, &[1]), 8192);
    assert!(shown.contains("nlmsg_pid=0}, \"\\x01\"]"), "{shown}");
}

#[test]
fn results_say_which_namespaces_were_entered() {
    let result = |name, arguments, result| {
        let made = Made {
            name,
            arguments,
            before: &0x4000_0000_u64.to_le_bytes(),
            after: b"",
            result,
        };
        let shown = made.shown(|_| {});
        shown.split(" = ").last().expect("a result").to_owned()
    };
    assert_eq!(
        result("unshare", [0x4000_0000, 0, 0, 0, 0, 0], 0),
        "0 (net:[1])"
    );
    assert_eq!(
        result("setns", [3, 0x4000_0000, 0, 0, 0, 0], 0),
        "0 (net:[1])"
    );
    assert_eq!(result("setns", [3, 0, 0, 0, 0, 0], 0), "0");
    assert_eq!(
        result("clone", [0x4000_0011, 0, 0, 0, 0, 0], 71),
        "71 (net:[71])"
    );
    assert_eq!(result("clone3", [AT, 88, 0, 0, 0, 0], 71), "71 (net:[71])");
    assert_eq!(
        result("unshare", [0x4000_0000, 0, 0, 0, 0, 0], EBADF),
        "-1 EBADF (Bad file descriptor)"
    );
}

#[test]
fn attributes_that_hold_each_other_without_end_are_written_as_bytes() {
    // MDBA_MDB in MDBA_MDB_ENTRY in …: deeper than any family has them.
    let mut bytes = Vec::new();
    for depth in 0..40_u16 {
        bytes.extend_from_slice(&(160 - 4 * depth).to_le_bytes());
        bytes.extend_from_slice(&1_u16.to_le_bytes());
    }
    let mut whole = (24 + 160_u32).to_le_bytes().to_vec();
    whole.extend_from_slice(&[86, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
    whole.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0]);
    whole.extend_from_slice(&bytes);
    let shown = sent(&whole, 184, 184);
    assert!(shown.contains("nla_type=MDBA_MDB_ENTRY_INFO"), "{shown}");
    assert!(shown.len() < 1000, "{shown}");
}

#[test]
fn rows_say_what_other_arguments_decide() {
    let shown = |name, arguments, before: &[u8], result| {
        let made = Made {
            name,
            arguments,
            before,
            after: before,
            result,
        };
        made.shown(|_| {})
    };
    assert_eq!(
        shown("ioprio_set", [1, 7, 0x4004, 0, 0, 0], b"", 0),
        "IOPRIO_WHO_PROCESS, 7, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4) = 0"
    );
    assert_eq!(
        shown("ioprio_get", [1, 7, 0, 0, 0, 0], b"", 0x4004),
        "IOPRIO_WHO_PROCESS, 7 = 16388 (IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4))"
    );
    assert_eq!(
        shown(
            "quotactl",
            [0x8000_0701, AT, 1000, 0, 0, 0],
            b"/dev/sda\0",
            EBADF
        ),
        "QCMD(Q_GETQUOTA, GRPQUOTA), \"/dev/sda\", 1000, NULL = -1 EBADF (Bad file descriptor)"
    );
    assert_eq!(
        shown(
            "quotactl",
            [0x8000_0300, AT, 1000, 0, 0, 0],
            b"/dev/sda\0",
            0
        ),
        "QCMD(Q_QUOTAOFF, USRQUOTA), \"/dev/sda\" = 0"
    );
    assert_eq!(
        shown("mbind", [AT, 4096, 0x8002, 0, 0, 1], b"", 0),
        "0x1000, 4096, MPOL_BIND|MPOL_F_STATIC_NODES, NULL, 0, MPOL_MF_STRICT = 0"
    );
    assert_eq!(
        shown("msgget", [0, 0o1600, 0, 0, 0, 0], b"", 5),
        "IPC_PRIVATE, IPC_CREAT|0600 = 5"
    );
    assert_eq!(
        shown("seccomp", [u32::MAX.into(), 0, 0, 0, 0, 0], b"", EBADF),
        "0xffffffff /* SECCOMP_SET_MODE_??? */, 0, NULL = -1 EBADF (Bad file descriptor)"
    );
    // A result that was injected is told whole, though it is no descriptor.
    let made = shown(
        "bpf",
        [0, AT, 4, 0, 0, 0],
        b"\0\0\0\0",
        0xbad_c0de_1e55_beef,
    );
    assert!(made.ends_with(" = 841540765612359407"), "{made}");
}
