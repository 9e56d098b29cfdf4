//! The alphabets of tenants and names (G5).
//!
//! Two alphabets, chosen so that no key built from names is ambiguous and no two spellings of one
//! tenant exist: lower case only, and a tenant has neither `.` nor `:`.

/// Longest tenant or name, in bytes.
pub const MAX_NAME: usize = 64;

/// Is `text` a tenant: `[a-z0-9][a-z0-9_-]{0,63}`?
pub fn is_tenant(text: &str) -> bool {
    is_word(text, |b| matches!(b, b'_' | b'-'))
}

/// Is `text` a queue, job name or action: `[a-z0-9][a-z0-9._:-]{0,63}`?
pub fn is_name(text: &str) -> bool {
    is_word(text, |b| matches!(b, b'.' | b'_' | b':' | b'-'))
}

fn is_word(text: &str, inner: impl Fn(u8) -> bool) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME
        && bytes.first().is_some_and(|&b| plain(b))
        && bytes.iter().all(|&b| plain(b) || inner(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_alphabets() {
        for good in ["a", "0", "acme", "acme_1-x", &"a".repeat(64)] {
            assert!(is_tenant(good) && is_name(good), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "é", "a/b", "a\0", "a\n", &"a".repeat(65)] {
            assert!(!is_tenant(bad) && !is_name(bad), "{bad:?}");
        }
        assert!(is_name("invoice.send:v2") && !is_tenant("acme.eu") && !is_tenant("a:b"));
    }
}
