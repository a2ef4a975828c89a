//! The measured costs of an epilogue on some hardware.

use diode_core::hardware::{Facts, Hardware};
use diode_core::{Config, DType, Epilogue, Problem, Tile};

/// If a thread has this many values of the product or more, an epilogue does not have enough registers.
const CROWDED: u32 = 128;

/// The fewest warps with which a multiprocessor is busy. With fewer, one of its four schedulers has only one
/// warp, which waits for its own results.
const ENOUGH_WARPS: u64 = 8;

/// Registers of a thread beside its values of the product.
const REGISTERS: u32 = 56;
/// Registers that an epilogue needs in addition.
const MORE_REGISTERS: u32 = 16;

/// The size of the cache. Of a product that is at most half as large, half is read from the cache.
const CACHE_BYTES: u64 = 50 << 20;

/// The costs that were measured on some hardware. `docs/results.md` says how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    pub facts: Facts,
    /// The time between two kernels, for a second kernel of any size.
    pub gap_us: f64,
    /// How fast kernels read and write memory if they do nothing else.
    pub bytes_per_us: f64,
    /// How fast a separate kernel computes `erf` while it waits for memory.
    pub erfs_per_us: f64,
    /// How long a tile waits for other operands.
    pub read_us: f64,
    /// How long a tile takes for 1024 values of `erf` on every multiprocessor.
    pub erf_us: f64,
    /// The same for a tile that is short of registers, because each thread has many values.
    pub crowded_erf_us: f64,
    /// How many times longer functions and other operands take with fewer than `ENOUGH_WARPS`.
    pub few_warps: f64,
    /// The share of its time by which a tile is slower if an epilogue's registers leave room for only one
    /// block on a multiprocessor.
    pub lost_occupancy: f64,
}

impl Costs {
    /// The costs on some hardware. `None` if they were not measured, so that only the multiplication counts.
    pub fn for_hardware(hardware: &Hardware) -> Option<Self> {
        let [gap_us, bytes_per_us, erfs_per_us, read_us, lost_occupancy] = match hardware.slug.as_str() {
            "nvidia-h100" => [1.9, 3.3e6, 0.8e6, 0.2, 0.18],
            "nvidia-h200" => [1.75, 4.4e6, 0.75e6, 0.16, 0.25],
            _ => return None,
        };
        let (erf_us, crowded_erf_us, few_warps) = (0.145, 0.26, 2.2);
        let facts = hardware.facts?;
        Some(Self {
            facts,
            gap_us,
            bytes_per_us,
            erfs_per_us,
            read_us,
            erf_us,
            crowded_erf_us,
            few_warps,
            lost_occupancy,
        })
    }

    /// The time of the epilogue as a kernel of its own.
    pub fn separate_us(&self, following: &Following) -> f64 {
        let is_cached = following.product_bytes <= CACHE_BYTES / 2;
        let product = following.product_bytes as f64 * if is_cached { 0.5 } else { 1.0 };
        let bytes = product + following.read_bytes as f64 + following.written_bytes as f64;
        let functions = following.separate_work() * following.elements as f64 / self.erfs_per_us;
        self.gap_us + (bytes / self.bytes_per_us).max(functions)
    }

    /// How much longer a tile takes with the epilogue in its own kernel. For a config without a tile, the
    /// time of a separate kernel.
    pub fn fused_us(&self, following: &Following, problem: &Problem, config: &Config, alone_us: f64) -> f64 {
        let Some(tile) = config.tile() else { return self.separate_us(following) };
        let more_written = following.more_written() as f64;
        let (long_work, short_work) = (following.long_work(), following.short_work());
        if following.read_bytes == 0 && long_work == 0.0 && short_work == 0.0 {
            return more_written / self.bytes_per_us;
        }
        let size = u64::from(tile.block_m) * u64::from(tile.block_n);
        let values = (size / u64::from(self.facts.warp_size * tile.num_warps)) as u32;
        let is_crowded = values >= CROWDED;
        let before = self.resident(problem, tile, values + REGISTERS);
        let after = self.resident(problem, tile, values + REGISTERS + MORE_REGISTERS);
        let (rows, columns) =
            (problem.m.div_ceil(u64::from(tile.block_m)), problem.n.div_ceil(u64::from(tile.block_n)));
        let waves =
            problem.b.saturating_mul(rows).saturating_mul(columns).div_ceil(u64::from(self.facts.sms));
        let each = waves as f64 * size as f64 / 1024.0;
        let long_us = if is_crowded { self.crowded_erf_us } else { self.erf_us };
        let reading = if following.read_bytes > 0 { self.read_us } else { 0.0 };
        let mut waiting = reading + each * (long_work * long_us + short_work * self.erf_us);
        if u64::from(after).min(waves) * u64::from(tile.num_warps) < ENOUGH_WARPS {
            waiting *= self.few_warps;
        }
        // In measurements, short functions alone never cost a tile its second block.
        let loses = before > 1 && after == 1 && (long_work > 0.0 || short_work == 0.0);
        // Reading other operands then takes twice as long, because nothing else runs meanwhile.
        let times = if is_crowded || loses { 2.0 } else { 1.0 };
        let memory = (more_written + following.read_bytes as f64 * times) / self.bytes_per_us;
        memory + waiting + if loses { self.lost_occupancy * alone_us } else { 0.0 }
    }

