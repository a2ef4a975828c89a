//! The forms in which `diode predict` prints its answers.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use clap::ValueEnum;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::ids::ModelId;
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, ConfigFields, Layout, Micros, Problem, ProblemGroup, Scaling, Table, Tflops};
use diode_model::epilogue::{Verdict, Weighed};
use diode_model::{Answer, LayerAnswer};
use serde::Serialize;

use diode_workloads::file_body::{Body, Entry};
use diode_workloads::file_names::{Consumer, FileName};

use crate::failure::Usage;
use crate::input::published::Rival;
use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Csv,
    Triton,
    Inductor,
    Vllm,
}

/// The answers to a list of problems, and what they rest on.
pub(crate) struct Prediction<'a> {
    /// `None` where there is no prediction.
    pub(crate) answers: Vec<Option<Answer>>,
    /// One config for both launches of a layer of experts, by the place of the answer to its first launch.
    pub(crate) layers: BTreeMap<usize, LayerAnswer>,
    /// What published files hold for a problem, by the place of its answer.
    pub(crate) rivals: BTreeMap<usize, Vec<Rival>>,
    /// What was measured of the nearest problems, by the place of an answer.
    pub(crate) measured: BTreeMap<usize, Vec<Measured>>,
    /// How many configs of a problem to print as code.
    pub(crate) top: usize,
    pub(crate) hardware: &'a Hardware,
    /// The model's name or file.
    pub(crate) model: String,
    pub(crate) id: ModelId,
}

/// The best measured config of a problem that is near the one asked for.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    problem: Problem,
    /// 0 for the problem itself.
    distance: f64,
    config: ConfigFields,
    time_us: f64,
}

impl Measured {
    /// The nearest problems of a table, the nearest first.
    pub(crate) fn near(table: &Table, problem: &Problem) -> Vec<Self> {
        let own = table.lookup(problem).map(|_| (problem.clone(), 0.0));
        let near = table.nearest(problem, 1).into_iter().flat_map(|nearest| nearest.neighbours);
        let near = near.map(|near| (near.problem, near.distance)).filter(|(near, _)| near != problem);
        let timed = own.into_iter().chain(near).filter_map(|(problem, distance)| {
            let best = table.lookup(&problem)?.first()?;
            Some(Self { distance, config: best.config.into(), time_us: best.time?.0, problem })
        });
        timed.collect()
    }
}

/// Why picks may stand in another order than that of their times.
const ORDER: &str = "ranks count more than the predicted time: near-copies of an earlier pick stand further back, and \
                     tile and library are compared with the usual error between them";

