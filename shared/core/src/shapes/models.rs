//! The multiplications in models of given sizes.

use std::str::FromStr;

use indexmap::IndexSet;

use crate::error::{Field, Invalid};
use crate::{DType, Layout, Op, Problem, ProblemFields};

/// The product of activations and a weight as `nn.Linear` stores it: B is in columns.
fn linear(m: u64, n: u64, k: u64, dtype: DType) -> Result<Problem, Invalid> {
    let plain = ProblemFields::plain(Op::Mm, 1, m, n, k, dtype);
    Problem::new(ProblemFields { b_layout: Layout::Column, ..plain })
}

/// The values of these names, in the order of the names. A name without a value gives `None`.
fn parse<const N: usize>(what: &str, text: &str, names: [&str; N]) -> Result<[Option<u64>; N], Invalid> {
    let mut values = [None; N];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let expected = || format!("name=size with a name of {}", names.join(", "));
        let refuse = || Invalid::new(what, format_args!("`{part}`"), expected());
        let (name, value) = part.split_once('=').ok_or_else(refuse)?;
        let place = names.iter().position(|known| *known == name.trim()).ok_or_else(refuse)?;
        let value: u64 = value.trim().parse().map_err(|_| refuse())?;
        if value > Problem::MAX_DIM {
            let expected = format!("at most {}", Problem::MAX_DIM);
            return Err(Invalid::new(name, value, expected).within(what));
        }
        if values[place].replace(value).is_some() {
            return Err(Invalid::new(name, "two values", "one").within(what));
        }
    }
    Ok(values)
}

/// A size that must be given and must be more than 0.
fn need(what: &str, name: &str, value: Option<u64>) -> Result<u64, Invalid> {
    match value {
        Some(value) if value > 0 => Ok(value),
        Some(value) => Err(Invalid::new(name, value, "more than 0").within(what)),
        None => Err(Invalid::new(name, "none", format!("a size, such as {name}=64")).within(what)),
    }
}

/// A size divided by a number of parts, without remainder.
fn divide(what: &str, name: &str, size: u64, parts: u64) -> Result<u64, Invalid> {
    if parts > 0 && size.is_multiple_of(parts) {
        Ok(size / parts)
    } else {
        Err(Invalid::new(name, size, format!("a multiple of {parts}")).within(what))
    }
}

const CONVOLUTION: &str = "convolution";

/// A two-dimensional convolution of square images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    in_channels: u64,
    out_channels: u64,
    kernel: u64,
    stride: u64,
    padding: u64,
    size: u64,
}

impl FromStr for Convolution {
    type Err = Invalid;

    /// Reads `in=64,out=128,kernel=3,size=56`. `stride` (by default 1) and `padding` (by default 0)
    /// may be added.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let names = ["in", "out", "kernel", "stride", "padding", "size"];
        let [in_channels, out_channels, kernel, stride, padding, size] = parse(CONVOLUTION, text, names)?;
        let convolution = Self {
            in_channels: need(CONVOLUTION, "in", in_channels)?,
            out_channels: need(CONVOLUTION, "out", out_channels)?,
            kernel: need(CONVOLUTION, "kernel", kernel)?,
            stride: need(CONVOLUTION, "stride", stride.or(Some(1)))?,
            padding: padding.unwrap_or(0),
            size: need(CONVOLUTION, "size", size)?,
        };
        let padded = convolution.padded();
        if convolution.kernel > padded {
            let expected = format!("at most {padded}, the size of the padded image");
            return Err(Invalid::new("kernel", convolution.kernel, expected).within(CONVOLUTION));
        }
        Ok(convolution)
    }
}

impl Convolution {
    /// The problem for this many images at once: a row per output pixel, a column per output
    /// channel.
    ///
    /// ```
    /// use diode_core::DType;
    /// use diode_core::shapes::Convolution;
    ///
    /// let first: Convolution = "in=3,out=64,kernel=7,stride=2,padding=3,size=224".parse()?;
    /// assert_eq!(first.problem(32, DType::Float16)?.dims(), "401408×64×147");
    /// # Ok::<(), diode_core::Invalid>(())
    /// ```
    pub fn problem(&self, images: u64, dtype: DType) -> Result<Problem, Invalid> {
        let side = (self.padded() - self.kernel) / self.stride + 1;
        // Sizes are at most 2^31. If a product saturates, `linear` refuses it as too large.
        let m = images.saturating_mul(side.saturating_mul(side));
        let k = self.in_channels.saturating_mul(self.kernel.saturating_mul(self.kernel));
        linear(m, self.out_channels, k, dtype).map_err(|mut invalid| {
            // Users describe a convolution without M, N and K, so the message explains the size.
            let meaning = match invalid.field() {
                Some(Field::M) => " (images × pixels of the output)",
                Some(Field::N) => " (out)",
                Some(Field::K) => " (in × kernel²)",
                _ => "",
            };
            invalid.subject = format!("{}{meaning}", invalid.subject).into();
            invalid.within(CONVOLUTION)
        })
    }

