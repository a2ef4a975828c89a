use diode_core::{Method, Table};
use serde_json::{Value, json};

use crate::samples::{collected, columnar, h200, mm, seven};
use crate::test_app::TestApp;

const PATH: &str = "/api/v1/tables/nvidia-h200.json";

#[tokio::test]
async fn a_table_is_made_of_what_was_uploaded() {
    let app = TestApp::with_seven().await;
    let reply = app.get(&format!("{PATH}?top=2")).await;
    let table: Table = reply.json();
    assert_eq!(table, Table::from_datasets(&[seven()], None, Some(2)).unwrap());
    assert_eq!((table.len(), table.hardware()), (7, &h200()));
    assert_eq!(table.lookup(&mm(4096, 4096, 4096)).unwrap().len(), 2);
    assert!(reply.header("content-disposition").contains("nvidia-h200-table.json"));
    assert_eq!(reply.header("content-type"), "application/json");
    let again = app.get_with(&format!("{PATH}?top=2"), &[("if-none-match", reply.header("etag"))]).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    assert_eq!((reply.header("vary"), again.header("vary")), ("accept-encoding", "accept-encoding"));
    let usual: Table = app.fetch(PATH).await;
    assert_eq!(usual.lookup(&mm(4096, 4096, 4096)).unwrap().len(), 5);
}

#[tokio::test]
async fn inductor_gets_its_own_form() {
    let app = TestApp::with_seven().await;
    let key = "((torch.bfloat16, [256, 1024], [1024, 1]), (torch.bfloat16, [1024, 512], [512, 1]))+mm";
    let reply = app.get(&format!("{PATH}?format=inductor&top=1")).await;
    assert!(reply.header("content-disposition").contains("nvidia-h200-inductor.json"));
    let table: Value = reply.json();
    let entries = table[format!("NVIDIA H200+{key}")].as_array().unwrap();
    assert_eq!((entries.len(), &entries[0]["template_id"]), (1, &json!("triton::mm")));
    let query = "format=inductor&top=1&device_agnostic=true&torch=2.11.0";
    let table: Value = app.fetch(&format!("{PATH}?{query}")).await;
    assert!(table[key][0]["template_hash"].as_str().unwrap().starts_with("d4b90a54"));
}

#[tokio::test]
async fn methods_make_tables_of_their_own() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let table: Table = app.fetch(PATH).await;
    assert_eq!((table.method(), table.len()), (Method::Unspecified, 7));
    let table: Table = app.fetch(&format!("{PATH}?method=median-cold-event")).await;
    assert_eq!((table.method(), table.len()), (Method::MEDIAN_COLD_EVENT, 1));
}

#[tokio::test]
async fn mistakes_are_named() {
    let app = TestApp::with_seven().await;
    for (query, name) in [
        ("format=xml", "format"),
        ("top=0", "top"),
        ("top=10001", "top"),
        ("method=median-warm-wall", "unspecified, as there is"),
        ("torch=2.11.0", "format=inductor"),
        ("format=inductor&torch=1.0", "torch"),
        ("device_agnostic=perhaps", "device_agnostic"),
        ("colour=red", "colour"),
    ] {
        let message = app.get(&format!("{PATH}?{query}")).await.refusal(400, "invalid");
        assert!(message.contains(name), "{query}: {message}");
    }
    for file in ["nvidia-z1.json", "nvidia-h200", "nvidia-h200.xml"] {
        app.get(&format!("/api/v1/tables/{file}")).await.refusal(404, "not_found");
    }
}
