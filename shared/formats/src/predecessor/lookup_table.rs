//! torch-diode's lookup tables: the configs to choose from for each problem, without times. The
//! fastest config stands first.

use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, ConfigIndex, Invalid, Problem, Table};

/// The table of one hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupTable {
    pub hardware: Hardware,
    pub configs: ConfigDictionary,
    /// The problems in file order. Each has its configs, with the best first.
    pub problems: Vec<(Problem, Vec<ConfigIndex>)>,
}

impl LookupTable {
    /// Converts to a table in Diode's own form.
    pub fn into_table(self) -> Result<Table, Invalid> {
        let configs = self.configs;
        let choices = self.problems.into_iter().map(|(problem, choices)| {
            let choices = choices.iter().map(|&index| *configs.get(index)).collect();
            (problem, choices)
        });
        Table::from_choices(self.hardware, choices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_lookup_table;

    const CONFIG: &str = r#"{"ACC_TYPE": "tl.float32", "block_k": 16, "block_m": 64, "block_n": 32, "grid": 1,
        "group_m": 8, "name": "mm_config", "num_stages": 2, "num_warps": 4}"#;
    const KEY: &str = r#"{\"version\": 1, \"B\": 1, \"M\": 64, \"M_dtype\": \"bfloat16\", \"N\": 128, \"K\": 32, \"K_dtype\": \"bfloat16\", \"out_dtype\": \"bfloat16\", \"out_size\": [1, 64, 128], \"out_stride\": [8192, 128, 1]}"#;

    fn table(configs: &str) -> String {
        format!(
            r#"{{"hardware": {{"NVIDIA H100": {{"operation": {{"mm": {{"solution": {{"{KEY}": {{"config": [{configs}], "version": 1}}}}, "version": 1}}}}, "version": 1}}}}, "version": 1}}"#
        )
    }

    #[test]
    fn configs_keep_their_order_and_their_repeats() {
        let other = CONFIG.replace("\"num_warps\": 4", "\"num_warps\": 8");
        let text = table(&[CONFIG, &other, CONFIG].join(", "));
        let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
        for bytes in [text.as_bytes(), &packed] {
            let [lut] = &decode_lookup_table(bytes).unwrap()[..] else { panic!("one kind of hardware") };
            assert_eq!(lut.hardware.slug.as_str(), "nvidia-h100");
            let [(problem, choices)] = &lut.problems[..] else { panic!("one problem") };
            assert_eq!(problem.dims(), "64×128×32");
            assert_eq!(choices, &[0, 1, 0].map(ConfigIndex));
            assert_eq!(lut.configs.get(ConfigIndex(1)).tile().unwrap().num_warps, 8);
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let error = |text: &str| decode_lookup_table(text.as_bytes()).unwrap_err().to_string();
        let bad = table(&CONFIG.replace("64", "48"));
        assert!(error(&bad).contains("op mm, problem 1): block_m: got 48"), "{}", error(&bad));
        assert!(error(r#"{"shapes": []}"#).starts_with("got a shape set"));
        let message = crate::decode(table(CONFIG).as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("got a lookup table"), "{message}");
    }
}
