//! G1, G2 and G6 where no store is needed: who gets a Grant, and what it carries.

use std::sync::atomic::{AtomicUsize, Ordering};

use jobs_core::{
    Grant, Job, JobType, Policy, authorized,
    grant::{Denied, Forbidden, Scope, grant_without_user},
    permit::{Cancel, Delete, Read, Retry, Tune, Verb},
};

/// Counts how often it is asked, and says yes.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Policy for Asked {
    async fn allows(&self, _: &str, _: &str, _: &str) -> Result<(), Denied> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn allows_operator(&self, _: &str, _: &str) -> Result<(), Denied> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Knows one member of one tenant, and has no operators.
struct Members;

impl Policy for Members {
    async fn allows(&self, subject: &str, action: &str, tenant: &str) -> Result<(), Denied> {
        let member = (subject, action, tenant) == ("ada", "invoice.send", "acme");
        if member { Ok(()) } else { Err(Denied::because("not a member")) }
    }
}

fn kind(forbidden: Forbidden) -> &'static str {
    match forbidden {
        Forbidden::NoSubject => "no subject",
        Forbidden::BadSubject => "bad subject",
        Forbidden::ReservedSubject(_) => "reserved subject",
        Forbidden::BadAction(_) => "bad action",
        Forbidden::BadTenant(_) => "bad tenant",
        Forbidden::Denied { .. } => "denied",
        Forbidden::WrongAction { .. } => "wrong action",
        _ => "another",
    }
}

#[tokio::test]
async fn g1_the_doors_refuse_bad_input() {
    let policy = Asked::default();
    let (long, long_name) = ("s".repeat(201), "a".repeat(65));
    let bad_names = ["", "A", "a b", "-a", "é", "a\0", "a\n", "\u{202e}a", long_name.as_str()];
    for subject in [long.as_str(), "a\0b", "\0"] {
        let answers = [
            policy.authorize(subject, "invoice.send", "acme").await,
            policy.authorize_operator(subject, "jobs.read").await,
            grant_without_user(subject, "invoice.send", "acme"),
        ];
        for answer in answers {
            assert_eq!(kind(answer.unwrap_err()), "bad subject", "{subject:?}");
        }
    }
    // A user who is called like this would be taken for the machine in the trail of who did what.
    for subject in ["system", "system:", "system:nightly"] {
        let answers = [
            policy.authorize(subject, "invoice.send", "acme").await,
            policy.authorize_operator(subject, "jobs.read").await,
        ];
        for answer in answers {
            assert_eq!(kind(answer.unwrap_err()), "reserved subject", "{subject:?}");
        }
    }
    for action in bad_names {
        let answers = [
            policy.authorize("ada", action, "acme").await,
            policy.authorize_operator("ada", action).await,
            grant_without_user("cron", action, "acme"),
        ];
        for answer in answers {
            assert_eq!(kind(answer.unwrap_err()), "bad action", "{action:?}");
        }
    }
    // A tenant has neither dot nor colon, so that no two spellings of one lane exist.
    for tenant in bad_names.into_iter().chain(["a.b", "a:b", "a/b", "*"]) {
        let answers = [
            policy.authorize("ada", "invoice.send", tenant).await,
            grant_without_user("cron", "invoice.send", tenant),
        ];
        for answer in answers {
            assert_eq!(kind(answer.unwrap_err()), "bad tenant", "{tenant:?}");
        }
    }
    assert_eq!(policy.0.load(Ordering::Relaxed), 0, "the policy was asked about malformed input");
    assert!(policy.authorize("systemic", "invoice.send", "acme").await.is_ok());
}

#[tokio::test]
async fn g1_an_empty_subject_never_reaches_the_policy() {
    let policy = Asked::default();
    let answers = [
        policy.authorize("", "invoice.send", "acme").await,
        policy.authorize_operator("", "jobs.read").await,
        grant_without_user("", "invoice.send", "acme"),
    ];
    for answer in answers {
        assert_eq!(answer.unwrap_err(), Forbidden::NoSubject);
    }
    assert_eq!(policy.0.load(Ordering::Relaxed), 0);
    policy.authorize("ada", "invoice.send", "acme").await.unwrap();
    assert_eq!(policy.0.load(Ordering::Relaxed), 1, "a good one does reach it");
}

#[tokio::test]
async fn g1_operators_are_refused_by_default() {
    let refused = Members.authorize_operator("ada", "jobs.read").await.unwrap_err();
    let message = refused.to_string();
    assert_eq!(kind(refused), "denied");
    assert!(message.contains("ada") && message.contains("jobs.read"), "{message}");
    let grant = Asked::default().authorize_operator("ops", "jobs.read").await.unwrap();
    assert_eq!((grant.scope(), grant.tenant()), (&Scope::Operator, None));
}

