//! What can be typed. Each verb's own words are in its file; here is what all of them share.

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser};
use jobs_core::{
    State,
    names::{is_name, is_tenant},
    permit::{self, Verb as _},
};
use std::time::Duration;

use crate::{verb, worker};

/// `worker` and `jobs …`, to flatten into an application's own subcommands; run it with
/// [`Jobs::run`](crate::Jobs::run). It is two words at the top, so that the application's own
/// `list` or `migrate` stays its own.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Run jobs until SIGTERM or SIGINT, then finish what runs and exit
    #[command(after_help = worker::STATUSES)]
    Worker(worker::WorkerArgs),
    /// Look at jobs and change them
    Jobs(JobsArgs),
}

/// A verb, and in which scope.
#[derive(Debug, Args)]
pub struct JobsArgs {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Print one JSON object instead of tables: times in RFC 3339, ids as text
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Whose jobs. Checked by hand, because clap demands no global argument.
#[derive(Clone, Debug, Args)]
pub struct ScopeArgs {
    /// Only this tenant's jobs; with --operator, an operator's look at them
    #[arg(long, global = true, value_parser = tenant, help_heading = "Everywhere")]
    pub(crate) tenant: Option<String>,
    /// All tenants' jobs, as an operator
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) operator: bool,
}

/// The operator's verbs. What help says of one is in its file.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(verb::list::List),
    Show(verb::show::Show),
    Retry(verb::retry::Retry),
    Cancel(verb::cancel::Cancel),
    Delete(verb::delete::Delete),
    Pause(verb::pause::Pause),
    Resume(verb::resume::Resume),
    Stats(verb::stats::Stats),
    /// List the workers alive
    Workers,
    /// Say in words why jobs are not running, and what to do
    #[command(after_help = "The exit status is 1 where something is wrong.")]
    Doctor,
    /// Bring the store's schema to this release's version
    Migrate,
}

impl Verb {
    /// The action that it is about; of `migrate` nobody asks.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Retry(_) => permit::Retry::ACTION,
            Self::Cancel(_) => permit::Cancel::ACTION,
            Self::Delete(_) => permit::Delete::ACTION,
            Self::Pause(_) | Self::Resume(_) => permit::Tune::ACTION,
            Self::List(_) | Self::Show(_) | Self::Stats(_) => permit::Read::ACTION,
            Self::Workers | Self::Doctor | Self::Migrate => permit::Read::ACTION,
        }
    }
}

/// Which jobs; all that are given must match.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only jobs of this queue
    #[arg(long, value_parser = name)]
    pub queue: Option<String>,
    /// Only jobs in this state
    #[arg(long, value_parser = state())]
    pub state: Option<State>,
    /// Only jobs called so
    #[arg(long, value_parser = name)]
    pub name: Option<String>,
    /// Only jobs whose last cause contains this text
    #[arg(long, value_name = "TEXT", value_parser = text)]
    pub cause: Option<String>,
}

impl Filter {
    /// Was none given?
    pub fn is_empty(&self) -> bool {
        matches!(self, Self { queue: None, state: None, name: None, cause: None })
    }
}

fn state() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::as_str)).try_map(|text| text.parse::<State>())
}

pub(crate) fn tenant(text: &str) -> Result<String, String> {
    match is_tenant(text) {
        true => Ok(text.to_owned()),
        false => Err("a tenant is [a-z0-9][a-z0-9_-]{0,63}".to_owned()),
    }
}

pub(crate) fn name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name is [a-z0-9][a-z0-9._:-]{0,63}".to_owned()),
    }
}

/// An empty one is in every cause: a script's unset variable would mean all jobs that ever failed.
fn text(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("which text? an empty one is in every cause".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// `30s`, `10m`, `1h 30m`: more than none.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    let length = parsed.and_then(|length| Duration::try_from(length).ok());
    length.filter(|length| !length.is_zero()).ok_or_else(|| "write 30s, 10m or 1h30m".to_owned())
}