impl Prediction<'_> {
    pub(crate) fn print(&self, format: Format) -> anyhow::Result<()> {
        match (format, &self.answers[..]) {
            (Format::Json, [Some(answer)]) => output::json(&self.document(0, answer)),
            (Format::Json, several) => {
                let documents = several.iter().enumerate().map(|(place, answer)| {
                    let both_launches = self.layer_of(place).map(BothLaunches::from);
                    answer.as_ref().map(|answer| Document { both_launches, ..self.document(place, answer) })
                });
                output::json(&documents.collect::<Vec<_>>())
            }
            (Format::Csv, _) => output::text_out(&self.csv()),
            (Format::Triton, _) => output::text_out(&self.triton()),
            (Format::Inductor, _) => output::json(&self.inductor()?),
            (Format::Table, [Some(answer)]) => output::text_out(
                &(self.in_words(answer) + &self.rivals_in_words() + &self.measured_in_words()?),
            ),
            (Format::Table, _) => {
                output::text_out(&(self.in_a_table() + &self.rivals_in_words() + &self.measured_in_words()?))
            }
            (Format::Vllm, _) => output::json(&self.vllm()?),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().flatten()
    }

    /// The answer for both launches of the layer that a problem is a launch of.
    fn layer_of(&self, place: usize) -> Option<&LayerAnswer> {
        self.layers.get(&place).or_else(|| self.layers.get(&place.checked_sub(1)?))
    }

    /// The vendor's library for multiplications.
    fn library(&self) -> &'static str {
        match self.hardware.vendor {
            Vendor::Nvidia => "cuBLAS",
            Vendor::Amd => "hipBLASLt",
            Vendor::Cpu => "library",
        }
    }

    fn document<'b>(&'b self, place: usize, answer: &'b Answer) -> Document<'b> {
        let shares = answer.confidence.iter().flat_map(|known| &known.within_5_percent);
        let candidate = |pick: &Weighed| Candidate {
            config: pick.config.into(),
            predicted_us: pick.total().0,
            alone_us: answer.verdict.map(|_| pick.alone.0),
            epilogue_us: answer.verdict.map(|_| pick.following.0),
            library_over_this: answer.library.map(|library| library.total().0 / pick.total().0),
        };
        Document {
            problem: &answer.problem,
            hardware: self.hardware.slug.as_str(),
            model: ModelNamed { name: &self.model, id: &self.id },
            candidates: answer.picks.iter().map(candidate).collect(),
            within_5_percent: shares.map(|(picks, share)| (picks.to_string(), *share)).collect(),
            group: answer.group(),
            first_candidate_us: answer.confidence.as_ref().and_then(|known| known.first_us),
            outside_training_range: answer.caveat.as_deref(),
            order: (!is_in_order(answer)).then_some(ORDER),
            epilogue: answer.verdict,
            both_launches: None,
            published: self.rivals.get(&place).map_or(&[], Vec::as_slice),
            measured: self.measured.get(&place).map_or(&[], Vec::as_slice),
        }
    }

    /// A table of what published files hold, with the defaults that they replace.
    fn rivals_in_words(&self) -> String {
        let mut rows = Vec::new();
        for (place, rivals) in &self.rivals {
            let Some(Some(answer)) = self.answers.get(*place) else { continue };
            for rival in rivals {
                let time = output::duration(rival.predicted_us);
                let from = rival.from.clone().unwrap_or_default();
                rows.push(vec![named(&answer.problem), rival.name.clone(), rival.config.clone(), from, time]);
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        format!(
            "\nPublished files:\n{}",
            output::table(&["problem", "by", "config", "from", "predicted"], &rows, 4)
        )
    }

    fn measured_in_words(&self) -> anyhow::Result<String> {
        let mut rows = Vec::new();
        for measured in self.measured.values().flatten() {
            let label = Config::try_from(measured.config.clone())?.label();
            let distance = format!("{:.2}", measured.distance);
            rows.push(vec![named(&measured.problem), label, distance, output::duration(measured.time_us)]);
        }
        if rows.is_empty() {
            return Ok(String::new());
        }
        let head = ["problem", "best config", "distance", "measured"];
        Ok(format!("\nMeasured nearby:\n{}", output::table(&head, &rows, 2)))
    }

    /// The files that vLLM reads, by name. Both multiplications of experts share a config.
    fn vllm(&self) -> anyhow::Result<BTreeMap<String, Body>> {
        let mut files: BTreeMap<String, Body> = BTreeMap::new();
        let mut left_out = 0;
        for (place, answer) in self.answers.iter().enumerate() {
            let Some(answer) = answer else { continue };
            let file = FileName::of(&answer.problem, self.hardware, Consumer::Vllm);
            let configs = match self.layer_of(place) {
                Some(layer) => layer.picks.iter().map(|(config, _)| *config).collect::<Vec<_>>(),
                None => answer.picks.iter().map(|pick| pick.config).collect(),
            };
            // vLLM swaps the operands by itself where the config does.
            let tile = configs.iter().find_map(Config::tile);
            match file.zip(tile) {
                Some((file, tile)) => {
                    let body = files.entry(file.name(Consumer::Vllm)).or_default();
                    body.insert(answer.problem.m, Entry::of(tile));
                }
                None => left_out += 1,
            }
        }
        if left_out > 0 {
            say!("note: left out {} for which vLLM reads no file", output::count(left_out, "problem"));
        }
        if files.is_empty() {
            anyhow::bail!(
                "vLLM reads no file for these problems: it has some for experts and for fp8 by blocks"
            );
        }
        Ok(files)
    }

    fn in_words(&self, answer: &Answer) -> String {
        let columns = Columns::of([answer].into_iter(), self.library());
        let rows: Vec<Vec<String>> = (1..)
            .zip(&answer.picks)
            .map(|(place, pick): (usize, _)| {
                columns.row(pick.config.label(), place.to_string(), answer, pick)
            })
            .collect();
        let hardware = output::one_line(&self.hardware.name);
        let mut text = format!("{} on {hardware}\n\n", named(&answer.problem));
        text += &output::table(&columns.heads("config", "rank"), &rows, 1);
        if !is_in_order(answer) {
            let _ = writeln!(text, "\nNot in the order of times: {ORDER}.");
        }
        if let Some(verdict) = answer.verdict {
            let _ = writeln!(text, "\n{}", verdict.in_words(output::duration));
        }
        let Some(known) = &answer.confidence else { return text };
        if let Some((1, share)) = known.within_5_percent.first() {
            let _ = writeln!(
                text,
                "\nOn {} that it had not seen, the first pick was within 5 % of the best for {:.0} %.",
                answer.group().in_words(),
                share * 100.0
            );
        }
        if let Some((low, high)) = known.first_us {
            let _ = writeln!(
                text,
                "Expected for the first pick: {} to {}, in four cases of five.",
                output::duration(low),
                output::duration(high)
            );
        }
        text
    }

    /// A table with the picks of all problems, one per line.
    fn in_a_table(&self) -> String {
        let columns = Columns::of(self.all(), self.library());
        let mut rows = Vec::new();
        let mut keeps = false;
        for (place, answer) in self.answers.iter().enumerate() {
            let Some(answer) = answer else { continue };
            let problem = named(&answer.problem);
            rows.extend(
                answer
                    .picks
                    .iter()
                    .map(|pick| columns.row(problem.clone(), pick.config.label(), answer, pick)),
            );
            let before = place.checked_sub(1).and_then(|before| Some((before, self.layers.get(&before)?)));
            let Some((before, layer)) = before else { continue };
            keeps |= layer.keeps_untuned;
            let Some(Some(first)) = self.answers.get(before) else { continue };
            rows.extend(layer.picks.iter().map(|&(config, alone)| {
                let pick = Weighed { config, alone, following: Micros(0.0) };
                let flops = first.problem.flops() + answer.problem.flops();
                columns.row_of("both launches".to_owned(), config.label(), flops, None, &pick)
            }));
        }
        let hardware = output::one_line(&self.hardware.name);
        let mut text =
            format!("on {hardware}\n\n{}", output::table(&columns.heads("problem", "config"), &rows, 2));
        if keeps {
            text += "\nWhere nothing is predicted to be clearly faster for both launches, their config is vLLM's default.\n";
        }
        let unordered = self.all().filter(|answer| !is_in_order(answer)).count();
        if unordered > 0 {
            let _ =
                writeln!(text, "\n{unordered} of {} not in the order of times: {ORDER}.", self.answers.len());
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = String::from(
            "op,b,m,n,k,a_dtype,b_dtype,out_dtype,a_layout,b_layout,bias,hardware,rank,template,block_m,block_n,block_k,\
             group_m,num_stages,num_warps,matrix_instr_nonkdim,waves_per_eu,kpack,k_split,predicted_us,library_us,scaling,\
             groups,top_k,stage,rows,swap_ab\n",
        );
        for answer in self.all() {
            let p = &answer.problem;
            for (rank, pick) in (1..).zip(&answer.picks) {
                let fields = ConfigFields::from(pick.config);
                let rocm = fields.rocm;
                let numbers = [
                    fields.block_m,
                    fields.block_n,
                    fields.block_k,
                    fields.group_m,
                    fields.num_stages,
                    fields.num_warps,
                    rocm.map(|rocm| rocm.matrix_instr_nonkdim),
                    rocm.map(|rocm| rocm.waves_per_eu),
                    rocm.map(|rocm| rocm.kpack),
                    fields.k_split,
                ];
                let numbers =
                    numbers.map(|number| number.map_or_else(String::new, |number| number.to_string()));
                let library = answer.library.map_or_else(String::new, |one| one.total().0.to_string());
                let groups = p.groups.map_or_else(
                    || ",,,".to_owned(),
                    |groups| {
                        let stage = groups.stage.map(|stage| stage.to_string()).unwrap_or_default();
                        format!("{},{},{stage},{}", groups.count, groups.top_k, groups.rows)
                    },
                );
                let swap = pick.config.tile().map(|tile| tile.swap_ab.to_string()).unwrap_or_default();
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{},{},{},{},{},{},{},{},{},{},{},{},{rank},{},{},{},{library},{},{groups},{swap}",
                    p.op,
                    p.b,
                    p.m,
                    p.n,
                    p.k,
                    p.a_dtype,
                    p.b_dtype,
                    p.out_dtype,
                    p.a_layout,
                    p.b_layout,
                    p.bias,
                    self.hardware.slug,
                    fields.template,
                    numbers.join(","),
                    pick.total().0,
                    p.scaling,
                );
            }
        }
        text
    }

    /// Python that defines `configs`: a list for one problem, or a dictionary by problem. Picks that no kernel of Triton's
    /// computes by itself are comments.
    fn triton(&self) -> String {
        let mut text = format!(
            "# {}, by {} ({})\n# Parameters of the kernel: BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M; rename them where yours are \
             BLOCK_SIZE_M and so on.\nimport triton\n\n",
            self.hardware.slug, self.model, self.id
        );
        let list = |answer: &Answer, indent: &str| {
            let (mut lines, mut configs) = (String::new(), 0);
            for pick in &answer.picks {
                if configs == self.top {
                    break;
                }
                let time = output::duration(pick.total().0);
                let swaps = pick.config.tile().is_some_and(|tile| tile.swap_ab);
                lines += &match triton_config(&pick.config).filter(|_| !swaps) {
                    Some(config) => {
                        configs += 1;
                        format!("{indent}    {config},  # {time}\n")
                    }
                    None => {
                        let label = pick.config.label().replace("library", self.library());
                        let why = if swaps { ", with A and B swapped" } else { "" };
                        format!("{indent}    # {time}: {label}{why}\n")
                    }
                };
            }
            format!("[  # {}\n{lines}{indent}]", named(&answer.problem))
        };
        match &self.answers[..] {
            [Some(answer)] => text += &format!("configs = {}\n", list(answer, "")),
            _ => {
                text += "configs = {\n";
                for answer in self.all() {
                    let p = &answer.problem;
                    let (dims, layouts) =
                        ([p.b, p.m, p.n, p.k].map(|size| size.to_string()).join(", "), layouts(p));
                    let mut key = format!("(\"{}\", {dims}, \"{}\", \"{layouts}\"", p.op, p.a_dtype);
                    if p.scaling != Scaling::None {
                        let _ = write!(key, ", \"{}\"", p.scaling);
                    }
                    if let Some(groups) = p.groups {
                        let stage = groups.stage.map(|stage| format!(", \"{stage}\"")).unwrap_or_default();
                        let _ = write!(key, ", {}, {}{stage}", groups.count, groups.top_k);
                    }
                    key += ")";
                    text += &format!("    {key}: {},\n", list(answer, "    "));
                }
                text += "}\n";
            }
        }
        text
    }

    fn inductor(&self) -> anyhow::Result<impl Serialize> {
        if self.all().all(|answer| !answer.problem.op.is_plain()) {
            return Err(Usage::new(
                "--format inductor: torch's lookup_table has no scaled or grouped multiplications; the plug-in picks for them",
            )
            .into());
        }
        let mut seen = HashSet::new();
        let distinct: Vec<&Answer> = self.all().filter(|answer| seen.insert(&answer.problem)).collect();
        let choices = distinct.into_iter().map(|answer| {
            (answer.problem.clone(), answer.picks.iter().map(|pick| pick.config).collect::<Vec<_>>())
        });
        let table = Table::from_choices(self.hardware.clone(), choices)?;
        let written = table.to_inductor(&InductorOptions::default())?;
        let left_out = table.beyond_inductor();
        if left_out > 0 {
            let problems = output::count(left_out, "problem");
            say!("note: left out {problems} that Inductor looks up nowhere: scaled or grouped");
        }
        Ok(written)
    }
}

/// An answer as `--json` prints it.
#[derive(Serialize)]
struct Document<'a> {
    problem: &'a Problem,
    hardware: &'a str,
    model: ModelNamed<'a>,
    candidates: Vec<Candidate>,
    /// By the number of first candidates. Empty if it was not measured.
    within_5_percent: BTreeMap<String, f64>,
    group: ProblemGroup,
    first_candidate_us: Option<(f64, f64)>,
    outside_training_range: Option<&'a str>,
    /// Why the candidates are not in the order of their times, if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epilogue: Option<Verdict>,
    /// What imported files of vLLM and SGLang hold, with their defaults.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    published: &'a [Rival],
    /// What was measured of the nearest problems.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    measured: &'a [Measured],
    /// The same for both launches of a layer of experts, if this is one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    both_launches: Option<BothLaunches>,
}

