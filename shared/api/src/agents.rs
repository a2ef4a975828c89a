//! Agents: what they say of themselves, and their leases, which say what to measure and what became of it.

use std::collections::BTreeMap;

use diode_core::hardware::{Hardware, Vendor, is_stray};
use diode_core::ids::{AgentId, HardwareSlug, LeaseId, ProblemId};
use diode_core::kernel_variant::KernelKind;
use diode_core::named_enum::named_enum;
use diode_core::{DType, Invalid, KernelVariant, Layout, Op, Problem, Scaling};
use serde::{Deserialize, Serialize};

/// The header with an agent's key. Only this key shows which agent sent a request without an account.
pub const AGENT_KEY: &str = "diode-agent-key";

/// What the device of an agent can measure. What it cannot is not asked of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ability {
    pub ops: Vec<Op>,
    pub dtypes: Vec<DType>,
    /// The layouts of B.
    pub layouts: Vec<Layout>,
    /// Whether also problems with rows that are not aligned to 16 bytes.
    pub unaligned: bool,
    /// What operands and output may take together.
    pub memory_bytes: u64,
    /// Only what these kernels compute: those of the packs that the agent has or can pull. `None` if it needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<Vec<KernelVariant>>,
}

impl Ability {
    /// The types of plain multiplications that are usually measured.
    const USUAL: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

    /// What a hardware can measure without packs: plain multiplications and, on a GPU, what models are served with, in
    /// the types that it multiplies.
    pub fn of(hardware: &Hardware, memory_bytes: u64) -> Self {
        let is_gpu = hardware.vendor != Vendor::Cpu;
        let scaled = KernelVariant::SCALED_DTYPES.into_iter().filter(|dtype| hardware.scales(*dtype));
        let computes = |op: &Op| KernelKind::of(*op).is_some_and(|kernel| is_gpu || kernel.is_plain());
        Self {
            ops: Op::ALL.iter().copied().filter(computes).collect(),
            dtypes: Self::USUAL.into_iter().chain(scaled).collect(),
            layouts: Layout::ALL.to_vec(),
            unaligned: true,
            memory_bytes,
            variants: None,
        }
    }

    /// Why no device of a hardware can measure a problem, in one sentence. `None` if one with enough memory can.
    pub fn obstacle(hardware: &Hardware, problem: &Problem) -> Option<String> {
        if let Some(why) = KernelVariant::obstacle(problem) {
            return Some(why);
        }
        let (op, dtype, name) = (problem.op, problem.a_dtype, &hardware.name);
        let why = if !Self::of(hardware, 0).ops.contains(&op) {
            format!("{name} does not compute {op}")
        } else if problem.scaling != Scaling::None && hardware.facts.is_some() && !hardware.scales(dtype) {
            format!("{name} does not multiply {dtype}")
        } else if hardware.vendor == Vendor::Cpu {
            return None;
        } else {
            KernelVariant::for_problem(problem).err()?
        };
        Some(format!("{op} {}: {why}", problem.dims()))
    }

    /// Whether the agent has kernels for a problem, or needs none.
    pub fn has_kernels_for(&self, problem: &Problem) -> bool {
        let Some(variants) = &self.variants else { return true };
        KernelVariant::for_problem(problem).is_ok_and(|variant| variants.contains(&variant))
    }
}

/// Makes a device known to the server. Doing so again changes what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Registration {
    /// Drawn by the agent once for each device, and kept: it tells the device from others of the account. An agent
    /// without an account shows by it whose its requests are, so it is a secret.
    pub key: String,
    /// What people read: the node and the device.
    pub name: String,
    pub hardware: Hardware,
    pub ability: Ability,
    /// The program: `diode 0.1.0`.
    pub tool: String,
    /// Further facts of the node.
    #[serde(default)]
    pub node: BTreeMap<String, String>,
}

impl Registration {
    const MAX_FACTS: usize = 64;
    const MAX_TEXT: usize = 256;
    /// Fewer variants than this are possible.
    const MAX_VARIANTS: usize = 1024;

