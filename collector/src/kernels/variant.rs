//! What one compiled kernel serves: all problems that differ only in their sizes, or a single one of them.

use std::ops::Deref;

use diode_core::kernel_variant::{EXACT_SIZES, KernelKind};
use diode_core::{Alignment, Config, DType, KernelVariant, Layout, OperandAlignment, Problem, Scaling, Tile};
use serde_json::{Value, json};

/// Everything besides the tile that the compiler must know. It includes the sizes only if they are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Variant {
    pub(crate) general: KernelVariant,
    /// M, N and K, if they are compiled in.
    pub(crate) sizes: Option<[u64; 3]>,
}

/// A tile in the form in which it is compiled for a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Form {
    pub(crate) tile: Tile,
    /// Whether blocks are persistent and the tensor memory accelerator feeds them.
    pub(crate) tma: bool,
    /// Whether the tile fits into the matrices, where that matters.
    pub(crate) fits: bool,
}

impl Deref for Variant {
    type Target = KernelVariant;

    fn deref(&self) -> &KernelVariant {
        &self.general
    }
}

impl Variant {
    /// The variant that computes a problem, or the reason why there is none.
    pub(crate) fn for_problem(problem: &Problem) -> Result<Self, String> {
        KernelVariant::for_problem(problem).map(Self::from)
    }

    /// The variant that computes a problem from a pack. In an `exact` pack, it has the problem's sizes.
    pub(crate) fn in_pack(problem: &Problem, exact: bool) -> Result<Self, String> {
        if exact && !problem.op.is_plain() {
            return Err(format!(
                "kernels of {} take sizes as arguments, and have none compiled in",
                problem.op
            ));
        }
        Ok(Self { sizes: exact.then_some([problem.m, problem.n, problem.k]), ..Self::for_problem(problem)? })
    }

    /// The form in which a config computes a problem. `None` if the variant has no kernel for the config.
    pub(crate) fn form(&self, config: &Config, problem: &Problem) -> Option<Form> {
        let (tile, tma) = self.tile_of(config)?;
        Some(Form { tile, tma, fits: self.fits(&tile, problem) })
    }

    /// The tile of a config, and whether the accelerator feeds it. `None` if the variant has no kernel for it.
    pub(super) fn tile_of(&self, config: &Config) -> Option<(Tile, bool)> {
        let swaps = matches!(self.kernel, KernelKind::ScaledMm | KernelKind::FusedMoe);
        match *config {
            Config::Mm(tile) | Config::Bmm(tile) if self.kernel.is_plain() => Some((tile, false)),
            // The experts' kernel masks every load along K, as vLLM's does.
            Config::Mm(tile) if self.kernel == KernelKind::FusedMoe => {
                Some((Tile { even_k: false, ..tile }, false))
            }
            Config::Mm(tile) if swaps || !tile.swap_ab => Some((tile, false)),
            Config::PersistentTma(tile) if self.has_tma() && !tile.swap_ab => {
                Some((Tile { even_k: true, ..tile }, true))
            }
            _ => None,
        }
    }

    /// Whether there are kernels that the tensor memory accelerator feeds.
    fn has_tma(&self) -> bool {
        !self.kernel.is_plain() && self.kernel != KernelKind::FusedMoe && self.scaling != Scaling::Block
    }

    /// Whether a kernel of this variant may assume that K is a multiple of its block.
    pub(crate) fn allows_even_k(&self) -> bool {
        let along_k = [
            (self.a_layout == Layout::Row, self.alignment.a),
            (self.b_layout == Layout::Column, self.alignment.b),
        ];
        along_k.iter().all(|&(along, alignment)| !along || alignment == Alignment::Bytes16)
    }

    /// Whether tiles that fit into the matrix have other kernels than tiles that do not.
    ///
    /// Inductor's `mm` promises contiguous columns (or rows, of a column-major A) if the tile fits. The promise
    /// changes something only if nothing divides the size that an operand runs along.
    pub(crate) fn fit_matters(&self) -> bool {
        self.sizes.is_none() && self.kernel == KernelKind::Mm && self.undivided().contains(&true)
    }

    /// Whether a tile fits into the matrices of a problem, where that matters. If it matters for two matrices, the
    /// tile must fit into both.
    fn fits(&self, tile: &Tile, problem: &Problem) -> bool {
        let [a, b] = self.undivided();
        self.fit_matters()
            && problem.k > 1
            && (!a || problem.m >= u64::from(tile.block_m))
            && (!b || problem.n >= u64::from(tile.block_n))
    }