#[derive(Serialize)]
struct BothLaunches {
    candidates: Vec<Candidate>,
    /// Whether the first candidate is vLLM's default, because nothing is predicted to be clearly faster.
    keeps_untuned: bool,
}

impl From<&LayerAnswer> for BothLaunches {
    fn from(layer: &LayerAnswer) -> Self {
        let candidate = |&(config, time): &(Config, Micros)| Candidate {
            config: config.into(),
            predicted_us: time.0,
            alone_us: None,
            epilogue_us: None,
            library_over_this: None,
        };
        Self { candidates: layer.picks.iter().map(candidate).collect(), keeps_untuned: layer.keeps_untuned }
    }
}

#[derive(Serialize)]
struct ModelNamed<'a> {
    name: &'a str,
    /// The digest of the model's file.
    id: &'a ModelId,
}

#[derive(Serialize)]
struct Candidate {
    #[serde(flatten)]
    config: ConfigFields,
    /// The time with the epilogue, if there is one.
    predicted_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    alone_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epilogue_us: Option<f64>,
    /// The library's predicted time / this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    library_over_this: Option<f64>,
}

fn is_in_order(answer: &Answer) -> bool {
    answer.picks.is_sorted_by(|a, b| a.total().0 <= b.total().0)
}

/// The columns that say something about these answers.
struct Columns {
    rocm: bool,
    library: Option<String>,
    epilogue: Option<&'static str>,
}

