use std::collections::BTreeSet;

use diode_api::{
    ConfigCover, HardwareSummary, Kernels, Leaderboard, LeaderboardRow, LeaderboardSort, Moderation,
    ModerationAction, ModerationSubject, Page, ProblemPoint, Ratios, Reason, SizeMap,
};
use diode_core::hardware::{Hardware, find};
use diode_core::{Config, DType, Dataset, Op, Problem, Scaling, Table, TimeColumn};
use diode_formats::decode;
use diode_server::admin::verify;
use diode_server::store::Now;

use crate::samples::{columnar, dataset, h200, mm, problem, served, seven, solution};
use crate::test_app::{Reply, TestApp};

const BOARD: &str = "/api/v1/hardware/nvidia-h200/leaderboard";

#[tokio::test]
async fn a_walk_sees_every_row_once_in_any_order() {
    let app = TestApp::with_seven().await;
    // Int32 has no peak on this hardware, so these rows have no roofline share.
    let mut others = dataset(h200(), &[problem(Op::Mm, 64, 64, 64, DType::BFloat16)], 1.0);
    for size in [128, 256] {
        let mut other = others.solutions[0].clone();
        other.problem = problem(Op::Mm, size, size, size, DType::Int32);
        others.solutions.push(other);
    }
    // The library was timed on two problems. It is faster on one and slower on the other.
    for (size, factor) in [(320, 0.5), (384, 2.0)] {
        let mut with_library = solution(&mm(size, size, size), 1.0, &mut others.configs);
        let mut times: Vec<u64> = with_library.times.iter_nanos().map(|time| time.0 as u64).collect();
        times.push((*times.iter().min().unwrap() as f64 * factor) as u64);
        with_library.configs.push(others.configs.intern(Config::Library));
        with_library.times = TimeColumn::from_nanos(times).unwrap();
        others.solutions.push(with_library);
    }
    app.receipt(columnar(&others)).await;
    for (kernels, sort) in
        Kernels::ALL.iter().flat_map(|k| LeaderboardSort::ALL.iter().map(move |s| (*k, *s)))
    {
        for order in ["asc", "desc"] {
            let mut seen = Vec::new();
            let mut cursor = String::new();
            loop {
                let path = format!("{BOARD}?kernels={kernels}&sort={sort}&order={order}&limit=2{cursor}");
                let page: Leaderboard = app.fetch(&path).await;
                let comparison = page.comparison;
                assert_eq!(page.total, 12);
                assert_eq!((comparison.problems, comparison.wins, comparison.ties), (2, 1, 0));
                assert!(page.items.len() <= 2);
                seen.extend(page.items);
                let Some(next) = page.next_cursor else { break };
                cursor = format!("&cursor={next}");
            }
            let ids: BTreeSet<_> = seen.iter().map(|row| &row.problem_id).collect();
            assert_eq!((seen.len(), ids.len()), (12, 12), "{kernels} {sort} {order}");
            check_order(&seen, kernels, sort, order);
        }
    }
}

/// After a change, a server reads only what it changed. One that has just started reads everything.
#[tokio::test]
async fn a_board_in_memory_is_what_a_new_server_reads() {
    for app in TestApp::on_both("boards_in_memory").await {
        let same = async |rows: u64| {
            let fresh = app.replica().await;
            for path in ["", "/leaderboard", "/leaderboard?sort=time&min_m=600&op=mm", "/problems", "/sizes"]
            {
                let path = format!("/api/v1/hardware/nvidia-h200{path}");
                assert_eq!(app.get(&path).await.page(200), fresh.get(&path).await.page(200), "{path}");
            }
            assert_eq!(app.fetch::<Leaderboard>(BOARD).await.total, rows);
            fresh.backend.store.close().await;
        };
        let store = &app.backend.store;
        app.receipt(columnar(&seven())).await;
        same(7).await;
        app.receipt(columnar(&dataset(h200(), &[mm(1024, 1024, 1024)], 0.9))).await;
        same(7).await;
        let more = app.receipt(columnar(&dataset(h200(), &[mm(64, 64, 64), mm(96, 64, 64)], 1.0))).await.id;
        let other = Hardware::from_name("NVIDIA Z9000").unwrap();
        app.receipt(columnar(&dataset(other.clone(), &[mm(80, 64, 64), mm(96, 64, 64)], 1.1))).await;
        same(9).await;
        let reason: Reason = "a test".parse().unwrap();
        store.merge_hardware(&other.slug, &h200().slug, &reason, "root", Now::read()).await.unwrap().unwrap();
        same(9).await;
        while store.refresh_entries().await.unwrap() > 0 {}
        same(10).await;
        let subject = ModerationSubject::Upload(more);
        let quarantine = Moderation { action: ModerationAction::Quarantine, subject, reason };
        store.moderate(&quarantine, "root", Now::read()).await.unwrap().unwrap();
        same(9).await;
        app.end().await;
    }
}