    /// Whether rows of A and columns of B are promised to be contiguous. Inductor's `bmm` promises it for any size.
    fn contiguous(&self, tile: &Tile, fits: bool) -> [bool; 2] {
        match self.sizes {
            Some([m, n, k]) => [(m, tile.block_m), (n, tile.block_n)]
                .map(|(size, block)| self.kernel == KernelKind::Bmm || k > 1 && size >= u64::from(block)),
            None => self.undivided().map(|undivided| undivided && (fits || self.kernel == KernelKind::Bmm)),
        }
    }

    /// Whether every address is computed anew in each step along K, as in Inductor's `mm`. Without compiled-in sizes,
    /// this comes nearest to Inductor if an operand runs along M or N and is aligned to less than 16 bytes.
    fn computes_addresses_anew(&self) -> bool {
        let narrow = [
            self.a_layout == Layout::Column && self.alignment.a != Alignment::Bytes16,
            self.b_layout == Layout::Row && self.alignment.b != Alignment::Bytes16,
        ];
        self.sizes.is_none() && self.kernel == KernelKind::Mm && narrow.contains(&true)
    }

    /// Two answers: whether A runs along M and nothing divides M, and whether B runs along N and nothing divides N.
    fn undivided(&self) -> [bool; 2] {
        [
            self.a_layout == Layout::Column && self.elements(self.alignment.a) == 1,
            self.b_layout == Layout::Row && self.elements(self.alignment.b) == 1,
        ]
    }

    /// How many elements an alignment spans.
    fn elements(&self, alignment: Alignment) -> u64 {
        Self::elements_of(alignment, self.dtype)
    }

    fn elements_of(alignment: Alignment, dtype: DType) -> u64 {
        match alignment {
            Alignment::Bytes16 => 16 / dtype.size(),
            Alignment::Bytes4 => 4 / dtype.size(),
            Alignment::None => 1,
        }
    }

    /// The name of the kernel for a tile. Packs store kernels under this name, and launches find them by it.
    ///
    /// A tile's `ALLOW_TF32` means nothing for 16-bit types, so the names of their kernels leave it out. So they do
    /// with `GROUP_M` where kernels take it as an argument.
    pub(crate) fn key(&self, form: &Form) -> String {
        let Form { tile, tma, fits } = *form;
        let (general, precision) = (self.general, self.precision(&tile));
        let group = if self.kernel.is_plain() { format!("group={};", tile.group_m) } else { String::new() };
        let rocm = tile.rocm.map_or_else(String::new, |rocm| {
            format!(";nonkdim={};waves={}", rocm.matrix_instr_nonkdim, rocm.waves_per_eu)
        });
        let addresses = if self.computes_addresses_anew() { ";anew" } else { "" };
        let fit = if self.fit_matters() { format!(";fits={fits}") } else { String::new() };
        let swap = if tile.swap_ab && !self.kernel.is_plain() { ";swap=true" } else { "" };
        let tma = if tma { ";tma=true" } else { "" };
        let sizes = self.sizes.map_or_else(String::new, |[m, n, k]| format!("{EXACT_SIZES}{m}x{n}x{k}"));
        let Tile { block_m, block_n, block_k, num_stages, num_warps, even_k, .. } = tile;
        format!(
            "{general};{precision};{block_m}x{block_n}x{block_k};{group}stages={num_stages};warps={num_warps};\
             even_k={even_k}{rocm}{addresses}{fit}{swap}{tma}{sizes}"
        )
    }

    /// How products are made and summed. Hopper sums fp8 in fewer bits if it may, as torch and vLLM let it.
    /// With scales by block, each step is summed in fp32 all the same.
    fn precision(&self, tile: &Tile) -> &'static str {
        if self.dtype == DType::Float32 && tile.allow_tf32 {
            "tf32"
        } else if self.dtype.is_fp8() && self.scaling != Scaling::Block {
            "fast"
        } else {
            "ieee"
        }
    }

    /// How many bytes each argument of the kernels takes, in launch order.
    pub(crate) fn argument_sizes(&self) -> Vec<u64> {
        let (pointers, numbers) = if self.kernel.is_plain() {
            (POINTERS.len(), NUMBERS.len())
        } else {
            (SERVED_POINTERS.len(), SERVED_NUMBERS.len())
        };
        [vec![8; pointers], vec![4; numbers]].concat()
    }
}

