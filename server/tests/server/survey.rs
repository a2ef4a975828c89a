//! Tests of pages that read much of the data at once, on both databases.

use std::collections::BTreeMap;

use diode_api::{
    Activity, ConfigCover, CoverageMap, Finding, FindingKind, Findings, HardwareContributor, Leaderboard,
    LibraryUse, ProblemDetail, Ratios, Receipt, ShapeOnHardware, SizeMap,
};
use diode_core::hardware::{Hardware, find};
use diode_core::problem::problems_in;
use diode_core::{Config, DType, Dataset, Method, Op, Problem, TimeColumn};

use crate::admin::tamper;
use crate::samples::{collected, columnar, dataset, h200, mm, problem, seven};
use crate::test_app::TestApp;

fn h100() -> Hardware {
    find("nvidia-h100").unwrap()
}

fn sizes() -> Vec<Problem> {
    (1..=40).map(|step| mm(64 * step, 512, 1024)).collect()
}

#[tokio::test]
async fn few_configs_cover_the_problems_that_the_filters_leave() {
    for app in TestApp::on_both("cover").await {
        const PATH: &str = "/api/v1/hardware/nvidia-h200/configs";
        app.get(PATH).await.refusal(404, "not_found");
        app.receipt(columnar(&dataset(h200(), &sizes(), 1.0))).await;
        let cover: ConfigCover = app.fetch(PATH).await;
        assert_eq!((cover.method, cover.problems, cover.sampled), (Method::Unspecified, 40, 40));
        // The samples have six tiles. The list needs only tiles that are the best somewhere.
        let last = cover.steps.last().unwrap();
        assert!(cover.steps.len() <= 6 && last.covered == 40 && last.share_of_best > 0.999, "{cover:?}");
        assert!(cover.steps[0].covered < 40 && cover.steps.iter().all(|step| !step.config.is_library()));

        let few: ConfigCover = app.fetch(&format!("{PATH}?max_m=640")).await;
        assert_eq!((few.problems, few.steps.last().unwrap().covered), (10, 10));
        let none: ConfigCover = app.fetch(&format!("{PATH}?op=bmm")).await;
        assert_eq!((none.problems, none.steps), (0, Vec::new()));
        let message = app.get(&format!("{PATH}?colour=red")).await.refusal(400, "invalid");
        assert!(message.contains("colour"), "{message}");

        // The client already has the answer, until something else is measured.
        let first = app.get(PATH).await;
        let tag = first.header("etag").to_owned();
        assert_eq!(app.get_with(PATH, &[("if-none-match", &tag)]).await.status, 304);
        app.receipt(columnar(&dataset(h200(), &[mm(1, 1024, 1024)], 1.0))).await;
        assert_eq!(app.get_with(PATH, &[("if-none-match", &tag)]).await.status, 200);
        app.end().await;
    }
}

#[tokio::test]
async fn two_hardwares_are_compared_where_both_measured() {
    for app in TestApp::on_both("compare").await {
        const PATH: &str = "/api/v1/comparisons/hardware?a=nvidia-h100&b=nvidia-h200";
        app.receipt(columnar(&dataset(h100(), &sizes(), 1.5))).await;
        let [mut more, alone] = [sizes(), vec![mm(16, 512, 1024)]];
        more.extend(alone);
        app.receipt(columnar(&dataset(h200(), &more, 1.0))).await;
        let ratios: Ratios = app.fetch(&format!("{PATH}&limit=5")).await;
        assert_eq!((ratios.problems, ratios.only_a, ratios.only_b), (40, 0, 1));
        assert_eq!((ratios.slower, ratios.same, ratios.faster, ratios.items.len()), (0, 0, 40, 5));
        assert!(ratios.b_over_a.unwrap() > 1.2, "{ratios:?}");
        assert!(ratios.items.is_sorted_by(|a, b| a.b_over_a <= b.b_over_a));
        assert_eq!(ratios.histogram.iter().map(|bin| bin.problems).sum::<u64>(), 40);
        let turned: Ratios =
            app.fetch("/api/v1/comparisons/hardware?a=nvidia-h200&b=nvidia-h100&order=desc").await;
        assert_eq!((turned.slower, turned.faster), (40, 0));
        let same = turned.b_over_a.unwrap() * ratios.b_over_a.unwrap();
        assert!((same - 1.0).abs() < 1e-9, "{same}");
        let wide: Ratios = app.fetch(&format!("{PATH}&noise=50&max_m=640")).await;
        assert_eq!((wide.problems, wide.same, wide.only_b), (10, 10, 1));
        // The library was not timed.
        let library: Ratios = app.fetch(&format!("{PATH}&kernels=library")).await;
        assert_eq!((library.problems, library.b_over_a, library.items.len()), (0, None, 0));
        let everything: Ratios = app.fetch(&format!("{PATH}&kernels=everything")).await;
        assert_eq!(everything.problems, 40);
        for (query, word) in [("noise=51", "noise"), ("limit=501", "limit"), ("kernels=cuda", "kernels")] {
            let message = app.get(&format!("{PATH}&{query}")).await.refusal(400, "invalid");
            assert!(message.contains(word), "{query}: {message}");
        }
        app.get("/api/v1/comparisons/hardware?a=nvidia-h100&b=no-such").await.refusal(404, "not_found");
        app.end().await;
    }
}