    fn padded(&self) -> u64 {
        self.size + 2 * self.padding
    }
}

const TRANSFORMER: &str = "transformer";

/// The sizes of a transformer with gated feed-forward layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformer {
    hidden: u64,
    intermediate: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    vocab: Option<u64>,
}

impl FromStr for Transformer {
    type Err = Invalid;

    /// Reads `hidden=4096,intermediate=11008,heads=32`. `kv_heads` (by default `heads`) and
    /// `head_dim` (by default `hidden` / `heads`) may be added. `vocab` adds a last layer, which
    /// computes the next word.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let names = ["hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab"];
        let [hidden, intermediate, heads, kv_heads, head_dim, vocab] = parse(TRANSFORMER, text, names)?;
        let hidden = need(TRANSFORMER, "hidden", hidden)?;
        let heads = need(TRANSFORMER, "heads", heads)?;
        let head_dim = match head_dim {
            Some(_) => need(TRANSFORMER, "head_dim", head_dim)?,
            None => divide(TRANSFORMER, "hidden", hidden, heads)?,
        };
        let kv_heads = need(TRANSFORMER, "kv_heads", kv_heads.or(Some(heads)))?;
        divide(TRANSFORMER, "heads", heads, kv_heads)?;
        Ok(Self {
            hidden,
            intermediate: need(TRANSFORMER, "intermediate", intermediate)?,
            heads,
            kv_heads,
            head_dim,
            vocab: vocab.map(|vocab| need(TRANSFORMER, "vocab", Some(vocab))).transpose()?,
        })
    }
}

/// What the transformer computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The lengths of the prompts, in tokens. Each prompt is read at once.
    pub prefill_tokens: Vec<u64>,
    /// Numbers of sequences that are continued together, by one token each.
    pub decode_batches: Vec<u64>,
    /// The number of devices among which every layer is split.
    pub tensor_parallel: u64,
}

impl Transformer {
    /// The distinct problems that one device computes. For each token count these are the fused
    /// query, key and value projection, the attention's output, the fused gate and up projection,
    /// and the down projection. The last layer has one row per sequence.
    ///
    /// ```
    /// use diode_core::DType;
    /// use diode_core::shapes::{Transformer, Workload};
    ///
    /// let llama: Transformer = "hidden=4096,intermediate=11008,heads=32".parse()?;
    /// let decode =
    ///     Workload { prefill_tokens: vec![], decode_batches: vec![8], tensor_parallel: 1 };
    /// let problems = llama.problems(&decode, DType::BFloat16)?;
    /// let dims: Vec<_> = problems.iter().map(|p| p.dims()).collect();
    /// assert_eq!(dims, ["8×12288×4096", "8×4096×4096", "8×22016×4096", "8×4096×11008"]);
    /// # Ok::<(), diode_core::Invalid>(())
    /// ```
    pub fn problems(&self, workload: &Workload, dtype: DType) -> Result<Vec<Problem>, Invalid> {
        let device = self.share(workload.tensor_parallel)?;
        let mut problems = IndexSet::new();
        let prompts = workload.prefill_tokens.iter().map(|&tokens| (tokens, 1));
        let continued = workload.decode_batches.iter().map(|&sequences| (sequences, sequences));
        for (tokens, sequences) in prompts.chain(continued) {
            for (n, k) in device.layers {
                problems.insert(linear(tokens, n, k, dtype)?);
            }
            if let Some((n, k)) = device.last {
                problems.insert(linear(sequences, n, k, dtype)?);
            }
        }
        Ok(problems.into_iter().collect())
    }

    /// The part of the layers on one device. If there are fewer heads of keys and values than
    /// devices, every device holds a copy of one such head.
    fn share(&self, devices: u64) -> Result<Share, Invalid> {
        let split = |name, size| divide("tensor parallelism", name, size, devices);
        let heads = split("heads", self.heads)?;
        let kv_heads = if self.kv_heads < devices {
            divide("tensor parallelism", "devices", devices, self.kv_heads)?;
            1
        } else {
            split("kv_heads", self.kv_heads)?
        };
        let intermediate = split("intermediate", self.intermediate)?;
        let layers = [
            ((heads + 2 * kv_heads) * self.head_dim, self.hidden),
            (self.hidden, heads * self.head_dim),
            (2 * intermediate, self.hidden),
            (self.hidden, intermediate),
        ];
        let vocab = self.vocab.map(|vocab| split("vocab", vocab)).transpose()?;
        Ok(Share { layers, last: vocab.map(|vocab| (vocab, self.hidden)) })
    }
}

