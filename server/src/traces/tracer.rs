use std::env;
use std::time::Duration;

use axum::http::HeaderMap;
use diode_api::Job;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use super::Asked;
use super::sender::Sender;
use crate::settings::OtlpEndpoint;

/// The program's name at the collector, unless `OTEL_SERVICE_NAME` is set.
const SERVICE: &str = env!("CARGO_PKG_NAME");

/// Makes spans. The library queues them for its own thread, which sends them. The library drops spans that do
/// not fit in the queue.
pub(super) struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    parents: TraceContextPropagator,
}

/// A span that has begun. It ends when it is dropped.
pub(super) struct Recorded(Span);

impl Tracer {
    pub(super) fn new(endpoint: &OtlpEndpoint) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender::new(endpoint))
            .with_endpoint(endpoint.of_traces())
            .build()?;
        let resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let resource = match env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => resource,
            None => resource.with_service_name(SERVICE),
        };
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self { tracer: provider.tracer(SERVICE), provider, parents: TraceContextPropagator::new() })
    }

    pub(super) fn request(&self, asked: &Asked<'_>, headers: &HeaderMap) -> Recorded {
        let Asked { method, route, path, id } = *asked;
        let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
        let mut attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("url.path", path.to_owned()),
            KeyValue::new("request_id", id.to_owned()),
        ];
        attributes.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
        let parent = self.parents.extract_with_context(&Context::new(), &HeaderExtractor(headers));
        self.begin(name, SpanKind::Server, attributes, &parent)
    }

    pub(super) fn job(&self, job: &Job) -> Recorded {
        let kind = job.request.kind.as_str();
        let attributes = vec![
            KeyValue::new("job", job.id.to_string()),
            KeyValue::new("kind", kind),
            KeyValue::new("hardware", job.request.hardware.to_string()),
        ];
        self.begin(format!("job {kind}"), SpanKind::Consumer, attributes, &Context::new())
    }

    fn begin(&self, name: String, kind: SpanKind, attributes: Vec<KeyValue>, parent: &Context) -> Recorded {
        let span = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes);
        Recorded(self.tracer.build_with_context(span, parent))
    }

    pub(super) fn end(&self, within: Duration) -> anyhow::Result<()> {
        Ok(self.provider.shutdown_with_timeout(within)?)
    }
}

impl Recorded {
    pub(super) fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.set_attribute(KeyValue::new(name, value));
    }

    pub(super) fn failed(&mut self, why: String) {
        self.0.set_status(Status::error(why));
    }
}
