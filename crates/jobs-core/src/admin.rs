//! The contract between operators, pages and tools and a store.
//!
//! Every method takes a [`Permit`] of its own verb, so nothing here is reached without a Grant
//! (G6, in [`permit`](crate::permit)).

use async_trait::async_trait;

use crate::{
    JobId, JobRef, Permit, Queue, Result, State,
    permit::{Cancel, Delete, Read, Retry, Tune},
    view::{Check, Counts, JobRecord, Lanes, List, Page, WorkerView},
};

/// What a driver implements for operators. [`AdminExt`](crate::AdminExt) adds the words they use.
///
/// Each verb names its one winner and answers the state otherwise; a foreign id is answered as an
/// unknown one, by the same statement. A long list of jobs is done in parts: after an error some are
/// done, and asking again is safe.
#[async_trait]
pub trait Admin: Queue {
    /// One job with its attempts, holder and last renewal; `None` when unknown or foreign.
    ///
    /// - **A5** Shows the holder and the last renewal of a running job
    ///   (`a5_get_shows_the_holder`).
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>>;

    /// A page of jobs, newest id first.
    ///
    /// - **A2** Looks at no more than 1,000 rows or 250 ms, however many lanes there are, and says in
    ///   [`Page::complete`](crate::view::Page::complete) when that ended the page
    ///   (`a2_a_page_has_a_budget`, `a2_many_lanes_cost_a_page_nothing`); filters combine
    ///   (`a2_filters_combine`). However much has finished since, a page finds few ready or running
    ///   jobs at once (`a2_history_hides_no_ready_or_running_one`).
    /// - **A2** A job that matches during the whole walk appears exactly once, whatever else is
    ///   pushed and settled meanwhile (`a2_a_walk_sees_each_job_once`).
    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page>;

    /// Counts by lane, in one reading.
    ///
    /// - **A1** `waiting` counts an expired lease even with no worker alive and a future job not;
    ///   `running` is of the same reading (`a1_waiting_and_running`); `oldest` is how long the
    ///   longest-waiting has been due, zero when none (`a1_oldest`).
    /// - **A1** Lanes without live jobs or settings are not counted and hide no other
    ///   (`a1_idle_lanes_hide_no_waiting_one`); nor does any number of other tenants' jobs
    ///   (`a1_others_work_hides_no_tenant`).
    /// - **A2** Exact to 10,000, then says so (`a2_counts_are_capped`), whoever promotes what came due
    ///   (`a2_due_jobs_hide_no_scheduled_ones`).
    /// - **A2** Finished and failed per minute of the last hour (`a2_minutes`).
    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts>;

    /// Puts parked and cancelled jobs back in line, due now.
    ///
    /// - **A3** One of 16 at once wins, the rest learn the state (`a3_retry_has_one_winner`); id,
    ///   action, payload and history are kept, attempts restart (`a3_retry_keeps_the_job`).
    /// - **P3** It takes its key again; one taken meanwhile answers [`Retried::KeyHeld`]
    ///   (`p3_retry_takes_the_key_again`).
    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>>;

    /// Ends jobs without their work.
    ///
    /// - **A3** At once where nobody runs it, also after its lease (`a3_cancel_at_once`); a running
    ///   one is asked (`a3_cancel_asks_a_running_job`).
    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>>;

    /// Removes jobs and their history.
    ///
    /// - **A3** Anything but running under a valid lease; frees the key
    ///   (`a3_delete_frees_everything`).
    ///
    /// Nothing is kept of it in the store, who deleted it included: a driver says that in an event
    /// of `tracing`, level info, with tenant, id and who.
    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>>;

    /// Changes the settings of a lane, or of all lanes of the queue with `tenant: None`.
    ///
    /// - **A6** A pause ends at its deadline by itself, or by a resume
    ///   (`a6_a_pause_ends`); leases in a paused lane are swept as anywhere
    ///   (`a6_a_paused_lane_is_swept`); a queue's pause covers tenants that come later
    ///   (`a6_a_queues_pause_covers_newcomers`). Out of bounds nothing changes
    ///   (`a6_settings_have_bounds`). A resume of a lane that nobody knows makes none.
    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned>;