impl Columns {
    fn of<'a>(answers: impl Iterator<Item = &'a Answer>, library: &str) -> Self {
        let mut columns = Self { rocm: false, library: None, epilogue: None };
        for answer in answers {
            columns.rocm |=
                answer.picks.iter().any(|pick| pick.config.tile().is_some_and(|tile| tile.rocm.is_some()));
            columns.epilogue = columns.epilogue.or(answer.verdict.map(|verdict| verdict.epilogue.as_str()));
            if answer.library.is_some() {
                columns.library = Some(format!("against {library}"));
            }
        }
        columns
    }

    fn heads<'a>(&'a self, first: &'a str, second: &'a str) -> Vec<&'a str> {
        let mut heads = vec![first, second, "group_m"];
        if self.rocm {
            heads.extend(["nonkdim", "waves", "kpack"]);
        }
        heads.extend(["predicted", "rate"]);
        heads.extend(self.library.as_deref());
        heads.extend(self.epilogue);
        heads
    }

    fn row(&self, first: String, second: String, answer: &Answer, pick: &Weighed) -> Vec<String> {
        let library = answer.library.map(|library| library.total());
        self.row_of(first, second, answer.problem.flops(), library, pick)
    }

    fn row_of(
        &self,
        first: String,
        second: String,
        flops: f64,
        library: Option<Micros>,
        pick: &Weighed,
    ) -> Vec<String> {
        let tile = pick.config.tile();
        let number = |number: Option<u32>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
        let mut row = vec![first, second, number(tile.map(|tile| tile.group_m))];
        if self.rocm {
            let rocm = tile.and_then(|tile| tile.rocm);
            row.extend(
                [rocm.map(|r| r.matrix_instr_nonkdim), rocm.map(|r| r.waves_per_eu), rocm.map(|r| r.kpack)]
                    .map(number),
            );
        }
        row.push(output::duration(pick.total().0));
        row.push(output::rate(Tflops::from_work(flops, pick.total()).0));
        if self.library.is_some() {
            let ratio = library.map(|library| library.0 / pick.total().0);
            row.push(ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}×")));
        }
        if self.epilogue.is_some() {
            row.push(output::duration(pick.following.0));
        }
        row
    }
}

