//! The model file: safetensors with one JSON document in its metadata.

use std::collections::{BTreeMap, HashMap};

use diode_core::ids::Digest;
use diode_core::{Problem, hash_of_size};
use half::f16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::metadata::Metadata;
use crate::{
    Layer, MAX_NETWORKS, Misfit, Model, ModelError, Network, Serving, ServingAbout, TileNetwork, TileValues,
};

/// Far more than our models have (600 kB), and far less than a browser can hold.
pub const MAX_BYTES: usize = 16 << 20;
/// The key of the JSON document in the safetensors metadata. It is the only entry, because several
/// entries would be written in no fixed order.
pub const KEY: &str = "diode";
pub const MEAN: &str = "normalisation.mean";
pub const STD: &str = "normalisation.std";
/// The tiles that the networks have values for, with a row for each: the settings that identify it.
const TILES: &str = "tiles";
/// The values of each tile.
const VALUES: &str = "tiles.values";
/// The names of the tensors of a further network begin with this and its number.
const FURTHER: &str = "further.";
/// The names of the tensors that predict the library begin with this.
const LIBRARY: &str = "library.";
/// The same for the library that rounds float32 to TF32.
const ROUNDING_LIBRARY: &str = "rounding_library.";
/// The names of the tensors for scaled, grouped and experts problems begin with this and the network's number.
const SERVING: &str = "serving.";
/// The same for the network that predicts what runs untuned there.
const SERVING_LIBRARY: &str = "serving_library.";

/// The content of a file.
pub(crate) struct Parts {
    pub(crate) metadata: Metadata,
    pub(crate) network: TileNetwork,
    pub(crate) further: Vec<TileNetwork>,
    pub(crate) library: Option<Network>,
    pub(crate) rounding_library: Option<Network>,
    pub(crate) serving: Option<Serving>,
}

/// The JSON document, as it is written.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    metadata: &'a Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<&'a ServingAbout>,
    /// The digest of every tensor's name and bytes.
    tensors: Digest,
}

/// Reads the digest alone. Reading all with `flatten` takes more code, which browsers would download.
#[derive(Deserialize)]
struct Tensors {
    tensors: Digest,
    #[serde(default)]
    serving: Option<ServingAbout>,
}

/// Reads the feature set alone. It decides whether the rest of the document can be read.
#[derive(Deserialize)]
struct FeatureSet {
    feature_set: String,
}

fn weight(prefix: &str, index: usize) -> String {
    format!("{prefix}layers.{index}.weight")
}

fn bias(prefix: &str, index: usize) -> String {
    format!("{prefix}layers.{index}.bias")
}

pub(crate) fn read(bytes: &[u8]) -> Result<Parts, ModelError> {
    if bytes.len() > MAX_BYTES {
        return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_BYTES });
    }
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    let document = header
        .metadata()
        .as_ref()
        .and_then(|entries| entries.get(KEY))
        .ok_or(ModelError::NoMetadata { key: KEY })?;
    let FeatureSet { feature_set } = serde_json::from_str(document)?;
    if feature_set != crate::FEATURE_SET {
        return Err(ModelError::UnknownFeatureSet { given: feature_set, expected: crate::FEATURE_SET });
    }
    let metadata = serde_json::from_str(document)?;
    let Tensors { tensors: expected, serving: about } = serde_json::from_str(document)?;
    let tensors = SafeTensors::deserialize(bytes)?;
    let given = digest(tensors.iter().map(|(name, view)| (name, view.data())).collect());
    if given != expected {
        return Err(ModelError::Damaged { given, expected });
    }
    let network = tile_network(&tensors, "")?;
    let further = (0..Model::MAX_FURTHER)
        .map(further_prefix)
        .take_while(|prefix| tensors.tensor(&weight(prefix, 0)).is_ok())
        .map(|prefix| tile_network(&tensors, &prefix))
        .collect::<Result<Vec<_>, _>>()?;
    let optional =
        |prefix| tensors.tensor(&weight(prefix, 0)).is_ok().then(|| self::network(&tensors, prefix));
    let (library, rounding_library) =
        (optional(LIBRARY).transpose()?, optional(ROUNDING_LIBRARY).transpose()?);
    let is_told = about.is_some();
    let serving_library = optional(SERVING_LIBRARY).filter(|_| is_told).transpose()?;
    let serving: Vec<Network> = (0..MAX_NETWORKS)
        .filter(|_| is_told)
        .map(serving_prefix)
        .take_while(|prefix| tensors.tensor(&weight(prefix, 0)).is_ok())
        .map(|prefix| self::network(&tensors, &prefix))
        .collect::<Result<_, _>>()?;
    let of_tiles = || std::iter::once(&network).chain(&further);
    let networks = of_tiles().map(TileNetwork::dense).chain(&library).chain(&rounding_library);
    let networks = networks.chain(&serving).chain(&serving_library);
    let with_values = of_tiles().filter(|network| network.values().is_some()).count();
    let expected = networks.map(count).sum::<usize>() + with_values + with_values.min(1);
    if tensors.len() != expected {
        return Err(Misfit {
            name: tensors.names().join(", "),
            given: format!("{} tensors", tensors.len()),
            expected: format!("{expected}: {MEAN}, {STD}, a weight and bias per layer, and {VALUES}"),
        }
        .into());
    }
    let serving = about.map(|about| Serving::new(about, serving, serving_library)).transpose()?;
    Ok(Parts { metadata, network, further, library, rounding_library, serving })
}

