//! What `jobs … --json` prints, one object on one line, and what the page's JSON API answers.
//!
//! Fields may be added; none is renamed, removed or given another meaning without a major version.
//! Times are RFC 3339 in UTC by the store's clock, lengths are seconds, ids are text, and what is
//! not known or does not apply is `null`. A count with `or_more` is at least that. Printed, nothing in
//! it is a control character: such ones are written `\u001b`. Remarks and errors go to stderr as text;
//! the exit status tells whether there is an answer.
//!
//! | verb | shape |
//! |---|---|
//! | `list` | [`List`] |
//! | `show` | [`Show`] |
//! | `retry`, `cancel`, `delete` | [`Changed`] |
//! | `pause`, `resume` | [`Tuned`] |
//! | `stats` | [`Stats`] |
//! | `workers` | [`Workers`] |
//! | `migrate` | [`Migrated`] |
//! | `doctor` | [`Doctor`] |

mod doctor;
mod jobs;
mod lanes;

pub use doctor::{Doctor, Finding, Migrated};
pub use jobs::{By, Changed, Ended, Held, Job, List, Show, Unchanged};
pub use lanes::{Lane, Minute, Number, Stats, StillPaused, Tuned, Worker, Workers};

pub use jobs::due;
