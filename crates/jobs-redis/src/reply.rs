//! A script's answer, read value by value.

use fred::types::Value;

use crate::error::Fault;

/// A list of values.
pub(crate) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Of a script that answers a list.
    pub fn of(value: Value) -> Result<Self, Fault> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            Value::Null => Ok(Self(Vec::new().into_iter())),
            other => Err(wrong("a list", &other)),
        }
    }

    /// The next value, if there is one.
    pub fn next(&mut self) -> Option<Value> {
        self.0.next()
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// The next, as text.
    pub fn text(&mut self) -> Result<String, Fault> {
        text(self.need()?)
    }

    /// The next, as a whole number.
    pub fn int(&mut self) -> Result<i64, Fault> {
        int(&self.need()?)
    }

    /// The next, as a list.
    pub fn list(&mut self) -> Result<Self, Fault> {
        Self::of(self.need()?)
    }

    fn need(&mut self) -> Result<Value, Fault> {
        self.next().ok_or_else(|| Fault::Corrupt("an answer ends early".to_owned()))
    }
}

/// As text.
pub(crate) fn text(value: Value) -> Result<String, Fault> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| Fault::Corrupt("a text is not UTF-8".to_owned())),
        Value::Integer(number) => Ok(number.to_string()),
        other => Err(wrong("text", &other)),
    }
}

/// As a whole number.
pub(crate) fn int(value: &Value) -> Result<i64, Fault> {
    match value {
        Value::Integer(number) => Ok(*number),
        // Where a score was no whole number it was written by somebody else.
        Value::String(text) => text.parse().map_err(|_| wrong("a number", value)),
        other => Err(wrong("a number", other)),
    }
}

fn wrong(wanted: &str, found: &Value) -> Fault {
    Fault::Corrupt(format!("{wanted} is wanted where there is {}", found.kind()))
}
