//! What is wrong in what is asked, in the URL, in the schema's version or in the role's privileges is a
//! typed error that says what to do; nothing is half-written, and the same handle works again once the
//! cause is gone.

use std::process::ExitCode;

use jobs_core::{
    Admin, ErrorKind, Job, JobId, JobRef, Outcome, OutcomeKind, Queue, QueueExt, Settled,
    Settlement,
    admin::{Cancelled, Deleted, LaneChange, LaneRef, Pause, Retried, Tuned},
    grant::grant_without_user,
    queue::{Renewed, Worker},
    view::{Cursor, Lanes, List},
};
use jobs_postgres::{Options, Postgres, SCHEMA};
use jobs_testkit::kit::{self, checked, job, operator, permit, push, take};
use url::Url;

mod common;

use common::{
    Test, drop_role, drop_schema, number, options, role, rows, run_sql, says, store, stored,
    unique, works,
};

const TESTS: &[Test] = tests![
    a_nul_is_nobodys_name,
    a_nul_in_a_cause_is_replaced,
    sixty_four_mebibytes_of_cause_are_cut,
    a_schema_that_is_not_there,
    a_name_that_is_no_schemas,
    any_other_name_is_one,
    a_schema_of_a_newer_release,
    a_role_without_create,
    a_role_without_rights,
    no_such_database_user_or_server,
];

fn main() -> ExitCode {
    common::run(&[common::URL], TESTS)
}

async fn a_nul_is_nobodys_name() {
    let schema = unique("nul");
    let store = store(&schema).await;
    // Nothing with a NUL passes the Grant.
    let refused = store.push(&kit::grant("acme"), job("acme").on("wo\0rk")).await;
    assert!(refused.is_err(), "a queue");
    let named = Job { name: "na\0me".into(), ..job("acme") };
    assert!(store.push(&kit::grant("acme"), named).await.is_err(), "a name");
    assert!(store.push(&kit::grant("acme"), job("acme").key("k\0")).await.is_err(), "a key");
    assert!(grant_without_user("suite", "work.do", "ac\0me").is_err(), "a tenant");
    assert_eq!(stored(&schema).await, 0);

    // What is only asked for is nobody's, also where the store has one of a like name.
    let pushed = push(&store, job("acme")).await;
    let nul = JobRef { tenant: "ac\0me".into(), id: pushed.id };
    assert_eq!(store.get(&operator().await, &nul).await.expect("answers"), None);
    let jobs = [nul.clone()];
    let cancelled = store.cancel(&operator().await, &jobs).await.expect("answers");
    assert_eq!(cancelled, [Cancelled::Unknown]);
    let retried = store.retry(&operator().await, &jobs).await.expect("answers");
    assert_eq!(retried, [Retried::Unknown]);
    let deleted = store.delete(&operator().await, &jobs).await.expect("answers");
    assert_eq!(deleted, [Deleted::Unknown]);
    for list in [
        List { queue: Some("wo\0rk".into()), ..List::default() },
        List { tenant: Some("ac\0me".into()), ..List::default() },
        List { name: Some("no\0op".into()), ..List::default() },
        List { cause: Some("\0".into()), ..List::default() },
    ] {
        let page = store.list(&operator().await, &list).await.expect("answers");
        assert_eq!(page.jobs, [], "{list:?}");
    }
    let after = List { after: Some(Cursor(nul.clone())), ..List::default() };
    store.list(&operator().await, &after).await.expect("answers");
    for lanes in [
        Lanes { queue: Some("wo\0rk".into()), ..Lanes::default() },
        Lanes { tenant: Some("ac\0me".into()), ..Lanes::default() },
    ] {
        let counts = store.counts(&operator().await, &lanes).await.expect("answers");
        assert_eq!(counts.lanes, []);
    }
    for lane in [
        LaneRef { queue: "wo\0rk".into(), tenant: None },
        LaneRef { queue: "work".into(), tenant: Some("ac\0me".into()) },
    ] {
        let pause = LaneChange { pause: Some(Pause::On), ..LaneChange::default() };
        let tuned = store.set_lane(&operator().await, &lane, pause).await.expect("answers");
        assert_eq!(tuned, Tuned::OutOfBounds);
    }
    drop(store.watch(&["wo\0rk".to_owned()]).await.expect("answers"));

    let mut claim = take(&store, 1).await.remove(0).claim;
    claim.job.tenant = "ac\0me".into();
    let renewed = store.renew(Default::default(), &[claim.clone()]).await.expect("answers");
    assert!(matches!(renewed[0], Renewed::Lost), "{renewed:?}");
    let done = Settlement { claim, outcome: Outcome::Done };
    assert_eq!(store.settle(&[done]).await.expect("answers"), [Settled::Lost]);

    // A label is for people, and kept as it is.
    let worker = Worker {
        id: JobId::new().0,
        label: "host\0 1".into(),
        queues: vec!["wo\0rk".into()],
        names: Vec::new(),
        slots: 1,
        busy: 0,
        stuck: 0,
        leaving: false,
    };
    store.announce(&worker).await.expect("answers");
    let alive = store.workers(&operator().await).await.expect("answers");
    assert_eq!(alive[0].worker, worker);
    drop_schema(&schema).await;
}

