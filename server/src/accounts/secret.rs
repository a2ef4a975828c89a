use diode_core::ids::{AccountId, Digest, LeaseId, TokenId};

/// The start of every API token, by which people and scanners recognise a token.
pub(crate) const TOKEN_PREFIX: &str = "diode_";

/// 256 random bits as text. It is shown once; only its digest is stored. The digest needs no salt, because
/// nobody can guess the secret.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    /// Draws a secret that begins with `prefix`.
    pub(super) fn draw(prefix: &str) -> Result<Self, getrandom::Error> {
        Ok(Self(format!("{prefix}{}", base16ct::lower::encode_string(&random()?))))
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// The digest under which a given secret would be stored.
pub(super) fn digest_of(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

pub(crate) fn new_account_id() -> Result<AccountId, getrandom::Error> {
    Ok(AccountId::of(&random()?))
}

pub(crate) fn new_lease_id() -> Result<LeaseId, getrandom::Error> {
    Ok(LeaseId::of(&random()?))
}

pub(super) fn new_token_id() -> Result<TokenId, getrandom::Error> {
    Ok(TokenId::of(&random()?))
}

/// Random bytes from the operating system.
pub(super) fn random() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_not_shown() {
        let (a, b) = (Secret::draw("diode_").unwrap(), Secret::draw("diode_").unwrap());
        assert_ne!(a.digest(), b.digest());
        assert_eq!(format!("{a:?}"), "Secret(…)");
        let text = a.into_text();
        assert!(text.starts_with("diode_") && text.len() == 6 + 64, "{text}");
    }
}
