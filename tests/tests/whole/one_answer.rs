//! The command line and the browser answer alike. `python/tests/test_core.py` asks the wheel about the same problems.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use diode_core::{Config, ConfigFields, Epilogue, Problem};
use diode_model::{Answer, Model, Question, Ranker};
use diode_tests::diode_list;
use diode_worker::{Line, Ranking};
use serde_json::{Value, json};

const PROBLEMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/problems.json");
const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"
);
/// So many picks are in the browser's lists.
const PICKS: usize = 5;

/// An answer as the command line prints it. `null` if the problem is refused.
fn document<E>(answer: &Result<Answer, E>) -> Value {
    let Ok(answer) = answer else { return Value::Null };
    let candidate = |config: Config, us: f64, following: f64| {
        let mut fields = serde_json::to_value(ConfigFields::from(config)).unwrap();
        fields["predicted_us"] = json!(us + following);
        if answer.verdict.is_some() {
            fields["alone_us"] = json!(us);
            fields["epilogue_us"] = json!(following);
        }
        fields
    };
    let known = answer.confidence.as_ref();
    let shares = known.iter().flat_map(|known| &known.within_5_percent);
    let shares: serde_json::Map<String, Value> =
        shares.map(|(picks, share)| (picks.to_string(), json!(share))).collect();
    let mut document = json!({
        "candidates": answer.picks.iter().map(|pick| candidate(pick.config, pick.alone.0, pick.following.0)).collect::<Vec<_>>(),
        "within_5_percent": shares,
        "group": answer.group(),
        "first_candidate_us": known.and_then(|known| known.first_us),
        "outside_training_range": answer.caveat,
    });
    if let Some(verdict) = answer.verdict {
        document["epilogue"] = json!(verdict);
    }
    document
}

/// An answer of the command line without what only it adds.
fn common(told: &Value) -> Value {
    let mut told = told.clone();
    let Some(fields) = told.as_object_mut() else { return told };
    for added in ["problem", "hardware", "model", "order"] {
        fields.remove(added);
    }
    for candidate in fields["candidates"].as_array_mut().into_iter().flatten() {
        candidate.as_object_mut().map(|candidate| candidate.remove("library_over_this"));
    }
    told
}

#[test]
fn the_browser_answers_as_the_command_line_does() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let problems: Vec<Problem> = serde_json::from_slice(&std::fs::read(PROBLEMS)?)?;
    ensure!(problems.len() == 300);
    let model = Arc::new(Model::from_bytes(&std::fs::read(MODEL)?)?);
    for (flags, tf32, epilogue) in [
        ("", false, Epilogue::None),
        ("--tf32", true, Epilogue::None),
        ("--epilogue silu-gate", false, Epilogue::SiluGate),
    ] {
        let words = format!("predict --list {PROBLEMS} --model {MODEL} --top {PICKS} --json {flags}");
        let told = diode_list(folder.path(), &words.split_whitespace().collect::<Vec<_>>())?;
        let told = told.as_array().context("a list of predictions")?;
        ensure!(told.len() == problems.len());
        let mut ranking = Ranking::new(Arc::clone(&model), tf32, epilogue);
        let (mut sure, mut doubted, mut refused) = (0, 0, 0);
        for ((number, problem), told) in (1..).zip(&problems).zip(told) {
            let row = ranking.row(Line::new(number, Ok(problem.clone())));
            ensure!(document(&row.outcome) == common(told), "{flags} {problem:?}: {row:?} and {told}");
            // The page of one shape asks for more picks.
            let question = Question { picks: 10, tf32, epilogue, ..Question::default() };
            let page = Ranker::new(&*model).answer(problem, &question);
            ensure!(page.is_ok() == row.outcome.is_ok());
            let Ok(page) = page else {
                refused += 1;
                continue;
            };
            let told = document(&Ok::<_, ()>(page));
            let row = document(&row.outcome);
            ensure!(told["within_5_percent"] == row["within_5_percent"], "{problem:?}: {told} and {row}");
            ensure!(told["outside_training_range"] == row["outside_training_range"], "{problem:?}");
            sure += u32::from(row["within_5_percent"]["1"].is_f64());
            doubted += u32::from(row["outside_training_range"].is_string());
        }
        ensure!(doubted > 20 && refused > 0, "{flags}: of {doubted} and {refused} something is said");
        ensure!((sure > 100) == (epilogue == Epilogue::None), "{flags}: {sure} with a probability");
    }
    Ok(())
}
