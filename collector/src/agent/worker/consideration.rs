//! Leaves the device to others when the agent's limits say so.

use std::time::Duration;

use super::Worker;
use crate::agent::limits::Hindrance;
use crate::devices::meter::NotReady;
use crate::failure::one_line;

/// How often to try to take a device that is not ready. With the pauses below, all attempts take about an hour.
const TRIES: u32 = 15;
/// The pause before the second attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How often a waiting device checks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Worker<'_> {
    /// Waits until the device may be used. `false` if the agent is to stop before that. A waiting worker holds no
    /// part of the GPU.
    pub(super) fn wait_until_allowed(&mut self) -> anyhow::Result<bool> {
        self.rest();
        let mut waits_for: Option<Hindrance> = None;
        while !self.stop.requested() {
            let cooling = waits_for.is_some_and(Hindrance::is_heat);
            let Some(hindrance) = self.hindrance(cooling) else {
                if waits_for.is_none() {
                    return Ok(true);
                }
                say!("going on");
                return self.take_again();
            };
            if waits_for.is_none_or(|before| before.doing() != hindrance.doing()) {
                tell!(Info, { "doing": hindrance.doing() }, "{hindrance}");
                self.meter.let_go();
            }
            waits_for = Some(hindrance);
            self.note(hindrance.doing());
            self.stop.sleep(LOOK_EVERY);
        }
        Ok(false)
    }

    /// Takes the device again. A reset or a driver update may keep it busy for a while. `false` if the agent is to
    /// stop before that. Failures that waiting does not mend end the attempts at once.
    fn take_again(&mut self) -> anyhow::Result<bool> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            if self.stop.requested() {
                break;
            }
            let Err(error) = self.meter.take_again(&|| self.stop.insisted()) else { return Ok(true) };
            if attempt >= TRIES || !error.is::<NotReady>() {
                return Err(error);
            }
            let (seconds, why) = (pause.as_secs(), one_line(&error));
            tell!(Warning, { "seconds": seconds }, "{why}; the device is tried again in {seconds} s");
            self.note("waiting for the device");
            self.stop.sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(false)
    }

    /// Takes the device again after a failure that may pass. Other failures are returned.
    pub(super) fn take_again_after(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        if !error.is::<NotReady>() {
            return Err(error);
        }
        tell!(Warning, {}, "the device does not answer: {}", one_line(&error));
        // If the agent is to stop, it does not matter whether the device is back.
        self.take_again().map(drop)
    }

    /// Whether the next problem may be begun. If not, the rest of the lease goes back.
    pub(super) fn may_go_on(&mut self) -> bool {
        self.rest();
        if self.stop.requested() {
            return false;
        }
        let Some(hindrance) = self.hindrance(false) else { return true };
        tell!(Info, { "doing": hindrance.doing() }, "{hindrance}; what is left of the lease goes back");
        self.gives_back = true;
        false
    }

    /// Rests after the last problem. The agent's share of the time says for how long.
    fn rest(&mut self) {
        let rest = self.limits.rest_after(std::mem::take(&mut self.worked));
        if !rest.is_zero() {
            self.note("resting");
            self.stop.sleep(rest);
        }
    }

    fn hindrance(&self, cooling: bool) -> Option<Hindrance> {
        let now = jiff::Zoned::now().time();
        self.limits.hindrance(self.meter.surroundings(), now, cooling)
    }
}