#[tokio::test]
async fn sizes_are_mapped_by_what_the_filters_leave() {
    for app in TestApp::on_both("sizes").await {
        app.receipt(columnar(&dataset(h200(), &sizes(), 1.0))).await;
        const PATH: &str = "/api/v1/hardware/nvidia-h200/sizes";
        let map: SizeMap = app.fetch(PATH).await;
        let problems = |map: &SizeMap| map.cells.iter().map(|cell| cell.problems).sum::<u64>();
        assert_eq!((problems(&map), map.method), (40, Method::Unspecified));
        assert_eq!(map.depths.iter().map(|depth| depth.problems).sum::<u64>(), 40);
        assert!(map.cells.iter().all(|cell| cell.tile.is_some() && cell.triton_over_library.is_none()));
        let narrow: SizeMap = app.fetch(&format!("{PATH}?max_m=640")).await;
        assert_eq!(problems(&narrow), 10);
        let none: SizeMap = app.fetch(&format!("{PATH}?min_k=100000")).await;
        assert_eq!((none.cells.len(), none.depths), (0, map.depths));
        let tag = app.get(PATH).await.header("etag").to_owned();
        assert_eq!(app.get_with(PATH, &[("if-none-match", &tag)]).await.status, 304);
        app.receipt(columnar(&dataset(h200(), &[mm(1, 1024, 1024)], 1.0))).await;
        assert_eq!(problems(&app.fetch(PATH).await), 41);
        app.get("/api/v1/hardware/nvidia-h100/sizes").await.refusal(404, "not_found");
        app.end().await;
    }
}

#[tokio::test]
async fn two_ways_of_timing_are_compared() {
    for app in TestApp::on_both("comparemethods").await {
        let mut cold = dataset(h200(), &sizes()[..30], 1.2);
        cold.solutions.iter_mut().for_each(|solution| solution.method = Method::MEDIAN_COLD_EVENT);
        app.receipt(columnar(&cold)).await;
        app.receipt(columnar(&dataset(h200(), &sizes(), 1.0))).await;
        let of =
            |a: &str, b: &str| format!("/api/v1/comparisons/methods?a=nvidia-h200@{a}&b=nvidia-h200@{b}");
        let path = of("median-cold-event", "unspecified");
        let ratios: Ratios = app.fetch(&path).await;
        assert_eq!((ratios.problems, ratios.only_a, ratios.only_b, ratios.faster), (30, 0, 10, 30));
        assert_eq!(ratios.method, Some(Method::Unspecified));
        let same: Ratios = app.fetch(&of("unspecified", "unspecified")).await;
        assert_eq!((same.problems, same.same), (40, 40));
        let message = app.get(&of("unspecified", "median-warm-wall")).await.refusal(404, "not_found");
        assert!(message.contains("median-cold-event"), "{message}");
        let message = app.get(&of("unspecified", "quickly")).await.refusal(400, "invalid");
        assert!(message.contains("quickly"), "{message}");
        app.get(&path.replace("h200@u", "h200")).await.refusal(400, "invalid");
        app.end().await;
    }
}

