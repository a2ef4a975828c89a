//! The model file: exact round trips, and refusals that say why.

use crate::sample::{metadata, model, model_with_further, model_with_values, network};
use diode_model::{COLUMN_COUNT, Layer, Metadata, Model, ModelError, Network, TileNetwork, Training};

#[test]
fn a_file_gives_back_the_model_and_the_same_bytes() {
    let model = model();
    let bytes = model.to_bytes().unwrap();
    let again = Model::from_bytes(&bytes).unwrap();
    assert_eq!(again, model);
    assert_eq!(again.to_bytes().unwrap(), bytes);
    assert_eq!(model.parameters(), 88 * 64 + 64 + 64 * 64 + 64 + 65);
    assert!(bytes.len() < 48_000, "{}", bytes.len());
}

#[test]
fn a_file_has_the_values_of_tiles() {
    let model = model_with_values();
    let bytes = model.to_bytes().unwrap();
    assert_eq!(Model::from_bytes(&bytes).unwrap(), model);
    assert_eq!(model.parameters(), 90 * 16 + 16 + 16 * 8 + 8 + 9 + 8);

    let rounded = model.network().clone().rounded_to_half().unwrap();
    let rounded = Model::from_network(metadata(), rounded).unwrap();
    let fewer_bytes = rounded.to_bytes().unwrap();
    assert_eq!(Model::from_bytes(&fewer_bytes).unwrap(), rounded);
    assert!(fewer_bytes.len() < bytes.len());

    let dense = model.network().dense().clone();
    let error = TileNetwork::new(dense, None).unwrap_err().to_string();
    assert_eq!(error, "tensor `normalisation.mean`: got 90 values, expected 88");
}

#[test]
fn a_file_has_the_further_networks() {
    let (alone, model) = (model_with_values(), model_with_further());
    let bytes = model.to_bytes().unwrap();
    let again = Model::from_bytes(&bytes).unwrap();
    assert_eq!((again.networks().count(), again.to_bytes().unwrap()), (3, bytes));
    assert_eq!(again, model);
    assert_eq!(model.parameters(), 3 * alone.parameters());

    let other_tiles = network(&[8]);
    let other_tiles = vec![TileNetwork::new(other_tiles, None).unwrap()];
    let error = alone.clone().with_further(other_tiles).unwrap_err().to_string();
    assert!(error.contains("expected at most 16, with values for the same tiles"), "{error}");
    assert!(alone.clone().with_further(vec![alone.network().clone(); 17]).is_err());
}

#[test]
fn damaged_files_are_refused_without_harm() {
    let bytes = model().to_bytes().unwrap();
    for end in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        assert!(Model::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut refused = 0;
    for at in (0..1500).chain((1500..bytes.len()).step_by(97)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        refused += usize::from(Model::from_bytes(&damaged).is_err());
    }
    assert!(refused > 1000, "{refused}");
    assert!(matches!(Model::from_bytes(&vec![0; 17 << 20]), Err(ModelError::TooLarge { .. })));
}

#[test]
fn other_safetensors_are_no_models() {
    let bytes =
        safetensors::serialize(Vec::<(&str, safetensors::tensor::TensorView<'_>)>::new(), None).unwrap();
    assert!(matches!(Model::from_bytes(&bytes), Err(ModelError::NoMetadata { .. })));
}

#[test]
fn metadata_must_be_usable() {
    let refusal = |metadata: Metadata| Model::new(metadata, network(&[8])).unwrap_err().to_string();
    let unknown = Metadata { feature_set: "physics/9".to_owned(), ..metadata() };
    assert_eq!(
        refusal(unknown),
        "feature set: got `physics/9`, expected `physics/5`; update diode or choose another model"
    );
    let mut bare = metadata();
    bare.hardware.facts = None;
    assert!(refusal(bare).contains("nvidia-h200 has no facts"));
    assert!(refusal(Metadata { pick_bias: f64::NAN, ..metadata() }).contains("pick_bias"));
    for loss in [-1.0, f64::NAN, 1e300] {
        let training = Training { losses: vec![0.5, loss], ..metadata().training };
        assert!(refusal(Metadata { training, ..metadata() }).contains("losses"), "{loss}");
    }
}

#[test]
fn weights_must_fit_together_and_be_finite() {
    let layer = |inputs, outputs, value| Layer {
        inputs,
        outputs,
        weights: vec![value; inputs * outputs],
        bias: vec![0.0; outputs],
    };
    let refusal = |std: f32, layers| {
        Network::new(vec![0.0; COLUMN_COUNT], vec![std; COLUMN_COUNT], layers).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(1.0, vec![layer(COLUMN_COUNT, 8, 0.0), layer(9, 1, 0.0)]),
        "tensor `layers.1.weight`: got 1×9, expected 1×8"
    );
    assert!(refusal(1.0, vec![layer(COLUMN_COUNT, 2, 0.0)]).contains("got 2×88, expected 1×88"));
    assert!(
        refusal(1.0, vec![layer(COLUMN_COUNT, 1, f32::NAN)])
            .contains("got NaN, expected only finite numbers")
    );
    assert!(refusal(0.0, vec![layer(COLUMN_COUNT, 1, 0.0)]).contains("normalisation.std"));
    assert!(refusal(1.0, vec![]).contains("layers"));
}

#[test]
fn half_the_bytes_are_enough_for_rounded_weights() {
    let full = model();
    let rounded = Model::new(metadata(), network(&[64, 64]).rounded_to_half().unwrap()).unwrap();
    let bytes = rounded.to_bytes().unwrap();
    assert!(bytes.len() < full.to_bytes().unwrap().len() * 6 / 10, "{}", bytes.len());
    assert_eq!(Model::from_bytes(&bytes).unwrap(), rounded);
}

#[test]
fn changed_weights_are_noticed() {
    let mut bytes = model().to_bytes().unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    assert!(matches!(Model::from_bytes(&bytes), Err(ModelError::Damaged { .. })));
}

#[test]
fn a_model_of_other_features_is_named_as_such() {
    let bytes = model().to_bytes().unwrap();
    let place = bytes.windows(9).position(|text| text == b"physics/5").unwrap();
    let mut old = bytes.clone();
    old[place..place + 9].copy_from_slice(b"physics/1");
    assert!(matches!(Model::from_bytes(&old), Err(ModelError::UnknownFeatureSet { .. })));
}
