use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use diode_api::Password;
use tokio::sync::Semaphore;

use crate::http::{ApiFault, ApiResult};

/// Each hash takes 19 MiB and a core for some 20 ms. If many people sign in at once, they wait in a queue.
const AT_ONCE: usize = 2;

/// Checked where there is no account, so that the answer takes as long as with an account. No password has
/// this hash.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and checks passwords with argon2id, away from the async threads.
#[derive(Clone)]
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Passwords {
    /// The hash of a password as a PHC string, with its own salt.
    pub(super) async fn hash(&self, password: Password) -> ApiResult<String> {
        let hash: Result<PasswordHash, _> =
            self.run(move || Argon2::default().hash_password(password.as_bytes())).await?;
        Ok(hash
            .map_err(|error| ApiFault::internal(anyhow::anyhow!("hashing a password: {error}")))?
            .to_string())
    }

    /// Whether this is the password of a hash. Without a hash the answer is `false`, after the same time.
    pub(super) async fn fits(&self, password: Password, hash: Option<String>) -> ApiResult<bool> {
        let exists = hash.is_some();
        let fits = self.run(move || {
            let hash = PasswordHash::new(hash.as_deref().unwrap_or(NOBODY))?;
            Ok(Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        let fits: Result<bool, argon2::password_hash::phc::Error> = fits.await?;
        let fits = fits.map_err(|error| ApiFault::internal(anyhow::anyhow!("a stored password: {error}")))?;
        Ok(fits && exists)
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
        // The semaphore is never closed, so this does not fail.
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(ApiFault::internal)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        Ok(done.await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_password_fits_its_hash() {
        let passwords = Passwords::default();
        let right = Password::new("correct horse battery staple");
        let hash = passwords.hash(right.clone()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(passwords.fits(right.clone(), Some(hash.clone())).await.unwrap());
        assert!(!passwords.fits(Password::new("wrong"), Some(hash)).await.unwrap());
        assert!(!passwords.fits(right.clone(), None).await.unwrap());
        assert!(passwords.fits(right, Some("damaged".to_owned())).await.is_err());
    }

    #[test]
    fn nobody_is_checked_as_slowly_as_somebody() {
        let somebody: PasswordHash = Argon2::default().hash_password(b"x").unwrap();
        let nobody = PasswordHash::new(NOBODY).unwrap();
        assert_eq!(nobody.params.to_string(), somebody.params.to_string());
        assert_eq!((nobody.algorithm, nobody.version), (somebody.algorithm, somebody.version));
        assert_eq!(nobody.hash.unwrap().len(), somebody.hash.unwrap().len());
    }
}
