//! Interrupts and processes are moved and put back, on this machine.

use std::process::{Child, Command};

use tune::interrupts::{self, affinity_file};
use tune::setting::Setting;
use tune::tree::Tree;

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_online(tree: &Tree) -> String {
    let online = tree.read("/sys/devices/system/cpu/online").unwrap();
    let first = *tune::cpus::list(&online).unwrap().first().unwrap();
    first.to_string()
}

#[test]
fn a_process_is_moved_and_put_back() {
    let tree = Tree::live();
    let sleeper = Sleeper(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = sleeper.0.id() as i32;
    let started = tune::guest::started(&tree, pid).unwrap();
    let setting = Setting::Affinity { pid, started };
    let before = setting.read(&tree).unwrap();
    let cpu = first_online(&tree);
    setting.write(&tree, &cpu).unwrap();
    assert_eq!(setting.read(&tree).unwrap(), cpu);
    setting.write(&tree, &before).unwrap();
    assert_eq!(setting.read(&tree).unwrap(), before);
    // Another process of the same number is not meant.
    let other = Setting::Affinity {
        pid,
        started: started + 1,
    };
    assert!(other.write(&tree, &cpu).unwrap_err().is_missing());
}

#[test]
fn an_interrupt_is_moved_and_put_back() {
    let tree = Tree::live();
    // The quietest one that can be moved at all.
    let mut all: Vec<(u64, u32)> = interrupts::read(&tree)
        .unwrap()
        .into_iter()
        .map(|(number, interrupt)| (interrupt.count, number))
        .collect();
    all.sort_unstable();
    let cpu = first_online(&tree);
    for (_, number) in all {
        let setting = Setting::file(affinity_file(number));
        let Ok(before) = setting.read(&tree) else {
            continue;
        };
        if setting.write(&tree, &cpu).is_err() {
            continue;
        }
        let during = setting.read(&tree).unwrap();
        setting.write(&tree, &before).unwrap();
        assert!(setting.same(&during, &cpu), "{number}: {during}");
        assert_eq!(setting.read(&tree).unwrap(), before);
        return;
    }
    println!(
        "SKIPPED an_interrupt_is_moved_and_put_back: no interrupt can be moved here (it takes root)"
    );
}
