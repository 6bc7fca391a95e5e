//! The returns of `vfork`: a frame of ours would be gone when the parent returns, so a probe behind its system call tells
//! of both (`trampoline::vfork`).

use super::own::own;
use super::{PROBE, Tracing, Wanted};
use crate::functions::Function;
use trampoline::vfork;
use wire::calls::want;

/// Bytes that are looked through for its system call.
const REACH: usize = 32;

impl Tracing {
    /// The same, with the probe for those whose returns are wanted.
    pub(super) fn with_returns(&mut self, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
        let ending = wanted
            .iter()
            .filter(|wanted| wanted.want & want::RETURN != 0 && wanted.function.returns_at_probe());
        let probes: Vec<Wanted> = ending.filter_map(|wanted| self.probe(wanted)).collect();
        for probe in &probes {
            self.own.insert(probe.function.address, want::BACK);
        }
        wanted.extend(probes);
        wanted
    }

    fn probe(&self, wanted: &Wanted) -> Option<Wanted> {
        let function = &wanted.function;
        let mut code = [0; REACH];
        self.memory.read_bytes(function.address, &mut code).ok()?;
        let address = vfork::goes_on(&code, function.address)?;
        if self.own.contains_key(&address) {
            return None;
        }
        let site = Function {
            address,
            size: 0,
            ..function.clone()
        };
        Some(Wanted {
            probe: Some(0),
            ..own(site, PROBE, want::BACK)
        })
    }
}
