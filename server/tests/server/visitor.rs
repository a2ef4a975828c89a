//! A browser. It keeps cookies, and says where its requests come from.

use std::cell::RefCell;
use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Request;
use diode_api::TERMS_VERSION;

use crate::test_app::{Reply, TestApp};

pub(crate) const PASSWORD: &str = "correct horse battery staple";

pub(crate) struct Visitor<'a> {
    app: &'a TestApp,
    cookies: RefCell<BTreeMap<String, String>>,
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(app: &'a TestApp) -> Self {
        Self { app, cookies: RefCell::default() }
    }

    pub(crate) async fn signed_up(app: &'a TestApp, name: &str) -> Self {
        let visitor = Self::new(app);
        let reply = visitor.sign_up(name, None).await;
        assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
        visitor
    }

    pub(crate) async fn signed_in(app: &'a TestApp, name: &str, password: &str) -> Self {
        let visitor = Self::new(app);
        assert_eq!(visitor.sign_in(name, password).await.status, 200);
        visitor
    }

    /// Signs up, and agrees to the terms of contributing.
    pub(crate) async fn sign_up(&self, name: &str, invitation: Option<&str>) -> Reply {
        self.sign_up_agreeing(name, invitation, Some(TERMS_VERSION)).await
    }

    pub(crate) async fn sign_up_agreeing(
        &self,
        name: &str,
        invitation: Option<&str>,
        terms: Option<u32>,
    ) -> Reply {
        let body = serde_json::json!({
            "name": name, "password": PASSWORD, "invitation": invitation, "terms": terms,
        });
        self.post("/api/v1/account", &body.to_string()).await
    }

    pub(crate) async fn sign_in(&self, name: &str, password: &str) -> Reply {
        let body = serde_json::json!({ "name": name, "password": password });
        self.post("/api/v1/session", &body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, body).await
    }

    pub(crate) async fn post_bytes(&self, path: &str, body: Vec<u8>) -> Reply {
        self.dispatch("POST", path, Body::from(body), "application/octet-stream").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        self.dispatch(method, path, Body::from(body.to_owned()), "application/json").await
    }

    /// The text of a page.
    pub(crate) async fn page(&self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        String::from_utf8(reply.body).unwrap()
    }

    /// Sends a form.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let plain =
            |text: &str| text.replace('%', "%25").replace('&', "%26").replace('+', "%2B").replace(' ', "+");
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
        let body = Body::from(fields.join("&"));
        self.dispatch("POST", path, body, "application/x-www-form-urlencoded").await
    }

    /// Does an act of administrators by a form. The answer is a page.
    pub(crate) async fn act(&self, act: &str, fields: &[(&str, &str)]) -> Reply {
        self.submit("/admin/trainings", &[&[("act", act)], fields, &[("sure", "yes")]].concat()).await
    }

    /// Deletes the account by the form of its page, and all its uploads or none.
    pub(crate) async fn delete_account(&self, password: &str, uploads: &str) -> Reply {
        self.submit("/account/delete", &[("password", password), ("uploads", uploads)]).await
    }

    /// All cookies in the form in which they are sent; `None` if there are none.
    pub(crate) fn cookie(&self) -> Option<String> {
        let cookies = self.cookies.borrow();
        let pairs: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Replaces the cookies with cookies from elsewhere.
    pub(crate) fn plant(&self, cookies: &str) {
        let pairs = cookies.split("; ").map(|pair| pair.split_once('=').unwrap());
        self.cookies.replace(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
    }

    async fn dispatch(&self, method: &str, path: &str, body: Body, media: &str) -> Reply {
        let host = self.app.policy.public_url.split("//").nth(1).unwrap();
        let mut request = Request::builder().method(method).uri(path).header("host", host);
        request = request.header("content-type", media).header("sec-fetch-site", "same-origin");
        if method != "GET" {
            request = request.header("origin", &self.app.policy.public_url);
        }
        if let Some(cookie) = self.cookie() {
            request = request.header("cookie", cookie);
        }
        let reply = self.app.send(request.body(body).unwrap()).await;
        for set in reply.headers.get_all("set-cookie") {
            let (pair, rest) = set.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            let mut cookies = self.cookies.borrow_mut();
            if rest.contains("Max-Age=0") {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        reply
    }
}
