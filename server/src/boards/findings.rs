//! Findings: what stands out in the measurements of a hardware, each in a sentence with the number of problems that it
//! rests on and a link to them.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{
    Finding, FindingKind, Findings, HardwareSummary, Kernels, MethodOn, Noise, ProblemFilter, Ratios,
    SizeRange, SortOrder,
};
use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::HardwareSlug;
use diode_core::stats::geometric_mean;
use diode_core::{Comparison, DType, Method, Op, Problem, Scaling};

use crate::app::App;
use crate::boards::listed::Listed;
use crate::boards::survey_store::class;
use crate::compare::compare_routes::{MAX_LISTED, of_libraries};
use crate::compare::ratios;
use crate::http::{ApiResult, FromPath};
use crate::page_cache::PageKey;
use crate::store::{Store, StoreResult};

/// A finding about fewer problems might be chance.
const MIN_PROBLEMS: u64 = 20;
/// A smaller difference is as large as the noise of one device.
const MIN_GAIN: f64 = 0.02;
/// The most problems that are read of a hardware: an even sample of more.
const MOST: usize = 100_000;
/// The most problems on which two kinds of hardware are compared, as on the page Compare.
const MOST_PAIRS: u32 = 5_000;
/// How many findings the overview has of each hardware, and in all.
const OF_EACH: usize = 3;
const OVERVIEW: usize = 6;

