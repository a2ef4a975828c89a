//! Tests of served models: what is known of each, their files, and wishes for what is missing.

use std::collections::BTreeMap;

use diode_api::{
    AskedWorkload, LeasedProblem, ProblemDetail, Purpose, Registration, Workload, WorkloadManifest, Workloads,
};
use diode_core::hardware::Hardware;
use diode_core::{Config, DType, Op, Problem, Tile, TimeColumn};
use diode_server::store::{NewWork, Now, Store};
use diode_workloads::file_body::{Body, Entry};
use diode_workloads::file_check::{Judged, Reader as FileReader, Severity, check_folder};
use diode_workloads::file_names::Consumer;
use diode_workloads::layers::{DenseLayer, Serving};
use diode_workloads::model_config::Quantization;
use diode_workloads::named::Named;
use diode_workloads::published::{Published, PublishedFile};
use diode_workloads::served::Reader;

use crate::agent_story::{agent, leased, take, work};
use crate::agents::{h200_registration, register};
use crate::picks::{MODEL, shipped};
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::{Reply, TestApp};

const LIST: &str = "/api/v1/workloads";
/// Its dense layers are all that SGLang reads files for.
const DENSE: &str = "/api/v1/workloads/Qwen3-8B/nvidia-h200";
const OF_SGLANG: &str = "?quantization=fp8-block&consumer=sglang";
const EXPERTS: &str = "/api/v1/workloads/Qwen3-30B-A3B/nvidia-h200";

/// Times of a problem, in microseconds, with the default of a server as the first config.
fn timed(problem: &Problem, consumer: Consumer, others: &[(Tile, u64)], default_us: u64) -> Vec<u8> {
    let default = consumer.default_config().config(&h200(), problem).unwrap();
    let swap = default.tile().unwrap().swap_ab;
    let mut measured = dataset(h200(), std::slice::from_ref(problem), 1.0);
    let others =
        others.iter().map(|(tile, us)| (Config::Mm(Tile { swap_ab: swap, ..tile.for_k(problem.k) }), *us));
    let (configs, times): (Vec<_>, Vec<_>) = std::iter::once((default, default_us)).chain(others).unzip();
    let configs = configs.into_iter().map(|config| measured.configs.intern(config)).collect();
    let solution = &mut measured.solutions[0];
    solution.configs = configs;
    solution.times = TimeColumn::from_nanos(times.into_iter().map(|us| us * 1000).collect()).unwrap();
    columnar(&measured)
}

/// The first multiplication of Qwen3-8B, in fp8 by block.
fn qkv(tokens: u64) -> Problem {
    DenseLayer::of_sizes(6144, 4096).problem(tokens, Quantization::Fp8Block).unwrap()
}

/// The files of an archive, by name.
fn unzipped(reply: &Reply) -> BTreeMap<String, Vec<u8>> {
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, "application/zip"));
    let (mut files, mut rest) = (BTreeMap::new(), reply.body.as_slice());
    while let Some(of_file) = rest.strip_prefix(b"PK\x03\x04") {
        let number = |at: usize| u32::from_le_bytes(of_file[at..at + 4].try_into().unwrap()) as usize;
        let (size, name) = (number(14), number(22) & 0xffff);
        let (name, bytes) = of_file[26..].split_at(name);
        files.insert(String::from_utf8(name.to_vec()).unwrap(), bytes[..size].to_vec());
        rest = &bytes[size..];
    }
    files
}

fn manifest(reply: &Reply) -> WorkloadManifest {
    serde_json::from_slice(&unzipped(reply)["manifest.json"]).unwrap()
}

/// The batches whose pick was measured, as layer and batch size.
fn measured_picks(manifest: &WorkloadManifest) -> Vec<(String, u64)> {
    let of_layer = |layer: &diode_api::WorkloadLayer| {
        let measured =
            layer.batches.iter().filter(|batch| batch.pick.is_some_and(|pick| pick.measured.is_some()));
        measured.map(|batch| (layer.name.clone(), batch.batch_size)).collect::<Vec<_>>()
    };
    manifest.layers.iter().flat_map(of_layer).collect()
}