#[tokio::test]
async fn two_uploads_are_compared_by_their_own_times() {
    for app in TestApp::on_both("compareuploads").await {
        let a: Receipt = app.receipt(columnar(&dataset(h200(), &sizes(), 1.0))).await;
        let b: Receipt = app.receipt(columnar(&dataset(h200(), &sizes()[..30], 1.2))).await;
        let path = |a: &Receipt, b: &Receipt| format!("/api/v1/comparisons/uploads?a={}&b={}", a.id, b.id);
        let ratios: Ratios = app.fetch(&path(&a, &b)).await;
        assert_eq!((ratios.problems, ratios.only_a, ratios.only_b, ratios.slower), (30, 10, 0, 30));
        assert!((0.8..0.95).contains(&ratios.b_over_a.unwrap()), "{:?}", ratios.b_over_a);
        let same: Ratios = app.fetch(&path(&a, &a)).await;
        assert_eq!((same.problems, same.same), (40, 40));
        // Times of two methods are not compared.
        let other: Receipt = app.receipt(columnar(&collected())).await;
        let none: Ratios = app.fetch(&path(&a, &other)).await;
        assert_eq!((none.method, none.problems, none.only_a, none.only_b), (None, 0, 40, 1));
        app.get(&format!("/api/v1/comparisons/uploads?a={}&b=0123456789abcdef", a.id))
            .await
            .refusal(404, "not_found");
        app.end().await;
    }
}

#[tokio::test]
async fn two_versions_of_a_library_are_compared_over_their_uploads() {
    for app in TestApp::on_both("libraries").await {
        assert_eq!(app.fetch::<Vec<LibraryUse>>("/api/v1/libraries").await, []);
        let beside = |version: &str, problems: &[Problem], factor: f64| {
            let mut dataset = dataset(h200(), problems, factor);
            dataset.provenance.node = [("cublas".to_owned(), version.to_owned())].into();
            columnar(&dataset)
        };
        app.receipt(beside("120804", &sizes()[..20], 1.0)).await;
        let receipt = app.receipt(beside("120804", &sizes()[20..], 1.0)).await;
        let library = receipt.hardware[0].library.clone();
        assert_eq!(library.map(String::from).as_deref(), Some("cublas-120804"));
        app.receipt(beside("130002", &sizes()[..30], 1.2)).await;
        // An upload without a version of the library, or with an invalid one, has no library.
        let silent = app.receipt(columnar(&dataset(h200(), &sizes(), 1.4))).await;
        assert_eq!(silent.hardware[0].library, None);
        app.receipt(beside("thirteen", &sizes(), 1.5)).await;

        let listed: Vec<LibraryUse> = app.fetch("/api/v1/libraries").await;
        let listed: Vec<_> =
            listed.iter().map(|one| (one.name.to_string(), one.uploads, one.problems)).collect();
        let names = ["nvidia-h200@cublas-120804", "nvidia-h200@cublas-130002"].map(str::to_owned);
        assert_eq!(listed, [(names[0].clone(), 2, 40), (names[1].clone(), 1, 30)]);
        let path = format!("/api/v1/comparisons/libraries?a={}&b={}", names[0], names[1]);
        let ratios: Ratios = app.fetch(&format!("{path}&kernels=triton")).await;
        assert_eq!((ratios.problems, ratios.only_a, ratios.only_b, ratios.slower), (30, 10, 0, 30));
        assert!(ratios.items.is_sorted_by(|a, b| a.b_over_a <= b.b_over_a), "what got slower comes first");
        // The request asks for the library's own times, which nobody has measured here.
        let none: Ratios = app.fetch(&path).await;
        assert_eq!((none.problems, none.b_over_a), (0, None));
        let unknown = path.replace("130002", "140000");
        assert!(app.get(&unknown).await.refusal(404, "not_found").contains("/api/v1/libraries"));
        app.get(&path.replace("@cublas-130002", "")).await.refusal(400, "invalid");
        app.end().await;
    }
}