impl From<KernelVariant> for Variant {
    fn from(general: KernelVariant) -> Self {
        Self { general, sizes: None }
    }
}

/// The part of a kernel's name that says which problems it computes. `None` for kernels that do not multiply, such as
/// those that fill operands.
pub(crate) fn problems_of(key: &str) -> Option<String> {
    let (variant, tile) = key.match_indices(';').nth(5).map(|(at, _)| key.split_at(at))?;
    let sizes =
        tile.split_once(EXACT_SIZES).map_or(String::new(), |(_, sizes)| format!("{EXACT_SIZES}{sizes}"));
    KernelVariant::of_kernel(key).map(|_| format!("{variant}{sizes}"))
}

/// Triton's name of a type. `None` if there are no kernels for it.
pub(crate) fn triton_type(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Float16 => Some("fp16"),
        DType::BFloat16 => Some("bf16"),
        DType::Float32 => Some("fp32"),
        DType::Float8E4M3 => Some("fp8e4nv"),
        DType::Float8E4M3Fnuz => Some("fp8e4b8"),
        DType::Int8 => Some("i8"),
        _ => None,
    }
}

/// The arguments of every plain kernel in launch order; see `kernels/matmul.py`.
const POINTERS: [&str; 4] = ["A", "B", "bias", "C"];
const NUMBERS: [&str; 9] = ["M", "N", "K", "lda", "ldb", "ldc", "batch_a", "batch_b", "batch_c"];

/// The arguments of every other kernel in launch order; see `kernels/serving.py`.
const SERVED_POINTERS: [&str; 9] =
    ["A", "B", "a_scales", "b_scales", "C", "pairs", "experts", "ends", "weights"];
const SERVED_NUMBERS: [&str; 15] = [
    "M",
    "N",
    "K",
    "lda",
    "ldb",
    "ldc",
    "b_group",
    "a_scale_row",
    "b_scale_group",
    "b_scale_row",
    "groups",
    "top_k",
    "weighted",
    "blocks_m",
    "group_m",
];

/// How many bytes of scratch memory each block of a kernel has that the tensor memory accelerator feeds. Its
/// descriptors lie there.
pub(crate) const SCRATCH_BYTES: u64 = 1024;

impl Variant {
    /// The request for one kernel, see `kernels/compile.py`.
    pub(crate) fn request(&self, form: &Form, arch: &str) -> Value {
        let (kernel, types, constants) =
            if self.kernel.is_plain() { self.plain_request(form) } else { self.served_request(form) };
        json!({
            "kernel": kernel,
            "arch": arch,
            "types": types,
            "divisible": self.divisors(),
            "constants": constants,
            "options": options(&form.tile, arch),
        })
    }

    /// The kernel, the types of its arguments, and its constants.
    fn plain_request(&self, form: &Form) -> (String, Value, Value) {
        let Form { tile, fits, .. } = form;
        let pointer = format!("*{}", triton_type(self.dtype).unwrap_or("?"));
        let types = POINTERS.iter().map(|&name| (name, pointer.as_str()));
        let types: serde_json::Map<String, Value> = types
            .chain(NUMBERS.iter().map(|&name| (name, "i32")))
            .map(|(name, text)| (name.to_owned(), text.into()))
            .collect();
        let [a_contiguous, b_contiguous] = self.contiguous(tile, *fits);
        let mut constants = json!({
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": tile.block_k,
            "GROUP_M": tile.group_m,
            "EVEN_K": tile.even_k,
            "A_ROW": self.a_layout == Layout::Row,
            "B_ROW": self.b_layout == Layout::Row,
            "BIAS": self.bias.as_str(),
            "PRECISION": self.precision(tile),
            "A_CONTIGUOUS": a_contiguous,
            "B_CONTIGUOUS": b_contiguous,
        });
        let kernel = match self.sizes {
            Some([m, n, k]) => {
                for (name, size) in [("KNOWN_M", m), ("KNOWN_N", n), ("KNOWN_K", k)] {
                    constants[name] = size.into();
                }
                format!("{}_known", self.kernel)
            }
            None => self.kernel.to_string(),
        };
        if self.sizes.is_none() && self.kernel == KernelKind::Mm {
            constants["ANEW"] = self.computes_addresses_anew().into();
        }
        (kernel, types.into(), constants)
    }

