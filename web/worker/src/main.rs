//! The program of the dashboard's worker. `worker.js` calls it.

use std::sync::Arc;

use diode_model::Model;
use diode_worker::workloads::{Asked, Workloads};
use diode_worker::{Line, Ranking, Row};
use wasm_bindgen::prelude::wasm_bindgen;

fn main() {}

/// The contents of a file, or why a server would refuse it, as the JSON of a `Result`. `null` if only the server can
/// tell.
#[wasm_bindgen]
pub fn check(bytes: &[u8]) -> String {
    serde_json::to_string(&diode_worker::check(bytes)).unwrap_or_else(|_| "null".to_owned())
}

/// A model, and the settings that hold for all shapes.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Ranker(Ranking);

#[wasm_bindgen]
impl Ranker {
    /// Reads a model file. `epilogue` is the name of an epilogue.
    #[wasm_bindgen(constructor)]
    pub fn new(model: &[u8], tf32: bool, epilogue: &str) -> Result<Self, String> {
        let model = Model::from_bytes(model).map_err(|error| error.to_string())?;
        let epilogue = epilogue.parse().map_err(|error: diode_core::Invalid| error.to_string())?;
        Ok(Self(Ranking::new(Arc::new(model), tf32, epilogue)))
    }

    /// Returns the rows for some lines. Lines and rows are JSON.
    pub fn rank(&mut self, lines: &str) -> Result<String, String> {
        let lines: Vec<Line> = serde_json::from_str(lines).map_err(|error| error.to_string())?;
        let rows: Vec<Row> = lines.into_iter().map(|line| self.0.row(line)).collect();
        serde_json::to_string(&rows).map_err(|error| error.to_string())
    }
}

/// Answers about served models.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Served(Workloads);

#[wasm_bindgen]
impl Served {
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the file of the model that predicts from now on.
    pub fn take(&mut self, model: &[u8]) -> Result<(), String> {
        self.0.take(Model::from_bytes(model).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Answers a question. Both are JSON.
    pub fn answer(&self, asked: &str) -> Result<String, String> {
        let asked: Asked = serde_json::from_str(asked).map_err(|error| error.to_string())?;
        serde_json::to_string(&self.0.answer(asked)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Epilogue, Op, Problem, ProblemFields};

    use super::*;

    const MODEL: &[u8] =
        include_bytes!("../../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors");

    fn lines() -> Vec<Line> {
        let problem = |(m, dtype)| {
            let fields = ProblemFields::plain(Op::Mm, 1, m, 4096, 4096, dtype);
            Problem::new(fields).map_err(|error| error.to_string())
        };
        let kinds =
            [(16, DType::BFloat16), (0, DType::BFloat16), (4096, DType::Float32), (1 << 31, DType::Float16)];
        (1..).zip(kinds.map(problem)).map(|(number, problem)| Line::new(number, problem)).collect()
    }

    #[test]
    fn rows_are_those_that_a_page_would_make() {
        let json = serde_json::to_string(&lines()).unwrap();
        for (tf32, epilogue) in [(false, Epilogue::None), (true, Epilogue::Gelu)] {
            // The page passes a model on by writing it to bytes again.
            let model = Arc::new(Model::from_bytes(MODEL).unwrap());
            let mut ranker = Ranker::new(&model.to_bytes().unwrap(), tf32, epilogue.as_str()).unwrap();
            let rows: Vec<Row> = serde_json::from_str(&ranker.rank(&json).unwrap()).unwrap();
            let mut ranking = Ranking::new(model, tf32, epilogue);
            let expected: Vec<Row> = lines().into_iter().map(|line| ranking.row(line)).collect();
            assert_eq!(rows, expected);
            let is_ranked: Vec<bool> = rows.iter().map(|row| row.outcome.is_ok()).collect();
            assert_eq!(is_ranked, [true, false, true, false]);
        }
    }

    #[test]
    fn a_check_is_json() {
        let refused: serde_json::Value = serde_json::from_str(&check(b"{")).unwrap();
        assert!(refused["Err"].as_str().unwrap().starts_with("truncated JSON at line 1"));
        // The frame has a type of block that does not exist, so only the server can tell what is wrong.
        assert_eq!(check(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0, 7, 0, 0, 0]), "null");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(Ranker::new(b"no model", false, "none").is_err());
        assert!(Ranker::new(MODEL, false, "a wish").is_err());
        assert!(Ranker::new(MODEL, false, "none").unwrap().rank("no lines").is_err());
    }
}
