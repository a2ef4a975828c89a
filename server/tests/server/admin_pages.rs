//! Tests of the pages for administrators and of an account's contributions, as a browser without scripts sees
//! them.

use diode_api::{HardwareSummary, Job, JobState, Receipt, Standing};
use diode_core::hardware::Hardware;
use diode_server::accounts::SignUps;

use crate::agents::h200_registration;
use crate::models::summary;
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;
use crate::trust::{send, settle, timed};
use crate::visitor::Visitor;

const PAGES: [&str; 6] =
    ["/admin", "/admin/uploads", "/admin/hardware", "/admin/accounts", "/admin/packs", "/admin/trainings"];

#[tokio::test]
async fn nobody_else_sees_or_does_anything() {
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let receipt = send(&ada, &timed(1.0)).await;
    for path in PAGES {
        assert!(root.page(path).await.contains("<h1>"), "{path}");
        assert_eq!(ada.get(path).await.status, 403, "{path}");
        let stranger = Visitor::new(&app).get(path).await;
        assert_eq!(
            (stranger.status.as_u16(), stranger.header("location").starts_with("/sign-in")),
            (303, true)
        );
    }
    let (upload, reason) = (("upload", receipt.id.as_str()), ("reason", "because"));
    for (path, fields) in [
        ("/admin/uploads", vec![("act", "remove"), upload, reason]),
        (
            "/admin/hardware",
            vec![("act", "confirm-hardware"), ("slug", "nvidia-h200"), ("upload", ""), reason],
        ),
        (
            "/admin/hardware",
            vec![("act", "merge-hardware"), ("from", "nvidia-x"), ("into", "nvidia-h200"), reason],
        ),
        ("/admin/accounts", vec![("name", "root"), ("act", "disable")]),
        ("/admin/accounts/reset", vec![("name", "root")]),
        ("/admin/accounts/invite", vec![]),
        ("/admin/packs", vec![("act", "withdraw-pack"), ("digest", receipt.digest.as_str())]),
        ("/admin/trainings", vec![("act", "cancel-job"), ("job", "0123456789abcdef")]),
        ("/admin/trainings", vec![("act", "publish"), ("model", "0123456789abcdef"), reason]),
    ] {
        assert_eq!(ada.submit(path, &fields).await.status, 403, "{path}");
        let stranger = Visitor::new(&app).submit(path, &fields).await.status.as_u16();
        assert!([303, 401].contains(&stranger), "{path}: {stranger}");
    }
    let there: Receipt = app.fetch(&format!("/api/v1/uploads/{}", receipt.id)).await;
    assert_eq!(there.standing, Standing::Counts);
}

#[tokio::test]
async fn administrators_do_on_pages_what_the_command_line_does() {
    for app in TestApp::public_on_both("admin_pages").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let sample = Hardware { facts: h200().facts, ..Hardware::from_name("NVIDIA X7").unwrap() };
        let receipt = send(&ada, &dataset(sample.clone(), &[mm(2048, 512, 512)], 4.0)).await;
        send(&ada, &dataset(h200(), &[mm(2048, 512, 512)], 4.0)).await;
        settle(store).await;

        let uploads = root.page("/admin/uploads?contributor=ada").await;
        assert!(
            uploads.contains(receipt.id.as_str()) && uploads.contains("<td class=\"num\">1</td>"),
            "{uploads}"
        );
        let act = async |path: &str, fields: &[(&str, &str)]| {
            let reply = root.submit(path, fields).await;
            let text = String::from_utf8(reply.body).unwrap();
            assert_eq!(reply.status, 200, "{path}: {text}");
            text
        };
        let (upload, reason) = (("upload", receipt.id.as_str()), ("reason", "because"));
        let said = act("/admin/uploads", &[("act", "quarantine"), upload, reason]).await;
        assert!(said.contains("1 upload changed."), "{said}");
        assert!(said.contains("value=\"restore\"") && said.contains("Undo"), "{said}");
        assert!(root.page("/admin/uploads?standing=quarantined").await.contains("because"));
        act("/admin/uploads", &[("act", "restore"), ("account", "ada"), reason]).await;

        let doubtful = root.page("/admin/hardware").await;
        assert!(
            doubtful.contains("NVIDIA X7") && doubtful.contains("These are the facts of NVIDIA H200."),
            "{doubtful}"
        );
        assert!(root.page("/admin").await.contains(": 1 to confirm"));
        let confirm = ("act", "confirm-hardware");
        let fields = [confirm, ("slug", sample.slug.as_str()), ("upload", receipt.id.as_str()), reason];
        assert!(act("/admin/hardware", &fields).await.contains("are confirmed"));
        let merge =
            [("act", "merge-hardware"), ("from", sample.slug.as_str()), ("into", "nvidia-h200"), reason];
        // What cannot be taken back is asked first, and nothing is done until the answer.
        let asked = act("/admin/hardware", &merge).await;
        assert!(asked.contains("cannot be undone") && asked.contains("name=\"sure\""), "{asked}");
        assert_eq!(app.fetch::<Vec<HardwareSummary>>("/api/v1/hardware").await.len(), 2);
        assert!(
            act("/admin/hardware", &[&merge[..], &[("sure", "yes")]].concat()).await.contains("1 solution")
        );
        let listed: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
        assert_eq!(listed.len(), 1);

        assert!(act("/admin/accounts", &[("name", "ada"), ("act", "disable")]).await.contains("disabled"));
        assert_eq!(ada.get("/api/v1/account").await.status, 401);
        assert!(act("/admin/accounts", &[("name", "ada"), ("act", "enable")]).await.contains("enabled"));
        assert!(act("/admin/accounts/reset", &[("name", "ada")]).await.contains("link="));
        let own = root.submit("/admin/accounts", &[("name", "root"), ("act", "disable")]).await;
        assert_eq!(own.status, 409);
        assert!(act("/admin/accounts/invite", &[]).await.contains("works once"));

        let job: Job = root
            .post("/api/v1/jobs", r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#)
            .await
            .json();
        assert!(
            act("/admin/trainings", &[("act", "cancel-job"), ("job", job.id.as_str())])
                .await
                .contains("is cancelled")
        );
        assert_eq!(app.fetch::<Job>(&format!("/api/v1/jobs/{}", job.id)).await.state, JobState::Cancelled);
        let model = summary(b"one");
        store.add_shipped_model(&model, &h200(), &[], None, diode_server::store::Now::read()).await.unwrap();
        let pin = [("model", model.id.as_str()), ("act", "pin"), reason];
        assert!(act("/admin/trainings", &pin).await.contains(", pinned"));
        let log = root.page("/admin").await;
        let job = format!("cancel job {}", job.id);
        for done in [
            "pin model",
            &job,
            "make an invitation",
            "disable ada",
            "enable ada",
            "link for a new password of ada",
        ] {
            assert!(log.contains(done), "{done}: {log}");
        }
        app.end().await;
    }
}