/// What stands out in the measurements of a hardware, by the method that is shown first.
#[utoipa::path(
    get, operation_id = "findings", path = "/hardware/{slug}/findings", tag = "hardware", params(("slug" = String, Path)),
    responses(
        (status = 200, body = Findings),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn of_hardware(
    State(app): State<App>,
    FromPath(summary): FromPath<HardwareSummary>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut all = app.backend.store.hardware_list().await?;
    // Others are compared only if they are confirmed. Anybody's upload may add hardware that is not.
    all.retain(|one| one.confirmed || one.hardware.slug == summary.hardware.slug);
    let key = key(&app, &summary.hardware.slug, &all).await?;
    let make = async { Ok(findings(found(&app, &summary, &all).await?)) };
    app.pages.answer(&key, make).await?.reply(&headers)
}

/// The first findings about each hardware whose facts are known, in turn.
#[utoipa::path(
    get, operation_id = "list", path = "/findings", tag = "hardware",
    responses(
        (status = 200, body = Findings),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn overview(State(app): State<App>, headers: HeaderMap) -> ApiResult<Response> {
    let mut all = app.backend.store.hardware_list().await?;
    all.retain(|summary| summary.confirmed);
    all.sort_by_key(|summary| std::cmp::Reverse(summary.problems));
    let anywhere = "any".parse()?;
    let key = key(&app, &anywhere, &all).await?;
    let make = async {
        let mut of_each = Vec::new();
        for summary in all.iter().take(OVERVIEW) {
            let mut own = found(&app, summary, &all).await?;
            // What two kinds of hardware have in common is said once.
            own.retain(|one| one.kind != FindingKind::Hardware || one.hardware == summary.hardware.slug);
            of_each.push(own.into_iter());
        }
        let in_turn =
            (0..OF_EACH).flat_map(|_| of_each.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>());
        Ok(findings(in_turn.take(OVERVIEW).collect()))
    };
    app.pages.answer(&key, make).await?.reply(&headers)
}

fn findings(items: Vec<Finding>) -> Findings {
    Findings { min_problems: MIN_PROBLEMS, min_gain: MIN_GAIN, items }
}

/// A question whose answer depends on the entries of all these kinds of hardware.
async fn key(app: &App, slug: &HardwareSlug, all: &[HardwareSummary]) -> ApiResult<PageKey> {
    let mut revisions = Vec::new();
    for HardwareSummary { hardware, confirmed, .. } in all {
        let revision = app.backend.store.hardware_revision(&hardware.slug).await?;
        revisions.push((hardware.slug.clone(), revision, *confirmed));
    }
    Ok(PageKey::new(slug.clone(), &("findings", revisions)))
}

/// All findings about a hardware: those of its own board, then those beside others.
async fn found(app: &App, summary: &HardwareSummary, all: &[HardwareSummary]) -> ApiResult<Vec<Finding>> {
    let Some(method) = summary.method else { return Ok(Vec::new()) };
    let store = &app.backend.store;
    let seen = store.seen(&summary.hardware.slug, method, MOST).await?;
    let hardware = summary.hardware.clone();
    let mut found = tokio::task::spawn_blocking(move || Seen::findings(&seen, &hardware)).await?;
    found.extend(newer_library(app, &summary.hardware, method).await?);
    for other in all.iter().filter(|other| other.hardware.slug != summary.hardware.slug) {
        let Some((a, b)) = in_order(summary, other) else { continue };
        let of = [a, b].map(|one| MethodOn { hardware: one.hardware.slug.clone(), method });
        let pairs =
            store.pairs([&of[0], &of[1]], Kernels::Everything, &ProblemFilter::default(), MOST_PAIRS).await?;
        let compared = ratios(pairs.items, Noise::default(), SortOrder::Ascending, 0);
        found.extend(slower(&a.hardware, &b.hardware, method, &compared));
    }
    found.sort_by_key(|one| one.kind);
    Ok(found)
}

/// The lesser and the greater of two kinds of hardware, if both are known and one has at least the other's fp16 peak and
/// bandwidth.
fn in_order<'a>(
    one: &'a HardwareSummary,
    other: &'a HardwareSummary,
) -> Option<(&'a HardwareSummary, &'a HardwareSummary)> {
    let (is_known, vendors) =
        (one.confirmed && other.confirmed, (one.hardware.vendor, other.hardware.vendor));
    let (facts, others) = (one.hardware.facts.as_ref()?, other.hardware.facts.as_ref()?);
    let at_least = |a: &Facts, b: &Facts| a.peaks.fp16 >= b.peaks.fp16 && a.dram_gbps >= b.dram_gbps;
    if !is_known || vendors.0 != vendors.1 {
        return None;
    }
    match (at_least(facts, others), at_least(others, facts)) {
        (true, false) => Some((other, one)),
        (false, true) => Some((one, other)),
        (true, true) | (false, false) => None,
    }
}

/// Where the greater hardware is slower all the same.
fn slower(a: &Hardware, b: &Hardware, method: Method, compared: &Ratios) -> Option<Finding> {
    let ratio = compared.b_over_a.filter(|_| compared.slower >= MIN_PROBLEMS)?;
    let Ratios { slower, problems, .. } = *compared;
    Some(Finding {
        hardware: b.slug.clone(),
        name: b.name.clone(),
        kind: FindingKind::Hardware,
        sentence: format!(
            "{} takes more than 2 % longer than {} on {slower} of {problems} problems, though neither its fp16 peak nor its \
             bandwidth is lower; over all of them it runs at {ratio:.2}×.",
            b.name, a.name
        ),
        problems: slower,
        of: problems,
        ratio,
        link: format!("/compare?what=hardware&a={}&b={}&kernels=everything&method={method}", a.slug, b.slug),
    })
}

/// Where the newest version of the vendor's library is slower than the one before it.
async fn newer_library(app: &App, hardware: &Hardware, method: Method) -> ApiResult<Option<Finding>> {
    let mut versions = app.backend.store.libraries(MAX_LISTED).await?;
    versions.retain(|one| one.name.hardware == hardware.slug);
    versions.sort_by(|a, b| b.newest_at.cmp(&a.newest_at));
    let [newer, older, ..] = versions.as_slice() else { return Ok(None) };
    let compared = of_libraries(app, [&older.name, &newer.name], method).await?;
    let Ratios { slower, problems, .. } = compared;
    let Some(ratio) = compared.b_over_a.filter(|_| slower >= MIN_PROBLEMS) else { return Ok(None) };
    let [newer, older] = [newer, older].map(|one| &one.name);
    Ok(Some(Finding {
        hardware: hardware.slug.clone(),
        name: hardware.name.clone(),
        kind: FindingKind::LibraryVersion,
        sentence: format!(
            "{} takes more than 2 % longer than {} on {slower} of {problems} problems; over all of them it runs at {ratio:.2}×.",
            newer.library.in_words(),
            older.library.in_words()
        ),
        problems: slower,
        of: problems,
        ratio,
        link: format!("/compare?what=libraries&a={older}&b={newer}&method={method}"),
    }))
}

/// What findings are computed of: one entry of a board.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    problem: Problem,
    best_us: f64,
    triton_over_library: Option<f64>,
    /// Time of the best of Inductor's default configs / time of the best Triton config.
    gain: Option<f64>,
}

impl Store {
    /// An even sample of what was seen by a method.
    async fn seen(&self, slug: &HardwareSlug, method: Method, cap: usize) -> StoreResult<Vec<Seen>> {
        let filter = ProblemFilter { method: Some(method), ..ProblemFilter::default() };
        let seen = |entry: &Listed| Seen {
            problem: entry.problem.clone(),
            best_us: entry.best.us,
            triton_over_library: entry.triton_over_library,
            gain: entry.triton.and_then(|triton| triton.gain),
        };
        Ok(self.board(slug).await?.passing(&filter).take(cap).map(seen).collect())
    }
}

