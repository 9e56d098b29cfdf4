//! The contract between the worker or producer and a store.
//!
//! Every bullet is a law of the contract and ends with the case that proves it on every driver.
//! How operators look and intervene is the other half, [`admin`](crate::admin).

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{
    AuthorizedJob, Claim, Job, JobId, JobRef, Result, Settled, Settlement, State, wake::Watch,
};

pub use crate::reserve::{BadRequest, Lease, Reserve};

/// What a driver implements for producers and workers. Callers write [`QueueExt`](crate::QueueExt).
///
/// Slices in, one answer per element, in order. One method is one atomic transition *per job*,
/// never per slice. The store's clock decides everything; durations travel, instants do not.
/// Losing a claim is an answer, an [`Error`](crate::Error) is the store failing, and repeating any
/// call after one is safe. Every method is cancel safe in the same sense: a dropped call happened
/// wholly or not at all for each job, and may be repeated to find out.
///
/// - **H1** Whatever several actors do in whatever order, every answer is one that the laws allow
///   (`h1_random_histories_are_legal`).
/// - A handle is shared freely, behind `Arc<dyn Queue>` too (`q0_any_wrapping_is_the_same_queue`).
/// - **F1** The connection may break after any round trip of any call: the repeated call, on this
///   handle or another, answers as if one of the two had done it all, and no job is lost, doubled,
///   stuck or miscounted (`f1_cut_after_every_round_trip_enqueue`,
///   `f1_cut_after_every_round_trip_reserve`, `f1_cut_after_every_round_trip_settle`,
///   `f1_cut_after_every_round_trip_settle_and_reserve`, `f1_cut_after_every_round_trip_renew`,
///   `f1_cut_after_every_round_trip_sweep`); an operator's verb likewise
///   (`f1_cut_after_every_round_trip_retry`, `f1_cut_after_every_round_trip_cancel`,
///   `f1_cut_after_every_round_trip_delete`).
#[async_trait]
pub trait Queue: fmt::Debug + Send + Sync + 'static {
    /// Stores jobs.
    ///
    /// - **P1** Every field round-trips; the payload byte for byte (`p1_every_field_round_trips`,
    ///   `p1_payloads_byte_for_byte`); `run_at` rounds up to whole milliseconds
    ///   (`p1_run_at_rounds_up`).
    /// - **P2** `(tenant, id)` is identity as long as the job is stored in any state: pushing it
    ///   again answers [`Pushed::Duplicate`] and changes nothing
    ///   (`p2_a_duplicate_changes_nothing_in_any_state`), whatever the queue
    ///   (`p2_same_id_in_two_queues`); another tenant's equal id is another job
    ///   (`p2_same_id_by_two_tenants`); also under 64 pushers at once
    ///   (`p2_concurrent_pushes_store_one`) and against an ack in flight
    ///   (`p2_push_against_an_ack_in_flight`).
    /// - **P3** A key is held by one live job of its tenant (`p3_a_held_key_refuses`), under any
    ///   number of processes (`p3_concurrent_pushes_of_one_key_store_one`); tenants do not share
    ///   keys (`p3_keys_are_a_tenants_own`). `until_finished` is held while parked and freed at
    ///   done, cancelled and delete (`p3_until_finished`); `until_started` is freed at the first
    ///   delivery and never taken again (`p3_until_started`).
    /// - **P3** A stored id beats a held key, and inside one batch the first wins
    ///   (`p3_a_stored_id_beats_a_held_key`, `p3_inside_a_batch_the_first_wins`).
    /// - **P4** No `run_at` means now, by the store's clock, and the past means now
    ///   (`p4_the_past_means_now`).
    /// - **P5** 10,000 jobs are answered one by one, in order, and each keeps its own fields
    ///   (`p5_bulk_answers_in_order`, `p5_each_of_a_bulk_keeps_its_own`), however large together
    ///   (`p5_a_bulk_of_large_payloads`).
    /// - **P6** Where the store has transactions, the driver's own `push_in` pushes inside the
    ///   caller's: commit publishes, rollback leaves nothing
    ///   (`p6_commit_publishes_and_rollback_leaves_nothing`, `p6_a_bulk_is_one_transaction`); a
    ///   duplicate committed before is an answer (`p6_what_was_committed_before_is_an_answer`); a
    ///   push that meets an uncommitted one is told to come again, soon
    ///   (`p6_an_open_transaction_keeps_nobody_waiting`).
    /// - **P7** Concurrent single pushes succeed or fail each by itself
    ///   (`p7_one_refused_among_fifty`); one handle serves two runtimes one after the other
    ///   (`p7_two_runtimes_one_handle`); a push dropped in flight harms nobody else's
    ///   (`p7_a_dropped_push_harms_nobody`).
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>>;

    /// Takes due jobs under a lease.
    ///
    /// - **R1** Up to the asked number, only from that queue (`r1_only_that_queue`), only names it
    ///   knows (`r1_only_known_names`); none asked does no I/O (`r1_none_asked_none_given`).
    ///   100,000 jobs of an unknown name at top priority cost nothing
    ///   (`r1_unknown_names_cost_nothing`), nor do thousands of names that a tenant invents
    ///   (`r1_a_tenants_many_names_cost_nothing`).
    /// - **R2** Two holders never have the same job (`r2_concurrent_reserves_are_disjoint`); the
    ///   fence grows with every delivery (`r2_the_fence_grows`).
    /// - **R3** Repeating it with the same nonce answers the deliveries still held under it, and
    ///   takes new ones only if the first call took none (`r3_repeating_a_reserve`).
    /// - **R4** One reserve alone takes a tenant's jobs by (priority, due time, id)
    ///   (`r4_order_within_a_tenant`).
    /// - **R5** From the moment a tenant's first job is visible, it is among the next 2·T·b
    ///   deliveries of its queue to workers that know its name, T tenants with due work, b ≤ 8
    ///   ([`LANE_BATCH`]), whatever backlog and priorities others have
    ///   (`r5_a_newcomer_behind_100_000`), with 1, 8 and 32 concurrent reservers
    ///   (`r5_fair_under_concurrent_reservers`), and whatever else those workers or others know
    ///   (`r5_workers_with_different_names`). A lone tenant gets
    ///   everything (`r5_a_lone_tenant_gets_everything`); weights 3:1 give 3:1 within 10 %
    ///   (`r5_weights_three_to_one`); a lane that returns gets no credit for idleness
    ///   (`r5_idleness_earns_no_credit`); what small lanes leave of a wish is shared as well
    ///   (`r5_small_lanes_leave_the_rest_shared`). Lanes without work cost nothing
    ///   (`r5_drained_and_paused_lanes_cost_nothing`).
    /// - **R6** It sees every push and retry of the same handle (`r6_own_pushes_are_visible`), and
    ///   those of another handle within 250 ms (`r6_other_handles_pushes_are_visible`). A
    ///   scheduled job is delivered once due (`r6_a_scheduled_job_comes_due`), also when another
    ///   tenant's thousands come due at the same time (`r6_a_crowd_comes_due_at_once`), and
    ///   [`Reserved::next_due`] says when to ask again (`r6_next_due_is_told`).
    /// - **R7** `attempt` counts this delivery, the first is 1; N max attempts are N deliveries
    ///   that were not given back (`r7_n_attempts_are_n_deliveries`). A job whose last attempt was
    ///   lost is *suspect* and goes only into a free slot (`r7_a_suspect_is_never_held_ahead`);
    ///   one process-aborting job among 500 others ends parked, nobody else does
    ///   (`r7_one_aborting_job_among_500`).
    /// - **R8** Future, paused, running and parked jobs are never delivered
    ///   (`r8_never_future_running_or_parked`, `r8_a_paused_lane_delivers_nothing`).
    async fn reserve(&self, request: &Reserve) -> Result<Reserved>;

    /// Extends leases.
    ///
    /// - **S1** By the store's clock, from now; never changes the claim; answers per claim
    ///   (`s1_renew_extends_and_keeps_the_claim`), a requested cancel among it
    ///   (`s1_renew_tells_a_requested_cancel`).
    /// - **S2** A stale claim answers [`Renewed::Lost`] and changes nothing
    ///   (`s2_stale_writes_are_lost`).
    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>>;

    /// Ends runs.
    ///
    /// - **S2** Each outcome moves the job as [`state::step`](crate::state::step) says
    ///   (`s2_each_outcome`), delays added by the store (`s2_delays_are_the_stores`); release
    ///   keeps due time and priority and gives the attempt back, snooze gives it back
    ///   (`s2_release_and_snooze_give_the_attempt_back`).
    /// - **S2** Guarded by the whole claim: all six outcomes and renew, against a claim that was
    ///   swept, taken by another, taken again by the same worker, retried or cancelled by an
    ///   operator, or deleted, answer [`Settled::Lost`] and change nothing
    ///   (`s2_stale_writes_are_lost`), with both writers released at one barrier
    ///   (`s2_both_writers_at_a_barrier`). A claim with another nonce or another fence is no claim
    ///   (`s2_fence_and_nonce_are_both_compared`).
    /// - **S2** Until somebody has taken or freed it, an expired claim is still the claim
    ///   (`s2_expired_and_not_yet_taken_is_accepted`).
    /// - **S2** A requested cancel ends the job as cancelled, unless the work happened
    ///   (`s2_a_requested_cancel_wins_over_all_but_done`).
    /// - **S3** Repeating answers [`Settled::AlreadyApplied`] with the outcome that won, until the
    ///   next delivery or two minutes after the end, then `Lost` (`s3_repeating_a_settlement`,
    ///   `s3_a_stub_outlives_retention`); inside one batch the first wins
    ///   (`s3_inside_a_batch_the_first_wins`).
    /// - **S4** Every attempt that ended is on record, causes cut to 16 KiB
    ///   (`s4_attempts_are_on_record`, `s4_causes_are_cut_and_kept`), the newest 100
    ///   (`s4_the_newest_hundred_are_kept`); snoozes and releases are counted.
    /// - **S5** Finished jobs stay by age and number, whichever ends first
    ///   (`s5_retention_by_age`, `s5_retention_by_number`), and of those that ended together as many
    ///   as were asked for (`s5_the_number_counts_jobs_that_end_together`); parked is never pruned
    ///   (`s5_parked_is_never_pruned`).
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>>;

    /// [`settle`](Self::settle), then [`reserve`](Self::reserve), in one round trip where the
    /// store can.
    ///
    /// - **S2** Answers as the two calls would (`s2_settle_and_reserve_is_both`), and a settled job may
    ///   be among the reserved.
    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)>;

    /// Is a large batch of settlements better sent beside a reserve, as two calls at once, than with
    /// it in one? So where the store works on two calls with two cores; not where each is a commit of
    /// one writer. No I/O, and only a hint: a wrapper that does not pass it on loses speed and no more.
    /// A worker still sends at most one settle and one reserve at a time.
    fn settles_apart(&self) -> bool {
        false
    }

    /// Takes back what was silent past its lease, promotes what came due, prunes history.
    ///
    /// - **X1** Answers which jobs it took back, and into which state (`x1_sweep_answers_the_jobs`);
    ///   looks at the last renewal, never at a live long job (`x1_a_renewed_job_is_left_alone`);
    ///   bounded per call (`x1_bounded_per_call`); any handle may call it, it sees all tenants and
    ///   needs no handler (`x1_any_handle_sweeps_all_tenants`).
    /// - **X1** A spent last attempt parks with cause *lost*; a requested cancel ends as cancelled
    ///   (`x1_the_last_attempt_parks`, `x1_a_requested_cancel_ends_as_cancelled`).
    /// - **X1** Two sweeps at once take each job once (`x1_two_sweeps_at_once`).
    async fn sweep(&self) -> Result<Swept>;

    /// A wake-up for `queues`, taken *before* a reserve, so that a push between the two is not
    /// missed.
    ///
    /// - **N1** A push or an operator's retry wakes it (`n1_a_push_wakes`, `n1_a_retry_wakes`), of
    ///   another handle too (`n1_another_handles_push_wakes`); one between `watch` and `reserve`
    ///   is not missed (`n1_nothing_is_missed_before_reserve`). Only a hint: it may be early, late
    ///   or lost, and another queue's push need not wake (`n1_other_queues_do_not_wake`).
    async fn watch(&self, queues: &[String]) -> Result<Watch>;

    /// Tells operators that this worker lives. Called at most every 10 s.
    ///
    /// - **A4** It is listed by [`Admin::workers`](crate::Admin::workers) until it says goodbye or
    ///   is silent for a minute (`a4_workers_come_and_go`).
    async fn announce(&self, worker: &Worker) -> Result<()>;

    /// A second handle on the same store with its own connections, bound to the calling runtime
    /// where connections are: the worker's control thread makes its own, so that a blocked
    /// application runtime does not stop renewals (K4).
    ///
    /// - Both handles see the same jobs (`q0_open_own_is_the_same_store`).
    async fn open_own(&self) -> Result<std::sync::Arc<dyn Queue>>;
}

