//! Tests that a file leaves nothing behind if it is no model, or a model that cannot be judged here.

use diode_core::hardware::find;
use diode_model::Model;
use diode_server::accounts::SignUps;
use diode_server::admin::verify;

use super::{CONTRIBUTE, file, own, ready};
use crate::test_app::TestApp;
use crate::visitor::Visitor;

#[tokio::test]
async fn every_kind_of_bad_file_is_refused_and_nothing_is_stored() {
    for app in TestApp::public_on_both("hostile_models").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        ready(&app, &ada).await;
        let good = file(1);
        let cut = good[..good.len() / 2].to_vec();
        let mut damaged = good.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let mut old = good.clone();
        let place = old.windows(9).position(|text| text == b"physics/5").unwrap();
        old[place..place + 9].copy_from_slice(b"physics/1");
        let model = Model::from_bytes(&good).unwrap();
        let stands_in = model.standing_in_for(find("nvidia-h100").unwrap()).unwrap().to_bytes().unwrap();
        let elsewhere =
            std::fs::read("../trained_models/matmul/nvidia-h100/matmul-nvidia-h100.safetensors").unwrap();
        let bad = [
            (b"no model".to_vec(), "not a safetensors file"),
            (Vec::new(), "not a safetensors file"),
            (cut, "not a safetensors file"),
            (damaged, "it was damaged or changed"),
            (old, "got `physics/1`"),
            (stands_in, "stands in for nvidia-h100"),
            (elsewhere, "nothing has been measured here"),
            ([good.clone(), vec![0; 8]].concat(), "not a safetensors file"),
        ];
        for (bytes, expected) in bad {
            let message = ada.post_bytes(CONTRIBUTE, bytes).await.refusal(422, "refused");
            assert!(message.contains(expected), "{expected}: {message}");
        }
        ada.post_bytes(CONTRIBUTE, vec![0; (1 << 20) + 1]).await.refusal(413, "too_large");
        let wrapped = ada.submit(CONTRIBUTE, &[("file", "x")]).await;
        wrapped.refusal(415, "unsupported_media_type");
        assert_eq!(own(&ada).await, []);
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean() && verified.orphans == 0, "{verified}");
        assert_eq!(ada.post_bytes(CONTRIBUTE, good).await.status, 201);
        app.end().await;
    }
}

#[tokio::test]
async fn a_model_needs_a_description_and_a_licence() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    for (query, expected) in [
        ("", "description"),
        ("?description=x", "licence"),
        ("?description=&licence=MIT", "1 to 500 characters"),
        ("?description=a%0Ab&licence=MIT", "U+000A"),
        ("?description=x&licence=%3Cb%3E", "SPDX"),
        ("?description=x&licence=MIT&more=1", "`more`"),
    ] {
        let message =
            ada.post_bytes(&format!("/api/v1/models{query}"), file(1)).await.refusal(400, "invalid");
        assert!(message.contains(expected), "{query}: {message}");
    }
    assert_eq!(own(&ada).await, []);
}
