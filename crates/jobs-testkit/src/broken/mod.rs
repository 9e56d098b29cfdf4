//! Broken stores: the model with one promise removed. The suite must catch each.
//!
//! A fault is either in the model, asked about where the promise is kept, or a lie on the way in or
//! out.

pub(crate) mod lies;

use std::time::Duration;

use tokio::sync::Notify;

/// Declares the faults, each with the case that must catch it.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident => $case:literal,)*) => {
        /// One promise that a broken store does not keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault,)*];

            /// The case that its law names: the one that must fail.
            pub fn case(self) -> &'static str {
                match self {
                    $(Self::$fault => $case,)*
                }
            }
        }
    };
}

faults! {
    /// A claim's nonce is not compared.
    NonceNotCompared => "s2_fence_and_nonce_are_both_compared",
    /// A claim's fence is not compared.
    FenceNotCompared => "s2_fence_and_nonce_are_both_compared",
    /// A delivery leaves the fence as it was.
    FenceStands => "r2_the_fence_grows",
    /// The first attempt is 0.
    AttemptOffByOne => "r7_n_attempts_are_n_deliveries",
    /// A lost last attempt goes back in line.
    LastAttemptGoesOn => "x1_the_last_attempt_parks",
    /// A lost attempt leaves no suspicion when it comes to holding ahead.
    SuspectHeldAhead => "r7_a_suspect_is_never_held_ahead",
    /// A release spends its attempt.
    ReleaseSpends => "s2_release_and_snooze_give_the_attempt_back",
    /// A snooze spends its attempt.
    SnoozeSpends => "s2_release_and_snooze_give_the_attempt_back",
    /// A release goes to the end of the line.
    ReleaseLosesItsPlace => "s2_release_and_snooze_give_the_attempt_back",
    /// Parking frees the key.
    KeyFreedAtPark => "p3_until_finished",
    /// Done does not free the key.
    KeyKeptAtDone => "p3_until_finished",
    /// A key until started is taken again when the job waits again.
    StartedKeyTakenAgain => "p3_until_started",
    /// Keys are shared by all tenants.
    KeysShared => "p3_keys_are_a_tenants_own",
    /// Keys are not looked at.
    KeyIgnored => "p3_a_held_key_refuses",
    /// A duplicate replaces the payload.
    DuplicateOverwrites => "p2_a_duplicate_changes_nothing_in_any_state",
    /// An id is unique in its queue only.
    IdPerQueue => "p2_same_id_in_two_queues",
    /// An id is unique over all tenants.
    IdsShared => "p2_same_id_by_two_tenants",
    /// Two pushes of one id are both told that they stored it.
    PushRace => "p2_concurrent_pushes_store_one",
    /// The payload is parsed and written anew.
    PayloadReencoded => "p1_payloads_byte_for_byte",
    /// run_at rounds down.
    RunAtRoundsDown => "p1_run_at_rounds_up",
    /// A run_at in the past is kept.
    BackdatingOvertakes => "p4_the_past_means_now",
    /// Any name is delivered.
    UnknownNamesDelivered => "r1_only_known_names",
    /// Two reserves take the same jobs.
    ReserveRace => "r2_concurrent_reserves_are_disjoint",
    /// A repeated reserve takes more.
    ReserveNotReplayable => "r3_repeating_a_reserve",
    /// Priority is not looked at.
    PriorityIgnored => "r4_order_within_a_tenant",
    /// The oldest job first, over all lanes.
    Unfair => "r5_a_newcomer_behind_100_000",
    /// Every lane has the same share.
    WeightsIgnored => "r5_weights_three_to_one",
    /// A lane that returns is served until it has caught up.
    IdlenessEarnsCredit => "r5_idleness_earns_no_credit",
    /// A future job is delivered.
    FutureDelivered => "r8_never_future_running_or_parked",
    /// A paused lane delivers.
    PausedDelivered => "r8_a_paused_lane_delivers_nothing",
    /// A queue's pause covers the lanes of that moment.
    QueuePauseMissesNewcomers => "a6_a_queues_pause_covers_newcomers",
    /// A renewal answers held and extends nothing.
    RenewExtendsNothing => "s1_renew_extends_and_keeps_the_claim",
    /// A renewal moves the fence.
    RenewChangesTheClaim => "s1_renew_extends_and_keeps_the_claim",
    /// A renewal does not tell of a requested cancel.
    RenewHidesTheCancel => "s1_renew_tells_a_requested_cancel",
    /// An expired claim is refused although nobody took the job.
    ExpiredClaimRefused => "s2_expired_and_not_yet_taken_is_accepted",
    /// A swept claim is answered as if it had been settled.
    SweptClaimBelieved => "s2_stale_writes_are_lost",
    /// Two writers of one claim are both told that theirs was applied.
    SettleRace => "s2_both_writers_at_a_barrier",
    /// Work that happened is thrown away because a cancel was requested.
    DoneLostToACancel => "s2_a_requested_cancel_wins_over_all_but_done",
    /// A requested cancel is forgotten when the run ends.
    CancelRequestForgotten => "s2_a_requested_cancel_wins_over_all_but_done",
    /// A repeated settlement is lost.
    RepeatAnswersLost => "s3_repeating_a_settlement",
    /// Inside one batch the last entry wins.
    LastInBatchWins => "s3_inside_a_batch_the_first_wins",
    /// Pruned history leaves no stub.
    NoStub => "s3_a_stub_outlives_retention",
    /// Attempts are not on record.
    AttemptsUnrecorded => "s4_attempts_are_on_record",
    /// History has no age.
    HistoryIgnoresAge => "s5_retention_by_age",
    /// History has no number.
    HistoryIgnoresNumber => "s5_retention_by_number",
    /// Who ended together with one that leaves history leaves with it.
    TiesLeaveTogether => "s5_the_number_counts_jobs_that_end_together",
    /// Parked jobs are pruned.
    ParkedPruned => "s5_parked_is_never_pruned",
    /// A sweep takes live jobs.
    SweepTakesRenewed => "x1_a_renewed_job_is_left_alone",
    /// A sweep puts a job back in line although its cancel was requested.
    SweepForgetsTheCancel => "x1_a_requested_cancel_ends_as_cancelled",
    /// Two sweeps take back the same jobs.
    SweepRace => "x1_two_sweeps_at_once",
    /// A foreign job is shown.
    ForeignIdVisible => "g6_a_foreign_id_is_an_unknown_id",
    /// A foreign job is retried.
    ForeignIdRetried => "g6_a_foreign_id_is_an_unknown_id",
    /// A foreign job is cancelled.
    ForeignIdCancelled => "g6_a_foreign_id_is_an_unknown_id",
    /// A foreign job is deleted.
    ForeignIdDeleted => "g6_a_foreign_id_is_an_unknown_id",
    /// A list shows every tenant.
    ListUnscoped => "g6_lists_and_counts_are_scoped",
    /// Counts are of every tenant.
    CountsUnscoped => "g6_lists_and_counts_are_scoped",
    /// A tenant gives itself weight.
    TenantsWeigh => "g6_a_tenant_tunes_only_its_own_pause",
    /// Who did it is not recorded.
    WhoDidItUnrecorded => "g6_who_did_it_is_recorded",
    /// An expired lease counts as running.
    ExpiredCountsAsRunning => "a1_waiting_and_running",
    /// Several operators win one retry.
    RetryRace => "a3_retry_has_one_winner",
    /// A retry loses the attempts on record.
    RetryForgetsHistory => "a3_retry_keeps_the_job",
    /// A retry goes on counting attempts.
    RetryKeepsAttempts => "a3_retry_keeps_the_job",
    /// A running job is cancelled over its holder's head.
    RunningCancelledAtOnce => "a3_cancel_asks_a_running_job",
    /// A running job is deleted.
    RunningDeleted => "a3_delete_frees_everything",
    /// A push or retry wakes nobody.
    WakeUpLost => "n1_a_push_wakes",
    /// A held key is looked at before the id.
    KeyBeatsId => "p3_a_stored_id_beats_a_held_key",
    /// Two pushes of one key are both told that they took it.
    KeyRace => "p3_concurrent_pushes_of_one_key_store_one",
    /// A retried job does not take its key again.
    RetryForgetsTheKey => "p3_retry_takes_the_key_again",
    /// A done job's id is free.
    DoneFreesTheId => "p2_push_against_an_ack_in_flight",
    /// A push is in line half a second later.
    PushesAreSeenLate => "r6_own_pushes_are_visible",
    /// What came due stays scheduled.
    NeverPromoted => "r6_a_scheduled_job_comes_due",
    /// Any queue's jobs are delivered.
    QueuesMixed => "r1_only_that_queue",
    /// A lone lane gets one batch per reserve.
    LoneLaneCapped => "r5_a_lone_tenant_gets_everything",
    /// The first lane by name is visited first.
    LanesByName => "r5_fair_under_concurrent_reservers",
    /// The first hundred attempts are kept.
    OldestAttemptsKept => "s4_the_newest_hundred_are_kept",
    /// A sweep leaves paused lanes alone.
    PausedLaneNotSwept => "a6_a_paused_lane_is_swept",
    /// A sweep sees one tenant.
    SweepOfOneTenant => "x1_any_handle_sweeps_all_tenants",
    /// A sweep takes everything at once.
    SweepUnbounded => "x1_bounded_per_call",
    /// Of a batch, the last is stored.
    LastOfBatchStored => "p3_inside_a_batch_the_first_wins",
    /// A bulk push is answered in another order.
    BulkAnswersReversed => "p5_bulk_answers_in_order",
    /// Metadata is not delivered.
    MetadataDropped => "p1_every_field_round_trips",
    /// Long fields are cut.
    FieldsAreCut => "g5_the_largest_legal_job_round_trips",
    /// A reserve of none takes one.
    NoneAskedOneGiven => "r1_none_asked_none_given",
    /// Nobody is told when to ask again.
    NextDueUntold => "r6_next_due_is_told",
    /// Delays are not added.
    DelaysIgnored => "s2_delays_are_the_stores",
    /// A parked job goes on.
    ParkRetries => "s2_each_outcome",
    /// The reserve of a joint call comes before its settlements.
    ReserveBeforeSettle => "s2_settle_and_reserve_is_both",
    /// Causes are not kept.
    CausesDropped => "s4_causes_are_cut_and_kept",
    /// A sweep does not say what it took.
    SweepAnswersNothing => "x1_sweep_answers_the_jobs",
    /// A wake-up that never comes.
    WatchIsDeaf => "n1_a_retry_wakes",
    /// A wake-up without a push.
    WatchCriesWolf => "n1_other_queues_do_not_wake",
    /// A worker that said goodbye is still listed.
    GoodbyesIgnored => "a4_workers_come_and_go",
    /// The second handle is on another store.
    OwnStoreOpened => "q0_open_own_is_the_same_store",
    /// The last renewal is not shown.
    RenewalHidden => "a5_get_shows_the_holder",
    /// An operator sees no job.
    OperatorSeesNothing => "g6_an_operator_sees_all",
    /// With a name to filter by, the state is forgotten.
    FiltersDoNotCombine => "a2_filters_combine",
    /// A page loses its last job.
    WalkSkipsOne => "a2_a_walk_sees_each_job_once",
    /// A page that ended early says that it is complete.
    PageSaysComplete => "a2_a_page_has_a_budget",
    /// A page finds ready and running jobs among the finished.
    HistoryInTheWay => "a2_history_hides_no_ready_or_running_one",
    /// Counts look at the first 20,000 jobs, whoever asks.
    CountsStopAtOthers => "a1_others_work_hides_no_tenant",
    /// What came due is taken off a count that stopped.
    DueOffTheCapped => "a2_due_jobs_hide_no_scheduled_ones",
    /// A count that stopped does not say so.
    CountsSayExact => "a2_counts_are_capped",
    /// Nothing waits long.
    OldestIsZero => "a1_oldest",
    /// What ended is not counted.
    MinutesLost => "a2_minutes",
    /// A cancelled job is said to be asked.
    CancelSaysRequested => "a3_cancel_at_once",
    /// A pause has no deadline.
    PauseHasNoEnd => "a6_a_pause_ends",
    /// A sound store has findings.
    CheckCriesWolf => "a7_a_fresh_store_is_sound",
}

impl Fault {
    /// The operation that reads first and writes later, as two steps, if this is a race.
    pub fn race(self) -> Option<&'static str> {
        match self {
            Self::PushRace | Self::KeyRace => Some("enqueue"),
            Self::ReserveRace => Some("reserve"),
            Self::SettleRace => Some("settle"),
            Self::SweepRace => Some("sweep"),
            Self::RetryRace => Some("retry"),
            _ => None,
        }
    }
}

/// Between a racing writer's read and its write: it waits here for another to have read too.
#[derive(Debug, Default)]
pub struct Gap {
    second: Notify,
    waits: std::sync::atomic::AtomicBool,
}

impl Gap {
    /// Returns when a second writer is here, or when none came for 50 ms.
    pub async fn meet(&self) {
        use std::sync::atomic::Ordering::SeqCst;
        if self.waits.swap(true, SeqCst) {
            self.second.notify_one();
        } else {
            let second = self.second.notified();
            let _ = tokio::time::timeout(Duration::from_millis(50), second).await;
        }
        self.waits.store(false, SeqCst);
    }
}
