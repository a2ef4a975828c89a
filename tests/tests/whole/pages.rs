//! Every page, at desktop and phone width, light and dark: it shows its data, fits the window, is
//! accessible, and meets no error. Set DIODE_SCREENSHOTS to an absolute path to keep a picture of each.

use anyhow::Context as _;
use diode_tests::{Browser, LOOKS, Server, Theme, Viewport, seeded_server};

/// The number of shipped H200 problems, all of which are in the seeded database.
const H200_PROBLEMS: &str = "2,134";

struct Page {
    name: &'static str,
    path: String,
    /// An element that the page has once it shows its data.
    ready: &'static str,
    /// A text that the page then shows.
    says: &'static str,
}

fn pages(server: &Server) -> anyhow::Result<Vec<Page>> {
    let board =
        server.get("/api/v1/hardware/nvidia-h200/leaderboard?sort=flops&limit=1&method=median-cold-event")?;
    let problem = board["items"][0]["problem_id"].as_str().unwrap_or_default().to_owned();
    let models = server.get("/api/v1/models")?;
    let model = models[0]["id"].as_str().unwrap_or_default().to_owned();
    Ok(vec![
        Page {
            name: "home",
            path: "/".into(),
            ready: "a.card-link[href^='/hardware/']",
            says: H200_PROBLEMS,
        },
        Page {
            name: "hardware",
            path: "/hardware/nvidia-h200".into(),
            ready: "[aria-labelledby=board-title] tbody tr",
            says: H200_PROBLEMS,
        },
        Page {
            name: "problem",
            path: format!("/problems/{problem}?hardware=nvidia-h200"),
            ready: "[aria-labelledby=configs-title] tbody tr",
            says: "1,535",
        },
        Page { name: "models", path: "/models".into(), ready: "a.card-link[href^='/models/']", says: "H200" },
        Page {
            name: "model",
            path: format!("/models/{model}"),
            ready: "a[href$='/download']",
            says: "Download",
        },
        Page {
            name: "predict",
            path: "/predict?hardware=nvidia-h200&op=mm&m=4096&n=4096&k=4096&dtype=bfloat16".into(),
            ready: "[data-testid=candidates] [data-config]",
            says: "1,534",
        },
        Page { name: "list", path: "/predict/list".into(), ready: "#shapes", says: "torch_diode.record()" },
        Page {
            name: "contribute",
            path: "/contribute".into(),
            ready: "input[type=file]",
            says: "diode agent --server",
        },
        Page { name: "lost", path: "/no/such/page".into(), ready: "main a.card-link", says: "no such page" },
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_its_data_fits_and_is_quiet() -> anyhow::Result<()> {
    let (_folder, server) = seeded_server()?;
    let browser = Browser::start().await?;
    let mut faults = Vec::new();
    for page in pages(&server)? {
        for (viewport, theme, look) in LOOKS {
            let shown = format!("{}-{look}", page.name);
            browser.look(viewport, theme).await?;
            // An open page follows the colours that the system prefers.
            if matches!(theme, Theme::Light)
                && let Err(error) = browser.open(&format!("{}{}", server.url(), page.path), page.ready).await
            {
                faults.push(format!("{shown}: {error:#}"));
                continue;
            }
            let says = format!("return document.body.innerText.includes('{}')", page.says);
            if browser.until(&says).await.is_err() {
                faults.push(format!("{shown}: does not say `{}`", page.says));
            }
            let overflow = browser.overflow().await?;
            if overflow > 0 {
                faults.push(format!("{shown}: {overflow} px wider than the window"));
            }
            let barriers = browser.inaccessible().await?;
            faults.extend(barriers.into_iter().map(|barrier| format!("{shown}: axe: {barrier}")));
            faults.extend(browser.complaints().await?.into_iter().map(|what| format!("{shown}: {what}")));
            browser.picture(&shown).await?;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
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
