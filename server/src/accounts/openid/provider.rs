//! The provider, asked over the network.
//!
//! The HTTP client blocks, so requests to the provider run outside the async threads, a few at a time. A slow
//! provider thus delays only people who sign in by it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use diode_core::ids::AccountName;
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdToken, CoreIdTokenClaims,
    CoreJwsSigningAlgorithm, CoreProviderMetadata,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, IssuerUrl, Nonce,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, SignatureVerificationError,
    TokenResponse as _,
};
use tokio::sync::Semaphore;
use ureq::Agent;

use crate::accounts::openid::Keys;
use crate::http::{ApiFault, ApiResult};
use crate::settings::OpenId;
use crate::store::Identity;

/// How many requests to the provider run at a time. Each takes a thread.
const AT_ONCE: usize = 8;
/// How long a sign-in waits for its turn.
const WAIT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request may take, from the connection to the end of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer: far more than any provider sends.
const MAX_ANSWER: u64 = 1 << 20;
/// How long the provider's description and keys are used before they are read again.
const LASTS: Duration = Duration::from_secs(60 * 60);
/// A token with an unknown key makes the server read the keys again, but at most once in this time.
const LASTS_AT_LEAST: Duration = Duration::from_secs(1);
/// The longest subject that OpenID Connect allows.
const MAX_SUBJECT: usize = 255;

/// The signatures that an ID token may have. Each needs the provider's private key. A token without a signature
/// is refused. So is a token that is signed with the secret that the provider and this server share.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

type Client = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The provider by which people sign in.
pub struct Provider {
    label: String,
    asked: Arc<Asked>,
    turns: Arc<Semaphore>,
}

/// The person that the provider vouches for.
pub(super) struct Vouched {
    pub(super) identity: Identity,
    /// A name for the account, made from the name that the provider has for the person.
    pub(super) suggestion: Option<String>,
}

impl Provider {
    /// Sends no request, so that a server starts even while its provider is away.
    pub fn new(settings: &OpenId, public_url: &str) -> anyhow::Result<Self> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // No redirect is followed: the provider's description says where its services are, and another
            // place may not be the provider's.
            .max_redirects(0)
            .https_only(settings.issuer.starts_with("https://"))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .build();
        let secret = settings.client_secret()?;
        let asked = Asked {
            issuer: IssuerUrl::new(settings.issuer.clone()).context("openid issuer")?,
            client_id: ClientId::new(settings.client_id.clone()),
            client_secret: secret.map(|secret| ClientSecret::new(secret.into_text())),
            callback: RedirectUrl::new(format!("{public_url}/sign-in/openid/callback"))?,
            agent: agent.into(),
            known: Mutex::default(),
        };
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Ok(Self { label: settings.label.clone(), asked: Arc::new(asked), turns })
    }

    /// The provider's name, for people.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn issuer(&self) -> &str {
        self.asked.issuer.as_str()
    }

    /// The address that a browser is sent to.
    pub(super) async fn address(&self, keys: Keys) -> ApiResult<String> {
        self.ask(move |asked| asked.address(&keys)).await
    }

    /// Redeems a code, and checks the ID token that comes for it.
    pub(super) async fn vouched(&self, code: String, keys: Keys) -> ApiResult<Vouched> {
        self.ask(move |asked| asked.vouched(code, &keys)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Asked) -> Result<T, Trouble> + Send + 'static,
    ) -> ApiResult<T> {
        let turn = tokio::time::timeout(WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(ApiFault::busy(format!("{} answers slowly at the moment; try again", self.label)));
        };
        let asked = Arc::clone(&self.asked);
        let answered = tokio::task::spawn_blocking(move || {
            let answer = question(&asked);
            drop(turn);
            answer
        });
        answered.await?.map_err(|trouble| match trouble {
            Trouble::Away(cause) => ApiFault::away(
                format!("{} does not answer at the moment; try again later", self.label),
                30,
                cause,
            ),
            Trouble::Untrusted(cause) => ApiFault::forbidden(format!(
                "what {} answered cannot be trusted, so nobody was signed in; begin again, and tell whoever runs \
                 this server if it stays so",
                self.label
            ))
            .because(cause),
        })
    }
}

/// Why no answer of the provider can be used.
enum Trouble {
    /// The provider does not answer, or its answer is not valid.
    Away(anyhow::Error),
    /// The provider refused the code, or its ID token did not pass the checks.
    Untrusted(anyhow::Error),
}

/// The provider's description of itself, and when it was read.
#[derive(Clone)]
struct Known {
    metadata: CoreProviderMetadata,
    since: Instant,
}

struct Asked {
    issuer: IssuerUrl,
    client_id: ClientId,
    client_secret: Option<ClientSecret>,
    callback: RedirectUrl,
    agent: Agent,
    known: Mutex<Option<Known>>,
}