/// Nothing in the files that a server would not read, or that would make it fail.
fn is_accepted(reply: &Reply, consumer: Consumer) {
    let files = unzipped(reply);
    let manifest = manifest(reply);
    let texts: Vec<(String, String)> = files
        .iter()
        .filter(|(name, _)| *name != "manifest.json")
        .map(|(name, bytes)| (name.clone(), String::from_utf8(bytes.clone()).unwrap()))
        .collect();
    assert_eq!(texts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), manifest.files);
    let judged: Vec<Judged<'_>> = texts.iter().map(|(path, text)| Judged { path, text }).collect();
    let findings = check_folder(&judged, FileReader { consumer, hardware: Some(&h200()) });
    let bad: Vec<_> = findings.iter().filter(|finding| finding.severity != Severity::Note).collect();
    assert!(bad.is_empty() && !judged.is_empty(), "{bad:?}");
}

#[tokio::test]
async fn files_say_of_each_config_who_measured_it_or_what_predicts_it() {
    for app in TestApp::on_both("workload_files").await {
        let model = shipped(&app, &std::fs::read(MODEL).unwrap(), &h200()).await;
        let zip = format!("{DENSE}.zip{OF_SGLANG}");
        let before = app.get(&zip).await;
        is_accepted(&before, Consumer::Sglang);
        let all = manifest(&before);
        assert_eq!((all.predicted_by.as_ref(), measured_picks(&all)), (Some(&model.id), Vec::new()));
        assert_eq!((all.files.len(), all.layers.len(), all.layers[0].batches.len()), (4, 4, 18));
        assert_eq!(app.get(&zip).await.body, before.body, "the same bytes");

        // The config of one batch size is measured. The model has picked another.
        let fastest = Tile { group_m: 32, ..Tile::new(16, 32, 128, 5, 4) };
        app.receipt(timed(
            &qkv(32),
            Consumer::Sglang,
            &[(fastest, 90), (Tile::new(16, 64, 128, 3, 4), 95)],
            100,
        ))
        .await;
        let after = app.get(&zip).await;
        is_accepted(&after, Consumer::Sglang);
        let now = manifest(&after);
        assert_eq!(measured_picks(&now), [("qkv".to_owned(), 32)]);
        let at = now.layers[0].batches.iter().position(|batch| batch.batch_size == 32).unwrap();
        let batch = &now.layers[0].batches[at];
        let (untuned, pick) = (batch.untuned.unwrap(), batch.pick.unwrap());
        assert_eq!((untuned.us, pick.us, batch.gain, batch.measured), (100.0, 90.0, Some(100.0 / 90.0), 1));
        assert_eq!(pick.measured.map(|backing| (backing.contributors, backing.confirmed_by)), Some((1, 1)));
        let file: serde_json::Value =
            serde_json::from_slice(&unzipped(&after)[&now.layers[0].files[0]]).unwrap();
        assert_eq!((&file["32"]["BLOCK_SIZE_N"], &file["32"]["num_stages"]), (&32.into(), &5.into()));
        // All other configs are as they were.
        let mut others = (all.layers.clone(), now.layers.clone());
        others.0[0].batches.remove(at);
        others.1[0].batches.remove(at);
        assert_eq!(others.0, others.1);
        let workload: Workload = app.fetch(&format!("{DENSE}{OF_SGLANG}")).await;
        assert_eq!((workload.measured, workload.waiting, workload.manifest.data), (1, 0, now.data));
        app.end().await;
    }
}

