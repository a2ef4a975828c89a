//! Our file for a network of torch-diode's types. It is a safetensors file with the network's own
//! tensor names, the scale of the columns and one JSON document.

use std::collections::{BTreeMap, HashMap};

use diode_core::{SavedTensor, SavedValues, TorchCheckpoint};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::model::{PredecessorMetadata, PredecessorModel, Scale};
use crate::file::{KEY, MAX_BYTES, MEAN, STD};
use crate::{Misfit, ModelError};

/// The key of the JSON document that only these models have.
const MARK: &str = "architecture";

/// Whether a model file holds a network of one of torch-diode's types.
pub fn is_predecessor_file(bytes: &[u8]) -> bool {
    let document = SafeTensors::read_metadata(bytes).ok().and_then(|(_, header)| {
        let text = header.metadata().as_ref()?.get(KEY)?.clone();
        serde_json::from_str::<serde_json::Value>(&text).ok()
    });
    document.is_some_and(|document| document.get(MARK).is_some())
}

impl PredecessorModel {
    /// Reads a file that [`to_bytes`](Self::to_bytes) made. Everything in it is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MAX_BYTES {
            return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
        }
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let document = header.metadata().as_ref().and_then(|entries| entries.get(KEY));
        let metadata: PredecessorMetadata =
            serde_json::from_str(document.ok_or(ModelError::NoMetadata { key: KEY })?)?;
        let tensors = SafeTensors::deserialize(bytes)?;
        let mut checkpoint = TorchCheckpoint::default();
        let mut scale = BTreeMap::new();
        for (name, view) in tensors.tensors() {
            if view.dtype() != Dtype::F32 {
                let (given, expected) = (format!("{:?}", view.dtype()), "F32".to_owned());
                return Err(Misfit { name, given, expected }.into());
            }
            let (chunks, _) = view.data().as_chunks::<4>();
            let values: Vec<f32> = chunks.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            if name == MEAN || name == STD {
                scale.insert(name, values);
            } else {
                let values = SavedValues::Float32(values);
                checkpoint.tensors.insert(name, SavedTensor { shape: view.shape().to_vec(), values });
            }
        }
        let mut column = |name| scale.remove(name).unwrap_or_default();
        let (mean, std) = (column(MEAN), column(STD));
        Self::trained(metadata, checkpoint, mean, std)
    }

    /// The model file. The same model always gives the same bytes. A model from torch-diode's
    /// checkpoint has no file, because its metadata are not known.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let (Some(metadata), Some(Scale { mean, std })) = (&self.metadata, &self.scale) else {
            return Err(ModelError::NoMetadata { key: KEY });
        };
        let floats = self.checkpoint.tensors.iter().filter_map(|(name, tensor)| match &tensor.values {
            SavedValues::Float32(values) => Some((name.as_str(), tensor.shape.clone(), values.as_slice())),
            SavedValues::Int64(_) => None,
        });
        let scale = [(MEAN, vec![mean.len()], mean.as_slice()), (STD, vec![std.len()], std.as_slice())];
        let bytes: Vec<(&str, Vec<usize>, Vec<u8>)> = floats
            .chain(scale)
            .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
            .collect();
        let views = bytes
            .iter()
            .map(|(name, shape, data)| Ok((*name, TensorView::new(Dtype::F32, shape.clone(), data)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        let document = HashMap::from([(KEY.to_owned(), serde_json::to_string(metadata)?)]);
        Ok(safetensors::serialize(views, Some(document))?)
    }
}
