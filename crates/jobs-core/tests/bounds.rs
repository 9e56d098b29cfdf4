//! G3 and G5 where no store is needed: what `authorized` refuses, in which order, and that hostile
//! input is an answer and never a panic.

use std::time::Duration;

use jobs_core::{
    Cause, Grant, Job, JobId, Key, KeyScope, Nonce, Payload, Policy, Refusal, State, Timestamp,
    authorized,
    authorized::Field,
    grant::{Denied, grant_without_user},
    job::{RunAt, Timeout},
    queue::{Lease, MAX_RESERVE, Reserve},
    view::Cursor,
};

fn grant() -> Grant {
    grant_without_user("suite", "work.do", "acme").expect("a legal Grant")
}

fn job() -> Job {
    Job::new(&grant(), "noop", &()).expect("null is JSON")
}

/// The refusal as `bad field`, or its own word.
fn refusal(job: Job) -> Result<(), String> {
    refusal_under(&grant(), job)
}

fn refusal_under(grant: &Grant, job: Job) -> Result<(), String> {
    let word = |refusal| match refusal {
        Refusal::NoTenant => "no tenant".to_owned(),
        Refusal::NoName => "no name".to_owned(),
        Refusal::BadField { field, .. } => format!("bad {field}"),
        Refusal::Forged { field, .. } => format!("forged {field}"),
        Refusal::PayloadTooLarge { .. } => "payload too large".to_owned(),
        other => format!("{other:?}"),
    };
    authorized(grant, job).map(drop).map_err(word)
}

struct Operators;

impl Policy for Operators {
    async fn allows(&self, _: &str, _: &str, _: &str) -> Result<(), Denied> {
        Ok(())
    }

    async fn allows_operator(&self, _: &str, _: &str) -> Result<(), Denied> {
        Ok(())
    }
}

#[tokio::test]
async fn g3_the_order_of_refusals() {
    let operator = Operators.authorize_operator("ops", "work.do").await.unwrap();
    // Everything is wrong with it; then one thing after the other is put right.
    let mut job = Job {
        tenant: "globex".to_owned(),
        action: "work.other".to_owned(),
        authorized_by: "mallory".to_owned(),
        priority: i16::MIN,
        payload: Payload::encode(&"x".repeat(70_000)).unwrap(),
        ..Job::default()
    };
    let told = |grant: &Grant, job: &Job| refusal_under(grant, job.clone()).unwrap_err();
    assert_eq!(told(&operator, &job), "no tenant");
    assert_eq!(told(&grant(), &job), "no name");
    job.name = "noop".to_owned();
    assert_eq!(told(&grant(), &job), "bad priority");
    job.priority = 0;
    assert_eq!(told(&grant(), &job), "forged tenant");
    job.tenant = "acme".to_owned();
    assert_eq!(told(&grant(), &job), "forged action");
    job.action = "work.do".to_owned();
    assert_eq!(told(&grant(), &job), "forged authorized_by");
    job.authorized_by = "system:suite".to_owned();
    assert_eq!(told(&grant(), &job), "payload too large");
    job.payload = Payload::default();
    assert_eq!(refusal(job), Ok(()));
}

#[test]
fn g3_a_refusal_names_both_sides() {
    let told = |job: Job| authorized(&grant(), job).unwrap_err().to_string();
    let forged = told(Job { tenant: "globex".to_owned(), ..job() });
    assert!(forged.contains("globex") && forged.contains("acme"), "{forged}");
    let forged = told(Job { action: "work.other".to_owned(), ..job() });
    assert!(forged.contains("work.other") && forged.contains("work.do"), "{forged}");
    let forged = told(Job { authorized_by: "mallory".to_owned(), ..job() });
    assert!(forged.contains("mallory") && forged.contains("system:suite"), "{forged}");
    let large = told(Job { payload: Payload::encode(&"x".repeat(65_535)).unwrap(), ..job() });
    assert!(large.contains("65537") && large.contains("65536"), "{large}");
    let bad = told(job().priority(101));
    assert!(bad.contains("101") && bad.contains("100"), "{bad}");
    // A message is for a log line: a megabyte of anything is cut and escaped.
    let bad = told(job().on("\u{202e}\n".repeat(500_000)));
    assert!(bad.len() < 1000 && !bad.contains('\n') && !bad.contains('\u{202e}'), "{bad}");
}

