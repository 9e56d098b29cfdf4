//! The payload: one JSON value, kept byte for byte.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Default limit of a payload: 64 KiB (P5).
pub const DEFAULT_LIMIT: usize = 64 * 1024;

/// One JSON value as the text that was pushed, so that `\u0000`, 2^63−1 and a thousand nested
/// arrays come back byte for byte. Cheap to clone. The default is `null`.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

/// The text is not one JSON value, or the value has no JSON form.
#[derive(Debug, thiserror::Error)]
#[error("the payload is not one JSON value ({0}); push what serde_json can write")]
pub struct NotJson(#[from] serde_json::Error);

impl Payload {
    /// Encodes `value`.
    ///
    /// # Errors
    /// [`NotJson`] when serde refuses it, for example a map whose keys are not text.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, NotJson> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// Takes `text` as it is. It is scanned once, without recursion, so depth costs no stack.
    ///
    /// # Errors
    /// [`NotJson`] when it is not exactly one JSON value.
    pub fn from_json(text: impl Into<Arc<str>>) -> Result<Self, NotJson> {
        let text = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Self(text))
    }

    /// Decodes into `T`.
    ///
    /// # Errors
    /// serde_json's, which says where and what.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self("null".into())
    }
}

/// Shows the size only: payloads hold people's data and logs are read by others.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Box::<str>::from(raw).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_byte_for_byte_and_depth_needs_no_stack() {
        let deep = "[".repeat(30_000) + &"]".repeat(30_000);
        for text in [r#""\u0000""#, "9223372036854775807", " {\"a\" : 1e999}\n", "-0.0", &deep] {
            let payload = Payload::from_json(text).unwrap();
            assert_eq!(payload.as_str(), text);
        }
        for text in ["", "1 2", "{", "nul", "\"\0\""] {
            assert!(Payload::from_json(text).is_err(), "{text:?}");
        }
    }
}
