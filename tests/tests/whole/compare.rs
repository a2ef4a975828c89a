//! Comparisons: one pasted shape on all hardware, two kinds of hardware, and two uploads. Also the activity that the
//! overview lists. Set DIODE_SCREENSHOTS to an absolute path to keep pictures.

use anyhow::{Context as _, ensure};
use diode_core::{Dataset, Method, TimeColumn};
use diode_formats::{Format, decode, encode};
use diode_tests::{Browser, LOOKS, Server, Theme, Viewport, seeded};
use serde_json::Value;

/// Pastes a text: the whole text arrives in one event, which says that it was pasted.
const PASTE: &str = "const field = document.querySelector('.paste textarea');
    field.value = TEXT;
    field.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertFromPaste' }));";

fn paste(text: &str) -> String {
    PASTE.replace("TEXT", &Value::from(text).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_is_side_by_side_in_one_paste() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let found = server.get("/api/v1/nearest?m=1&n=28672&k=4096&dtype=bfloat16")?;
    let hardware = found.as_array().context("hardware")?;
    ensure!(hardware.len() == 2 && hardware.iter().all(|one| one["exact"] == true), "{found}");
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(server.url(), ".paste textarea").await?;
        browser.script::<()>(&paste("1x28672x4096 bf16")).await?;
        browser.wait_for("[data-testid=side-by-side] tbody tr").await?;
        let rows: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-testid=side-by-side] tbody tr')].map((row) => row.innerText)")
            .await?;
        for one in hardware {
            let name = one["name"].as_str().context("a name")?;
            let tile = &one["items"][0]["triton"]["config"];
            let tile = format!("{}×{}×{}", tile["block_m"], tile["block_n"], tile["block_k"]);
            let row = rows
                .iter()
                .find(|row| row.starts_with(name.trim_start_matches("NVIDIA ")))
                .context("a row for each hardware")?;
            ensure!(row.contains(&tile) && row.matches("µs").count() == 2, "{look}: {row}");
        }
        let verdict: String = browser.script("return document.querySelector('.verdict').innerText").await?;
        ensure!(
            verdict.contains("NVIDIA H200 is") && verdict.contains("as fast as NVIDIA H100"),
            "{verdict}"
        );
        browser.sound(look).await?;
        browser.picture(&format!("compare-shape-{look}")).await?;
    }
    // For an unmeasured shape the page predicts. For nonsense it says what is wrong.
    let shape = |text: &str| format!("{}/compare?shape={text}", server.url());
    browser.open(&shape("3x28672x4096"), "[data-testid=side-by-side] tbody tr").await?;
    browser
        .until("return document.querySelectorAll('[data-testid=side-by-side] td.mono').length === 2")
        .await?;
    let known = "return [...document.querySelectorAll('[data-testid=side-by-side] tbody tr')].map((row) => row.innerText)";
    let known: Vec<String> = browser.script(known).await?;
    ensure!(known.iter().all(|row| row.contains("predicted") && row.matches("µs").count() == 2), "{known:?}");
    let said = "return document.querySelector('[data-testid=unmeasured]').innerText";
    let said: String = browser.script(said).await?;
    ensure!(said.starts_with("Nobody has measured 3×28672×4096 on NVIDIA H"), "{said}");
    browser.open(&shape("4096"), "#one-shape[aria-invalid=true]").await?;
    browser.until("return document.querySelector('#one-shape-fault').innerText.includes('expected')").await?;
    // It answers as one types, and without a shape it shows examples.
    browser.open(&format!("{}/compare?what=shape", server.url()), ".empty a[href*='shape=']").await?;
    browser
        .script::<()>(
            "const field = document.querySelector('#one-shape'); field.value = '1x28672x4096';
            field.dispatchEvent(new Event('input', { bubbles: true }))",
        )
        .await?;
    browser.wait_for("[data-testid=side-by-side] tbody tr").await?;
    // A pasted list opens the page for lists.
    browser.open(server.url(), ".paste textarea").await?;
    browser.script::<()>(&paste("1x28672x4096\n16x4096x4096 fp16")).await?;
    browser.wait_for("#shapes").await?;
    browser
        .until("return location.pathname === '/predict/list' && document.querySelector('#shapes').value.includes('16x4096x4096 fp16')")
        .await?;
    browser.until("return document.body.innerText.includes('2 of 2 shapes ranked')").await?;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_by_another_op_says_so() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    // A size that was measured as addmm only.
    let board = server.get("/api/v1/hardware/nvidia-h200/leaderboard?op=addmm&dtype=bfloat16&limit=200")?;
    let sizes = board["items"].as_array().context("rows")?.iter().map(|row| {
        let size = |key: &str| row["problem"][key].as_u64().unwrap_or_default();
        [size("m"), size("n"), size("k")]
    });
    let is_only_addmm = |[m, n, k]: &[u64; 3]| {
        let near = server.get(&format!("/api/v1/nearest?op=mm&m={m}&n={n}&k={k}&dtype=bfloat16"));
        let all = near.ok().and_then(|near| near.as_array().cloned()).unwrap_or_default();
        all.iter().filter(|one| one["exact"] == true).all(|one| {
            one["items"].as_array().into_iter().flatten().all(|item| item["problem"]["op"] == "addmm")
        })
    };
    let [m, n, k] = sizes.into_iter().find(is_only_addmm).context("a size that is measured as addmm only")?;
    let shape = |op: &str| format!("{}/compare?shape={m}x{n}x{k}%20bf16%20{op}", server.url());
    browser.open(&shape("mm"), "[data-testid=other-op]").await?;
    let said: String =
        browser.script("return document.querySelector('[data-testid=other-op]').innerText").await?;
    ensure!(
        said.starts_with("You ask for mm. On ")
            && said.contains("measured as addmm only")
            && said.ends_with("with a bias added."),
        "{said}"
    );
    browser.sound("another op").await?;
    browser.open(&shape("addmm"), "[data-testid=side-by-side] tbody tr").await?;
    ensure!(!browser.script::<bool>("return !!document.querySelector('[data-testid=other-op]')").await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gpus_are_compared_and_the_address_says_how() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    const PAIR: &str = "a=nvidia-h100&b=nvidia-h200";
    const ROWS: &str = "[data-testid=compared] tbody tr";
    let ids = format!(
        "return [...document.querySelectorAll('{ROWS} a')].map((a) => a.getAttribute('href').split('/').pop().split('?')[0])"
    );
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        // Without a choice, the page compares the two types of hardware with the most problems, and its address names both.
        browser.open(&format!("{}/compare", server.url()), ROWS).await?;
        browser.until(&format!("return location.search.includes('{PAIR}')")).await?;
        let ratios = server.get(&format!("/api/v1/comparisons/hardware?{PAIR}&kernels=everything"))?;
        ensure!(
            ratios["problems"] == 1139 && ratios["items"].as_array().is_some_and(|rows| rows.len() == 50)
        );
        let verdict: String =
            browser.script("return document.querySelector('[data-testid=ratio]').innerText").await?;
        ensure!(
            verdict.contains("1,139 problems")
                && verdict.starts_with("H200 is ")
                && verdict.contains("% faster than H100, by the time of the faster of Triton and cuBLAS"),
            "{verdict}"
        );
        // The headline and the groups stand first. Each group is counted, and its link leaves only its problems.
        let top: f64 = browser
            .script("return document.querySelector('.columns-box .equal').getBoundingClientRect().top")
            .await?;
        ensure!(top < 700.0, "{look}: the histogram begins at {top}");
        let told: Vec<(String, u64)> = browser
            .script("return [...document.querySelectorAll('[data-testid=groups] tbody tr')]
                .map((row) => [row.cells[0].textContent, Number(row.cells[1].textContent.replaceAll(',', ''))])")
            .await?;
        let groups = ratios["groups"].as_array().context("groups")?;
        let counted: Vec<Option<u64>> = groups.iter().map(|group| group["problems"].as_u64()).collect();
        assert_eq!(told.iter().map(|(_, count)| Some(*count)).collect::<Vec<_>>(), counted, "{look}");
        for name in ["op bmm", "type bf16", "M from 1 to 16", "layout nn.Linear", "not multiples of 8"] {
            ensure!(told.iter().any(|(told, _)| told == name), "{look}: {name} is not in {told:?}");
        }
        let expected: Vec<&str> = rows_of(&ratios)?;
        assert_eq!(browser.script::<Vec<String>>(&ids).await?, expected, "slower first");
        browser.sound(look).await?;
        browser.picture(&format!("compare-hardware-{look}")).await?;
    }
    browser
        .press(
            "[...document.querySelectorAll('[data-testid=groups] a')].find((a) => a.innerText === 'op bmm')",
        )
        .await?;
    browser.until("return location.search.includes('op=bmm') && location.search.includes('method=')").await?;
    let bmm = server.get(&format!("/api/v1/comparisons/hardware?{PAIR}&kernels=everything&op=bmm"))?;
    let problems = format!("{} problem", bmm["problems"]);
    browser
        .until(&format!(
            "return document.querySelector('[data-testid=ratio]').innerText.includes('{problems}')"
        ))
        .await?;
    // Another subject has other filters.
    browser.press("[...document.querySelectorAll('[aria-label=Compare] button')].find((b) => b.innerText === 'two uploads')").await?;
    browser
        .until("return location.search.startsWith('?what=uploads') && !location.search.includes('op=')")
        .await?;
    // Every choice is in the address, so the address shows the same comparison again.
    let choices = format!("{PAIR}&kernels=library&noise=5&order=desc&op=mm&dtype=bfloat16");
    browser.open(&format!("{}/compare?what=hardware&{choices}", server.url()), ROWS).await?;
    let ratios = server.get(&format!("/api/v1/comparisons/hardware?{choices}"))?;
    assert_eq!(browser.script::<Vec<String>>(&ids).await?, rows_of(&ratios)?);
    let press = "[...document.querySelectorAll('[aria-label=Order] button')].find((b) => b.innerText === 'slower first')";
    browser.press(press).await?;
    browser.until("return !location.search.includes('order=')").await?;
    browser
        .until(&format!(
            "return JSON.stringify((() => {{ {ids} }})()) !== '{}'",
            Value::from(rows_of(&ratios)?)
        ))
        .await?;
    // Two cases without a result: no problem in common, and unknown hardware.
    let none = format!("{}/compare?what=hardware&{PAIR}&min_m=2000000000", server.url());
    browser.open(&none, ".empty").await?;
    let unknown = format!("{}/compare?what=hardware&a=nvidia-h100&b=no-such", server.url());
    browser.open(&unknown, ".failure").await?;
    Ok(())
}

