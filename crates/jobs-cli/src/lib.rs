//! The `worker` subcommand and the operator's verbs, for an application's own binary.
//!
//! ```no_run
#![doc = include_str!("../examples/app.rs")]
//! ```
//!
//! That program is `app serve`, `app worker` and `app jobs list --tenant acme`; `app jobs help` lists
//! the verbs. Any store will do: this crate knows none.
//!
//! - No job is shown or changed without a Grant from the application's function ([`Jobs::grants`]),
//!   for the scope that was typed: `--tenant <TENANT>` or `--operator`, and none is the default.
//!   `migrate` shows and changes none, and asks for no Grant: who deploys may reach the store.
//! - Answers go to stdout, as tables or with `--json` as one object of a stable shape ([`json`]);
//!   remarks, questions and errors go to stderr. What users wrote, causes, payloads and names, cannot
//!   move the terminal's cursor.
//! - What cannot be taken back says what it will touch and asks. `--yes` does not ask; without a
//!   terminal and without `--yes` it is refused.
//!
//! | exit status | of `jobs …` | of `worker` |
//! |---|---|---|
//! | 0 | done | drained |
//! | 1 | failed, or a job was not changed, or `doctor` found a problem | the worker failed, or the store was away |
//! | 2 | refused, nothing was touched | refused to start |
//! | 3 | | something was left to its lease |
//! | 130 | | a second signal |

mod access;
mod command;
mod confirm;
mod jobs;
mod out;
mod stop;
mod table;
mod verb;
mod worker;

pub use command::Command;
pub use jobs::Jobs;
pub use jobs_core::json;
pub use stop::advised;

use jobs_core::words as text;