/// Problems of one kind: of an operator and a type, and of about the same M if given.
type Region = (Op, DType, Scaling, Option<SizeRange>);

impl Seen {
    fn findings(seen: &[Self], hardware: &Hardware) -> Vec<Finding> {
        let aligned = Self::alignment(seen, hardware);
        let leads = aligned.into_iter().chain(Self::leads(seen, hardware));
        let fp8 = [false, true].into_iter().filter_map(|grouped| Self::fp8(seen, hardware, grouped));
        leads.chain(Self::gains(seen, hardware)).chain(fp8).collect()
    }

    /// fp8 beside bfloat16 on the same sizes, whatever the layouts: the best time of each. Of problems with one matrix of weights,
    /// or of those where each group of rows has its own.
    fn fp8(seen: &[Self], hardware: &Hardware, grouped: bool) -> Option<Finding> {
        let is_meant = |one: &&Self| one.problem.groups.is_some() == grouped;
        let of = |dtype: DType| {
            let mut best: HashMap<_, f64> = HashMap::new();
            for one in seen.iter().filter(is_meant).filter(|one| one.problem.a_dtype == dtype) {
                let of = &one.problem;
                let known = best.entry(([of.b, of.m, of.n, of.k], of.groups)).or_insert(f64::INFINITY);
                *known = known.min(one.best_us);
            }
            best
        };
        let (fp8, bf16) = (of(DType::Float8E4M3), of(DType::BFloat16));
        let ratios: Vec<f64> = fp8.iter().filter_map(|(size, us)| Some(bf16.get(size)? / us)).collect();
        let faster = Comparison::from_ratios(&ratios);
        let ratio = faster.ratio.filter(|ratio| faster.problems >= MIN_PROBLEMS && is_clear(*ratio))?;
        let (kind, what) = match grouped {
            false => (FindingKind::Fp8, "The fastest kernel"),
            true => (FindingKind::Experts, "The fastest kernel for experts and other groups"),
        };
        Some(Finding {
            hardware: hardware.slug.clone(),
            name: hardware.name.clone(),
            kind,
            sentence: format!(
                "{what} in fp8 runs at {ratio:.2}× the fastest in bfloat16 on the same sizes ({}).",
                wins(&faster)
            ),
            problems: faster.problems,
            of: fp8.len() as u64,
            ratio,
            link: board(&hardware.slug, &format!("dtype={}", DType::Float8E4M3)),
        })
    }

    fn is_aligned(&self) -> bool {
        ProblemFilter { aligned: Some(true), ..ProblemFilter::default() }.admits(&self.problem)
    }

    /// Triton beside the library where rows are aligned, and where they are not.
    fn alignment(seen: &[Self], hardware: &Hardware) -> Option<Finding> {
        let of = |aligned: bool| {
            let ratios = seen.iter().filter(|one| one.is_aligned() == aligned);
            compared(ratios)
        };
        let (here, elsewhere) = (of(false)?, of(true)?);
        let (ratio, other) = (here.ratio?, elsewhere.ratio?);
        let library = hardware.vendor.library();
        is_clear(ratio / other).then(|| Finding {
            hardware: hardware.slug.clone(),
            name: hardware.name.clone(),
            kind: FindingKind::Alignment,
            sentence: format!(
                "Where N or K is not a multiple of 8, Triton runs at {ratio:.2}× {library} ({}); elsewhere at {other:.2}×.",
                wins(&here)
            ),
            problems: here.problems,
            of: here.problems + elsewhere.problems,
            ratio,
            link: board(&hardware.slug, "aligned=false"),
        })
    }