/// The N and K of the layers on one device.
struct Share {
    layers: [(u64, u64); 4],
    last: Option<(u64, u64)>,
}

#[cfg(test)]
mod convolution_tests {
    use super::*;

    #[test]
    fn pixels_become_rows_and_patches_columns() {
        let dims = |spec: &str, images| {
            spec.parse::<Convolution>().unwrap().problem(images, DType::Float16).unwrap().dims()
        };
        assert_eq!(dims("in=64,out=64,kernel=1,size=56", 1), "3136×64×64");
        assert_eq!(dims("in=64,out=128,kernel=3,stride=2,padding=1,size=56", 8), "6272×128×576");
        assert_eq!(dims("in=16,out=8,kernel=5,size=5", 1), "1×8×400");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (spec, words) in [
            ("in=64,out=64,size=56", "convolution: kernel: got none"),
            ("in=64,out=64,kernel=7,size=4,padding=1", "kernel: got 7, expected at most 6"),
            ("in=64,out=64,kernel=3,size=8,stride=0", "stride: got 0"),
        ] {
            let error = spec.parse::<Convolution>().unwrap_err().to_string();
            assert!(error.contains(words), "{spec}: {error}");
        }
        let huge: Convolution = "in=2147483648,out=1,kernel=2147483648,size=2147483648".parse().unwrap();
        let error = huge.problem(1, DType::Float16).unwrap_err().to_string();
        assert!(
            error.starts_with("convolution: K (in × kernel²): got 18446744073709551615, expected"),
            "{error}"
        );
    }
}

#[cfg(test)]
mod transformer_tests {
    use super::*;
    use crate::Layout;

    fn dims(spec: &str, prefill: &[u64], decode: &[u64], devices: u64) -> Result<Vec<String>, Invalid> {
        let workload = Workload {
            prefill_tokens: prefill.to_vec(),
            decode_batches: decode.to_vec(),
            tensor_parallel: devices,
        };
        let problems = spec.parse::<Transformer>()?.problems(&workload, DType::BFloat16)?;
        assert!(problems.iter().all(|p| p.b_layout == Layout::Column));
        Ok(problems.iter().map(Problem::dims).collect())
    }

    const GROUPED: &str = "hidden=4096,intermediate=14336,heads=32,kv_heads=8,vocab=128256";

    #[test]
    fn prompts_and_decoding_differ_in_the_last_layer() {
        assert_eq!(
            dims(GROUPED, &[512], &[16], 1).unwrap(),
            [
                "512×6144×4096",
                "512×4096×4096",
                "512×28672×4096",
                "512×4096×14336",
                "1×128256×4096",
                "16×6144×4096",
                "16×4096×4096",
                "16×28672×4096",
                "16×4096×14336",
                "16×128256×4096",
            ]
        );
    }

    #[test]
    fn devices_share_heads_and_columns() {
        assert_eq!(
            dims(GROUPED, &[], &[1], 8).unwrap(),
            ["1×768×4096", "1×4096×512", "1×3584×4096", "1×4096×1792", "1×16032×4096"]
        );
        // With eight heads of keys and values on 16 devices, each device has one head and each head
        // is on two.
        assert_eq!(dims(GROUPED, &[], &[1], 16).unwrap()[0], "1×512×4096");
    }

    #[test]
    fn heads_may_have_a_size_of_their_own_and_equal_problems_come_once() {
        let wide = "hidden=2048,intermediate=2048,heads=16,head_dim=256";
        assert_eq!(
            dims(wide, &[4], &[4], 1).unwrap(),
            ["4×12288×2048", "4×2048×4096", "4×4096×2048", "4×2048×2048"]
        );
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (spec, devices, words) in [
            ("hidden=4096,intermediate=1", 1, "transformer: heads: got none"),
            (
                "hidden=4096,intermediate=1,heads=3",
                1,
                "transformer: hidden: got 4096, expected a multiple of 3",
            ),
            ("hidden=8,intermediate=8,heads=8,kv_heads=3", 1, "heads: got 8, expected a multiple of 3"),
            ("hidden=8,intermediate=8,heads=0", 1, "heads: got 0, expected more than 0"),
            ("hidden=8,hidden=8,intermediate=8,heads=8", 1, "hidden: got two values"),
            ("hiden=8", 1, "got `hiden=8`, expected name=size with a name of hidden, intermediate"),
            (
                "hidden=8,intermediate=8,heads=8",
                3,
                "tensor parallelism: heads: got 8, expected a multiple of 3",
            ),
            ("hidden=8,intermediate=8,heads=8", 0, "a multiple of 0"),
            ("hidden=99999999999,intermediate=8,heads=8", 1, "at most 2147483648"),
        ] {
            let error = dims(spec, &[1], &[], devices).unwrap_err().to_string();
            assert!(error.contains(words), "{spec}: {error}");
        }
    }
}
