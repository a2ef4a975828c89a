//! The linear layers of a decoder-only transformer.

use std::str::FromStr;

use indexmap::IndexSet;

use super::linear;
use super::spec::{divide, need, parse};
use crate::error::Invalid;
use crate::{DType, Problem};

const WHAT: &str = "transformer";

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
        let [hidden, intermediate, heads, kv_heads, head_dim, vocab] = parse(WHAT, text, names)?;
        let hidden = need(WHAT, "hidden", hidden)?;
        let heads = need(WHAT, "heads", heads)?;
        let head_dim = match head_dim {
            Some(_) => need(WHAT, "head_dim", head_dim)?,
            None => divide(WHAT, "hidden", hidden, heads)?,
        };
        let kv_heads = need(WHAT, "kv_heads", kv_heads.or(Some(heads)))?;
        divide(WHAT, "heads", heads, kv_heads)?;
        Ok(Self {
            hidden,
            intermediate: need(WHAT, "intermediate", intermediate)?,
            heads,
            kv_heads,
            head_dim,
            vocab: vocab.map(|vocab| need(WHAT, "vocab", Some(vocab))).transpose()?,
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
mod tests {
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
