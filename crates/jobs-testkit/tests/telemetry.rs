//! K11: what a run tells a tracing subscriber and a metrics recorder that the application installed
//! before its worker started. Both are global, so this is a process of its own, with one test.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use jobs_core::{
    Job, JobType, QueueExt, grant_without_user,
    worker::{Context, Failure},
};
use jobs_testkit::app::App;
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct SendMail(u64);

impl JobType for SendMail {
    const NAME: &'static str = "mail.send";
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The fields of every span called `job`.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").replace('"', ""));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "job"
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spans.push(fields);
        span::Id::from_u64(spans.len() as u64)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Every counter, by its name and labels.
#[derive(Clone, Debug, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, Arc<Count>>>>);

#[derive(Debug, Default)]
struct Count(AtomicU64);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }
    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

impl Counters {
    /// What was counted, without what stayed zero.
    fn seen(&self) -> BTreeMap<String, u64> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read =
            |(key, count): (&String, &Arc<Count>)| (key.clone(), count.0.load(Ordering::SeqCst));
        counters.iter().map(read).filter(|(_, count)| *count > 0).collect()
    }
}

impl metrics::Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counter::from_arc(counters.entry(name).or_default().clone())
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn k11_a_span_and_counters_per_run() {
    let (spans, counters) = (Spans::default(), Counters::default());
    tracing::subscriber::set_global_default(spans.clone()).expect("the first subscriber");
    metrics::set_global_recorder(counters.clone()).expect("the first recorder");

    let app = App::default();
    let grant = grant_without_user("test", "mail.send", "acme").expect("a legal tenant");
    let linked = Job::of(&grant, &SendMail(1)).expect("it is JSON").meta("traceparent", PARENT);
    let (id, store) = (linked.id, app.store());
    assert!(store.push(&grant, linked).await.is_ok());
    assert!(store.push(&grant, SendMail(2)).await.is_ok());
    let handler = async |_: Context, SendMail(number): SendMail| match number {
        1 => Ok(()),
        _ => Err(Failure::park("no such mail")),
    };
    let ended = app.drain(app.worker::<SendMail>().handle(handler)).await;
    assert_eq!(ended.exit_code(), 0);

    let seen = spans.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(seen.len(), 2, "one span per run");
    let linked = seen.iter().find(|fields| fields["id"] == id.to_string()).expect("its span");
    assert_eq!(linked["traceparent"], PARENT, "linked to the span that pushed");
    let said = ["name", "tenant", "attempt"].map(|field| linked[field].as_str());
    assert_eq!(said, ["mail.send", "acme", "1"]);
    assert_eq!(seen.iter().filter(|fields| fields.contains_key("traceparent")).count(), 1);

    let counted = counters.seen();
    let run =
        |outcome| format!("jobs_runs_total{{queue=default,name=mail.send,outcome={outcome}}}");
    assert_eq!((counted[&run("done")], counted[&run("park")]), (1, 1), "{counted:?}");
    assert_eq!(counted["jobs_reserved_total{queue=default}"], 2, "{counted:?}");
    let named = |key: &String| key.contains(&id.to_string()) || key.contains("acme");
    assert!(!counted.keys().any(named), "no label is an id or a tenant: {counted:?}");
}