fn rows_of(ratios: &Value) -> anyhow::Result<Vec<&str>> {
    let items = ratios["items"].as_array().context("items")?;
    items.iter().map(|item| item["problem_id"].as_str().context("an id")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_uploads_are_compared_from_the_overview_on() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    browser.look(Viewport::DESKTOP, Theme::Light).await?;
    browser.open(server.url(), "[data-testid=newest] tbody tr").await?;
    let activity = server.get("/api/v1/activity")?;
    let newest = activity["uploads"][0]["id"].as_str().context("an upload")?.to_owned();
    browser
        .until("return document.querySelector('[data-testid=working]').innerText.includes('diode agent')")
        .await?;
    browser.press("document.querySelector('[data-testid=newest] tbody a')").await?;
    browser.press("document.querySelector('main a.button[href^=\"/compare\"]')").await?;
    browser.wait_for("#select-upload").await?;
    browser.until(&format!("return document.querySelector('#select-against').value === '{newest}'")).await?;
    // Each upload is offered with its hardware, day and size.
    let offered: Vec<String> = browser
        .script("return [...document.querySelectorAll('#select-upload option:not([disabled])')].map((one) => one.innerText)")
        .await?;
    let all = server.get("/api/v1/uploads")?;
    let all = all.as_array().context("uploads")?;
    ensure!(offered.len() == all.len(), "{offered:?}");
    for (text, upload) in offered.iter().zip(all) {
        let name = upload["hardware"][0]["name"].as_str().context("a name")?;
        ensure!(text.starts_with(name) && text.contains(upload["id"].as_str().context("an id")?), "{text}");
    }
    // An upload compared with itself has no difference.
    let set = format!(
        "const field = document.querySelector('#select-upload');
        field.value = '{newest}';
        field.dispatchEvent(new Event('change', {{ bubbles: true }}));"
    );
    browser.script::<()>(&set).await?;
    browser.wait_for("[data-testid=compared] tbody tr").await?;
    let verdict: String =
        browser.script("return document.querySelector('[data-testid=ratio]').innerText").await?;
    ensure!(verdict.contains("is as fast as") && verdict.contains("Faster on 0, slower on 0"), "{verdict}");
    browser.sound("uploads").await?;
    browser.picture("compare-uploads").await?;
    // A link may name an upload that the list does not offer.
    let unknown = format!("{}/compare?what=uploads&a={newest}&b=0123456789abcdef", server.url());
    browser.open(&unknown, ".failure").await?;
    browser.until("return document.querySelector('#select-upload').value === '0123456789abcdef'").await?;
    Ok(())
}

/// Twelve problems of the shipped data. `changed` gives the factor for a problem's times, by the problem's place.
fn twelve(server: &Server, changed: impl Fn(usize) -> f64) -> anyhow::Result<Dataset> {
    let mut dataset = decode(&server.bytes("/api/v1/datasets/nvidia-h100.msgpack.zst")?)?.datasets.remove(0);
    let Dataset { configs, solutions, .. } = &mut dataset;
    solutions.retain(|solution| {
        let has_library = solution.configs.iter().any(|&index| configs.get(index).is_library());
        has_library && solution.method == Method::MEDIAN_COLD_EVENT
    });
    // A problem that was measured twice is in the data twice, one after the other.
    solutions.dedup_by(|later, earlier| later.problem == earlier.problem);
    solutions.truncate(12);
    ensure!(solutions.len() == 12, "the shipped data has library timings");
    for (place, solution) in dataset.solutions.iter_mut().enumerate() {
        let times = solution.times.iter_nanos().map(|time| (time.0 * changed(place)) as u64).collect();
        solution.times = TimeColumn::from_nanos(times).context("times")?;
        (solution.minimum_ns, solution.spread_ns) = (None, None);
    }
    Ok(dataset)
}

fn send(server: &Server, dataset: Dataset) -> anyhow::Result<()> {
    let bytes = encode(Format::Columnar, &[dataset])?;
    ureq::post(format!("{}/api/v1/uploads", server.url())).send(&bytes)?;
    Ok(())
}

/// Sends measurements of the twelve problems again, as if taken with another version of cuBLAS.
fn send_beside(server: &Server, version: &str, changed: impl Fn(usize) -> f64) -> anyhow::Result<()> {
    let mut dataset = twelve(server, changed)?;
    dataset.provenance.node.insert("cublas".to_owned(), version.to_owned());
    send(server, dataset)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ways_of_timing_are_compared_like_two_uploads() -> anyhow::Result<()> {
    const PAIR: &str = "a=nvidia-h100@median-cold-event&b=nvidia-h100@median-warm-wall";
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page = format!("{}/compare?what=methods", server.url());
    let mut warm = twelve(&server, |_| 0.8)?;
    warm.solutions.iter_mut().for_each(|solution| solution.method = Method::MEDIAN_WARM_WALL);
    send(&server, warm)?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        // The page chooses whatever the address leaves open.
        browser.open(&page, "[aria-label=Comparison] :is(.empty, [data-testid=ratio])").await?;
        browser.open(&format!("{page}&{PAIR}"), "[data-testid=compared] tbody tr").await?;
        let verdict: String =
            browser.script("return document.querySelector('[data-testid=ratio]').innerText").await?;
        ensure!(verdict.contains("median-cold-event") && verdict.contains("median-warm-wall"), "{verdict}");
        let rows: u64 = browser
            .script("return document.querySelectorAll('[data-testid=compared] tbody tr').length")
            .await?;
        ensure!(rows == 12, "{rows}");
        browser.sound(look).await?;
        browser.picture(&format!("compare-methods-{look}")).await?;
    }
    browser.script::<()>("document.querySelector('[data-testid=compared] tbody a').click()").await?;
    browser.wait_for("[aria-labelledby=configs-title] tbody tr").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_library_versions_are_compared_like_two_uploads() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let page = format!("{}/compare?what=libraries", server.url());
    // The shipped data has other versions of cuBLAS.
    send_beside(&server, "110101", |_| 1.05)?;
    // One problem got much slower, one got faster, and the others changed by less than the noise.
    send_beside(&server, "110202", |place| [1.3, 1.02, 1.06].get(place).copied().unwrap_or(1.055))?;
    const PAIR: &str = "a=nvidia-h100@cublas-110101&b=nvidia-h100@cublas-110202";
    let ratios = server.get(&format!("/api/v1/comparisons/libraries?{PAIR}"))?;
    assert_eq!(
        (&ratios["problems"], &ratios["slower"], &ratios["faster"]),
        (&12.into(), &1.into(), &1.into())
    );
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser.open(&format!("{page}&{PAIR}"), "[data-testid=compared] tbody tr").await?;
        let verdict: String =
            browser.script("return document.querySelector('[data-testid=ratio]').innerText").await?;
        ensure!(
            verdict.contains("cuBLAS 11.2.2 is ") && verdict.contains("slower than cuBLAS 11.1.1"),
            "{verdict}"
        );
        let rows: Vec<String> = browser
            .script("return [...document.querySelectorAll('[data-testid=compared] tbody tr')].map((row) => row.innerText)")
            .await?;
        let first = ratios["items"][0]["problem"].clone();
        let dims = format!("×{}×{}", first["n"], first["k"]);
        ensure!(rows.len() == 12 && rows[0].contains(&dims), "slower first: {rows:?}");
        browser.sound(look).await?;
        browser.picture(&format!("compare-libraries-{look}")).await?;
    }
    // The address names both versions. A row leads to the page of its problem on the hardware.
    browser
        .open(
            &format!("{page}&{}", PAIR.replace("a=", "x=").replace("b=", "a=").replace("x=", "b=")),
            "[data-testid=compared] tbody tr",
        )
        .await?;
    browser
        .until("return document.querySelector('[data-testid=ratio]').innerText.includes('cuBLAS 11.1.1 is ')")
        .await?;
    browser.script::<()>("document.querySelector('[data-testid=compared] tbody a').click()").await?;
    browser.wait_for("[aria-labelledby=configs-title] tbody tr").await?;
    Ok(())
}

/// A link to one upload shows this upload, and compares it with no other until the reader chooses one.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_one_upload_is_about_this_upload() -> anyhow::Result<()> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    let browser = Browser::start().await?;
    let activity = server.get("/api/v1/activity")?;
    let upload = &activity["uploads"][0];
    let id = upload["id"].as_str().context("an upload")?;
    for (viewport, theme, look) in LOOKS {
        browser.look(viewport, theme).await?;
        browser
            .open(&format!("{}/compare?what=uploads&a={id}", server.url()), "[data-testid=upload]")
            .await?;
        let said: String =
            browser.script("return document.querySelector('[data-testid=upload]').innerText").await?;
        let name = upload["hardware"][0]["name"].as_str().context("a name")?;
        ensure!(said.contains(id) && said.contains(name) && said.contains("counts"), "{look}: {said}");
        ensure!(browser.script::<bool>("return !document.querySelector('[aria-label=Comparison]')").await?);
        browser.looked_at(&format!("compare-one-upload-{look}")).await?;
    }
    Ok(())
}