/// The number of tensors that hold a network.
fn count(network: &Network) -> usize {
    2 + 2 * network.layers().len()
}

/// The digest of every tensor's name and bytes.
pub(crate) fn digest(mut tensors: Vec<(&str, &[u8])>) -> Digest {
    tensors.sort_unstable();
    let mut all = Vec::new();
    for (name, data) in tensors {
        all.extend_from_slice(name.as_bytes());
        all.push(0);
        all.extend_from_slice(data);
    }
    Digest::of(&all)
}

fn network(tensors: &SafeTensors<'_>, prefix: &str) -> Result<Network, ModelError> {
    let count = (0..Network::MAX_LAYERS).take_while(|&i| tensors.tensor(&weight(prefix, i)).is_ok()).count();
    let layers = (0..count).map(|index| layer(tensors, prefix, index)).collect::<Result<_, _>>()?;
    let vector = |name: &str| vector(tensors, &format!("{prefix}{name}"));
    Ok(Network::new(vector(MEAN)?, vector(STD)?, layers)?)
}

fn further_prefix(number: usize) -> String {
    format!("{FURTHER}{number}.")
}

fn serving_prefix(number: usize) -> String {
    format!("{SERVING}{number}.")
}

fn tile_network(tensors: &SafeTensors<'_>, prefix: &str) -> Result<TileNetwork, ModelError> {
    TileNetwork::new(network(tensors, prefix)?, tile_values(tensors, prefix)?)
}

fn tile_values(tensors: &SafeTensors<'_>, prefix: &str) -> Result<Option<TileValues>, ModelError> {
    let values = format!("{prefix}{VALUES}");
    if tensors.tensor(&values).is_err() {
        return Ok(None);
    }
    let (shape, settings) = floats(tensors, TILES)?;
    let (rows, []) = settings.as_chunks() else {
        return Err(Misfit {
            name: TILES.to_owned(),
            given: format!("shape {shape:?}"),
            expected: "nine settings for each tile".to_owned(),
        }
        .into());
    };
    let (_, values) = floats(tensors, &values)?;
    let tiles = rows.iter().map(|row| row.map(|setting| setting as u32)).collect();
    Ok(Some(TileValues::new(tiles, values)?))
}

fn layer(tensors: &SafeTensors<'_>, prefix: &str, index: usize) -> Result<Layer, ModelError> {
    let name = weight(prefix, index);
    let (shape, weights) = floats(tensors, &name)?;
    let [outputs, inputs] = shape[..] else {
        return Err(Misfit {
            name,
            given: format!("shape {shape:?}"),
            expected: "[outputs, inputs]".to_owned(),
        }
        .into());
    };
    Ok(Layer { inputs, outputs, weights, bias: vector(tensors, &bias(prefix, index))? })
}

