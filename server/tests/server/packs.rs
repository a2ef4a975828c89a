//! Tests of kernel packs: who may publish them, and what others pull.

use std::collections::BTreeMap;

use diode_api::PackSummary;
use diode_core::FailureReason;
use diode_core::ids::Digest;
use diode_formats::pack::PackWriter;
use diode_server::accounts::SignUps;
use diode_server::admin::{sweep, verify};
use diode_server::store::Now;

use crate::moderation::administrator;
use crate::test_app::TestApp;
use crate::tokens::{issue, with_token};
use crate::visitor::Visitor;

const VARIANT: &str = "mm;bfloat16;row,row;bias=none;align=16,16,16";

fn pack(arch: &str, kernel: &str) -> Vec<u8> {
    let stated = [("triton", "3.6.0"), ("abi", "diode-kernels 1"), ("space", "full")];
    let stated: BTreeMap<_, _> = stated.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut writer = PackWriter::new(arch, stated);
    writer.add_built("fill;bfloat16".to_owned(), "fill".to_owned(), [128, 0, 32, 0], &[1; 3000]);
    for tile in ["64x64x32", "128x64x32"] {
        writer.add_built(format!("{kernel};{tile}"), "mm".to_owned(), [128, 0, 32, 0], &[2; 5000]);
    }
    writer.add_failed(format!("{kernel};256x256x64"), FailureReason::OutOfResources, "too much".to_owned());
    writer.finish()
}

fn sound() -> Vec<u8> {
    pack("sm_90", &format!("{VARIANT};ieee"))
}

#[tokio::test]
async fn what_an_administrator_publishes_can_be_pulled() {
    for app in TestApp::everywhere("packs").await {
        let root = administrator(&app).await;
        let bytes = sound();
        let reply = root.post_bytes("/api/v1/packs", bytes.clone()).await;
        assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
        let published: PackSummary = reply.json();
        assert_eq!((published.architecture.as_str(), published.bytes), ("sm_90", bytes.len() as u64));
        assert_eq!(published.published_by.as_ref().map(|name| name.as_str()), Some("root"));
        assert_eq!((published.triton.as_deref(), published.space.as_deref()), (Some("3.6.0"), Some("full")));
        assert_eq!(published.sha256, Digest::of(&bytes));
        let variants = published.variants.iter().map(|v| (v.variant.to_string(), v.kernels));
        assert_eq!(variants.collect::<Vec<_>>(), [(VARIANT.to_owned(), 3)]);

        let again = root.post_bytes("/api/v1/packs", bytes.clone()).await;
        assert_eq!((again.status.as_u16(), again.json::<PackSummary>().already_stored), (200, true));
        let other = root.post_bytes("/api/v1/packs", pack("gfx942", &format!("{VARIANT};ieee"))).await;
        assert_eq!(other.status, 201);
        let listed =
            async |query: &str| app.fetch::<Vec<PackSummary>>(&format!("/api/v1/packs{query}")).await;
        assert_eq!(listed("?architecture=sm_90").await, std::slice::from_ref(&published));
        assert_eq!(listed("").await.len(), 2);
        assert_eq!(listed("?architecture=sm_80").await, []);

        let path = format!("/api/v1/packs/{}", published.digest);
        let pulled = app.get(&path).await;
        assert_eq!((pulled.status.as_u16(), pulled.body == bytes), (200, true));
        assert_eq!(pulled.header("etag"), format!("\"{}\"", published.sha256));
        assert_eq!(pulled.header("content-length"), bytes.len().to_string());
        let held = app.get_with(&path, &[("if-none-match", pulled.header("etag"))]).await;
        assert_eq!(held.status, 304);

        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean() && verified.orphans == 0, "{verified}");
        let tomorrow = Now(Now::read().0 + std::time::Duration::from_secs(86_400));
        assert_eq!(sweep(&app.backend, false, tomorrow).await.unwrap().removed, 0);

        root.act("withdraw-pack", &[("digest", published.digest.as_str())]).await.page(200);
        app.get(&path).await.refusal(404, "not_found");
        assert_eq!(listed("?architecture=sm_90").await, []);
        // The file stays until the next sweep.
        assert_eq!(verify(&app.backend).await.unwrap().orphans, 1);
        assert_eq!(sweep(&app.backend, false, tomorrow).await.unwrap().removed, 1);
        app.end().await;
    }
}

#[tokio::test]
async fn publishing_needs_the_right_to_look_after_the_server() {
    // The right is needed even where everything else needs no account.
    let local = TestApp::new().await;
    local.send_bytes("/api/v1/packs", sound()).await.refusal(401, "unauthorized");
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ada.post_bytes("/api/v1/packs", sound()).await.refusal(403, "forbidden");
    let agent = format!("Bearer {}", issue(&root, r#"["agent","upload"]"#).await.secret);
    let message = with_token(&app, "POST", "/api/v1/packs", &agent, sound()).await.refusal(403, "forbidden");
    assert!(message.contains("admin"), "{message}");
    let admin = format!("Bearer {}", issue(&root, r#"["admin"]"#).await.secret);
    let reply = with_token(&app, "POST", "/api/v1/packs", &admin, sound()).await;
    assert_eq!(reply.status, 201);
    let path = format!("/api/v1/packs/{}", reply.json::<PackSummary>().digest);
    let withdrawn = ada.act("withdraw-pack", &[("digest", path.rsplit('/').next().unwrap())]).await;
    assert_eq!(withdrawn.status, 403);
    assert_eq!(app.get(&path).await.status, 200, "pulling needs nothing");
}

#[tokio::test]
async fn what_is_no_whole_pack_is_refused() {
    let app = TestApp::new().await;
    let root = administrator(&app).await;
    let publish = async |bytes: Vec<u8>| root.post_bytes("/api/v1/packs", bytes).await;
    let message = publish(b"these are certainly no kernels, only some text".to_vec()).await;
    assert!(message.refusal(400, "invalid").contains("pack"));
    let bytes = sound();
    publish(bytes[..bytes.len() - 1].to_vec()).await.refusal(400, "invalid");
    let mut tampered = bytes.clone();
    *tampered.last_mut().unwrap() ^= 1;
    let message = publish(tampered).await.refusal(400, "invalid");
    assert!(message.contains("chunk"), "{message}");
    let exact = pack("sm_90", &format!("{VARIANT};ieee;sizes=64x64x64"));
    let message = publish(exact).await.refusal(422, "refused");
    assert!(message.contains("exact sizes"), "{message}");
    let nothing = publish(pack("sm_90", "compare;bfloat16")).await.refusal(422, "refused");
    assert!(nothing.contains("no multiplication"), "{nothing}");
    assert_eq!(app.fetch::<Vec<PackSummary>>("/api/v1/packs").await, []);
    app.get("/api/v1/packs/abc").await.refusal(404, "not_found");
}