    /// Refuses values that no agent sends.
    pub fn check(&self) -> Result<(), Invalid> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if !(16..=64).contains(&self.key.len()) || !self.key.bytes().all(plain) {
            return Err(Invalid::new("key", "another text", "16 to 64 letters, digits and dashes"));
        }
        let texts = [("name", &self.name), ("tool", &self.tool)];
        let facts = self.node.iter().flat_map(|(name, value)| [("node", name), ("node", value)]);
        for (what, text) in texts.into_iter().chain(facts) {
            if text.is_empty() || text.len() > Self::MAX_TEXT || text.chars().any(is_stray) {
                let given = format!("`{:.80}`", text.escape_debug().to_string());
                return Err(Invalid::new(what, given, "1 to 256 bytes that are seen, without < and >"));
            }
        }
        if self.node.len() > Self::MAX_FACTS {
            let expected = format!("at most {}", Self::MAX_FACTS);
            return Err(Invalid::new("node", format_args!("{} facts", self.node.len()), expected));
        }
        let ability = &self.ability;
        if ability.ops.is_empty() || ability.dtypes.is_empty() || ability.layouts.is_empty() {
            return Err(Invalid::new("ability", "nothing", "at least one op, one dtype and one layout"));
        }
        if let Some(variants) = &ability.variants
            && !(1..=Self::MAX_VARIANTS).contains(&variants.len())
        {
            let expected = format!("1 to {}", Self::MAX_VARIANTS);
            return Err(Invalid::new("variants", variants.len(), expected));
        }
        self.hardware.validate()
    }
}

/// A device that measures what the server asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agent {
    pub id: AgentId,
    pub name: String,
    pub hardware: HardwareSlug,
    /// Whether its times are made up, for trying a server out.
    pub simulated: bool,
    pub tool: String,
    pub registered_at: String,
    pub seen_at: String,
    /// Why it gets no work any more.
    pub put_aside: Option<String>,
    /// The problems whose results have arrived.
    pub measured: u64,
    /// The lease it works on.
    pub lease: Option<LeaseId>,
}

/// An agent with what it does and has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentDetail {
    pub agent: Agent,
    pub ability: Ability,
    pub node: BTreeMap<String, String>,
    /// The newest first.
    pub leases: Vec<LeaseSummary>,
}

named_enum! {
    /// Why a problem is to be measured.
    Purpose("purpose") {
        /// Nothing of its kind has been measured on the hardware.
        Hole = "hole",
        /// Somebody has asked for it.
        Wanted = "wanted",
        /// A model's picks were bad for measured problems of its kind.
        Weak = "weak",
        /// One contributor has measured it, and a second one is to confirm the result.
        Confirm = "confirm",
        /// It was measured with other drivers only. This driver may change its times.
        Again = "again",
        /// Little of its kind has been measured.
        More = "more",
    }
}

named_enum! {
    /// Which configs are to be timed on a problem.
    Breadth("breadth") {
        /// The full space.
        Full = "full",
        /// The default space, and a hundred random configs of the full space.
        Sample = "sample",
    }
}

named_enum! {
    /// What became of a lease.
    LeaseState("lease state") {
        Active = "active",
        /// All of its problems were measured or refused.
        Done = "done",
        /// The agent has given back some of its problems.
        Returned = "returned",
        /// The agent did not renew it in time.
        Expired = "expired",
    }
}

named_enum! {
    /// Which devices a problem's refusal concerns.
    Reach("reach") {
        /// All devices of the hardware.
        Hardware = "hardware",
        /// The agent that refused: it lacks kernels or memory that other agents may have.
        Agent = "agent",
    }
}

/// What a lease was for, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseSummary {
    pub id: LeaseId,
    pub state: LeaseState,
    pub taken_at: String,
    pub ended_at: Option<String>,
    /// How long the work was expected to take.
    pub seconds: f64,
    pub problems: u64,
    pub measured: u64,
}

/// Asks for work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseRequest {
    /// How long the work is to take, as the server expects it; 1 to 3600.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 3600))]
    pub seconds: f64,
}

impl LeaseRequest {
    pub const MAX_SECONDS: f64 = 3600.0;

    pub fn check(&self) -> Result<(), Invalid> {
        if (1.0..=Self::MAX_SECONDS).contains(&self.seconds) {
            return Ok(());
        }
        Err(Invalid::new("seconds", self.seconds, format!("1 to {}", Self::MAX_SECONDS)))
    }
}

/// The work an agent got, if there is any.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseAnswer {
    pub lease: Option<Lease>,
    /// Where there is none, after how many seconds to ask again.
    pub ask_again: u64,
}

/// An agent's right to measure some problems, as long as it renews it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    pub id: LeaseId,
    /// Seconds until it expires.
    pub expires_in: u64,
    /// What is still to be measured.
    pub work: Vec<LeasedProblem>,
}

/// One problem to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Work))]
pub struct LeasedProblem {
    pub problem: Problem,
    pub purpose: Purpose,
    /// The purpose in words, for people.
    pub why: String,
    pub breadth: Breadth,
    /// Whether it is for judging models, not for training them.
    pub kept: bool,
    /// How long the server expects it to take.
    pub seconds: f64,
}