    /// How many blocks run at once on a multiprocessor with this many registers per thread.
    fn resident(&self, problem: &Problem, tile: &Tile, registers: u32) -> u32 {
        let element = if problem.a_dtype == DType::Float32 { 4 } else { 2 };
        let shared = (tile.block_m + tile.block_n) * tile.block_k * tile.num_stages * element;
        let by_registers = self.facts.regs_per_sm / (self.facts.warp_size * tile.num_warps * registers);
        (self.facts.smem_per_block / shared).min(by_registers).max(1)
    }
}

/// A function and how long it takes, relative to `erf`: in a kernel of its own, and in a tile. Functions that
/// are not listed take no longer than reading and writing the memory.
type Work = (&'static str, f64, f64);

/// Long functions need registers of their own in a tile.
const LONG: [Work; 5] =
    [("erf", 1.0, 1.0), ("tanh", 1.0, 1.6), ("pow", 1.0, 1.0), ("sin", 1.0, 1.0), ("cos", 1.0, 1.0)];
const SHORT: [Work; 4] = [("exp", 0.3, 0.44), ("sigmoid", 0.3, 0.44), ("log", 0.5, 0.5), ("log1p", 0.5, 0.5)];

/// A change of type. It is named only if there is nothing else to name.
const CAST: &str = "convert_element_type";

/// What becomes part of a tile's kernel because it follows the multiplication element by element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Following {
    /// The names of torch's functions.
    pub ops: Vec<String>,
    /// The number of values in the product.
    pub elements: u64,
    pub product_bytes: u64,
    /// The bytes of all other operands.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Whether the product itself is needed, too.
    pub keeps_product: bool,
}

impl Following {
    /// What an epilogue does after a problem. `None` if there is nothing to do.
    pub fn after(epilogue: Epilogue, problem: &Problem) -> Option<Self> {
        let p = problem;
        let elements = p.b.saturating_mul(p.m).saturating_mul(p.n);
        let product_bytes = elements.saturating_mul(p.out_dtype.size());
        let (op, read_bytes, written_bytes) = match epilogue {
            Epilogue::None => return None,
            Epilogue::Float32 if p.out_dtype == DType::Float32 => return None,
            Epilogue::Relu => ("relu", 0, product_bytes),
            Epilogue::Gelu => ("erf", 0, product_bytes),
            Epilogue::GeluTanh => ("tanh", 0, product_bytes),
            Epilogue::Silu => ("sigmoid", 0, product_bytes),
            Epilogue::SiluGate => ("sigmoid", product_bytes, product_bytes),
            Epilogue::Residual => ("add", product_bytes, product_bytes),
            Epilogue::Float32 => (CAST, 0, elements.saturating_mul(DType::Float32.size())),
        };
        let ops = vec![op.to_owned()];
        Some(Self { ops, elements, product_bytes, read_bytes, written_bytes, keeps_product: false })
    }

    /// The functions, each named once. Casts are named only if there is nothing else.
    pub fn label(&self) -> String {
        /// The most functions that are named.
        const MOST: usize = 6;
        let mut names: Vec<&str> = Vec::new();
        for op in self.ops.iter().filter(|op| *op != CAST) {
            if !names.contains(&op.as_str()) {
                names.push(op);
            }
        }
        if names.is_empty() {
            return CAST.to_owned();
        }
        let more = names.len().saturating_sub(MOST);
        let named = names[..names.len() - more].join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    }

    /// How long the functions take in a kernel of their own, relative to `erf`.
    pub(super) fn separate_work(&self) -> f64 {
        let all = [&LONG[..], &SHORT[..]].concat();
        self.sum(&all, |work| work.1)
    }

    /// How long the long functions take in a tile, relative to `erf`.
    pub(super) fn long_work(&self) -> f64 {
        self.sum(&LONG, |work| work.2)
    }

    /// How long the short functions take in a tile, relative to `erf`.
    pub(super) fn short_work(&self) -> f64 {
        self.sum(&SHORT, |work| work.2)
    }

    fn sum(&self, functions: &[Work], of: fn(&Work) -> f64) -> f64 {
        let known = |op: &String| functions.iter().find(|work| work.0 == op).map(of);
        self.ops.iter().filter_map(known).sum()
    }

