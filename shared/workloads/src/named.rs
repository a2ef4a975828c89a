//! A model as a user names it, and the form of its weights.

use crate::catalogue::{self, Tag, User, names_fp8};
use crate::file_names::{Consumer, FileKey};
use crate::model_config::{Architecture, ConfigError, Quantization, Shipped};
use crate::served::Reader;

/// A model of the catalogue, or of a `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub name: String,
    pub architecture: Architecture,
    pub tags: Vec<Tag>,
    /// The form of the weights, as the given name or the config says.
    pub shipped: Shipped,
    /// The form of fp8 in which its authors publish weights.
    fp8: Option<Quantization>,
}

impl Named {
    /// Finds a model of the catalogue by its name or a checkpoint's. A name that ends in `-FP8` means weights in fp8.
    pub fn find(given: &str) -> Option<Self> {
        let model = catalogue::find(given)?;
        // A test reads the config of every model.
        let architecture = model.architecture().ok()?;
        // Some authors publish weights in fp8 alone.
        let own = match names_fp8(given) {
            true => Some(model.fp8().unwrap_or(Quantization::Fp8Tensor)),
            false => model.ships.first().copied(),
        };
        Some(Self {
            name: model.name.clone(),
            tags: model.tags.clone(),
            shipped: own.map_or_else(|| architecture.shipped.clone(), Shipped::As),
            fp8: model.fp8(),
            architecture,
        })
    }

    /// Reads a `config.json`.
    pub fn from_config(name: impl Into<String>, text: &str) -> Result<Self, ConfigError> {
        let architecture = Architecture::from_json(text)?;
        let shipped = architecture.shipped.clone();
        let fp8 = match shipped {
            Shipped::As(form) if form != Quantization::Bf16 => Some(form),
            _ => None,
        };
        let tags = vec![if architecture.experts.is_some() { Tag::Experts } else { Tag::Dense }];
        Ok(Self { name: name.into(), architecture, tags, shipped, fp8 })
    }

    /// The form of the weights unless the user names one. The error is the name of a form that Diode does not tune.
    pub fn form_for(&self, reader: Reader) -> Result<Quantization, &str> {
        match &self.shipped {
            _ if reader == Reader::Inductor => Ok(Quantization::Bf16),
            Shipped::As(form) => Ok(*form),
            Shipped::Otherwise(form) => Err(form),
        }
    }

    /// The fp8 that the authors publish, or else what servers make of other weights, with one scale for each matrix.
    pub fn fp8(&self) -> Quantization {
        self.fp8.unwrap_or(Quantization::Fp8Tensor)
    }

    /// How it is served if it looks for a file, on as few GPUs as possible.
    pub fn user(&self, key: &FileKey, consumer: Consumer) -> Option<User<'_>> {
        let (serving, layer) = self.architecture.serving_for(key, consumer)?;
        Some(User { model: &self.name, serving, layer })
    }

    /// The form of the weights if it is not bf16.
    pub fn other_form(&self) -> Option<&str> {
        match &self.shipped {
            Shipped::As(Quantization::Bf16) => None,
            Shipped::As(form) => Some(form.as_str()),
            Shipped::Otherwise(form) => Some(form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_configs_say_the_form_of_the_weights() {
        let form = |name: &str, reader| {
            let named = Named::find(name).unwrap();
            named.form_for(reader).map_err(str::to_owned)
        };
        for (name, expected) in [
            ("Qwen3-30B-A3B", Ok(Quantization::Bf16)),
            ("Qwen/Qwen3-30B-A3B-FP8", Ok(Quantization::Fp8Block)),
            ("DeepSeek-V3", Ok(Quantization::Fp8Block)),
            // Nobody publishes it, so a server makes it.
            ("Mixtral-8x7B-FP8", Ok(Quantization::Fp8Tensor)),
            ("gpt-oss-20b", Err("mxfp4".to_owned())),
        ] {
            assert_eq!(form(name, Reader::Vllm), expected, "{name}");
            assert_eq!(form(name, Reader::Inductor), Ok(Quantization::Bf16), "{name}");
        }
        assert_eq!(Named::find("Qwen3-31B"), None);
        let config = r#"{"hidden_size": 256, "num_hidden_layers": 2, "intermediate_size": 512,
            "quantization_config": {"quant_method": "fp8"}}"#;
        let named = Named::from_config("mine", config).unwrap();
        assert_eq!((named.other_form(), named.fp8()), (Some("fp8-tensor"), Quantization::Fp8Tensor));
    }
}
