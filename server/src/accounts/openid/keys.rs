use diode_core::ids::Digest;

use crate::accounts::secret::digest_of;

/// The secrets that the provider gets on behalf of one browser. All are derived from the secret in the
/// browser's cookie, so the database holds none of them.
pub(super) struct Keys {
    /// Shows that an answer belongs to this browser.
    pub(super) state: Digest,
    /// Shows that an ID token was made for this sign-in.
    pub(super) nonce: Digest,
    /// Shows that whoever redeems a code also asked for it (PKCE).
    pub(super) verifier: Digest,
}

impl Keys {
    pub(super) fn of(secret: &str) -> Self {
        let derive = |purpose: &str| digest_of(&format!("openid {purpose} {secret}"));
        Self { state: derive("state"), nonce: derive("nonce"), verifier: derive("verifier") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_from_each_other_and_from_what_is_stored() {
        let Keys { state, nonce, verifier } = Keys::of("secret");
        let all = [state, nonce, verifier, digest_of("secret"), Keys::of("other").state];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one));
        }
    }
}