/// Most deliveries of one visit to a lane while more than one lane of the queue has work (R5).
pub const LANE_BATCH: usize = 8;
/// Most deliveries of one reserve.
pub const MAX_RESERVE: usize = 1024;
/// How long after its end a job still answers P2 and S3, whatever the retention.
pub const STUB: Duration = Duration::from_secs(120);
/// Attempts kept per job; older ones leave.
pub const KEPT_ATTEMPTS: usize = 100;

/// The answer to one pushed job.
#[must_use = "a duplicate or a held key stores nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is stored.
    Stored,
    /// `(tenant, id)` is stored already, in this state; nothing changed.
    Duplicate(State),
    /// Another live job of the tenant holds the key; nothing was stored.
    KeyHeld(JobId, State),
}

/// The answer to a reserve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved {
    /// What it took.
    pub deliveries: Vec<Delivery>,
    /// Where fewer than asked were due: how long until the next known scheduled job of this queue
    /// is due, at most an hour. A hint.
    pub next_due: Option<Duration>,
}

/// One job, held under a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// What every later write is guarded by.
    pub claim: Claim,
    /// The job as it was pushed; `run_at` is when it was due.
    pub job: Job,
    /// Counting this delivery, from 1.
    pub attempt: u32,
    /// Its last attempt was lost, perhaps because it kills its process: start it in a free slot,
    /// hold nothing beside it, and give it no company that is on its last attempt.
    pub suspect: bool,
}