#[tokio::test]
async fn g1_a_grant_is_what_the_policy_allowed() {
    let grant = Members.authorize("ada", "invoice.send", "acme").await.unwrap();
    assert_eq!((grant.subject(), grant.on_behalf_of()), ("ada", None));
    assert_eq!((grant.action(), grant.tenant()), ("invoice.send", Some("acme")));
    assert!(grant.check("invoice.send").is_ok());
    for action in ["", "invoice", "invoice.send2", "invoice.*", "*"] {
        assert_eq!(kind(grant.check(action).unwrap_err()), "wrong action");
    }
    for (subject, action, tenant) in [
        ("eve", "invoice.send", "acme"),
        ("ada", "invoice.void", "acme"),
        ("ada", "invoice.send", "globex"),
    ] {
        let refused = Members.authorize(subject, action, tenant).await.unwrap_err();
        let message = refused.to_string();
        for part in [subject, action, tenant, "not a member"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Send {
    invoice: u64,
}

impl JobType for Send {
    const NAME: &'static str = "invoice.send";
    const QUEUE: &'static str = "mail";
    const MAX_ATTEMPTS: u32 = 9;
}

#[tokio::test]
async fn g2_a_job_carries_the_grant_that_pushed_it() {
    let user = Members.authorize("ada", "invoice.send", "acme").await.unwrap();
    let cron = grant_without_user("nightly", "invoice.send", "globex").unwrap();
    for (grant, tenant, by) in [(&user, "acme", "ada"), (&cron, "globex", "system:nightly")] {
        let jobs = [
            Job::new(grant, "invoice.send", &7).unwrap(),
            Job::of(grant, &Send { invoice: 7 }).unwrap(),
        ];
        for job in jobs {
            assert_eq!((job.tenant.as_str(), job.action.as_str()), (tenant, "invoice.send"));
            assert_eq!(job.authorized_by, by);
            // And so it is stored, without another word.
            let stored = authorized(grant, job.clone()).unwrap();
            assert_eq!((&stored.tenant, &stored.action), (&job.tenant, &job.action));
            assert_eq!(stored.authorized_by, job.authorized_by);
        }
    }
    let typed = Job::of(&user, &Send { invoice: 7 }).unwrap();
    assert_eq!((typed.name.as_str(), typed.queue.as_str()), ("invoice.send", "mail"));
    assert_eq!((typed.max_attempts, typed.payload.as_str()), (Some(9), r#"{"invoice":7}"#));
    let plain = authorized(&user, Job::new(&user, "invoice.send", &()).unwrap()).unwrap();
    assert_eq!((plain.queue.as_str(), plain.max_attempts()), ("default", 5));
}

/// Does a Grant for `action` open the verbs in this order: read, retry, cancel, delete, tune?
fn opens(grant: &Grant) -> [bool; 5] {
    [
        grant.permit::<Read>().is_ok(),
        grant.permit::<Retry>().is_ok(),
        grant.permit::<Cancel>().is_ok(),
        grant.permit::<Delete>().is_ok(),
        grant.permit::<Tune>().is_ok(),
    ]
}

#[tokio::test]
async fn g6_a_permit_needs_its_own_action() {
    let actions = [Read::ACTION, Retry::ACTION, Cancel::ACTION, Delete::ACTION, Tune::ACTION];
    assert_eq!(actions, ["jobs.read", "jobs.retry", "jobs.cancel", "jobs.delete", "jobs.tune"]);
    for (own, action) in actions.into_iter().enumerate() {
        let grants = [
            Asked::default().authorize("ada", action, "acme").await.unwrap(),
            Asked::default().authorize_operator("ops", action).await.unwrap(),
        ];
        for grant in grants {
            let expected: Vec<_> = (0..5).map(|verb| verb == own).collect();
            assert_eq!(opens(&grant).as_slice(), expected, "{action}");
        }
    }
    for action in ["invoice.send", "jobs", "jobs.", "jobs.read2"] {
        let grant = grant_without_user("suite", action, "acme").unwrap();
        assert_eq!(opens(&grant), [false; 5], "{action}");
    }
    let read = grant_without_user("suite", "jobs.read", "acme").unwrap().permit::<Read>().unwrap();
    assert_eq!((read.tenant(), read.by()), (Some("acme"), "system:suite"));
    assert!(read.covers("acme") && !read.covers("acme2") && !read.covers(""));
    let ops = Asked::default().authorize_operator("ops", "jobs.read").await.unwrap();
    let ops = ops.permit::<Read>().unwrap();
    assert!(ops.tenant().is_none() && ops.covers("acme") && ops.covers("globex"));
}