    fn served_request(&self, form: &Form) -> (String, Value, Value) {
        let Form { tile, tma, .. } = *form;
        let operand = |dtype| format!("*{}", triton_type(dtype).unwrap_or("?"));
        let of_pointer = |name: &str| match name {
            "A" | "B" => operand(self.dtype),
            "C" => operand(self.out_dtype()),
            "a_scales" | "b_scales" | "weights" => "*fp32".to_owned(),
            _ => "*i32".to_owned(),
        };
        let types: serde_json::Map<String, Value> = SERVED_POINTERS
            .iter()
            .map(|&name| (name.to_owned(), of_pointer(name).into()))
            .chain(SERVED_NUMBERS.iter().map(|&name| (name.to_owned(), "i32".into())))
            .collect();
        let mut constants = json!({
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_K": tile.block_k,
            "EVEN_K": tile.even_k,
            "SCALING": self.scaling.as_str(),
            // Sums of integers are exact in the instruction and are converted after each step.
            "FAST": self.dtype != DType::Int8,
        });
        let kernel = match self.kernel {
            KernelKind::GroupedMm | KernelKind::ScaledGroupedMm => {
                constants["TMA"] = tma.into();
                "grouped_mm".to_owned()
            }
            kernel => {
                constants["SWAP"] = tile.swap_ab.into();
                format!("{kernel}{}", if tma { "_tma" } else { "" })
            }
        };
        (kernel, types.into(), constants)
    }

    /// Whether every asynchronous copy of both operands must move 16 bytes. Aligned rows allow it
    /// if a thread has 16 bytes to copy. Hopper multiplies TF32 only if both operands run along K.
    /// Other operands are transposed while they are copied, in words of 4 bytes.
    pub(crate) fn expects_wide_copies(&self, tile: &Tile, arch: &str) -> bool {
        let elements = 16 / self.dtype.size() as u32 * 32 * tile.num_warps;
        let along_k = (self.a_layout, self.b_layout) == (Layout::Row, Layout::Column);
        let turned = arch == "sm_90" && self.precision(tile) == "tf32" && !along_k;
        // Scales by block are copied, too, four bytes at a time.
        !turned
            && self.scaling != Scaling::Block
            && self.alignment.a == Alignment::Bytes16
            && self.alignment.b == Alignment::Bytes16
            && tile.block_m * tile.block_k >= elements
            && tile.block_n * tile.block_k >= elements
    }

    /// The divisor that is promised for each argument, in elements. A divisor of 1 promises nothing
    /// and is left out.
    fn divisors(&self) -> serde_json::Map<String, Value> {
        let OperandAlignment { a, b, out } = self.alignment;
        let [a, b] = [a, b].map(|alignment| self.elements(alignment));
        let out = Self::elements_of(out, self.out_dtype());
        let mut divisors: Vec<(&str, u64)> = POINTERS.iter().map(|&name| (name, 16)).collect();
        if !self.kernel.is_plain() {
            divisors = SERVED_POINTERS.iter().map(|&name| (name, 16)).collect();
            divisors.push(("b_group", b));
        }
        let (along_a, along_b) = (
            if self.a_layout == Layout::Row { "K" } else { "M" },
            if self.b_layout == Layout::Row { "N" } else { "K" },
        );
        divisors.extend([("lda", a), ("ldb", b), ("ldc", out)]);
        if self.kernel.is_plain() {
            divisors.extend([("batch_a", a), ("batch_b", b), ("batch_c", out)]);
        }
        // The operand that runs along a size gives the size's divisor. If two operands do, they
        // agree.
        divisors.extend([(along_a, a), (along_b, b), ("N", out)]);
        divisors
            .into_iter()
            .filter(|&(_, divisor)| divisor > 1)
            .map(|(name, divisor)| (name.to_owned(), divisor.into()))
            .collect()
    }
}

