//! What was typed: a query or a posted form, or the same as JSON; whatever it is, it is bounded here.

use std::{str::FromStr, time::Duration};

use jobs_core::{JobRef, names::is_name, view::Cursor};
use serde::Deserialize;

use crate::answer::Refused;

/// Most jobs that one request changes.
pub(crate) const SELECTED: usize = 1000;
/// Longest pause with a deadline: 365 days.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 86_400);
/// Characters of a text that is searched for.
const SEARCHED: usize = 200;

/// Names and values, in their order; a name may come again.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Bytes that are no UTF-8 become the replacement character.
    pub fn parse(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// The last of this name; `None` where it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The same, without what a store or a page could choke on.
    pub fn search(&self, name: &str) -> Option<String> {
        let text = self.text(name)?.chars().take(SEARCHED);
        Some(text.map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect())
    }

    /// What it stands for; `None` where it stands for nothing.
    pub fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// A number, brought into `least..=most`; `otherwise` where there is none. More digits than a
    /// number holds are a large number.
    pub fn number(&self, name: &str, least: u64, most: u64, otherwise: u64) -> u64 {
        match self.text(name) {
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().unwrap_or(u64::MAX).clamp(least, most)
            }
            Some(text) if text.starts_with('-') => least,
            _ => otherwise,
        }
    }

    /// The jobs that were selected, each once.
    pub fn jobs(&self) -> Result<Vec<JobRef>, Refused> {
        job_refs(self.0.iter().filter(|(key, _)| key == "job").map(|(_, value)| value.as_str()))
    }
}

/// A selection as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    jobs: Vec<String>,
}

impl Selection {
    pub fn jobs(&self) -> Result<Vec<JobRef>, Refused> {
        job_refs(self.jobs.iter().map(String::as_str))
    }
}

/// A lane to pause or to resume, as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaneWish {
    pub queue: String,
    pub tenant: Option<String>,
    pub for_seconds: Option<f64>,
}

fn job_refs<'a>(written: impl Iterator<Item = &'a str>) -> Result<Vec<JobRef>, Refused> {
    let jobs: Result<Vec<_>, _> = written.map(|text| text.parse().map(|Cursor(job)| job)).collect();
    let mut jobs = jobs.map_err(|_| Refused::bad("A job is named as tenant/id."))?;
    jobs.sort_unstable();
    jobs.dedup();
    match jobs.len() {
        0 => Err(Refused::bad("No job was selected.")),
        1..=SELECTED => Ok(jobs),
        _ => Err(Refused::bad("At most 1,000 jobs can be selected at once.")),
    }
}

/// A queue's name.
pub(crate) fn queue(text: Option<&str>) -> Result<String, Refused> {
    let name = text.filter(|text| is_name(text));
    name.map(str::to_owned).ok_or_else(|| Refused::bad("Which queue? None is called so."))
}

/// The length of a pause, from a second to a year.
pub(crate) fn pause_of(seconds: f64) -> Duration {
    let length = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_PAUSE);
    if seconds < 0.0 { Duration::from_secs(1) } else { length }
        .clamp(Duration::from_secs(1), LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_clamped() {
        let number = |text: &str| {
            let query = format_args!("n={text}").to_string();
            Fields::parse(query.as_bytes()).number("n", 1, 200, 50)
        };
        let typed = ["7", "0", "-3", "201", "99999999999999999999999", "", "x", "1e3", "%00", "٣"];
        assert_eq!(typed.map(number), [7, 1, 1, 200, 200, 50, 50, 50, 50, 50]);
    }

    #[test]
    fn pauses_are_clamped() {
        let pauses = [60.0, 0.0, -1.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let year = LONGEST_PAUSE.as_secs();
        assert_eq!(pauses.map(|pause| pause_of(pause).as_secs()), [60, 1, 1, year, year, year, 1]);
    }

    #[test]
    fn a_selection_is_of_jobs_each_once_and_not_of_too_many() {
        let id = jobs_core::JobId::new();
        let fields = |text: String| Fields::parse(text.as_bytes()).jobs();
        assert_eq!(fields(format!("job=acme/{id}&job=acme%2F{id}&x=1")).unwrap().len(), 1);
        let all = |most: usize| (0..most).map(|n| format!("job=a{n}/{id}&")).collect::<String>();
        assert_eq!(fields(all(1000)).unwrap().len(), 1000);
        for bad in [String::new(), all(1001), "job=acme".into(), format!("job=A/{id}")] {
            assert!(fields(bad).is_err());
        }
    }
}
