//! A schema that somebody altered is a typed error that names what is wrong; nothing is half-written, and
//! the same handle works again once it is restored.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use jobs_core::{
    Admin, ErrorKind, JobId, JobRef, Outcome, Queue, Settled, Settlement, State, queue::Pushed,
};
use jobs_postgres::Postgres;
use jobs_testkit::kit::{self, checked, job, operator, push, take};

mod common;

use common::{Test, drop_schema, number, run_sql, says, store, stored, unique};

const TESTS: &[Test] = tests![an_altered_table, nothing_of_a_refused_push_is_stored];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

/// What somebody did to the schema `s`, what undoes it, and a word that the error must say.
const ALTERED: &[(&str, &str, &str)] = &[
    ("ALTER TABLE s.live DROP COLUMN releases", "", "releases"),
    (
        "ALTER TABLE s.body RENAME COLUMN payload TO data",
        "ALTER TABLE s.body RENAME COLUMN data TO payload",
        "payload",
    ),
    (
        "ALTER TABLE s.body ALTER payload TYPE jsonb USING convert_from(payload, 'UTF8')::jsonb",
        "ALTER TABLE s.body ALTER payload TYPE bytea USING convert_to(payload::text, 'UTF8')",
        "column \"payload\" is of type jsonb but expression is of type bytea",
    ),
    (
        "ALTER TABLE s.live ALTER id TYPE text",
        "ALTER TABLE s.live ALTER id TYPE uuid USING id::uuid",
        "uuid",
    ),
    (
        "ALTER TABLE s.live ALTER renewed_at TYPE timestamptz USING to_timestamp(renewed_at)",
        "",
        "timestamp",
    ),
    (
        "ALTER TABLE s.body ADD extra int4 NOT NULL DEFAULT 1; ALTER TABLE s.body ALTER extra DROP DEFAULT",
        "ALTER TABLE s.body DROP extra",
        "extra",
    ),
    (
        "ALTER TABLE s.body ADD CONSTRAINT few CHECK (priority > 5) NOT VALID",
        "ALTER TABLE s.body DROP CONSTRAINT few",
        "few",
    ),
    (
        "ALTER TABLE s.body DROP CONSTRAINT body_pkey",
        "ALTER TABLE s.body ADD PRIMARY KEY (id, tenant)",
        "ON CONFLICT",
    ),
    ("ALTER TABLE s.live RENAME TO alive", "ALTER TABLE s.alive RENAME TO live", "live"),
    ("DROP TABLE s.done CASCADE", "", "done"),
    (
        "ALTER TYPE s.answer ADD ATTRIBUTE extra text",
        "ALTER TYPE s.answer DROP ATTRIBUTE extra",
        "answer",
    ),
    ("ALTER TYPE s.answer DROP ATTRIBUTE run_at", "", "answer"),
    (
        "DROP FUNCTION s.now_ms()",
        "CREATE FUNCTION s.now_ms() RETURNS int8 LANGUAGE sql VOLATILE AS \
         $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 $$",
        "now_ms",
    ),
];

async fn an_altered_table() {
    for (altered, restored, word) in ALTERED {
        let schema = unique("altered");
        let store = store(&schema).await;
        // Statements are cached then, on more connections than one.
        tokio::join!(round(&store, "a"), round(&store, "b"), round(&store, "c"));
        let in_schema = |sql: &str| sql.replace("s.", &format!("{schema}."));
        run_sql(&in_schema(altered)).await;
        let mut errors = Vec::new();
        for call in 0..4 {
            let before = stored(&schema).await;
            let nobody = JobRef { tenant: "acme".into(), id: JobId::new() };
            let error = match call {
                0 => store.enqueue(&[checked(job("acme"))]).await.remove(0).err(),
                1 => store.reserve(&kit::wants(1)).await.err(),
                2 => store.sweep().await.err(),
                _ => store.get(&operator().await, &nobody).await.err(),
            };
            if let Some(error) = error {
                let what = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Schema, "{altered}: {what}");
                assert!(what.contains("restore it"), "{altered}: {what}");
                assert_eq!(stored(&schema).await, before, "{altered}: it is half-written");
                errors.push(what);
            }
        }
        let named = errors.iter().any(|what| what.contains(word));
        assert!(named, "{altered}: {errors:?} does not say {word}");
        if !restored.is_empty() {
            run_sql(&in_schema(restored)).await;
            for tenant in ["a", "b", "c", "d"] {
                round(&store, tenant).await;
            }
        }
        drop_schema(&schema).await;
    }
}

/// Pushed, taken, which may be another's, and settled; then swept.
async fn round(store: &Postgres, tenant: &str) {
    push(store, job(tenant)).await;
    let start = Instant::now();
    // Another's round may have taken it, whose own one a reserve under way does not know of yet.
    let taken = loop {
        if let Some(taken) = take(store, 1).await.pop() {
            break taken;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "as many are ready as are taken");
    };
    let done = Settlement { claim: taken.claim, outcome: Outcome::Done };
    let settled = store.settle(&[done]).await.expect("it settles");
    assert_eq!(settled, [Settled::Applied(State::Done)]);
    store.sweep().await.expect("it sweeps");
}

async fn nothing_of_a_refused_push_is_stored() {
    let schema = unique("half");
    let store = store(&schema).await;
    // The server refuses the seventh of a hundred: none is stored, not one by one either.
    run_sql(&format!("ALTER TABLE {schema}.body ADD CONSTRAINT no CHECK (tenant <> 't7')")).await;
    let jobs: Vec<_> = (0..100).map(|at| checked(job(&format!("t{at}")))).collect();
    for answer in store.enqueue(&jobs).await {
        let what = says(answer, ErrorKind::Schema, &["restore it", "\"no\""]);
        assert!(!what.contains("t7"), "rows are nothing for a log: {what}");
    }
    assert_eq!(stored(&schema).await, 0);
    // Of a thousand, which are two statements, the half that it is not in is stored and answered so.
    let many: Vec<_> = (0..1000).map(|at| checked(job(&format!("t{at}")))).collect();
    let answers = store.enqueue(&many).await;
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(pushed) => {
                assert!((pushed, at >= 500) == (Pushed::Stored, true), "{at}: {pushed:?}")
            }
            Err(error) => assert!(at < 500, "{at}: {error}"),
        }
    }
    let kept = format!("SELECT count(*) FROM {schema}.live");
    assert_eq!(number(&kept).await, 500);
    run_sql(&format!("DELETE FROM {schema}.live; DELETE FROM {schema}.body")).await;
    // Single pushes that share a statement: what one of them meets is not the others'.
    let single = |at: usize| {
        let (store, jobs) = (store.clone(), [jobs[at].clone()]);
        tokio::spawn(async move { store.enqueue(&jobs).await.remove(0) })
    };
    let pushes: Vec<_> = (0..100).map(single).collect();
    for (at, answer) in pushes.into_iter().enumerate() {
        match answer.await.expect("no panic") {
            Ok(pushed) => assert_eq!(pushed, Pushed::Stored, "{at}"),
            error => {
                assert_eq!(at, 7, "{error:?}");
                says(error, ErrorKind::Schema, &["restore it"]);
            }
        }
    }
    assert_eq!(number(&kept).await, 99);
    drop_schema(&schema).await;
}
