//! What a page has before the dashboard runs: its title and description, the header, its heading and the place of its
//! content. Programs that read links, such as chats and search engines, see the same.

use std::time::Duration;

use axum::http::HeaderMap;
use diode_api::{ModelSummary, PAGES, Receipt};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_workloads::catalogue;
use maud::{Markup, PreEscaped, html};
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::http::Lookup;
use crate::pages::{self, theme};

/// The texts of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Front {
    /// As the dashboard sets it, without the name of the site.
    title: String,
    heading: String,
    about: String,
}

impl Front {
    /// The front of the page at a path, as in the dashboard's router (`web/src/app.rs`). `None` if there is no such page,
    /// or its subject does not exist.
    pub(super) async fn of(app: &App, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let of = |title: String, heading: String, about: String| Some(Self { title, heading, about });
        match parts[..] {
            ["workloads", model] => {
                let name = workload(model)?;
                let about = format!(
                    "The multiplications of {name}, how much faster they can run, and their files for vLLM, SGLang and torch.compile."
                );
                of(name.clone(), name, about)
            }
            ["hardware", slug] => {
                let name =
                    subject::<Hardware>(app, slug).await?.map_or_else(|| slug.to_owned(), |found| found.name);
                let about = format!(
                    "The fastest Triton config for each matrix multiplication that was measured on {name}, beside the vendor's library."
                );
                of(name.clone(), name, about)
            }
            ["datasets", slug] => {
                let name =
                    subject::<Hardware>(app, slug).await?.map_or_else(|| slug.to_owned(), |found| found.name);
                let about = format!(
                    "All timings of matrix multiplications on {name}, as Parquet, CSV and MessagePack."
                );
                of(format!("Dataset {name}"), format!("Matmul timings of {name}"), about)
            }
            ["problems", id] => {
                let Some(problem) = subject::<Problem>(app, id).await? else {
                    return of("Problem".to_owned(), id.to_owned(), String::new());
                };
                let (sizes, dtype) = (problem.dims(), problem.a_dtype);
                let about = format!(
                    "Every config that was timed for {} {sizes} in {dtype}, and the fastest.",
                    problem.op
                );
                of(format!("{sizes} {dtype}"), sizes, about)
            }
            ["uploads", id] => {
                subject::<Receipt>(app, id).await?;
                let about = "What one upload has, how its times compare with those of others, and its file."
                    .to_owned();
                of(format!("Upload {id}"), format!("Upload {id}"), about)
            }
            ["models", id] => {
                let Some(model) = subject::<ModelSummary>(app, id).await? else {
                    return of("Model".to_owned(), id.to_owned(), String::new());
                };
                let heading = format!("{} for {}", model.heuristic, model.hardware);
                let about = format!(
                    "A model that ranks the configs of matrix multiplications on {}, and how good its picks are.",
                    model.hardware
                );
                of(format!("Model {}", model.hardware), heading, about)
            }
            _ => {
                let path = format!("/{}", parts.join("/"));
                let page = PAGES.iter().find(|page| page.path == path)?;
                of(page.title.to_owned(), page.heading.to_owned(), page.about.to_owned())
            }
        }
    }

    /// The front of a page that does not exist.
    pub(super) fn missing() -> Self {
        let title = "There is nothing here".to_owned();
        Self { heading: title.clone(), title, about: String::new() }
    }

    /// The dashboard's HTML with this front. `here` is the page's whole address.
    pub(super) fn put_into(&self, index: &str, here: &str, path: &str, headers: &HeaderMap) -> String {
        let html = match theme(headers) {
            Some(theme) => format!("<html lang=\"en\" data-theme=\"{theme}\">"),
            None => "<html lang=\"en\">".to_owned(),
        };
        index
            .replacen("<html lang=\"en\">", &html, 1)
            .replacen("<title>Diode</title>", &self.head(here).into_string(), 1)
            .replacen("<body>", &format!("<body>{}", self.body(path).into_string()), 1)
    }

