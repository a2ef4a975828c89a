//! Names and ids. Each has its own type, so that no id can be passed where another is expected.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::Invalid;
use crate::named_enum::named_enum;

/// Converts an id to text and back. Its `FromStr` checks the text.
macro_rules! as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

/// A SHA-256 digest in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{64}$"))]
pub struct Digest(String);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(Sha256::digest(bytes).into())
    }

    /// The digest from a finished SHA-256 hash.
    pub fn from_hash(hash: [u8; 32]) -> Self {
        Self(base16ct::lower::encode_string(&hash))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Digest {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text.len() == 64 && is_lower_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("digest", format_args!("`{text}`"), "64 lower-case hex digits"))
        }
    }
}

as_text!(Digest);

/// Declares an id of 16 hex digits, the first 64 bits of a digest. That is short enough for a URL
/// and long enough that ids do not collide by accident.
macro_rules! short_id {
    ($(#[$meta:meta])* $name:ident($what:literal)) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{16}$"))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id of the thing that consists of these bytes.
            pub fn of(bytes: &[u8]) -> Self {
                Self(base16ct::lower::encode_string(&Sha256::digest(bytes)[..8]))
            }

            /// The id of the thing whose bytes have this digest.
            pub fn of_digest(digest: &Digest) -> Self {
                Self(digest.as_str()[..16].to_owned())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                if text.len() == 16 && is_lower_hex(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(Invalid::new($what, format_args!("`{text}`"), "16 lower-case hex digits"))
                }
            }
        }

        as_text!($name);
    };
}

short_id!(
    /// A problem's identity: the digest of its canonical text.
    ProblemId("problem id")
);
short_id!(
    /// An upload's identity: the digest of the bytes that were sent.
    UploadId("upload id")
);
short_id!(
    /// A model's identity: the digest of its file.
    ModelId("model id")
);
short_id!(
    /// A job's identity: the digest of its request and of the time at which it was made.
    JobId("job id")
);
short_id!(
    /// An account's identity. It is random, because a name may be given up and taken by somebody
    /// else.
    AccountId("account id")
);
short_id!(
    /// An API token's identity. It is random and public; the token itself is secret.
    TokenId("token id")
);
short_id!(
    /// An agent's identity: the digest of its account and of its device's key.
    AgentId("agent id")
);
short_id!(
    /// A lease's identity, which is random.
    LeaseId("lease id")
);

/// The stable name of a kind of hardware: `nvidia-h200`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "openapi", schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64))]
pub struct HardwareSlug(String);

impl HardwareSlug {
    /// No hardware needs a longer slug, and file names with it stay portable.
    const MAX_LEN: usize = 64;

    /// The slug for any device name: `NVIDIA Foo 9000` → `nvidia-foo-9000`. `None` if the name
    /// holds no letter or digit.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut slug = String::new();
        for c in name.chars().flat_map(char::to_lowercase) {
            if c.is_ascii_alphanumeric() {
                slug.push(c);
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
            if slug.len() == Self::MAX_LEN {
                break;
            }
        }
        let slug = slug.trim_end_matches('-');
        (!slug.is_empty()).then(|| Self(slug.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for HardwareSlug {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match Self::from_name(text) {
            Some(slug) if slug.0 == text => Ok(slug),
            _ => Err(Invalid::new(
                "hardware",
                format_args!("`{text}`"),
                "a slug of lower-case letters, digits and single dashes, such as nvidia-h200",
            )),
        }
    }
}

as_text!(HardwareSlug);

/// The public name of an account: `ada-lovelace`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(
    feature = "openapi",
    schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", min_length = 2, max_length = 32)
)]
pub struct AccountName(String);

impl AccountName {
    /// Longer names would not fit into a column of the dashboard's tables.
    const MAX_LEN: usize = 32;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for AccountName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let admitted = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let dashes = text.starts_with('-') || text.ends_with('-') || text.contains("--");
        if (2..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(admitted) && !dashes {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new(
                "account name",
                // The refused text may be long, so the error repeats only its beginning.
                format_args!("`{:.40}`", text.escape_debug().to_string()),
                "2 to 32 lower-case letters, digits and single dashes, such as ada-lovelace",
            ))
        }
    }
}

as_text!(AccountName);

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

named_enum! {
    /// A decision that Diode makes for the compiler.
    Heuristic("heuristic") {
        /// Which kernel computes a matrix multiplication.
        Matmul = "matmul",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_come_from_any_name() {
        assert_eq!(HardwareSlug::from_name("NVIDIA H200").unwrap().as_str(), "nvidia-h200");
        assert_eq!(
            HardwareSlug::from_name("Intel(R) Xeon(R) @ 2.1GHz").unwrap().as_str(),
            "intel-r-xeon-r-2-1ghz"
        );
        assert!(HardwareSlug::from_name("---").is_none());
        assert!("nvidia--h200".parse::<HardwareSlug>().is_err());
        assert!("NVIDIA".parse::<HardwareSlug>().is_err());
    }

    #[test]
    fn account_names_are_plain() {
        for good in ["ada", "ada-lovelace", "x2"] {
            assert_eq!(good.parse::<AccountName>().unwrap().as_str(), good);
        }
        for bad in ["", "a", "Ada", "-ada", "ada-", "a--b", "a b", "ada\u{202e}", "ada\0", &"a".repeat(33)] {
            assert!(bad.parse::<AccountName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_are_the_first_half_of_a_digest() {
        let digest = Digest::of(b"diode");
        assert!(digest.as_str().starts_with(ProblemId::of(b"diode").as_str()));
    }
}
