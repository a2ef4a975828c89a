//! Every page and state, at desktop and phone width, light and dark: it has the figures of the API, fits the window, is
//! accessible, and meets no error. Set DIODE_SCREENSHOTS to an absolute path to keep a picture of each.

use anyhow::Context as _;
use diode_tests::{Browser, LOOKS, Server, Theme, Viewport, seeded_server};
use serde_json::Value;

const H200: &str = "/api/v1/hardware/nvidia-h200";

struct Page {
    name: String,
    path: String,
    /// An element that the page has once it shows its data.
    ready: &'static str,
    /// What the page says of the API's answers.
    says: Vec<String>,
}

fn page(name: &str, path: impl Into<String>, ready: &'static str, says: Vec<String>) -> Page {
    Page { name: name.to_owned(), path: path.into(), ready, says }
}

/// A page without figures of the API.
fn plain(path: &str, ready: &'static str, says: &[&str]) -> Page {
    let name = path.trim_matches('/').replace(['/', '?', '='], "-");
    page(&name, path, ready, says.iter().map(|text| (*text).to_owned()).collect())
}

// Numbers as people read them. The dashboard has its own code for this.

fn count(value: &Value) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|three| std::str::from_utf8(three).unwrap_or("")).collect();
    groups.join(",")
}

fn counted(value: &Value, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if *value == 1 { "" } else { "s" })
}

