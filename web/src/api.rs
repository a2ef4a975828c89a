//! Calls to the server's HTTP API. Every failure is one sentence that a page can show.

use diode_api::ApiError;
use js_sys::futures::JsFuture;
use js_sys::{Error, Object, Promise, Reflect, Uint8Array};
use leptos::prelude::window;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{RequestInit, Response};

/// Where the API lives on the server that served this page.
const ROOT: &str = "/api/v1";

/// The address of a resource of the API.
pub(crate) fn url(path: &str) -> String {
    format!("{ROOT}{path}")
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The server has no such resource. Another try cannot help.
    #[error("{0}")]
    NotFound(String),
    /// The request needs a session.
    #[error("{0}")]
    SignedOut(String),
    /// The server refused the request.
    #[error("{0}")]
    Refused(String),
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    #[error("the server's answer could not be read: {0}")]
    Unreadable(String),
}

/// Fetches a JSON resource.
pub(crate) async fn get<T: DeserializeOwned>(path: &str) -> Result<T, Failure> {
    decode(&get_bytes(path).await?)
}

/// Sends JSON and reads the JSON that comes back.
pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(path: &str, body: &B) -> Result<T, Failure> {
    decode(&bytes(send("POST", path, Some(json(body)?)).await?).await?)
}

/// Sends JSON. The answer has no body to read.
pub(crate) async fn tell<B: Serialize>(path: &str, body: &B) -> Result<(), Failure> {
    send("POST", path, Some(json(body)?)).await.map(drop)
}

/// Deletes a resource, and reads the JSON that comes back.
pub(crate) async fn delete<T: DeserializeOwned>(path: &str) -> Result<T, Failure> {
    decode(&bytes(send("DELETE", path, None).await?).await?)
}

/// Reads the JSON of an answer.
pub(crate) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|error| Failure::Unreadable(error.to_string()))
}

/// Fetches the bytes of a resource.
pub(crate) async fn get_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    bytes(send("GET", path, None).await?).await
}

/// The length of a file that the server has made, before it is compressed on its way. `None` if it has not made it yet.
pub(crate) async fn length(path: &str) -> Result<Option<u64>, Failure> {
    let headers = send("HEAD", path, None).await?.headers();
    Ok(headers.get("diode-bytes").ok().flatten().and_then(|bytes| bytes.parse().ok()))
}

/// The answer to a request that `boot.js` sent before this program ran. Each answer is taken once.
fn asked_ahead(url: &str) -> Option<Promise> {
    let ahead = Reflect::get(&window(), &"ahead".into()).ok()?;
    let answer = Reflect::get(&ahead, &url.into()).ok().filter(|answer| !answer.is_undefined())?;
    Reflect::delete_property(ahead.unchecked_ref::<Object>(), &url.into()).ok()?;
    Some(answer.unchecked_into())
}

/// Why the server did not answer with success. The server's own message is used if the body has one.
pub(crate) fn refusal(status: u16, body: &str) -> Failure {
    let message = match serde_json::from_str::<ApiError>(body) {
        Ok(error) => error.message,
        Err(_) => format!("the server answered with status {status}"),
    };
    match status {
        401 => Failure::SignedOut(message),
        404 => Failure::NotFound(message),
        _ => Failure::Refused(message),
    }
}

/// Sends a request. If `boot.js` has sent it already, its answer is used; if that failed, the request is sent again.
async fn send(method: &str, path: &str, body: Option<String>) -> Result<Response, Failure> {
    let url = url(path);
    let early = match asked_ahead(&url).filter(|_| method == "GET") {
        Some(answer) => JsFuture::from(answer).await.ok(),
        None => None,
    };
    let response = match early {
        Some(response) => response,
        None => fetch(method, &url, body).await.map_err(|error| Failure::Unreachable(in_words(&error)))?,
    };
    let response: Response = response.unchecked_into();
    if response.ok() {
        return Ok(response);
    }
    let status = response.status();
    let body = bytes(response).await.unwrap_or_default();
    Err(refusal(status, &String::from_utf8_lossy(&body)))
}

async fn fetch(method: &str, url: &str, body: Option<String>) -> Result<JsValue, JsValue> {
    let request = RequestInit::new();
    request.set_method(method);
    let headers = Object::new();
    if method == "HEAD" {
        // No file is made only to learn its length.
        Reflect::set(&headers, &"cache-control".into(), &"only-if-cached".into())?;
    }
    if let Some(body) = body {
        Reflect::set(&headers, &"content-type".into(), &"application/json".into())?;
        request.set_body(&body.into());
    }
    request.set_headers(&headers);
    JsFuture::from(window().fetch_with_str_and_init(url, &request)).await
}

async fn bytes(response: Response) -> Result<Vec<u8>, Failure> {
    let read = async { JsFuture::from(response.array_buffer()?).await };
    let buffer = read.await.map_err(|error| Failure::Unreadable(in_words(&error)))?;
    Ok(Uint8Array::new(&buffer).to_vec())
}

fn json<B: Serialize>(body: &B) -> Result<String, Failure> {
    serde_json::to_string(body).map_err(|error| Failure::Unreachable(error.to_string()))
}

/// An error of the browser, such as `TypeError: Failed to fetch`.
fn in_words(error: &JsValue) -> String {
    error.dyn_ref::<Error>().map_or_else(|| format!("{error:?}"), |error| String::from(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_carry_the_servers_own_words() {
        let body = r#"{"code":"not_found","message":"no such problem; see /api/v1/hardware"}"#;
        assert_eq!(refusal(404, body), Failure::NotFound("no such problem; see /api/v1/hardware".to_owned()));
        let body = r#"{"code":"unauthorized","message":"an upload needs an account"}"#;
        assert_eq!(refusal(401, body), Failure::SignedOut("an upload needs an account".to_owned()));
        assert_eq!(refusal(502, "<html>").to_string(), "the server answered with status 502");
    }
}