#[tokio::test]
async fn an_account_sees_its_uploads_agents_and_records() {
    for app in TestApp::public_on_both("own_pages").await {
        let store = app.backend.store.as_ref();
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        assert!(ada.page("/account/contributions").await.contains("None yet."));
        let both = [mm(2048, 512, 512), mm(4096, 512, 512)];
        let receipt = send(&ada, &dataset(h200(), &both, 4.0)).await;
        // Bob is faster on one of the problems.
        send(&bob, &dataset(h200(), &both[..1], 3.5)).await;
        settle(store).await;
        let registration = serde_json::to_string(&h200_registration()).unwrap();
        assert_eq!(ada.post("/api/v1/agents", &registration).await.status, 200);

        let page = ada.page("/account/contributions").await;
        assert!(page.contains(receipt.id.as_str()) && page.contains("2 problems"), "{page}");
        assert!(page.contains(&h200_registration().name) && page.contains("has no work now"), "{page}");
        assert!(page.contains("On <strong>1 problem</strong>"), "{page}");
        assert!(page.contains("4096×512×512 bfloat16</a> on nvidia-h200"), "{page}");
        let theirs = bob.page("/account/contributions").await;
        assert!(
            theirs.contains("2048×512×512 bfloat16") && !theirs.contains(&h200_registration().name),
            "{theirs}"
        );

        // The download has the bytes that were sent.
        let file = app.get(&format!("/api/v1/uploads/{}/download", receipt.id)).await;
        assert_eq!((file.status.as_u16(), &file.body), (200, &columnar(&dataset(h200(), &both, 4.0))));
        assert!(file.header("content-disposition").contains(&format!("{}.msgpack.zst", receipt.id)));
        app.end().await;
    }
}

#[tokio::test]
async fn uploads_are_listed_by_oddness_and_found() {
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
    let sizes: Vec<_> = (1..=6).map(|step| mm(1024 * step, 512, 512)).collect();
    let plain = send(&ada, &dataset(h200(), &sizes, 4.0)).await;
    let odd = send(&bob, &dataset(h200(), &sizes[..1], 3.9)).await;
    let report = format!(r#"{{"upload":"{}","reason":"times of another GPU"}}"#, odd.id);
    assert_eq!(ada.post("/api/v1/reports", &report).await.status, 204);
    let newer = send(&ada, &dataset(h200(), &[mm(64, 512, 512)], 4.0)).await;
    let order = async |query: &str| {
        let page = root.page(&format!("/admin/uploads{query}")).await;
        let table = page
            .split("<table")
            .nth(1)
            .unwrap_or_default()
            .split("</table")
            .next()
            .unwrap_or_default()
            .to_owned();
        let mut found: Vec<(usize, String)> = [&plain, &odd, &newer]
            .into_iter()
            .filter_map(|one| Some((table.find(one.id.as_str())?, one.id.to_string())))
            .collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    let [plain, odd, newer] = [&plain, &odd, &newer].map(|one| one.id.to_string());
    assert_eq!(order("").await[0], odd);
    assert_eq!(order("?newest=true").await, [newer.clone(), odd.clone(), plain.clone()]);
    assert_eq!(order("?search=bob").await, std::slice::from_ref(&odd));
    assert_eq!(order(&format!("?search={}", &plain[..10])).await, [plain]);
    assert_eq!(order("?search=nvidia-h200&contributor=ada").await.len(), 2);
    assert!(order("?search=nobody").await.is_empty());
    // Deleting asks, and does nothing until the answer.
    let fields = [("act", "remove"), ("upload", odd.as_str()), ("reason", "another GPU")];
    let asked = root.submit("/admin/uploads", &fields).await;
    assert!(asked.page(200).contains("cannot be undone"));
    assert_eq!(app.get(&format!("/api/v1/uploads/{odd}")).await.status, 200);
    let sure = [&fields[..], &[("sure", "yes")]].concat();
    assert!(root.submit("/admin/uploads", &sure).await.page(200).contains("1 upload"));
    assert_eq!(app.get(&format!("/api/v1/uploads/{odd}")).await.status, 404);
}
