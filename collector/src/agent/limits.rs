//! What an agent measures, and when: the operators and types that its devices can measure, hours, heat, other processes,
//! and its share of the time.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use diode_api::Ability;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::space::{Space, SpaceName};
use diode_core::{Alignment, Bias, DType, KernelVariant, Layout, Op, Scaling};
use jiff::civil::Time;

use crate::agent::Worker;
use crate::devices::gpu::most_operand_bytes;
use crate::devices::{NotReady, Surroundings};
use crate::failure::{Usage, one_line};
use crate::input::arguments::dtype;
use crate::kernels::{Held, Plan, hardware_of};
use crate::node::available_memory;

/// The most memory that a problem's operands may take on any GPU. Larger problems take too long.
const GPU_BYTES: u64 = 8 << 30;

/// The share of a CPU's free memory that operands may take. Other programs use the node, too.
const CPU_SHARE: f64 = 0.25;

/// What the server is told that a device can measure that needs no packs, as far as `--ops` and `--dtypes` allow it.
pub(crate) fn ability(hardware: &Hardware, allowed: &Allowed) -> Ability {
    let memory_bytes = match hardware.vendor {
        Vendor::Cpu => available_memory().map_or(1 << 30, |bytes| (bytes as f64 * CPU_SHARE) as u64),
        Vendor::Nvidia | Vendor::Amd => GPU_BYTES,
    };
    let mut ability = Ability::of(hardware, memory_bytes);
    if !allowed.ops.is_empty() {
        ability.ops.clone_from(&allowed.ops);
    }
    if !allowed.dtypes.is_empty() {
        ability.dtypes.clone_from(&allowed.dtypes);
    }
    ability
}

/// How many bytes operands may take on a GPU with this much memory.
pub(crate) fn gpu_bytes(memory_bytes: u64) -> u64 {
    most_operand_bytes(memory_bytes).min(GPU_BYTES)
}

