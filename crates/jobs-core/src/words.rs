//! Text for people, on a terminal or a page: nothing in it moves the cursor or turns the writing
//! around, and times are both how long ago and when.

use std::{borrow::Cow, time::Duration};

use crate::{Timestamp, time::MAX_MILLIS};

/// Would a terminal obey it, or show other text than is there? Controls of both sets (U+009B alone
/// begins an escape sequence), and marks that turn the direction of writing or are not seen.
pub fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// What is printed: line ends stay, the rest that a terminal would obey is written out.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |char| is_unsafe(char) && char != '\n')
}

/// The same on one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

fn escape(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if bad(char) { safe.extend(char.escape_default()) } else { safe.push(char) }
    }
    Cow::Owned(safe)
}

/// At most `most` characters of it.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// `1 job`, `2 jobs`, `10,000 jobs`.
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// `10,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Two units are enough: `350ms`, `45s`, `3m 12s`, `2h 5m`, `4d 3h`.
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let two = |large: u64, l: char, small: u64, s: char| match small {
        0 => format!("{large}{l}"),
        _ => format!("{large}{l} {small}{s}"),
    };
    match seconds {
        0 => format!("{}ms", length.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3600..86_400 => two(seconds / 3600, 'h', seconds % 3600 / 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds % 86_400 / 3600, 'h'),
    }
}

/// From `earlier` to `later`; none where it is the other way round.
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// `2026-11-30T17:49:44Z (3m ago)`, by the clock that `now` is of.
pub fn when(at: Timestamp, now: Timestamp) -> String {
    let relative = match at > now {
        true => format!("in {}", span(between(now, at))),
        false => format!("{} ago", span(between(at, now))),
    };
    format!("{} ({relative})", seconds(at))
}

/// The last moment that a store holds stands for no end at all.
pub fn until(at: Timestamp, now: Timestamp) -> String {
    match is_endless(at) {
        true => "until it is resumed".to_owned(),
        false => format!("until {}", when(at, now)),
    }
}

/// Is this pause without a deadline?
pub fn is_endless(at: Timestamp) -> bool {
    at.as_millisecond() >= MAX_MILLIS
}

fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        let nasty = "a\x1b[2J\u{9b}31m\r\x07\u{202e}b\u{7f}\t\0é\n";
        assert_eq!(printable(nasty), "a\\u{1b}[2J\\u{9b}31m\\r\\u{7}\\u{202e}b\\u{7f}\\t\\u{0}é\n");
        assert!(!line(nasty).contains('\n'));
        assert_eq!(line("plain é 日本"), "plain é 日本");
    }

    #[test]
    fn times_are_relative_and_absolute() {
        let now: Timestamp = "2026-11-30T17:49:44.5Z".parse().unwrap();
        let at = |text: &str| when(text.parse().unwrap(), now);
        assert_eq!(at("2026-11-30T17:46:32.2Z"), "2026-11-30T17:46:32Z (3m 12s ago)");
        assert_eq!(at("2026-12-02T17:49:44.5Z"), "2026-12-02T17:49:44Z (in 2d)");
        assert_eq!(span(Duration::from_millis(350)), "350ms");
        let endless = crate::time::from_millis(MAX_MILLIS);
        assert_eq!(until(endless, now), "until it is resumed");
        assert_eq!(span(Duration::from_secs(7500)), "2h 5m");
    }

    #[test]
    fn counts_are_read_at_a_glance() {
        assert_eq!(count(1, "job"), "1 job");
        assert_eq!(count(1_234_567, "job"), "1,234,567 jobs");
        assert_eq!(grouped(999), "999");
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".into(), "abc…".into()));
    }
}