#[tokio::test]
async fn experts_are_measured_once_both_multiplications_are() {
    let app = TestApp::new().await;
    shipped(&app, &std::fs::read(MODEL).unwrap(), &h200()).await;
    let zip = format!("{EXPERTS}.zip?tp=2&quantization=fp8-block");
    let of = async || {
        let reply = app.get(&zip).await;
        is_accepted(&reply, Consumer::Vllm);
        manifest(&reply)
    };
    let first = of().await;
    assert_eq!(
        first.files,
        ["E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"]
    );
    assert_eq!(first.variable.as_deref(), Some("VLLM_TUNED_CONFIG_FOLDER"));
    let text = "moe 128x384x2048 top8 16 tokens fp8 block";
    let launches = diode_core::problem::problems_in(text, DType::BFloat16).unwrap();
    let ids: Vec<_> = launches.iter().map(Problem::id).collect();
    assert_eq!(first.layers[0].batches.iter().find(|batch| batch.batch_size == 16).unwrap().problems, ids);
    let tile = Tile { group_m: 1, ..Tile::new(16, 64, 128, 5, 4) };
    app.receipt(timed(&launches[0], Consumer::Vllm, &[(tile, 200)], 300)).await;
    assert_eq!(measured_picks(&of().await), []);
    app.receipt(timed(&launches[1], Consumer::Vllm, &[(tile, 150)], 160)).await;
    let both = of().await;
    assert_eq!(measured_picks(&both), [("experts".to_owned(), 16)]);
    let batch = both.layers[0].batches.iter().find(|batch| batch.batch_size == 16).unwrap();
    assert_eq!(
        (batch.pick.unwrap().us, batch.untuned.unwrap().us, batch.keeps_untuned),
        (350.0, 460.0, false)
    );
}