/// The outcome of one attempt, and its cause as the record has it.
async fn recorded(store: &Postgres, outcome: Outcome) -> (OutcomeKind, String) {
    let pushed = push(store, job("acme").max_attempts(1)).await;
    let claim = take(store, 1).await.remove(0).claim;
    assert_eq!(claim.job.id, pushed.id);
    let settled = store.settle(&[Settlement { claim: claim.clone(), outcome }]).await;
    assert!(matches!(settled.expect("it settles")[0], Settled::Applied(_)));
    let record = store.get(&permit("acme"), &claim.job).await.expect("answers").expect("stored");
    let attempt = record.attempts.last().expect("one attempt");
    (attempt.outcome, attempt.cause.as_ref().expect("a cause").as_str().to_owned())
}

async fn a_nul_in_a_cause_is_replaced() {
    let schema = unique("cause");
    let store = store(&schema).await;
    let failed = recorded(&store, Outcome::Park { cause: "a\0b".into() }).await;
    assert_eq!(failed, (OutcomeKind::Park, "a\u{fffd}b".to_owned()));
    drop_schema(&schema).await;
}

async fn sixty_four_mebibytes_of_cause_are_cut() {
    let schema = unique("long");
    let store = store(&schema).await;
    // Of three bytes each, so that the cut falls inside one.
    let text = "€".repeat((64 << 20) / 3);
    let (kind, cause) = recorded(&store, Outcome::Park { cause: text.clone().into() }).await;
    assert_eq!(kind, OutcomeKind::Park);
    assert!(text.starts_with(&cause) && cause.len() > 1000, "its beginning stays");
    let bytes = format!("SELECT max(octet_length(cause))::int8 FROM \"{schema}\".attempt");
    assert_eq!(number(&bytes).await, cause.len() as i64);
    // The same as a filter.
    let list = List { cause: Some(text), ..List::default() };
    assert_eq!(store.list(&permit("acme"), &list).await.expect("answers").jobs, []);
    works(&store).await;
    drop_schema(&schema).await;
}