#[tokio::test]
async fn libraries_are_listed_without_reading_receipts() {
    let app = TestApp::new().await;
    let mut dataset = dataset(h200(), &sizes(), 1.0);
    dataset.provenance.node = [("cublas".to_owned(), "130002".to_owned())].into();
    app.receipt(columnar(&dataset)).await;
    let before: Vec<LibraryUse> = app.fetch("/api/v1/libraries").await;
    tamper(&app, "UPDATE uploads SET hardware = '\"library\":damaged'").await;
    assert_eq!(app.fetch::<Vec<LibraryUse>>("/api/v1/libraries").await, before);
    tamper(&app, "UPDATE uploads SET standing = 1").await;
    assert_eq!(app.fetch::<Vec<LibraryUse>>("/api/v1/libraries").await, []);
}

#[tokio::test]
async fn a_shape_is_shown_on_every_hardware() {
    for app in TestApp::on_both("everywhere").await {
        let linear = problem(Op::Addmm, 64, 512, 1024, DType::BFloat16);
        app.receipt(columnar(&dataset(h100(), &[linear.clone(), mm(64, 512, 1024)], 1.5))).await;
        app.receipt(columnar(&dataset(h200(), &sizes()[1..], 1.0))).await;
        let found: Vec<ShapeOnHardware> = app.fetch("/api/v1/nearest?m=64&n=512&k=1024").await;
        let [h100, h200] = found.as_slice() else { panic!("{found:?}") };
        assert!(h100.exact && h100.items.len() == 2 && h100.items[0].problem.op == Op::Mm, "{h100:?}");
        assert!(h100.items[0].distance == 0.0 && h100.items[1].problem == linear);
        assert!(!h200.exact && h200.items.len() == 2 && h200.items[0].problem == sizes()[1], "{h200:?}");
        let message = app.get("/api/v1/nearest?m=64").await.refusal(400, "invalid");
        assert!(message.contains("N: got nothing"), "{message}");
        app.end().await;
    }
}

#[tokio::test]
async fn contributors_and_activity_name_who_measured() {
    for app in TestApp::on_both("contributors").await {
        const PATH: &str = "/api/v1/hardware/nvidia-h200/contributors";
        app.get(PATH).await.refusal(404, "not_found");
        let quiet: Activity = app.fetch("/api/v1/activity").await;
        assert_eq!((quiet.uploads.len(), quiet.working, quiet.agents.len()), (0, 0, 0));
        for _ in 0..2 {
            app.receipt(columnar(&seven())).await;
        }
        let newest = app.receipt(columnar(&collected())).await;
        let [only]: [HardwareContributor; 1] = app.fetch::<Vec<_>>(PATH).await.try_into().unwrap();
        assert_eq!((only.name.clone(), only.problems, only.solutions, only.uploads), (None, 7, 8, 2));
        assert_eq!((only.newest_at.as_str(), only.log_ratio), (newest.received_at.as_str(), None));
        let now: Activity = app.fetch("/api/v1/activity").await;
        assert_eq!((now.uploads.len(), now.uploads[0].id.clone()), (2, newest.id));
        app.end().await;
    }
}

#[tokio::test]
async fn the_map_of_coverage_shows_holes_and_what_comes_next() {
    let app = TestApp::with_seven().await;
    let map: CoverageMap = app.fetch("/api/v1/hardware/nvidia-h200/coverage/map").await;
    assert_eq!((map.op, map.dtype, map.cells.len()), (Op::Mm, DType::BFloat16, 56));
    assert_eq!(map.cells.iter().map(|cell| cell.problems).sum::<u64>(), 5);
    assert!(map.covered > 0 && map.covered <= 5 && map.kinds > 100, "{} {}", map.covered, map.kinds);
    assert!(map.next.len() == 10 && map.next.iter().all(|next| next.why.contains("nothing of its kind")));
    let other: CoverageMap = app.fetch("/api/v1/hardware/nvidia-h200/coverage/map?op=bmm&dtype=int8").await;
    assert_eq!((other.cells.len(), other.kinds, other.next.len()), (0, 0, 10));
}