    /// The workers alive. See A4.
    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>>;

    /// Schema, safety settings and clock.
    ///
    /// - **A7** A freshly made store has no findings (`a7_a_fresh_store_is_sound`).
    async fn check(&self, permit: &Permit<Read>) -> Result<Check>;
}

/// The answer to one retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// Ready, due now.
    Retried,
    /// It is in a state that is not retried.
    NotRetryable(State),
    /// Another live job took its key meanwhile.
    KeyHeld(JobId, State),
    /// No such job in scope.
    Unknown,
}

/// The answer to one cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not run (again).
    Cancelled,
    /// Its holder is asked to stop.
    Requested,
    /// It has ended already.
    NotLive(State),
    /// No such job in scope.
    Unknown,
}

/// The answer to one delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Gone, history and all.
    Deleted,
    /// It runs under a valid lease: cancel it first.
    Running,
    /// No such job in scope.
    Unknown,
}

/// One lane, or with `tenant: None` the whole queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRef {
    /// The queue.
    pub queue: String,
    /// The tenant; a tenant's permit means its own whatever stands here.
    pub tenant: Option<String>,
}

/// What to change; `None` leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneChange {
    /// Its share against other lanes, 1 to 100.
    pub weight: Option<u32>,
    /// Whether reserve takes from it.
    pub pause: Option<Pause>,
}

impl LaneChange {
    /// The verb on record for it: `pause`, `resume` or `weigh`; `None` when it changes nothing.
    pub fn verb(&self) -> Option<&'static str> {
        match (self.pause, self.weight) {
            (Some(Pause::Off), _) => Some("resume"),
            (Some(_), _) => Some("pause"),
            (None, Some(_)) => Some("weigh"),
            (None, None) => None,
        }
    }

    /// Does it set anything, rather than lift it? Only that makes a lane of which nobody knows.
    pub fn sets(&self) -> bool {
        self.weight.is_some() || matches!(self.pause, Some(Pause::On | Pause::For(_)))
    }
}

/// Whether reserve takes from a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It does.
    Off,
    /// Not for this long, by the store's clock.
    For(std::time::Duration),
    /// Not until it is resumed.
    On,
}

/// The answer to a change of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuned {
    /// They are changed.
    Tuned,
    /// The permit does not cover that: a tenant may pause its own lane, nothing else.
    NotAllowed,
    /// A weight outside 1 to 100, or a queue or tenant outside its alphabet; nothing changed.
    OutOfBounds,
}

#[async_trait]
impl<A: Admin + ?Sized> Admin for std::sync::Arc<A> {
    async fn get(&self, permit: &Permit<Read>, job: &JobRef) -> Result<Option<JobRecord>> {
        (**self).get(permit, job).await
    }
    async fn list(&self, permit: &Permit<Read>, list: &List) -> Result<Page> {
        (**self).list(permit, list).await
    }
    async fn counts(&self, permit: &Permit<Read>, lanes: &Lanes) -> Result<Counts> {
        (**self).counts(permit, lanes).await
    }
    async fn retry(&self, permit: &Permit<Retry>, jobs: &[JobRef]) -> Result<Vec<Retried>> {
        (**self).retry(permit, jobs).await
    }
    async fn cancel(&self, permit: &Permit<Cancel>, jobs: &[JobRef]) -> Result<Vec<Cancelled>> {
        (**self).cancel(permit, jobs).await
    }
    async fn delete(&self, permit: &Permit<Delete>, jobs: &[JobRef]) -> Result<Vec<Deleted>> {
        (**self).delete(permit, jobs).await
    }
    async fn set_lane(
        &self,
        permit: &Permit<Tune>,
        lane: &LaneRef,
        change: LaneChange,
    ) -> Result<Tuned> {
        (**self).set_lane(permit, lane, change).await
    }
    async fn workers(&self, permit: &Permit<Read>) -> Result<Vec<WorkerView>> {
        (**self).workers(permit).await
    }
    async fn check(&self, permit: &Permit<Read>) -> Result<Check> {
        (**self).check(permit).await
    }
}