fn check_order(rows: &[LeaderboardRow], kernels: Kernels, sort: LeaderboardSort, order: &str) {
    let value = |row: &LeaderboardRow| {
        let (us, tflops, roofline, gain) = match kernels {
            Kernels::Everything => {
                (Some(row.best_us), row.tflops, row.roofline_share, row.gain_over_defaults)
            }
            Kernels::Triton | Kernels::Library => {
                let of = if kernels == Kernels::Triton { &row.triton } else { &row.library };
                let of = of.as_ref();
                (
                    of.map(|of| of.us),
                    of.and_then(|of| of.tflops),
                    of.and_then(|of| of.roofline_share),
                    of.and_then(|of| of.gain_over_defaults),
                )
            }
        };
        match sort {
            LeaderboardSort::Tflops => tflops,
            LeaderboardSort::Time => us,
            LeaderboardSort::Roofline => roofline,
            LeaderboardSort::Gain => gain,
            LeaderboardSort::Ratio => row.triton_over_library,
            LeaderboardSort::Flops => Some(row.problem.flops()),
        }
    };
    for pair in rows.windows(2) {
        let in_order = match (value(&pair[0]), value(&pair[1])) {
            (Some(a), Some(b)) if order == "asc" => a <= b,
            (Some(a), Some(b)) => a >= b,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        assert!(in_order, "{kernels} {sort} {order}: {:?} before {:?}", value(&pair[0]), value(&pair[1]));
    }
}

#[tokio::test]
async fn filters_narrow_the_board() {
    let app = TestApp::with_seven().await;
    for (filter, expected) in [
        ("op=addmm", 1),
        ("dtype=float16", 2),
        ("b_layout=column", 0),
        ("b_layout=row", 7),
        ("method=unspecified", 7),
        ("method=median-cold-event", 0),
        ("min_m=1024&max_m=2048", 2),
        ("min_n=4096&min_k=4096", 2),
        ("max_k=512", 2),
        ("max_m=9223372036854775807", 7),
    ] {
        let page: Page<LeaderboardRow> = app.fetch(&format!("{BOARD}?{filter}")).await;
        assert_eq!((page.total, page.items.len()), (expected, expected as usize), "{filter}");
        assert_eq!(page.next_cursor, None);
    }
}

/// What models are served with is filtered as everything else is, wherever there are filters.
#[tokio::test]
async fn served_kinds_are_filtered_by_op_type_and_scaling() {
    const HARDWARE: &str = "/api/v1/hardware/nvidia-h200";
    for app in TestApp::on_both("served_kinds").await {
        let problems: Vec<Problem> = served().into_iter().chain([mm(64, 4096, 4096)]).collect();
        app.receipt(columnar(&dataset(h200(), &problems, 1.0))).await;
        app.receipt(columnar(&dataset(find("nvidia-h100").unwrap(), &problems, 1.5))).await;
        let summary: HardwareSummary = app.fetch(HARDWARE).await;
        assert_eq!(summary.scalings, Scaling::ALL);
        assert_eq!(summary.ops, [Op::Mm, Op::ScaledMm, Op::GroupedMm, Op::FusedMoe]);
        for (filter, expected) in [
            ("scaling=row", 2),
            ("scaling=tensor", 1),
            ("scaling=block", 3),
            ("scaling=none", 2),
            ("op=scaled_mm", 4),
            ("op=fused_moe", 2),
            ("op=grouped_mm", 1),
            ("op=scaled_grouped_mm", 0),
            ("dtype=float8_e4m3fn", 5),
            ("dtype=int8&scaling=row", 1),
            ("op=fused_moe&dtype=float8_e4m3fn&scaling=block&b_layout=column", 2),
            ("dtype=float8_e4m3fnuz", 0),
        ] {
            let page: Leaderboard = app.fetch(&format!("{BOARD}?{filter}")).await;
            assert_eq!((page.total, page.items.len()), (expected, expected as usize), "{filter}");
            let points: Vec<ProblemPoint> = app.fetch(&format!("{HARDWARE}/problems?{filter}")).await;
            assert_eq!(points.len() as u64, expected, "{filter}");
            let sizes: SizeMap = app.fetch(&format!("{HARDWARE}/sizes?{filter}")).await;
            assert_eq!(sizes.cells.iter().map(|cell| cell.problems).sum::<u64>(), expected, "{filter}");
            let cover: ConfigCover = app.fetch(&format!("{HARDWARE}/configs?{filter}")).await;
            assert_eq!(cover.problems, expected, "{filter}");
            let ratios: Ratios = app
                .fetch(&format!("/api/v1/comparisons/hardware?a=nvidia-h100&b=nvidia-h200&{filter}"))
                .await;
            assert_eq!((ratios.problems, ratios.faster), (expected, expected), "{filter}");
            if filter.contains("b_layout") {
                continue;
            }
            let table: Table = app.fetch(&format!("/api/v1/tables/nvidia-h200.json?{filter}")).await;
            assert_eq!(table.len() as u64, expected, "{filter}");
            let reply = app.get(&format!("/api/v1/datasets/nvidia-h200.msgpack.zst?{filter}")).await;
            let exported = decode(&reply.body).unwrap().datasets;
            let of =
                |dataset: &Dataset| dataset.solutions.iter().map(|s| s.problem.clone()).collect::<Vec<_>>();
            let mut exported: Vec<Problem> = exported.iter().flat_map(of).collect();
            exported.sort();
            let mut shown: Vec<Problem> = page.items.into_iter().map(|row| row.problem).collect();
            shown.sort();
            assert_eq!(exported, shown, "{filter}");
        }
        let reply = app.get("/api/v1/datasets/nvidia-h200.csv?op=scaled_mm&scaling=row").await;
        assert!(reply.header("content-disposition").contains("nvidia-h200-scaled_mm-row.csv"));
        for path in [BOARD, "/api/v1/tables/nvidia-h200.json", "/api/v1/datasets/nvidia-h200.csv"] {
            let said = app.get(&format!("{path}?scaling=column")).await.refusal(400, "invalid");
            let words = "scaling: got `column`, expected one of none tensor row block";
            assert_eq!(said, format!("parameter `scaling`: {words}"));
        }
        let verified = verify(&app.backend).await.unwrap();
        assert!(verified.damaged.is_empty() && verified.entries == 16, "{verified}");
        app.end().await;
    }
}

#[tokio::test]
async fn a_second_upload_moves_the_consensus_to_the_median() {
    let app = TestApp::with_seven().await;
    let row = |page: Page<LeaderboardRow>| page.items.into_iter().next().unwrap();
    let before = row(app.fetch(&format!("{BOARD}?min_m=4096")).await);
    app.receipt(columnar(&dataset(h200(), &[seven().solutions[3].problem.clone()], 1.5))).await;
    let after = row(app.fetch(&format!("{BOARD}?min_m=4096")).await);
    assert_eq!((before.solutions, after.solutions), (1, 2));
    assert_eq!(after.configs, before.configs);
    assert!(after.best_us > before.best_us * 1.2 && after.best_us < before.best_us * 1.3);
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    for app in TestApp::on_both("unchanged_board").await {
        app.receipt(columnar(&seven())).await;
        let path = format!("{BOARD}?sort=time");
        let first = app.get(&path).await;
        let tag = first.header("etag");
        assert!(tag.starts_with("W/\"") && first.header("cache-control") == "no-cache", "{tag}");
        assert_eq!(app.get(&path).await.body, first.body);
        let unchanged = app.get_with(&path, &[("if-none-match", tag)]).await;
        assert_eq!((unchanged.status.as_u16(), unchanged.body.len()), (304, 0));
        assert_eq!((first.header("vary"), unchanged.header("vary")), ("accept-encoding", "accept-encoding"));
        assert_ne!(app.get(&format!("{BOARD}?sort=gain")).await.header("etag"), tag);

        app.receipt(columnar(&dataset(h200(), &[seven().solutions[3].problem.clone()], 1.5))).await;
        let changed = app.get_with(&path, &[("if-none-match", tag)]).await;
        assert_eq!(changed.status, 200);
        let rows = |reply: &Reply| reply.json::<Leaderboard>().items;
        assert_ne!(rows(&changed), rows(&first));
    }
}

#[tokio::test]
async fn bad_parameters_are_refused_by_name() {
    let app = TestApp::with_seven().await;
    for (query, name) in [
        ("op=nonsense", "op"),
        ("dtype=f16", "dtype"),
        ("min_m=-1", "min_m"),
        ("max_k=abc", "max_k"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("sort=speed", "sort"),
        ("kernels=cuda", "kernels"),
        ("order=up", "order"),
        ("cursor=made-up", "cursor"),
        ("method=quick", "method"),
        ("colour=red", "colour"),
        ("op=mm&op=mm", "op"),
    ] {
        let message = app.get(&format!("{BOARD}?{query}")).await.refusal(400, "invalid");
        assert!(message.contains(name), "{query}: {message}");
    }
}

/// Clients show these messages unchanged.
#[tokio::test]
async fn refusals_keep_their_words() {
    let app = TestApp::with_seven().await;
    let known = "op, dtype, scaling, b_layout, aligned, method, min_m, max_m, min_n, max_n, min_k, max_k, kernels, sort, order, limit, cursor";
    for (query, words) in [
        (
            "op=nonsense",
            "parameter `op`: op: got `nonsense`, expected one of mm addmm bmm baddbmm scaled_mm grouped_mm scaled_grouped_mm fused_moe",
        ),
        ("limit=x", "parameter `limit`: got `x`, expected a whole number from 1 to 500"),
        ("min_m=-1", "parameter `min_m`: got `-1`, expected a whole number from 0 to 9223372036854775807"),
        ("op=mm&op=mm", "parameter `op`: given twice, expected once"),
        ("colour=red", &format!("parameter: got `colour`, expected one of {known}")),
    ] {
        assert_eq!(app.get(&format!("{BOARD}?{query}")).await.refusal(400, "invalid"), words);
    }
    let message = app.get("/api/v1/hardware?x=1").await.refusal(400, "invalid");
    assert_eq!(message, "parameter: got `x`, expected no parameters here");
}