    /// The regions in which Triton is furthest ahead of the library, and the one in which it is furthest behind. Only of
    /// problems with aligned rows, so that none is the finding above once more.
    fn leads(seen: &[Self], hardware: &Hardware) -> Vec<Finding> {
        let mut regions: BTreeMap<Region, Vec<&Self>> = BTreeMap::new();
        for one in seen.iter().filter(|one| one.is_aligned()) {
            let problem = &one.problem;
            for rows in [None, Some(class(problem.m))] {
                let region = (problem.op, problem.a_dtype, problem.scaling, rows);
                regions.entry(region).or_default().push(one);
            }
        }
        let found = |(region, seen): (Region, Vec<&Self>)| Some((region, compared(seen.into_iter())?));
        let mut regions: Vec<(Region, Comparison)> = regions.into_iter().filter_map(found).collect();
        let ratio = |of: &Comparison| of.ratio.unwrap_or(1.0);
        regions.sort_by(|a, b| ratio(&b.1).total_cmp(&ratio(&a.1)));
        let of = seen.iter().filter(|one| one.triton_over_library.is_some()).count() as u64;
        let library = hardware.vendor.library();
        let say = |kind, region: &Region, here: &Comparison, whose: &str| Finding {
            hardware: hardware.slug.clone(),
            name: hardware.name.clone(),
            kind,
            sentence: format!(
                "{whose} leads most in {}, N and K multiples of 8: Triton runs at {:.2}× {library} ({}).",
                words(region),
                ratio(here),
                wins(here)
            ),
            problems: here.problems,
            of,
            ratio: ratio(here),
            link: board(&hardware.slug, &format!("{}&aligned=true", query(region))),
        };
        let ahead = regions.first().filter(|(_, here)| ratio(here) >= 1.0 + MIN_GAIN);
        let behind = regions.last().filter(|(_, here)| ratio(here) <= 1.0 - MIN_GAIN);
        let ahead = ahead.map(|(region, here)| say(FindingKind::TritonLeads, region, here, "Triton"));
        let behind = behind.map(|(region, here)| say(FindingKind::LibraryLeads, region, here, library));
        ahead.into_iter().chain(behind).collect()
    }

    /// The kind of problems that gain most over Inductor's default configs.
    fn gains(seen: &[Self], hardware: &Hardware) -> Option<Finding> {
        let mut kinds: BTreeMap<Region, Vec<f64>> = BTreeMap::new();
        for one in seen {
            let problem = &one.problem;
            kinds.entry((problem.op, problem.a_dtype, problem.scaling, None)).or_default().extend(one.gain);
        }
        let mean =
            |(kind, gains): (Region, Vec<f64>)| Some((geometric_mean(&gains)?, kind, gains.len() as u64));
        let kinds =
            kinds.into_iter().filter(|(_, gains)| gains.len() as u64 >= MIN_PROBLEMS).filter_map(mean);
        let (ratio, kind, problems) = kinds.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (ratio >= 1.0 + MIN_GAIN).then(|| Finding {
            hardware: hardware.slug.clone(),
            name: hardware.name.clone(),
            kind: FindingKind::Gain,
            sentence: format!(
                "Tuning gains most in {}: the best Triton config is {ratio:.2}× as fast as the best of Inductor's \
                 default configs ({problems} problems).",
                words(&kind)
            ),
            problems,
            of: seen.iter().filter(|one| one.gain.is_some()).count() as u64,
            ratio,
            link: board(&hardware.slug, &format!("{}&sort=gain", query(&kind))),
        })
    }
}

/// `None` if too few problems have both times.
fn compared<'a>(seen: impl Iterator<Item = &'a Seen>) -> Option<Comparison> {
    let ratios: Vec<f64> = seen.filter_map(|one| one.triton_over_library).collect();
    (ratios.len() as u64 >= MIN_PROBLEMS).then(|| Comparison::from_ratios(&ratios))
}

fn is_clear(ratio: f64) -> bool {
    ratio >= 1.0 + MIN_GAIN || ratio <= 1.0 - MIN_GAIN
}

fn wins(of: &Comparison) -> String {
    format!("faster on {} of {} problems", of.wins, of.problems)
}

fn words((op, dtype, scaling, rows): &Region) -> String {
    let scaled = if *scaling == Scaling::None { String::new() } else { format!(", scaled by {scaling}") };
    let rows = match rows {
        None => String::new(),
        Some(SizeRange { least, most }) if least == most => format!(", M = {least}"),
        Some(SizeRange { least, most }) => format!(", M from {least} to {most}"),
    };
    format!("{op} in {dtype}{scaled}{rows}")
}

/// The board's filter for a region.
fn query((op, dtype, scaling, rows): &Region) -> String {
    let scaled = if *scaling == Scaling::None { String::new() } else { format!("&scaling={scaling}") };
    let rows = rows.map(|SizeRange { least, most }| format!("&min_m={least}&max_m={most}"));
    format!("op={op}&dtype={dtype}{scaled}{}", rows.unwrap_or_default())
}

/// The page with the board of a hardware under some filters.
fn board(slug: &HardwareSlug, filters: &str) -> String {
    format!("/hardware/{slug}?{filters}")
}
