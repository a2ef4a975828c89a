//! Enums whose variants have fixed names.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

use crate::error::Invalid;

/// Implements `as_str`, `ALL`, `Display`, `FromStr` and serde (as a string) for
/// a plain enum whose variants have fixed names.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident ($what:expr) { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vmeta])* $variant),+
        }

        // Written by hand: serde's derive would also read a variant's number, and numbers are no
        // names.
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::named_enum::by_name(deserializer)
            }
        }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The fixed name used in files, URLs and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        // Written by hand: utoipa's derive does not see the names that this macro assigns.
        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some(Self::ALL.iter().map(|value| value.as_str())))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Invalid;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err($crate::error::Invalid::new(
                        $what,
                        format_args!("`{other}`"),
                        concat!("one of" $(, " ", $text)+),
                    )),
                }
            }
        }
    };
}
pub use named_enum;

/// Reads a value by its name.
#[doc(hidden)]
pub fn by_name<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = Invalid>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_str(Name(PhantomData))
}

struct Name<T>(PhantomData<T>);

impl<T: FromStr<Err = Invalid>> Visitor<'_> for Name<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        name.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::Op;

    #[test]
    fn a_name_is_text() {
        assert_eq!(serde_json::from_str::<Op>("\"mm\"").unwrap(), Op::Mm);
        assert_eq!(serde_json::to_string(&Op::Baddbmm).unwrap(), "\"baddbmm\"");
        for (given, said) in [("0", "expected a name"), ("\"nn\"", "got `nn`, expected one of mm addmm")] {
            let error = serde_json::from_str::<Op>(given).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