fn percent(share: &Value) -> String {
    let Some(share) = share.as_f64() else { return "–".to_owned() };
    let percent = share * 100.0;
    if percent >= 99.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

fn three_digits(value: f64) -> String {
    let decimals =
        [(99.95, 0), (9.995, 1)].iter().find(|(from, _)| value >= *from).map_or(2, |(_, decimals)| *decimals);
    format!("{value:.decimals$}")
}

fn time(us: &Value) -> String {
    let Some(us) = us.as_f64() else { return "–".to_owned() };
    match us {
        us if us < 999.5 => format!("{} µs", three_digits(us)),
        us => format!("{} ms", three_digits(us / 1e3)),
    }
}

fn against(ratio: &Value) -> String {
    let Some(ratio) = ratio.as_f64() else { return "–".to_owned() };
    let (more, word) = (ratio.max(1.0 / ratio) - 1.0, if ratio < 1.0 { "slower" } else { "faster" });
    match more {
        _ if more < 0.01 => "tied".to_owned(),
        _ if more < 0.0995 => format!("{:.1} % {word}", more * 100.0),
        _ if more < 0.995 => format!("{:.0} % {word}", more * 100.0),
        _ => format!("{}× {word}", three_digits(more + 1.0)),
    }
}

fn dims(problem: &Value) -> String {
    let size = |key: &str| problem[key].to_string();
    let batch = if problem["b"] == 1 { String::new() } else { size("b") + "×" };
    format!("{batch}{}×{}×{}", size("m"), size("n"), size("k"))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The pages that the header leads to, and those of one problem, model, dataset, upload and served model.
fn pages(server: &Server) -> anyhow::Result<Vec<Page>> {
    let (hardware, models) = (server.get("/api/v1/hardware")?, server.get("/api/v1/models")?);
    let (findings, uploads) = (server.get("/api/v1/findings")?, server.get("/api/v1/uploads")?);
    let mut home: Vec<String> = items(&findings["items"]).map(|one| text(&one["sentence"])).collect();
    for one in items(&hardware) {
        let compared = &one["comparison"];
        home.extend([
            counted(&one["problems"], "problem"),
            counted(&one["timings"], "timing"),
            against(&compared["ratio"]),
        ]);
        home.push(format!("{} of {}", count(&compared["wins"]), count(&compared["problems"])));
        home.extend([&one["gain_over_defaults"], &one["triton_gain_over_defaults"]].map(against));
        home.push(percent(&one["median_roofline_share"]));
    }
    let evaluated = |model: &Value| {
        let top = &model["evaluation"]["top_k"];
        [&top["1"]["geomean"], &top["5"]["geomean"], &top["1"]["worst"]].map(percent)
    };
    let listed = items(&models).flat_map(|model| {
        let trained = counted(&model["training_problems"], "problem");
        evaluated(model).into_iter().chain([trained, format!("{} parameters", count(&model["parameters"]))])
    });
    home.extend(items(&models).map(|model| evaluated(model)[0].clone()));
    let one = &models[0];
    let report = &one["evaluation"];
    let mut model: Vec<String> = ["1", "3", "5", "8", "16"]
        .iter()
        .flat_map(|k| {
            let top = &report["top_k"][k];
            [&top["geomean"], &top["worst"], &report["within_5_percent"][k]].map(percent)
        })
        .collect();
    model.extend([&report["mape_within_2x"], &report["mape_all"]].map(percent));
    model.extend([
        count(&one["parameters"]),
        text(&one["digest"]),
        "This server has no version before it".to_owned(),
    ]);
    model.push(format!(
        "{}, {}",
        counted(&one["training_problems"], "problem"),
        counted(&one["training_timings"], "timing")
    ));

    let board = server.get(&format!("{H200}/leaderboard?sort=flops&limit=100&method=median-cold-event"))?;
    let id = text(&board["items"][0]["problem_id"]);
    let detail =
        server.get(&format!("/api/v1/problems/{id}?hardware=nvidia-h200&method=median-cold-event"))?;
    let mut problem = vec![
        time(&detail["triton"]["us"]),
        time(&detail["library"]["us"]),
        percent(&detail["triton"]["roofline_share"]),
    ];
    let version: u32 = text(&detail["library_version"]).trim_start_matches("cublas-").parse()?;
    problem.push(format!("cuBLAS {}.{}.{} (", version / 10_000, version / 100 % 100, version % 100));
    problem.push(dims(&detail["problem"]));
    problem.push(count(&Value::from(items(&detail["configs"]).count())));
    let configs = || items(&detail["configs"]).take(20);
    problem.extend(configs().map(|config| time(&config["us"])));
    let h200 = items(&hardware).find(|one| one["slug"] == "nvidia-h200").context("the H200")?;
    let mut dataset = ["timings", "problems", "solutions"].map(|key| count(&h200[key])).to_vec();
    let nanos = |config: &Value| {
        Value::from((config["us"].as_f64().unwrap_or_default() * 1e3).round() as u64).to_string()
    };
    dataset.extend(configs().map(nanos));
    dataset.push(counted(&h200["timings"], "timing"));

    let ratios = server.get("/api/v1/comparisons/hardware?a=nvidia-h100&b=nvidia-h200&kernels=everything")?;
    let mut compare = vec![
        counted(&ratios["problems"], "problem"),
        format!("H200 is {} than H100", against(&ratios["b_over_a"])),
    ];
    compare.extend(["faster", "slower", "same"].map(|key| {
        format!("{key} on {}", count(&ratios[key]))
            .replace("same on", "the same on")
            .replace("faster", "Faster")
    }));
    compare.extend(
        items(&ratios["groups"]).flat_map(|group| [count(&group["problems"]), against(&group["b_over_a"])]),
    );
    compare.extend(["only_a", "only_b"].map(|key| format!("{} only on", count(&ratios[key]))));
    compare.extend(
        items(&ratios["items"])
            .take(10)
            .flat_map(|item| [time(&item["a"]["us"]), time(&item["b"]["us"]), dims(&item["problem"])]),
    );

    let workloads = server.get("/api/v1/workloads")?;
    let served = items(&workloads["models"]).take(10).flat_map(|model| {
        let ways = || items(&model["served"]);
        let problems: u64 = ways().filter_map(|way| way["problems"].as_u64()).sum();
        let cells = (0..2).map(move |at| {
            match ways().filter_map(|way| way["on"][at]["measured"].as_u64()).sum::<u64>() {
                0 => "predicted".to_owned(),
                measured => format!("{} measured", share(measured as f64 / problems as f64)),
            }
        });
        cells.chain([text(&model["name"])]).collect::<Vec<_>>()
    });
    let way = "tp=4&quantization=fp8-block";
    let layers = server.get(&format!("/api/v1/workloads/Qwen3-235B-A22B/nvidia-h200?{way}"))?;
    let layers = items(&layers["layers"])
        .flat_map(|layer| [text(&layer["name"]), format!("{}×", count(&layer["count"]))]);
    let [newest, before] = [0, 1].map(|at| text(&uploads[at]["id"]));
    let sent = items(&uploads[0]["hardware"])
        .flat_map(|one| [counted(&one["problems"], "problem"), counted(&one["timings"], "timing")]);
    const COMPARED: &str = "[data-testid=compared] tbody tr";
    Ok(vec![
        page("home", "/", "[data-testid=findings] li", home),
        page(
            "problem",
            format!("/problems/{id}?hardware=nvidia-h200"),
            "[aria-labelledby=configs-title] tbody tr",
            problem,
        ),
        page("models", "/models", "a.card-link[href^='/models/']", listed.collect()),
        page("model", format!("/models/{}", text(&one["id"])), "[data-testid=judged] .chart .dots", model),
        page("datasets", "/datasets", "a.card-link[href='/datasets/nvidia-h200']", dataset[..3].to_vec()),
        page("dataset", "/datasets/nvidia-h200", "[data-testid=sample-rows] tbody tr", dataset),
        page("workloads", "/workloads", "[data-testid=workloads] tbody tr", served.collect()),
        page(
            "workload",
            format!("/workloads/Qwen3-235B-A22B?{way}&gpu=nvidia-h200"),
            "[data-testid=headline]",
            layers.collect(),
        ),
        page("compare-hardware", "/compare?what=hardware", COMPARED, compare),
        page(
            "compare-uploads",
            format!("/compare?what=uploads&a={before}&b={newest}"),
            "[aria-label=Comparison] :is(.verdict, .empty)",
            vec![],
        ),
        plain("/compare?what=libraries", "main h1", &["library"]),
        plain("/compare?what=methods", "main h1", &["timing"]),
        plain("/compare?what=models", "[data-testid=two-models] tbody tr", &["rank correlation, median"]),
        plain("/compare?shape=4096x4096x4096", "[data-testid=side-by-side] tbody tr", &["H200"]),
        plain(
            "/predict?hardware=nvidia-h200&op=mm&m=4096&n=4096&k=4096&dtype=bfloat16",
            "[data-testid=candidates] [data-config]",
            &["1,534"],
        ),
        plain("/predict/list", "#shapes", &["torch_diode.record()"]),
        plain("/contribute", "input[type=file]", &["diode agent --server"]),
        page("upload", format!("/uploads/{newest}"), "main a[href$='/download']", sent.collect()),
        plain("/no/such/page", "main a.card-link", &["no such page"]),
    ])
}

/// The tabs of a GPU's page.
fn boards(server: &Server) -> anyhow::Result<Vec<Page>> {
    let ask = |path: &str| server.get(&format!("{H200}{path}"));
    let (summary, findings) = (ask("")?, ask("/findings")?);
    let mut problems = vec![counted(&summary["problems"], "problem"), counted(&summary["timings"], "timing")];
    problems.extend(
        [
            &summary["comparison"]["ratio"],
            &summary["gain_over_defaults"],
            &summary["triton_gain_over_defaults"],
        ]
        .map(against),
    );
    problems.push(percent(&summary["median_roofline_share"]));
    problems.push(format!("{} TFLOP/s", three_digits(summary["best_tflops"].as_f64().unwrap_or_default())));
    let board = ask("/leaderboard?limit=20&kernels=triton&method=median-cold-event")?;
    for row in items(&board["items"]) {
        let of = &row["triton"];
        problems.extend([
            dims(&row["problem"]),
            time(&of["us"]),
            time(&row["library"]["us"]),
            percent(&of["roofline_share"]),
        ]);
        problems.extend([&row["triton_over_library"], &of["gain_over_defaults"]].map(against));
    }
    let found = items(&findings["items"]).flat_map(|one| {
        [text(&one["sentence"]), format!("{} of {}", count(&one["problems"]), counted(&one["of"], "problem"))]
    });
    let cover = ask("/configs?op=mm")?;
    let steps = items(&cover["steps"]).take(15);
    let steps = steps.flat_map(|step| [&step["share"], &step["share_of_best"]].map(percent));
    let plan = ask("/coverage")?;
    let mut coverage =
        ["covered", "kinds", "problems", "kept", "confirmed"].map(|key| count(&plan[key])).to_vec();
    for part in items(&plan["parts"]) {
        coverage.extend([count(&part["kinds"]), count(&part["problems"])]);
    }
    let contributors = ask("/contributors")?;
    let sent =
        items(&contributors).flat_map(|one| ["problems", "timings", "uploads"].map(|key| count(&one[key])));
    let models = server.get("/api/v1/models?hardware=nvidia-h200")?;
    let model = items(&models).flat_map(|one| {
        let top = &one["evaluation"]["top_k"];
        [
            percent(&top["1"]["geomean"]),
            percent(&top["5"]["geomean"]),
            percent(&top["1"]["worst"]),
            count(&one["parameters"]),
        ]
    });
    let workloads = server.get("/api/v1/workloads")?;
    let at =
        items(&workloads["hardware"]).position(|one| one["slug"] == "nvidia-h200").context("the H200")?;
    let served = items(&workloads["models"]).flat_map(|model| {
        let sum =
            |key: &str| items(&model["served"]).filter_map(|way| way["on"][at][key].as_u64()).sum::<u64>();
        [text(&model["name"]), count(&sum("measured").into()), count(&sum("predicted").into())]
    });
    let sizes = ask("/sizes")?;
    let cells = items(&sizes["cells"])
        .filter(|cell| cell["compared"].as_u64() > Some(0))
        .map(|cell| count(&cell["compared"]));
    let tab = |board: &str, ready, says| {
        page(&format!("hardware-{board}"), format!("/hardware/nvidia-h200?board={board}"), ready, says)
    };
    Ok(vec![
        tab("", "[aria-labelledby=board-title] tbody tr", problems),
        tab("findings", "[data-testid=findings] li", found.collect()),
        tab("workloads", "[data-testid=workloads] tbody tr", served.collect()),
        tab("sizes", "[data-testid=size-map] td", cells.collect()),
        tab("sizes&cells=tiles", "[data-testid=size-map] td", vec!["128×".to_owned()]),
        tab("configs&op=mm", "[data-testid=cover]", steps.collect()),
        tab("coverage", "[data-testid=map] td", coverage),
        tab("contributors", "[aria-labelledby=board-title] tbody tr", sent.collect()),
        tab("models", "[aria-labelledby=board-title] a.card-link", model.collect()),
    ])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 0.995 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// Opens each page at each width in the light theme; an open page follows the colours that the system prefers.
async fn visit(browser: &Browser, server: &Server, pages: &[Page]) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for page in pages {
        for (viewport, theme, look) in LOOKS {
            let shown = format!("{}-{look}", page.name);
            browser.look(viewport, theme).await?;
            if matches!(theme, Theme::Light) {
                if let Err(error) = browser.open(&format!("{}{}", server.url(), page.path), page.ready).await
                {
                    faults.push(format!("{shown}: {error:#}"));
                    break;
                }
                // Also what phones fold.
                let lacks = format!(
                    "const said = document.querySelector('main').textContent.replaceAll('\u{a0}', ' ');
                    return {}.filter((text) => !said.includes(text))",
                    Value::from(page.says.clone())
                );
                if browser.until(&format!("return (() => {{ {lacks} }})().length === 0")).await.is_err() {
                    faults.push(format!(
                        "{shown}: does not say {:?}",
                        browser.script::<Vec<String>>(&lacks).await?
                    ));
                }
            }
            // The other rules do not depend on the colours.
            let fault = match theme {
                Theme::Light => browser.sound(&shown).await,
                Theme::Dark => browser.legible(&shown).await,
            };
            if let Err(fault) = fault {
                faults.push(format!("{fault:#}"));
            }
            browser.picture(&shown).await?;
        }
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_its_data_fits_and_is_quiet() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    visit(&Browser::start().await?, &server, &pages(&server)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tab_shows_its_data_fits_and_is_quiet() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    visit(&Browser::start().await?, &server, &boards(&server)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_server_fits_and_is_quiet() -> anyhow::Result<()> {
    let (folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let before = ["/sign-in", "/sign-up", "/device", "/password/forgotten", "/terms"];
    visit(&browser, &server, &before.map(|path| plain(path, "main h1", &[]))).await?;
    browser.sign_in_as_administrator(&server, folder.path()).await?;
    let uploads = server.get("/api/v1/uploads")?;
    let models = server.get("/api/v1/models")?;
    let mut own = vec![
        plain("/account", "main h1", &["root"]),
        plain("/account/contributions", "main h2", &[]),
        plain("/account/models", "main h1", &[]),
        plain("/admin", "a[href='/admin/uploads']", &[]),
        plain("/admin/uploads", "[data-testid=uploads] tbody tr", &[]),
        plain("/admin/hardware", "main h1", &[]),
        plain("/admin/accounts", "form[action='/admin/accounts']", &["root"]),
        plain("/admin/packs", "main code", &[]),
        plain("/admin/trainings", "a[href='/models#jobs']", &[]),
    ];
    own.push(plain(&format!("/admin/uploads/{}", text(&uploads[0]["id"])), "main form", &[]));
    own.push(plain(&format!("/admin/models/{}", text(&models[0]["id"])), "main h1", &[]));
    visit(&browser, &server, &own).await
}

#[tokio::test(flavor = "multi_thread")]
async fn predicting_sends_no_request() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let page =
        format!("{}/predict?hardware=nvidia-h200&op=mm&m=512&n=512&k=512&dtype=bfloat16", server.url());
    browser.open(&page, "[data-testid=candidates] [data-config]").await?;
    // Requests about measured problems are not counted: the page sends them once the shape has stayed the
    // same for a moment.
    let requests = "return performance.getEntriesByType('resource')
        .filter((entry) => !/\\/(nearest|wanted)\\?/.test(entry.name)).length";
    // The models of other hardware are fetched once.
    browser.until_still().await;
    let before: u64 = browser.script(requests).await?;
    let first = "return document.querySelector('[data-testid=candidates] [data-config]').dataset.predictedUs";
    let small: String = browser.script(first).await?;
    let mut milliseconds = Vec::new();
    for m in [1024, 2048, 4096, 8192, 1000, 333, 1, 17, 65536] {
        let set = format!(
            "const field = document.querySelector('input[name=m]');
             field.value = '{m}';
             field.dispatchEvent(new Event('input', {{ bubbles: true }}));"
        );
        browser.script::<()>(&set).await?;
        let shown = format!("[data-testid=candidates][data-problem*='{m}×512×512']");
        browser.wait_for(&shown).await?;
        let rank: String =
            browser.script("return document.querySelector('[data-rank-ms]').dataset.rankMs").await?;
        milliseconds.push(rank.parse::<f64>()?);
    }
    let large: String = browser.script(first).await?;
    assert_ne!(small, large, "another size gives another time");
    assert_eq!(browser.script::<u64>(requests).await?, before, "typing must not touch the network");
    browser.until("return location.search.includes('m=65536')").await.context("the state is in the URL")?;
    milliseconds.sort_by(f64::total_cmp);
    println!(
        "ranking took {:.2} ms (median of {})",
        milliseconds[milliseconds.len() / 2],
        milliseconds.len()
    );
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_downloaded_by_the_method_that_the_page_shows() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    let hrefs = "return [...document.querySelectorAll('a.chip[download]')].map((a) => a.getAttribute('href'))
                 .filter((href) => href.includes('/tables/'))";
    for (query, method) in [("", "median-cold-event"), ("?method=unspecified", "unspecified")] {
        let page = format!("{}/hardware/nvidia-h200{query}", server.url());
        browser.open(&page, "a.chip[href*='/tables/']").await?;
        let links: Vec<String> = browser.script(hrefs).await?;
        let [diode, inductor] = links.as_slice() else { anyhow::bail!("got {links:?}, expected two tables") };
        let table = server.get(diode)?;
        assert_eq!(
            (table["format"].as_str(), table["method"].as_str()),
            (Some("diode-table/1"), Some(method))
        );
        let entries = server.get(inductor)?;
        let keys: Vec<&String> = entries.as_object().context("a table of Inductor")?.keys().collect();
        assert!(
            !keys.is_empty() && keys.iter().all(|key| key.starts_with("NVIDIA H200+((torch.")),
            "{keys:?}"
        );
    }
    Ok(())
}