/// A lease that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Renewal {
    /// Seconds until it expires.
    pub expires_in: u64,
}

/// Ends a lease: what has not been measured goes back, but for what the device cannot measure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GivenBack {
    #[serde(default)]
    pub refused: Vec<RefusedWork>,
}

/// A problem that a device cannot measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedWork {
    pub problem: ProblemId,
    pub reason: String,
    /// Programs that do not say it may lack kernels.
    #[serde(default = "RefusedWork::usual_reach")]
    pub reach: Reach,
}

impl RefusedWork {
    const fn usual_reach() -> Reach {
        Reach::Agent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::ProblemFields;
    use diode_core::hardware::find;

    #[test]
    fn a_gpu_measures_the_types_that_it_multiplies() {
        let of = |name| Ability::of(&find(name).unwrap(), 1 << 30);
        assert_eq!(of("nvidia-h200").ops, Op::ALL);
        let narrow = |name| of(name).dtypes.split_off(Ability::USUAL.len());
        assert_eq!(narrow("nvidia-h200"), [DType::Float8E4M3, DType::Int8]);
        assert_eq!(narrow("amd-mi300x"), [DType::Float8E4M3Fnuz, DType::Int8]);
        assert_eq!(narrow("nvidia-a100"), [DType::Int8]);
        let cpu = Hardware { vendor: Vendor::Cpu, ..find("nvidia-h200").unwrap() };
        let cpu = Ability::of(&cpu, 1 << 30);
        assert_eq!((cpu.ops, cpu.dtypes), (Op::PLAIN.to_vec(), Ability::USUAL.to_vec()));
    }

    #[test]
    fn what_a_hardware_cannot_measure_is_said() {
        let on = |name, fields| Ability::obstacle(&find(name).unwrap(), &Problem::new(fields).unwrap());
        let cpu = Hardware { vendor: Vendor::Cpu, facts: None, ..find("nvidia-h200").unwrap() };
        let plain = |op, dtype| ProblemFields::plain(op, 1, 64, 64, 64, dtype);
        let mixed = ProblemFields { b_dtype: DType::Float32, ..plain(Op::Mm, DType::Float16) };
        let int8 = ProblemFields {
            scaling: Scaling::Row,
            out_dtype: DType::BFloat16,
            ..plain(Op::ScaledMm, DType::Int8)
        };
        assert_eq!(on("nvidia-h200", plain(Op::Mm, DType::Float16)), None);
        assert!(on("nvidia-h200", plain(Op::Mm, DType::Bool)).unwrap().ends_with("not for bool"));
        assert!(on("nvidia-h200", mixed.clone()).unwrap().contains("one type throughout"));
        assert_eq!(Ability::obstacle(&cpu, &Problem::new(mixed).unwrap()), None);
        assert_eq!(on("nvidia-a100", int8.clone()), None);
        let said = Ability::obstacle(&cpu, &Problem::new(int8).unwrap()).unwrap();
        assert!(said.ends_with("NVIDIA H200 does not compute scaled_mm"), "{said}");
    }

    #[test]
    fn registrations_are_checked() {
        let good = Registration {
            key: "0123456789abcdef".to_owned(),
            name: "gpu01, GPU 0".to_owned(),
            hardware: find("nvidia-h200").unwrap(),
            ability: Ability {
                ops: vec![Op::Mm],
                dtypes: vec![DType::BFloat16],
                layouts: vec![Layout::Row],
                unaligned: true,
                memory_bytes: 1 << 30,
                variants: None,
            },
            tool: "diode 0.1.0".to_owned(),
            node: BTreeMap::new(),
        };
        assert_eq!(good.check(), Ok(()));
        let nothing = Ability { ops: Vec::new(), ..good.ability.clone() };
        let no_kernels = Ability { variants: Some(Vec::new()), ..good.ability.clone() };
        let bad = [
            Registration { key: "short".to_owned(), ..good.clone() },
            Registration { key: "0123456789abcde ".to_owned(), ..good.clone() },
            Registration { name: "a\nb".to_owned(), ..good.clone() },
            Registration { tool: String::new(), ..good.clone() },
            Registration { ability: nothing, ..good.clone() },
            Registration { ability: no_kernels, ..good.clone() },
            Registration { node: BTreeMap::from([("a".to_owned(), "x".repeat(257))]), ..good.clone() },
        ];
        for registration in bad {
            assert!(registration.check().is_err(), "{registration:?}");
        }
        for seconds in [0.5, 3601.0, f64::NAN] {
            assert!(LeaseRequest { seconds }.check().is_err(), "{seconds}");
        }
    }
}