/// A tag stands for the timings and the published model.
#[tokio::test]
async fn a_tag_changes_with_timings_and_with_the_model_and_with_nothing_else() {
    for app in TestApp::on_both("workload_tags").await {
        let bytes = std::fs::read(MODEL).unwrap();
        shipped(&app, &bytes, &h200()).await;
        let zip = format!("{DENSE}.zip{OF_SGLANG}");
        let tag = async |path: &str| app.get(path).await.header("etag").to_owned();
        let first = tag(&zip).await;
        assert!(first.starts_with('"'), "{first}");
        assert_eq!(app.get_with(&zip, &[("if-none-match", &first)]).await.status, 304);
        assert_ne!(tag(&format!("{zip}&tp=2")).await, first);
        // A wish, an agent and timings of other hardware change nothing.
        let wanted =
            app.send_bytes(&format!("{DENSE}/wanted"), br#"{"quantization":"fp8-block"}"#.to_vec()).await;
        assert_eq!(wanted.status, 202);
        register(&app, &h200_registration()).await;
        app.receipt(columnar(&dataset(
            diode_core::hardware::find("nvidia-h100").unwrap(),
            &[mm(64, 64, 64)],
            1.0,
        )))
        .await;
        assert_eq!(tag(&zip).await, first);
        let replica = app.replica().await;
        assert_eq!(replica.get(&zip).await.header("etag"), first);
        app.receipt(timed(&qkv(16), Consumer::Sglang, &[], 100)).await;
        let second = tag(&zip).await;
        assert_ne!(second, first);
        while app.backend.store.refresh_entries().await.unwrap() > 0 {}
        assert_eq!(tag(&zip).await, second);
        assert_eq!(app.get_with(&zip, &[("if-none-match", &first)]).await.status, 200);
        // Another model is published.
        let mut other = diode_model::Model::from_bytes(&bytes).unwrap();
        other = other.with_corrections(1.01, 1.0).unwrap();
        shipped(&app, &other.to_bytes().unwrap(), &h200()).await;
        let third = tag(&zip).await;
        assert!(third != second && third != first);
        app.end().await;
    }
}

#[tokio::test]
async fn the_list_counts_what_is_measured_and_what_is_predicted() {
    for app in TestApp::on_both("workload_list").await {
        let empty: Workloads = app.fetch(LIST).await;
        assert!(empty.hardware.is_empty() && empty.models.len() > 70);
        app.receipt(timed(&qkv(16), Consumer::Sglang, &[], 100)).await;
        let of = |list: &Workloads| {
            let model = list.models.iter().find(|model| model.name == "Qwen3-8B").unwrap();
            let ways = model.served.iter().filter(|way| way.quantization == "fp8-block");
            ways.map(|way| (way.tensor_parallel, way.problems, way.on.clone())).collect::<Vec<_>>()
        };
        let ships: Workloads = app.fetch(LIST).await;
        let hardware: Vec<&str> = ships.hardware.iter().map(|hardware| hardware.slug.as_str()).collect();
        assert_eq!((hardware, ships.hardware[0].model.clone()), (vec!["nvidia-h200"], None));
        if let Some((_, _, on)) = of(&ships).first() {
            assert_eq!((on[0].measured, on[0].predicted), (1, 0));
        }
        let measured: u64 =
            ships.models.iter().flat_map(|model| &model.served).map(|way| way.on[0].measured).sum();
        let model = shipped(&app, &std::fs::read(MODEL).unwrap(), &h200()).await;
        let reply = app.get(LIST).await;
        let predicted: Workloads = reply.json();
        assert_eq!(predicted.hardware[0].model, Some(model.id));
        for way in predicted.models.iter().flat_map(|model| &model.served) {
            assert_eq!(way.on[0].measured + way.on[0].predicted, way.problems, "{way:?}");
        }
        let tag = reply.header("etag").to_owned();
        assert_eq!(app.get_with(LIST, &[("if-none-match", &tag)]).await.status, 304);
        let id = app.fetch::<Vec<diode_api::Receipt>>("/api/v1/uploads").await[0].id.clone();
        assert!(measured <= 4);
        let (code, ..) = match app.data.database_url.starts_with("sqlite") {
            true => app.admin(&["quarantine", id.as_str(), "--reason", "a test"]),
            false => (Some(0), String::new(), String::new()),
        };
        assert_eq!(code, Some(0));
        if app.data.database_url.starts_with("sqlite") {
            let gone: Workloads = app.fetch(LIST).await;
            let left =
                gone.models.iter().flat_map(|model| &model.served).map(|way| way.on[0].measured).sum::<u64>();
            assert_eq!(left, 0);
        }
        app.end().await;
    }
}

/// The times of a published file's configs stand beside those of the default, on the model's page and on the problem's.
#[tokio::test]
async fn published_files_are_judged_by_measured_times() {
    let published = Tile { group_m: 16, ..Tile::new(32, 64, 128, 3, 4) };
    let name = "E=128,N=768,device_name=NVIDIA_H200.json".to_owned();
    let mut body = Body::default();
    body.insert(48, Entry::of(&published));
    let folder = "model_executor/layers/fused_moe/configs".to_owned();
    let file = PublishedFile { folder, name: name.clone(), body };
    let release = |version: &str, files| Published::new(Consumer::Vllm, version, files);
    let releases = vec![release("0.33.0", vec![file]), release("0.4.0", Vec::new())];
    let app = TestApp::new().await.comparing(releases);
    let serving = Serving { tensor_parallel: 1, expert_parallel: 1, quantization: Quantization::Bf16 };
    let named = Named::find("Qwen3-30B-A3B").unwrap();
    let layers = named.architecture.served_layers(&serving, Reader::Vllm, &h200()).unwrap();
    let problems = layers.last().unwrap().problems(64, &h200()).unwrap();
    let default = |problem| Consumer::Vllm.default_config().config(&h200(), problem).unwrap();
    assert_eq!(default(&problems[0]), default(&problems[1]), "the test times one default");
    app.receipt(timed(&qkv(64), Consumer::Vllm, &[], 100)).await;
    for (problem, us) in problems.iter().zip([1020, 1100]) {
        let before: Workload = app.fetch(EXPERTS).await;
        let experts = before.manifest.layers.last().unwrap();
        assert!(experts.batches.iter().all(|batch| batch.published.is_none()));
        app.receipt(timed(problem, Consumer::Vllm, &[(published, us)], 1000)).await;
    }
    let now: Workload = app.fetch(EXPERTS).await;
    assert_eq!(now.manifest.release.as_deref(), Some("vLLM 0.33.0"));
    let of = |batches: &[diode_api::WorkloadBatch]| -> Vec<_> {
        let told = batches.iter().filter_map(|batch| Some((batch.batch_size, batch.published?)));
        told.map(|(batch, time)| (batch, time.us, time.measured.map(|backing| backing.contributors)))
            .collect()
    };
    let experts = now.manifest.layers.last().unwrap();
    assert_eq!(of(&experts.batches), [(64, 2120.0, Some(1))]);
    let at = experts.batches.iter().find(|batch| batch.batch_size == 64).unwrap();
    assert_eq!(at.untuned.unwrap().us, 2000.0);
    let detail: ProblemDetail = app.fetch(&format!("/api/v1/problems/{}", problems[1].id())).await;
    let [found] = detail.published.as_slice() else { panic!("{:?}", detail.published) };
    assert_eq!((found.release.as_str(), &found.file, found.batch_size), ("vLLM 0.33.0", &name, 48));
    assert_eq!((found.us, found.default_us), (1100.0, Some(1000.0)));
    // Of a problem without a file nothing is said.
    let dense: ProblemDetail = app.fetch(&format!("/api/v1/problems/{}", qkv(64).id())).await;
    assert!(dense.published.is_empty());
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_in_words() {
    let app = TestApp::with_seven().await;
    let refused = async |path: &str, status: u16, code: &str, said: &str| {
        let message = app.get(&format!("{LIST}/{path}")).await.refusal(status, code);
        assert!(message.contains(said), "{path}: {message}");
    };
    refused("Qwen3-31B-A3B/nvidia-h200", 404, "not_found", "such as Qwen3-30B-A3B").await;
    refused("Qwen3-8B/nvidia-h900", 404, "not_found", "no hardware").await;
    refused("Qwen3-8B/nvidia-h900.zip", 404, "not_found", "no hardware").await;
    refused("Qwen3-8B/nvidia-h200?tp=3", 400, "invalid", "Qwen3-8B with tp=3, ep=1 in bf16").await;
    refused("Qwen3-8B/nvidia-h200?tp=0", 400, "invalid", "from 1 to 1024").await;
    refused("Qwen3-30B-A3B/nvidia-h200?ep=7", 400, "invalid", "experts: got 128, expected a multiple of 7")
        .await;
    refused("Qwen3-8B/nvidia-h200?quantization=fp7", 400, "invalid", "fp8-block").await;
    refused("Qwen3-8B/nvidia-h200?consumer=tgi", 400, "invalid", "vllm").await;
    refused("Qwen3-8B/nvidia-h200?gpus=3", 400, "invalid", "one of").await;
    refused("Qwen3-8B/nvidia-h200.zip", 422, "refused", "vllm, which reads no files for Qwen3-8B in bf16")
        .await;
    refused("Qwen3-8B/nvidia-h200?consumer=inductor&quantization=fp8-block", 400, "invalid", "no scaled")
        .await;
    // Seven problems of no model are measured, and nothing predicts.
    refused("Qwen3-30B-A3B/nvidia-h200.zip", 422, "refused", "nothing is known of Qwen3-30B-A3B").await;
    let want = async |body: &str| app.send_bytes(&format!("{DENSE}/wanted"), body.as_bytes().to_vec()).await;
    want(r#"{"tensor_parallel":3}"#).await.refusal(400, "invalid");
    want(r#"{"quantization":"fp7"}"#).await.refusal(400, "invalid");
    want(r#"{"model":"x"}"#).await.refusal(400, "invalid");
}

/// A checkpoint's name says its form, and a slash is part of it.
#[tokio::test]
async fn a_model_is_found_by_its_checkpoints_name_and_inductors_table_has_its_dense_layers() {
    let app = TestApp::new().await;
    shipped(&app, &std::fs::read(MODEL).unwrap(), &h200()).await;
    let path = "/api/v1/workloads/Qwen%2FQwen3-30B-A3B-Instruct-2507-FP8/nvidia-h200";
    let found: Workload = app.fetch(path).await;
    assert_eq!(
        (found.manifest.model.as_str(), found.manifest.quantization.as_str()),
        ("Qwen3-30B-A3B", "fp8-block")
    );
    let experts = found.manifest.layers.last().unwrap();
    assert_eq!((experts.name.as_str(), experts.n, experts.k, experts.count), ("experts", 768, 2048, 48));
    let reply = app.get("/api/v1/workloads/DLRM/nvidia-h200.zip?consumer=inductor").await;
    let files = unzipped(&reply);
    let table: serde_json::Value = serde_json::from_slice(&files["lookup.json"]).unwrap();
    assert!(table.as_object().unwrap().len() > 20);
    assert_eq!(manifest(&reply).variable, None);
}

#[tokio::test]
async fn the_problems_of_a_model_are_asked_for_and_leased() {
    for app in TestApp::on_both("workload_wanted").await {
        // The hardware is known by one problem of the model.
        app.receipt(timed(&qkv(16), Consumer::Sglang, &[], 100)).await;
        let body = br#"{"quantization":"fp8-block"}"#.to_vec();
        let asked: AskedWorkload = app.send_bytes(&format!("{DENSE}/wanted"), body.clone()).await.json();
        assert_eq!((asked.measured, asked.asked + asked.measured + asked.unable), (1, asked.problems));
        assert!(asked.asked > 50, "{asked:?}");
        let again: AskedWorkload = app.send_bytes(&format!("{DENSE}/wanted"), body).await.json();
        assert_eq!(again, asked);
        let workload: Workload = app.fetch(&format!("{DENSE}?quantization=fp8-block")).await;
        assert_eq!(
            (workload.measured, workload.waiting, workload.problems),
            (1, asked.asked, asked.problems)
        );
        let agent = register(&app, &scaled()).await;
        let lease = crate::agents::take(&app, &agent).await;
        let wanted: Vec<&LeasedProblem> =
            lease.work.iter().filter(|work| work.purpose == Purpose::Wanted).collect();
        assert!(!wanted.is_empty(), "{lease:?}");
        let ids: Vec<_> = workload
            .manifest
            .layers
            .iter()
            .flat_map(|layer| &layer.batches)
            .flat_map(|batch| &batch.problems)
            .collect();
        assert!(wanted.iter().all(|work| ids.contains(&&work.problem.id())));
        app.end().await;
    }
}

/// A device that measures scaled multiplications.
fn scaled() -> Registration {
    let registration = h200_registration();
    let mut ability = registration.ability.clone();
    (ability.ops, ability.dtypes) = (vec![Op::ScaledMm], vec![DType::Float8E4M3]);
    ability.layouts = diode_core::Layout::ALL.to_vec();
    ability.memory_bytes = 100 << 30;
    Registration { ability, ..registration }
}

/// Hardware that only this story uses.
fn hardware() -> Hardware {
    Hardware::from_name("NVIDIA Y1").unwrap()
}

pub(crate) async fn what_most_people_want_comes_first(store: &Store) {
    let slug = hardware().slug;
    let [rare, common, measured] = [mm(3072, 192, 128), mm(3072, 256, 128), mm(3072, 320, 128)];
    store
        .store_upload(&crate::story::upload(&dataset(hardware(), std::slice::from_ref(&measured), 1.0), &[]))
        .await
        .unwrap();
    let wish = |problem: &Problem| NewWork { seconds: 1.0, ..work(problem.clone(), Purpose::Wanted) };
    let all = [wish(&rare), wish(&common), wish(&measured)];
    assert_eq!(store.ask_for_work(&slug, &all, "one").await.unwrap(), 2);
    // Asking again changes nothing; another contributor does.
    for _ in 0..3 {
        store.ask_for_work(&slug, &all[..1], "one").await.unwrap();
    }
    store.ask_for_work(&slug, &all[1..], "two").await.unwrap();
    let ids = [rare.id(), common.id(), measured.id()];
    assert_eq!(store.progress_of(&slug, &ids).await.unwrap(), (1, 2));
    let known = store.measured_ids(&slug).await.unwrap();
    assert!(known.contains(measured.id().as_str()) && !known.contains(rare.id().as_str()));
    let method = diode_core::Method::Unspecified;
    let stored = store.solutions_of(&slug, &ids, method).await.unwrap();
    assert_eq!(stored.keys().collect::<Vec<_>>(), [&measured.id()]);
    let waiting = store.waiting_work(&slug, 100).await.unwrap();
    let wanted: Vec<&Problem> =
        waiting.iter().filter(|work| work.purpose == Purpose::Wanted).map(|work| &work.problem).collect();
    let place = |problem| wanted.iter().position(|waiting| *waiting == problem).unwrap();
    assert!(place(&common) < place(&rare), "{wanted:?}");
    let agent = agent(store, "wants", Now::read()).await;
    let lease = leased(take(store, &agent, 3600.0, Now::read()).await);
    let leased: Vec<&Problem> = lease.work.iter().map(|work| &work.problem).collect();
    assert!(leased.contains(&&common) && leased.contains(&&rare), "{leased:?}");
    assert_eq!(store.progress_of(&slug, &ids).await.unwrap(), (1, 2), "leased work waits, too");
    store.end_lease(&agent.id, &lease.id, &[], Now::read()).await.unwrap();
}