/// A problem with its type, its layouts and what else is particular: `addmm 16×4096×4096 bfloat16 nt, vector bias`.
fn named(problem: &Problem) -> String {
    let mut words = problem.particulars();
    // The letters of the layouts say it.
    words.retain(|words| !words.starts_with("A in ") && !words.starts_with("B in "));
    words.insert(0, format!("{} {} {} {}", problem.op, problem.dims(), problem.a_dtype, layouts(problem)));
    words.join(", ")
}

/// The layouts of A and B: `n` for row-major, `t` for column-major.
pub(crate) fn layouts(problem: &Problem) -> String {
    let letter = |layout| if layout == Layout::Row { 'n' } else { 't' };
    [letter(problem.a_layout), letter(problem.b_layout)].iter().collect()
}

/// A config as Triton's tuner takes it. `None` for the library and for split K, which are no Triton kernels of one launch.
fn triton_config(config: &Config) -> Option<String> {
    let tile = config.tile()?;
    let rocm = tile.rocm.map_or_else(String::new, |rocm| {
        format!(
            ", \"matrix_instr_nonkdim\": {}, \"waves_per_eu\": {}, \"kpack\": {}",
            rocm.matrix_instr_nonkdim, rocm.waves_per_eu, rocm.kpack
        )
    });
    Some(format!(
        "triton.Config({{\"BLOCK_M\": {}, \"BLOCK_N\": {}, \"BLOCK_K\": {}, \"GROUP_M\": {}{rocm}}}, num_stages={}, num_warps={})",
        tile.block_m, tile.block_n, tile.block_k, tile.group_m, tile.num_stages, tile.num_warps
    ))
}