impl Asked {
    fn address(&self, keys: &Keys) -> Result<String, Trouble> {
        let metadata = self.metadata(LASTS).map_err(Trouble::Away)?;
        let verifier = PkceCodeVerifier::new(keys.verifier.to_string());
        let (state, nonce) = (CsrfToken::new(keys.state.to_string()), Nonce::new(keys.nonce.to_string()));
        let client = self.client(metadata);
        let (url, _, _) = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || state, || nonce)
            .add_scope(Scope::new("profile".to_owned()))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .url();
        Ok(url.into())
    }

    fn vouched(&self, code: String, keys: &Keys) -> Result<Vouched, Trouble> {
        let metadata = self.metadata(LASTS).map_err(Trouble::Away)?;
        let client = self.client(metadata);
        let request = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| Trouble::Away(error.into()))?
            .set_pkce_verifier(PkceCodeVerifier::new(keys.verifier.to_string()));
        let tokens = request.request(&|request| self.fetch(request)).map_err(|error| match error {
            RequestTokenError::Request(error) => Trouble::Away(error.into()),
            error => Trouble::Untrusted(anyhow!(error).context("the code was not redeemed")),
        })?;
        let untrusted = |error: ClaimsVerificationError| Trouble::Untrusted(error.into());
        let id_token = tokens.id_token().ok_or_else(|| Trouble::Untrusted(anyhow!("no ID token came")))?;
        let nonce = Nonce::new(keys.nonce.to_string());
        match checked(&client, id_token, &nonce) {
            Ok(claims) => vouched(claims).map_err(Trouble::Untrusted),
            // The provider may have changed its keys, so the keys are read again.
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => {
                let client = self.client(self.metadata(LASTS_AT_LEAST).map_err(Trouble::Away)?);
                let claims = checked(&client, id_token, &nonce).map_err(untrusted)?;
                vouched(claims).map_err(Trouble::Untrusted)
            }
            Err(error) => Err(untrusted(error)),
        }
    }

    /// The provider's description of itself, at most this old.
    fn metadata(&self, lasts: Duration) -> anyhow::Result<CoreProviderMetadata> {
        // No code panics while it holds this lock.
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.since.elapsed() < lasts) {
            return Ok(known.metadata);
        }
        let since = Instant::now();
        let metadata = CoreProviderMetadata::discover(&self.issuer, &|request| self.fetch(request))
            .with_context(|| format!("the OpenID Connect provider {}", self.issuer.as_str()))?;
        let authorization = metadata.authorization_endpoint().url();
        if authorization.scheme() != self.issuer.url().scheme() {
            bail!("authorization_endpoint: got `{authorization}`, expected https://");
        }
        let known = Known { metadata: metadata.clone(), since };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(metadata)
    }

    fn client(&self, metadata: CoreProviderMetadata) -> Client {
        let methods = metadata.token_endpoint_auth_methods_supported().cloned().unwrap_or_default();
        let only_in_body = methods.contains(&CoreClientAuthMethod::ClientSecretPost)
            && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic);
        let auth_type = if only_in_body { AuthType::RequestBody } else { AuthType::BasicAuth };
        CoreClient::from_provider_metadata(metadata, self.client_id.clone(), self.client_secret.clone())
            .set_redirect_uri(self.callback.clone())
            .set_auth_type(auth_type)
    }

    /// Sends one request to the provider. An answer with a status from 500 on counts as no answer.
    fn fetch(&self, request: HttpRequest) -> Result<HttpResponse, ureq::Error> {
        let answer = if request.body().is_empty() {
            self.agent.run(request.map(|_| ()))
        } else {
            self.agent.run(request)
        };
        let (parts, mut body) = answer?.into_parts();
        if parts.status.is_server_error() {
            return Err(ureq::Error::StatusCode(parts.status.as_u16()));
        }
        let body = body.with_config().limit(MAX_ANSWER).read_to_vec()?;
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// The claims of an ID token, if the provider signed it for this server and this sign-in, and it has not expired.
fn checked<'a>(
    client: &Client,
    id_token: &'a CoreIdToken,
    nonce: &Nonce,
) -> Result<&'a CoreIdTokenClaims, ClaimsVerificationError> {
    id_token.claims(&client.id_token_verifier().set_allowed_algs(ALGORITHMS), nonce)
}

fn vouched(claims: &CoreIdTokenClaims) -> anyhow::Result<Vouched> {
    let subject = claims.subject().as_str();
    if subject.is_empty() || subject.len() > MAX_SUBJECT || subject.chars().any(char::is_control) {
        bail!("the ID token's subject: expected 1 to {MAX_SUBJECT} characters");
    }
    let identity = Identity { issuer: claims.issuer().to_string(), subject: subject.to_owned() };
    let known_as = claims.preferred_username().map(|name| name.as_str());
    Ok(Vouched { identity, suggestion: known_as.and_then(suggestion) })
}

/// The account name that is most like a given name.
fn suggestion(known_as: &str) -> Option<String> {
    /// The most characters of an account's name.
    const LONGEST: usize = 32;
    let name = known_as.split('@').next().unwrap_or_default().to_lowercase();
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let mut name = parts.collect::<Vec<_>>().join("-");
    name.truncate(LONGEST);
    let name = name.trim_end_matches('-');
    name.parse::<AccountName>().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_suggested_that_an_account_may_have() {
        let long = "x".repeat(31) + "-yz";
        for (known_as, expected) in [
            ("Ada.Lovelace", Some("ada-lovelace")),
            ("ada@example.org", Some("ada")),
            ("  __Ada!!B ", Some("ada-b")),
            (&long, Some("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")),
            ("Ωμέγα", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(suggestion(known_as).as_deref(), expected, "{known_as}");
        }
    }
}
