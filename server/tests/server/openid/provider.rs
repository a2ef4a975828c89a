//! A small OpenID Connect provider on loopback, which can also lie.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use diode_server::accounts::Provider;
use diode_server::settings::OpenId;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::test_app::{PUBLIC_URL, Reply};

const CLIENT: &str = "diode";
pub(super) const SECRET: &str = "the client's secret";

/// What is wrong with an answer of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    Nonce,
    Audience,
    TwoAudiences,
    Issuer,
    Expired,
    /// The ID token is signed by another key than the one that it names.
    OtherKey,
    /// The ID token is signed by a key with an unknown name.
    UnknownKey,
    /// The ID token's `alg` is `none`.
    Unsigned,
    /// The ID token is signed by HMAC with the client's secret.
    SignedBySecret,
    NoIdToken,
    LongSubject,
    /// The provider redirects to another server.
    Elsewhere,
}

/// Faults of the provider that are not lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    TokenFails,
    DiscoveryFails,
    DiscoveryOfAnother,
    DiscoveryIsNoJson,
}

/// The subject of an issued code, and the values that a request for its tokens must match.
struct Given {
    subject: String,
    nonce: String,
    challenge: String,
}

struct Book {
    key: EcdsaKeyPair,
    key_name: String,
    codes: HashMap<String, Given>,
    lie: Option<Lie>,
    trouble: Option<Trouble>,
}

#[derive(Clone)]
struct Served {
    issuer: String,
    book: Arc<Mutex<Book>>,
}

pub(crate) struct TestProvider {
    served: Served,
    /// Its own runtime, so that its connections end with it.
    runtime: Mutex<Option<Runtime>>,
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
}

impl TestProvider {
    pub(crate) async fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let book = Book {
            key: new_key(),
            key_name: "first".to_owned(),
            codes: HashMap::new(),
            lie: None,
            trouble: None,
        };
        let issuer = format!("http://{}/realms/test", listener.local_addr().unwrap());
        let served = Served { issuer, book: Arc::new(Mutex::new(book)) };
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(served.clone());
        let router = Router::new().nest("/realms/test", routes);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            axum::serve(TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
        Self { served, runtime: Mutex::new(Some(runtime)) }
    }

    /// Stops answering, also on connections that are open.
    pub(crate) fn stop(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            // A task of one runtime must not wait for another runtime.
            let ending = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(30)));
            ending.join().unwrap();
        }
    }

    /// The server's client for this provider.
    pub(crate) fn client(&self) -> Provider {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        diode_formats::write_atomically(&file, SECRET.as_bytes()).unwrap();
        let settings = OpenId {
            issuer: self.served.issuer.clone(),
            client_id: CLIENT.to_owned(),
            client_secret_file: Some(file),
            label: "Example".to_owned(),
        };
        Provider::new(&settings, PUBLIC_URL).unwrap()
    }

    pub(crate) fn lie(&self, lie: Lie) {
        self.served.book.lock().unwrap().lie = Some(lie);
    }

    pub(crate) fn trouble(&self, trouble: Trouble) {
        self.served.book.lock().unwrap().trouble = Some(trouble);
    }

    /// Ends the trouble.
    pub(crate) fn recover(&self) {
        self.served.book.lock().unwrap().trouble = None;
    }

    /// Changes to a new key.
    pub(crate) fn rotate(&self) {
        let mut book = self.served.book.lock().unwrap();
        (book.key, book.key_name) = (new_key(), "second".to_owned());
    }

    /// Signs somebody in at the provider. `reply` sends the browser there; the result is the address that it
    /// comes back to.
    pub(crate) fn sign_in(&self, reply: &Reply, subject: &str) -> String {
        let text = String::from_utf8_lossy(&reply.body);
        assert_eq!(reply.status, 200, "{text}");
        let refresh = reply.header("refresh");
        let address = refresh.strip_prefix("0;url=").unwrap();
        let (place, query) = address.split_once('?').unwrap();
        assert_eq!(place, format!("{}/authorize", self.served.issuer));
        let of: HashMap<_, _> = fields(query).into_iter().collect();
        let expected = [
            ("response_type", "code"),
            ("client_id", CLIENT),
            ("scope", "openid profile"),
            ("code_challenge_method", "S256"),
        ];
        for (name, value) in expected {
            assert_eq!(of[name], value, "{name}");
        }
        assert_eq!(of["redirect_uri"], format!("{PUBLIC_URL}/sign-in/openid/callback"));
        assert!(!address.contains(SECRET) && of["state"] != of["nonce"]);
        let given = Given {
            subject: subject.to_owned(),
            nonce: of["nonce"].clone(),
            challenge: of["code_challenge"].clone(),
        };
        let code = format!("code of {subject} {}", &of["state"][..8]);
        let back = format!(
            "/sign-in/openid/callback?code={}&state={}&session_state=x",
            code.replace(' ', "+"),
            of["state"]
        );
        self.served.book.lock().unwrap().codes.insert(code, given);
        back
    }
}

impl Drop for TestProvider {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The fields of a form or a query.
fn fields(text: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8().unwrap().into_owned()
    };
    text.split('&').map(|pair| pair.split_once('=').unwrap()).map(|(n, v)| (plain(n), plain(v))).collect()
}

