//! What a way of serving a model computes, layer by layer, and the file from which each layer's configs are read.

use std::collections::HashSet;

use diode_core::hardware::Hardware;
use diode_core::{DType, KernelVariant, Problem, ProblemFields, Scaling, named_enum};

use crate::file_body::BATCH_SIZES;
use crate::file_names::{Consumer, FileKey, device_name};
use crate::layers::{DenseLayer, ExpertsLayer, LayersError, Serving};
use crate::model_config::{Architecture, Quantization};

named_enum! {
    /// A program that reads tuned configs.
    Reader("consumer") {
        Vllm = "vllm",
        Sglang = "sglang",
        Inductor = "inductor",
    }
}

impl Reader {
    /// The server, if it is one.
    pub const fn server(self) -> Option<Consumer> {
        match self {
            Self::Vllm => Some(Consumer::Vllm),
            Self::Sglang => Some(Consumer::Sglang),
            Self::Inductor => None,
        }
    }
}

/// The name of Inductor's file.
pub const LOOKUP_TABLE: &str = "lookup.json";

/// The multiplications of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    Dense(DenseLayer),
    Experts(ExpertsLayer),
}

/// A layer, and where its configs are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedLayer {
    pub layer: Layer,
    pub quantization: Quantization,
    /// The files' paths below the folder that the program is told. Of SGLang's experts there are two: for both
    /// multiplications, and for the second alone. Empty if the program reads none for such a layer.
    pub files: Vec<String>,
}

impl ServedLayer {
    pub fn name(&self) -> &str {
        match &self.layer {
            Layer::Dense(layer) => &layer.name,
            Layer::Experts(_) => "experts",
        }
    }

    /// The columns and depth of its first multiplication, and how often one forward pass computes it.
    pub fn sizes(&self) -> (u64, u64, u64) {
        match &self.layer {
            Layer::Dense(layer) => (layer.n, layer.k, layer.count),
            Layer::Experts(layer) => (layer.n, layer.hidden, layer.count),
        }
    }

    /// What a batch of this many tokens computes, in the fp8 that the hardware multiplies.
    pub fn problems(&self, tokens: u64, hardware: &Hardware) -> Result<Vec<Problem>, LayersError> {
        let problems = match &self.layer {
            Layer::Dense(layer) => vec![layer.problem(tokens, self.quantization)?],
            Layer::Experts(layer) => layer.problems(tokens)?.into(),
        };
        problems.into_iter().map(|problem| in_own_fp8(problem, hardware)).collect()
    }
}

/// The problem in the fp8 of AMD's GPUs, if the hardware multiplies no other.
fn in_own_fp8(problem: Problem, hardware: &Hardware) -> Result<Problem, LayersError> {
    const FNUZ: DType = DType::Float8E4M3Fnuz;
    if !problem.a_dtype.is_fp8() || !hardware.scales(FNUZ) {
        return Ok(problem);
    }
    let fields = ProblemFields { a_dtype: FNUZ, b_dtype: FNUZ, ..problem.into_fields() };
    Problem::new(fields).map_err(LayersError::Invalid)
}

/// Whether there are kernels that compute a problem. Those for blocks of scales copy whole blocks.
pub fn has_kernels(problem: &Problem) -> bool {
    let whole = problem.scaling != Scaling::Block
        || [problem.n, problem.k].iter().all(|size| size.is_multiple_of(Scaling::BLOCK));
    whole && KernelVariant::for_problem(problem).is_ok()
}

impl Architecture {
    /// The layers that a program computes, experts last.
    pub fn served_layers(
        &self,
        serving: &Serving,
        reader: Reader,
        hardware: &Hardware,
    ) -> Result<Vec<ServedLayer>, LayersError> {
        let quantization = serving.quantization;
        let dense = self.dense_layers(serving)?;
        let of = |layer, files| ServedLayer { layer, quantization, files };
        let Some(server) = reader.server() else {
            if quantization != Quantization::Bf16 {
                return Err(LayersError::Unknown(format!(
                    "quantization: got {quantization} for inductor, expected bf16: Inductor's lookup table has no scaled \
                     multiplications"
                )));
            }
            let mut seen = HashSet::new();
            let apart = dense.iter().flat_map(DenseLayer::apart);
            let new = apart.filter(|layer| seen.insert((layer.n, layer.k, layer.rows)));
            return Ok(new.map(|layer| of(Layer::Dense(layer), vec![LOOKUP_TABLE.to_owned()])).collect());
        };
        let reads_dense =
            server == Consumer::Sglang && self.experts.is_none() && quantization == Quantization::Fp8Block;
        let device = device_name(hardware, server, true);
        let mut layers = Vec::new();
        for layer in dense {
            let mut files = Vec::new();
            if reads_dense && layer.quantized {
                if let Some(odd) = [layer.n, layer.k].iter().find(|size| !size.is_multiple_of(Scaling::BLOCK))
                {
                    let given = format!("{odd} rows or columns of {} on each GPU", layer.name);
                    return Err(LayersError::Blocks {
                        given,
                        expected: "a multiple of 128, as SGLang's kernel needs",
                    });
                }
                files.push(layer.key(device.clone()).name(server));
            }
            layers.push(of(Layer::Dense(layer), files));
        }
        if self.experts.is_some() {
            let layer = self.experts_layer(serving, server)?;
            let key = layer.key(device_name(hardware, server, false), server);
            let folder = server.folder(server.triton());
            let mut files = vec![format!("{folder}{}", key.name(server))];
            if server == Consumer::Sglang {
                files.push(format!("{folder}{}", FileKey { down: true, ..key }.name(server)));
            }
            layers.push(of(Layer::Experts(layer), files));
        }
        Ok(layers)
    }

