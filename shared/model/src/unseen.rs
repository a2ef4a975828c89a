//! The models of a cross-validation, in one file. For each problem of the training data, one of these models
//! was not trained on it.

use std::collections::{BTreeMap, HashMap};

use diode_core::{Problem, hash_of_size};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::file::digest;
use crate::{Misfit, ModelError};

/// Far more than four models and the sizes of a million problems take.
const MAX_BYTES: usize = 64 << 20;
/// The key of the tensors' digest in the safetensors metadata. It is the only entry.
const KEY: &str = "diode_unseen";
/// The tensor with the hashes of sizes, in order.
const SIZES: &str = "sizes";
/// The tensor with a number for each size: which model was not trained on it.
const FOLDS: &str = "folds";

/// Model files. Each has the sizes of the problems that the model was not trained on.
///
/// A size is stored as its [`hash_of_size`]. Of 37 million files with a million sizes each, one has two
/// sizes with the same 64-bit hash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnseenModels {
    files: Vec<Vec<u8>>,
    fold_of_size: BTreeMap<u64, u8>,
}

fn model_name(fold: usize) -> String {
    format!("models.{fold}")
}

impl UnseenModels {
    /// Adds a model's file, and the sizes that the model was not trained on.
    pub fn add(&mut self, file: Vec<u8>, sizes: impl IntoIterator<Item = u64>) -> Result<(), ModelError> {
        let fold = u8::try_from(self.files.len())
            .map_err(|_| misfit(FOLDS, format!("{} models", self.files.len() + 1), "at most 256"))?;
        self.files.push(file);
        self.fold_of_size.extend(sizes.into_iter().map(|size| (size, fold)));
        Ok(())
    }

    /// The file of the model that was not trained on a problem. `None` if the file lists no model for its
    /// size.
    pub fn for_problem(&self, problem: &Problem) -> Option<&[u8]> {
        let fold = self.fold_of_size.get(&hash_of_size(problem))?;
        self.files.get(usize::from(*fold)).map(Vec::as_slice)
    }

    /// Reads a file of models. The models in it are not checked until they are read.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > MAX_BYTES {
            return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
        }
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(KEY));
        let expected = entry.ok_or(ModelError::NoMetadata { key: KEY })?.parse()?;
        let tensors = SafeTensors::deserialize(bytes)?;
        let given = digest(tensors.iter().map(|(name, view)| (name, view.data())).collect());
        if given != expected {
            return Err(ModelError::Damaged { given, expected });
        }
        let files: Vec<Vec<u8>> = (0..)
            .map_while(|fold| tensors.tensor(&model_name(fold)).ok())
            .map(|view| view.data().to_vec())
            .collect();
        let sizes = tensors.tensor(SIZES)?;
        let sizes = sizes.data().as_chunks::<8>().0.iter().map(|&bytes| u64::from_le_bytes(bytes));
        let folds = tensors.tensor(FOLDS)?.data();
        if sizes.len() != folds.len() {
            return Err(misfit(FOLDS, format!("{} values", folds.len()), &sizes.len().to_string()));
        }
        if let Some(fold) = folds.iter().find(|fold| usize::from(**fold) >= files.len()) {
            return Err(misfit(FOLDS, fold.to_string(), &format!("a number below {}", files.len())));
        }
        let fold_of_size = sizes.zip(folds.iter().copied()).collect();
        Ok(Self { files, fold_of_size })
    }

    /// The bytes of the file. The same models always give the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let sizes: Vec<u8> = self.fold_of_size.keys().flat_map(|size| size.to_le_bytes()).collect();
        let folds: Vec<u8> = self.fold_of_size.values().copied().collect();
        let names: Vec<String> = (0..self.files.len()).map(model_name).collect();
        let bytes = |data| TensorView::new(Dtype::U8, vec![<[u8]>::len(data)], data);
        let mut views = vec![
            (SIZES, TensorView::new(Dtype::U64, vec![self.fold_of_size.len()], &sizes)?),
            (FOLDS, bytes(&folds)?),
        ];
        for (name, file) in names.iter().zip(&self.files) {
            views.push((name, bytes(file)?));
        }
        let digest = digest(views.iter().map(|(name, view)| (*name, view.data())).collect());
        let metadata = HashMap::from([(KEY.to_owned(), digest.to_string())]);
        Ok(safetensors::serialize(views, Some(metadata))?)
    }
}

fn misfit(name: &str, given: String, expected: &str) -> ModelError {
    Misfit { name: name.to_owned(), given, expected: expected.to_owned() }.into()
}
