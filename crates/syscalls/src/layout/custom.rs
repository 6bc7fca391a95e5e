//! Values that the files in `conf/` cannot describe, each with a function of its own. Used by `layout`.

mod addresses;
mod calls;
mod characters;
mod console;
mod counters;
mod disks;
mod files;
mod filters;
mod keys;
pub mod network;
mod plain;
mod processes;
mod programs;
mod rings;
mod terminal;
mod tracing;
mod video;

use super::types::{Custom, Show};
use crate::call::Constants;
use crate::forms;
use crate::types::ty;
use crate::writer::{Place, Unknown};
use prototypes::digits::decimal;

pub use plain::length;
use plain::{
    character, descriptor, error, features, key_pair, line_attribute, mode, open_mode, system_call,
    ticks, ticks32, typed, unix_time, uuid,
};

const fn custom(name: &'static str, size: u32, align: u32, show: Show) -> Custom {
    Custom {
        name,
        size,
        align,
        show,
        copied: 0,
        by_result: false,
        scalar: false,
        passed: None,
    }
}

/// One that is a number which was passed itself.
const fn passed(name: &'static str, show: Show) -> Custom {
    Custom {
        passed: Some(show),
        ..custom(name, 8, 8, |_, _, _| Err(Unknown))
    }
}

pub static CUSTOM: &[Custom] = &[
    Custom {
        passed: Some(descriptor),
        ..custom("fd", 4, 4, |w, at, _| typed(w, "fd", at))
    },
    Custom {
        passed: Some(|w, word, _| w.value(&ty("key"), Place::Word(word))),
        ..custom("key", 4, 4, |w, at, _| typed(w, "key", at))
    },
    Custom {
        copied: 64,
        ..custom("key_abilities", 1, 1, keys::abilities)
    },
    passed("pkey_input", keys::input),
    passed("pkey_second", keys::second),
    passed("pkey_output", keys::output),
    passed("errno", |w, word, _| {
        let name = crate::errors::name(word as i32);
        match name.starts_with('E') {
            true => w.known_decimal((word as i32).into(), &name),
            false => decimal(word as u32, w.out),
        }
        Ok(())
    }),
    passed("directory", |w, word, _| {
        w.value(&ty("at"), Place::Word(word))
    }),
    custom("pid", 4, 4, |w, at, _| typed(w, "pid", at)),
    custom("owner", 4, 4, |w, at, _| {
        // `struct f_owner_ex` (include/uapi/asm-generic/fcntl.h): its type stands before it.
        let kind = match w.u32_at(at.wrapping_sub(4))? {
            0 => "tid",
            1 => "pid",
            2 => "pgid",
            _ => "int",
        };
        typed(w, kind, at)
    }),
    Custom {
        scalar: true,
        passed: Some(|w, word, _| w.value(&ty("uid"), Place::Word(word))),
        ..custom("uid", 4, 4, |w, at, _| typed(w, "uid", at))
    },
    custom("mode32", 4, 4, mode),
    Custom {
        passed: Some(|w, word, _| w.value(&ty("open_flags"), Place::Word(u64::from(word as u32)))),
        ..custom("open_flags", 4, 4, |w, at, _| typed(w, "open_flags", at))
    },
    custom("open_flags64", 8, 8, |w, at, _| {
        let flags = w.u64_at(at)?;
        forms::files::write_open_flags(w, flags);
        Ok(())
    }),
    Custom {
        copied: 3072,
        by_result: true,
        ..custom("dirents", 1, 1, files::entries)
    },
    Custom {
        copied: 3072,
        by_result: true,
        ..custom("dirents64", 1, 1, files::wide_entries)
    },
    custom("socket_program", 16, 8, filters::of_socket),
    custom("seccomp_program", 16, 8, filters::of_seccomp),
    Custom {
        copied: 128,
        ..custom("perf_attributes", 64, 8, counters::attributes)
    },
    Custom {
        copied: 8 + 4 * 33,
        ..custom("perf_query", 4, 4, counters::query)
    },
    custom("file_times", 32, 8, files::times),
    custom("exact_times", 32, 8, files::exact_times),
    passed("personality", processes::personality),
    custom("capabilities", 12, 4, processes::capabilities),
    custom("bpf_link_create", 16, 8, programs::link_create),
    custom("ebpf_code", 1, 1, programs::code),
    custom("ebpf_register", 1, 1, |w, at, _| {
        programs::register(w, at, 0)
    }),
    custom("ebpf_source", 1, 1, |w, at, _| programs::register(w, at, 4)),
    custom("numa_node", 4, 4, |w, at, _| {
        let number = w.u32_at(at)?;
        decimal(number, w.out);
        // `NUMA_NO_NODE` (include/linux/numa.h), which no header for programs has.
        if number == u32::MAX && w.style.constants != Constants::Numbers {
            w.push(" /* NUMA_NO_NODE */");
        }
        Ok(())
    }),
    custom("unimap_count", 2, 2, |w, at, _| {
        let [before, now] = [w.bytes_before(at, 2), w.bytes(at, 2)];
        let [before, now] = [before, now].map(|bytes| bytes.try_into().map(u16::from_le_bytes));
        let (before, now) = (before.map_err(|_| Unknown)?, now.map_err(|_| Unknown)?);
        w.push(&format!("{before} => {now}"));
        Ok(())
    }),
    custom("net_port", 2, 2, addresses::port),
    custom("net_long", 4, 4, addresses::flow),
    custom("sin_address", 4, 4, |w, at, _| {
        network::address_member(w, "sin_addr", 2, at, 4)
    }),
    custom("sin6_address", 16, 4, |w, at, _| {
        network::address_member(w, "sin6_addr", 10, at, 16)
    }),
    custom("sin6_scope", 4, 4, addresses::scope),
    custom("packet_protocol", 2, 2, addresses::frames),
    custom("packet_address", 8, 1, addresses::hardware),
    custom("mac8", 8, 1, |w, at, _| {
        let address: [u8; 8] = w.number(at)?;
        network::hardware_bytes(w, &address, address.len());
        Ok(())
    }),
    custom("cipher_name", 0, 1, addresses::cipher),
    custom("little_short", 2, 2, addresses::little),
    custom("l2cap_service", 2, 2, |w, at, _| {
        let ranges = [
            (0x80, 0xff, "L2CAP_PSM_LE_DYN_START"),
            (0x1001, 0xffff, "L2CAP_PSM_DYN_START"),
        ];
        addresses::l2cap(w, at, "l2cap_services", &ranges)
    }),
    custom("l2cap_channel", 2, 2, |w, at, _| {
        let ranges = [(0x40, 0xffff, "L2CAP_CID_DYN_START")];
        addresses::l2cap(w, at, "l2cap_channels", &ranges)
    }),
    custom("rxrpc_transport", 28, 4, addresses::transport),
    custom("ax25_address", 14, 1, addresses::amateur),
    custom("nfc_rest", 0, 1, |w, _, _| {
        w.push("...");
        Ok(())
    }),
    passed("user_offset", tracing::user_offset),
    custom("info_call", 8, 8, tracing::number),
    custom("info_result", 8, 8, tracing::result),
    custom("ptrace_call", 1, 1, tracing::call),
    custom("ptrace_registers", 16, 8, |w, at, _| {
        tracing::registers(w, at, false)
    }),
    custom("ptrace_registers_set", 16, 8, |w, at, _| {
        tracing::registers(w, at, true)
    }),
    custom("ptrace_signals", 8, 8, tracing::signals),
    custom("seccomp_metadata", 8, 8, tracing::metadata),
    custom("uring_file", 4, 4, rings::file),
    custom("uring_offset", 4, 4, |w, at, _| {
        match w.u32_at(at)? {
            u32::MAX => w.push("-1"),
            number => decimal(number, w.out),
        }
        Ok(())
    }),
    custom("uring_restriction", 2, 2, rings::restriction),
    custom("uring_probe", 16, 4, rings::probe),
    custom("uring_processors", 1, 1, |w, at, _| {
        let length = w.call.arguments[3] as u32;
        let most = length.min(128) as usize;
        match w.bytes(at, most).len() < most {
            true => Err(Unknown),
            false => forms::processors_in(w, at, length),
        }
    }),
    custom("user_desc_asked", 4, 4, |w, at, list| {
        if w.call.error().is_none() {
            return processes::segment(w, at, list);
        }
        let number = w.u32_at(at)?;
        w.push("{entry_number=");
        processes::entry(w, number);
        w.push(", ...}");
        Ok(())
    }),
    custom("user_desc", 16, 4, processes::segment),
    passed("log_level", |w, word, _| {
        let of = super::list("log_levels");
        let number = (word as u32 as i32).to_string();
        match w.style.constants {
            Constants::Numbers => w.push(&number),
            _ => {
                let name = of.find(u64::from(word as u32)).unwrap_or(of.unknown);
                w.push(&format!("{number} /* {name} */"));
            }
        }
        Ok(())
    }),
    custom("xfeature_mask", 8, 8, calls::feature_mask),
    passed("xfeature", calls::feature),
    custom("mapped_namespace", 8, 8, calls::mapped_namespace),
    custom("open_mode", 4, 4, open_mode),
    custom("dev64", 8, 8, |w, at, _| typed(w, "dev", at)),
    custom("dev32", 4, 4, |w, at, _| typed(w, "dev_argument", at)),
    custom("version", 4, 4, video::version),
    custom("fourcc", 4, 4, video::fourcc),
    custom("fraction", 8, 4, video::fraction),
    custom("char", 1, 1, character),
    custom("inet", 4, 4, network::inet),
    custom("inet6", 16, 4, network::inet6),
    custom("in4", 4, 4, network::in4),
    custom("mac", 6, 1, network::mac),
    custom("mac32", 32, 1, network::mac32),
    custom("socket_id4", 48, 4, |w, at, _| {
        let [family] = w.number(at.wrapping_sub(4))?;
        network::socket_id(w, at, family)
    }),
    custom("socket_id8", 48, 4, |w, at, _| {
        let [family] = w.number(at.wrapping_sub(8))?;
        network::socket_id(w, at, family)
    }),
    custom("socket_id_inet", 48, 4, |w, at, _| {
        network::socket_id(w, at, 2)
    }),
    custom("md5_address", 16, 4, network::key_address),
    custom("rtnl_family", 1, 1, network::multicast_family),
    custom("multicast6", 16, 4, |w, at, _| {
        let address: [u8; 16] = w.number(at)?;
        let address = std::net::Ipv6Addr::from(address);
        w.push(&format!(
            "inet_pton(AF_INET6, \"{address}\", &ipv6mr_multiaddr)"
        ));
        Ok(())
    }),
    custom("mac_counted", 8, 1, network::counted_hardware),
    custom("sockaddr_storage", 128, 8, |w, at, _| {
        match w.bytes(at, 128).len() {
            128 => forms::address(w, at, 128),
            _ => Err(Unknown),
        }
    }),
    custom("bpf_instruction_text", 8, 4, filters::instruction),
    custom("ifindex", 4, 4, network::interface),
    custom("error", 4, 4, error),
    custom("system_call", 4, 4, system_call),
    custom("uuid", 16, 1, uuid),
    custom("sockaddr", 16, 8, |w, at, _| forms::address(w, at, 16)),
    Custom {
        scalar: true,
        ..custom("unix_time", 8, 8, unix_time)
    },
    passed("date", |w, word, _| {
        let date = w.style.date.and_then(|date| date(word.cast_signed(), 0));
        w.push(&date.ok_or(Unknown)?);
        Ok(())
    }),
    passed("ipc_flags", calls::ipc_flags),
    passed("shm_flags", calls::shm_flags),
    passed("ipc_command", calls::ipc_command),
    custom("permissions", 4, 4, |w, at, _| typed(w, "mode", at)),
    Custom {
        copied: 128,
        ..custom("sched_attributes", 4, 4, calls::sched_attributes)
    },
    Custom {
        copied: 56,
        ..custom("sched_attributes_set", 4, 4, calls::sched_attributes_set)
    },
    custom("v4l2_buffer_flags", 4, 4, video::video_buffer_flags),
    custom("v4l2_cid", 4, 4, |w, at, _| video::control(w, at, false)),
    custom("v4l2_next_cid", 4, 4, |w, at, _| {
        video::control(w, at, true)
    }),
    custom("ptp_date", 16, 8, video::clock_date),
    custom("ptp_samples", 816, 8, |w, at, _| {
        video::clock_samples(w, at, 16, 1, |n| 2 * n + 1)
    }),
    custom("ptp_triples", 1200, 8, |w, at, _| {
        video::clock_samples(w, at, 16, 3, |n| n)
    }),
    passed("sound", console::sound),
    passed("tone", console::tone),
    passed("port", console::port),
    passed("signal", console::signal),
    // Its names are in no header for programs.
    passed("syslog_action", |w, word, _| {
        let list = super::list("syslog_actions");
        let number = (word as u32 as i32).to_string();
        match (list.find(u64::from(word as u32)), w.style.constants) {
            (_, Constants::Numbers) => w.push(&number),
            (Some(name), _) => w.push(&format!("{number} /* {name} */")),
            (None, _) => w.push(&format!("{number} /* {} */", list.unknown)),
        }
        Ok(())
    }),
    passed("device_number", |w, word, _| {
        w.value(&ty("dev_argument"), Place::Word(u64::from(word as u32)))
    }),
    custom("signal_information", 128, 8, |w, at, _| {
        match w.bytes(at, 128).len() {
            128 => typed(w, "siginfo", at),
            _ => Err(Unknown),
        }
    }),
    custom("signal_event", 64, 8, calls::signal_event),
    passed("mpol_mode", calls::policy),
    custom("mpol_mode32", 4, 4, |w, at, _| {
        let mode = w.u32_at(at)?;
        w.push("[");
        calls::policy(w, mode.into(), None)?;
        w.push("]");
        Ok(())
    }),
    Custom {
        copied: 512,
        ..custom("node_mask", 8, 8, calls::node_mask)
    },
    passed("io_priority", calls::io_priority),
    custom("io_priority16", 2, 2, |w, at, _| {
        let word = w.number(at).map(u16::from_le_bytes)?;
        calls::io_priority(w, word.into(), None)
    }),
    Custom {
        copied: 128,
        ..custom("resident_pages", 1, 1, calls::resident_pages)
    },
    custom("landlock_ruleset", 8, 8, calls::ruleset),
    passed("quota_command", calls::quota_command),
    passed("kexec_flags", calls::kexec_flags),
    passed("mount_flags", calls::mount_flags),
    passed("mount_kind", |w, word, _| {
        calls::mount_text(w, word, calls::NO_KIND)
    }),
    passed("mount_data", |w, word, _| {
        calls::mount_text(w, word, calls::NO_DATA)
    }),
    passed("fanotify_flags", calls::fanotify_flags),
    passed("swap_flags", calls::swap_flags),
    custom("kd_table", 1, 1, console::table),
    custom("kd_value", 2, 2, console::value),
    custom("kd_glyph", 2, 2, console::glyph),
    custom("key_pair", 8, 4, key_pair),
    custom("gpio_v2_attribute", 16, 8, line_attribute),
    custom("uffd_features", 8, 8, features),
    custom("loop_key64", 32, 1, |w, at, _| {
        disks::key(w, at, 8 + 2 * 64, 32)
    }),
    custom("loop_key", 32, 1, |w, at, _| disks::key(w, at, 8 + 64, 32)),
    custom("hdio_sectors", 1, 1, disks::sectors),
    custom("ubi_name", 128, 1, disks::volume_name),
    custom("sg_reset", 4, 4, disks::reset),
    custom("mac14", 14, 1, network::hardware),
    custom("term_oflags", 4, 4, |w, at, _| {
        terminal::output_modes(w, at, 4)
    }),
    custom("term_oflags16", 2, 2, |w, at, _| {
        terminal::output_modes(w, at, 2)
    }),
    custom("term_cflags", 4, 4, |w, at, _| {
        terminal::control_modes(w, at, 4)
    }),
    custom("term_cflags16", 2, 2, |w, at, _| {
        terminal::control_modes(w, at, 2)
    }),
    custom("termios_characters", 19, 1, |w, at, _| {
        terminal::control_characters(w, at, 19, "termios_cc")
    }),
    custom("termio_characters", 8, 1, |w, at, _| {
        terminal::control_characters(w, at, 8, "termios_cc")
    }),
    custom("mdb_address", 20, 4, network::bridge_address),
    custom("ether", 2, 2, network::ether),
    custom("ticks", 8, 8, ticks),
    custom("ticks32", 4, 4, ticks32),
];
