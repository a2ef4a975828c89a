//! The model file: safetensors with one JSON document in its metadata.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::ModelError;
use crate::metadata::Metadata;
use crate::network::{Layer, Network};

/// Far above any model of ours (35 KB), far below what could hurt a browser.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Where the JSON document is in the safetensors metadata. It is the only entry:
/// several would be written in no fixed order.
pub(crate) const KEY: &str = "diode";
pub(crate) const MEAN: &str = "normalisation.mean";
pub(crate) const STD: &str = "normalisation.std";

fn weight(index: usize) -> String {
    format!("layers.{index}.weight")
}

fn bias(index: usize) -> String {
    format!("layers.{index}.bias")
}

pub(crate) fn read(bytes: &[u8]) -> Result<(Metadata, Network), ModelError> {
    if bytes.len() > MAX_BYTES {
        return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
    }
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let document = header
        .metadata()
        .as_ref()
        .and_then(|entries| entries.get(KEY))
        .ok_or(ModelError::NoMetadata { key: KEY })?;
    let metadata: Metadata = serde_json::from_str(document)?;
    let tensors = SafeTensors::deserialize(bytes)?;
    let count = (0..Network::MAX_LAYERS).take_while(|&i| tensors.tensor(&weight(i)).is_ok()).count();
    let layers = (0..count).map(|index| layer(&tensors, index)).collect::<Result<_, _>>()?;
    let expected = 2 + 2 * count;
    if tensors.len() != expected {
        return Err(ModelError::Tensor {
            name: tensors.names().join(", "),
            given: format!("{} tensors", tensors.len()),
            expected: format!("{expected}: {MEAN}, {STD} and a weight and bias per layer"),
        });
    }
    let (mean, std) = (vector(&tensors, MEAN)?, vector(&tensors, STD)?);
    Ok((metadata, Network::new(mean, std, layers)?))
}

fn layer(tensors: &SafeTensors<'_>, index: usize) -> Result<Layer, ModelError> {
    let name = weight(index);
    let (shape, weights) = floats(tensors, &name)?;
    let [outputs, inputs] = shape[..] else {
        return Err(ModelError::Tensor {
            name,
            given: format!("shape {shape:?}"),
            expected: "[outputs, inputs]".to_owned(),
        });
    };
    Ok(Layer { inputs, outputs, weights, bias: vector(tensors, &bias(index))? })
}

fn vector(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, ModelError> {
    let (shape, values) = floats(tensors, name)?;
    if shape.len() != 1 {
        return Err(ModelError::Tensor {
            name: name.to_owned(),
            given: format!("shape {shape:?}"),
            expected: "one dimension".to_owned(),
        });
    }
    Ok(values)
}

fn floats(tensors: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
    let view = tensors.tensor(name)?;
    if view.dtype() != Dtype::F32 {
        return Err(ModelError::Tensor {
            name: name.to_owned(),
            given: format!("{:?}", view.dtype()),
            expected: "F32".to_owned(),
        });
    }
    let (chunks, _) = view.data().as_chunks::<4>();
    Ok((view.shape().to_vec(), chunks.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()))
}

pub(crate) fn write(metadata: &Metadata, network: &Network) -> Result<Vec<u8>, ModelError> {
    let mut parts = vec![
        (MEAN.to_owned(), vec![network.mean().len()], bytes(network.mean())),
        (STD.to_owned(), vec![network.std().len()], bytes(network.std())),
    ];
    for (index, layer) in network.layers().iter().enumerate() {
        parts.push((weight(index), vec![layer.outputs, layer.inputs], bytes(&layer.weights)));
        parts.push((bias(index), vec![layer.bias.len()], bytes(&layer.bias)));
    }
    let views = parts
        .iter()
        .map(|(name, shape, data)| Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    let document = HashMap::from([(KEY.to_owned(), serde_json::to_string(metadata)?)]);
    Ok(safetensors::serialize(views, Some(document))?)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