    /// Every problem of a way of serving, at the usual batch sizes, once.
    pub fn problems(
        &self,
        serving: &Serving,
        reader: Reader,
        hardware: &Hardware,
    ) -> Result<Vec<Problem>, LayersError> {
        let (mut problems, mut seen) = (Vec::new(), HashSet::new());
        for layer in self.served_layers(serving, reader, hardware)? {
            for batch in BATCH_SIZES {
                problems.extend(layer.problems(batch, hardware)?);
            }
        }
        problems.retain(|problem| seen.insert(problem.clone()));
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use diode_core::Op;
    use diode_core::hardware::find;

    use super::*;
    use crate::catalogue;

    fn served(model: &str, serving: &Serving, reader: Reader, hardware: &str) -> Vec<ServedLayer> {
        let architecture = catalogue::find(model).unwrap().architecture().unwrap();
        architecture.served_layers(serving, reader, &find(hardware).unwrap()).unwrap()
    }

    const BLOCK: Serving =
        Serving { tensor_parallel: 4, expert_parallel: 1, quantization: Quantization::Fp8Block };
    const BF16: Serving = Serving { quantization: Quantization::Bf16, ..BLOCK };

    #[test]
    fn each_program_reads_files_of_its_own_layers() {
        let files = |model, serving, reader| -> Vec<String> {
            served(model, serving, reader, "nvidia-h200").into_iter().flat_map(|layer| layer.files).collect()
        };
        let experts = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        assert_eq!(files("Qwen3-235B-A22B", &BLOCK, Reader::Vllm), [experts]);
        let of_sglang = files("Qwen3-235B-A22B", &BLOCK, Reader::Sglang);
        assert_eq!(of_sglang.len(), 2);
        assert!(
            of_sglang[1].starts_with("configs/triton_3_8_0/E=128,N=384,")
                && of_sglang[1].ends_with("_down.json")
        );
        assert_eq!(files("Qwen3-32B", &BLOCK, Reader::Vllm), [""; 0]);
        let dense = files("Qwen3-32B", &BLOCK, Reader::Sglang);
        assert!(dense.len() == 4 && dense[0].starts_with("N="), "{dense:?}");
        let inductor = files("Qwen3-32B", &BF16, Reader::Inductor);
        assert!(inductor.len() > 4 && inductor.iter().all(|file| file == LOOKUP_TABLE));
        let architecture = catalogue::find("Qwen3-32B").unwrap().architecture().unwrap();
        let refused = architecture.served_layers(&BLOCK, Reader::Inductor, &find("nvidia-h200").unwrap());
        assert!(refused.unwrap_err().to_string().contains("no scaled"));
    }

    #[test]
    fn problems_are_in_the_fp8_of_the_hardware_and_stand_once() {
        let architecture = catalogue::find("Qwen3-30B-A3B").unwrap().architecture().unwrap();
        for (hardware, fp8) in [("nvidia-h200", DType::Float8E4M3), ("amd-mi300x", DType::Float8E4M3Fnuz)] {
            let problems = architecture.problems(&BLOCK, Reader::Vllm, &find(hardware).unwrap()).unwrap();
            let unique: HashSet<_> = problems.iter().map(Problem::id).collect();
            assert!(problems.len() > 100 && unique.len() == problems.len());
            let experts = problems.iter().filter(|problem| problem.op == Op::FusedMoe);
            let dtypes: Vec<DType> = experts.map(|problem| problem.a_dtype).collect();
            assert_eq!(dtypes, [fp8; 36]);
        }
    }

    #[test]
    fn kernels_copy_whole_blocks_of_scales() {
        let problem = |n, k| DenseLayer::of_sizes(n, k).problem(16, Quantization::Fp8Block).unwrap();
        assert!(has_kernels(&problem(4096, 7168)) && !has_kernels(&problem(4160, 7168)));
        assert!(has_kernels(&DenseLayer::of_sizes(4160, 7168).problem(16, Quantization::Bf16).unwrap()));
    }
}