async fn a_schema_that_is_not_there() {
    let schema = unique("missing");
    let store = Postgres::open(options(&schema)).await.expect("it may be missing");
    let words = ["missing", "run the migrations"];
    let pushed = store.enqueue(&[checked(job("acme"))]).await.remove(0);
    says(pushed, ErrorKind::Schema, &words);
    let wants = kit::wants(1);
    says(store.reserve(&wants).await, ErrorKind::Schema, &words);
    says(store.sweep().await, ErrorKind::Schema, &words);
    says(store.check(&operator().await).await, ErrorKind::Schema, &words);
    says(store.counts(&operator().await, &Lanes::default()).await, ErrorKind::Schema, &words);
    // In a caller's transaction too.
    let mut conn = common::connect().await;
    let mut tx = sqlx::Connection::begin(&mut conn).await.expect("it begins");
    let pushed = store.push_in(&mut tx, &[checked(job("acme"))]).await;
    says(pushed, ErrorKind::Schema, &words);
    tx.rollback().await.expect("rolls back");
    // The same handle, once it is there; also after it was there and is lost.
    for _ in 0..2 {
        store.migrate().await.expect("migrates");
        works(&store).await;
        drop_schema(&schema).await;
        says(store.reserve(&wants).await, ErrorKind::Schema, &words);
    }
    // A schema of somebody else's, which has no such tables.
    run_sql(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.orders (id int4)")).await;
    says(store.reserve(&wants).await, ErrorKind::Schema, &words);
    store.migrate().await.expect("it may hold other tables");
    works(&store).await;
    assert_eq!(number(&format!("SELECT count(*) FROM {schema}.orders")).await, 0);
    drop_schema(&schema).await;
}

async fn a_name_that_is_no_schemas() {
    let new = || Options::new("postgres://localhost/app").expect("a URL");
    for name in ["", "a\0", "a\nb", "a$$b", "it's", "\u{7f}", &"a".repeat(59)] {
        let refused = new().schema(name);
        says(refused, ErrorKind::Refused, &["a schema's name has 1 to 58 bytes"]);
    }
    for url in ["", "postgres", "mysql://localhost/app", "postgres://localhost:port/app"] {
        says(Options::new(url), ErrorKind::Refused, &["write postgres://"]);
        says(new().listen_on(url), ErrorKind::Refused, &["write postgres://"]);
    }
}

async fn any_other_name_is_one() {
    let id = unique("odd");
    for name in [
        format!("{id} Has \"quotes\" and spaces"),
        format!("{id}jobs.jobs.; DROP SCHEMA public; --"),
        format!("{id}$1 % \\ /* é 😀"),
        "a".repeat(58 - id.len()) + &id,
    ] {
        let store = store(&name).await;
        works(&store).await;
        let found = store.check(&operator().await).await.expect("answers");
        assert_eq!(found.schema, SCHEMA);
        drop(store.watch(&["work".to_owned()]).await.expect("it listens"));
        let quoted = name.replace('"', "\"\"");
        run_sql(&format!("DROP SCHEMA \"{quoted}\" CASCADE")).await;
    }
}

async fn a_schema_of_a_newer_release() {
    let schema = unique("newer");
    let old = store(&schema).await;
    let set = |version: u32| {
        run_sql_owned(format!("INSERT INTO {schema}.migration VALUES ({version}, now())"))
    };
    // The next one runs: migrations only add.
    set(SCHEMA + 1).await;
    let next = Postgres::open(options(&schema)).await.expect("it runs on the next");
    next.migrate().await.expect("nothing to do");
    works(&next).await;
    set(SCHEMA + 2).await;
    let found = format!("version {}", SCHEMA + 2);
    let words = [found.as_str(), "deploy a newer release"];
    let before = rows(&format!("SELECT version FROM {schema}.migration")).await.len();
    says(Postgres::open(options(&schema)).await, ErrorKind::Schema, &words);
    says(old.migrate().await, ErrorKind::Schema, &words);
    assert_eq!(rows(&format!("SELECT version FROM {schema}.migration")).await.len(), before);
    run_sql(&format!("DELETE FROM {schema}.migration WHERE version > {}", SCHEMA + 1)).await;
    old.migrate().await.expect("it runs again");
    works(&old).await;
    drop_schema(&schema).await;
}

async fn run_sql_owned(sql: String) {
    run_sql(&sql).await;
}

async fn a_role_without_create() {
    let schema = unique("create");
    let url = role(&schema).await;
    let options = Options::new(&url).expect("a URL").schema(&schema).expect("a name");
    let store = Postgres::open(options).await.expect("it may connect");
    let words = ["lacks a privilege", "grant it", "permission denied for database"];
    says(store.migrate().await, ErrorKind::Refused, &words);
    let there = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'");
    assert_eq!(number(&there).await, 0, "nothing is half-made");

    // Into a schema in which it may not create.
    run_sql(&format!("CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {schema}")).await;
    let words = ["lacks a privilege", "grant it", "permission denied for schema"];
    says(store.migrate().await, ErrorKind::Refused, &words);
    let made =
        format!("SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace");
    assert_eq!(number(&made).await, 0, "nothing is half-made");

    run_sql(&format!("GRANT CREATE ON SCHEMA {schema} TO {schema}")).await;
    store.migrate().await.expect("it may now");
    works(&store).await;
    drop_schema(&schema).await;
    drop_role(&schema).await;
}

async fn a_role_without_rights() {
    let schema = unique("rights");
    let owner = store(&schema).await;
    let url = role(&schema).await;
    let options = Options::new(&url).expect("a URL").schema(&schema).expect("a name");
    let words = ["lacks a privilege", "grant it", "permission denied"];
    says(Postgres::open(options.clone()).await, ErrorKind::Refused, &words);
    // One after the other, each table's name in the error.
    run_sql(&format!(
        "GRANT USAGE ON SCHEMA {schema} TO {schema}; GRANT SELECT ON {schema}.migration TO {schema}"
    ))
    .await;
    let store = Postgres::open(options).await.expect("it may look at the version");
    store.migrate().await.expect("nothing to do");
    let pushed = store.enqueue(&[checked(job("acme"))]).await.remove(0);
    says(pushed, ErrorKind::Refused, &["denied for table body"]);
    run_sql(&format!("GRANT SELECT, INSERT ON {schema}.body TO {schema}")).await;
    let pushed = store.enqueue(&[checked(job("acme"))]).await.remove(0);
    says(pushed, ErrorKind::Refused, &["denied for table live"]);
    assert_eq!(stored(&schema).await, 0, "not half of it");
    says(store.sweep().await, ErrorKind::Refused, &words);
    says(store.reserve(&kit::wants(1)).await, ErrorKind::Refused, &words);
    run_sql(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}"
    ))
    .await;
    works(&store).await;
    works(&owner).await;
    drop_schema(&schema).await;
    drop_role(&schema).await;
}

async fn no_such_database_user_or_server() {
    let with = |change: fn(&mut Url)| {
        let mut url: Url = common::url().parse().expect("a URL");
        change(&mut url);
        Options::new(url.as_str()).expect("a URL")
    };
    let missing = with(|url| url.set_path("no_such_database"));
    says(Postgres::open(missing).await, ErrorKind::Refused, &["no such database", "create it"]);
    let password = with(|url| url.set_password(Some("wrong")).expect("it has a host"));
    says(Postgres::open(password).await, ErrorKind::Refused, &["refuses this user or password"]);
    // Nobody listens on the discard port.
    let nobody = with(|url| url.set_port(Some(9)).expect("it has a host"));
    says(Postgres::open(nobody).await, ErrorKind::Unavailable, &["try again"]);
}