/// The answer to one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// Held, for another lease.
    Held,
    /// Held, and an operator wants it to end.
    CancelRequested,
    /// Not held any more.
    Lost,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The jobs whose lease was over.
    pub lost: Vec<Lost>,
    /// How many came due.
    pub promoted: usize,
    /// How many finished jobs left history.
    pub pruned: usize,
    /// Is there more of any to do at once?
    pub more: bool,
}

/// A job taken back by a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub job: JobRef,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// The attempt that was lost.
    pub attempt: u32,
    /// Where it is now: ready, parked or cancelled.
    pub state: State,
}

/// A worker as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Random per process start.
    pub id: uuid::Uuid,
    /// The configured name: a label, may be shared.
    pub label: String,
    /// Its queues.
    pub queues: Vec<String>,
    /// The job names it knows.
    pub names: Vec<String>,
    /// How many jobs it runs at once.
    pub slots: u32,
    /// How many of them run now.
    pub busy: u32,
    /// How many of them are held by a handler that ignored its timeout.
    pub stuck: u32,
    /// It says goodbye.
    pub leaving: bool,
}

#[async_trait]
impl<Q: Queue + ?Sized> Queue for std::sync::Arc<Q> {
    async fn enqueue(&self, jobs: &[AuthorizedJob]) -> Vec<Result<Pushed>> {
        (**self).enqueue(jobs).await
    }
    async fn reserve(&self, request: &Reserve) -> Result<Reserved> {
        (**self).reserve(request).await
    }
    async fn renew(&self, lease: Lease, claims: &[Claim]) -> Result<Vec<Renewed>> {
        (**self).renew(lease, claims).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        (**self).settle(settlements).await
    }
    async fn settle_and_reserve(
        &self,
        settlements: &[Settlement],
        request: &Reserve,
    ) -> Result<(Vec<Settled>, Reserved)> {
        (**self).settle_and_reserve(settlements, request).await
    }
    fn settles_apart(&self) -> bool {
        (**self).settles_apart()
    }
    async fn sweep(&self) -> Result<Swept> {
        (**self).sweep().await
    }
    async fn watch(&self, queues: &[String]) -> Result<Watch> {
        (**self).watch(queues).await
    }
    async fn announce(&self, worker: &Worker) -> Result<()> {
        (**self).announce(worker).await
    }
    async fn open_own(&self) -> Result<std::sync::Arc<dyn Queue>> {
        (**self).open_own().await
    }
}