async fn describe(State(served): State<Served>) -> Result<Json<Value>, StatusCode> {
    let issuer = &served.issuer;
    let trouble = served.book.lock().unwrap().trouble;
    let claimed = match trouble {
        Some(Trouble::DiscoveryFails) => return Err(StatusCode::BAD_GATEWAY),
        Some(Trouble::DiscoveryIsNoJson) => return Ok(Json(json!("here is a page"))),
        Some(Trouble::DiscoveryOfAnother) => "https://evil.example",
        _ => issuer,
    };
    Ok(Json(json!({
        "issuer": claimed,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        // A lying provider would also state that it uses no signature.
        "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
    })))
}

async fn keys(State(served): State<Served>) -> Json<Value> {
    let book = served.book.lock().unwrap();
    // The public key is a point: 0x04, followed by x and y.
    let point = &book.key.public_key().as_ref()[1..];
    let [x, y] = [&point[..32], &point[32..]].map(|half| URL_SAFE_NO_PAD.encode(half));
    Json(json!({ "keys": [
        { "kty": "EC", "use": "sig", "crv": "P-256", "kid": book.key_name, "alg": "ES256", "x": x, "y": y }
    ] }))
}

type Told = (StatusCode, HeaderMap, Json<Value>);

async fn token(State(served): State<Served>, headers: HeaderMap, body: Bytes) -> Told {
    let refuse = |status: u16, error: &str| {
        (StatusCode::from_u16(status).unwrap(), HeaderMap::new(), Json(json!({ "error": error })))
    };
    let mut book = served.book.lock().unwrap();
    if book.trouble == Some(Trouble::TokenFails) {
        return refuse(500, "server_error");
    }
    if book.lie == Some(Lie::Elsewhere) {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, format!("{}/keys", served.issuer).parse().unwrap());
        return (StatusCode::TEMPORARY_REDIRECT, headers, Json(json!({})));
    }
    let expected = format!("{CLIENT}:{}", SECRET.replace(' ', "+").replace('\'', "%27"));
    let expected = format!("Basic {}", STANDARD.encode(expected));
    if headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap()) != Some(expected.as_str()) {
        return refuse(401, "invalid_client");
    }
    let of: HashMap<_, _> = fields(std::str::from_utf8(&body).unwrap()).into_iter().collect();
    // A code works once.
    let Some(given) = book.codes.remove(&of["code"]) else { return refuse(400, "invalid_grant") };
    let verifier = ring::digest::digest(&ring::digest::SHA256, of["code_verifier"].as_bytes());
    if URL_SAFE_NO_PAD.encode(verifier) != given.challenge {
        return refuse(400, "invalid_grant");
    }
    let id_token = id_token(&book, &served.issuer, &given);
    let mut answer = json!({ "access_token": "a", "token_type": "Bearer", "id_token": id_token });
    if book.lie == Some(Lie::NoIdToken) {
        answer.as_object_mut().unwrap().remove("id_token");
    }
    (StatusCode::OK, HeaderMap::new(), Json(answer))
}

fn id_token(book: &Book, issuer: &str, given: &Given) -> String {
    let lies = |lie: Lie| book.lie == Some(lie);
    let now = jiff::Timestamp::now().as_second();
    let header = match book.lie {
        Some(Lie::Unsigned) => json!({ "alg": "none" }),
        Some(Lie::SignedBySecret) => json!({ "alg": "HS256" }),
        Some(Lie::UnknownKey) => json!({ "alg": "ES256", "kid": "nobody's" }),
        _ => json!({ "alg": "ES256", "kid": book.key_name }),
    };
    let audience = match book.lie {
        Some(Lie::Audience) => json!("another"),
        Some(Lie::TwoAudiences) => json!([CLIENT, "another"]),
        _ => json!(CLIENT),
    };
    let claims = json!({
        "iss": if lies(Lie::Issuer) { "https://evil.example" } else { issuer },
        "sub": if lies(Lie::LongSubject) { "s".repeat(256) } else { given.subject.clone() },
        "aud": audience,
        "nonce": if lies(Lie::Nonce) { "another" } else { given.nonce.as_str() },
        "iat": now,
        "exp": if lies(Lie::Expired) { now - 10 } else { now + 300 },
        // Everybody has the same address, since it must not be taken for an identity.
        "email": "ada@example.org",
        // As a text: some providers write it like this.
        "email_verified": "true",
        "updated_at": "2026-11-23T08:00:00.000Z",
        "preferred_username": format!("{}@Example.org", given.subject),
    });
    let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let random = SystemRandom::new();
    let signature = match book.lie {
        Some(Lie::Unsigned) => String::new(),
        Some(Lie::SignedBySecret) => {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
            URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes()))
        }
        Some(Lie::OtherKey) => URL_SAFE_NO_PAD.encode(new_key().sign(&random, signed.as_bytes()).unwrap()),
        _ => URL_SAFE_NO_PAD.encode(book.key.sign(&random, signed.as_bytes()).unwrap()),
    };
    format!("{signed}.{signature}")
}