    /// The bytes that a kernel writes beyond the product.
    pub(super) fn more_written(&self) -> u64 {
        let product = if self.keeps_product { 0 } else { self.product_bytes };
        self.written_bytes.saturating_sub(product)
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;
    use diode_core::{Op, ProblemFields};

    use super::*;

    fn costs(slug: &str) -> Costs {
        Costs::for_hardware(&find(slug).unwrap()).unwrap()
    }

    fn tile(block_m: u32, block_n: u32, num_warps: u32) -> Config {
        Config::Mm(Tile::new(block_m, block_n, 64, 3, num_warps))
    }

    fn problem(m: u64, n: u64, k: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap()
    }

    fn following(ops: &[&str], elements: u64, read_bytes: u64) -> Following {
        Following {
            ops: ops.iter().map(|op| (*op).to_owned()).collect(),
            elements,
            product_bytes: 2 * elements,
            read_bytes,
            written_bytes: 2 * elements,
            keeps_product: false,
        }
    }

    #[test]
    fn a_tile_that_is_short_of_registers_pays_for_functions() {
        let (h100, problem) = (costs("nvidia-h100"), problem(4096, 1024, 4096));
        let gelu = following(&["mul", "erf", "add", "mul"], 4 << 20, 0);
        let [small, large] =
            [64, 128].map(|block_m| h100.fused_us(&gelu, &problem, &tile(block_m, 128, 4), 40.0));
        let separate = h100.separate_us(&gelu);
        assert!(small < separate && separate < large, "{small} {separate} {large}");
    }

    #[test]
    fn a_tile_with_few_warps_waits_for_functions() {
        let (h100, problem) = (costs("nvidia-h100"), problem(2048, 512, 256));
        let gated = following(&["exp", "add", "div", "mul"], 1 << 20, 2 << 20);
        // Of 128 blocks, a multiprocessor runs one, which has too few warps. Of 256 blocks, it runs two at once.
        let [few, enough] =
            [128, 64].map(|block_n| h100.fused_us(&gated, &problem, &tile(64, block_n, 4), 8.0));
        assert!(few > 1.5 * enough, "{few} {enough}");
    }

    #[test]
    fn a_tile_that_loses_a_block_reads_slowly() {
        let (h100, problem) = (costs("nvidia-h100"), problem(8192, 4096, 256));
        let after = |ops: &[&str]| {
            h100.fused_us(&following(ops, 1 << 25, 1 << 26), &problem, &tile(128, 128, 8), 58.0)
        };
        let (residual, gate) = (after(&["add"]), after(&["exp", "add", "div", "mul"]));
        assert!(residual > gate, "with exp alone it loses none");
        assert!(residual > 2.0 * f64::from(1 << 26) / h100.bytes_per_us);
    }

    #[test]
    fn costs_are_known_for_two_kinds_of_hardware() {
        let residual = following(&["add"], 32 << 20, 64 << 20);
        let separate = |slug| costs(slug).separate_us(&residual);
        assert!(separate("nvidia-h200") < separate("nvidia-h100"), "its memory is faster");
        assert_eq!(Costs::for_hardware(&find("nvidia-a100").unwrap()), None);
    }
}

#[cfg(test)]
mod following_tests {
    use diode_core::{Op, ProblemFields};

    use super::*;

    #[test]
    fn a_label_names_each_function_once_and_casts_only_alone() {
        let label = |ops: &[&str]| {
            let ops = ops.iter().map(|op| (*op).to_owned()).collect();
            Following {
                ops,
                elements: 1,
                product_bytes: 2,
                read_bytes: 0,
                written_bytes: 2,
                keeps_product: false,
            }
            .label()
        };
        assert_eq!(label(&[CAST, "mul", "mul", "erf", CAST]), "mul, erf");
        assert_eq!(label(&[CAST]), CAST);
        assert_eq!(label(&["a", "b", "c", "d", "e", "f", "g", "h"]), "a, b, c, d, e, f and 2 more");
    }

    #[test]
    fn an_epilogue_reads_and_writes_what_it_is_named_for() {
        let of = |epilogue, dtype| {
            let problem = ProblemFields::plain(Op::Bmm, 2, 64, 128, 32, dtype);
            Following::after(epilogue, &Problem::new(problem).unwrap())
        };
        let bytes = |epilogue| {
            let found = of(epilogue, DType::BFloat16).unwrap();
            (found.product_bytes, found.read_bytes, found.written_bytes)
        };
        let product = 2 * 64 * 128 * 2;
        assert_eq!(bytes(Epilogue::Gelu), (product, 0, product));
        assert_eq!(bytes(Epilogue::Residual), (product, product, product));
        assert_eq!(bytes(Epilogue::Float32), (product, 0, 2 * product));
        assert_eq!(of(Epilogue::None, DType::BFloat16), None);
        assert_eq!(of(Epilogue::Float32, DType::Float32), None);
    }
}
