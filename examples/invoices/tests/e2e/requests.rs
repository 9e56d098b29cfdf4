//! What requests bring about, and what they may not.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    mail::Service,
    place::{Place, ended},
    process::{Process, until},
};

const TENANTS: [(&str, &str); 3] = [("ada", "acme"), ("eve", "globex"), ("ivy", "initech")];
const EACH: u32 = 6;
const LINES: u32 = 200;

/// Mails are held until both workers have sent one, so both share whatever their speed; each is sent
/// once, so nothing runs under two holders.
pub fn are_done_by_two_workers(place: &Place) {
    place.migrate();
    let (mail, server) = (Service::start(), Process::serve(place));
    let workers = [0, 1].map(|_| Process::worker(place, "--concurrency 4", &mail.address));
    let mut issued = BTreeSet::new();
    for (user, tenant) in TENANTS {
        for cents in 1..=EACH {
            issued.insert(format!("{tenant}/{}", server.issue(user, tenant, cents * 100)));
        }
    }
    let mut mailed = BTreeMap::new();
    let mut held = Vec::new();
    while mailed.len() < issued.len() {
        let next = mail.next();
        let before = mailed.insert(next.key.clone(), next.process);
        assert_eq!(before, None, "{} was mailed twice", next.key);
        assert!(next.invoice["customer"] == "Hooli", "{}", next.invoice);
        held.push(next);
        let senders: BTreeSet<_> = mailed.values().collect();
        if senders.len() == 2 {
            held.drain(..).for_each(crate::mail::Mail::take);
        }
    }
    assert_eq!(mailed.into_keys().collect::<BTreeSet<_>>(), issued, "by key, that is by job");
    for (user, tenant) in TENANTS {
        server.until_sent(user, tenant, EACH, EACH);
    }

    let mut file = "customer,cents,month\n".to_owned();
    (1..=LINES).for_each(|line| file.push_str(&format!("\"Pied, Piper\",{line},2026-11\n")));
    assert_eq!(server.post("bob", "/tenants/acme/imports", &file).status, 403, "a clerk");
    assert_eq!(server.post("ada", "/tenants/acme/imports", &file).status, 202);
    server.until_sent("ada", "acme", EACH + LINES, EACH);
    let asked = server.post("ada", "/tenants/acme/reports", r#"{"month":"2026-11"}"#);
    assert_eq!(asked.status, 202, "{asked:?}");
    let report = until(|| match server.get("bob", "/tenants/acme/reports/2026-11") {
        found if found.status == 200 => Ok(found.json()),
        missing => Err(format!("{missing:?}")),
    });
    let cents = EACH * (EACH + 1) / 2 * 100 + LINES * (LINES + 1) / 2;
    let numbers = ["invoices", "sent", "cents"].map(|field| report[field].as_u64());
    assert_eq!(numbers, [EACH + LINES, EACH, cents].map(|number| Some(number.into())));

    let jobs = u64::from(3 * EACH + LINES) + 2;
    let stats = until(|| {
        let stats = place.json("jobs stats --operator");
        let done: u64 = of_minutes(&stats, "finished");
        if done == jobs { Ok(stats) } else { Err(format!("{done} of {jobs} are done: {stats}")) }
    });
    assert_eq!(of_minutes(&stats, "failed"), 0, "each ran once");
    for worker in workers {
        worker.stop();
    }
    server.stop();
}

fn of_minutes(stats: &serde_json::Value, field: &str) -> u64 {
    let minutes = stats["minutes"].as_array().expect("minutes");
    minutes.iter().filter_map(|minute| minute[field].as_u64()).sum()
}

/// By the path, by the body, by an id: another tenant is out of reach.
pub fn forged(place: &Place) {
    place.migrate();
    let server = Process::serve(place);
    let theirs = server.issue("eve", "globex", 100);
    let draft = |job: &str| {
        format!(r#"{{"customer":"Hooli","cents":1,"month":"2026-11","job":{{{job}}}}}"#)
    };
    let own = "/tenants/acme/invoices";
    for (path, job, words) in [
        (own, r#""tenant":"globex""#, "the job says tenant \"globex\", its Grant says \"acme\""),
        (own, r#""action":"report.build""#, "its Grant says \"invoice.send\""),
        (own, r#""authorized_by":"ivy""#, "its Grant says \"ada\""),
        ("/tenants/globex/invoices", "", "ada may not invoice.send in globex: not a member"),
        ("/tenants/Globex%20/invoices", "", "is no tenant"),
    ] {
        let answer = server.post("ada", path, &draft(job));
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(answer.body.contains(words), "{answer:?}");
    }
    let answer = server.post("nobody", own, &draft(""));
    assert_eq!(answer.status, 401, "{answer:?}");
    let answer = server.post("ada", own, &draft(r#""priority":1000"#));
    assert_eq!(answer.status, 422, "{answer:?}");
    server.until_sent("ada", "acme", 0, 0);
    server.until_sent("eve", "globex", 1, 0);
    let jobs = until(|| {
        // With an outbox, its job comes a moment later.
        let list = place.json("jobs list --operator");
        let jobs = list["jobs"].as_array().expect("jobs").clone();
        if jobs.is_empty() { Err("no job".to_owned()) } else { Ok(jobs) }
    });
    assert_eq!(jobs.len(), 1, "only eve's: {jobs:?}");
    assert_eq!(jobs[0]["tenant"], "globex");

    let answer = server.get("ada", &format!("/tenants/globex/invoices/{theirs}"));
    assert_eq!(answer.status, 403, "{answer:?}");
    let answer = server.get("ada", &format!("/tenants/acme/invoices/{theirs}"));
    assert_eq!(answer.status, 404, "{answer:?}");
    let (status, out, err) = place.run(&format!("jobs show --tenant acme {theirs}"));
    assert!(status == 1 && !err.contains("globex"), "as an unknown one: {out}{err}");

    // Its id taken for one of acme's own, it is another job; pushed again, it is the same.
    let draft = draft(&format!(r#""id":"{theirs}""#));
    let answers = [0, 1].map(|_| server.post("ada", own, &draft).status);
    assert_eq!(answers, [202, 200], "a repeated request");
    server.until_sent("ada", "acme", 1, 0);
    server.stop();
}

/// `demo` says what came of it.
pub fn demo(place: &Place) {
    let (status, out, err) = ended(&mut place.command("demo"));
    assert_eq!(status, 0, "{out}{err}");
    for words in ["acme", "globex", "initech", "403", "all jobs are done"] {
        assert!(out.contains(words), "no {words}: {out}");
    }
}