fn vector(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, ModelError> {
    let (shape, values) = floats(tensors, name)?;
    if shape.len() != 1 {
        return Err(Misfit {
            name: name.to_owned(),
            given: format!("shape {shape:?}"),
            expected: "one dimension".to_owned(),
        }
        .into());
    }
    Ok(values)
}

fn floats(tensors: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
    let view = tensors.tensor(name)?;
    let values = match view.dtype() {
        Dtype::F32 => view.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        Dtype::F16 => {
            let halves = view.data().as_chunks::<2>().0.iter();
            halves.map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect()
        }
        other => {
            return Err(Misfit {
                name: name.to_owned(),
                given: format!("{other:?}"),
                expected: "F16 or F32".to_owned(),
            }
            .into());
        }
    };
    Ok((view.shape().to_vec(), values))
}

pub(crate) fn write(
    metadata: &Metadata,
    networks: &[&TileNetwork],
    [library, rounding_library]: [Option<&Network>; 2],
    serving: Option<&Serving>,
) -> Result<Vec<u8>, ModelError> {
    let mut parts: Vec<Part> = Vec::new();
    let prefixes = std::iter::once(String::new()).chain((0..).map(further_prefix));
    let of_tiles: Vec<(String, &TileNetwork)> = prefixes.zip(networks.iter().copied()).collect();
    for (prefix, network) in &of_tiles {
        let Some(known) = network.values() else { continue };
        let tiles = known.tiles();
        // All networks of a model have values for the same tiles.
        if prefix.is_empty() {
            let rows: Vec<f32> = tiles.iter().flatten().map(|&setting| setting as f32).collect();
            parts.push(Part::new(TILES.to_owned(), vec![tiles.len(), rows.len() / tiles.len()], &rows));
        }
        let shape = vec![tiles.len(), known.width()];
        parts.push(Part::new(format!("{prefix}{VALUES}"), shape, known.values()));
    }
    let of_tiles = of_tiles.iter().map(|(prefix, network)| (prefix.as_str(), network.dense()));
    let serving_library = serving.and_then(Serving::library);
    let libraries =
        [(LIBRARY, library), (ROUNDING_LIBRARY, rounding_library), (SERVING_LIBRARY, serving_library)];
    let libraries = libraries.into_iter().filter_map(|(prefix, network)| Some((prefix, network?)));
    let of_serving: Vec<(String, &Network)> =
        (0..).map(serving_prefix).zip(serving.into_iter().flat_map(Serving::networks)).collect();
    let of_serving = of_serving.iter().map(|(prefix, network)| (prefix.as_str(), *network));
    for (prefix, network) in of_tiles.chain(libraries).chain(of_serving) {
        parts.push(Part::new(format!("{prefix}{MEAN}"), vec![network.mean().len()], network.mean()));
        parts.push(Part::new(format!("{prefix}{STD}"), vec![network.std().len()], network.std()));
        for (index, layer) in network.layers().iter().enumerate() {
            let shape = vec![layer.outputs, layer.inputs];
            parts.push(Part::new(weight(prefix, index), shape, &layer.weights));
            parts.push(Part::new(bias(prefix, index), vec![layer.bias.len()], &layer.bias));
        }
    }
    let views = parts
        .iter()
        .map(|part| Ok((&*part.name, TensorView::new(part.dtype, part.shape.clone(), &part.data)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    let tensors = digest(parts.iter().map(|part| (&*part.name, &*part.data)).collect());
    let document =
        serde_json::to_string(&Document { metadata, serving: serving.map(|part| &part.about), tensors })?;
    Ok(safetensors::serialize(views, Some(HashMap::from([(KEY.to_owned(), document)])))?)
}

/// One tensor, ready to be written.
struct Part {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    data: Vec<u8>,
}

impl Part {
    /// Stores the values as 16-bit floats if no bit is lost.
    fn new(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        if values.iter().all(|&value| f16::from_f32(value).to_f32().to_bits() == value.to_bits()) {
            let data = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
            return Self { name, shape, dtype: Dtype::F16, data };
        }
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name, shape, dtype: Dtype::F32, data }
    }
}
/// Whether a model file states an architecture of its own. Diode's models have none to state: they are networks of
/// another program.
pub fn names_architecture(bytes: &[u8]) -> bool {
    let document = SafeTensors::read_metadata(bytes).ok().and_then(|(_, header)| {
        let text = header.metadata().as_ref()?.get(KEY)?.clone();
        serde_json::from_str::<serde_json::Value>(&text).ok()
    });
    document.is_some_and(|document| document.get("architecture").is_some())
}

/// Far more than four models and the sizes of a million problems take.
const MAX_UNSEEN_BYTES: usize = 64 << 20;
/// The key of the tensors' digest in the safetensors metadata. It is the only entry.
const UNSEEN_KEY: &str = "diode_unseen";
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
        if bytes.len() > MAX_UNSEEN_BYTES {
            return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_UNSEEN_BYTES });
        }
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(UNSEEN_KEY));
        let expected = entry.ok_or(ModelError::NoMetadata { key: UNSEEN_KEY })?.parse()?;
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
        let metadata = HashMap::from([(UNSEEN_KEY.to_owned(), digest.to_string())]);
        Ok(safetensors::serialize(views, Some(metadata))?)
    }
}

fn misfit(name: &str, given: String, expected: &str) -> ModelError {
    Misfit { name: name.to_owned(), given, expected: expected.to_owned() }.into()
}
