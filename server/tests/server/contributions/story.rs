use diode_api::{ContributionState, Job, JobKind, ModelSource, ModelState, ModelSummary};
use diode_core::ids::Digest;
use diode_server::accounts::SignUps;
use diode_server::admin::verify;
use diode_server::store::{ContributionFilter, Now};

use super::{CONTRIBUTE, contribute, file, judge_all, own, ready, review, reviewed, state};
use crate::moderation::administrator;
use crate::test_app::TestApp;
use crate::tokens::{issue, with_token};
use crate::visitor::Visitor;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_contributed_judged_accepted_and_taken_back() {
    for app in TestApp::public_on_both("contributed").await {
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        let published = ready(&app, &ada).await;
        let sent = contribute(&ada, 1).await;
        let about = sent.contribution.clone().unwrap();
        assert_eq!((sent.source, about.state), (ModelSource::Contributed, ContributionState::Waiting));
        assert_eq!(about.by.as_ref().map(|by| by.as_str()), Some("ada"));
        assert_eq!(about.description.as_str(), "good at tall shapes");
        assert_eq!((about.licence.as_str(), about.without_kept), ("MIT OR Apache-2.0", true));
        // The same file again is the same model. Another account's file is refused.
        let again = ada.post_bytes(CONTRIBUTE, file(1)).await;
        assert_eq!((again.status.as_u16(), again.json::<ModelSummary>()), (200, sent.clone()));
        bob.post_bytes(CONTRIBUTE, file(1)).await.refusal(409, "taken");
        bob.post_bytes(CONTRIBUTE, file(1000)).await.refusal(409, "conflict");
        assert_eq!(own(&ada).await, std::slice::from_ref(&sent));
        review(&root, "accept", &sent).await.page(409);
        review(&root, "judge", &sent).await.page(409);

        judge_all(&app, &ada).await;
        let judged = own(&ada).await.remove(0);
        let figures = judged.contribution.as_ref().unwrap().figures.clone().unwrap();
        assert_eq!(state(&judged), ContributionState::Evaluated);
        assert_eq!(figures.beside, Some(published.id.clone()));
        // The contributed model has the same network as the published model.
        assert_eq!((figures.speed, figures.no_worse), (Some(1.0), true), "{}", figures.why);
        assert_eq!(figures.kept.as_ref().unwrap().problems, 6);
        assert_eq!(figures.kept, figures.beside_kept);
        assert_eq!(judged.kept, figures.kept);
        assert!(figures.why.contains("on 6 kept problems"), "{}", figures.why);

        // Nobody else can see the model.
        let path = format!("/api/v1/models/{}", sent.id);
        let file_path = format!("{path}/download");
        let private = format!("/api/v1/reviews/{}/download", sent.id);
        for visitor in [&bob, &Visitor::new(&app)] {
            assert_eq!(
                visitor.get("/api/v1/models").await.json::<Vec<ModelSummary>>(),
                std::slice::from_ref(&published)
            );
            visitor.get(&path).await.refusal(404, "not_found");
            visitor.get(&file_path).await.refusal(404, "not_found");
        }
        assert_eq!(own(&bob).await, []);
        bob.get(&private).await.refusal(403, "forbidden");
        assert_eq!(review(&bob, "accept", &sent).await.status, 403);
        let jobs = app.get("/api/v1/jobs").await;
        assert!(!String::from_utf8_lossy(&jobs.body).contains(sent.id.as_str()));
        assert_eq!(jobs.json::<Vec<Job>>()[0].request.kind, JobKind::Evaluate);

        let listed = async |state| {
            let filter = ContributionFilter { account: None, state: Some(state) };
            app.backend.store.contributions(&filter, 9).await.unwrap()
        };
        assert_eq!(listed(ContributionState::Evaluated).await, std::slice::from_ref(&judged));
        assert_eq!(listed(ContributionState::Waiting).await, []);
        let reply = root.get(&private).await;
        assert_eq!(
            (Digest::of(&reply.body), reply.header("cache-control")),
            (sent.digest.clone(), "private, no-store")
        );

        let accepted = reviewed(&app, &root, "accept", &sent).await;
        assert_eq!(
            (state(&accepted), accepted.state),
            (ContributionState::Accepted, ModelState::Unpublished)
        );
        assert_eq!((&accepted.reason, &accepted.kept), (&figures.why, &figures.kept));
        let seen: Vec<ModelSummary> = app.fetch("/api/v1/models").await;
        assert_eq!(seen, [accepted.clone(), published.clone()]);
        assert_eq!(app.fetch::<ModelSummary>(&path).await, accepted);
        let reply = app.get(&file_path).await;
        assert_eq!((reply.status.as_u16(), Digest::of(&reply.body)), (200, sent.digest.clone()));
        assert_eq!(reply.header("cache-control"), "no-cache");
        let log = app.log().await;
        assert_eq!(log[0].what, format!("accept contributed model {} of ada", sent.id));
        assert_eq!((log[0].who.as_str(), log[0].why.as_str()), ("root", "tested"));
        review(&root, "accept", &sent).await.page(409);
        review(&root, "judge", &sent).await.page(409);

        // Only an administrator can publish the model. When it is declined, the model before it is published
        // again.
        review(&root, "publish", &sent).await.page(200);
        assert_eq!(app.fetch::<ModelSummary>(&path).await.state, ModelState::Published);
        let declined = reviewed(&app, &root, "decline", &sent).await;
        assert_eq!(state(&declined), ContributionState::Declined);
        app.get(&path).await.refusal(404, "not_found");
        app.get(&file_path).await.refusal(404, "not_found");
        let left: Vec<ModelSummary> = app.fetch("/api/v1/models").await;
        assert_eq!((left.len(), &left[0].id, left[0].state), (1, &published.id, ModelState::Published));
        assert_eq!(state(&own(&ada).await[0]), ContributionState::Declined);
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean() && verified.orphans == 0, "{verified}");
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_model_stays_its_contributors_and_may_be_judged_anew() {
    for app in TestApp::public_on_both("declined").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        ready(&app, &ada).await;
        let sent = contribute(&ada, 1).await;
        let declined = reviewed(&app, &root, "decline", &sent).await;
        assert_eq!(
            (state(&declined), declined.contribution.as_ref().unwrap().reason.as_str()),
            (ContributionState::Declined, "tested")
        );
        assert_eq!(own(&ada).await, [declined]);
        // The job of a declined model has nothing to do. Whoever sends the file again gets the decision.
        let claim = app.backend.store.claim_job(Now::read()).await.unwrap().unwrap();
        assert_eq!(app.backend.store.contribution_of_job(&claim.job.id).await.unwrap(), None);
        assert!(app.backend.store.finish_job(&claim, Now::read(), Err("tested")).await.unwrap());
        let again = ada.post_bytes(CONTRIBUTE, file(1)).await;
        assert_eq!((again.status.as_u16(), state(&again.json())), (200, ContributionState::Declined));
        review(&root, "decline", &sent).await.page(409);
        let message = review(&root, "accept", &sent).await.page(409);
        assert!(message.contains("is declined"), "{message}");

        let waiting = reviewed(&app, &root, "judge", &sent).await;
        assert_eq!(state(&waiting), ContributionState::Waiting);
        judge_all(&app, &ada).await;
        assert_eq!(review(&root, "accept", &sent).await.status, 200);
        let unknown = ModelSummary { id: diode_core::ids::ModelId::of(b"none"), ..sent };
        review(&root, "accept", &unknown).await.page(404);
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_whose_judging_was_cancelled_says_so_and_is_judged_anew() {
    for app in TestApp::public_on_both("unjudged").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        ready(&app, &ada).await;
        let sent = contribute(&ada, 1).await;
        let job = sent.contribution.as_ref().unwrap().job.clone();
        assert_eq!(ada.send("DELETE", &format!("/api/v1/jobs/{job}"), "").await.status, 200);
        let waiting = own(&ada).await.remove(0);
        assert_eq!(
            (state(&waiting), waiting.contribution.as_ref().unwrap().reason.as_str()),
            (ContributionState::Waiting, "the job that judges it was cancelled")
        );
        let message = review(&root, "accept", &sent).await.page(409);
        assert!(message.contains("ask for `judge`"), "{message}");
        let again = reviewed(&app, &root, "judge", &sent).await;
        assert_eq!(again.contribution.as_ref().unwrap().reason, "");
        judge_all(&app, &ada).await;
        assert_eq!(review(&root, "accept", &sent).await.status, 200);
        app.end().await;
    }
}

#[tokio::test]
async fn only_so_many_models_of_an_account_wait() {
    for app in TestApp::public_on_both("many_contributed").await {
        let root = administrator(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        ready(&app, &ada).await;
        let mut first = None;
        for number in 1..=5 {
            let sent = contribute(&ada, number).await;
            // Ends the job, so that the limit of jobs is not reached first.
            let claim = app.backend.store.claim_job(Now::read()).await.unwrap().unwrap();
            assert!(app.backend.store.finish_job(&claim, Now::read(), Err("tested")).await.unwrap());
            first.get_or_insert(sent);
        }
        let message = ada.post_bytes(CONTRIBUTE, file(6)).await.refusal(409, "conflict");
        assert!(message.contains("5 models of your account wait"), "{message}");
        assert_eq!(own(&ada).await.len(), 5);
        contribute(&bob, 7).await;
        // If its job has failed, a model can be judged anew or declined.
        assert_eq!(review(&root, "decline", &first.unwrap()).await.status, 200);
        contribute(&ada, 6).await;
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.is_clean() && verified.orphans == 0, "{verified}");
        app.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_decide_on_a_page_and_contributors_see_it() {
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    let sent = contribute(&ada, 1).await;
    let path = "/account/models";
    assert_eq!(Visitor::new(&app).get(path).await.header("location"), "/sign-in?next=/account/models");
    assert!(root.page(path).await.contains("Not judged yet"));
    judge_all(&app, &ada).await;
    let page = root.page(path).await;
    for part in [sent.id.as_str(), "by ada", "good at tall shapes", "on 6 kept problems", "Accept", "Decline"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = ada.page(path).await;
    assert!(page.contains("evaluated") && !page.contains("Accept"), "{page}");
    let fields = [("model", sent.id.as_str()), ("act", "accept"), ("reason", "as good")];
    assert_eq!(ada.submit(path, &fields).await.status, 403);
    let without = root.submit(path, &[("model", sent.id.as_str()), ("act", "accept"), ("reason", "")]).await;
    assert_eq!(without.status, 400);
    let done = root.submit(path, &fields).await;
    assert_eq!(done.status, 200);
    assert!(String::from_utf8_lossy(&done.body).contains("accepted: as good"));
    assert!(ada.page(path).await.contains("accepted: as good"));
    assert!(root.page(path).await.contains("No model waits."));
    assert_eq!(root.submit(path, &fields).await.status, 409);
}

#[tokio::test]
async fn contributing_needs_an_account_and_the_scope_of_uploads() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    app.send_bytes(CONTRIBUTE, file(1)).await.refusal(401, "unauthorized");
    app.get("/api/v1/contributions").await.refusal(401, "unauthorized");
    let bearer = async |scopes: &str| format!("Bearer {}", issue(&ada, scopes).await.secret);
    let train = bearer(r#"["train"]"#).await;
    with_token(&app, "POST", CONTRIBUTE, &train, file(1)).await.refusal(403, "forbidden");
    let upload = bearer(r#"["upload"]"#).await;
    assert_eq!(with_token(&app, "POST", CONTRIBUTE, &upload, file(1)).await.status, 201);
    let listed = with_token(&app, "GET", "/api/v1/contributions", &upload, Vec::new()).await;
    assert_eq!(listed.json::<Vec<ModelSummary>>().len(), 1);
    // Even where uploads need no account, a model needs a contributor with a name.
    let free = TestApp::new().await;
    free.send_bytes(CONTRIBUTE, file(1)).await.refusal(401, "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_and_accepts() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &ada).await;
    let sent = contribute(&ada, 1).await;
    judge_all(&app, &ada).await;
    let (_, listed, error) = app.admin(&["contributed", "--state", "evaluated"]);
    assert!(listed.contains(sent.id.as_str()) && listed.contains("of ada, evaluated"), "{listed}{error}");
    let (code, said, error) = app.admin(&["accept", sent.id.as_str(), "--reason", "tested"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(said.contains("accepted: tested") && said.contains("on 6 kept problems"), "{said}");
    let (code, _, error) = app.admin(&["accept", sent.id.as_str(), "--reason", "tested"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("is accepted, so `accept` is not possible"), "{error}");
    assert_eq!(app.fetch::<Vec<ModelSummary>>("/api/v1/models").await.len(), 2);
}
