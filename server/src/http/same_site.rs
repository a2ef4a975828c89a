//! Refuses requests from pages of other sites. A browser that runs on this machine or is signed in sends
//! requests on behalf of any page that it shows. The headers of a request say which page sent it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{ApiFault, ApiResult};

/// The names that the server answers to, in addition to the names of this machine.
pub(crate) type Hosts = Arc<[String]>;

pub(crate) async fn same_site(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let checked =
        named(&request).and_then(|()| check(&hosts, request.method(), request.uri(), request.headers()));
    match checked {
        Ok(()) => next.run(request).await,
        Err(fault) => fault.into_response(),
    }
}

/// Whether the request names its host, as all requests must since HTTP/1.1.
fn named(request: &Request) -> ApiResult<()> {
    if request.version() < Version::HTTP_11
        || request.uri().host().is_some()
        || request.headers().contains_key(header::HOST)
    {
        return Ok(());
    }
    Err(ApiFault::invalid("Host: got nothing, expected the name of the server, as HTTP/1.1 has it"))
}

fn check(hosts: &[String], method: &Method, uri: &Uri, headers: &HeaderMap) -> ApiResult<()> {
    // With two Host headers, a proxy might read one and this server the other.
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Err(ApiFault::invalid("Host: given twice, expected once"));
    }
    // If the request line has a whole URL, the host of the URL counts instead of the header.
    let is_other = |host: &&str| !is_ours(hosts, &in_one_form(host));
    if let Some(named) = uri.host().filter(is_other) {
        return Err(ApiFault::misdirected(format!(
            "the request is for `{named:.128}`, expected a name that this server answers to"
        )));
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST);
    // Another site may let its own name point to this machine (DNS rebinding). A browser then takes that site's
    // pages for the server's own, but still sends the other site's name. A request without a host name does not
    // come from a browser.
    if let Some(given) = host
        && !host_of(given).is_some_and(|name| is_ours(hosts, &name))
    {
        return Err(ApiFault::misdirected(format!(
            "Host: got `{given:.128}`, expected a name that this server answers to; \
             start it with --host NAME to add one"
        )));
    }
    if method.is_safe() {
        return Ok(());
    }
    if let Some(origin) = text(header::ORIGIN)
        && !is_same(origin, host)
    {
        return Err(ApiFault::forbidden(format!(
            "Origin: got `{origin:.128}`, while Host is `{:.128}`; pages of other sites may not change anything here, \
             and a proxy must pass Host on unchanged, with its port",
            host.unwrap_or_default()
        )));
    }
    match text(header::HeaderName::from_static("sec-fetch-site")) {
        None | Some("same-origin" | "none") => Ok(()),
        Some(site) => Err(ApiFault::forbidden(format!(
            "Sec-Fetch-Site: got `{site:.32}`; pages of other sites may not change anything here"
        ))),
    }
}

/// The name in `NAME:PORT`, in lower case.
fn host_of(given: &str) -> Option<String> {
    // A Host header may have no `@`. A parser would ignore what stands before the `@`.
    if given.contains('@') {
        return None;
    }
    let authority: Authority = given.parse().ok()?;
    Some(in_one_form(authority.host()))
}

/// A name in lower case, without a dot at its end.
fn in_one_form(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn is_ours(hosts: &[String], name: &str) -> bool {
    let address: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
    name == "localhost"
        || address.is_some_and(|address| address.is_loopback())
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// Whether a page of the origin was loaded from the host. The scheme is not compared: a proxy may use another
/// scheme than the server.
fn is_same(origin: &str, host: Option<&str>) -> bool {
    let origin: Option<Uri> = origin.parse().ok();
    let authority = origin.as_ref().and_then(Uri::authority).map(|authority| authority.as_str());
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::HeaderValue;

    use super::*;

    fn status(method: &Method, given: &[(&'static str, &'static str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        match check(&["diode.example".to_owned()], method, &Uri::from_static("/"), &headers) {
            Ok(()) => 200,
            Err(fault) => fault.into_response().status().as_u16(),
        }
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        for host in [
            "localhost:8080",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "diode.example",
            "DIODE.example.:443",
        ] {
            assert_eq!(status(&Method::GET, &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "a b"] {
            assert_eq!(status(&Method::GET, &[("host", host)]), 421, "{host}");
        }
        assert_eq!(status(&Method::GET, &[]), 200);
    }

    #[test]
    fn a_name_is_asked_for_since_there_are_names() {
        let request = |version, uri: &str| Request::get(uri).version(version).body(Body::empty()).unwrap();
        assert!(named(&request(Version::HTTP_11, "/api")).is_err());
        assert!(named(&request(Version::HTTP_10, "/api")).is_ok());
        assert!(named(&request(Version::HTTP_11, "http://localhost/api")).is_ok());
        let named_one = Request::get("/").header("host", "localhost").body(Body::empty()).unwrap();
        assert!(named(&named_one).is_ok());
    }

    #[test]
    fn two_names_are_told_apart() {
        let (hosts, mut headers) = (["diode.example".to_owned()], HeaderMap::new());
        let status = |uri: &'static str, headers: &HeaderMap| match check(
            &hosts,
            &Method::GET,
            &Uri::from_static(uri),
            headers,
        ) {
            Ok(()) => 200,
            Err(fault) => fault.into_response().status().as_u16(),
        };
        headers.append("host", HeaderValue::from_static("diode.example"));
        assert_eq!(status("http://DIODE.example.:80/api", &headers), 200);
        assert_eq!(status("http://evil.example/api", &headers), 421);
        headers.append("host", HeaderValue::from_static("evil.example"));
        assert_eq!(status("/api", &headers), 400);
    }

    #[test]
    fn pages_of_other_sites_may_read_but_not_write() {
        let host = ("host", "127.0.0.1:8080");
        for (origin, expected) in [
            ("http://127.0.0.1:8080", 200),
            ("http://127.0.0.1:9999", 403),
            ("http://evil.example", 403),
            ("null", 403),
        ] {
            assert_eq!(status(&Method::POST, &[host, ("origin", origin)]), expected, "{origin}");
            assert_eq!(status(&Method::GET, &[host, ("origin", origin)]), 200, "{origin}");
        }
        assert_eq!(status(&Method::DELETE, &[host, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(status(&Method::POST, &[host, ("sec-fetch-site", "same-origin")]), 200);
        assert_eq!(status(&Method::POST, &[host]), 200);
    }
}