    fn head(&self, here: &str) -> Markup {
        html! {
            title { (self.title) " · Diode" }
            meta name="description" content=(self.about);
            meta property="og:site_name" content="Diode";
            meta property="og:type" content="website";
            meta property="og:title" content=(self.title);
            meta property="og:description" content=(self.about);
            meta property="og:url" content=(here);
        }
    }

    /// Stands in for the page until the dashboard puts its own in place (`web/boot.js`).
    fn body(&self, path: &str) -> Markup {
        html! {
            div id="early" {
                div class="top" { (pages::bar(path, &html! { span class="account" { (PreEscaped("&nbsp;")) } })) }
                div class="page" aria-busy="true" {
                    div {
                        h1 { (self.heading) }
                        @if PAGES.iter().any(|page| page.about == self.about) { p class="lede" { (self.about) } }
                    }
                    div class="skeleton" style="height:42rem" {}
                }
            }
        }
    }
}

/// How long a page waits to learn whether its subject exists. A slow or failing database must not make a page
/// slow or fail.
const PATIENCE: Duration = Duration::from_millis(250);

/// The subject with an id; `None` if it does not exist, and `Some(None)` if the database does not answer in time: the
/// subject then counts as existing.
async fn subject<T: Lookup>(app: &App, id: &str) -> Option<Option<T>> {
    // An id that cannot be parsed counts as an id that does not exist.
    let id = percent_decode_str(id).decode_utf8().ok()?.parse::<T::Id>().ok()?;
    match tokio::time::timeout(PATIENCE, T::find(app.backend.store.as_ref(), &id)).await {
        Ok(Ok(found)) => found.map(Some),
        Ok(Err(_)) | Err(_) => Some(None),
    }
}

/// The name of the subject of a served model's page: a model of the catalogue, or the config that the reader pasted.
pub(super) fn workload(name: &str) -> Option<String> {
    let name = percent_decode_str(name).decode_utf8().ok()?;
    match name.as_ref() {
        "config" => Some("Your config.json".to_owned()),
        name => catalogue::find(name).map(|_| name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};
    use diode_api::SitePage as Page;

    use super::*;

    const INDEX: &str = include_str!("../../../web/index.html");

    #[test]
    fn every_page_has_its_front_before_the_dashboard_runs() {
        for Page { path, title, heading, about, .. } in PAGES {
            let front =
                Front { title: title.to_owned(), heading: heading.to_owned(), about: about.to_owned() };
            let page =
                front.put_into(INDEX, &format!("https://diode.example{path}"), path, &HeaderMap::new());
            for part in [
                format!("<title>{title} · Diode</title>"),
                format!("<meta name=\"description\" content=\"{about}\">"),
                format!("<meta property=\"og:title\" content=\"{title}\">"),
                format!("<meta property=\"og:url\" content=\"https://diode.example{path}\">"),
                format!("<h1>{heading}</h1><p class=\"lede\">{about}</p>"),
                "<html lang=\"en\">".to_owned(),
            ] {
                assert_eq!(page.matches(&part).count(), 1, "{path}: {part}\n{page}");
            }
            let current = page.matches("aria-current=\"page\"").count();
            assert_eq!(current, 1, "{path}: one link leads to the page itself\n{page}");
        }
    }

    #[test]
    fn names_are_text_and_the_theme_is_that_of_the_cookie() {
        let name = "<script>alert(1)</script> \"\"";
        let front = Front { title: name.to_owned(), heading: name.to_owned(), about: name.to_owned() };
        let themed = |cookie| {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(cookie))]);
            front.put_into(INDEX, "/", "/", &headers)
        };
        let page = themed("diode-theme=dark");
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(
            !page.contains("content=\"<") && page.contains("<html lang=\"en\" data-theme=\"dark\">"),
            "{page}"
        );
        assert!(themed("diode-theme=\"><script>; a=b").contains("<html lang=\"en\">"));
    }
}