/// What a GPU can measure with kernels for these variants, if operands may take `memory_bytes`.
pub(crate) fn ability_with(variants: Vec<KernelVariant>, memory_bytes: u64) -> Ability {
    Ability {
        ops: distinct(variants.iter().map(|variant| variant.op())),
        dtypes: distinct(variants.iter().map(|variant| variant.dtype)),
        layouts: distinct(variants.iter().map(|variant| variant.b_layout)),
        unaligned: variants.iter().any(|variant| !variant.is_aligned()),
        memory_bytes,
        variants: Some(variants),
    }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// What `--ops` and `--dtypes` let an agent measure. An empty list allows all.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What to measure")]
pub(crate) struct Allowed {
    /// Operators to measure, separated by commas [default: all that there are kernels for]
    #[arg(long, value_name = "OPS", value_delimiter = ',')]
    pub(crate) ops: Vec<Op>,

    /// Types to measure, separated by commas [default: all that there are kernels for]
    #[arg(long, value_name = "DTYPES", value_delimiter = ',', value_parser = dtype)]
    pub(crate) dtypes: Vec<DType>,
}

impl Allowed {
    /// The variants of a pack that these lists allow.
    pub(super) fn keep(&self, held: Vec<Held>) -> Vec<Held> {
        let admits = |Held { variant, .. }: &Held| {
            (self.ops.is_empty() || self.ops.contains(&variant.op()))
                && (self.dtypes.is_empty() || self.dtypes.contains(&variant.dtype))
        };
        held.into_iter().filter(admits).collect()
    }

    /// The kernels to build if there is no pack. Without limits by the user, these are only the most usual ones,
    /// because building takes minutes: mm and what models are served with, in bfloat16 and in fp8 or, on GPUs without
    /// fp8, in int8.
    pub(super) fn plan(&self, arch: &str) -> Plan {
        let usual = [Op::Mm, Op::ScaledMm, Op::GroupedMm, Op::ScaledGroupedMm, Op::FusedMoe];
        let scaled = |hardware: &Hardware| {
            let fp8_first = [DType::Float8E4M3, DType::Float8E4M3Fnuz, DType::Int8];
            fp8_first.into_iter().find(|dtype| hardware.scales(*dtype))
        };
        // Of an unknown architecture, building says which are known.
        let scaled = hardware_of(arch).ok().as_ref().and_then(scaled);
        let dtypes = || std::iter::once(DType::BFloat16).chain(scaled).collect();
        Plan {
            ops: if self.ops.is_empty() { usual.to_vec() } else { self.ops.clone() },
            dtypes: if self.dtypes.is_empty() { dtypes() } else { self.dtypes.clone() },
            layouts: vec![(Layout::Row, Layout::Row), (Layout::Row, Layout::Column)],
            alignments: vec![Alignment::Bytes16],
            biases: Bias::ALL.to_vec(),
            scalings: Scaling::ALL.to_vec(),
            ..Plan::of_space(arch, Space::Named(SpaceName::Full))
        }
    }
}

/// A GPU that was too hot must cool down by this many degrees, or it would be too hot again at once.
const COOLER_BY: u32 = 10;

/// When the agent leaves a device to other programs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Consideration")]
pub(crate) struct Limits {
    /// Measure only while no other process computes on the GPU
    #[arg(long)]
    idle_only: bool,

    /// Measure only at these hours, by the clock of this node, such as 22:00-06:00
    #[arg(long, value_name = "FROM-TO")]
    hours: Option<Hours>,

    /// Measure for this share of the time, such as 0.25, and rest after each problem
    #[arg(long, value_name = "SHARE", value_parser = share)]
    share: Option<f64>,

    /// Wait while the GPU is hotter; while heat holds its clocks down, the agent waits in any case
    #[arg(long, value_name = "DEGREES", value_parser = celsius)]
    max_celsius: Option<u32>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.01..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0.01 to 1, such as 0.25".to_owned())
}

fn celsius(text: &str) -> Result<u32, String> {
    let degrees = text.parse().ok().filter(|degrees| (30..=120).contains(degrees));
    degrees.ok_or_else(|| "expected a whole number of degrees from 30 to 120".to_owned())
}

/// Why nothing may be measured now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hindrance {
    Hours(Hours),
    /// How many other processes compute on the GPU.
    Others(usize),
    /// The GPU's temperature in degrees Celsius.
    Hot(u32),
    Slowed,
}

impl Limits {
    /// Refuses limits that cannot be checked on a device.
    pub(crate) fn check(&self, around: Surroundings) -> Result<(), Usage> {
        let says = "the device does not say";
        let instead = "leave it out, or use a GPU with its management library";
        Usage::refuse_if(
            self.idle_only && around.others.is_none(),
            format_args!("--idle-only: {says} who computes on it; {instead}"),
        )?;
        Usage::refuse_if(
            self.max_celsius.is_some() && around.celsius.is_none(),
            format_args!("--max-celsius: {says} how hot it is; {instead}"),
        )
    }

    /// What keeps a device with these surroundings from measuring at a time of the day. `cooling` says that the
    /// device has been waiting for heat to pass. Such a device must cool down further than others.
    fn hindrance(&self, around: Surroundings, now: Time, cooling: bool) -> Option<Hindrance> {
        if let Some(hours) = self.hours.filter(|hours| !hours.hold(now)) {
            return Some(Hindrance::Hours(hours));
        }
        if let Some(others) = around.others.filter(|others| self.idle_only && *others > 0) {
            return Some(Hindrance::Others(others));
        }
        let most = self.max_celsius.map(|most| if cooling { most - COOLER_BY } else { most });
        if let (Some(most), Some(celsius)) = (most, around.celsius)
            && celsius > most
        {
            return Some(Hindrance::Hot(celsius));
        }
        around.slowed.then_some(Hindrance::Slowed)
    }

    /// How long to rest after the device has `worked` this long.
    fn rest_after(&self, worked: Duration) -> Duration {
        self.share.map_or(Duration::ZERO, |share| worked.mul_f64(1.0 / share - 1.0))
    }

