//! Schemas of the types whose JSON differs from their Rust form.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::{Config, ConfigFields, KernelVariant, Method};

impl PartialSchema for Config {
    fn schema() -> RefOr<Schema> {
        ConfigFields::schema()
    }
}

impl ToSchema for Config {
    fn name() -> Cow<'static, str> {
        "Config".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ConfigFields::schemas(schemas);
    }
}

impl PartialSchema for Method {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("How a timing was taken: `unspecified` or statistic-cache-clock"))
            .pattern(Some("^(unspecified|(median|minimum|mean)-(cold|warm)-(event|wall))$"))
            .examples(["median-cold-event"])
            .into()
    }
}

impl ToSchema for Method {
    fn name() -> Cow<'static, str> {
        "Method".into()
    }
}

impl PartialSchema for KernelVariant {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("What a kernel is compiled for beside its config"))
            .examples(["mm;bfloat16;row,row;bias=none;align=16,16,16"])
            .into()
    }
}

impl ToSchema for KernelVariant {
    fn name() -> Cow<'static, str> {
        "KernelVariant".into()
    }
}