#[test]
fn g3_empty_fields_are_filled() {
    let bare = Job { name: "noop".to_owned(), ..Job::default() };
    let id = bare.id;
    let filled = authorized(&grant(), bare).unwrap().into_job();
    assert_eq!((filled.id, filled.queue.as_str()), (id, "default"));
    assert_eq!((filled.tenant.as_str(), filled.action.as_str()), ("acme", "work.do"));
    assert_eq!((filled.authorized_by.as_str(), filled.max_attempts), ("system:suite", Some(5)));
    // One that came from JSON is filled and refused by the same rule.
    let parsed: Job = serde_json::from_str(r#"{"name":"noop","payload":{"a":1}}"#).unwrap();
    assert_eq!(authorized(&grant(), parsed).unwrap().tenant, "acme");
    let forged: Job = serde_json::from_str(r#"{"name":"noop","tenant":"globex"}"#).unwrap();
    assert_eq!(refusal(forged), Err("forged tenant".to_owned()));
}

#[test]
fn g5_bounds_of_every_field() {
    let (n64, n65) = ("a".repeat(64), "a".repeat(65));
    let inside: Vec<Job> = vec![
        job().on(&n64),
        Job { name: n64.clone(), ..job() },
        Job { name: "0.a_b:c-d".to_owned(), ..job() },
        job().key("k".repeat(256)),
        job().key("\u{1}\n\u{202e}é"),
        job().key_until_started("x"),
        job().priority(100),
        job().priority(-100),
        job().max_attempts(1),
        job().max_attempts(1000),
        job().timeout(Timeout::Never),
        job().timeout(Timeout::After(Duration::from_millis(1))),
        job().timeout(Timeout::After(Duration::from_secs(366 * 24 * 3600))),
        job().at(Timestamp::MIN),
        job().at("2200-12-31T23:59:59.999Z".parse().unwrap()),
        job().after(Duration::ZERO),
        (0..16).fold(job(), |job, i| job.meta(format!("{i:02}"), "v".repeat(254))),
        job().meta("", ""),
    ];
    for job in inside {
        assert_eq!(refusal(job.clone()), Ok(()), "{job:?}");
    }
    let bad = |field: Field, jobs: Vec<Job>| {
        for job in jobs {
            assert_eq!(refusal(job.clone()), Err(format!("bad {field}")), "{job:?}");
        }
    };
    let names = ["A", "-a", "a b", "a/b", "é", "a\0", " a", "a ", &n65].map(str::to_owned);
    bad(Field::Queue, names.clone().map(|queue| job().on(queue)).to_vec());
    bad(Field::Name, names.clone().map(|name| Job { name, ..job() }).to_vec());
    bad(Field::Action, names.clone().map(|action| Job { action, ..job() }).to_vec());
    bad(Field::Tenant, names.map(|tenant| Job { tenant, ..job() }).to_vec());
    let dotted = ["a.b", "a:b"].map(|tenant| Job { tenant: tenant.to_owned(), ..job() });
    bad(Field::Tenant, dotted.to_vec());
    let by = ["b".repeat(201), "a\0".to_owned(), "é".repeat(101)];
    bad(Field::AuthorizedBy, by.map(|authorized_by| Job { authorized_by, ..job() }).to_vec());
    let keys = ["k".repeat(257), String::new(), "a\0".to_owned(), "é".repeat(129)];
    bad(Field::Key, keys.map(|key| job().key(key)).to_vec());
    bad(Field::Priority, [101, -101, i16::MIN, i16::MAX].map(|p| job().priority(p)).to_vec());
    bad(Field::MaxAttempts, [0, 1001, u32::MAX].map(|n| job().max_attempts(n)).to_vec());
    let limits = [Duration::ZERO, Duration::from_secs(366 * 24 * 3600 + 1), Duration::MAX];
    bad(Field::Timeout, limits.map(|limit| job().timeout(Timeout::After(limit))).to_vec());
    let late = [Timestamp::MAX, "2200-12-31T23:59:59.999000001Z".parse().unwrap()];
    bad(Field::RunAt, late.map(|time| job().at(time)).to_vec());
    bad(Field::RunAt, vec![job().after(Duration::MAX)]);
    let many = (0..17).fold(job(), |job, i| job.meta(format!("{i}"), ""));
    let large = job().meta("m", "v".repeat(4096));
    bad(Field::Metadata, vec![many, large, job().meta("a\0", ""), job().meta("a", "\0")]);
}

/// Text that has broken something somewhere.
fn hostile() -> Vec<String> {
    let plain = [
        "",
        "\0",
        "a\0b",
        " ",
        "\n",
        "\u{202e}evil",
        "\u{feff}",
        "\u{fffd}",
        "é",
        "e\u{301}",
        "💥",
        "\u{10ffff}",
        "'; drop table jobs; --",
        "\"",
        "\\",
        "/",
        "//",
        "a/",
        "/a",
        "../..",
        "%00",
        "{}",
        "[1,",
        "nul",
        "1 2",
        "\"\\ud800\"",
        "-",
        "--",
        "0",
        "-1",
        "1e999",
        "340282366920938463463374607431768211456",
        "00000000-0000-0000-0000-00000000000g",
        "acme/",
        "acme/00000000-0000-0000-0000-00000000000",
        "urn:uuid:",
        "{",
        "$where",
        "${x}",
        "a:b:c",
        "*",
        "__proto__",
    ];
    let long = ["a", "\0", "[", "💥", "é", "-", "{\"a\":", "\"", "9"];
    let long = long.map(|text| text.repeat(1_000_000 / text.len()));
    plain.map(str::to_owned).into_iter().chain(long).collect()
}

#[test]
fn g5_hostile_input_never_panics() {
    let grant = grant();
    for text in hostile() {
        // Whatever each answers, it answers, and its words fit a log line.
        let told: Vec<String> = [
            text.parse::<State>().map(|ok| ok.to_string()).map_err(|e| e.to_string()),
            text.parse::<JobId>().map(|ok| ok.to_string()).map_err(|e| e.to_string()),
            text.parse::<Cursor>().map(|ok| ok.to_string()).map_err(|e| e.to_string()),
            Payload::from_json(text.as_str()).map(|_| String::new()).map_err(|e| e.to_string()),
            serde_json::from_str::<Job>(&text).map(|_| String::new()).map_err(|e| e.to_string()),
            grant_without_user(&text, "work.do", "acme")
                .map(|_| String::new())
                .map_err(|e| e.to_string()),
            grant_without_user("suite", &text, &text)
                .map(|_| String::new())
                .map_err(|e| e.to_string()),
            Reserve::new(&text, [&text, "noop"], "w")
                .map(|_| String::new())
                .map_err(|e| e.to_string()),
            Reserve::new("work", ["noop"], &text).map(|_| String::new()).map_err(|e| e.to_string()),
            grant.check(&text).map(|()| String::new()).map_err(|_| String::new()),
        ]
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|error| error))
        .collect();
        assert!(told.iter().all(|told| told.len() < 1000), "{:?}", told.iter().map(String::len));
        let key = Some(Key { text: text.clone(), scope: KeyScope::UntilStarted });
        let jobs = [
            job().on(&text),
            Job { name: text.clone(), ..job() },
            Job { tenant: text.clone(), ..job() },
            Job { action: text.clone(), ..job() },
            Job { authorized_by: text.clone(), ..job() },
            Job { key, ..job() },
            job().meta(&text, "v").meta("n", &text),
            Job { payload: Payload::encode(&text).unwrap(), ..job() },
        ];
        for job in jobs {
            let _ = authorized(&grant, job.clone()).map_err(|refusal| refusal.to_string());
            // By hand or from JSON, it is the same job.
            let json = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
        }
        let cause = Cause::from_bytes(text.as_bytes());
        assert!(cause.as_str().len() <= 16 * 1024 && !cause.as_str().contains('\0'));
    }
}