/// Timings of problems on which the library takes `ratio` times as long as the best Triton config.
fn beside_library(hardware: Hardware, problems: &[Problem], factor: f64, ratio: f64) -> Dataset {
    let mut dataset = dataset(hardware, problems, factor);
    let library = dataset.configs.intern(Config::Library);
    for solution in &mut dataset.solutions {
        let mut times: Vec<u64> = solution.times.iter_nanos().map(|time| time.0 as u64).collect();
        let best = times.iter().min().copied().unwrap_or_default();
        times.push((best as f64 * ratio) as u64);
        solution.configs.push(library);
        solution.times = TimeColumn::from_nanos(times).unwrap();
        solution.method = Method::MEDIAN_COLD_EVENT;
    }
    dataset
}

#[tokio::test]
async fn findings_say_what_the_board_says_and_nothing_of_chance() {
    for app in TestApp::on_both("findings").await {
        const PATH: &str = "/api/v1/hardware/nvidia-h200/findings";
        let all = async |path: &str| app.fetch::<Findings>(path).await.items;
        let of = |kind, all: &[Finding]| all.iter().find(|one| one.kind == kind).cloned();
        app.get(PATH).await.refusal(404, "not_found");
        let aligned: Vec<Problem> = (1..=30).map(|step| mm(64 * step, 512, 1024)).collect();
        let ragged: Vec<Problem> = (1..=25).map(|step| mm(64 * step, 513, 1024)).collect();
        // As fast as the library everywhere, and 19 problems that are not aligned: too few.
        app.receipt(columnar(&beside_library(h200(), &aligned, 2.5, 1.0))).await;
        app.receipt(columnar(&beside_library(h200(), &ragged[..19], 2.5, 1.5))).await;
        let few = all(PATH).await;
        let chance = [FindingKind::Alignment, FindingKind::TritonLeads, FindingKind::LibraryLeads];
        assert!(!few.iter().any(|one| chance.contains(&one.kind)), "{few:?}");

        app.receipt(columnar(&beside_library(h200(), &ragged[19..], 2.5, 1.2))).await;
        let slow: Vec<Problem> =
            (1..=21).map(|step| problem(Op::Mm, 16 * step, 256, 512, DType::Float16)).collect();
        app.receipt(columnar(&beside_library(h200(), &slow, 2.5, 0.7))).await;
        let found = all(PATH).await;
        let said = of(FindingKind::Alignment, &found).unwrap();
        let board = async |filters: &str| {
            app.fetch::<Leaderboard>(&format!("/api/v1/hardware/nvidia-h200/leaderboard?{filters}"))
                .await
                .comparison
        };
        let (here, elsewhere) = (board("aligned=false").await, board("aligned=true").await);
        assert_eq!(
            said.sentence,
            format!(
                "Where N or K is not a multiple of 8, Triton runs at {:.2}× cuBLAS (faster on {} of {} problems); elsewhere \
                 at {:.2}×.",
                here.ratio.unwrap(),
                here.wins,
                here.problems,
                elsewhere.ratio.unwrap()
            )
        );
        assert!(said.sentence.contains("1.42×") && said.sentence.contains("25 of 25"), "{}", said.sentence);
        assert_eq!((said.problems, said.of), (25, 76));
        // The page of each finding lists the problems that it is about, with the same ratio.
        let behind = of(FindingKind::LibraryLeads, &found).unwrap();
        assert!(behind.sentence.starts_with("cuBLAS leads most in mm in float16"), "{}", behind.sentence);
        for one in [&said, &behind] {
            let filters = one.link.strip_prefix("/hardware/nvidia-h200?").unwrap();
            let board = board(filters).await;
            assert_eq!(board.problems, one.problems, "{}", one.link);
            // The order of the sum may differ.
            assert!((board.ratio.unwrap() - one.ratio).abs() < 1e-12, "{}", one.link);
        }
        // Nothing is aligned better here than there, so nothing leads.
        assert_eq!(of(FindingKind::TritonLeads, &found), None, "{found:?}");

        // The greater hardware is slower. The pages of both say so, the overview once.
        app.receipt(columnar(&beside_library(h100(), &aligned, 1.5, 1.0))).await;
        let slower = of(FindingKind::Hardware, &all(PATH).await).unwrap();
        let other = all("/api/v1/hardware/nvidia-h100/findings").await;
        assert_eq!(of(FindingKind::Hardware, &other).as_ref(), Some(&slower));
        let ratios: Ratios =
            app.fetch("/api/v1/comparisons/hardware?a=nvidia-h100&b=nvidia-h200&kernels=everything").await;
        assert_eq!((slower.problems, slower.of), (ratios.slower, ratios.problems));
        assert_eq!((slower.problems, Some(slower.ratio)), (30, ratios.b_over_a));
        let overview = all("/api/v1/findings").await;
        assert_eq!(
            overview.iter().filter(|one| one.kind == FindingKind::Hardware).count(),
            1,
            "{overview:?}"
        );
        assert!(overview.len() <= 6 && overview.contains(&said), "{overview:?}");
        app.end().await;
    }
}