fn options(tile: &Tile, arch: &str) -> Value {
    let mut options = json!({
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
        // Inductor's templates are compiled without these checks, too.
        "sanitize_overflow": false,
    });
    if arch.starts_with("gfx")
        && let Some(rocm) = tile.rocm
    {
        // kpack is left out. Inductor records it but does not pass it to the compiler, so the
        // default is what runs.
        options["matrix_instr_nonkdim"] = rocm.matrix_instr_nonkdim.into();
        options["waves_per_eu"] = rocm.waves_per_eu.into();
    }
    options
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Layout, Op, Problem, ProblemFields};

    use super::*;

    fn problem(dtype: DType, [m, n, k]: [u64; 3], [a_layout, b_layout]: [Layout; 2]) -> Problem {
        let fields = ProblemFields::plain(Op::Mm, 1, m, n, k, dtype);
        Problem::new(ProblemFields { a_layout, b_layout, ..fields }).unwrap()
    }

    fn form(fits: bool) -> Form {
        Form { tile: tile(), tma: false, fits }
    }

    fn tile() -> Tile {
        let space = diode_core::space::Space::Named(diode_core::space::SpaceName::Full);
        let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
        let any = problem(DType::BFloat16, [512; 3], [Layout::Row; 2]);
        let configs = space.configs(&hardware, &any).unwrap();
        let mut tiles = configs.iter().filter_map(Config::tile);
        *tiles.find(|tile| (tile.block_m, tile.block_n, tile.block_k) == (64, 64, 32)).unwrap()
    }

    /// What the request tells the compiler: the promises for A and B, whether to compute addresses
    /// anew, and N.
    fn told(variant: &Variant, fits: bool) -> Value {
        let request = variant.request(&form(fits), "sm_90");
        let named = ["A_CONTIGUOUS", "B_CONTIGUOUS", "ANEW", "KNOWN_N"];
        named.map(|name| request["constants"][name].clone()).to_vec().into()
    }

    #[test]
    fn what_nothing_divides_is_contiguous_where_the_tile_fits() {
        use Layout::{Column, Row};
        let cases = [
            // Nothing divides N, along which B runs. In fp32 that is so for an odd N, because four
            // bytes are one element.
            (DType::BFloat16, [100, 101, 304], [Row, Row], true, [false, true], true),
            (DType::BFloat16, [100, 51, 304], [Row, Row], false, [false, false], true),
            (DType::Float32, [100, 101, 304], [Row, Row], true, [false, true], true),
            // Nothing divides M, along which a column-major A runs.
            (DType::BFloat16, [101, 104, 304], [Column, Row], true, [true, false], true),
            // Four bytes are two elements here. That promises nothing, but the access is narrow.
            (DType::BFloat16, [100, 102, 304], [Row, Row], false, [false, false], true),
            // No operand runs along an M or an N that is odd.
            (DType::BFloat16, [100, 104, 303], [Row, Row], false, [false, false], false),
            (DType::BFloat16, [101, 101, 303], [Row, Column], false, [false, false], false),
            (DType::BFloat16, [100, 104, 304], [Row, Row], false, [false, false], false),
        ];
        for (dtype, sizes, layouts, fits, [a, b], anew) in cases {
            let problem = problem(dtype, sizes, layouts);
            let variant = Variant::for_problem(&problem).unwrap();
            assert_eq!(variant.fits(&tile(), &problem), fits, "{dtype} {sizes:?}");
            assert_eq!(told(&variant, fits), json!([a, b, anew, null]), "{dtype} {sizes:?}");
        }
    }

    #[test]
    fn exact_kernels_know_their_sizes_and_promise_what_inductor_does() {
        let narrow = problem(DType::BFloat16, [100, 51, 304], [Layout::Row; 2]);
        let exact = Variant::in_pack(&narrow, true).unwrap();
        assert_eq!(told(&exact, false), json!([true, false, null, 51]));
        let key = exact.key(&form(false));
        assert!(key.ends_with(";sizes=100x51x304") && !key.contains(";anew"), "{key}");
        assert_eq!(exact.request(&form(false), "sm_90")["kernel"], "mm_known");

        let batched = ProblemFields::plain(Op::Bmm, 4, 33, 51, 304, DType::BFloat16);
        let batched = Variant::in_pack(&Problem::new(batched).unwrap(), true).unwrap();
        assert_eq!(told(&batched, false), json!([true, true, null, 51]));
        let general = Variant { sizes: None, ..batched };
        assert!(!general.fit_matters());
        assert_eq!(told(&general, false), json!([false, true, null, null]));
    }
}
