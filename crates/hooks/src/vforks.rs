//! Probes that report the returns of `vfork`. The child, which returns on the same stack before its parent does,
//! would overwrite a frame of ours, so a probe behind the system call reports both returns (`trampoline::vfork`). Used
//! by `patcher`.

use crate::patcher::Patcher;
use crate::policy;
use crate::target::Target;
use crate::wanted::{PROBE, Wanted};
use process::functions::Function;
use std::collections::HashSet;
use trampoline::vfork;
use wire::calls::want;

/// Bytes of the function in which its system call is looked for.
const REACH: usize = 32;

impl Patcher {
    /// Returns `wanted`, with a probe for each function whose returns are wanted.
    pub(crate) fn with_returns(&self, target: &Target, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
        let ending: Vec<&Wanted> = wanted
            .iter()
            .filter(|wanted| wanted.want & want::RETURN != 0)
            .filter(|wanted| policy::returns_at_probe(&wanted.function))
            .collect();
        if ending.is_empty() {
            return wanted;
        }
        let probed = self.table.set_ones();
        let probed = probed.filter(|known| known.hook.want & want::BACK != 0);
        let probed: HashSet<u64> = probed
            .filter_map(|known| Some(known.function.as_ref()?.address))
            .collect();
        let probes = ending
            .into_iter()
            .filter_map(|wanted| probe(target, wanted));
        let probes: Vec<Wanted> = probes
            .filter(|probe| !probed.contains(&probe.function.address))
            .collect();
        wanted.extend(probes);
        wanted
    }
}

fn probe(target: &Target, wanted: &Wanted) -> Option<Wanted> {
    let function = &wanted.function;
    let mut code = [0; REACH];
    let read = target.memory.read_bytes(function.address, &mut code);
    read.ok()?;
    let site = Function {
        address: vfork::goes_on(&code, function.address)?,
        size: 0,
        ..function.clone()
    };
    Some(Wanted {
        probe: Some(0),
        routine: PROBE,
        ..Wanted::own(site, want::BACK)
    })
}