#[test]
fn g5_hostile_numbers_never_panic() {
    let lengths = [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX];
    for length in lengths {
        assert_eq!(Lease::new(length).is_ok(), length == Duration::from_secs(1));
        for job in [job().after(length), job().timeout(Timeout::After(length))] {
            if let Ok(job) = authorized(&grant(), job) {
                for now in [i64::MIN, -1, 0, i64::MAX] {
                    let _ = job.due_at(now);
                }
            }
        }
        assert!(jobs_core::retry::jittered(length) <= length);
    }
    let (hour, more) = (Duration::from_secs(3600), Duration::from_nanos(3_600_000_000_001));
    assert!(Lease::new(hour).is_ok() && Lease::new(more).is_err());
    for time in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
        let _ = authorized(&grant(), Job { run_at: RunAt::At(time), ..job() });
        let _ = jobs_core::time::millis_up(time);
    }
    for millis in [i64::MIN, i64::MAX] {
        let _ = jobs_core::time::from_millis(millis);
        assert!(jobs_core::time::after(millis, Duration::MAX) <= jobs_core::time::MAX_MILLIS);
    }
    for (slots, ahead) in [(0, 0), (usize::MAX, usize::MAX), (1, usize::MAX), (usize::MAX, 1)] {
        let new = || Reserve::new("work", ["noop"], "w").unwrap().nonce(Nonce(i64::MIN));
        // In either order, so that neither call undoes the other's limit.
        let both =
            [new().slots(slots).ahead(ahead, ["noop"]), new().ahead(ahead, ["noop"]).slots(slots)];
        for request in both {
            assert!(request.most() <= MAX_RESERVE, "{request:?}");
            assert_eq!(request.free_slots(), slots.min(MAX_RESERVE));
        }
    }
    let none = Reserve::new("work", Vec::<String>::new(), "w").unwrap().slots(5);
    assert_eq!(none.most(), 0);
    let unknown = Reserve::new("work", ["noop"], "w").unwrap().ahead(5, ["other", "\0"]);
    assert_eq!((unknown.held_ahead(), unknown.quick().len()), (0, 0));
}