#[tokio::test]
async fn findings_say_what_fp8_and_a_newer_library_do() {
    let app = TestApp::new().await;
    const HERE: &str = "/api/v1/hardware/nvidia-h200";
    let sizes = || (1..=22).map(|step| 64 * step);
    let read = |text: String| problems_in(&text, DType::BFloat16).unwrap();
    let plain: Vec<Problem> = sizes().map(|m| mm(m, 512, 1024)).collect();
    let scaled: Vec<Problem> = sizes().flat_map(|m| read(format!("{m}x512x1024 fp8 row"))).collect();
    let of_experts = |dtype: &str| -> Vec<Problem> {
        sizes().flat_map(|m| read(format!("moe 128x768x2048 top8 {m} tokens {dtype}"))).collect()
    };
    for (version, factor) in [("120804", 2.5), ("130002", 3.0)] {
        let mut dataset = beside_library(h200(), &plain, factor, 1.0);
        dataset.provenance.node = [("cublas".to_owned(), version.to_owned())].into();
        app.receipt(columnar(&dataset)).await;
    }
    for served in [scaled, of_experts("fp8 block"), of_experts("bf16")] {
        app.receipt(columnar(&beside_library(h200(), &served, 2.5, 1.0))).await;
    }
    let found = app.fetch::<Findings>(&format!("{HERE}/findings")).await.items;
    let of = |kind| {
        found.iter().find(|one| one.kind == kind).unwrap_or_else(|| panic!("{kind} is not in {found:?}"))
    };

    let fp8 = of(FindingKind::Fp8);
    let best = async |dtype: &str| -> BTreeMap<u64, f64> {
        let board: Leaderboard = app.fetch(&format!("{HERE}/leaderboard?dtype={dtype}&limit=100")).await;
        let plain = board.items.into_iter().filter(|row| row.problem.groups.is_none());
        plain.map(|row| (row.problem.m, row.best_us)).collect()
    };
    let (of_bf16, of_fp8) = (best("bfloat16").await, best("float8_e4m3fn").await);
    let logs: Vec<f64> = of_fp8.iter().map(|(m, us)| (of_bf16[m] / us).ln()).collect();
    assert_eq!((logs.len(), fp8.problems, fp8.of), (22, 22, 22));
    assert!((fp8.ratio.ln() - logs.iter().sum::<f64>() / 22.0).abs() < 1e-9, "{fp8:?}");

    let experts = of(FindingKind::Experts);
    assert!(experts.sentence.contains("for experts") && experts.problems == 44, "{experts:?}");

    let newer = of(FindingKind::LibraryVersion);
    let ratios: Ratios =
        app.fetch(&newer.link.replace("/compare?what=libraries&", "/api/v1/comparisons/libraries?")).await;
    assert_eq!(
        (newer.problems, newer.of, Some(newer.ratio)),
        (ratios.slower, ratios.problems, ratios.b_over_a)
    );
    assert!(
        newer
            .sentence
            .starts_with("cuBLAS 13.0.2 takes more than 2 % longer than cuBLAS 12.8.4 on 22 of 22 problems"),
        "{}",
        newer.sentence
    );
    // A problem's page names the version only where all uploads agree on it.
    let board: Leaderboard = app.fetch(&format!("{HERE}/leaderboard?dtype=bfloat16&limit=1")).await;
    let detail: ProblemDetail = app.fetch(&format!("/api/v1/problems/{}", board.items[0].problem_id)).await;
    assert_eq!(detail.library_version, None);
}