    /// How many seconds of work to take, so that the work and the rests together take `seconds`.
    pub(super) fn work_within(&self, seconds: f64) -> f64 {
        (seconds * self.share.unwrap_or(1.0)).max(1.0)
    }
}

impl Hindrance {
    fn is_heat(self) -> bool {
        matches!(self, Self::Hot(_) | Self::Slowed)
    }

    /// What the device does while it is hindered, in words for supervisors.
    pub(super) fn doing(self) -> &'static str {
        match self {
            Self::Hours(_) => "waiting for its hours",
            Self::Others(_) => "waiting for others to leave the GPU",
            Self::Hot(_) | Self::Slowed => "cooling down",
        }
    }
}

impl Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hours(hours) => write!(f, "waiting for the hours {hours}"),
            Self::Others(1) => write!(f, "waiting: another process computes on the GPU"),
            Self::Others(others) => write!(f, "waiting: {others} other processes compute on the GPU"),
            Self::Hot(celsius) => write!(f, "waiting: the GPU is at {celsius} °C"),
            Self::Slowed => write!(f, "waiting: heat or the power supply holds the GPU's clocks down"),
        }
    }
}

/// Hours of each day, such as 22:00-06:00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hours {
    from: Time,
    /// The first moment after these hours.
    to: Time,
}

impl Hours {
    /// Whether a time of the day lies in these hours. Hours that end before they begin go on past midnight.
    pub(super) fn hold(self, time: Time) -> bool {
        if self.from < self.to {
            self.from <= time && time < self.to
        } else {
            self.from <= time || time < self.to
        }
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let both = text.split_once('-').and_then(|(from, to)| Some((time(from)?, time(to)?)));
        match both {
            Some((from, to)) if from != to => Ok(Self { from, to }),
            _ => Err("expected two different times of the day, such as 22:00-06:00".to_owned()),
        }
    }
}

fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
    match (hour.parse().ok()?, minute.parse().ok()?) {
        // 24:00 is the beginning of the next day.
        (24, 0) => Some(Time::midnight()),
        (hour, minute) => Time::new(hour, minute, 0, 0).ok(),
    }
}

impl Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from.hour(), from.minute(), to.hour(), to.minute())
    }
}

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
        while !self.shared.interrupt.requested() {
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
                self.device.meter.let_go();
            }
            waits_for = Some(hindrance);
            self.note(hindrance.doing());
            self.shared.interrupt.sleep(LOOK_EVERY);
        }
        Ok(false)
    }

    /// Takes the device again. A reset or a driver update may keep it busy for a while. `false` if the agent is to
    /// stop before that. Failures that waiting does not mend end the attempts at once.
    fn take_again(&mut self) -> anyhow::Result<bool> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            if self.shared.interrupt.requested() {
                break;
            }
            let Err(error) = self.device.meter.take_again(&|| self.shared.interrupt.insisted()) else {
                return Ok(true);
            };
            if attempt >= TRIES || !error.is::<NotReady>() {
                return Err(error);
            }
            let (seconds, why) = (pause.as_secs(), one_line(&error));
            tell!(Warning, { "seconds": seconds }, "{why}; the device is tried again in {seconds} s");
            self.note("waiting for the device");
            self.shared.interrupt.sleep(pause);
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
        if self.shared.interrupt.requested() {
            return false;
        }
        let Some(hindrance) = self.hindrance(false) else { return true };
        tell!(Info, { "doing": hindrance.doing() }, "{hindrance}; what is left of the lease goes back");
        self.gives_back = true;
        false
    }

    /// Rests after the last problem. The agent's share of the time says for how long.
    fn rest(&mut self) {
        let rest = self.shared.limits.rest_after(std::mem::take(&mut self.worked));
        if !rest.is_zero() {
            self.note("resting");
            self.shared.interrupt.sleep(rest);
        }
    }

    fn hindrance(&self, cooling: bool) -> Option<Hindrance> {
        let now = jiff::Zoned::now().time();
        self.shared.limits.hindrance(self.device.meter.surroundings(), now, cooling)
    }
}

#[cfg(test)]
mod tests;
